"""Compiles a CUDA file of your own and runs it on the CPU simulator, which reports what each launch asked of the memory
system, kernel by kernel and line by line, and every fault with its line:

    ./run sim FILE.cu                      one file with a main
    ./run sim FILE.cu -- ARGUMENTS         what stands behind -- is the program's

The program runs in the folder you are in. SIM_REPORT=1 leaves the lines out of the report, SIM_CHECK=warn goes on after
what need not be a mistake; common/sim/README.md says more.

Exit codes: the program's own; 1 where it ended with 0 although a launch ended with a fault; 2 bad usage, or a tool is
missing; 70 the file, or the simulator, could not be built; 128 + n: signal n ended the program.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, List

from command import Parser, Usage, end_group, say, signals_wait
from learn.building import CMakeCache, build

NOT_BUILT = 70
ARCHITECTURE = "arch=compute_90,code=compute_90"


def compiler(root: Path, built: Path) -> List[str]:
    """As the simulator needs it: PTX that is not compressed, with lines, and the runtime as a shared library."""
    cache = CMakeCache(built / "CMakeCache.txt")
    command = [cache.value("CMAKE_CUDA_COMPILER") or "nvcc", "-std=c++20", "-lineinfo", "--no-compress"]
    if cache.value("CMAKE_CUDA_HOST_COMPILER"):
        command += ["-ccbin", cache.value("CMAKE_CUDA_HOST_COMPILER")]
    return command + ["-gencode", ARCHITECTURE, "-cudart=shared", "-I", str(root)]


def compile_file(command: List[str], source: Path, program: Path, folder: Path) -> int:
    """nvcc's messages go where ours do. Paths are as the reader wrote them, seen from `folder`."""
    compiling: List["subprocess.Popen[str]"] = []
    try:
        with signals_wait():
            compiling.append(subprocess.Popen([*command, str(source), "-o", str(program)], cwd=folder,
                                              stdin=subprocess.DEVNULL, text=True, start_new_session=True))
        return compiling[0].wait()
    except OSError as error:
        raise Usage(f"cannot start {command[0]}: {error.strerror}; ./run doctor says more") from error
    finally:
        for process in compiling:
            end_group(process)


def run_program(command: List[str], folder: Path, environment: Dict[str, str]) -> int:
    """What it prints is passed on, and looked at: has a launch ended with a fault?"""
    faults = launches = 0
    running = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True, errors="replace")
    try:
        assert running.stderr
        for line in running.stderr:
            sys.stderr.write(line)
            sys.stderr.flush()
            launches += line.startswith("counted: ")
            faults += line == "    the launch ends here\n"
        code = running.wait()
    finally:
        running.kill()
        running.wait()
    if code < 0:
        say(f"./run sim: the program was ended by {signal.Signals(-code).name}"
            + ("; on the host, device pointers must not be read or written" if -code == signal.SIGSEGV else ""))
        return 128 - code
    if faults:
        say(f"./run sim: {faults} launch{'es' if faults > 1 else ''} ended with a fault: see above")
    elif not launches:
        say("./run sim: no kernel was launched")
    return 1 if faults and code == 0 else code


def main(arguments: List[str]) -> int:
    own, program_arguments = arguments, []
    if "--" in arguments:
        own, program_arguments = arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :]
    parser = Parser(prog="./run sim", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE.cu", nargs="?")
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help=argparse.SUPPRESS)  # the reader's
    parser.add_argument("--build", type=Path, help=argparse.SUPPRESS)  # a build folder with the simulator
    options = parser.parse_args(own)
    if options.file is None:
        raise Usage("which file? ./run sim FILE.cu")
    source = options.folder / options.file
    if source.suffix != ".cu":
        raise Usage(f"'{options.file}' is not accepted; accepted: the name of a file that ends in .cu")
    if not source.is_file():
        raise Usage(f"there is no file '{options.file}'")
    root = Path(__file__).resolve().parents[3]
    built = options.build or root / "build"
    if not options.build:
        first = not (built / "simulator").exists()
        streams = {} if first else {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        code, printed = build(root, "./run sim", "simulator", **streams)
        if code != 0:
            print(printed, end="", file=sys.stderr)
            return code
    with tempfile.TemporaryDirectory(prefix="softmax-sim-") as work:
        program = Path(work) / source.stem
        if compile_file(compiler(root, built), Path(options.file), program, options.folder) != 0:
            say(f"./run sim: {options.file} does not compile")
            return NOT_BUILT
        libraries = str(built / "simulator")
        if os.environ.get("LD_LIBRARY_PATH"):
            libraries += ":" + os.environ["LD_LIBRARY_PATH"]
        environment = {"SIM_REPORT": "lines", **os.environ, "LD_LIBRARY_PATH": libraries}
        return run_program([str(program), *program_arguments], options.folder, environment)
