"""Softmax, log-softmax, their gradients and cross-entropy as operators of PyTorch, by the kernels of this repository.

    import torch_operators as rowwise      # with common/rowwise/python on the path
    y = rowwise.softmax(x, dim=-1)
    loss = rowwise.cross_entropy(logits, labels)

They are torch.ops.rowwise.*, with fake implementations, so that torch.compile and CUDA graphs take them, and with gradients. They
call build/librowwise.so (cmake --build build --target rowwise; or the library that ROWWISE_LIBRARY names) through ctypes, on the
current stream of the tensor's device. float32, float16 and bfloat16. A dimension that is not the last, or not contiguous, is
copied first.
"""

import ctypes
import os
from ctypes import c_char_p, c_int, c_int64, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
OPERATIONS = ("softmax", "log_softmax", "softmax_backward", "log_softmax_backward", "cross_entropy", "cross_entropy_gradient")
IGNORED_LABEL = -100


# ---- The library: see softmax_c.h.


@cache
def _library() -> ctypes.CDLL:
    built = Path(__file__).resolve().parents[3] / "build/librowwise.so"
    path = os.environ.get("ROWWISE_LIBRARY", str(built))
    if not Path(path).is_file():
        raise RuntimeError(f"{path} is missing: cmake --build build --target rowwise")
    library = ctypes.CDLL(path)
    library.rowwise_error.restype = c_char_p
    library.rowwise_workspace_bytes.argtypes = [c_int, c_int, c_int64, c_int64, ctypes.POINTER(c_size_t)]
    for name, pointers in zip(OPERATIONS, (2, 2, 3, 3, 3, 4)):
        types = [c_int, *[c_void_p] * pointers, c_int64, c_int64, c_void_p, c_size_t, c_void_p]
        getattr(library, f"rowwise_{name}").argtypes = types
    return library


def _raise_unless(code: int) -> None:
    if code:
        text = _library().rowwise_error().decode()
        raise ValueError(text) if code == 1 else RuntimeError(text)


@cache
def _workspace_bytes(operation: str, dtype: torch.dtype, rows: int, cols: int, _device: int) -> int:
    size = c_size_t()
    number = OPERATIONS.index(operation)
    _raise_unless(_library().rowwise_workspace_bytes(number, DTYPES[dtype], rows, cols, ctypes.byref(size)))
    return size.value


# One for each stream: every call leaves it zero for the next.
_workspaces: dict[tuple[int, int], Tensor] = {}


def _workspace(size: int, device: int, stream: int) -> Tensor:
    if torch.cuda.is_current_stream_capturing():  # the memory belongs to the graph, and is set to zero there
        return torch.zeros(size, dtype=torch.uint8, device=device)
    found = _workspaces.get((device, stream))
    if found is None or found.numel() < size:
        found = _workspaces[device, stream] = torch.zeros(size, dtype=torch.uint8, device=device)
    return found


def _call(operation: str, rows: int, cols: int, *tensors: Tensor) -> None:
    """On contiguous tensors of one device, the first of them a matrix."""
    device = tensors[0].device.index
    if device != torch.cuda.current_device():  # it seldom is, and to set and reset it costs each call
        with torch.cuda.device(device):
            return _call(operation, rows, cols, *tensors)
    stream = torch.cuda.current_stream().cuda_stream
    size = _workspace_bytes(operation, tensors[0].dtype, rows, cols, device) if rows else 0
    workspace = _workspace(size, device, stream) if size else None
    function = getattr(_library(), f"rowwise_{operation}")
    pointers = [tensor.data_ptr() for tensor in tensors]
    given = (workspace.data_ptr(), workspace.numel()) if workspace is not None else (None, 0)
    _raise_unless(function(DTYPES[tensors[0].dtype], *pointers, rows, cols, *given, stream))


# ---- Refusals, also before anything runs: by the fake implementations.


def _check(name: str, x: Tensor) -> None:
    if x.device.type != "cuda":
        raise ValueError(f"{name} is on {x.device}; a CUDA tensor is needed")
    if x.dtype not in DTYPES:
        raise ValueError(f"{name} is {x.dtype}; float32, float16 or bfloat16 is needed")


def _check_like(name: str, other: Tensor, like_name: str, like: Tensor) -> None:
    _check(like_name, like)
    for what in ("device", "dtype", "shape"):
        if getattr(other, what) != getattr(like, what):
            raise ValueError(f"{what} of {name}: {getattr(other, what)}, and of {like_name}: {getattr(like, what)}")


def _check_labels(x: Tensor, labels: Tensor) -> None:
    _check("x", x)
    if x.dim() != 2 or labels.dim() != 1 or x.shape[0] != labels.shape[0]:
        raise ValueError(f"x must be rows x columns, with a label for each row: {tuple(x.shape)} and {tuple(labels.shape)}")
    if labels.dtype != torch.int64:
        raise ValueError(f"labels are {labels.dtype}; int64 is needed")
    if labels.device != x.device:
        raise ValueError(f"device of labels: {labels.device}, and of x: {x.device}")


# ---- Softmax and log-softmax.


def _is_last(x: Tensor, dim: int) -> bool:
    return x.dim() > 0 and dim in (-1, x.dim() - 1)


