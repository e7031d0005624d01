"""The tools of this repository, most of them behind ./run:

    python3 common/tools NAME [options]     NAME --help says more

learn/ is for those who do the exercises, measure/ takes numbers and records them, pages/ shows them. This file has the
code that they share: errors with their exit codes, options, and how a command ends.
"""

import argparse
import contextlib
import importlib
import io
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Iterator, NoReturn

INTERRUPTED = 128 + signal.SIGINT  # exit code, as of a shell


class ToolError(Exception):
    """Something the user can put right; its text is the whole message."""

    code = 1


class Usage(ToolError):
    """Bad usage."""

    code = 2


class MissingTool(ToolError):
    """A package is missing and can be fetched."""

    code = 2


class NoDevice(ToolError):
    """There is no usable GPU (or no permission to count on it)."""

    code = 3


class Parser(argparse.ArgumentParser):
    """Raises Usage where argparse would print the usage and exit; shows its description as it is written."""

    def __init__(self, prog: str, description: str | None, **more: Any) -> None:
        super().__init__(prog, description=description, formatter_class=argparse.RawDescriptionHelpFormatter, **more)

    def print_help(self, file: Any = None) -> None:
        print(self.format_help(), end="", file=file, flush=True)  # argparse would pass over a write that fails

    def error(self, message: str) -> NoReturn:
        raise Usage(message.replace("argument ", "", 1).replace("\n", "\\n"))


def whole_number(most: int) -> Callable[[str], int]:
    """A parser of whole numbers from 1 to `most`."""

    def parse(text: str) -> int:
        if not re.fullmatch("[0-9]{1,20}", text) or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"'{text}' is not accepted; accepted: whole numbers from 1 to {most}")
        return int(text)

    return parse


def printable(text: str) -> str:
    """Control characters but the end of a line as text: a name must not move the cursor or colour the terminal."""
    return re.sub(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", lambda found: f"\\x{ord(found[0]):02x}", text)


def say(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)


def is_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def styled(text: str, code: str) -> str:
    return f"\033[{code}m{text}\033[0m" if is_terminal() and "NO_COLOR" not in os.environ else text


@contextlib.contextmanager
def signals_wait() -> Iterator[None]:
    """Ctrl-C and SIGTERM come when the block has ended: not between the start of a process and its being known."""
    if threading.current_thread() is not threading.main_thread():  # which alone is interrupted
        yield
        return
    came: list[int] = []
    before = {number: signal.signal(number, lambda n, _: came.append(n)) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)


@contextlib.contextmanager
def started(*commands: list[str], **more: Any) -> Iterator[list[subprocess.Popen[str]]]:
    """Starts processes, each in a session of its own. Whatever ends the block ends them and the processes that they have started."""
    processes: list[subprocess.Popen[str]] = []
    try:
        with signals_wait():
            for command in commands:
                processes.append(subprocess.Popen(command, errors="replace", start_new_session=True, **more))
        yield processes
    finally:
        for process in processes:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def output_of(*command: object, stderr: int = subprocess.DEVNULL, cwd: Path | None = None) -> str | None:
    """The output of a command, without blanks around it; None if it is missing or fails."""
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": stderr}
    try:
        with started(list(map(str, command)), cwd=cwd, **streams) as (process,):
            printed, _ = process.communicate(timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return printed.strip() if process.returncode == 0 else None


def not_empty(text: str) -> str:
    """A parser of names."""
    if not text:
        raise argparse.ArgumentTypeError("'' is not accepted")
    return text


def file_to_write(text: str) -> Path:
    """A parser of file names. A device is refused, because the new file would replace it."""
    path = Path(text)
    if not path.name or text.endswith("/") or (path.exists() and not path.is_file()):
        raise argparse.ArgumentTypeError(f"'{text}' is not the name of a file")
    return path


def folder_to_write(text: str) -> Path:
    """A parser of folder names."""
    if not text or (Path(text).exists() and not Path(text).is_dir()):
        raise argparse.ArgumentTypeError(f"'{text}' is not a folder")
    return Path(text)


def folder_to_read(text: str) -> Path:
    """A parser of names of folders that are there."""
    if not text or not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"'{text}' is not a folder")
    return Path(text)


def forget_output() -> None:
    """Text that is still to be printed goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run(name: str, action: Callable[[], int | None]) -> int:
    """Runs a command and returns its exit code; an error that ends it early is one line, not a traceback."""
    try:
        code = action() or 0
        sys.stdout.flush()  # a page that did not reach its file must not look like a success
        return code
    except ToolError as error:
        say(f"{name}: {error}")
        return error.code
    except KeyboardInterrupt as stop:
        say(f"\n{name}: interrupted" + "".join(f"; {what}" for what in stop.args))
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe has gone, and wants no more
        forget_output()
        return 0
    except OSError as error:
        try:
            sys.stdout.flush()
        except OSError:  # it was this one: Python would try again at its end, and say so in words of its own
            forget_output()
        say(f"{name}: " + (f"{error.filename}: {error.strerror}" if error.filename else str(error)))
        return 1


# Name: its module, whose main(argv) returns an exit code or None.
COMMANDS = {
    "exercise": "learn.exercise",
    "doctor": "learn.doctor",
    "sim": "learn.sim",
    "watch": "learn.watch",
    "sweep": "measure.sweep",
    "tune": "measure.tune",
    "profile": "measure.profiling",
    "record": "measure.record",
    "recorded": "measure.recorded",
    "several_gpus": "measure.several_gpus",
    "count": "measure.count",
    "choices": "measure.choices",
    "hardware_table": "measure.hardware_table",
    "generate": "pages.generate",
    "plot": "pages.plot",
    "report": "pages.report",
    "draw": "pages.draw",
    "same_code": "same_code",
    "sanitize": "sanitize",
    "test_summary": "test_summary",
}
SHOWN = {"test_summary": "./test"} | {
    name: f"./run {name}" for name in ("exercise", "doctor", "sim", "watch", "sweep", "tune", "profile", "plot", "report")
}


def main(arguments: list[str]) -> int:
    if sys.stdout is None:
        say("common/tools: standard output is closed")
        return ToolError.code
    # A terminal that cannot show a character shows another one.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    name = arguments[0] if arguments else "--help"
    if name in ("--help", "-h"):
        print(f"{__doc__}\nNAME is one of: {', '.join(COMMANDS)}")
        return 0
    if name not in COMMANDS:
        say(f"common/tools: there is no tool '{name}'; there are: {', '.join(COMMANDS)}")
        return Usage.code
    shown = SHOWN.get(name, f"common/tools {name}")
    return run(shown, lambda: importlib.import_module(COMMANDS[name]).main(arguments[1:]))
