"""How far a sweep is: on a terminal a bar with the time left, elsewhere a line per shape; and where its time went."""

import contextlib
import shutil
import sys
import time
from collections import defaultdict
from typing import Callable, Iterable, Iterator

from command import say
from measure.peers import Problem
from measure.results import Shape

BAR = 24


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def expected_seconds(shape: Shape, repeats: int) -> float:
    """About the time that one measurement takes; only the proportions between shapes matter."""
    moved = max(4 * shape.tensor_bytes, min(32 * shape.tensor_bytes, 2**30))
    return 0.1 + repeats * (2e-4 + 3 * moved / 4e12)


class Progress:
    def __init__(self, problems: Iterable[Problem], repeats: int, left: Callable[[Problem], int]) -> None:
        """`left`: how many measurements a problem still needs."""
        self._left = left
        self._one = {problem: expected_seconds(problem.shape, repeats) for problem in problems}
        self._seconds: dict[Problem, float] = {problem: left(problem) * one for problem, one in self._one.items()}
        self._whole = sum(self._seconds.values())
        self._start = time.monotonic()
        self._problem: Problem | None = None
        self._is_terminal = sys.stderr.isatty()

    def show(self, problem: Problem, contender: str) -> None:
        if not self._is_terminal and problem == self._problem:
            return
        for changed in {self._problem or problem, problem}:  # not all: the GPU would rest meanwhile
            self._seconds[changed] = self._left(changed) * self._one[changed]
        self._problem = problem
        left = sum(self._seconds.values())
        done, elapsed = self._whole - left, time.monotonic() - self._start
        pace = elapsed / done if done and elapsed > 5 else 1
        share = done / self._whole
        text = f"{100 * share:3.0f} %, {clock(left * pace)} left"
        if self._is_terminal:
            self._line(f"[{'#' * int(BAR * share):<{BAR}}] {text}  {problem}  {contender}")
        else:
            say(f"[{text}] {problem}")

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
        self._spent: dict[str, float] = defaultdict(float)

    @contextlib.contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        start = time.monotonic()
        try:
            yield
        finally:
            self._spent[what] += time.monotonic() - start

    def summary(self) -> str:
        total = time.monotonic() - self._start
        self._spent["other"] = total - sum(self._spent.values())
        parts = (f"{what} {seconds:.0f} s" for what, seconds in self._spent.items())
        return f"It took {clock(total)}: {', '.join(parts)}."
