"""The exercises, which lie in the lessons' folders, and the learner's progress through them."""

import itertools
import json
import re
from pathlib import Path
from typing import NamedTuple

from command import ToolError, Usage, say
from files import load_json, write_whole

PROGRESS_FILE = ".exercise-progress.json"
LESSONS = ("common/primer", "[0-9][0-9]_*")

TITLE = re.compile(r"Exercise (\d\d\.\d+), (write|fix|predict) it, (\d+) minutes: (.+)")


class Exercise(NamedTuple):
    number: str  # "03.2"
    kind: str  # "write", "fix" or "predict"
    minutes: int
    title: str
    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def stage(self) -> str:
        """The folder of its lesson: that of a stage, or the primer's, whose number is 00."""
        return self.folder.parent.parent.name

    @property
    def stage_number(self) -> str:
        return self.number[:2]

    @property
    def suffix(self) -> str:
        return ".txt" if self.kind == "predict" else ".cu"

    def file(self, stem: str) -> Path:
        """`stem`: starter, solution or mine."""
        return self.folder / (stem + self.suffix)

    @property
    def command(self) -> str:
        return f"./run exercise {self.number}"


def find_exercises(root: Path) -> list[Exercise]:
    """All exercises, in the order of their numbers. The starters' first lines have their titles and times."""
    exercises = []
    starters = (root.glob(f"{lesson}/exercise/*/starter.*") for lesson in LESSONS)
    for starter in itertools.chain.from_iterable(starters):
        with starter.open(encoding="utf-8") as lines:
            title = TITLE.search(lines.readline())
        if title is None:
            raise Usage(f"{starter}: the first line is not the title of an exercise")
        number, kind, minutes, text = title.groups()
        exercises.append(Exercise(number, kind, int(minutes), text, starter.parent))
    if not exercises:
        raise Usage(f"no exercise in {root}")
    return sorted(exercises, key=lambda exercise: [int(part) for part in exercise.number.split(".")])


class Progress:
    """The solved exercises, and the number of hints shown. A file that is missing or broken counts as no progress."""

    def __init__(self, root: Path) -> None:
        self.path = root / PROGRESS_FILE
        self.solved: dict[str, str] = {}  # number -> date
        self.hints: dict[str, int] = {}
        if not self.path.exists():
            return
        try:
            data = load_json(self.path)
            solved, hints = data["solved"], data["hints"]
            if not all(isinstance(date, str) for date in solved.values()) or not all(n in (1, 2, 3) for n in hints.values()):
                raise ValueError
            self.solved, self.hints = solved, hints
        except (ToolError, ValueError, KeyError, AttributeError, TypeError):
            say(f"{PROGRESS_FILE} cannot be read: your progress starts again from zero.")

    def save(self) -> None:
        try:
            write_whole(self.path, json.dumps({"solved": self.solved, "hints": self.hints}, indent=1) + "\n")
        except OSError as error:
            say(f"{PROGRESS_FILE} cannot be written ({error.strerror}): your progress is not saved.")

    def next_open(self, exercises: list[Exercise]) -> Exercise | None:
        return next((exercise for exercise in exercises if exercise.number not in self.solved), None)
