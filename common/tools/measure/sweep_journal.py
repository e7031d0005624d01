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
from typing import Dict, List, NamedTuple, Optional, TextIO, Tuple

from command import ToolError
from measure.results import STATUSES, Json, is_number, is_whole

class Measurement(NamedTuple):
    """One contender at one shape in one round. Without a time when its status is not "verified"."""

    shape: str
    contender: str
    round: int
    status: str
    reason: str
    configuration: str
    passes: Optional[float]
    max_error: Optional[float]
    time_us: Optional[float]
    spread_percent: Optional[float]
    copy_us: Optional[float]

    @property
    def key(self) -> Tuple[str, str, int]:
        return self.shape, self.contender, self.round


def parse(line: str) -> Measurement:
    """Raises ValueError unless the line is one whole measurement."""
    fields = json.loads(line)
    if not isinstance(fields, dict) or set(fields) != set(Measurement._fields):
        raise ValueError("its fields are not those of a measurement")
    found = Measurement(**fields)
    numbers = (found.passes, found.max_error, found.time_us, found.spread_percent, found.copy_us)
    if found.status not in STATUSES or not is_whole(found.round):
        raise ValueError("its status or round is unknown")
    if not all(n is None or (is_number(n) and math.isfinite(n)) for n in numbers):
        raise ValueError("one of its numbers is none")
    if (found.status == "verified") != bool(found.time_us and found.copy_us):
        raise ValueError("it has no time, or one that it should not have")
    return found


def path_in(folder: Path, header: Json) -> Path:
    """The journal's file: one for each plan and settings, so that a short sweep leaves a long one's alone."""
    text = json.dumps([header["settings"], header["plan"]])
    return folder / f"sweep-{hashlib.sha256(text.encode()).hexdigest()[:8]}.jsonl"


class Journal:
    """`done` holds what earlier runs measured; `messages` what to tell the user about the file that was there."""

    def __init__(self, path: Path, header: Json, fresh: bool) -> None:
        """Raises ToolError when another sweep has the journal open."""
        self.path = path
        self.messages: List[str] = []
        self.done: Dict[Tuple[str, str, int], Measurement] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = open(path.with_name(path.name + ".lock"), "w", encoding="utf-8")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise ToolError(f"another sweep is running here: it holds {path}") from error
        whole = self._read(header) if path.exists() and not fresh else ""
        # What is kept is written anew, so that a line cut short does not run into the next one.
        self._file: TextIO = open(path, "w", encoding="utf-8", newline="\n")
        self._write(whole or json.dumps(header, ensure_ascii=False) + "\n")

    def _read(self, header: Json) -> str:
        """Fills `done`; returns the text to keep, empty when the file is not used."""
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        try:
            found = json.loads(lines[0]) if lines else None
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            return self._set_aside("its first line is damaged")
        different = [what for what in {**header, **found} if header.get(what) != found.get(what)]
        if different:
            return self._set_aside(f"it belongs to another {', '.join(different)}")
        kept = [lines[0]]
        for number, line in enumerate(lines[1:], start=2):
            try:
                if not line.endswith("\n"):
                    raise ValueError("it was cut short")
                measurement = parse(line)
            except (ValueError, TypeError, RecursionError) as error:
                if number < len(lines):
                    self.done.clear()
                    return self._set_aside(f"line {number} is damaged: {error}")
                self.messages.append(f"{self.path}: the last line is damaged ({error}): it is measured again")
                break
            self.done[measurement.key] = measurement
            kept.append(line)
        return "".join(kept)

    def _set_aside(self, why: str) -> str:
        number = 1
        while (aside := self.path.with_name(f"{self.path.stem}.{number}.unused")).exists():
            number += 1
        os.replace(self.path, aside)
        self.messages.append(f"{self.path} is not used: {why}; it is now {aside.name}")
        return ""

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()

    def add(self, measurement: Measurement) -> None:
        self.done[measurement.key] = measurement
        self._write(json.dumps(measurement._asdict(), ensure_ascii=False) + "\n")

    def has(self, shape: str, contender: str, round_: int) -> bool:
        """Nothing is left to measure in this round: done, or known from round 0 to have no time."""
        first = self.done.get((shape, contender, 0))
        return (shape, contender, round_) in self.done or (first is not None and first.status != "verified")

    def finished(self, shape: str, contender: str, rounds: int) -> bool:
        return all(self.has(shape, contender, round_) for round_ in range(rounds))

    def close(self) -> None:
        self._file.close()
        self._lock.close()

    def remove(self) -> None:
        self.close()
        for path in (self.path, self.path.with_name(self.path.name + ".lock")):
            if path.exists():
                path.unlink()
