"""PyTorch's softmax of a matrix whose columns are split over all GPUs, as its users write it: eager and compiled.

    python several_gpus_peers.py '[["bf16", 4096, 151936, "softmax"]]'

Prints JSON: of each shape and way the time of the slowest GPU. Started by several_gpus.py; a process for each GPU.
"""

import json
import os
import statistics
import sys
from typing import Any, Callable

import torch
import torch.distributed as dist
import torch.multiprocessing

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
LAUNCHES, SAMPLES, L2_BYTES = 8, 15, 64 << 20


def split_softmax(x: torch.Tensor) -> torch.Tensor:
    maximum = x.amax(-1, keepdim=True)
    dist.all_reduce(maximum, op=dist.ReduceOp.MAX)
    exponentials = torch.exp(x.float() - maximum)
    total = exponentials.sum(-1, keepdim=True)
    dist.all_reduce(total)
    return (exponentials / total).to(x.dtype)


def time_us(function: Callable[[torch.Tensor], torch.Tensor], inputs: list[torch.Tensor]) -> float:
    """The median, of the slowest GPU; each launch finds its input cold."""
    for x in inputs * 2:
        function(x)
    samples = []
    for _ in range(SAMPLES):
        dist.barrier()
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for i in range(LAUNCHES):
            function(inputs[i % len(inputs)])
        end.record()
        end.synchronize()
        slowest = torch.tensor([1e3 * begin.elapsed_time(end) / LAUNCHES], device="cuda")
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        samples.append(slowest.item())
    return statistics.median(samples)


def check(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> None:
    sums = function(x).double().sum(-1)
    dist.all_reduce(sums)
    assert (sums - 1).abs().max() < 1e-2, "rows do not add up to 1"


def work(rank: int, gpus: int, shapes: list[Any]) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(gpus), MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    found = []
    for dtype, rows, cols, _ in shapes:
        first = min(rank * -(-cols // gpus), cols)
        count = min(-(-cols // gpus), cols - first)
        torch.manual_seed(rank)
        sets = max(2, 3 * L2_BYTES // (rows * count * DTYPES[dtype].itemsize) + 1)
        inputs = [torch.randn(rows, count, dtype=DTYPES[dtype], device="cuda") for _ in range(min(sets, 8))]
        for name, function in (("torch_eager", split_softmax), ("torch_compiled", torch.compile(split_softmax))):
            check(function, inputs[0])
            found.append({"stage": "peers", "variant": name, "dtype": dtype, "op": "softmax", "rows": rows, "cols": cols,
                          "status": "verified", "time_us": time_us(function, inputs)})  # fmt: skip
    if rank == 0:
        print(json.dumps(found), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    count = torch.cuda.device_count()
    torch.multiprocessing.spawn(work, (count, json.loads(sys.argv[1])), count)
