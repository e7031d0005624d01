"""What the tools share.

Finding the stages, running one and reading its JSON report, saying which commit and machine a
measurement belongs to, and reading and writing the files in common/results.

Units: time in µs, bandwidth in GB/s (10^9 bytes per second), sizes in bytes.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

from command import NoDevice, ToolError

ROOT = Path(__file__).resolve().parents[3]
ELEMENT_BYTES = {"f32": 4, "f16": 2, "bf16": 2}
MACHINE_TIMEOUT_S = 120
STATUSES = ("verified", "wrong", "not applicable", "failed")

Json = Dict[str, Any]


class Shape(NamedTuple):
    """One problem: element type and matrix size."""

    dtype: str
    rows: int
    cols: int

    def __str__(self) -> str:
        return f"{self.dtype}:{self.rows}x{self.cols}"


def parse_shape(text: str) -> Shape:
    """`f16:49152x1024` → Shape. Raises ToolError that says what is accepted."""
    match = re.fullmatch(r"(f32|f16|bf16):([1-9]\d*)x([1-9]\d*)", text)
    if not match:
        raise ToolError(f"shape '{text}' is not DTYPE:ROWSxCOLS, for example f16:49152x1024")
    return Shape(match[1], int(match[2]), int(match[3]))


def stage_names(root: Path) -> List[str]:
    """The stages in order: the numbered folders that hold a main.cu."""
    return sorted(path.parent.name for path in root.glob("[0-9][0-9]_*/main.cu"))


def stage_executables(root: Path, build: Path, names: Sequence[str] = ()) -> Dict[str, Path]:
    """The executables of these stages, or of every stage. Raises ToolError when one has not been built."""
    stages = {name: build / name for name in names or stage_names(root)}
    if not stages:
        raise ToolError(f"{root} holds no stage: no folder NN_name with a main.cu")
    missing = [str(path) for path in stages.values() if not os.access(path, os.X_OK)]
    if missing:
        raise ToolError(f"not built: {', '.join(missing)} (cmake --build {build})")
    return stages


def run_process(command: List[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end. Raises ToolError when it cannot start or takes too long.

    It gets a process group of its own: with a profiler, the program that it started is ended too.
    """
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True
        )
    except OSError as error:
        raise ToolError(f"cannot run {command[0]}: {error.strerror}") from error
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise ToolError(f"took longer than {timeout_s:.0f} s") from error
    except BaseException:  # an interrupt by the user must not leave it running on the GPU
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def run_stage(
    executable: Path, arguments: List[str], timeout_s: float, device: str = "gpu"
) -> Tuple[Optional[Json], List[str]]:
    """Runs one stage with `--format json` on "gpu" or "sim"; returns its report and what was wrong with the run.

    The list of problems is empty exactly when the exit code was 0, the report could be read and no
    result in it is "wrong" or "failed". Raises NoDevice on the stage's exit code 3.
    """
    command = [str(executable), *arguments, "--device", device, "--format", "json"]
    try:
        done = run_process(command, timeout_s)
    except ToolError as error:
        return None, [str(error)]
    last_words = (done.stderr.strip().splitlines() or [""])[-1]
    if done.returncode == 3:
        raise NoDevice(last_words or f"{executable.name}: no usable GPU")

    if done.returncode != 0 and not done.stdout.strip():
        return None, [f"exit code {done.returncode}. {last_words}".strip()]

    problems = []
    report: Optional[Json] = None
    try:
        report = json.loads(done.stdout)
        for result in report["results"]:
            if result["status"] not in STATUSES:
                problems.append(f"{result['variant']}: unknown status '{result['status']}'")
            elif result["status"] in ("wrong", "failed"):
                what = f"{result['variant']} {result['dtype']}:{result['rows']}x{result['cols']}"
                problems.append(f"{what}: {result['status']}. {result['reason']}".strip())
    except (ValueError, KeyError, TypeError) as error:
        report = None
        problems.append(f"its output is not the expected JSON ({type(error).__name__}: {error})")
    if done.returncode != 0:
        problems.append(f"exit code {done.returncode}. {last_words}".strip())
    return report, problems


def machine_of(stages: Dict[str, Path]) -> Json:
    """The GPU that the stages use, as they describe it. Raises NoDevice."""
    name, executable = next(iter(stages.items()))
    try:
        report, found = run_stage(executable, ["--rows", "1", "--cols", "32", "--verify-only"], MACHINE_TIMEOUT_S)
    except NoDevice as error:
        raise NoDevice(str(error).replace(f"{name}: ", "", 1)) from error  # it is not this stage's fault
    if report is None:
        raise ToolError(f"{name}: {' '.join(found)}")
    return report["machine"]


