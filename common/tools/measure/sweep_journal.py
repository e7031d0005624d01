"""The journal of `./run sweep`: what an interrupted sweep had measured, so that the next one goes on from there.

JSON lines. The first says what is measured (machine, code, settings, plan); each other one is one measurement,
written and flushed as soon as it is finished. Each plan with its settings has a journal of its own; a sweep
that is done removes it.

A line that was cut short by the end of the process is dropped, and said so. A journal that belongs to another
machine, code or commit, or that is damaged elsewhere, is moved aside, and said so: nothing in it is used.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

from command import ToolError, say
from measure.results import STATUSES, Json, Shape, is_number, is_whole


class Measurement(NamedTuple):
    """One contender at one shape in one round. Without a time when its status is not "verified"."""

    shape: str
    contender: str
    round: int = 0
    status: str = "verified"
    reason: str = ""
    configuration: str = ""
    passes: Optional[float] = None
    max_error: Optional[float] = None
    time_us: Optional[float] = None
    spread_percent: Optional[float] = None
    copy_us: Optional[float] = None


def parse(line: str) -> Measurement:
    """Raises ValueError unless the line is one whole measurement."""
    if not line.endswith("\n"):
        raise ValueError("it was cut short")
    fields = json.loads(line)
    if not isinstance(fields, dict) or set(fields) != set(Measurement._fields):
        raise ValueError("its fields are not those of a measurement")
    found = Measurement(**fields)
    if found.status not in STATUSES or not is_whole(found.round):
        raise ValueError("its status or round is unknown")
    if not all(n is None or (is_number(n) and math.isfinite(n)) for n in found[Measurement._fields.index("passes") :]):
        raise ValueError("one of its numbers is none")
    if (found.status == "verified") != bool(found.time_us and found.copy_us):
        raise ValueError("it has no time, or one that it should not have")
    return found


class Journal:
    """`done` holds what earlier runs measured, and then what this one does."""

    def __init__(self, folder: Path, header: Json, fresh: bool) -> None:
        """Raises ToolError when another sweep has the journal open."""
        # A file for each plan and settings, so that a short sweep leaves a long one's alone.
        plan = json.dumps([header["settings"], header["plan"]])
        self.path = folder / f"sweep-{hashlib.sha256(plan.encode()).hexdigest()[:8]}.jsonl"
        self.done: Dict[Tuple[str, str, int], Measurement] = {}
        self._rounds = header["settings"]["rounds"]
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = open(self.path.with_name(self.path.name + ".lock"), "w", encoding="utf-8")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise ToolError(f"another sweep is running here: it holds {self.path}") from error
        if self.path.exists() and not fresh:
            try:
                self._read(header)
            except ValueError as error:
                self.done.clear()
                self._set_aside(str(error))
        # What is kept is written anew, so that a line cut short does not run into the next one.
        self._file = open(self.path, "w", encoding="utf-8", newline="\n")
        self._write(header, *(measurement._asdict() for measurement in self.done.values()))

    def _read(self, header: Json) -> None:
        """Fills `done`. Raises ValueError that says why the file cannot be used."""
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        try:
            found = dict(json.loads(lines[0]))
        except (ValueError, TypeError, IndexError, RecursionError):
            raise ValueError("its first line is damaged") from None
        different = [what for what in {**header, **found} if header.get(what) != found.get(what)]
        if different:
            raise ValueError(f"it belongs to another {', '.join(different)}")
        for number, line in enumerate(lines[1:], start=2):
            try:
                measurement = parse(line)
            except (ValueError, TypeError, RecursionError) as error:
                if number < len(lines):
                    raise ValueError(f"line {number} is damaged: {error}") from error
                say(f"{self.path}: the last line is damaged ({error}): it is measured again")
            else:
                self.done[measurement[:3]] = measurement

    def _set_aside(self, why: str) -> None:
        number = 1
        while (aside := self.path.with_name(f"{self.path.stem}.{number}.unused")).exists():
            number += 1
        os.replace(self.path, aside)
        say(f"{self.path} is not used: {why}; it is now {aside.name}")

    def _write(self, *lines: Json) -> None:
        self._file.write("".join(json.dumps(line) + "\n" for line in lines))
        self._file.flush()

    def add(self, measurement: Measurement) -> None:
        self.done[measurement[:3]] = measurement
        self._write(measurement._asdict())

    def rounds(self, shape: Shape, contender: str) -> List[Measurement]:
        """What is measured, in the order of the rounds."""
        keys = [(str(shape), contender, number) for number in range(self._rounds)]
        return [self.done[key] for key in keys if key in self.done]

    def left(self, shape: Shape, contender: str) -> List[int]:
        """The rounds to measure: none where it is known from round 0 to have no time."""
        found = self.rounds(shape, contender)
        if found and found[0].status != "verified":
            return []
        return [number for number in range(self._rounds) if number not in [one.round for one in found]]

    def close(self) -> None:
        self._file.close()
        self._lock.close()

    def remove(self) -> None:
        self.close()
        for path in (self.path, self.path.with_name(self.path.name + ".lock")):
            path.unlink(missing_ok=True)
