"""How the tools begin and end: old Pythons, odd terminals, interrupts, and files that cannot be read or written."""

import ast
import contextlib
import os
import resource
import subprocess
import sys
from pathlib import Path

import command
import files
import pytest
from fake_stages import TOOLS, quietly
from measure import count
from pages import draw, generate

PYTHON = [sys.executable, "-B"]


def run(*arguments: str, stdout: int = subprocess.PIPE, **environment: str) -> subprocess.CompletedProcess[str]:
    """A Python: of the tools, or with -c."""
    given = arguments if arguments[:1] == ("-c",) else (str(TOOLS), *arguments)
    return subprocess.run([*PYTHON, *given], stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
                          timeout=60, encoding="utf-8", env={**os.environ, **environment}, check=False)  # fmt: skip


def check_refused(said: str, *arguments: str) -> None:
    """In one line, of which a terminal obeys nothing."""
    done = run(*arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    assert said in done.stderr and "\x1b" not in done.stderr


def test_help_without_a_name() -> None:
    assert (run().returncode, run("--help").returncode) == (0, 0)


@pytest.mark.parametrize("name", ["record.py", "", "x\x1b[31m"])
def test_no_such_tool(name: str) -> None:
    check_refused("there are: exercise, doctor", name)


@pytest.mark.parametrize("name", set(command.COMMANDS) - {"draw"})  # which takes nothing
def test_unknown_option(name: str) -> None:
    check_refused("--x\\x1b[2J\\n\\x07", name, "--x\x1b[2J\n\x07")


@pytest.mark.parametrize("digits", ["9" * 5000, "٣", "²", "1e3", "-1"])
@pytest.mark.parametrize("words", ["profile --cols {}", "profile {}", "sweep --shapes f32:{}x8", "exercise {}"])
def test_odd_numbers(words: str, digits: str) -> None:
    check_refused("", *words.format(digits).split())


NO_EXERCISE = ["99", "nosuch", "3 --hint --reset", "3 4", "3 --device tpu", "--reset", "3 --reset"]


@pytest.mark.parametrize("words, said", [("03.9", "stage 03 has 03.1, 03.2"), *((words, "") for words in NO_EXERCISE)])
def test_no_such_exercise(words: str, said: str) -> None:
    check_refused(said, "exercise", *words.split())


def test_an_old_python_is_told_so() -> None:
    text = "import os, runpy, sys; sys.version_info = (3, 9, 9); runpy.run_path(os.environ['MAIN'])"
    done = run("-c", text, MAIN=str(TOOLS / "__main__.py"))
    said = "common/tools: Python 3.10 or newer is needed as python3, and this is 3.9\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
    assert ast.parse((TOOLS / "__main__.py").read_text(), feature_version=(3, 4)).body
    for path in TOOLS.rglob("*.py"):  # and what 3.10 cannot read is not there
        ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 10))


def test_a_terminal_of_ascii() -> None:
    ascii_only = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONIOENCODING": "ascii:strict"}
    done = run("profile", "--help", **ascii_only)
    assert (done.returncode, done.stderr, "duration, ?s" in done.stdout) == (0, "", True), done


WORDS = [f"{name} --help" for name in ("profile", "watch", "plot", "exercise", "doctor", "sweep")] + ["sweep --list", "exercise"]


@pytest.mark.parametrize("words", WORDS)
def test_what_is_printed_must_arrive(words: str) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = run(*words.split(), stdout=full.fileno(), PYTHONUNBUFFERED="")  # written at the end
    assert (done.returncode, done.stderr.count("\n")) == (1, 1) and "No space left" in done.stderr, done


@pytest.mark.parametrize("command", ["exercise", "doctor", "sweep --list"])
def test_a_closed_output_is_said(command: str) -> None:
    closed = f"{sys.executable} {TOOLS} {command} >&-"
    done = subprocess.run(["sh", "-c", closed], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "common/tools: standard output is closed\n")


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


PLACES = [(generate, "generate", "run"), (draw, "plot", "load"), (draw, "report", "load")]


@pytest.mark.parametrize("module, name, what", [*PLACES, (count.results, "count", "stage_executables")])
def test_interrupted(module: object, name: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, what, interrupt)
    code, printed = quietly(name)
    assert code == 130 and printed.endswith(f"{name}: interrupted\n") and printed.count("\n") == 2, printed


# ---- Files


WRITES = [f"{name} --out" for name in ("watch 04", "profile 03", "profile 03 --record", "plot", "report", "record", "sweep")]
WRITES += ["sweep --csv", "hardware_table --out", "several_gpus --out", "sanitize --logs"]


@pytest.mark.parametrize("words", WRITES)
def test_nothing_takes_the_place_of_a_device(words: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    check_refused(f"'{tmp_path}/fifo' is not ", *words.split(), f"{tmp_path}/fifo")
    assert (tmp_path / "fifo").is_fifo()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_nothing_is_written_through_a_link_that_lies_ready(tmp_path: Path) -> None:
    out, victim = tmp_path / "out.json", tmp_path / "victim"
    victim.write_text("precious")
    for name in ("out.json.tmp", ".out.json.tmp", "out.json"):
        (tmp_path / name).symlink_to(victim)
    files.write_whole(out, "new")
    with pytest.raises(FileExistsError):
        files.write_new(tmp_path / "out.json.tmp", b"x")
    assert (victim.read_text(), out.read_text(), out.is_symlink()) == ("precious", "new", False)


def test_a_file_has_the_usual_permissions(tmp_path: Path) -> None:
    before = os.umask(0o027)
    files.write_whole(tmp_path / "out", b"x")
    os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o640


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old").write_text("old")
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        with contextlib.suppress(OSError):
            files.write_new(tmp_path / "new", b"x" * 10000)
        with contextlib.suppress(OSError):
            files.write_whole(tmp_path / "old", "x" * 10000)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write_whole(tmp_path / "old", "new")
    assert (names(tmp_path), (tmp_path / "old").read_text()) == (["old"], "old")
