"""The stages as a library: common/harness/c/c_interface.h for Python.

    with Harness(build, "cold") as harness:
        harness.add_stages(["03_warp_reduce"])
        harness.open_problem(Shape("f16", 49152, 1024), "softmax", "normal", seed=1, offset=0)
        for number, contender in enumerate(harness.contenders()): ...

Units: time in µs, sizes in bytes. Device pointers and streams are whole numbers.
"""

import ctypes
import json
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_double, c_int, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Callable, NamedTuple

from command import NoDevice, ToolError, Usage
from measure.results import Json, Shape

LIBRARY = "libsoftmax_harness.so"
# (each input, each output, stream), for softmax (x, y, stream): enqueues one launch, or raises.
Launch = Callable[..., None]


class WrongResult(ToolError):
    """A contender's result is wrong."""


class HarnessError(ToolError):
    """CUDA, or a launch, has failed."""

    code = 4


ERRORS = {1: WrongResult, 2: Usage, 3: NoDevice}  # by exit code of a stage; any other is a HarnessError


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
    note: str  # the reason why the time is doubtful; empty if there is none


class Tensor(NamedTuple):
    """Row-major."""

    name: str
    dtype: str
    rows: int
    cols: int
    is_output: bool


_Launch = CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p), POINTER(c_void_p), c_void_p)


def built(path: Path) -> Path:
    """A library's file. Raises ToolError when it has not been built."""
    if not path.is_file():
        raise ToolError(f"not built: {path} (cmake --build {path.parent} --target stage_libraries)")
    return path


class Harness:
    """One session of the library; a contender is named by its number in contenders()."""

    def __init__(self, build: Path, l2: str) -> None:
        """Raises NoDevice without a usable GPU, ToolError when the library is missing."""
        path = built(build / LIBRARY)
        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise ToolError(f"cannot load {path}: {error}") from error
        self._library.softmax_error.restype = self._library.softmax_told.restype = c_char_p
        self._build = build
        self._session = c_void_p()
        self._callbacks: list[object] = []  # ctypes must not free them
        self._raised: BaseException | None = None
        self._tensors: list[Tensor] = []  # of the open problem
        # The `machine` object of the stages' JSON, and `simulated`.
        self.device: Json = self._told(self._library.softmax_open(l2.encode(), byref(self._session)))

    def __enter__(self) -> "Harness":
        return self

    def __exit__(self, *_: object) -> None:
        self._library.softmax_close(self._session)
        self._session = c_void_p()

    def _told(self, code: int) -> Any:
        """The result of a call. Raises the exception of a launch callback, or an error with the library's message."""
        raised, self._raised = self._raised, None
        text = (self._library.softmax_error() if code else self._library.softmax_told()).decode(errors="replace")
        if code:
            raise raised or ERRORS.get(code, HarnessError)(text)
        return json.loads(text) if text else None

    def _call(self, name: str, *arguments: Any) -> Any:
        """ctypes passes bytes as char* and whole numbers as int; wider arguments have types of their own."""
        return self._told(getattr(self._library, f"softmax_{name}")(self._session, *arguments))

    def is_alive(self) -> bool:
        """False when an earlier launch has cost the process its GPU: nothing works any more."""
        return self._library.softmax_synchronize(self._session) == 0

    def add_stages(self, stages: list[str]) -> None:
        for stage in stages:
            self._call("add_stage", str(built(self._build / f"libstage_{stage}.so")).encode())

    def add_contender(self, stage: str, name: str, launch: Launch) -> int:
        """Adds whatever `launch` enqueues; its exceptions come out of verify() and time(). Returns its number."""

        def call(_context: object, inputs: Any, outputs: Any, stream: int | None) -> int:
            try:
                num_outputs = sum(tensor.is_output for tensor in self._tensors)
                launch(*inputs[: len(self._tensors) - num_outputs], *outputs[:num_outputs], stream or 0)
                return 0
            except BaseException as error:  # an interrupt too: it must not get lost in the C frames between
                self._raised = error
                return 1

        self._callbacks.append(_Launch(call))
        self._call("add_contender", stage.encode(), name.encode(), self._callbacks[-1], None)
        return len(self.contenders()) - 1

    def contenders(self) -> list[Contender]:
        return [Contender(told["stage"], told["name"]) for told in self._call("contenders")]

    def open_problem(self, shape: Shape, op: str, input_kind: str, seed: int, offset: int) -> list[Tensor]:
        """Allocates and fills its inputs, then its outputs. Raises Usage when they do not fit the device's memory."""
        names, size = (shape.dtype.encode(), op.encode()), (c_int64(shape.rows), c_int64(shape.cols))
        told = self._call("open_problem", *names, *size, input_kind.encode(), c_uint64(seed), c_int64(offset))
        self._tensors = [Tensor(**tensor) for tensor in told]
        return self._tensors

    def close_problem(self) -> None:
        self._library.softmax_close_problem(self._session)

    def applies(self, number: int) -> tuple[str, float | None]:
        """(why the contender cannot do the open problem, or "", passes that it declares, or None)"""
        told = self._call("applies", number)
        return told["reason"], told["passes"]

    def verify(self, number: int, tolerance_factor: float = 1) -> Verdict:
        """One launch, every element compared; an element is wrong if its error exceeds `tolerance_factor` times the allowed one."""
        return Verdict(**self._call("verify", number, c_double(tolerance_factor)))

    def time(self, number: int, repeats: int, warm_up_ms: int, limit_ms: int) -> Timing:
        """Medians of `repeats` samples; of fewer, but at least 5, when these take longer than `limit_ms`."""
        return Timing(**self._call("time", number, repeats, warm_up_ms, limit_ms))
