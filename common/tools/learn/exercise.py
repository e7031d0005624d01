"""The exercises: lists them with the progress, and builds and checks a learner's file.

    ./run exercise                    the list: solved exercises, the next one, the time that each takes
    ./run exercise 03                 checks the next open exercise of stage 03; 03.2 or a name: that one
    ./run exercise 03.2 --watch       checks again at every save; keys for the next exercise, a hint, the list
    ./run exercise 03.2 --hint        the next hint; after the third, all of them again
    ./run exercise 03.2 --solution    the solution
    ./run exercise 03.2 --reset       the starter again; the learner's file is kept as a backup
    ./run exercise 03.2 --device gpu  the result on the GPU first, then the technique on the simulator
    ./run exercise 03.2 --watch-warp  the check, and a page that shows how your kernel's warps ran in it

The first check copies the starter to mine.cu next to it (mine.txt if the exercise is to predict numbers): that file
is the learner's, and no command ever overwrites it. .exercise-progress.json records the solved exercises.

Exit codes: 0 solved, or shown; 1 not yet; 2 bad usage, or a tool is missing; 3 no usable GPU; 70 the check could
not be built.
"""

import argparse
import contextlib
import datetime
import difflib
import itertools
import os
import re
import select
import shutil
import sys
import termios
import textwrap
import time
import tty
from pathlib import Path
from types import TracebackType
from typing import Any

from command import Parser, Usage, is_terminal, say, styled
from files import write_new, write_whole
from learn import watch
from learn.checker import NOT_YET, SOLVED, Checker
from learn.progress import Exercise, Progress, find_exercises

WATCH_INTERVAL_S = 0.3
WIDTH = 100

HINT = re.compile(r"^## (Hint \d+: .+)$", re.MULTILINE)


# ---- The terminal


def bold(text: str) -> str:
    return styled(text, "1")


def say_wrapped(text: str) -> None:
    """Prints text; long lines are wrapped, except for code, which follows a |, and tables, which have wide gaps."""
    width = min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)
    for line in text.splitlines():
        indentation = line[:len(line) - len(line.lstrip(" "))]
        wrap = len(line) > width and not re.search(r"^ *\||\S {3}", line)
        print(textwrap.fill(line, width, subsequent_indent=indentation, break_long_words=False, break_on_hyphens=False)
              if wrap else line)


class Keys:
    """Keys as they are pressed, without Enter and without an echo. Without a terminal as standard input there are none."""

    def __init__(self) -> None:
        self.are_there = sys.stdin.isatty() and is_terminal()
        self.before: list[Any] = []

    def __enter__(self) -> "Keys":
        if self.are_there:
            self.before = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.are_there:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self.before)

    def pressed(self, timeout_s: float) -> str:
        """"" if none was pressed."""
        if not self.are_there:
            time.sleep(timeout_s)
            return ""
        if not select.select([sys.stdin], [], [], timeout_s)[0]:
            return ""
        return os.read(sys.stdin.fileno(), 1).decode(errors="replace") or "q"  # the terminal has gone


# ---- The commands


