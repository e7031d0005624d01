"""Liger's softmax: its own Triton kernel with its own settings, launched with our tensor as the output.

LigerSoftmaxFunction would allocate the output first. Rows wider than its largest block go to its second kernel,
where the installed version has one.
"""

from __future__ import annotations

from importlib import metadata
from typing import List

from . import Candidate, Missing, NotApplicable, PeerContender, Problem
from .torch_tensors import import_torch, on_tensors, release

LARGEST_BLOCK = 65536


def version() -> str:
    import_torch()
    try:
        return metadata.version("liger_kernel")
    except metadata.PackageNotFoundError as error:
        raise Missing("Liger-Kernel is not installed for this python3") from error


def _prepare(problem: Problem) -> List[Candidate]:
    if problem.op != "softmax":
        raise NotApplicable("Liger has no log-softmax")
    from liger_kernel.ops import softmax
    from liger_kernel.ops.utils import calculate_settings

    kernel = softmax._softmax_single_block_forward_kernel
    if problem.cols > LARGEST_BLOCK:
        kernel = softmax._softmax_multi_block_forward_kernel
    block, warps = calculate_settings(min(problem.cols, LARGEST_BLOCK))

    def run(x, y):
        kernel[(problem.rows,)](y, y.stride(0), x, x.stride(0), problem.cols, BLOCK_SIZE=block, num_warps=warps)

    return [Candidate(f"{warps} warps", on_tensors(problem, run))]


def contenders() -> List[PeerContender]:
    return [PeerContender("liger", "softmax", _prepare, release)]
