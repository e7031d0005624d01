#!/usr/bin/env python3
"""Tests of how the tools begin and end: old Pythons, odd terminals, interrupts, and files that cannot be read or written.

    python3 common/tests/command_test.py
"""

from __future__ import annotations

import ast
import contextlib
import errno
import io
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import List, Tuple
from unittest import mock

sys.dont_write_bytecode = True
TOOLS = Path(__file__).resolve().parents[1] / "tools"
sys.path.insert(0, str(TOOLS))

import command
import files
from learn import exercise
from measure import count
from pages import generate, plot, report


def script(path: Path, text: str) -> None:
    path.write_text("#!/bin/sh\n" + text, encoding="utf-8")
    path.chmod(0o755)


def start(*arguments: str, stdout: int = subprocess.PIPE, **environment: str) -> "subprocess.Popen[str]":
    """A Python: of the tools, or with -c."""
    given = arguments if arguments[:1] == ("-c",) else (str(TOOLS), *arguments)
    return subprocess.Popen(
        [sys.executable, "-B", *given], stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
        encoding="utf-8", errors="replace", env={**os.environ, **environment},
    )  # fmt: skip


def run(*arguments: str, stdout: int = subprocess.PIPE, **environment: str) -> "subprocess.CompletedProcess[str]":
    process = start(*arguments, stdout=stdout, **environment)
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def quietly(*arguments: str) -> Tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = command.main(list(arguments))
    return code, out.getvalue(), err.getvalue()


