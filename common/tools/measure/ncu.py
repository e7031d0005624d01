"""Nsight Compute: runs launches of the stages under one `ncu` and reads its counts.

Every launch is a process of its own, the stage's executable with --profile, and all of them are one ncu session: so
they are one report, in which the NVTX range of each launch has the name of its variant.

Counters are whole-GPU sums over a kernel: bytes, sectors (32 bytes each), requests (one per warp instruction),
wavefronts (shared-memory passes), nanoseconds for gpu__time_duration. A counter that this ncu does not know is None.
ncu empties the caches before each kernel. Clocks stay as they are (--clock-control none).
"""

import argparse
import csv
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Callable, Sequence

from command import NoDevice, ToolError, say, started
from measure import results
from measure.results import Json, last_line, place_of, shape_of

LAUNCH_TIMEOUT_S = 180
READ_TIMEOUT_S = 300
MISSING_AT_ONCE = 20  # launches under one ncu, when missing results are added to a file

# The folders of the toolkit's packages, which make no link on PATH; the newest version last.
USUAL_PLACES = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")

# ncu is told to use base units; older versions still scale some of them.
UNIT_FACTORS = {
    "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9,
    "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9,
}


NOT_PERMITTED = """no permission to read the GPU's counters (ERR_NVGPUCTRPERM): root has it, and an administrator can give it.
  For everybody:   put 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' into /etc/modprobe.d/nvidia.conf, and restart.
  In a container:  the same on its host, or start it with the capability: docker run --gpus all --cap-add SYS_ADMIN ..."""


def find(name: str = "ncu") -> str:
    """The path of ncu. Raises NoDevice."""
    found = shutil.which(name)
    if not found and name == "ncu":
        places = (path for place in USUAL_PLACES for path in sorted(Path("/").glob(place.lstrip("/"))))
        found = next((str(path) for path in reversed(list(places)) if os.access(path, os.X_OK)), None)
    if not found:
        raise NoDevice(f"'{name}' is not here: install Nsight Compute or pass --ncu PATH")
    return found


def version(ncu: str) -> str | None:
    lines = results.run_process([ncu, "--version"], 60).stdout.split("Version ")
    return lines[1].split()[0] if len(lines) > 1 else None


def number(text: str, unit: str) -> float | None:
    """A cell of ncu's CSV (`1,234`) in base units; None for `n/a`. Whole numbers come back as int."""
    try:
        found = float(text.replace(",", "")) * UNIT_FACTORS.get(unit, 1)
    except ValueError:
        return None
    return int(found) if found == int(found) else found


def value(text: str, unit: str) -> None | float | dict[str, int]:
    """A number, or for a counter by opcode, `30 (LDS: 10; STS: 20)`, the number of each."""
    by_opcode = re.findall(r"([A-Z][A-Z0-9_.]*): ([\d,]+)", text)
    if by_opcode:
        return {name: int(count.replace(",", "")) for name, count in by_opcode}
    return number(text.split("(")[0], unit)  # 256 (0: 256) has one instance, itself


def parse(text: str, metrics: Sequence[str]) -> dict[int, list[Json]]:
    """ncu's raw page as CSV → the kernels of each process, by its number.

    The first line names the columns, the second their units, then there is a line per kernel. Lines that are not CSV
    (ncu's ==PROF== messages) are skipped.
    """
    lines = csv.DictReader(line for line in text.splitlines() if line.startswith('"'))
    units = next(lines, {})
    kernels: dict[int, list[Json]] = {}
    for cells in lines:
        counted = {name: value(cells[name], units[name]) if name in cells else None for name in metrics}
        name = " ".join(cells["Kernel Name"].split())
        kernels.setdefault(int(cells["Process ID"]), []).append({"kernel": name, "metrics": counted})
    return kernels


def read(ncu: str, report: Path, metrics: Sequence[str]) -> dict[int, list[Json]]:
    """The kernels of a report, by process. Raises ToolError."""
    command = [ncu, "--import", str(report), "--csv", "--page", "raw", "--print-units", "base"]
    command += ["--print-kernel-base", "function", "--print-metric-instances", "details", "--metrics", ",".join(metrics)]
    done = results.run_process(command, READ_TIMEOUT_S)
    if done.returncode != 0:
        raise ToolError(f"ncu cannot read its own report {report}: {last_line(done.stdout + done.stderr)}")
    return parse(done.stdout, metrics)


def driver_script(stages: dict[str, Path], entries: Sequence[Json], folder: Path) -> str:
    """A shell script that makes the launches: the output of the Nth, its process and its exit code go into N.*."""
    lines = []
    for n, e in enumerate(entries):
        launch = [str(stages[e["stage"]]), *results.stage_options(*shape_of(e), e["op"], e["variant"])]
        launch += ["--device", "gpu", "--profile"]
        # exec keeps the process number, by which ncu names the launch's kernels.
        command = shlex.join(["bash", "-c", 'echo $$ >"$0"; exec "$@"', str(folder / f"{n}.pid"), *launch])
        out, code = (shlex.quote(str(folder / f"{n}.{suffix}")) for suffix in ("out", "code"))
        lines.append(f"{command} >{out} 2>&1; echo $? >{code}")
    return "\n".join(lines) + "\n"


