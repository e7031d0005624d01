"""cuDNN's cudnnSoftmaxForward and cudnnSoftmaxBackward, called through ctypes; no Python package is needed.

CUDNN_SOFTMAX_ACCURATE (for log-softmax CUDNN_SOFTMAX_LOG), the algorithm that subtracts the maximum as every contender
here does. A row can be described as the channels of one image, with two modes that mean the same: both
are candidates.
"""

import contextlib
import ctypes
import functools
import importlib.util
from ctypes import byref, c_float, c_int, c_size_t, c_void_p
from pathlib import Path
from typing import Iterator

from . import GRADIENTS, OPERATIONS, Candidate, Missing, NotApplicable, PeerContender, Problem

_NCHW = 0
_DATA_TYPES = {"f32": 0, "f16": 2, "bf16": 9}
_ACCURATE, _LOG = 1, 2
_MODES = {"mode instance": 0, "mode channel": 1}
_LARGEST = 2**31 - 1


def _places() -> Iterator[str]:
    with contextlib.suppress(ImportError):
        wheel = importlib.util.find_spec("nvidia.cudnn")  # that PyTorch brings
        for folder in (wheel.submodule_search_locations or []) if wheel else []:
            yield str(Path(folder) / "lib/libcudnn.so.9")
    yield "libcudnn.so.9"
    yield "/usr/local/cuda/lib64/libcudnn.so.9"


def _load() -> ctypes.CDLL:
    for place in _places():
        try:
            library = ctypes.CDLL(place)
        except OSError:
            continue
        library.cudnnGetVersion.restype = c_size_t
        library.cudnnGetErrorString.restype = ctypes.c_char_p
        library.cudnnSetStream.argtypes = [c_void_p, c_void_p]
        library.cudnnSetTensor4dDescriptor.argtypes = [c_void_p, *6 * [c_int]]
        # (handle, algorithm, mode, alpha, descriptor and data of each input, beta, descriptor and data of the output)
        library.cudnnSoftmaxForward.argtypes = [c_void_p, c_int, c_int, *6 * [c_void_p]]
        library.cudnnSoftmaxBackward.argtypes = [c_void_p, c_int, c_int, *8 * [c_void_p]]
        return library
    raise Missing("libcudnn.so.9 was not found (neither the wheel nvidia-cudnn nor the loader's folders have it)")


def version() -> str:
    number = _load().cudnnGetVersion()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


class _Cudnn:
    """The library, its handle, and the descriptor of the problem at hand."""

    def __init__(self) -> None:
        self.library = _load()
        self.handle = c_void_p()
        self.descriptor = c_void_p()
        self.check(self.library.cudnnCreate(byref(self.handle)))
        self.check(self.library.cudnnCreateTensorDescriptor(byref(self.descriptor)))

    def check(self, status: int, error: type[Exception] = RuntimeError) -> None:
        if status != 0:
            raise error(self.library.cudnnGetErrorString(status).decode())

    def prepare(self, problem: Problem) -> list[Candidate]:
        if problem.rows * problem.cols > _LARGEST:
            raise NotApplicable("more than 2^31 - 1 elements")
        image = (_NCHW, _DATA_TYPES[problem.dtype], problem.rows, problem.cols, 1, 1)
        self.check(self.library.cudnnSetTensor4dDescriptor(self.descriptor, *image), NotApplicable)
        function = self.library.cudnnSoftmaxBackward if problem.op in GRADIENTS else self.library.cudnnSoftmaxForward
        algorithm = _LOG if problem.op.startswith("log") else _ACCURATE
        one, zero = c_float(1), c_float(0)

        def launch(mode: int, *memory: int) -> None:
            *inputs, output, stream = memory
            read = [argument for pointer in inputs for argument in (self.descriptor, pointer)]
            self.check(self.library.cudnnSetStream(self.handle, stream))
            tensors = (byref(one), *read, byref(zero), self.descriptor, output)
            self.check(function(self.handle, algorithm, mode, *tensors))

        return [Candidate(name, functools.partial(launch, mode)) for name, mode in _MODES.items()]


def contenders() -> list[PeerContender]:
    return [PeerContender("cudnn", "accurate", _Cudnn().prepare, operations=OPERATIONS)]
