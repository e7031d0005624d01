"""Builds and compiles the parts that an exercise or the simulator needs, as ./run does."""

import contextlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

from command import Usage, signals_wait, started

SCRIPT = 'source common/tools/setup.sh; set_up; reading=$1; shift; build "$@"'


def build(root: Path, who: str, *targets: str, reading: str = "README.md", quiet: bool = False) -> int:
    """Returns the exit code. `who` begins the messages; `reading` is the page to read while it builds; a `quiet` build
    prints only if it fails."""
    command = ["bash", "-euo", "pipefail", "-c", SCRIPT, who, reading, *targets]
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} if quiet else {}
    script = None
    try:
        with signals_wait():
            script = subprocess.Popen(command, cwd=root, stdin=subprocess.DEVNULL, text=True, errors="replace", **streams)
        printed, _ = script.communicate()
    except BaseException:
        if script:
            script.terminate()  # and it ends its compilers
            script.wait()
        raise
    if script.returncode != 0:
        print(printed or "", end="", file=sys.stderr)
    return script.returncode


def cache_of(build_folder: Path) -> dict[str, str]:
    """The configuration of the build."""
    path = build_folder / "CMakeCache.txt"
    try:
        return dict(re.findall(r"^(\w+):[A-Z]+=(.+)$", path.read_text(encoding="utf-8"), re.MULTILINE))
    except OSError as error:
        raise Usage(f"{path} is missing: build first, with ./run 01") from error


def nvcc(cache: dict[str, str], root: Path) -> list[str]:
    """The build's compiler; it makes files that the simulator needs: PTX that is not compressed, with lines, and the runtime as
    a shared library."""
    host = cache.get("CMAKE_CUDA_HOST_COMPILER")
    command = [cache.get("CMAKE_CUDA_COMPILER", "nvcc"), *(["-ccbin", host] if host else [])]
    return [*command, "-std=c++20", "-lineinfo", "--no-compress", "-cudart=shared", "-I", str(root)]


@contextlib.contextmanager
def compiling(*commands: list[str], **more: Any) -> Iterator[list[subprocess.Popen[str]]]:
    """Starts compilers. Whatever ends the block early ends them, with the processes that they have started."""
    with contextlib.ExitStack() as running:
        try:
            compilers = running.enter_context(started(*commands, stdin=subprocess.DEVNULL, **more))
        except OSError as error:
            raise Usage(f"cannot start {commands[0][0]}: {error.strerror}; ./run doctor says more") from error
        yield compilers