def check_permitted(log: Path) -> None:
    """Raises NoDevice for an error that stops all launches."""
    said = log.read_text(errors="replace")
    if "ERR_NVGPUCTRPERM" in said:
        raise NoDevice(NOT_PERMITTED)
    if "Failed to initialize the profiler" in said:
        raise NoDevice("ncu cannot profile on this machine: it failed to initialise the profiler")


def wait(process: subprocess.Popen, log: Path, folder: Path, places: list[str]) -> None:
    """Until all launches are made. Raises ToolError when ncu is refused, or a launch takes too long."""
    started, since = -1, time.monotonic()
    while process.poll() is None:
        done = len(list(folder.glob("*.code")))
        if done > started and done < len(places):
            started, since = done, time.monotonic()
            say(f"[{done + 1} of {len(places)}] {places[done]}")
        if time.monotonic() - since > LAUNCH_TIMEOUT_S:
            raise ToolError(f"{places[max(started, 0)]} took longer than {LAUNCH_TIMEOUT_S} s under ncu")
        check_permitted(log)  # the launches would go on, and not be counted
        time.sleep(0.1)


def measure(
    ncu: str,
    stages: dict[str, Path],
    entries: Sequence[Json],
    metrics: Sequence[str],
    report: Path | None = None,
    options: Sequence[str] = (),
) -> list[str]:
    """Launches each entry's variant at its shape under ncu and adds its kernels to it, in launch order:
    {"kernel": name, "metrics": {name: value}}. Returns the errors of single launches. Keeps ncu's report where
    `report` says, as a whole or not at all. Raises NoDevice, ToolError."""
    problems = []
    with tempfile.TemporaryDirectory(dir=report.parent if report else None) as name:
        folder = Path(name)
        script, log, made = folder / "launches.sh", folder / "ncu.log", folder / "made.ncu-rep"
        script.write_text(driver_script(stages, entries, folder), encoding="utf-8")
        command = [ncu, "--clock-control", "none", "--profile-from-start", "off", "--nvtx", "--target-processes", "all"]
        command += [*options, "--metrics", ",".join(metrics), "--force-overwrite", "--export", str(made), "bash", str(script)]
        try:
            with log.open("w") as out, started(command, stdout=out, stderr=subprocess.STDOUT) as (process,):
                wait(process, log, folder, list(map(place_of, entries)))
        except OSError as error:
            raise ToolError(f"cannot run {ncu}: {error.strerror}") from error
        check_permitted(log)
        if not made.is_file():
            said = log.read_text(errors="replace")
            errors = [line for line in said.splitlines() if "==ERROR==" in line]
            raise ToolError(f"ncu failed (exit code {process.returncode}). {' '.join(errors) or last_line(said)}")
        kernels = read(ncu, made, metrics)
        for n, entry in enumerate(entries):
            files = {path.suffix: path.read_text(errors="replace").strip() for path in folder.glob(f"{n}.*")}
            entry["kernels"] = kernels.get(int(files[".pid"]), []) if files.get(".code") == "0" else []
            if files.get(".code") != "0":
                code, words = files.get(".code", "unknown"), last_line(files.get(".out", ""))
                problems.append(f"{place_of(entry)}: exit code {code}. {words}")
            elif not entry["kernels"]:
                problems.append(f"{place_of(entry)}: ncu counted no kernel")
        if report:
            os.replace(made, report)
    return problems


def record(
    arguments: argparse.Namespace,
    command: str,
    suffix: str,
    stages: dict[str, Path],
    count: Callable[[], list[Json]],
    metrics: Sequence[str],
    kept: Callable[[Json], Json],
    options: Sequence[str] = (),
    missing: bool = False,
) -> Path:
    """Measures the launches that `count` has counted on the simulator, and writes the `kept` part of each; returns
    the file. Entries of other stages stay, with their own date and commit. If only `missing` ones are wanted, those of these
    stages stay, too, and new ones are written a few launches at a time: the next call goes on after a stop. Raises
    ToolError, and then has written nothing else."""
    header = results.header(arguments, command)
    machine = results.machine_of(stages)
    others = entries_of_others(arguments.root / "common/results", f"{results.gpu_slug(machine['gpu'])}{suffix}.json", {} if missing else stages)
    program = find(arguments.ncu)
    recorded = {place_of(entry) for entry in others}
    entries = [entry for entry in count() if place_of(entry) not in recorded]
    if not entries:
        raise ToolError("nothing is left to record")
    header["ncu"] = version(program)
    at_once = MISSING_AT_ONCE if missing else len(entries)
    problems = []
    for begin in range(0, len(entries), at_once):
        some = entries[begin : begin + at_once]
        if len(some) < len(entries):
            say(f"launches {begin + 1} to {begin + len(some)} of {len(entries)}:")
        found = measure(program, stages, some, metrics, None, options)
        problems += found
        if not found:
            others = sorted([*others, *map(kept, some)], key=lambda entry: entry["stage"])
            path = results.write(arguments, header, machine, suffix, entries=others)
    if problems:
        raise ToolError(f"{'not all' if missing else 'nothing'} was written:\n  " + "\n  ".join(problems))
    return path


def entries_of_others(folder: Path, name: str, stages: dict[str, Path]) -> list[Json]:
    """The results of other stages that were recorded on such a GPU, each entry with its origin."""
    if set(stages) >= set(results.stage_names(folder.parents[1])):
        return []
    earlier = results.load(folder / name, results.BY_NCU)
    return [
        {"recorded": earlier["recorded"], **entry} for entry in earlier["entries"] if entry["stage"] not in stages
    ]