class Workshop:
    def __init__(self, root: Path, checker: Checker) -> None:
        self.root = root
        self.exercises = find_exercises(root)
        self.progress = Progress(root)
        self.checker = checker

    def find(self, which: str | None, exact: bool) -> Exercise:
        """A stage means its next open exercise, nothing the next of all, unless it must be `exact`."""
        fitting = self.exercises if which is None else self.fitting(which)
        if exact and len(fitting) > 1:
            raise Usage(f"one exercise at a time: give its number, such as {fitting[0].number}")
        return self.progress.next_open(fitting) or fitting[0]

    def fitting(self, which: str) -> list[Exercise]:
        name = which.rstrip("/")
        number = re.fullmatch(r"0*([0-9]{1,2})(?:\.0*([0-9]{1,2}))?", name)
        if number:
            name = f"{int(number[1]):02d}" + (f".{number[2]}" if number[2] else "")
        fitting = [e for e in self.exercises if name in (e.number, e.name, e.stage, e.stage_number)]
        if not fitting:
            of_stage = [exercise.number for exercise in self.exercises if exercise.stage_number == name[:2]]
            if number and of_stage:
                raise Usage(f"there is no exercise '{which}'; stage {name[:2]} has {', '.join(of_stage)}")
            stages = sorted({exercise.stage_number for exercise in self.exercises})
            names = [name for exercise in self.exercises for name in (exercise.name, exercise.stage)]
            meant = "".join(f"; did you mean {name}?" for name in difflib.get_close_matches(which, names, 1))
            raise Usage(f"there is no exercise '{which}'{meant}; accepted: {', '.join(stages)}, a number such as "
                             f"{self.exercises[0].number}, or a name such as {self.exercises[0].name}")
        return fitting

    def lesson(self, exercise: Exercise) -> str:
        return self.short(exercise.folder.parent.parent / "README.md")

    def short(self, path: Path) -> str:
        return str(path.relative_to(self.root))

    def overview(self) -> None:
        solved = [exercise for exercise in self.exercises if exercise.number in self.progress.solved]
        left = sum(exercise.minutes for exercise in self.exercises if exercise not in solved)
        following = self.progress.next_open(self.exercises)
        if following:
            print(f"Exercises: {len(solved)} of {len(self.exercises)} solved, about {left} minutes to go.")
        else:
            print(f"Exercises: all {len(solved)} solved.")
        for stage, exercises in itertools.groupby(self.exercises, lambda exercise: exercise.stage):
            print(f"\n  {bold(stage)}")
            for e in exercises:
                mark = styled("done", "32") if e in solved else styled("next", "33") if e is following else "    "
                print(f"  {mark}  {e.number}  {e.kind + ' it':<10}  {e.minutes:>2} min  {e.title}")
        if following:
            print(f"\nNext: read {self.lesson(following)}, then {bold(following.command)}")
        else:
            self.say_the_end()

    def learners_file(self, exercise: Exercise) -> Path:
        """Copies the starter on first use; a file that is there is left alone."""
        mine = exercise.file("mine")
        if mine.is_symlink() and not mine.exists():
            raise Usage(f"{self.short(mine)} is a link that leads nowhere: remove it")
        if mine.exists() and not mine.is_file():
            raise Usage(f"{self.short(mine)} is not a file: remove it")
        if not mine.exists():
            write_new(mine, exercise.file("starter").read_bytes())
            print(f"Your file is {bold(self.short(mine))}, now a copy of the starter.\n")
        return mine

    def check(self, exercise: Exercise) -> int:
        return self.check_and_tell(exercise)[0]

    def check_and_tell(self, exercise: Exercise) -> tuple[int, str]:
        """The exit code, and the messages."""
        mine = self.learners_file(exercise)
        print(bold(f"{exercise.number} {exercise.title}") + f": {self.short(mine)}\n", flush=True)
        if is_terminal():
            print("checking ...", end="\r", flush=True)
        code, text = self.checker.check(exercise, mine)
        if is_terminal():
            print("            ", end="\r")
        if code not in (SOLVED, NOT_YET):
            print(text.rstrip(), file=sys.stderr)
            return code, text
        first_line, _, rest = text.rstrip().partition("\n")
        say_wrapped(styled(first_line, "32" if code == SOLVED else "31") + ("\n" + rest if rest else ""))
        if code == SOLVED:
            self.progress.solved.setdefault(exercise.number, datetime.date.today().isoformat())
            self.progress.save()
            self.say_what_is_next(exercise)
        else:
            shown = self.progress.hints.get(exercise.number, 0)
            so_far = " (all again), or --solution" if shown >= 3 else f" (shown so far: {shown} of 3)" if shown else ""
            print(f"\nStuck? {exercise.command} --hint{so_far}")
        return code, text

    def watch_warp(self, exercise: Exercise) -> int:
        """Checks, and writes a page that opens at the first line of the learner's file that the check names."""
        if exercise.kind == "predict":
            raise Usage(f"{exercise.number} asks for numbers and has no kernel; ./run watch {exercise.stage[:2]} shows the stage's")
        library = self.checker.library(exercise)
        library.unlink(missing_ok=True)
        code, text = self.check_and_tell(exercise)
        if code not in (SOLVED, NOT_YET) or not library.exists():  # it does not compile
            return code
        launches = self.checker.record(exercise)
        if not launches:
            print("\nThere is nothing to watch: no kernel ran.")
            return code
        mine = self.short(exercise.file("mine"))
        named = re.search(rf"\b{re.escape(mine)}:(\d+)", text)
        run = {"title": mine, "command": f"{exercise.command} --watch-warp", "launches": launches}
        at = (mine, int(named[1])) if named else None
        page = self.root / f"build/watch-{exercise.number}.html"
        write_whole(page, watch.page(f"{exercise.number} {exercise.title}", mine, [run], self.root, at))
        print(f"\nWhat your warps did: {self.short(page)}; open it in a browser.")
        return code

    def following(self, exercise: Exercise) -> Exercise | None:
        """The next open exercise: after this one, or else from the beginning."""
        after = self.exercises[self.exercises.index(exercise) + 1 :]
        return self.progress.next_open(after) or self.progress.next_open(self.exercises)

    def say_what_is_next(self, exercise: Exercise) -> None:
        following = self.following(exercise)
        if following is None:
            self.say_the_end()
            return
        lesson = f"read {self.lesson(following)}, then " if following.stage != exercise.stage else ""
        print(f"\nGo on: {lesson}{bold(following.command)} ({following.title}, {following.minutes} minutes)")

    def say_the_end(self) -> None:
        print("\n" + styled(f"That was the last one: all {len(self.exercises)} exercises are solved.", "1;32") + "\n")
        for stage, exercises in itertools.groupby(self.exercises, lambda exercise: exercise.stage):
            stars = "*" * len(list(exercises))
            print(f"  {styled(f'{stars:<3}', '32')}  {self.title_of(stage)}")
        dates = sorted(self.progress.solved.values())
        when = f"on {dates[0]}" if dates[0] == dates[-1] else f"from {dates[0]} to {dates[-1]}"
        alone = sum(not self.progress.hints.get(exercise.number) for exercise in self.exercises)
        print(f"\nSolved {when}, {alone} of {len(self.exercises)} without a hint.\n")
        say_wrapped(
            "You can now predict the memory requests of a kernel before it runs, reduce a row in a thread, a warp, a block and further "
            "up, and tell a wait for memory from a wait for each other. From here:\n"
            "  - each lesson's last section has questions without a check;\n"
            "  - ./run --cols 33,1001,32768 shows which stage leads at which width, and ./run report shows the same for an H200;\n"
            "  - .github/CONTRIBUTING.md: add your own kernel to a stage, or record your GPU.")

    def title_of(self, stage: str) -> str:
        """The first line of its lesson."""
        try:
            with (self.root / stage / "README.md").open(encoding="utf-8") as lesson:
                return lesson.readline().lstrip("# ").strip() or stage
        except OSError:
            return stage

    def watch(self, exercise: Exercise) -> int:
        """Checks at every save. If there are keys, they lead on to the next exercise; otherwise it ends with this one."""
        with Keys() as keys:
            while True:
                mine = self.learners_file(exercise)
                seen = saved_at(mine)
                if is_terminal():
                    print("\033[2J\033[H", end="")
                code = self.check(exercise)
                following = self.following(exercise)
                if code not in (SOLVED, NOT_YET) or (code == SOLVED and not (keys.are_there and following)):
                    return code
                key = self.wait(exercise, code, keys, seen)
                if key == "q":
                    return code
                if key == "n" and following:
                    exercise = following

    def wait(self, exercise: Exercise, code: int, keys: Keys, seen: tuple[int, int] | None) -> str:
        """Until the file is saved: "", or until one of the keys n and q is pressed: that one."""
        mine = exercise.file("mine")
        while True:
            offers = "n: next exercise, h: hint, l: list, q: quit" if keys.are_there else "Ctrl-C ends it"
            waiting = "" if code == SOLVED else f"Waiting for {self.short(mine)} to be saved; "
            print(f"\n{waiting}{offers}.", flush=True)
            while (key := keys.pressed(WATCH_INTERVAL_S)) not in ("n", "q", "h", "l", "\n"):
                if saved_at(mine) not in (seen, None):
                    return ""
            if key in ("n", "q") or (key == "\n" and code == SOLVED):
                return "n" if key == "\n" else key
            if key == "h":
                print()
                self.hint(exercise)
            elif key == "l":
                print()
                self.overview()

    def hint(self, exercise: Exercise) -> None:
        text = (exercise.folder / "hints.md").read_text(encoding="utf-8")
        parts = HINT.split(text)  # before the first, then heading and body in turn
        hints = list(zip(parts[1::2], parts[2::2]))
        shown = self.progress.hints.get(exercise.number, 0)
        if shown < len(hints):
            self.progress.hints[exercise.number] = shown + 1
            self.progress.save()
        now = hints[shown:shown + 1] or hints  # after the last one all of them again
        print("\n\n".join(bold(f"{exercise.number} {heading}") + "\n\n" + body.strip("\n") for heading, body in now))
        if shown + 1 < len(hints):
            print(f"\nAnother one, stronger: {exercise.command} --hint")
        else:
            print(f"\nThere are no more hints. The solution: {exercise.command} --solution")

    def solution(self, exercise: Exercise) -> None:
        if exercise.number not in self.progress.solved:
            unseen = 3 - self.progress.hints.get(exercise.number, 0)
            not_read = f", and {unseen} of its 3 hints are not read ({exercise.command} --hint)" if unseen else ""
            say(f"{exercise.number} is not solved yet{not_read}.")
            if sys.stdin.isatty() and is_terminal():
                print("See the solution all the same? [y/N] ", end="", flush=True)
                if sys.stdin.readline().strip().lower() not in ("y", "yes"):
                    return
        print(exercise.file("solution").read_text(encoding="utf-8"), end="")

    def reset(self, exercise: Exercise) -> None:
        mine = exercise.file("mine")
        if self.progress.hints.pop(exercise.number, None):
            self.progress.save()
        starter = exercise.file("starter").read_bytes()
        if mine.exists() and mine.read_bytes() != starter:
            for number in itertools.count(1):
                backup = exercise.file(f"mine.{number}")
                with contextlib.suppress(FileExistsError):
                    write_new(backup, mine.read_bytes())
                    break
            print(f"Your file is kept as {self.short(backup)}.")
        write_whole(mine, starter)
        print(f"{self.short(mine)} is the starter again.")


