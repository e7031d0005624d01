"""./run exercise as a person types it: its commands driven through a pseudo-terminal. CHECKS: see exercise_test.py."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator

import pytest
from exercise_test import CHECKS, EXERCISES, ROOT, solution_of
from learn import exercise as tool


class Terminal:
    """A program in a pseudo-terminal. `screen` is what was read and is not yet looked at."""

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

    def type(self, text: str) -> None:
        os.write(self.file, text.encode())

    def wait(self) -> int:
        """The exit code; what is still printed goes to `screen`. A program that does not end is killed."""
        with contextlib.suppress(AssertionError):
            self.expect(r"\Z(?!)")
        os.kill(self.pid, signal.SIGKILL)  # one that has ended does not mind
        _, status = os.waitpid(self.pid, 0)
        os.close(self.file)
        return os.waitstatus_to_exitcode(status)


class Learner:
    """A checkout of the exercises: nothing is written into this one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.progress = root / tool.PROGRESS_FILE
        (root / "common").symlink_to(ROOT / "common")
        for stage in ROOT.glob("[0-9][0-9]_*"):
            shutil.copytree(stage, root / stage.name, ignore=shutil.ignore_patterns("mine.*"))
        self.command = [sys.executable, "-B", str(ROOT / "common/tools"), "exercise"]
        self.command += ["--root", str(root), "--checks", str(CHECKS)]
        self.environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
        self.environment.pop("NO_COLOR", None)

    def mine(self, name: str) -> Path:
        return self.root / EXERCISES[name].file("mine").relative_to(ROOT)

    def save(self, name: str, text: str) -> None:
        partial = self.mine(name).with_name("editor.tmp")  # as editors do it: a new file in place of the old one
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, self.mine(name))

    def terminal(self, *arguments: str, **environment: str) -> Terminal:
        return Terminal([*self.command, *arguments], {**self.environment, **environment})

    def typed(self, *arguments: str, **environment: str) -> tuple[int, str]:
        session = self.terminal(*arguments, **environment)
        return session.wait(), session.screen

    def piped(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self.command, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env={**self.environment, **environment}, check=False)  # fmt: skip


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Learner:
    return Learner(tmp_path_factory.mktemp("checkout").resolve())