def gpu_slug(gpu: str) -> str:
    """`NVIDIA H200` → `nvidia-h200`, the stem of the results file."""
    return re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")


def utc_now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def first_line_of(command: List[str]) -> Optional[str]:
    """First line that a command prints, or None where it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0].strip() if done.returncode == 0 and lines else None


def commit_of(root: Path, override: Optional[str]) -> Tuple[str, bool]:
    """The commit that is measured, and whether the working tree differs from it.

    `override` (HASH or HASH-dirty) is for a machine that got the files without their history.
    Markdown and common/results do not count as differences: they cannot change a measurement.
    Raises ToolError when the commit is not known, since a number without its source is worthless.
    """
    if override:
        match = re.fullmatch(r"([0-9a-f]{7,40})(-dirty)?", override)
        if not match:
            raise ToolError(f"--commit '{override}' is not HASH or HASH-dirty (7 to 40 hex digits)")
        return match[1], bool(match[2])
    # Without this check git would answer for a repository that merely surrounds this folder.
    if (root / ".git").exists():
        git = ["git", "-C", str(root)]
        commit = first_line_of([*git, "rev-parse", "HEAD"])
        if commit:
            sources = ["--", ".", ":!common/results", ":!*.md"]
            return commit, first_line_of([*git, "status", "--porcelain", *sources]) is not None
    raise ToolError("the commit is not known here (no git history): pass --commit HASH")


def software_versions(build: Path) -> Json:
    """Driver and compiler versions and the highest SM clock, None where they cannot be found out."""
    driver = first_line_of(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])
    clock = first_line_of(["nvidia-smi", "--query-gpu=clocks.max.sm", "--format=csv,noheader,nounits"])
    # The compiler that CMake configured is the one that matters, not the first one on the path.
    compiler = "nvcc"
    cache = build / "CMakeCache.txt"
    if cache.is_file():
        found = re.search(r"^CMAKE_CUDA_COMPILER:\w+=(.+)$", cache.read_text(encoding="utf-8"), re.M)
        compiler = found[1] if found else compiler
    nvcc = None
    if shutil.which(compiler):
        shown = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout
        release = re.search(r"\bV(\d+\.\d+\.\d+)", shown)
        nvcc = release[1] if release else None
    clock_mhz = int(clock) if clock and clock.isdigit() else None
    return {"driver_version": driver, "nvcc": nvcc, "max_sm_clock_mhz": clock_mhz}


def json_text(data: Json) -> str:
    """JSON with one line per list element, so that a new recording gives a readable diff."""
    parts = []
    for key, value in data.items():
        if isinstance(value, list):
            lines = ",\n".join("  " + json.dumps(element, ensure_ascii=False) for element in value)
            text = f"[\n{lines}\n ]" if value else "[]"
        else:
            text = json.dumps(value, ensure_ascii=False)
        parts.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def write_whole(path: Path, content: Union[str, bytes]) -> None:
    """Writes a file so that a reader sees the old content or the new one, never a half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    try:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        os.replace(temporary, path)
    finally:
        if temporary.exists():
            temporary.unlink()


