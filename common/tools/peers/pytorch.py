"""PyTorch, eager and compiled.

Eager: the operator beneath torch.softmax, with our tensor as its output; called through torch.softmax it would
first allocate one. Compiled: torch.compile makes one Triton kernel of the softmax and the copy into our
tensor. It is compiled for each shape by itself (dynamic=False), in the mode that tries out several
configurations (max-autotune); CUDA graphs are ours for everybody, so its own are off.
"""

from __future__ import annotations

from typing import List

from results import Json

from . import Candidate, PeerContender, Problem
from .torch_tensors import import_torch, on_tensors, release

MODE = "max-autotune-no-cudagraphs"


def version() -> str:
    return str(import_torch().__version__)


def _eager(problem: Problem) -> List[Candidate]:
    torch = import_torch()
    operator = torch.ops.aten._softmax.out if problem.op == "softmax" else torch.ops.aten._log_softmax.out
    return [Candidate("", on_tensors(problem, lambda x, y: operator(x, -1, False, out=y)))]


def _compiled(problem: Problem) -> List[Candidate]:
    torch = import_torch()
    function = torch.softmax if problem.op == "softmax" else torch.log_softmax

    def softmax_into(x, y):
        y.copy_(function(x, -1))

    torch.compiler.reset()  # forgets the last shape: PyTorch gives up on a function that it has compiled too often
    compiled = torch.compile(softmax_into, fullgraph=True, dynamic=False, mode=MODE)
    return [Candidate(MODE, on_tensors(problem, compiled))]


def contenders(_gpu: Json) -> List[PeerContender]:
    return [PeerContender("pytorch", "eager", _eager, release), PeerContender("pytorch", "compiled", _compiled, release)]