@pytest.fixture
def learner(checkout: Learner, monkeypatch: pytest.MonkeyPatch) -> Iterator[Learner]:
    """With nothing done yet; only what answers are compared with is compiled once."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # pseudo-terminals are closed while programs still run
    yield checkout
    signal.signal(signal.SIGHUP, before)
    for path in (checkout.progress, *checkout.root.glob("*/exercise/*/mine.*")):
        path.unlink(missing_ok=True)


COUNT = len(EXERCISES)


def test_from_starter_to_solution_in_watch(learner: Learner) -> None:
    code, screen = learner.typed()
    assert code == 0 and f"0 of {COUNT} solved" in screen and "\033[33mnext\033[0m  01.1" in screen, screen
    assert "Next: read 01_naive/README.md, then" in screen
    session = learner.terminal("--watch")
    session.expect("now a copy of the starter")
    session.expect("`passes_of_the_maximum` has no answer yet")
    session.expect("Waiting for .*mine.txt to be saved")
    answers = learner.mine("passes_and_sectors").read_text(encoding="utf-8")
    learner.save("passes_and_sectors", answers.replace("passes_of_the_maximum = ?", "passes_of_the_maximum = 2"))
    session.expect("a single float per row")
    session.expect("Waiting for")
    learner.save("passes_and_sectors", solution_of("passes_and_sectors"))
    session.expect("Solved: ")
    session.expect("Go on: .*./run exercise 01.2")
    assert session.wait() == 0
    code, screen = learner.typed()
    assert f"1 of {COUNT} solved" in screen and "\033[32mdone\033[0m  01.1" in screen
    assert "\033[33mnext\033[0m  01.2" in screen


def test_ctrl_c_ends_watch(learner: Learner) -> None:
    session = learner.terminal("warp_all_reduce", "--watch")
    session.expect("Waiting for")
    session.type("\x03")
    assert session.wait() == 130 and "Traceback" not in session.screen, session.screen


def test_a_compile_error_comes_first_and_short(learner: Learner) -> None:
    broken = solution_of("warp_all_reduce").replace("  return value;\n}", "  return valu;\n}", 1)
    learner.save("warp_all_reduce", broken)
    code, screen = learner.typed("03")
    assert code == 1 and "checking ..." in screen and len(screen.splitlines()) < 16, screen
    assert re.search(r'It does not compile:.*\n.*mine.cu\(\d+\): error: identifier "valu" is undefined', screen), screen
    assert learner.mine("warp_all_reduce").read_text(encoding="utf-8") == broken


def test_hints(learner: Learner) -> None:
    """One after the other, then all of them again. Code keeps its indentation."""
    hints = [learner.typed("3.1", "--hint")[1] for _ in range(4)]
    assert [re.findall(r"Hint (\d):", hint) for hint in hints] == [["1"], ["2"], ["3"], ["1", "2", "3"]]
    for hint in hints[2:]:
        assert "no more hints" in hint and "\n    for (int distance" in hint, hint
    code, screen = learner.typed("3.1")
    assert code == 1 and "Stuck? ./run exercise 03.1 --hint (all again), or --solution" in screen, screen
    learner.typed("3.1", "--reset")
    code, screen = learner.typed("3.1")
    assert code == 1 and "Stuck? ./run exercise 03.1 --hint\n" in screen, screen


@pytest.mark.parametrize("answer, shown", [("\n", False), ("y\n", True), ("\x04", False)])
def test_the_solution_is_shown_to_who_says_yes(learner: Learner, answer: str, shown: bool) -> None:
    session = learner.terminal("3.1", "--solution")
    session.expect("is not solved yet")
    session.expect(r"\[y/N\]")
    session.type(answer)
    assert (session.wait(), "__shfl_xor_sync" in session.screen) == (0, shown), session.screen


def test_reset_keeps_what_was_there(learner: Learner) -> None:
    mine = learner.mine("warp_all_reduce")
    starter = EXERCISES["warp_all_reduce"].file("starter").read_bytes()
    for number in (1, 2):
        learner.save("warp_all_reduce", f"// version {number}\n")
        for names_backup in (True, False):  # of the starter no copy is kept
            code, screen = learner.typed("3.1", "--reset")
            assert (code, f"mine.{number}.cu" in screen, "kept as" in screen) == (0, names_backup, names_backup), screen
            assert mine.with_name(f"mine.{number}.cu").read_text(encoding="utf-8") == f"// version {number}\n"
            assert mine.read_bytes() == starter
    assert not mine.with_name("mine.3.cu").exists()


def test_solved(learner: Learner) -> None:
    """The solution then comes without a warning. A stage means its next open exercise."""
    learner.save("warp_all_reduce", solution_of("warp_all_reduce"))
    code, screen = learner.typed("3")
    assert code == 0 and "Solved: " in screen and re.search(r"barriers per row +4 +0", screen), screen
    assert "Go on: \033[1m./run exercise 03.2" in screen  # not back to what was left out before
    code, screen = learner.typed("03.1", "--solution")
    assert code == 0 and "not solved" not in screen and "[y/N]" not in screen
    assert "03.2 Hint 1" in learner.typed("3", "--hint")[1]
    learner.progress.unlink()  # loses nothing else
    assert f"0 of {COUNT} solved" in learner.typed()[1] and learner.mine("warp_all_reduce").exists()


def test_all_solved(learner: Learner) -> None:
    solved = {exercise.number: "2026-01-01" for exercise in EXERCISES.values()}
    learner.progress.write_text(json.dumps({"solved": solved, "hints": {}}), encoding="utf-8")
    _, screen = learner.typed()
    assert f"Exercises: all {COUNT} solved.\n" in screen and "minutes" not in screen


def test_colour_only_where_it_is_wanted(learner: Learner) -> None:
    done = learner.piped()
    assert (done.returncode, "\033" in done.stdout, done.stderr) == (0, False, "")
    code, screen = learner.typed(NO_COLOR="1")
    assert code == 0 and "\033" not in screen and "next  01.1" in screen
    done = learner.piped("3.1", "--solution")
    assert done.returncode == 0 and "__shfl_xor_sync" in done.stdout and "not solved yet" in done.stderr


def test_no_gpu(learner: Learner) -> None:
    done = learner.piped("3.1", "--device", "gpu", CUDA_VISIBLE_DEVICES="")
    assert (done.returncode, done.stderr.count("\n")) == (3, 1) and "no usable NVIDIA GPU" in done.stderr, done


def test_wide_lines_are_wrapped_but_tables(learner: Learner) -> None:
    said = learner.piped("2.1", COLUMNS="80").stdout
    assert "which thread (0, 0, 0) of\n  the block wrote with no barrier between\n" in said
    learner.save("warp_all_reduce", solution_of("warp_all_reduce").replace("ReduceOp{}(value, _", "ReduceOp{}(0, _"))
    said = learner.piped("3.1", COLUMNS="60").stdout
    assert re.search(r"\n +column +> 0 +1 +2 +3 +4 +5\n +x ", said), said


INCLUDE = '#include "common/exercise/launchers.cuh"\n'
LAUNCHERS = [
    # One that CUDA refuses: the place as it is seen from the checkout.
    ("<<<grid, warps_per_block * 32,", "<<<grid, 2048,",
     r"at\s+03_warp_reduce/exercise/warp_all_reduce/mine.cu:(.|\n)*A block has 1 to 1024 threads"),
    ("  const unsigned grid", "  y[0] = x[0];\n  const unsigned grid", r"The launcher ended the program \(SIGSEGV\)"),
    ("", INCLUDE + "void softmax(const float*, float*, Shape, cudaStream_t) {}\n",
     "launched no kernel; it should launch `warp_softmax`"),
    ("", INCLUDE, "defines no function `softmax`"),
]  # fmt: skip


@pytest.mark.parametrize("old, new, message", LAUNCHERS)
def test_launchers_that_fail(learner: Learner, old: str, new: str, message: str) -> None:
    learner.save("warp_all_reduce", solution_of("warp_all_reduce").replace(old, new) if old else new)
    done = learner.piped("3.1")
    assert done.returncode == 1 and re.search(message, done.stdout), done
