"""Liger's softmax: its own Triton kernel with its own settings, launched with our tensor as the output.

LigerSoftmaxFunction would allocate the output first. Rows wider than its largest block go to its second kernel,
where the installed version has one.
"""

from __future__ import annotations


from . import Candidate, PeerContender, Problem
from .torch_tensors import on_tensors, release, version_of

LARGEST_BLOCK = 65536


def version() -> str:
    return version_of("liger_kernel", "Liger-Kernel")


def _prepare(problem: Problem) -> list[Candidate]:
    from liger_kernel.ops import softmax
    from liger_kernel.ops.utils import calculate_settings

    kernel = softmax._softmax_single_block_forward_kernel
    if problem.cols > LARGEST_BLOCK:
        kernel = softmax._softmax_multi_block_forward_kernel
    block, warps = calculate_settings(min(problem.cols, LARGEST_BLOCK))

    def run(x, y):
        kernel[(problem.rows,)](y, y.stride(0), x, x.stride(0), problem.cols, BLOCK_SIZE=block, num_warps=warps)

    return [Candidate(f"{warps} warps", on_tensors(problem, run))]


def contenders() -> list[PeerContender]:
    return [PeerContender("liger", "softmax", _prepare, release, ["softmax"])]
