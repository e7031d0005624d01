"""Compiles a CUDA file of your own and runs it on the CPU simulator, which reports the memory requests of each
launch, kernel by kernel and line by line, and every fault with its line:

    ./run sim FILE.cu                      one file with a main
    ./run sim FILE.cu -- ARGUMENTS         arguments after -- go to the program

The program runs in the current folder. SIM_REPORT=1 leaves the lines out of the report, and SIM_CHECK=warn turns
reports that are not always mistakes into warnings; common/sim/README.md says more.

Exit codes: the program's own; 1 if it ended with 0 although a launch ended with a fault; 2 bad usage, or a tool is
missing; 70 the file, or the simulator, could not be built; 128 + n: signal n ended the program.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from command import Parser, Usage, say
from learn.building import build, cache_of, compiling, nvcc

NOT_BUILT = 70
ARCHITECTURE = "arch=compute_90,code=compute_90"


def run_program(command: list[str], folder: Path, environment: dict[str, str]) -> int:
    """Passes its output on, and checks in it whether a launch ended with a fault."""
    faults = launches = 0
    running = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True, errors="replace")
    try:
        assert running.stderr
        for line in running.stderr:
            sys.stderr.write(line)
            sys.stderr.flush()
            launches += line.startswith("counted: ")
            faults += line.startswith("    the launch ends here")
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


def main(arguments: list[str]) -> int:
    end = arguments.index("--") if "--" in arguments else len(arguments)  # of ours; the program's follow
    parser = Parser("./run sim", __doc__)
    parser.add_argument("file", metavar="FILE.cu", nargs="?")
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help=argparse.SUPPRESS)  # the reader's
    parser.add_argument("--build", type=Path, help=argparse.SUPPRESS)  # a build folder with the simulator
    options = parser.parse_args(arguments[:end])
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
        code = build(root, "./run sim", "simulator", quiet=(built / "simulator").exists())
        if code != 0:
            return code
    with tempfile.TemporaryDirectory(prefix="softmax-sim-") as work:
        program = str(Path(work) / source.stem)
        # nvcc's messages go where ours do. Paths are as the reader wrote them, seen from their folder.
        command = [*nvcc(cache_of(built), root), "-gencode", ARCHITECTURE, options.file, "-o", program]
        with compiling(command, cwd=options.folder) as (compiler,):
            code = compiler.wait()
        if code != 0:
            say(f"./run sim: {options.file} does not compile")
            return NOT_BUILT
        libraries = str(built / "simulator")
        if os.environ.get("LD_LIBRARY_PATH"):
            libraries += ":" + os.environ["LD_LIBRARY_PATH"]
        environment = {"SIM_REPORT": "lines", **os.environ, "LD_LIBRARY_PATH": libraries}
        return run_program([program, *arguments[end + 1 :]], options.folder, environment)
