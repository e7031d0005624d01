"""The stages as a library: common/harness/c/c_interface.h for Python.

    with Harness(build, "cold") as harness:
        harness.add_stages(["03_warp_reduce"])
        harness.open_problem(Shape("f16", 49152, 1024), "softmax", "normal", seed=1, offset=0)
        for number, contender in enumerate(harness.contenders()): ...

Units: time in µs, sizes in bytes. Device pointers and streams are whole numbers.
"""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, byref, c_char, c_char_p, c_double, c_int, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Callable, List, NamedTuple, Optional, Sequence

from command import NoDevice, ToolError
from measure.results import Json, Shape

LIBRARY = "libsoftmax_harness.so"
Launch = Callable[..., None]  # (each input, each output, stream), for softmax (x, y, stream): enqueues one launch, or raises


class HarnessError(ToolError):
    """A call of the library failed; `code` is a stage's exit code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Contender(NamedTuple):
    stage: str  # a stage's folder, a peer's name, or "" for the copy
    name: str


class Verdict(NamedTuple):
    correct: bool
    explanation: str
    max_error: float


class Timing(NamedTuple):
    time_us: float
    spread_percent: float
    copy_us: float
    copy_spread_percent: float
    note: str  # what makes the time doubtful; empty when nothing does


class Tensor(NamedTuple):
    """Row-major."""

    name: str
    dtype: str
    rows: int
    cols: int
    is_output: bool


class _Device(ctypes.Structure):
    _fields_ = [
        ("gpu", c_char * 256),
        ("compute_capability", c_char * 16),
        ("cuda_driver", c_char * 16),
        ("cuda_runtime", c_char * 16),
        ("multiprocessors", c_int64),
        ("l2_bytes", c_int64),
        ("memory_bytes", c_int64),
        ("simulated", c_int64),
    ]


class _Contender(ctypes.Structure):
    _fields_ = [("stage", c_char * 64), ("name", c_char * 64), ("idea", c_char * 256)]


class _Applicability(ctypes.Structure):
    _fields_ = [("reason", c_char * 512), ("passes", c_double)]


class _Verdict(ctypes.Structure):
    _fields_ = [("explanation", c_char * 512), ("max_error", c_double), ("correct", c_int64)]


class _Timing(ctypes.Structure):
    _fields_ = [(name, c_char * 128 if name == "note" else c_double) for name in Timing._fields]


class _Tensor(ctypes.Structure):
    _fields_ = [("name", c_char * 32), ("dtype", c_char * 8), ("rows", c_int64), ("cols", c_int64), ("is_output", c_int64)]


_Launch = CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p), POINTER(c_void_p), c_void_p)

# name: (result, arguments); a session comes first in all but the first two.
_FUNCTIONS = {
    "softmax_error": (c_char_p, []),
    "softmax_open": (c_int, [c_char_p, POINTER(c_void_p)]),
    "softmax_close": (None, [c_void_p]),
    "softmax_describe_device": (None, [c_void_p, POINTER(_Device)]),
    "softmax_synchronize": (c_int, [c_void_p]),
    "softmax_add_stage": (c_int, [c_void_p, c_char_p]),
    "softmax_add_contender": (c_int, [c_void_p, c_char_p, c_char_p, _Launch, c_void_p]),
    "softmax_num_contenders": (c_int, [c_void_p]),
    "softmax_describe": (c_int, [c_void_p, c_int, POINTER(_Contender)]),
    "softmax_open_problem": (
        c_int,
        [c_void_p, c_char_p, c_char_p, c_int64, c_int64, c_char_p, c_uint64, c_int64],
    ),
    "softmax_close_problem": (None, [c_void_p]),
    "softmax_num_tensors": (c_int, [c_void_p]),
    "softmax_describe_tensor": (c_int, [c_void_p, c_int, POINTER(_Tensor)]),
    "softmax_applies": (c_int, [c_void_p, c_int, POINTER(_Applicability)]),
    "softmax_verify": (c_int, [c_void_p, c_int, c_double, POINTER(_Verdict)]),
    "softmax_time": (c_int, [c_void_p, c_int, c_int, c_int, c_int, POINTER(_Timing)]),
}


def library_in(build: Path) -> Path:
    """The library's file. Raises ToolError when it has not been built."""
    path = build / LIBRARY
    if not path.is_file():
        raise ToolError(f"not built: {path} (cmake --build {build} --target stage_libraries)")
    return path


def _text(field: bytes) -> str:
    return field.decode("utf-8", errors="replace")


