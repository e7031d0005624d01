"""Looks for missing tools: one line per part, with the remedy:

    ./run doctor          looks only: nothing is installed or built
    ./run doctor --build  also builds one exercise's check and the simulator, and runs them (some minutes)

Exit codes: 0 everything that a GPU or the simulator needs is here; 1 something is missing; 2 bad usage.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from command import Parser, Usage, output_of, styled
from learn.building import build, cache_of

Version = tuple[int, int]

OLDEST_CMAKE = (3, 25)
OLDEST_CUDA = (12, 4)
OLDEST_GPU = (7, 5)
FREE_DISK_GB = 5


class Finding(NamedTuple):
    """state: "ok", "missing" (nothing works without it) or "note" (something is left out)."""

    state: str
    found: str
    mend: str = ""


@dataclass
class Machine:
    """The machine to check; the tests give it another folder, PATH and /proc."""

    root: Path
    proc: Path = Path("/proc")
    system_nvcc: str = "/usr/local/cuda/bin/nvcc"

    def output(self, *command: object) -> str | None:
        """The output of a command, both streams; None if it is missing or fails."""
        return output_of(*command, stderr=subprocess.STDOUT, cwd=self.root)

    def nvcc(self) -> tuple[str, Version] | None:
        """The first where ./run looks, in its order, and its release."""
        candidates = [os.environ.get("CUDACXX", ""), "nvcc"]
        candidates += [os.environ.get(name, "") + "/bin/nvcc" for name in ("CUDA_HOME", "CUDA_PATH")]
        for candidate in (*candidates, self.system_nvcc, str(self.root / ".tools/cuda/bin/nvcc")):
            path = shutil.which(candidate)
            release = version(r"release (\d+)\.(\d+)", self.output(path, "--version")) if path else None
            if path and release:
                return path, release
        return None

    def gpu(self, field: str) -> str | None:
        text = self.output("nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader")
        return text.splitlines()[0].strip() if text else None


def version(pattern: str, text: str | None) -> Version | None:
    found = re.search(pattern, text or "")
    return (int(found[1]), int(found[2])) if found else None


def dotted(numbers: Version) -> str:
    return ".".join(map(str, numbers))


def check_compiler(machine: Machine) -> Finding:
    name = os.environ.get("CXX") or ("g++" if shutil.which("g++") else "clang++")
    text = machine.output(name, "--version")
    if text is None:
        return Finding("missing", f"no {name}", "apt-get install g++ (or set CXX); as root, ./run does it")
    return Finding("ok", text.splitlines()[0])


def check_cmake(machine: Machine) -> Finding:
    local = machine.root / ".tools/cmake/bin/cmake"
    here = version(r"version (\d+)\.(\d+)", machine.output(local if local.exists() else "cmake", "--version"))
    if here is None:
        return Finding("missing", "not found", "apt-get install cmake; as root, ./run does it")
    if here < OLDEST_CMAKE:
        mend = "run ./run 01 once with network: it fetches a newer one into .tools/"
        return Finding("note", f"{dotted(here)} is older than {dotted(OLDEST_CMAKE)}", mend)
    return Finding("ok", dotted(here))


def check_make(_: Machine) -> Finding:
    tool = next(filter(shutil.which, ("ninja", "make")), None)
    if tool is None:
        return Finding("missing", "neither", "apt-get install ninja-build; as root, ./run does it")
    return Finding("ok", tool)


def check_toolkit(machine: Machine) -> Finding:
    nvcc = machine.nvcc()
    if nvcc is None:
        mend = "run ./run 01 once with network: it fetches the toolkit into .tools/ (110 MB)"
        return Finding("missing", "no nvcc", mend)
    found = f"{dotted(nvcc[1])} at {nvcc[0]}"
    if nvcc[1] < OLDEST_CUDA:
        return Finding("missing", found, f"install CUDA {dotted(OLDEST_CUDA)} or newer, or set CUDACXX to its nvcc")
    return Finding("ok", found)


def check_gpu(machine: Machine) -> Finding:
    name = machine.gpu("name")
    if name is None:
        fine = "fine for the exercises: they run on the simulator; for times use a machine with an NVIDIA GPU"
        return Finding("note", "none (nvidia-smi does not answer)", fine)
    capability = version(r"(\d+)\.(\d+)", machine.gpu("compute_cap"))
    found = name + (f", compute capability {dotted(capability)}" if capability else "")
    if capability and capability < OLDEST_GPU:
        return Finding("note", found, f"{dotted(OLDEST_GPU)} or newer is needed; use the simulator: --device sim")
    return Finding("ok", found)


def check_driver(machine: Machine) -> Finding:
    driver = machine.gpu("driver_version")
    if driver is None:
        return Finding("note", "none", "needed only with a GPU: install NVIDIA's driver, then restart")
    newest = version(r"CUDA Version: *(\d+)\.(\d+)", machine.output("nvidia-smi"))
    nvcc = machine.nvcc()
    if newest and nvcc and newest[0] < nvcc[1][0]:
        mend = "update the driver, or install a toolkit no newer than it; --device sim works in the meantime"
        return Finding("missing", f"{driver} supports CUDA {dotted(newest)}, the toolkit is {dotted(nvcc[1])}", mend)
    return Finding("ok", driver + (f", CUDA up to {dotted(newest)}" if newest else ""))


def check_counters(machine: Machine) -> Finding:
    """ncu's counters need a permission unless one is root; the exercises count on the simulator and do not."""
    if machine.gpu("name") is None:
        return Finding("note", "no GPU", "not needed: the simulator counts")
    if shutil.which("ncu") is None:
        mend = "only for the sections on ncu: install Nsight Compute, or add its folder to PATH"
        return Finding("note", "no ncu on PATH", mend)
    try:
        text = (machine.proc / "driver/nvidia/params").read_text(encoding="utf-8")
    except OSError:
        mend = "try ncu on a stage: ERR_NVGPUCTRPERM means no permission"
        return Finding("note", "not known (no /proc/driver/nvidia/params)", mend)
    if re.search(r"RmProfilingAdminOnly: *0", text) or os.geteuid() == 0:
        return Finding("ok", "permitted")
    option = "options nvidia NVreg_RestrictProfilingToAdminUsers=0"
    return Finding("note", "for root only", f"put '{option}' into /etc/modprobe.d/nvidia.conf and restart")