def has_ended(pid: int) -> bool:
    """At once or a little later; nobody may have asked for its exit code yet."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def lasting(started: Path) -> str:
    """A shell script that starts another process, and says which."""
    return f"sleep 60 &\necho $! >{started}.new\nmv {started}.new {started}\nwait\n"


def ended_by_signals(test: unittest.TestCase, started: Path, *arguments: str) -> None:
    for signal_, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        with test.subTest(arguments=arguments, signal=signal_):
            started.unlink(missing_ok=True)
            process = start(*arguments)
            while process.poll() is None and not started.exists():
                time.sleep(0.05)
            process.send_signal(signal_)
            out, err = process.communicate(timeout=30)
            test.assertEqual((process.returncode, "Traceback" in err), (code, False), out + err)
            test.assertTrue(has_ended(int(started.read_text())))


class CommandTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()

    def test_names(self) -> None:
        self.assertEqual((run().returncode, run("--help").returncode), (0, 0))
        for name in ("record.py", "", "x\x1b[31m"):
            done = run(name)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1))
            self.assertIn("there are: exercise, doctor", done.stderr)
            self.assertNotIn("\x1b", done.stderr)

    def test_bad_usage_is_one_line_that_no_terminal_obeys(self) -> None:
        for name in command.COMMANDS:
            if name == "draw":  # takes nothing
                continue
            done = run(name, "--x\x1b[2J\n\x07")
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
            self.assertIn("--x\\x1b[2J\\n\\x07", done.stderr)
        for digits in ("9" * 5000, "٣", "²", "1e3", "-1"):
            done = run("profile", "--cols", digits)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            done = run("profile", digits)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            done = run("sweep", "--shapes", f"f32:{digits}x8")
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            done = run("exercise", digits)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)

    def test_an_old_python_is_told_so(self) -> None:
        text = "import os, runpy, sys; sys.version_info = (3, 7, 9); runpy.run_path(os.environ['MAIN'])"
        done = run("-c", text, MAIN=str(TOOLS / "__main__.py"))
        said = "common/tools: Python 3.8 or newer is needed as python3, and this is 3.7\n"
        self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", said))
        self.assertEqual(ast.parse((TOOLS / "__main__.py").read_text(), feature_version=(3, 4)).body[1].names[0].name, "os")
        for path in TOOLS.rglob("*.py"):  # and what 3.8 cannot read is not there
            ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))

    def test_a_terminal_of_ascii(self) -> None:
        ascii_only = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONIOENCODING": "ascii:strict"}
        for words in ("--help", "profile --help", "sweep --list", "exercise", "exercise 01.1 --solution"):
            done = run(*words.split(), **ascii_only)
            self.assertEqual((done.returncode, "Error" in done.stderr), (0, False), done.stderr)
        with mock.patch.object(plot, "main", lambda _: print("µ · – ×")):
            out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
            with mock.patch.object(sys, "stdout", out):
                self.assertEqual(command.main(["plot"]), 0)
            self.assertEqual(out.buffer.getvalue(), b"? ? ? ?\n")  # type: ignore[attr-defined]

    def test_what_is_printed_must_arrive(self) -> None:
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = run("sweep", "--list", stdout=full.fileno())
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        self.assertIn("No space left", done.stderr)

    def test_interrupted(self) -> None:
        modules = ((generate, "generate", "run"), (plot, "plot", "plot"), (report, "report", "write"))
        for module, name, what in (*modules, (count.results, "count", "stage_executables")):
            with mock.patch.object(module, what, side_effect=KeyboardInterrupt):
                code, out, err = quietly(name)
                self.assertEqual((code, out, err.endswith(f"{name}: interrupted\n")), (130, "", True), err)

    def test_signals_end_what_was_started(self) -> None:
        (self.root / "01_a").mkdir()
        (self.root / "01_a/main.cu").touch()
        (self.root / "build").mkdir()
        started = self.root / "started"
        script(self.root / "build/01_a", lasting(started))
        for name, *more in (("count",), ("record", "--commit", "0123456")):
            ended_by_signals(self, started, name, "--root", str(self.root), *more)


class FilesTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def names(self) -> List[str]:
        return sorted(path.name for path in self.root.iterdir())

    def test_nothing_is_written_through_a_link_that_lies_ready(self) -> None:
        out, victim = self.root / "out.json", self.root / "victim"
        victim.write_text("precious")
        for name in ("out.json.tmp", ".out.json.tmp", "out.json"):
            (self.root / name).symlink_to(victim)
        files.write_whole(out, "new")
        self.assertEqual((victim.read_text(), out.read_text(), out.is_symlink()), ("precious", "new", False))
        with self.assertRaises(FileExistsError):
            files.write_new(self.root / "out.json.tmp", b"x")
        self.assertEqual(victim.read_text(), "precious")

    def test_a_file_has_the_usual_permissions(self) -> None:
        before = os.umask(0o027)
        self.addCleanup(os.umask, before)
        files.write_whole(self.root / "out", b"x")
        self.assertEqual((self.root / "out").stat().st_mode & 0o777, 0o640)

    def test_a_full_disk_leaves_nothing(self) -> None:
        (self.root / "old").write_text("old")

        def full() -> None:
            with contextlib.suppress(OSError):
                files.write_new(self.root / "new", b"x" * 10000)
            with contextlib.suppress(OSError):
                files.write_whole(self.root / "old", "x" * 10000)

        child = os.fork()
        if child == 0:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
            full()
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual((self.names(), (self.root / "old").read_text()), (["old"], "old"))


class ExerciseTest(unittest.TestCase):
    """An exercise of a compiler and a check that are fakes."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        self.folder = self.root / "01_a/exercise/first"
        self.folder.mkdir(parents=True)
        (self.folder / "starter.cu").write_text("// Exercise 01.1, write it, 5 minutes: A title\n")
        (self.folder / "hints.md").write_text("## Hint 1: a\n\n## Hint 2: b\n\n## Hint 3: c\n")
        self.checks = self.root / "build/exercise"
        self.checks.mkdir(parents=True)
        script(self.checks / "first", 'echo "Solved: $1"\n')
        self.compiler("shift $(($# - 1)); echo x >$1\n")
        self.mine, self.progress = self.folder / "mine.cu", self.root / exercise.PROGRESS_FILE

    def compiler(self, text: str) -> None:
        script(self.root / "nvcc", text)
        (self.root / "build/CMakeCache.txt").write_text(f"CMAKE_CUDA_COMPILER:FILEPATH={self.root}/nvcc\n")

    def exercise(self, *more: str) -> Tuple[int, str, str]:
        return quietly("exercise", "--root", str(self.root), "--checks", str(self.checks), *more)

    def refused(self, said: str, *more: str) -> None:
        code, _, err = self.exercise(*(more or ("01.1",)))
        self.assertEqual((code, err.count("\n")), (2, 1), err)
        self.assertIn(said, err)

    def test_it_works(self) -> None:
        code, out, err = self.exercise("01.1")
        self.assertEqual((code, err), (0, ""), out)
        self.assertEqual(json.loads(self.progress.read_text())["solved"].keys(), {"01.1"})
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["hints.md", "mine.cu", "starter.cu"])

    def test_messages_of_any_encoding(self) -> None:
        self.mine.write_bytes(b"// \xe9\n")
        self.compiler(r'printf "mine.cu(1): error: caf\351 is undefined\n"; exit 1' + "\n")
        code, out, err = self.exercise("01.1")
        self.assertEqual((code, err, "caf\ufffd is undefined" in out), (1, "", True), out + err)

    def test_what_stands_in_the_place_of_the_learner_s_file(self) -> None:
        self.mine.symlink_to(self.root / "gone/mine.cu")
        self.refused("01_a/exercise/first/mine.cu is a link that leads nowhere")
        self.mine.unlink()
        self.mine.mkdir()
        self.refused("01_a/exercise/first/mine.cu is not a file")

    def test_a_checkout_that_cannot_be_written(self) -> None:
        error = OSError(errno.EROFS, "Read-only file system", str(self.mine))
        with mock.patch.object(exercise, "write_new", side_effect=error):
            self.refused(f"{self.mine}: Read-only file system")
        self.mine.write_text("mine")
        with mock.patch.object(exercise, "write_whole", side_effect=error):
            code, out, err = self.exercise("01.1")
        self.assertEqual((code, "Solved" in out), (0, True))
        self.assertIn("cannot be written (Read-only file system): the progress is not noted", err)

    def test_a_full_disk_leaves_no_empty_file(self) -> None:
        (self.folder / "starter.cu").write_text("// Exercise 01.1, write it, 5 minutes: A title\n" + "x" * 20000)
        child = os.fork()
        if child == 0:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
            code, _, err = self.exercise("01.1")
            os._exit(code if err.count("\n") == 1 else 99)
        self.assertEqual(os.WEXITSTATUS(os.waitpid(child, 0)[1]), 2)
        self.assertFalse(self.mine.exists())

    def test_damaged_progress(self) -> None:
        fields = [f'{{"solved": {{}}, "hints": {{"01.1": {hints}}}}}' for hints in ("1e999", "-1", "[1]")]
        fields += ['{"solved": [], "hints": {}}', '{"solved": {"01.1": 5}, "hints": {}}']
        said = f"{exercise.PROGRESS_FILE} cannot be read: the progress begins anew.\n"
        for text in (*fields, "[" * 100000, "[]", "{}", "null", "\x00", ""):
            self.progress.write_text(text)
            code, out, err = self.exercise()
            self.assertEqual((code, err), (0, said), text[:50])
            self.assertIn("0 of 1 solved", out)
        self.progress.write_bytes(b"\xff")
        self.assertIn("begins anew", self.exercise()[2])
        self.assertEqual(self.exercise("01.1", "--hint")[0], 0)
        self.assertEqual(self.exercise("01.1")[2], "")

    def test_a_signal_ends_the_compiler(self) -> None:
        started = self.root / "started"
        self.compiler(lasting(started))
        ended_by_signals(self, started, "exercise", "--root", str(self.root), "--checks", str(self.checks), "01.1")


if __name__ == "__main__":
    unittest.main()
