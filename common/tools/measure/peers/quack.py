"""quack's softmax (CuTe DSL), through the operator that takes its output as an argument."""

from __future__ import annotations

import importlib

from measure.results import ELEMENT_BYTES

from . import Candidate, NotApplicable, PeerContender, Problem
from .torch_tensors import on_tensors, release, version_of


def version() -> str:
    return version_of("quack-kernels", "quack (quack-kernels)")


def _prepare(problem: Problem) -> list[Candidate]:
    in_pack = 16 // ELEMENT_BYTES[problem.dtype]
    if problem.cols % in_pack:
        raise NotApplicable(f"rows of whole packs of 16 bytes only: {in_pack} columns")
    module = importlib.import_module("quack.softmax")  # `from quack import softmax` is the function of that name
    return [Candidate("", on_tensors(problem, module._softmax_fwd))]


def contenders() -> list[PeerContender]:
    return [PeerContender("quack", "softmax", _prepare, release, ["softmax"])]
