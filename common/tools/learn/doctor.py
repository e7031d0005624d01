"""Looks for what this machine lacks, one line for each part and how to mend it:

    ./run doctor          looks only: nothing is installed or built
    ./run doctor --build  builds one exercise's check and the simulator, too, and runs them (some minutes)

Exit codes: 0 everything that a GPU or the simulator needs is here; 1 something is missing; 2 bad usage.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple

from command import Parser
from learn.building import build

OLDEST_PYTHON = (3, 8)
OLDEST_CMAKE = (3, 25)
OLDEST_CUDA = (12, 4)
OLDEST_GPU = (7, 5)
FREE_DISK_GB = 5
TIMEOUT_S = 60


class Finding(NamedTuple):
    """state: "ok", "missing" (nothing works without it) or "note" (something is left out)."""

    part: str
    state: str
    found: str
    mend: str = ""


class Machine:
    """What the doctor looks at; the tests give it another folder, PATH and /proc."""

    def __init__(self, root: Path, proc: Path = Path("/proc"), system_nvcc: str = "/usr/local/cuda/bin/nvcc") -> None:
        self.root = root
        self.proc = proc
        self.system_nvcc = system_nvcc

    def output(self, *command: str) -> Optional[str]:
        """What a command prints, both streams; None where it is not there or fails."""
        try:
            result = subprocess.run(command, cwd=self.root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True, errors="replace", timeout=TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return result.stdout if result.returncode == 0 else None

    def nvcc(self) -> Optional[str]:
        """The places where ./run looks, in its order."""
        candidates = [os.environ.get("CUDACXX", ""), "nvcc"]
        candidates += [os.environ.get(name, "") + "/bin/nvcc" for name in ("CUDA_HOME", "CUDA_PATH")]
        candidates += [self.system_nvcc, str(self.root / ".tools/cuda/bin/nvcc")]
        for candidate in candidates:
            path = shutil.which(candidate) if candidate else None
            if path and self.nvcc_release(path):
                return path
        return None

    def nvcc_release(self, nvcc: str) -> Optional[Tuple[int, int]]:
        return version(r"release (\d+)\.(\d+)", self.output(nvcc, "--version"))


def version(pattern: str, text: Optional[str]) -> Optional[Tuple[int, int]]:
    found = re.search(pattern, text or "")
    return (int(found[1]), int(found[2])) if found else None


def dotted(numbers: Sequence[int]) -> str:
    return ".".join(map(str, numbers))


def check_python(_: Machine) -> Finding:
    here = sys.version_info[:2]
    if here >= OLDEST_PYTHON:
        return Finding("Python", "ok", dotted(here))
    return Finding("Python", "missing", dotted(here), f"install Python {dotted(OLDEST_PYTHON)} or newer: the exercises need it")


def check_compiler(machine: Machine) -> Finding:
    name = os.environ.get("CXX") or ("g++" if shutil.which("g++") else "clang++")
    text = machine.output(name, "--version")
    if text is None:
        return Finding("C++ compiler", "missing", f"no {name}", "apt-get install g++ (or set CXX); as root, ./run does it")
    return Finding("C++ compiler", "ok", text.splitlines()[0])


def check_cmake(machine: Machine) -> Finding:
    local = machine.root / ".tools/cmake/bin/cmake"
    here = version(r"version (\d+)\.(\d+)", machine.output(str(local) if local.exists() else "cmake", "--version"))
    if here is None:
        return Finding("CMake", "missing", "not found", "apt-get install cmake; as root, ./run does it")
    if here < OLDEST_CMAKE:
        return Finding("CMake", "note", f"{dotted(here)} is older than {dotted(OLDEST_CMAKE)}",
                       "run ./run 01 once with network: it fetches a newer one into .tools/")
    return Finding("CMake", "ok", dotted(here))


def check_make(_: Machine) -> Finding:
    for tool in ("ninja", "make"):
        if shutil.which(tool):
            return Finding("Ninja or make", "ok", tool)
    return Finding("Ninja or make", "missing", "neither", "apt-get install ninja-build; as root, ./run does it")


def check_toolkit(machine: Machine) -> Finding:
    nvcc = machine.nvcc()
    if nvcc is None:
        return Finding("CUDA toolkit", "missing", "no nvcc", "run ./run 01 once with network: it fetches the toolkit into .tools/ (110 MB)")
    release = machine.nvcc_release(nvcc)
    assert release is not None
    if release < OLDEST_CUDA:
        return Finding("CUDA toolkit", "missing", f"{dotted(release)} at {nvcc}",
                       f"install CUDA {dotted(OLDEST_CUDA)} or newer, or set CUDACXX to its nvcc")
    return Finding("CUDA toolkit", "ok", f"{dotted(release)} at {nvcc}")


def gpu_query(machine: Machine, field: str) -> Optional[str]:
    text = machine.output("nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader")
    return text.splitlines()[0].strip() if text and text.strip() else None


def check_gpu(machine: Machine) -> Finding:
    name = gpu_query(machine, "name")
    if name is None:
        return Finding("GPU", "note", "none (nvidia-smi does not answer)",
                       "fine for the exercises: they run on the simulator; for times use a machine with an NVIDIA GPU")
    capability = version(r"(\d+)\.(\d+)", gpu_query(machine, "compute_cap"))
    if capability is not None and capability < OLDEST_GPU:
        return Finding("GPU", "note", f"{name}, compute capability {dotted(capability)}",
                       f"{dotted(OLDEST_GPU)} or newer is needed; use the simulator: --device sim")
    return Finding("GPU", "ok", name + (f", compute capability {dotted(capability)}" if capability else ""))


def check_driver(machine: Machine) -> Finding:
    driver = gpu_query(machine, "driver_version")
    if driver is None:
        return Finding("driver", "note", "none", "needed only with a GPU: install NVIDIA's driver, then restart")
    newest = version(r"CUDA Version: *(\d+)\.(\d+)", machine.output("nvidia-smi"))
    nvcc = machine.nvcc()
    release = machine.nvcc_release(nvcc) if nvcc else None
    if newest and release and newest[0] < release[0]:
        return Finding("driver", "missing", f"{driver} supports CUDA {dotted(newest)}, the toolkit is {dotted(release)}",
                       "update the driver, or install a toolkit no newer than it; --device sim works in the meantime")
    return Finding("driver", "ok", driver + (f", CUDA up to {dotted(newest)}" if newest else ""))


def check_counters(machine: Machine) -> Finding:
    """ncu's counters need a permission unless one is root; the exercises count on the simulator and do not."""
    part = "counters of ncu"
    if gpu_query(machine, "name") is None:
        return Finding(part, "note", "no GPU", "not needed: the simulator counts")
    if shutil.which("ncu") is None:
        return Finding(part, "note", "no ncu on PATH", "only for the sections on ncu: install Nsight Compute, or add its folder to PATH")
    try:
        text = (machine.proc / "driver/nvidia/params").read_text(encoding="utf-8")
    except OSError:
        return Finding(part, "note", "not known (no /proc/driver/nvidia/params)", "try ncu on a stage: ERR_NVGPUCTRPERM means no permission")
    if re.search(r"RmProfilingAdminOnly: *0", text) or os.geteuid() == 0:
        return Finding(part, "ok", "permitted")
    return Finding(part, "note", "for root only",
                   "put 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' into /etc/modprobe.d/nvidia.conf and restart")