class Harness:
    """One session of the library; a contender is named by its number in contenders()."""

    def __init__(self, build: Path, l2: str) -> None:
        """Raises NoDevice without a usable GPU, ToolError when the library is missing."""
        path = library_in(build)
        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise ToolError(f"cannot load {path}: {error}") from error
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, arguments
        self._build = build
        self._session = c_void_p()
        self._callbacks: List[object] = []  # ctypes must not free them
        self._raised: Optional[BaseException] = None
        self._num_tensors = (0, 0)  # inputs and outputs of the open problem
        self._check(self._library.softmax_open(l2.encode(), byref(self._session)))

    def __enter__(self) -> Harness:
        return self

    def __exit__(self, *_: object) -> None:
        self._library.softmax_close(self._session)
        self._session = c_void_p()

    def _check(self, code: int) -> None:
        """Raises what a launch callback raised, or what the library says."""
        raised, self._raised = self._raised, None
        if code == 0:
            return
        if raised is not None:
            raise raised
        text = _text(self._library.softmax_error())
        raise NoDevice(text) if code == 3 else HarnessError(code, text)

    def device(self) -> Json:
        """The `machine` object of the stages' JSON, and `simulated`."""
        device = _Device()
        self._library.softmax_describe_device(self._session, byref(device))
        named = {name: getattr(device, name) for name, _ in _Device._fields_}
        machine = {name: _text(value) if isinstance(value, bytes) else value for name, value in named.items()}
        order = ("gpu", "compute_capability", "multiprocessors", "l2_bytes", "memory_bytes", "cuda_driver")
        return {name: machine[name] for name in (*order, "cuda_runtime", "simulated")}

    def is_alive(self) -> bool:
        """False when an earlier launch has cost the process its GPU: nothing works any more."""
        return self._library.softmax_synchronize(self._session) == 0

    def add_stages(self, stages: List[str]) -> None:
        for stage in stages:
            path = self._build / f"libstage_{stage}.so"
            if not path.is_file():
                raise ToolError(f"not built: {path} (cmake --build {self._build} --target stage_libraries)")
            self._check(self._library.softmax_add_stage(self._session, str(path).encode()))

    def add_contender(self, stage: str, name: str, launch: Launch) -> int:
        """Adds whatever `launch` enqueues; what it raises comes out of verify() and time(). Returns its number."""

        def call(_context: object, inputs: Sequence[int], outputs: Sequence[int], stream: Optional[int]) -> int:
            try:
                num_inputs, num_outputs = self._num_tensors
                launch(*inputs[:num_inputs], *outputs[:num_outputs], stream or 0)
                return 0
            except BaseException as error:  # an interrupt too: it must not get lost in the C frames between
                self._raised = error
                return 1

        callback = _Launch(call)
        self._callbacks.append(callback)
        self._check(self._library.softmax_add_contender(self._session, stage.encode(), name.encode(), callback, None))
        return self._library.softmax_num_contenders(self._session) - 1

    def contenders(self) -> List[Contender]:
        found = []
        for number in range(self._library.softmax_num_contenders(self._session)):
            description = _Contender()
            self._check(self._library.softmax_describe(self._session, number, byref(description)))
            found.append(Contender(_text(description.stage), _text(description.name)))
        return found

    def open_problem(self, shape: Shape, op: str, input_kind: str, seed: int, offset: int) -> None:
        """Allocates and fills. Raises HarnessError (code 2) when the shape does not fit the device's memory."""
        self._check(
            self._library.softmax_open_problem(
                self._session,
                shape.dtype.encode(),
                op.encode(),
                shape.rows,
                shape.cols,
                input_kind.encode(),
                seed,
                offset,
            )
        )

        outputs = [tensor.is_output for tensor in self.tensors()]
        self._num_tensors = (outputs.count(False), outputs.count(True))

    def tensors(self) -> List[Tensor]:
        """Of the open problem: its inputs, then its outputs."""
        found = []
        for number in range(self._library.softmax_num_tensors(self._session)):
            description = _Tensor()
            self._check(self._library.softmax_describe_tensor(self._session, number, byref(description)))
            name, dtype = _text(description.name), _text(description.dtype)
            found.append(Tensor(name, dtype, description.rows, description.cols, bool(description.is_output)))
        return found

    def close_problem(self) -> None:
        self._library.softmax_close_problem(self._session)

    def applies(self, number: int) -> tuple:
        """(why the contender cannot do the open problem, or "", passes that it declares, or None)"""
        found = _Applicability()
        self._check(self._library.softmax_applies(self._session, number, byref(found)))
        return _text(found.reason), found.passes or None

    def verify(self, number: int, tolerance_factor: float = 1) -> Verdict:
        """One launch, every element compared; wrong is what errs by more than `tolerance_factor` times the allowed."""
        found = _Verdict()
        self._check(self._library.softmax_verify(self._session, number, tolerance_factor, byref(found)))
        return Verdict(bool(found.correct), _text(found.explanation), found.max_error)

    def time(self, number: int, repeats: int, warm_up_ms: int, limit_ms: int) -> Timing:
        """Medians of `repeats` samples; of fewer, but at least 5, when these take longer than `limit_ms`."""
        found = _Timing()
        self._check(self._library.softmax_time(self._session, number, repeats, warm_up_ms, limit_ms, byref(found)))
        values = (getattr(found, name) for name in Timing._fields)
        return Timing(*(_text(value) if isinstance(value, bytes) else value for value in values))
