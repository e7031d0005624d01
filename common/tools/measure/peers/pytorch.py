"""PyTorch, eager and compiled.

Eager: the operator beneath torch.softmax, with our tensor as its output; called through torch.softmax it would
first allocate one. Compiled: torch.compile makes one Triton kernel of the softmax and the copy into our
tensor. It is compiled for each shape by itself (dynamic=False): in the default mode, and where that pays in the
mode that tries out many configurations (max-autotune), too. CUDA graphs are ours for everybody, so its
own are off.
"""

from __future__ import annotations

import warnings

from measure.results import ELEMENT_BYTES

from . import Candidate, PeerContender, Problem
from .torch_tensors import import_torch, on_tensors, release

AUTOTUNE = "max-autotune-no-cudagraphs"
# To autotune takes 3 to 8 s a shape, to compile in the default mode 1 to 2 s, and the whole sweep should take
# minutes. On an H200 it made f16 49152 x 8192 faster by a fifth; f32 1024 x 65536 took the same time in
# both modes, and f16 49152 x 1024, 49152 x 64 and f32 1 x 1048576 were slower.
AUTOTUNE_COLS = range(4096, 65536)
AUTOTUNE_FROM_BYTES = 32 << 20


def version() -> str:
    return str(import_torch().__version__)


def _eager(problem: Problem) -> list[Candidate]:
    torch = import_torch()
    operator = torch.ops.aten._softmax.out if problem.op == "softmax" else torch.ops.aten._log_softmax.out
    return [Candidate("", on_tensors(problem, lambda x, y: operator(x, -1, False, out=y)))]


def modes(problem: Problem) -> list[str]:
    """The modes of torch.compile that are worth their time at this problem."""
    tensor_bytes = problem.rows * problem.cols * ELEMENT_BYTES[problem.dtype]
    pays = problem.cols in AUTOTUNE_COLS and tensor_bytes > AUTOTUNE_FROM_BYTES
    return ["default", AUTOTUNE] if pays else ["default"]


def _compiled(problem: Problem) -> list[Candidate]:
    torch = import_torch()
    function = torch.softmax if problem.op == "softmax" else torch.log_softmax

    def softmax_into(x, y):
        y.copy_(function(x, -1))

    torch.compiler.reset()  # forgets the last shape: PyTorch gives up on a function that it has compiled too often
    # It warns of its own choices for some shapes, in the middle of the progress bar.
    warnings.filterwarnings("ignore", module=r"torch\._inductor")

    compiled = {mode: torch.compile(softmax_into, fullgraph=True, dynamic=False, mode=mode) for mode in modes(problem)}
    return [Candidate(mode, on_tensors(problem, run)) for mode, run in compiled.items()]


def contenders() -> list[PeerContender]:
    prepare = {"eager": _eager, "compiled": _compiled}
    return [PeerContender("pytorch", name, prepare[name], release) for name in prepare]