def saved_at(path: Path) -> tuple[int, int] | None:
    """None while an editor replaces the file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_ino


def main(arguments: list[str]) -> int | None:
    parser = Parser("./run exercise", __doc__)
    parser.add_argument("which", nargs="?", metavar="WHICH", help="a stage (03), a number (03.2) or a name")
    what = parser.add_mutually_exclusive_group()
    for name, text in (("--hint", "shows the next hint"), ("--watch", "checks again at every save"),
                       ("--watch-warp", "checks, and writes a page of what the kernel's warps did"),
                       ("--solution", "shows the solution"), ("--reset", "brings the starter back, keeps a backup")):
        what.add_argument(name, action="store_const", const=name[2:].replace("-", "_"), dest="command", help=text)
    parser.add_argument("--device", choices=("gpu", "sim"), default="sim",
                        help="gpu: verify the result on the GPU as well (default: sim, the simulator)")
    # For the tests:
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[3], help=argparse.SUPPRESS)
    parser.add_argument("--checks", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    workshop = Workshop(root, Checker(root, options.checks, options.device))
    if options.which is None and options.command is None:
        return workshop.overview()
    exercise = workshop.find(options.which, exact=options.command == "reset")
    try:
        return getattr(workshop, options.command or "check")(exercise)
    except OSError as error:
        if not error.filename:  # standard output has none
            raise
        raise Usage(f"{error.filename}: {error.strerror}") from error
