#!/usr/bin/env python3
"""Prints how long the host is busy with a call of PyTorch's operators and of those of the package rowwise: with float32 32 x 1000, for
which the GPU needs less time than the host.

    pip install --no-build-isolation ./common/rowwise && python3 common/rowwise/python/host_time.py

Exit codes: 0 fine; 3 no GPU, or no PyTorch.
"""

import argparse
import statistics
import sys
import time
from typing import Callable

try:
    import torch
except ImportError:
    print("host_time.py: PyTorch is not installed for this python3", file=sys.stderr)
    raise SystemExit(3) from None
import rowwise
import rowwise.functional
from torch import Tensor
from torch.nn import functional

ROWS, COLS = 32, 1000
CALLS = 200  # between two looks at the clock: fewer than the launches that may wait for the GPU

Call = Callable[[], object]


def microseconds(call: Call) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    seconds = time.perf_counter() - start
    torch.cuda.synchronize()
    return 1e6 * seconds / CALLS


def contenders() -> dict[str, tuple[Call, Call]]:
    """Each call by PyTorch and by rowwise."""
    x, dy = torch.randn(2, ROWS, COLS, device="cuda").unbind()
    labels = torch.randint(COLS, (ROWS,), device="cuda")
    wants_gradient = x.clone().requires_grad_()

    def both_ways(loss: Callable[[Tensor], Tensor], d_loss: Tensor) -> Call:
        return lambda: torch.autograd.grad(loss(wants_gradient), wants_gradient, d_loss)

    def calls(theirs: Callable[[Tensor], Tensor], ours: Callable[[Tensor], Tensor], name: str, dy: Tensor) -> dict[str, tuple[Call, Call]]:
        return {
            name: (lambda: theirs(x), lambda: ours(x)),
            f"{name}, gradient wanted": (lambda: theirs(wants_gradient), lambda: ours(wants_gradient)),
            f"{name}, forward and backward": (both_ways(theirs, dy), both_ways(ours, dy)),
        }

    one = torch.ones((), device="cuda")
    drop_in = rowwise.functional
    return {
        **calls(lambda x: torch.softmax(x, -1), lambda x: rowwise.softmax(x, -1), "softmax", dy),
        **calls(lambda x: functional.softmax(x, -1), lambda x: drop_in.softmax(x, -1), "functional.softmax", dy),
        **calls(
            lambda x: functional.cross_entropy(x, labels),
            lambda x: rowwise.cross_entropy(x, labels),
            "cross_entropy",
            one,
        ),
        **calls(
            lambda x: functional.cross_entropy(x, labels),
            lambda x: drop_in.cross_entropy(x, labels),
            "functional.cross_entropy",
            one,
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=50, help="measurements, of which the medians are printed (default: 50)")
    repeats = parser.parse_args().repeats
    if not torch.cuda.is_available():
        parser.exit(3, "host_time.py: PyTorch finds no GPU\n")
    print(f"{f'host time per call, µs, float32 {ROWS} x {COLS}':44} {'PyTorch':>8} {'rowwise':>8} {'ratio':>6}")
    for name, pair in contenders().items():
        for call in pair:
            microseconds(call)
        times = [[microseconds(call) for call in pair] for _ in range(repeats)]  # in turn
        theirs, ours = (statistics.median(column) for column in zip(*times))
        print(f"{name:44} {theirs:8.1f} {ours:8.1f} {ours / theirs:6.2f}", flush=True)


if __name__ == "__main__":
    main()
