"""./run exercise as a person types it, partly into a pseudo-terminal, with a compiler and checks that are stand-ins."""

import contextlib
import datetime
import errno
import json
import os
import pty
import re
import select
import signal
import sys
import termios
import time
from pathlib import Path
from typing import Iterator
from unittest.mock import MagicMock

import pytest
from fake_programs import Programs, check_signal_ends, lasting
from fake_stages import TOOLS, quietly
from learn import exercise as tool, progress


class Terminal:
    """A program in a pseudo-terminal. `screen` is the text that was read and is not yet looked at."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.screen = ""
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            try:
                os.execvpe(command[0], command, environment)
            finally:
                os._exit(127)

    def expect(self, pattern: str, timeout_s: float = 120) -> None:
        """Waits for it, and takes it away."""
        end = time.monotonic() + timeout_s
        while not (found := re.search(pattern, self.screen)):
            assert select.select([self.file], [], [], max(0.0, end - time.monotonic()))[0], self.screen
            try:
                data = os.read(self.file, 65536)
            except OSError:  # the program has ended
                data = b""
            assert data, f"no {pattern}: {self.screen}"
            self.screen += data.decode(errors="replace").replace("\r\n", "\n")
        self.screen = self.screen[found.end() :]

    def follow(self, *steps: str) -> None:
        """Types the text after a ">", and waits for the steps without one."""
        for step in steps:
            if step.startswith(">"):
                os.write(self.file, step[1:].encode())
            else:
                self.expect(step)

    def wait(self) -> int:
        """The exit code; further output goes to `screen`. A program that does not end is killed."""
        with contextlib.suppress(AssertionError):
            self.expect(r"\Z(?!)")
        os.kill(self.pid, signal.SIGKILL)  # one that has ended does not mind
        _, status = os.waitpid(self.pid, 0)
        os.close(self.file)
        return os.waitstatus_to_exitcode(status)


NUMBERS = ["01.1", "01.2", "02.1"]
HINTS = "## Hint 1: a\n\n## Hint 2: b\n\n    code\n\n## Hint 3: c\n\n    code\n"
# The compiler copies; the check looks for a word.
COMPILER = 'cp "${@: -3:1}" "${@: -1}"'
CHECK = 'grep -q right "$1" && echo "Solved: well" || { echo "Wrong result: look again"; exit 1; }'


class Learner:
    """A checkout of exercises."""

    def __init__(self, root: Path, programs: Programs) -> None:
        self.root, self.programs = root, programs
        (root / "build/exercise").mkdir(parents=True)
        for number in NUMBERS:
            folder = root / f"{number[:2]}_a/exercise/of_{number.replace('.', '_')}"
            folder.mkdir(parents=True)
            title = f"// Exercise {number}, write it, 5 minutes: A title\n"
            for name, text in {"starter.cu": title, "solution.cu": f"{title}right\n", "hints.md": HINTS}.items():
                (folder / name).write_text(text)
            programs.fake(f"../build/exercise/{folder.name}", body=CHECK)
        (root / "01_a/main.cu").touch()
        programs.fake("nvcc", body=COMPILER)
        (root / "build/CMakeCache.txt").write_text(f"CMAKE_CUDA_COMPILER:FILEPATH={programs.folder}/nvcc\n")
        self.mine, self.progress = root / "01_a/exercise/of_01_1/mine.cu", root / progress.PROGRESS_FILE
        self.options = ["--root", str(root), "--checks", str(root / "build/exercise")]
        self.environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
        self.environment.pop("NO_COLOR", None)

    def save(self, text: str) -> None:
        partial = self.mine.with_name("editor.tmp")  # as editors do it: a new file in place of the old one
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, self.mine)

    def solved(self, *numbers: str) -> None:
        self.progress.write_text(json.dumps({"solved": dict.fromkeys(numbers, "2026-01-01"), "hints": {}}))

    def terminal(self, *arguments: str, **environment: str) -> Terminal:
        command = [sys.executable, "-B", str(TOOLS), "exercise", *self.options, *arguments]
        return Terminal(command, {**self.environment, **environment})

    def typed(self, words: str = "", code: int = 0, **environment: str) -> str:
        """The screen at the end of a command that ends with this code."""
        session = self.terminal(*words.split(), **environment)
        assert session.wait() == code, session.screen
        return session.screen

    def piped(self, words: str = "", code: int = 0, said: str = "") -> str:
        """A command ends with this code and says this; returns all that it printed."""
        ended, printed = quietly("exercise", *self.options, *words.split())
        assert (ended, said in printed) == (code, True), printed
        return printed


@pytest.fixture
def learner(tmp_path: Path, programs: Programs) -> Iterator[Learner]:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # pseudo-terminals are closed while programs still run
    yield Learner(tmp_path.resolve(), programs)
    signal.signal(signal.SIGHUP, before)


def test_from_starter_to_solution_in_watch(learner: Learner) -> None:
    today = str(datetime.date.today())
    screen = learner.typed()
    for part in ("0 of 3 solved", "\033[33mnext\033[0m  01.1", "Next: read 01_a/README.md, then"):
        assert part in screen, screen
    session = learner.terminal("--watch")
    session.follow("now a copy of the starter")
    waiting = "Waiting for 01_a/exercise/of_01_1/mine.cu to be saved; n: next exercise, h: hint, l: list, q: quit"
    for text in ("not yet", "right"):
        session.follow("Wrong result: look again", waiting)
        learner.save(text)
    session.follow("Solved: well", "Go on: .*./run exercise 01.2", "\nn: next exercise, h: hint, l: list, q: quit", ">q")
    assert session.wait() == 0
    screen = learner.typed()
    assert json.loads(learner.progress.read_text())["solved"]["01.1"] in (today, str(datetime.date.today()))
    for part in ("1 of 3 solved, about 10 minutes to go", "\033[32mdone\033[0m  01.1", "\033[33mnext\033[0m  01.2"):
        assert part in screen, screen
    names = sorted(path.name for path in learner.mine.parent.iterdir())
    assert names == ["hints.md", "mine.cu", "solution.cu", "starter.cu"]


def test_keys_of_watch(learner: Learner) -> None:
    session = learner.terminal("01.1", "--watch")
    session.follow("q: quit", ">xh", "01.1 Hint 1: a")  # other keys do nothing
    session.follow("q: quit", ">l", "Exercises: 0 of 3 solved", "q: quit")
    learner.save("right")
    session.follow("Solved: well", "\nn: next exercise", ">\n", "01.2 A title", "Waiting for 01_a/exercise/of_01_2/mine.cu")
    session.follow(">n", "Waiting for 02_a/exercise/of_02_1/mine.cu", ">q")  # an unsolved exercise may wait
    assert session.wait() == 1


def test_watch_ends_with_the_last_exercise(learner: Learner) -> None:
    learner.solved(*NUMBERS[1:])
    learner.save("right")
    session = learner.terminal("01.1", "--watch")
    session.follow("That was the last one: all 3 exercises are solved.")
    assert session.wait() == 0


def test_ctrl_c_leaves_the_terminal_as_it_was(learner: Learner) -> None:
    session = learner.terminal("01.1", "--watch")
    before = termios.tcgetattr(session.file)
    session.follow("q: quit")
    assert termios.tcgetattr(session.file) != before
    session.follow(">\x03", "interrupted")
    time.sleep(0.2)
    assert termios.tcgetattr(session.file) == before
    assert session.wait() == 130 and "Traceback" not in session.screen, session.screen


def test_watch_without_keys(learner: Learner) -> None:
    learner.save("right")
    assert "q: quit" not in learner.piped("01.1 --watch", 0, "Solved: well")


def test_the_end(learner: Learner) -> None:
    learner.solved(*NUMBERS)
    (learner.root / "02_a/README.md").write_text("# 02: The second idea\n")
    learner.progress.write_text(learner.progress.read_text().replace("2026-01-01", "2026-02-01", 1))
    for said in ("  **   01_a\n  *    02: The second idea\n", "Solved from 2026-01-01 to 2026-02-01, 3 of 3 without a hint."):
        learner.piped("", 0, said)


def test_watch_warp_writes_a_page(learner: Learner) -> None:
    launch = {"kernel": "mine", "grid": [1, 1, 1], "block": [32, 1, 1], "allocations": [], "counters": {}, "lines": {},
              "left_out": {"of_other_blocks_and_warps": 0, "beyond_the_limit": 0}, "places": ["/elsewhere.h:1", f"{learner.mine}:2"],
              "events": [{"block": 0, "warp": 3, "at": at, "what": "warp barrier", "rose": {}} for at in (0, 0, 1)]}  # fmt: skip
    (learner.root / "trace").write_text(json.dumps(launch) + "\n")
    place = learner.mine.relative_to(learner.root)
    check = f'[[ -z $SIM_TRACE ]] || cp {learner.root}/trace "$SIM_TRACE"; echo "$2" >>{learner.root}/before; {CHECK}'
    learner.programs.fake("../build/exercise/of_01_1", body=check.replace("look again", f"look at {place}:2"))
    learner.mine.write_bytes(b"not yet\nh\xe9re\n")  # in Latin-1
    page = learner.root / "build/watch-01.1.html"
    assert "What your warps did: build/watch-01.1.html" in learner.piped("01 --watch-warp", 1, "Wrong result: look at")
    text = page.read_text(encoding="utf-8")
    assert '"open":{"run":0,"launch":0,"block":0,"warp":3,"step":2}' in text and '["not yet","h\ufffdre"]' in text
    # The kernel that a learner's is compared with does not come after it.
    assert (learner.root / "before").read_text().splitlines()[-1] == "no library"
    learner.save("right")
    page.unlink()
    assert "Go on: " in learner.piped("01.1 --watch-warp", 0, "Solved: well") and page.exists()
    page.unlink()
    (learner.root / "trace").write_text("")
    learner.piped("01.1 --watch-warp", 0, "There is nothing to watch: no kernel ran.")
    learner.programs.fake("nvcc", body="echo 'mine.cu(1): error: no'; exit 1")
    learner.piped("01.1 --watch-warp", 1, "It does not compile")
    assert not page.exists()


def test_a_compile_error_comes_first_and_short(learner: Learner) -> None:
    learner.save("right")
    errors = r"%s(3): error: caf\351 is undefined\n  caf\351\n  ^\n\nmine.cu(5): error: more\n"
    learner.programs.fake("nvcc", body=f'printf "{errors}" "${{@: -3:1}}"; exit 1')
    screen = learner.typed("01", 1)
    first = "  01_a/exercise/of_01_1/mine.cu(3): error: caf\ufffd is undefined\n    caf\ufffd\n    ^\n"
    assert "checking ..." in screen and f"It does not compile:\033[0m\n{first}(1 more error after this one)\n" in screen
    assert learner.mine.read_text() == "right"


def test_a_file_that_is_not_utf_8(learner: Learner) -> None:
    """Compiler and check may quote it."""
    learner.mine.write_bytes(b"not yet: caf\xe9\n")
    learner.programs.fake("../build/exercise/of_01_1", body='cat "$1"; exit 1')
    learner.piped("01.1", 1, "not yet: caf\ufffd\n")
    learner.programs.fake("nvcc", body='sed "s/^/mine.cu(1): error: /" "${@: -3:1}"; exit 1')
    learner.piped("01.1", 1, "It does not compile:\n  mine.cu(1): error: not yet: caf\ufffd\n")


def test_hints(learner: Learner) -> None:
    """One after the other, then all of them again. Code keeps its indentation."""
    hints, stuck = [], []
    for _ in range(4):
        hints.append(learner.piped("1.1 --hint"))
        stuck.append(learner.piped("1.1", 1).partition("Stuck? ./run exercise 01.1 --hint")[2])
    all_again = " (all again), or --solution\n"
    assert stuck == [" (shown so far: 1 of 3)\n", " (shown so far: 2 of 3)\n", all_again, all_again]
    assert learner.piped("1.1 --solution").startswith("01.1 is not solved yet.\n")
    assert [re.findall(r"Hint (\d):", hint) for hint in hints] == [["1"], ["2"], ["3"], ["1", "2", "3"]]
    assert ["no more hints" in hint for hint in hints] == [False, False, True, True] and "\n    code\n" in hints[2]
    learner.piped("1.1 --reset")
    assert learner.piped("1.1", 1).endswith("Stuck? ./run exercise 01.1 --hint\n")


@pytest.mark.parametrize("answer, shown", [("\n", False), ("y\n", True), ("\x04", False)])
def test_the_solution_is_shown_to_who_says_yes(learner: Learner, answer: str, shown: bool) -> None:
    session = learner.terminal("1.1", "--solution")
    session.follow("is not solved yet, and 3 of its 3 hints are not read", r"\[y/N\]", f">{answer}")
    assert (session.wait(), "\nright\n" in session.screen) == (0, shown), session.screen


def test_reset_keeps_what_was_there(learner: Learner) -> None:
    for number in (1, 2):
        learner.save(f"version {number}")
        for names_backup in (True, False):  # of the starter no copy is kept
            said = learner.piped("1.1 --reset")
            assert (f"mine.{number}.cu" in said, "kept as" in said) == (names_backup, names_backup), said
            assert learner.mine.with_name(f"mine.{number}.cu").read_text() == f"version {number}"
            assert learner.mine.read_bytes() == learner.mine.with_name("starter.cu").read_bytes()
    assert not learner.mine.with_name("mine.3.cu").exists()


def test_solved(learner: Learner) -> None:
    """The solution then comes without a warning. A stage means its next open exercise."""
    learner.solved("01.1")
    assert learner.piped("01.1 --solution") == learner.mine.with_name("solution.cu").read_text()
    learner.piped("1 --hint", 0, "01.2 Hint 1")
    learner.save("right")
    learner.piped("1.1", 0, "Solved: well")
    assert json.loads(learner.progress.read_text())["solved"] == {"01.1": "2026-01-01"}  # when it was solved first
    learner.solved(*NUMBERS)
    assert learner.piped().startswith("Exercises: all 3 solved.\n")


def test_the_primer_has_number_00(learner: Learner) -> None:
    folder = learner.root / "common/primer/exercise/first"
    folder.mkdir(parents=True)
    (folder / "starter.cu").write_text("// Exercise 00.1, write it, 5 minutes: The first\n")
    (folder / "hints.md").write_text(HINTS)
    learner.piped("", 0, "primer\n  next  00.1")
    learner.piped("", 0, "Next: read common/primer/README.md, then ./run exercise 00.1\n")
    for name in ("0", "00", "0.1", "00.1", "primer", "first"):
        (learner.root / progress.PROGRESS_FILE).unlink(missing_ok=True)
        learner.piped(f"{name} --hint", 0, "00.1 Hint 1")
    learner.piped("00.2", 2, "there is no exercise '00.2'; stage 00 has 00.1")
    learner.piped("7", 2, "accepted: 00, 01, 02, a number such as 00.1")


@pytest.mark.parametrize(
    "before, solved, said",
    [
        ([], "01.2", "Go on: read 02_a/README.md, then ./run exercise 02.1 "),  # and not back to the omitted one
        (["01.1"], "02.1", "Go on: read 01_a/README.md, then ./run exercise 01.2 "),  # nothing is left after it
        ([], "01.1", "Go on: ./run exercise 01.2 "),
        (["01.1", "02.1"], "01.2", "That was the last one"),
    ],
)
def test_what_is_next(learner: Learner, before: list[str], solved: str, said: str) -> None:
    learner.solved(*before)
    learner.programs.fake(f"../build/exercise/of_{solved.replace('.', '_')}", body="echo Solved")
    learner.piped(solved, 0, said)


def test_colour_only_where_it_is_wanted(learner: Learner) -> None:
    screen = learner.typed(NO_COLOR="1")
    assert "\033" not in screen + learner.piped() and "next  01.1" in screen


def test_no_gpu(learner: Learner) -> None:
    learner.programs.fake("../build/exercise/of_01_1", body='echo "$*: no GPU" >&2; exit 3')
    said = learner.piped("1.1 --device gpu", 3)
    assert said.endswith("--device gpu: no GPU\n") and "Stuck" not in said


def test_wide_lines_are_wrapped_but_tables_and_code(learner: Learner) -> None:
    table = ["  table   " + " ".join(30 * "1"), "    | " + " ".join(12 * ["code"])]
    lines = "\n".join(["Wrong", "  " + " ".join(12 * ["word"]), *table])
    learner.programs.fake("../build/exercise/of_01_1", body=f"echo '{lines}'\nexit 1")
    screen = learner.typed("1.1", 1, COLUMNS="50")
    expected = ["  " + " ".join(9 * ["word"]), "  word word word", *table]
    assert "\n".join(["", *expected, ""]) in screen, screen


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", ["count", "record --commit 0123456", "exercise 01.1 --checks build/exercise"])
def test_a_signal_ends_what_was_started(command: str, number: signal.Signals, learner: Learner) -> None:
    started = learner.root / "started"
    for name in ("../build/01_a", "nvcc"):
        learner.programs.fake(name, body=lasting(started))
    words = [*command.split(), "--root", str(learner.root)]
    check_signal_ends(number, [sys.executable, "-B", str(TOOLS), *words], started, cwd=learner.root)


def test_what_stands_in_the_place_of_the_learner_s_file(learner: Learner) -> None:
    learner.mine.symlink_to(learner.root / "gone/mine.cu")
    said = learner.piped("01.1", 2, "01_a/exercise/of_01_1/mine.cu is a link that leads nowhere")
    learner.mine.unlink()
    learner.mine.mkdir()
    said += learner.piped("01.1", 2, "01_a/exercise/of_01_1/mine.cu is not a file")
    assert said.count("\n") == 2


def test_a_checkout_that_cannot_be_written(learner: Learner, monkeypatch: pytest.MonkeyPatch) -> None:
    fail = MagicMock(side_effect=OSError(errno.EROFS, "Read-only file system", str(learner.mine)))
    with monkeypatch.context() as patched:
        patched.setattr(tool, "write_new", fail)
        assert learner.piped("01.1", 2, f"{learner.mine}: Read-only file system").count("\n") == 1
    monkeypatch.setattr(progress, "write_whole", fail)
    learner.mine.write_text("right")
    said = "cannot be written (Read-only file system): your progress is not saved"
    assert "Solved" in learner.piped("01.1", 0, said)


DAMAGED = [f'{{"solved": {{}}, "hints": {{"01.1": {hints}}}}}' for hints in ("1e999", "-1", "[1]")]
DAMAGED += ['{"solved": [], "hints": {}}', '{"solved": {"01.1": 5}, "hints": {}}', "{broken", "[" * 100000]


@pytest.mark.parametrize("text", [*DAMAGED, "[]", "{}", "null", "\0", "", b"\xff"], ids=lambda _: "")
def test_damaged_progress(learner: Learner, text: str | bytes) -> None:
    learner.progress.write_bytes(text.encode() if isinstance(text, str) else text)
    printed = learner.piped("", 0, "0 of 3 solved")
    assert printed.count(f"{progress.PROGRESS_FILE} cannot be read: your progress starts again from zero.\n") == 1
    learner.piped("01.1 --hint")
    assert "cannot be read" not in learner.piped("01.1", 1)
