"""The harness's device memory as PyTorch tensors, and its stream as PyTorch's current one."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Dict, Iterator, Tuple

from . import Missing, Problem

# The interface knows no bfloat16: the same two bytes travel as an integer.
_TYPES = {"f32": ("<f4", "float32"), "f16": ("<f2", "float16"), "bf16": ("<i2", "bfloat16")}


@functools.lru_cache(maxsize=None)
def import_torch() -> Any:
    """PyTorch with a GPU. Raises Missing."""
    try:
        import torch
    except ImportError as error:
        raise Missing("PyTorch is not installed for this python3") from error
    if not torch.cuda.is_available():
        raise Missing(f"PyTorch {torch.__version__} sees no GPU (built without CUDA, or for a newer driver)")
    return torch


class _DeviceMemory:
    def __init__(self, pointer: int, problem: Problem) -> None:
        self.__cuda_array_interface__ = {
            "shape": (problem.rows, problem.cols),
            "typestr": _TYPES[problem.dtype][0],
            "data": (pointer, False),
            "strides": None,
            "version": 3,
        }


def tensor(pointer: int, problem: Problem) -> Any:
    """A rows x cols tensor over memory that the harness owns."""
    torch = import_torch()
    wrapped = torch.as_tensor(_DeviceMemory(pointer, problem), device="cuda")
    return wrapped.view(getattr(torch, _TYPES[problem.dtype][1]))


@contextlib.contextmanager
def current_stream(stream: int) -> Iterator[None]:
    torch = import_torch()
    with torch.cuda.stream(torch.cuda.ExternalStream(stream)), torch.no_grad():
        yield


def on_tensors(problem: Problem, function: Callable[[Any, Any], object]) -> Callable[[int, int, int], None]:
    """A launch that calls function(x, y) with tensors, on the harness's stream."""
    tensors: Dict[Tuple[int, int], Tuple[Any, Any]] = {}

    def launch(x: int, y: int, stream: int) -> None:
        if (x, y) not in tensors:
            tensors[x, y] = tensor(x, problem), tensor(y, problem)
        with current_stream(stream):
            function(*tensors[x, y])

    return launch


def release() -> None:
    """Gives the memory that PyTorch's allocator keeps back to the device, for the next problem's tensors."""
    import_torch().cuda.empty_cache()