def check_disk(machine: Machine) -> Finding:
    free = shutil.disk_usage(machine.root).free / 1e9
    if free < FREE_DISK_GB:
        return Finding("disk", "note", f"{free:.1f} GB free", f"a build with the toolkit takes up to {FREE_DISK_GB} GB: make room")
    if not os.access(machine.root, os.W_OK):
        return Finding("disk", "missing", "this checkout is not writable", "copy it to a folder of your own")
    return Finding("disk", "ok", f"{free:.0f} GB free")


def check_simulator(machine: Machine) -> Finding:
    """Runs what is built: the simulator's library under the check of an exercise to predict, which counts a kernel."""
    library = list((machine.root / "build/simulator").glob("libcudart.so.*"))
    check = machine.root / "build/exercise/bank_conflicts"
    if not library or not check.exists():
        return Finding("simulator", "note", "not built yet", "./run doctor --build builds it, and so does the first exercise")
    solution = machine.root / "04_smem_bank_conflict/exercise/bank_conflicts/solution.txt"
    text = machine.output(str(check), str(solution))
    if text is None or "Solved" not in text:
        return Finding("simulator", "missing", "does not run", "delete build/ and run ./run doctor --build; its messages say more")
    return Finding("simulator", "ok", "runs, and counts")


CHECKS: List[Callable[[Machine], Finding]] = [
    check_python, check_compiler, check_cmake, check_make, check_toolkit, check_gpu, check_driver, check_counters, check_disk,
    check_simulator]


def report(findings: Sequence[Finding]) -> int:
    colours = {"ok": "32", "missing": "31", "note": "33"}
    coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    for part, state, found, mend in findings:
        mark = f"{state:<7}"
        print(f"{f'{chr(27)}[{colours[state]}m{mark}{chr(27)}[0m' if coloured else mark}  {part:<16}  {found}"
              + (f"  ->  {mend}" if mend else ""))
    missing = [finding.part for finding in findings if finding.state == "missing"]
    gpu = any(finding.part == "GPU" and finding.state == "ok" for finding in findings)
    print()
    if missing:
        print(f"Missing: {', '.join(missing)}.")
        return 1
    print("Ready: the stages and exercises run here, on the GPU and on the simulator." if gpu else
          "Ready: the stages and exercises run here on the simulator. There is no GPU, so no times.")
    return 0


def main(arguments: Sequence[str]) -> int:
    parser = Parser(prog="./run doctor", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", action="store_true", help="builds and runs the simulator, too")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[3], help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    machine = Machine(options.root.resolve())
    built = not options.build or build(machine.root, "./run doctor", "exercise_bank_conflicts", "simulator")[0] == 0
    code = report([check(machine) for check in CHECKS])
    if not built:
        print("The build failed; its messages are above.")
    return code if built else 1
