r"""Attempts at the exercises, right and wrong ones: those of learners, and those of cheats. Each exercise has its own in
attempts.toml:

    family = "reductions and barriers"  # Exercises in which the same things go wrong are a family.
    gap = ["float value) {\n", "}\n\n__global__"]  # The part of the solution that is the exercise is between these two.

    [wrong]  # First a regular expression that the message matches, then how the attempt differs from the solution.
    starter = ['never written']  # This one is the starter itself.
    "no barrier" = ['race: ', ["  __syncthreads();\n", ""]]  # Pairs: the second text replaces the first everywhere.
    "a tree" = ['16 barriers', '''...''']  # A text fills the gap.

    [right]  # Only how the attempt differs. The message mentions nothing that could be less.
    "a warp" = [['block_size = 128', 'block_size = 32']]

    [right_with_remark]  # As in [wrong], but the answer is right, and the message says what could be less.

    [wrong_solution_of]  # Solutions of other exercises, with the kernel's name changed, and the message.
    two_bugs = '18 barriers'

Two more keys are rare. one_thread is a file in which one thread does everything, if exercise_test.py has no launcher for
it. simulator_stops_starter = true means that the message on success speaks of that.
"""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest
from learn.progress import find_exercises

# Before Python 3.11, pytest itself needs tomli.
tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")

ROOT = Path(__file__).resolve().parents[2]
EXERCISES = {exercise.name: exercise for exercise in find_exercises(ROOT)}


def solution_of(name: str) -> str:
    return EXERCISES[name].file("solution").read_text(encoding="utf-8")


def check_of(name: str) -> str:
    return next(EXERCISES[name].folder.glob("check.c*")).read_text(encoding="utf-8")


def kernel_of(name: str) -> str:
    found = re.search(r'exercise.kernel = "(\w+)"', check_of(name))
    assert found
    return found[1]


@dataclass
class AttemptsFile:
    """The keys of attempts.toml."""

    family: str
    wrong: dict[str, list]
    right: dict[str, list] = field(default_factory=dict)
    right_with_remark: dict[str, list] = field(default_factory=dict)
    wrong_solution_of: dict[str, str] = field(default_factory=dict)
    gap: tuple[str, str] | None = None
    one_thread: str = ""
    simulator_stops_starter: bool = False


class Attempt(NamedTuple):
    is_right: bool
    says: str  # a regular expression
    changes: list[str | list[str]] = []
    solution_of: str = ""  # another exercise


def attempts_in(file: AttemptsFile) -> dict[str, Attempt]:
    attempts = [(which, Attempt(False, says, changes)) for which, (says, *changes) in file.wrong.items()]
    attempts += [(which, Attempt(True, "", changes)) for which, changes in file.right.items()]
    attempts += [(which, Attempt(True, says, changes)) for which, (says, *changes) in file.right_with_remark.items()]
    attempts += [(f"as {name}", Attempt(False, says, solution_of=name)) for name, says in file.wrong_solution_of.items()]
    unchanged = [which for which, attempt in attempts if not attempt.changes and not attempt.solution_of]
    if unchanged != ["starter"] or len(dict(attempts)) < len(attempts):
        raise ValueError(f"the starter, and no other, has to be without changes, and names must differ: {unchanged}")
    return dict(attempts)


def text_of(name: str, attempt: Attempt) -> str:
    """An attempt at this exercise; not of the starter, which is a file."""
    if attempt.solution_of:
        return solution_of(attempt.solution_of).replace(kernel_of(attempt.solution_of), kernel_of(name))
    text = solution_of(name)
    for change in sorted(attempt.changes, key=lambda change: not isinstance(change, str)):  # the gap first
        if isinstance(change, str):
            gap = FILES[name].gap
            assert gap, f"{name}: a text needs a gap that it fills"
            begin, end = gap
            before, found_begin, rest = text.partition(begin)
            _, found_end, after = rest.partition(end)
            assert found_begin and found_end, f"{name}: the solution does not contain what is around the gap"
            text = before + begin + change + end + after
        else:
            old, new = change
            assert old in text, f"{name}: the solution does not contain {old!r}"
            text = text.replace(old, new)
    return text


FILES: dict[str, AttemptsFile] = {}
ATTEMPTS: dict[str, dict[str, Attempt]] = {}
for _name, _exercise in EXERCISES.items():
    _path = _exercise.folder / "attempts.toml"
    try:
        FILES[_name] = AttemptsFile(**tomllib.loads(_path.read_text(encoding="utf-8")))
        ATTEMPTS[_name] = attempts_in(FILES[_name])
    except (TypeError, ValueError) as error:  # an unknown key, or a missing one; no TOML; a wrong entry
        raise ValueError(f"{_path}: {error}") from error