def load_json(path: Path) -> Json:
    """Raises ToolError that names the file when it is missing or not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise ToolError(f"{path} is not JSON: {error}") from error


# What every results file must hold, and of which type, before anything is made of it.
HEADER_FIELDS: Dict[str, Dict[str, type]] = {
    "recorded": {"date_utc": str, "commit": str, "dirty": bool, "command": str},
    "machine": {"gpu": str},
    "settings": {"l2": str, "repeats": int},
}
RESULT_FIELDS = {
    "stage": str, "variant": str, "dtype": str, "op": str, "rows": int, "cols": int, "status": str, "reason": str,
}
NUMBERS = ("time_us", "spread_percent", "copy_us", "percent_of_copy", "bandwidth_gb_s", "passes", "max_error")
TIMED = ("time_us", "copy_us", "percent_of_copy", "bandwidth_gb_s")  # a result with a time has all of them


def check_fields(found: Json, fields: Dict[str, type], where: str) -> None:
    """Raises ValueError or TypeError that says which field is missing or of another type."""
    for name, kind in fields.items():
        if name not in found:
            raise ValueError(f"{where} has no '{name}'")
        if not isinstance(found[name], kind):
            raise ValueError(f"{where}: '{name}' is {found[name]!r}")


def check_result(result: Json, where: str) -> None:
    """Raises ValueError or TypeError when a result lacks what the pages and charts are made of."""
    check_fields(result, RESULT_FIELDS, where)
    if result["status"] not in STATUSES or result["dtype"] not in ELEMENT_BYTES:
        raise ValueError(f"{where}: unknown status or dtype: {result['status']}, {result['dtype']}")
    for name in NUMBERS:
        if name not in result:
            raise ValueError(f"{where} has no '{name}'")
        value = result[name]
        if value is not None and (not isinstance(value, (int, float)) or not math.isfinite(value)):
            raise ValueError(f"{where}: '{name}' is {value!r}")
    if result["time_us"] is not None:
        if any(result[name] is None for name in TIMED):
            raise ValueError(f"{where} has a time, but not all of {', '.join(TIMED)}")
        if result["time_us"] <= 0 or result["copy_us"] <= 0:
            raise ValueError(f"{where}: a time is not above 0")


def fastest(found: Iterable[Json]) -> Optional[Json]:
    """Who leads, in every table and chart: the highest percentage of the copy that was timed beside it.

    Not the shortest time: single times drift within a run, and the copy's drift with them. The first of equals;
    None where none has a time.
    """
    return max((r for r in found if r["time_us"] is not None), key=lambda r: r["percent_of_copy"], default=None)


class Recorded:
    """One results file, asked by stage, variant and shape. Every miss raises ToolError.

    `tables` are the published tables of a sweep's file; `record`'s file has none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        data = load_json(path)
        try:
            for part, fields in HEADER_FIELDS.items():
                check_fields(data[part], fields, part)
            self.recorded: Json = data["recorded"]
            self.machine: Json = data["machine"]
            self.settings: Json = data["settings"]
            self.results: List[Json] = data["results"]
            self.tables: List[Json] = data.get("tables", [])
            self._at: Dict[Shape, List[Json]] = {}
            for number, result in enumerate(self.results, start=1):
                check_result(result, f"result {number}")
                if result["op"] == "softmax":
                    shape = Shape(result["dtype"], result["rows"], result["cols"])
                    self._at.setdefault(shape, []).append(result)
            for table in self.tables:
                check_fields(table, {"name": str, "title": str, "shapes": list}, "a table")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise ToolError(f"{path} is no results file: {what}") from error
        if not self.results:
            raise ToolError(f"{path} holds no results")

    def at(self, shape: Shape) -> List[Json]:
        """Every result of softmax at one shape, the copy ceiling (stage "") included."""
        if shape not in self._at:
            raise ToolError(f"nothing recorded at {shape} in {self.path.name}")
        return self._at[shape]

    def variants(self, stage: str, shape: Shape) -> List[Json]:
        """One stage's results in the order in which the stage lists its variants."""
        found = [r for r in self.at(shape) if r["stage"] == stage]
        if not found:
            raise ToolError(f"no result of stage {stage} at {shape} in {self.path.name}")
        return found

    def best(self, stage: str, shape: Shape) -> Optional[Json]:
        """The fastest verified variant, None where no variant of the stage is applicable."""
        return fastest(self.variants(stage, shape))

    def one(self, stage: str, variant: str, shape: Shape) -> Json:
        """One timed result; `best` as the variant means the stage's fastest."""
        if variant == "best":
            best = self.best(stage, shape)
            if best is None:
                raise ToolError(f"no variant of {stage} is applicable at {shape}")
            return best
        for result in self.variants(stage, shape):
            if result["variant"] == variant:
                if result["time_us"] is None:
                    raise ToolError(f"{stage} {variant} has no time at {shape}: {result['reason']}")
                return result
        known = ", ".join(r["variant"] for r in self.variants(stage, shape))
        raise ToolError(f"{stage} has no variant '{variant}' at {shape}; it has: {known}")

    def copy(self, shape: Shape) -> Json:
        """The copy ceiling at one shape."""
        for result in self.at(shape):
            if result["stage"] == "":
                return result
        raise ToolError(f"no copy ceiling at {shape} in {self.path.name}")


def newest(folder: Path, sweep: bool) -> Optional[Recorded]:
    """The recording (or sweep) with the newest date, None where the folder holds none."""
    suffixes = ("-sweep",) if sweep else ("-profile", "-sweep", "simulator")
    files = [path for path in sorted(folder.glob("*.json")) if path.stem.endswith(suffixes) == sweep]
    return max((Recorded(path) for path in files), key=lambda r: (r.recorded["date_utc"], r.path.name), default=None)
