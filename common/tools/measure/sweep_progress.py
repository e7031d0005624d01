"""How far a sweep is: on a terminal a bar with the time left, elsewhere a line per shape; and where its time went."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from typing import Dict, Iterator, Tuple

from command import say
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
    def __init__(self, left: Dict[Shape, int], repeats: int) -> None:
        """`left`: how many measurements each shape still needs."""
        self._left = left
        self._repeats = repeats
        self._whole = self._seconds()
        self._start = time.monotonic()
        self._shape: Shape
        self._is_terminal = sys.stderr.isatty()

    def _seconds(self) -> float:
        return sum(number * expected_seconds(shape, self._repeats) for shape, number in self._left.items())

    def _so_far(self) -> Tuple[float, str]:
        """Percent done, and the same with the time left as text."""
        left = self._seconds()
        done = self._whole - left
        elapsed = time.monotonic() - self._start
        pace = elapsed / done if done and elapsed > 5 else 1
        percent = 100 * done / self._whole if self._whole else 100
        return percent, f"{percent:3.0f} %, {clock(left * pace)} left"

    def begin(self, shape: Shape) -> None:
        self._shape = shape
        if not self._is_terminal:
            say(f"[{self._so_far()[1]}] {shape}")

    def advance(self, measurements: int) -> None:
        self._left[self._shape] = max(0, self._left[self._shape] - measurements)

    def show(self, contender: str) -> None:
        if self._is_terminal:
            percent, text = self._so_far()
            self._line(f"[{'#' * int(BAR * percent / 100):<{BAR}}] {text}  {self._shape}  {contender}")

    def _line(self, text: str, end: str = "") -> None:
        width = shutil.get_terminal_size().columns - 1
        print(f"\r{text[:width]:<{width}}", end=end, file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._is_terminal:
            self._line("", end="\r")


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
        spent = {**self._spent, "other": total - sum(self._spent.values())}
        return f"It took {clock(total)}: {', '.join(f'{what} {seconds:.0f} s' for what, seconds in spent.items())}."
