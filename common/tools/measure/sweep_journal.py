"""The journal of `./run sweep`: the measurements of an interrupted sweep, from which the next one goes on.

An SQLite database: a header (machine, code, settings, plan), and a row for each measurement, there as soon as
it is finished. Each plan with its settings has a journal of its own; a sweep that is done removes it. A journal that
belongs to another machine, code or commit, or that is damaged, is moved aside, and said so: nothing in it is used.
"""

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import NamedTuple

from command import ToolError, say
from measure.peers import Problem
from measure.results import Json


# A contender that takes more than this many times as long as the copy has one round. The second took more than a quarter of
# the timing of a sweep on an H200, and differed from the first by less than 0.8 % for 19 of 20.
SLOW = 2.0


class Measurement(NamedTuple):
    """One contender at one problem in one round. Without a time when its status is not "verified"."""

    problem: str
    contender: str
    round: int = 0
    status: str = "verified"
    reason: str = ""
    configuration: str = ""
    passes: float | None = None
    max_error: float | None = None
    time_us: float | None = None
    spread_percent: float | None = None
    copy_us: float | None = None

    @property
    def is_slow(self) -> bool:
        return self.time_us is not None and self.copy_us is not None and self.time_us > SLOW * self.copy_us


# The lock lasts until the journal is closed. The rows must outlive this process, not the machine.
OPEN = f"""
    PRAGMA locking_mode = EXCLUSIVE;
    PRAGMA synchronous = OFF;
    BEGIN EXCLUSIVE;
    CREATE TABLE IF NOT EXISTS header (one PRIMARY KEY, json);
    CREATE TABLE IF NOT EXISTS measured ({", ".join(Measurement._fields)}, PRIMARY KEY (problem, contender, round));
    COMMIT;
"""
FORGET = "DELETE FROM header; DELETE FROM measured;"


class Journal:
    """`done` holds the measurements of earlier runs, and then those of this one."""

    def __init__(self, folder: Path, header: Json, fresh: bool) -> None:
        """Raises ToolError when another sweep has the journal open."""
        # A file for each plan and settings, so that a short sweep leaves a long one's alone.
        plan = json.dumps([header["settings"], header["plan"]])
        self.path = folder / f"sweep-{hashlib.sha256(plan.encode()).hexdigest()[:8]}.sqlite"
        self._rounds = header["settings"]["rounds"]
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self._open(header, fresh)
        except ValueError as error:
            self.close()
            self._set_aside(str(error))
            self._open(header, fresh)

    def _open(self, header: Json, fresh: bool) -> None:
        """Fills `done`. Raises ValueError that says why the file cannot be used."""
        self._database = sqlite3.connect(self.path, timeout=0, isolation_level=None)
        try:
            self._database.executescript(OPEN + FORGET * fresh)
            self._database.execute("INSERT OR IGNORE INTO header VALUES (1, ?)", [json.dumps(header)])
            found = json.loads(self._database.execute("SELECT json FROM header").fetchone()[0])
            different = [what for what in {**header, **found} if header.get(what) != found.get(what)]
            if different:
                raise ValueError(f"it belongs to another {', '.join(different)}")
            rows = self._database.execute("SELECT * FROM measured")
            self.done = {row[:3]: Measurement(*row) for row in rows}
        except sqlite3.OperationalError as error:
            self.close()
            locked = f"another sweep is running here: it holds {self.path}"
            raise ToolError(locked if "locked" in str(error) else f"{self.path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise ValueError(f"it is damaged: {error}") from error

    def _set_aside(self, why: str) -> None:
        number = 1
        while (aside := self.path.with_name(f"{self.path.stem}.{number}.unused")).exists():
            number += 1
        self.path.replace(aside)
        say(f"{self.path} is not used: {why}; it is now {aside.name}")

    def add(self, measurement: Measurement) -> None:
        self.done[measurement[:3]] = measurement
        try:
            places = ", ".join("?" * len(measurement))
            self._database.execute(f"INSERT OR REPLACE INTO measured VALUES ({places})", measurement)
        except sqlite3.Error as error:
            raise ToolError(f"{self.path}: {error}") from error

    def rounds(self, problem: Problem, contender: str) -> list[Measurement]:
        """The finished measurements, in the order of the rounds."""
        keys = [(str(problem), contender, number) for number in range(self._rounds)]
        return [self.done[key] for key in keys if key in self.done]

    def left(self, problem: Problem, contender: str) -> list[int]:
        """The rounds to measure: none if it is known from round 0 to have no time, or to be slow."""
        found = self.rounds(problem, contender)
        if found and (found[0].status != "verified" or found[0].is_slow):
            return []
        return [number for number in range(self._rounds) if number not in [one.round for one in found]]

    def close(self) -> None:
        self._database.close()

    def remove(self) -> None:
        self.close()
        self.path.unlink(missing_ok=True)
