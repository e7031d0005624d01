"""What the tools share.

Finding the stages, running one and reading its JSON report, saying which commit and machine a
measurement belongs to, and reading and writing the files in common/results.

Units: time in µs, bandwidth in GB/s (10^9 bytes per second), sizes in bytes.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from command import NoDevice, ToolError, end_group, signals_wait
from files import BadFile, load_json

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


SHAPE = re.compile(r"(f32|f16|bf16):([1-9][0-9]{0,14})x([1-9][0-9]{0,14})")


def parse_shape(text: str) -> Shape:
    """`f16:49152x1024` → Shape. Raises ToolError that says what is accepted."""
    match = SHAPE.fullmatch(text)
    if not match:
        raise ToolError(f"shape {shortened(text)} is not DTYPE:ROWSxCOLS, for example f16:49152x1024")
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


Started = Callable[["subprocess.Popen[str]"], None]


def run_process(
    command: List[str], timeout_s: float, started: Started = lambda _: None
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end. Raises ToolError when it cannot start or takes too long.

    It gets a process group of its own: with a profiler, the program that it started is ended too. `started` is told
    of it, for who may want to end it from another thread.
    """
    process: Optional["subprocess.Popen[str]"] = None
    try:
        with signals_wait():
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace",
                start_new_session=True,
            )  # fmt: skip
        started(process)
        out, err = process.communicate(timeout=timeout_s)
    except OSError as error:
        raise ToolError(f"cannot run {command[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"took longer than {timeout_s:.0f} s") from error
    finally:  # an interrupt by the user must not leave it running on the GPU
        if process:
            end_group(process)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def run_stage(
    executable: Path, arguments: List[str], timeout_s: float, device: str = "gpu", started: Started = lambda _: None
) -> Tuple[Optional[Json], List[str]]:
    """Runs one stage with `--format json` on "gpu" or "sim"; returns its report and what was wrong with the run.

    The list of problems is empty exactly when the exit code was 0, the report could be read and no
    result in it is "wrong" or "failed". Raises NoDevice on the stage's exit code 3.
    """
    command = [str(executable), *arguments, "--device", device, "--format", "json"]
    try:
        done = run_process(command, timeout_s, started)
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


# --- What a recorded file must hold, before anything is made of it ---------------------------------

Check = Callable[[Any], bool]


def is_whole(value: Any) -> bool:
    return type(value) is int and value >= 0  # True is an int, too


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and value >= 0  # load_json lets finite ones through


def is_any_number(value: Any) -> bool:
    return type(value) in (int, float)


def is_size(value: Any) -> bool:
    return is_whole(value) and value > 0


def is_flag(value: Any) -> bool:
    return type(value) is bool


def matches(pattern: str) -> Check:
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None


def is_one_of(*values: str) -> Check:
    return lambda value: isinstance(value, str) and value in values


def or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def is_date(value: Any) -> bool:
    try:
        return datetime.datetime.strptime(value, "%Y-%m-%dT%H:%M:%SZ").strftime("%Y-%m-%dT%H:%M:%SZ") == value
    except (TypeError, ValueError):
        return False


def are_texts(value: Any) -> bool:
    return isinstance(value, list) and value != [] and all(isinstance(text, str) for text in value)


is_name = matches(r"[A-Za-z0-9_]{1,64}")
is_line = matches(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{0,2000}")
# What stands in tables, captions and pictures as it is.
is_plain = matches(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff<>|`\[\]\\]{0,200}")
# The page of ./run report offers it for copying.
is_command = matches(
    r"(\./run (sweep|profile)|python3 common/tools( (record|count|hardware_table)|/(record|count|hardware_table)\.py))"
    r"( --[a-z]+( [A-Za-z0-9_:,.]+)?)*"
)

UNKNOWN = "unknown"  # the commit of a sweep, where git does not know it
HEADER = {"date_utc": is_date, "commit": matches(f"[0-9a-f]{{7,40}}|{UNKNOWN}"), "dirty": is_flag, "command": is_command}
MACHINE = {"gpu": is_plain}
MACHINE_NUMBERS = ("multiprocessors", "l2_bytes", "memory_bytes", "max_sm_clock_mhz")
SETTINGS = {"l2": is_one_of("cold", "warm"), "repeats": is_size}
SWEEP_SETTINGS = {"rounds": is_size, "peer_tolerance": is_number}
TABLE = {"name": matches("[a-z0-9_]{1,40}"), "title": is_plain, "source": is_plain, "shapes": are_texts}
PLACE = {
    "stage": is_name, "variant": is_name, "dtype": is_one_of(*ELEMENT_BYTES), "rows": is_size, "cols": is_size,
}
STATUS = {"status": is_one_of(*STATUSES), "reason": is_line}
NUMBERS = ("time_us", "spread_percent", "copy_us", "percent_of_copy", "bandwidth_gb_s", "passes", "max_error")
RESULT = {
    **PLACE, "stage": or_none(lambda value: value == "" or is_name(value)), "op": is_name, "input": is_name, **STATUS,
    **dict.fromkeys(NUMBERS, or_none(is_number)),
}
SWEEP_RESULT = {
    "contender": is_plain, "kind": is_one_of("stage", "peer", "copy"), "noisy": is_flag,
    "round_difference_percent": or_none(is_number),
}
TIMED = ("time_us", "copy_us", "percent_of_copy", "bandwidth_gb_s")  # a result with a time has all of them
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def check_fields(found: Any, fields: Dict[str, Check], where: str) -> None:
    """Raises ValueError that says which field is missing, or what is in it."""
    if not isinstance(found, dict):
        raise ValueError(f"{where} is {shortened(found)}")
    for name, check in fields.items():
        if name not in found:
            raise ValueError(f"{where} has no '{name}'")
        if not check(found[name]):
            raise ValueError(f"{where}: '{name}' is {shortened(found[name])}")


def shortened(value: Any) -> str:
    text = ascii(value) if isinstance(value, (str, int, float, type(None))) else type(value).__name__
    return text if len(text) <= 60 else text[:60] + " ..."


def check_each(found: Any, fields: Dict[str, Check], where: str) -> List[Json]:
    """A list of objects of which no two are of the same place."""
    if not isinstance(found, list) or not found:
        raise ValueError(f"'{where}s' is {shortened(found) if found else 'empty'}")
    names = [name for name in (*PLACE, "op", "input") if name in fields]
    places: Dict[Tuple[Any, ...], int] = {}
    for number, one in enumerate(found, start=1):
        check_fields(one, fields, f"{where} {number}")
        place = tuple(one[name] for name in names)
        first = places.setdefault(place, number)
        if first != number:
            raise ValueError(f"{where} {number} has the place of {where} {first}")
    return found


def check_numbers(found: Any, where: str, signed: str = "conflicts") -> None:
    """Numbers by name; one that is a difference may be negative."""
    if not isinstance(found, dict):
        raise ValueError(f"{where} is {shortened(found)}")
    check_fields(found, {name: or_none(is_any_number if signed in name else is_number) for name in found}, where)


def check_result(result: Json, where: str) -> None:
    """Raises ValueError unless the numbers of a result follow from each other."""
    time, copy, percent = result["time_us"], result["copy_us"], result["percent_of_copy"]
    if time is None:
        if result["status"] == "verified":
            raise ValueError(f"{where} is verified, and its 'time_us' is None")
        return
    if any(result[name] is None for name in TIMED):
        missing = next(name for name in TIMED if result[name] is None)
        raise ValueError(f"{where} has a time, and its '{missing}' is None")
    if result["status"] != "verified":
        raise ValueError(f"{where} has a time, and its status is '{result['status']}'")
    if time <= 0 or copy <= 0:
        raise ValueError(f"{where}: 'time_us' or 'copy_us' is 0")
    if abs(100 * copy / time - percent) > 0.01 + 1e-3 * percent:
        raise ValueError(f"{where}: 'percent_of_copy' is {percent}, and its times say {100 * copy / time:.2f}")
    if result["passes"] is None and result.get("kind") != "peer":
        raise ValueError(f"{where} has a time, and no 'passes'")


def check_header(data: Json) -> None:
    check_fields(data, {"recorded": lambda _: True, "machine": lambda _: True}, "it")
    check_fields(data["recorded"], HEADER, "recorded")
    check_fields(data["machine"], MACHINE, "machine")
    others = {name: or_none(is_whole if name in MACHINE_NUMBERS else is_plain) for name in data["machine"]}
    check_fields(data["machine"], others, "machine")


def load(path: Path, check: Callable[[Json], None]) -> Json:
    """A recorded file that holds what it must. Raises BadFile that names the file and the field."""
    data = load_json(path)
    try:
        check_fields(data, {}, "it")
        check(data)
    except (ToolError, ValueError) as error:
        raise BadFile(f"{path} is no results file: {error}") from error
    return data


def load_counted(path: Path) -> Json:
    """simulator.json."""

    def check(data: Json) -> None:
        check_fields(data, {"command": is_command, "nvcc": or_none(is_plain), "counted": lambda _: True}, "it")
        entries = check_each(data["counted"], {**PLACE, **STATUS}, "counted")
        for number, entry in enumerate(entries, start=1):
            numbers = {name: entry[name] for name in entry if name not in PLACE and name not in STATUS}
            check_numbers(numbers, f"counted {number}")
            if entry["status"] == "verified" and None in (numbers[n] for n in numbers if n.startswith("counted_")):
                raise ValueError(f"counted {number} is verified, and lacks a number")

    return load(path, check)


def load_profiles(path: Path) -> Json:
    """<gpu>-profile.json."""

    def check(data: Json) -> None:
        check_header(data)
        check_fields(data["recorded"], {"ncu": or_none(is_plain)}, "recorded")
        fields = {**PLACE, "op": is_name, "counted_rows": is_size}
        for number, entry in enumerate(check_each(data.get("entries"), fields, "entry"), start=1):
            where = f"entry {number}"
            check_numbers(entry.get("metrics"), f"{where}: metrics")
            if not isinstance(entry.get("kernels"), list):
                raise ValueError(f"{where}: 'kernels' is {shortened(entry.get('kernels'))}")
            for kernel in entry["kernels"]:
                check_fields(kernel, {"kernel": is_line}, f"{where}: kernels")
                check_numbers(kernel.get("metrics"), f"{where}: kernels: metrics")
            check_fields(entry.get("quantities"), {}, f"{where}: quantities")
            for name, three in entry["quantities"].items():
                if not isinstance(three, list) or len(three) != 3:
                    raise ValueError(f"{where}: quantities: '{name}' is {shortened(three)}")
                check_numbers({f"{name} {n}": value for n, value in enumerate(three)}, f"{where}: quantities")

    return load(path, check)


def load_hardware(path: Path, counters: Iterable[str]) -> Json:
    """<gpu>-simulator.json."""

    def check(data: Json) -> None:
        check_header(data)
        check_fields(data["recorded"], {"ncu": or_none(is_plain)}, "recorded")
        for number, entry in enumerate(check_each(data.get("entries"), PLACE, "entry"), start=1):
            for side in ("ncu", "simulator"):
                where = f"entry {number}: {side}"
                check_fields(entry.get(side), dict.fromkeys(counters, lambda _: True), where)
                check_numbers(entry[side], where)

    return load(path, check)


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
        data = load(path, self._check)
        self.recorded: Json = data["recorded"]
        self.machine: Json = data["machine"]
        self.settings: Json = data["settings"]
        self.results: List[Json] = data["results"]
        self.tables: List[Json] = data.get("tables", [])
        self._at: Dict[Shape, List[Json]] = {}
        for result in self.results:
            if result["op"] == "softmax":
                self._at.setdefault(Shape(result["dtype"], result["rows"], result["cols"]), []).append(result)

    @staticmethod
    def _check(data: Json) -> None:
        check_header(data)
        check_fields(data, {"settings": lambda _: True, "results": lambda _: True}, "it")
        is_sweep = "tables" in data
        check_fields(data["settings"], {**SETTINGS, **(SWEEP_SETTINGS if is_sweep else {})}, "settings")
        for result in data["results"] if isinstance(data["results"], list) else []:
            if isinstance(result, dict) and isinstance(result.get("reason"), str):
                result["reason"] = COLOUR.sub("", result["reason"])  # some libraries colour their messages
        results = check_each(data["results"], {**RESULT, **(SWEEP_RESULT if is_sweep else {})}, "result")
        for number, result in enumerate(results, start=1):
            check_result(result, f"result {number}")
        if is_sweep:
            tables = data["tables"] if isinstance(data["tables"], list) else [data["tables"]]
            for number, table in enumerate(tables, start=1):
                check_fields(table, TABLE, f"table {number}")
                if len({parse_shape(text) for text in table["shapes"]}) != len(table["shapes"]):
                    raise ValueError(f"table {number} has a shape twice")
            if len({table["name"] for table in tables}) != len(tables):
                raise ValueError("two tables have the same name")

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