def check_disk(machine: Machine) -> Finding:
    free = shutil.disk_usage(machine.root).free / 1e9
    if free < FREE_DISK_GB:
        mend = f"a build with the toolkit takes up to {FREE_DISK_GB} GB: make room"
        return Finding("note", f"{free:.1f} GB free", mend)
    if not os.access(machine.root, os.W_OK):
        return Finding("missing", "this checkout is not writable", "copy it to a folder of your own")
    return Finding("ok", f"{free:.0f} GB free")


def check_built(machine: Machine) -> Finding:
    """What ./run and the exercises need not build any more."""
    build = machine.root / "build"
    stages = [main.parent.name for main in sorted(machine.root.glob("[0-9][0-9]_*/main.cu"))]
    exercises = {starter.parent.name for starter in machine.root.glob("[0-9][0-9]_*/exercise/*/starter.*")}
    ready = [stage for stage in stages if (build / stage).exists()]
    checks = [exercise for exercise in exercises if (build / "exercise" / exercise).exists()]
    found = f"{len(ready)} of {len(stages)} stages, the checks of {len(checks)} of {len(exercises)} exercises"
    if not ready and not checks:
        return Finding("note", "nothing yet", "./run builds the stages, ./run exercise the check of an exercise; some minutes")
    try:
        code = cache_of(build).get("compiled_for", "")
    except Usage:
        code = ""
    found += f"; for {code.replace(';', ', ')}" if code else ""
    if len(ready) < len(stages):
        names = " ".join(stage[:2] for stage in stages if stage not in ready)
        return Finding("ok", found, f"./run builds the others ({names})")
    return Finding("ok", found)


def check_simulator(machine: Machine) -> Finding:
    """Runs a program that is built and that counts a kernel on it: the check of an exercise, or a stage."""
    solution = machine.root / "04_smem_bank_conflict/exercise/bank_conflicts/solution.txt"
    programs: list[tuple[Path, list[str]]] = [(machine.root / "build/exercise/bank_conflicts", [str(solution)])]
    for main in sorted(machine.root.glob("[0-9][0-9]_*/main.cu")):
        shape = "--device sim --verify-only --rows 2 --cols 32".split()
        programs.append((machine.root / "build" / main.parent.name, shape))
    built = next(((program, *options) for program, options in programs if program.exists()), None)
    if built is None or not list((machine.root / "build/simulator").glob("libcudart.so.*")):
        return Finding("note", "not built yet", "./run doctor --build builds it, and so does the first exercise")
    if machine.output(*built) is None:
        return Finding("missing", "does not run", "delete build/ and run ./run doctor --build; its messages say more")
    return Finding("ok", "runs, and counts")


CHECKS = {
    "Python": lambda _: Finding("ok", dotted(sys.version_info[:2])),  # an older one does not come here
    "C++ compiler": check_compiler,
    "CMake": check_cmake,
    "Ninja or make": check_make,
    "CUDA toolkit": check_toolkit,
    "GPU": check_gpu,
    "driver": check_driver,
    "counters of ncu": check_counters,
    "disk": check_disk,
    "built": check_built,
    "simulator": check_simulator,
}


def report(findings: dict[str, Finding]) -> int:
    colours = {"ok": "32", "missing": "31", "note": "33"}
    for part, (state, found, mend) in findings.items():
        print(f"{styled(f'{state:<7}', colours[state])}  {part:<16}  {found}" + (f"  ->  {mend}" if mend else ""))
    missing = [part for part, finding in findings.items() if finding.state == "missing"]
    if missing:
        print(f"\nMissing: {', '.join(missing)}.")
    elif findings["GPU"].state == "ok":
        print("\nReady: the stages and exercises run here, on the GPU and on the simulator.")
    else:
        print("\nReady: the stages and exercises run here on the simulator. There is no GPU, so nothing is timed.")
    return 1 if missing else 0


def main(arguments: list[str]) -> int:
    parser = Parser("./run doctor", __doc__)
    parser.add_argument("--build", action="store_true", help="also build and run the simulator")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[3], help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    machine = Machine(options.root.resolve())
    built = not options.build or build(machine.root, "./run doctor", "exercise_bank_conflicts", "simulator") == 0
    code = report({part: check(machine) for part, check in CHECKS.items()})
    if not built:
        print("The build failed; its messages are above.")
    return code if built else 1