def _with_rows(x: Tensor, dim: int) -> Tensor:
    """The dimension comes last; a scalar is a row of one element. Raises IndexError where there is no such dimension."""
    if _is_last(x, dim):
        return x
    return (x if x.dim() else x.unsqueeze(0)).movedim(dim, -1)


def _result(rows: Tensor, x: Tensor, dim: int) -> Tensor:
    if _is_last(x, dim):
        return rows
    return rows.movedim(-1, dim) if x.dim() else rows.squeeze(0)


def _empty(x: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _run(operation: str, dim: int, *inputs: Tensor) -> Tensor:
    tensors = [_with_rows(tensor, dim).contiguous() for tensor in inputs]
    out = _empty(tensors[0])
    cols = out.shape[-1]
    _call(operation, out.numel() // cols if cols else 0, cols, *tensors, out)
    return _result(out, inputs[0], dim)


@torch.library.custom_op("rowwise::softmax", mutates_args=())
def _softmax(x: Tensor, dim: int) -> Tensor:
    _check("x", x)
    return _run("softmax", dim, x)


@torch.library.custom_op("rowwise::log_softmax", mutates_args=())
def _log_softmax(x: Tensor, dim: int) -> Tensor:
    _check("x", x)
    return _run("log_softmax", dim, x)


@torch.library.custom_op("rowwise::softmax_backward", mutates_args=())
def _softmax_backward(dy: Tensor, y: Tensor, dim: int) -> Tensor:
    _check_like("dy", dy, "y", y)
    return _run("softmax_backward", dim, y, dy)


@torch.library.custom_op("rowwise::log_softmax_backward", mutates_args=())
def _log_softmax_backward(dy: Tensor, y: Tensor, dim: int) -> Tensor:
    _check_like("dy", dy, "y", y)
    return _run("log_softmax_backward", dim, y, dy)


def _fake(x: Tensor, dim: int) -> Tensor:
    _check("x", x)
    return _result(_empty(_with_rows(x, dim)), x, dim)


def _fake_backward(dy: Tensor, y: Tensor, dim: int) -> Tensor:
    _check_like("dy", dy, "y", y)
    return _fake(y, dim)


def _keep_result(ctx: Any, inputs: tuple[Tensor, int], output: Tensor) -> None:
    ctx.dim = inputs[1]
    ctx.save_for_backward(output)


def _register(forward: Any, backward: Any) -> None:
    """The gradient of the first operator is the second."""
    forward.register_fake(_fake)
    backward.register_fake(_fake_backward)

    def gradient(ctx: Any, dy: Tensor) -> tuple[Tensor, None]:
        return backward(dy, *ctx.saved_tensors, ctx.dim), None

    forward.register_autograd(gradient, setup_context=_keep_result)


_register(_softmax, _softmax_backward)
_register(_log_softmax, _log_softmax_backward)


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """As torch.softmax."""
    return _softmax(x, dim)


def log_softmax(x: Tensor, dim: int = -1) -> Tensor:
    """As torch.log_softmax."""
    return _log_softmax(x, dim)


# ---- Cross-entropy.


@torch.library.custom_op("rowwise::cross_entropy", mutates_args=())
def _cross_entropy(x: Tensor, labels: Tensor) -> Tensor:
    """The loss of each row, in float32."""
    _check_labels(x, labels)
    loss = torch.empty(labels.shape, dtype=torch.float32, device=x.device)
    _call("cross_entropy", *x.shape, x.contiguous(), labels.contiguous(), loss)
    return loss


@torch.library.custom_op("rowwise::cross_entropy_gradient", mutates_args=())
def _cross_entropy_gradient(x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The loss of each row, and the gradient of each row's own loss: x is read once for both."""
    _check_labels(x, labels)
    loss = torch.empty(labels.shape, dtype=torch.float32, device=x.device)
    dx = _empty(x)
    _call("cross_entropy_gradient", *x.shape, x.contiguous(), labels.contiguous(), loss, dx)
    return loss, dx


@_cross_entropy.register_fake
def _fake_cross_entropy(x: Tensor, labels: Tensor) -> Tensor:
    _check_labels(x, labels)
    return torch.empty(labels.shape, dtype=torch.float32, device=x.device)


@_cross_entropy_gradient.register_fake
def _fake_cross_entropy_gradient(x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    return _fake_cross_entropy(x, labels), _empty(x)


def _keep_inputs(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _gradient_of_rows(ctx: Any, d_loss: Tensor) -> tuple[Tensor, None]:
    _, dx = _cross_entropy_gradient(*ctx.saved_tensors)
    return dx.mul_(d_loss.unsqueeze(1)), None  # a product of its own would be float32, and then be converted


_cross_entropy.register_autograd(_gradient_of_rows, setup_context=_keep_inputs)


def cross_entropy(x: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    """As torch.nn.functional.cross_entropy of rows x columns. The loss is float32. A label that is neither a column nor
    IGNORED_LABEL makes it NaN."""
    loss = _cross_entropy(x, labels)
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum()
    if reduction == "mean":
        return loss.sum() / (labels != IGNORED_LABEL).sum()
    raise ValueError(f"reduction: '{reduction}'; none, sum or mean is needed")
