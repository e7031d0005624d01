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
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import termios
import textwrap
import time
import tty
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from command import Parser, ToolError, Usage, is_terminal, say, styled
from files import load_json, write_new, write_whole
from learn import watch
from learn.building import build, cache_of, compiling, nvcc

SOLVED, NOT_YET, NO_DEVICE = 0, 1, 3

PROGRESS_FILE = ".exercise-progress.json"
CHECK_TIMEOUT_S = 60
WATCH_INTERVAL_S = 0.3
WIDTH = 100
LESSONS = ("common/primer", "[0-9][0-9]_*")

TITLE = re.compile(r"Exercise (\d\d\.\d+), (write|fix|predict) it, (\d+) minutes: (.+)")
HINT = re.compile(r"^## (Hint \d+: .+)$", re.MULTILINE)


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


# ---- Progress


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


# ---- Building and checking


class Checker:
    """Builds and checks learners' files. checks: a folder with the checks, built; None: build them."""

    def __init__(self, root: Path, checks: Path | None, device: str, timeout_s: float = CHECK_TIMEOUT_S) -> None:
        self.root = root
        self.checks = checks or root / "build/exercise"
        self.builds = checks is None
        self.device = device
        self.timeout_s = timeout_s
        self.work = root / "build/exercise/learner"

    def build_check(self, exercise: Exercise) -> None:
        if not self.builds:
            return
        built = (self.checks / exercise.name).exists()
        if not built:
            print("Building the check of this exercise: this takes some minutes, but only the first time.", flush=True)
        lesson = (exercise.folder.parent.parent / "README.md").relative_to(self.root)
        code = build(self.root, "./run exercise", f"exercise_{exercise.name}", "simulator", reading=str(lesson), quiet=built)
        if code != 0:
            sys.exit(code)

    def compiler(self) -> list[str]:
        """For the GPU that the simulator is; for a GPU, the oldest of those that the stages are compiled for."""
        cache = cache_of(self.checks.parent)
        if self.device == "gpu":
            architectures = re.findall(r"\d+", cache.get("compiled_for", ""))
            oldest = min(map(int, architectures), default=80)
            code = f"arch=compute_{oldest},code=[compute_{oldest},sm_{oldest}]"
        else:
            code = "arch=compute_90,code=compute_90"
        options = ["-ftz=true", "-gencode", code, "-shared", "-Xcompiler=-fPIC"]
        return [*nvcc(cache, self.root), *options]

    def check(self, exercise: Exercise, source: Path) -> tuple[int, str]:
        """Returns an exit code and the messages."""
        self.build_check(exercise)
        if exercise.kind == "predict":
            return self.run_check(exercise, [str(source)])
        if self.device == "gpu":
            code, text = self.run_check(exercise, ["no library", "no library", "--device", "gpu"])
            if code == NO_DEVICE:
                return code, text
        self.work.mkdir(parents=True, exist_ok=True)
        library = self.library(exercise)
        # The counters that a learner's are compared with.
        before = self.work / f"{exercise.name}-before-{self.device}.so"
        before_source = exercise.folder / "before.cu"
        if not before_source.exists():
            before_source = exercise.file("starter")
        unfinished = before.with_suffix(".partial")
        sources = {library: source}
        if not before.exists() or before.stat().st_mtime < before_source.stat().st_mtime:
            sources[unfinished] = before_source
        commands = [[*self.compiler(), str(file), "-o", str(out)] for out, file in sources.items()]
        with compiling(*commands, cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as compilers:
            messages = [compiler.communicate()[0] for compiler in compilers]
        if compilers[0].returncode != 0:
            return NOT_YET, first_error(messages[0], self.root)
        if unfinished in sources:
            os.replace(unfinished, before)
        code, text = self.run_check(exercise, [str(library), str(before), "--device", self.device])
        return code, text + (warnings_of(messages[0], self.root) if code == NOT_YET else "")

    def library(self, exercise: Exercise) -> Path:
        """The library that the learner's file is compiled into."""
        return self.work / f"{exercise.name}-{self.device}.so"

    def record(self, exercise: Exercise) -> list[watch.Json]:
        """A trace of the learner's kernel in the case at which the check ended: the one that is wrong, or the last."""
        command = [str(self.checks / exercise.name), str(self.library(exercise)), "no library"]
        return watch.record(command, self.root, watch.BLOCKS, watch.EVENTS, timeout_s=self.timeout_s)[0]

    def run_check(self, exercise: Exercise, arguments: list[str]) -> tuple[int, str]:
        try:
            result = subprocess.run(
                [str(self.checks / exercise.name)] + arguments, cwd=self.root, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", check=False,
                timeout=self.timeout_s)
        except subprocess.TimeoutExpired:
            return NOT_YET, (f"No answer after {self.timeout_s:g} seconds. Is there a loop that does not end (how does its "
                             "variable change?), or does every thread do the work of all?")
        except OSError as error:
            raise Usage(f"cannot start {self.checks / exercise.name}: {error.strerror}") from error
        if result.returncode < 0:
            name = signal.Signals(-result.returncode).name
            return NOT_YET, (result.stdout + f"The launcher ended the program ({name}). On the host, device pointers must not "
                             "be read or written: only kernels may do that.")
        if result.returncode not in (SOLVED, NOT_YET):
            return result.returncode, result.stdout + result.stderr
        return result.returncode, result.stdout.replace(str(self.root) + "/", "")


def warnings_of(messages: str, root: Path) -> str:
    """The warnings of nvcc, with the source lines; without those of unused variables, which starters have. "" if none."""
    found = re.findall(r"^(\S+\(\d+\)): warning #(\d+)-D: (.*)\n(.*)", messages.replace(str(root) + "/", ""), re.MULTILINE)
    without = re.compile(r" \[with [^]]*\]")  # the same warning of each instantiation
    warnings = {f"  {place}: {without.sub('', text)}\n       | {line.strip()}\n" for place, number, text, line in found if number not in ("177", "550")}
    return "\nThe compiler warns:\n" + "".join(sorted(warnings)) if warnings else ""


def first_error(messages: str, root: Path) -> str:
    """The first error of nvcc or the host compiler, with the source line that they show, and how many there are."""
    lines = messages.replace(str(root) + "/", "").splitlines()
    places = [i for i, line in enumerate(lines) if re.search(r"\b(fatal )?error\b\s*:", line)]
    begin, *others = places or [0]
    belong = itertools.takewhile(lambda i: lines[i].strip() and i not in others, range(begin + 1, len(lines)))
    shown = [begin, *belong][:4] if places else range(min(10, len(lines)))
    text = "\n".join(["It does not compile:", *(f"  {lines[i]}" for i in shown)])
    return text + (f"\n({len(others)} more error{'s' if len(others) > 1 else ''} after this one)" if others else "")


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
