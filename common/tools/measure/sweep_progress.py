"""How far a sweep is: on a terminal a bar with the time left, elsewhere a line per shape; and where its time went."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from typing import Dict, Iterator, List

from measure.results import ELEMENT_BYTES, Shape

BAR = 24


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def expected_seconds(shape: Shape, repeats: int) -> float:
    """About what one measurement takes; only the proportions between shapes matter."""
    tensor = shape.rows * shape.cols * ELEMENT_BYTES[shape.dtype]
    moved = max(4 * tensor, min(32 * tensor, 2**30))
    return 0.1 + repeats * (2e-4 + 3 * moved / 4e12)


class Progress:
    def __init__(self, shapes: List[Shape], rounds: int, repeats: int) -> None:
        self._weights = {shape: expected_seconds(shape, repeats) for shape in shapes}
        self._rounds = rounds
        self._left = list(shapes)
        self._start = time.monotonic()
        self._measured = 0.0  # weight of what this run has measured
        self._now = 0.0  # weight of one measurement at the shape at hand
        self._here = 0  # measurements left at the shape at hand
        self._per_shape = 1
        self._shape = ""
        self._is_terminal = sys.stderr.isatty()

    def begin(self, shape: Shape, contenders: int, left: int) -> None:
        self._left.remove(shape)
        self._shape = str(shape)
        self._now = self._weights[shape]
        self._per_shape = contenders * self._rounds
        self._here = left * self._rounds
        if not self._is_terminal and left:
            print(
                f"[{self._percent():3.0f} %, {clock(self._seconds_left())} left] {shape}", file=sys.stderr, flush=True
            )

    def advance(self, measurements: int) -> None:
        measurements = min(measurements, self._here)
        self._here -= measurements
        self._measured += measurements * self._now

    def _weight_left(self) -> float:
        return self._here * self._now + sum(self._weights[shape] for shape in self._left) * self._per_shape

    def _percent(self) -> float:
        whole = self._measured + self._weight_left()
        return 100 * self._measured / whole if whole else 100

    def _seconds_left(self) -> float:
        elapsed = time.monotonic() - self._start
        pace = elapsed / self._measured if self._measured and elapsed > 5 else 1
        return self._weight_left() * pace

    def show(self, contender: str) -> None:
        if not self._is_terminal:
            return
        percent = self._percent()
        bar = "#" * int(BAR * percent / 100)
        line = f"[{bar:<{BAR}}] {percent:3.0f} %, {clock(self._seconds_left())} left  {self._shape}  {contender}"
        width = shutil.get_terminal_size().columns - 1
        print(f"\r{line[:width]:<{width}}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._is_terminal:
            print("\r" + " " * (shutil.get_terminal_size().columns - 1), end="\r", file=sys.stderr, flush=True)


class Stopwatch:
    """Adds up the time spent on each kind of work."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._spent: Dict[str, float] = {}

    @contextlib.contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        start = time.monotonic()
        try:
            yield
        finally:
            self._spent[what] = self._spent.get(what, 0) + time.monotonic() - start

    def summary(self) -> str:
        total = time.monotonic() - self._start
        parts = [f"{what} {seconds:.0f} s" for what, seconds in self._spent.items()]
        rest = total - sum(self._spent.values())
        return f"It took {clock(total)}: {', '.join(parts)}, other {rest:.0f} s."
