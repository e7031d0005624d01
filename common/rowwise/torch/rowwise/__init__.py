"""Softmax, log-softmax, their gradients and cross-entropy as operators of PyTorch: torch.ops.rowwise.*.

    import rowwise
    y = rowwise.softmax(x, dim=-1)
    loss = rowwise.cross_entropy(logits, labels)

They take float32, float16 and bfloat16 on CUDA, have gradients, and work in torch.compile and in CUDA graphs, on the current stream
of the tensor's device. A tensor in which the dimension is not the last, or which is not contiguous, is copied first.
rowwise.functional has PyTorch's own signatures, for all tensors.
"""

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from rowwise import _C  # registers the operators

IGNORED_LABEL = -100
_OPERATORS = torch.ops.rowwise

# torch.compile knows the operators, but not the functions of _C, which are the faster way to them.


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """As torch.softmax."""
    return _OPERATORS.softmax(x, dim) if is_dynamo_compiling() else _C.softmax(x, dim)


def log_softmax(x: Tensor, dim: int = -1) -> Tensor:
    """As torch.log_softmax."""
    return _OPERATORS.log_softmax(x, dim) if is_dynamo_compiling() else _C.log_softmax(x, dim)


def cross_entropy(x: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    """As torch.nn.functional.cross_entropy of rows x columns. The loss is float32. A label that is neither a column nor
    IGNORED_LABEL makes it NaN. If x requires a gradient, the gradient is computed with the loss, and kept instead of x."""
    return _OPERATORS.cross_entropy(x, labels, reduction) if is_dynamo_compiling() else _C.cross_entropy(x, labels, reduction)
