"""The stages as a library: common/harness/c/c_interface.h for Python.

    with Harness(build, "cold") as harness:
        harness.add_stages(["03_warp_reduce"])
        harness.open_problem(Shape("f16", 49152, 1024), "softmax", "normal", seed=1, offset=0)
        for number, contender in enumerate(harness.contenders()): ...

Units: time in µs, sizes in bytes. Device pointers and streams are whole numbers.
"""

from __future__ import annotations

import ctypes
import json
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_double, c_int, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Callable, List, NamedTuple, Optional, Sequence

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


_Launch = CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p), POINTER(c_void_p), c_void_p)

# name: (result, arguments); a session comes first where there is one.
_FUNCTIONS = {
    "softmax_error": (c_char_p, []),
    "softmax_told": (c_char_p, []),
    "softmax_open": (c_int, [c_char_p, POINTER(c_void_p)]),
    "softmax_close": (None, [c_void_p]),
    "softmax_synchronize": (c_int, [c_void_p]),
    "softmax_add_stage": (c_int, [c_void_p, c_char_p]),
    "softmax_add_contender": (c_int, [c_void_p, c_char_p, c_char_p, _Launch, c_void_p]),
    "softmax_contenders": (c_int, [c_void_p]),
    "softmax_open_problem": (c_int, [c_void_p, c_char_p, c_char_p, c_int64, c_int64, c_char_p, c_uint64, c_int64]),
    "softmax_close_problem": (None, [c_void_p]),
    "softmax_applies": (c_int, [c_void_p, c_int]),
    "softmax_verify": (c_int, [c_void_p, c_int, c_double]),
    "softmax_time": (c_int, [c_void_p, c_int, c_int, c_int, c_int]),
}


def library_in(build: Path) -> Path:
    """The library's file. Raises ToolError when it has not been built."""
    path = build / LIBRARY
    if not path.is_file():
        raise ToolError(f"not built: {path} (cmake --build {build} --target stage_libraries)")
    return path


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
        self._tensors: List[Tensor] = []  # of the open problem
        self._device = self._told(self._library.softmax_open(l2.encode(), byref(self._session)))

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
        text = self._library.softmax_error().decode("utf-8", errors="replace")
        raise NoDevice(text) if code == 3 else HarnessError(code, text)

    def _told(self, code: int) -> Any:
        """What a call tells, once it was checked."""
        self._check(code)
        return json.loads(self._library.softmax_told().decode("utf-8", errors="replace"))

    def device(self) -> Json:
        """The `machine` object of the stages' JSON, and `simulated`."""
        return dict(self._device)

    def is_alive(self) -> bool:
        """False when an earlier launch has cost the process its GPU: nothing works any more."""
        return self._library.softmax_synchronize(self._session) == 0

    def add_stages(self, stages: List[str]) -> None:
        for stage in stages:
            path = self._build / f"libstage_{stage}.so"
            if not path.is_file():
                raise ToolError(f"not built: {path} (cmake --build {self._build} --target stage_libraries)")
            self._check(self._library.softmax_add_stage(self._session, str(path).encode()))
            self._tensors = []

    def add_contender(self, stage: str, name: str, launch: Launch) -> int:
        """Adds whatever `launch` enqueues; what it raises comes out of verify() and time(). Returns its number."""

        def call(_context: object, inputs: Sequence[int], outputs: Sequence[int], stream: Optional[int]) -> int:
            try:
                num_outputs = sum(tensor.is_output for tensor in self._tensors)
                launch(*inputs[: len(self._tensors) - num_outputs], *outputs[:num_outputs], stream or 0)
                return 0
            except BaseException as error:  # an interrupt too: it must not get lost in the C frames between
                self._raised = error
                return 1

        callback = _Launch(call)
        self._callbacks.append(callback)
        self._check(self._library.softmax_add_contender(self._session, stage.encode(), name.encode(), callback, None))
        return len(self.contenders()) - 1

    def contenders(self) -> List[Contender]:
        told = self._told(self._library.softmax_contenders(self._session))
        return [Contender(contender["stage"], contender["name"]) for contender in told]

    def open_problem(self, shape: Shape, op: str, input_kind: str, seed: int, offset: int) -> None:
        """Allocates and fills. Raises HarnessError (code 2) when the shape does not fit the device's memory."""
        self._tensors = []
        names = shape.dtype.encode(), op.encode()
        described = (*names, shape.rows, shape.cols, input_kind.encode(), seed, offset)
        told = self._told(self._library.softmax_open_problem(self._session, *described))
        self._tensors = [Tensor(**tensor) for tensor in told]

    def tensors(self) -> List[Tensor]:
        """Of the open problem: its inputs, then its outputs."""
        return list(self._tensors)

    def close_problem(self) -> None:
        self._library.softmax_close_problem(self._session)
        self._tensors = []

    def applies(self, number: int) -> tuple:
        """(why the contender cannot do the open problem, or "", passes that it declares, or None)"""
        told = self._told(self._library.softmax_applies(self._session, number))
        return told["reason"], told["passes"]

    def verify(self, number: int, tolerance_factor: float = 1) -> Verdict:
        """One launch, every element compared; wrong is what errs by more than `tolerance_factor` times the allowed."""
        return Verdict(**self._told(self._library.softmax_verify(self._session, number, tolerance_factor)))

    def time(self, number: int, repeats: int, warm_up_ms: int, limit_ms: int) -> Timing:
        """Medians of `repeats` samples; of fewer, but at least 5, when these take longer than `limit_ms`."""
        return Timing(**self._told(self._library.softmax_time(self._session, number, repeats, warm_up_ms, limit_ms)))
