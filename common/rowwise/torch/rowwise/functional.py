"""softmax, log_softmax and cross_entropy in place of those of torch.nn.functional, with the same signatures.

    import rowwise.functional as F

rowwise computes float32, float16 and bfloat16 on CUDA, and cross-entropy if it is of rows x columns with a label per row, without
weights, smoothing or another ignored label. PyTorch computes everything else. Two things differ from PyTorch: a label that is out of
range makes the loss NaN instead of stopping the program, and a second derivative of cross-entropy, or a forward-mode derivative, is
refused.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

import rowwise

__all__ = ["cross_entropy", "log_softmax", "softmax"]

_TYPES = (Tensor, torch.nn.Parameter)
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def _is_ours(x: Tensor) -> bool:
    return type(x) in _TYPES and x.is_cuda and x.dtype in _DTYPES


def _stays(x: Tensor, dtype: torch.dtype | None) -> bool:
    """Whether the result's type is the one that the operator chooses."""
    return dtype is None or dtype == x.dtype == torch.float32


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None) -> Tensor:
    """As torch.nn.functional.softmax."""
    if dim is not None and _is_ours(input) and _stays(input, dtype):
        return rowwise.softmax(input, dim)
    return functional.softmax(input, dim, _stacklevel + 1, dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None) -> Tensor:
    """As torch.nn.functional.log_softmax."""
    if dim is not None and _is_ours(input) and _stays(input, dtype):
        return rowwise.log_softmax(input, dim)
    return functional.log_softmax(input, dim, _stacklevel + 1, dtype)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = rowwise.IGNORED_LABEL,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """As torch.nn.functional.cross_entropy."""
    if (
        weight is size_average is reduce is None
        and ignore_index == rowwise.IGNORED_LABEL
        and label_smoothing == 0
        and _is_ours(input)
        and type(target) in _TYPES
        and target.dtype == torch.int64
        and target.device == input.device
        and input.dim() == 2
        and target.shape == input.shape[:1]
        and 0 < input.shape[1] <= 1 << 30
        and reduction in ("none", "sum", "mean")
    ):
        loss = rowwise.cross_entropy(input, target, reduction)
        # In 16 bits PyTorch's loss has the input's type, except under autocast.
        return loss if input.dtype == torch.float32 or torch.is_autocast_enabled("cuda") else loss.to(input.dtype)
    return functional.cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)
