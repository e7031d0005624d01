"""The harness's device memory as PyTorch tensors, and its stream as PyTorch's current one."""

from __future__ import annotations

import functools
from importlib import metadata
from types import SimpleNamespace
from typing import Any, Callable

from . import Missing, Problem

# The interface knows no bfloat16: the same two bytes travel as an integer.
_TYPES = {"f32": ("<f4", "float32"), "f16": ("<f2", "float16"), "bf16": ("<i2", "bfloat16")}


@functools.cache
def import_torch() -> Any:
    """PyTorch with a GPU. Raises Missing."""
    try:
        import torch
    except ImportError as error:
        raise Missing("PyTorch is not installed for this python3") from error
    if not torch.cuda.is_available():
        raise Missing(f"PyTorch {torch.__version__} sees no GPU (built without CUDA, or for a newer driver)")
    return torch


def version_of(package: str, name: str) -> str:
    """The version of a package that needs PyTorch. Raises Missing."""
    import_torch()
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError as error:
        raise Missing(f"{name} is not installed for this python3") from error


def dtype_of(problem: Problem) -> Any:
    return getattr(import_torch(), _TYPES[problem.dtype][1])


def on_tensors(problem: Problem, function: Callable[[Any, Any], object]) -> Callable[[int, int, int], None]:
    """A launch that calls function(x, y) with rows x cols tensors over the harness's memory, on its stream."""
    torch = import_torch()

    @functools.cache
    def tensor(pointer: int) -> Any:
        shape, type_ = (problem.rows, problem.cols), _TYPES[problem.dtype][0]
        interface = {"shape": shape, "typestr": type_, "data": (pointer, False), "strides": None, "version": 3}
        wrapped = torch.as_tensor(SimpleNamespace(__cuda_array_interface__=interface), device="cuda")
        return wrapped.view(dtype_of(problem))

    def launch(x: int, y: int, stream: int) -> None:
        with torch.cuda.stream(torch.cuda.ExternalStream(stream)), torch.no_grad():
            function(tensor(x), tensor(y))

    return launch


def release() -> None:
    """Gives the memory that PyTorch's allocator keeps back to the device, for the next problem's tensors."""
    import_torch().cuda.empty_cache()
