"""The functions and constants that the tools share.

Finding the stages, running one and reading its JSON report, saying which commit and machine a
measurement belongs to, and reading and writing the files in common/results.

Units: time in µs, bandwidth in GB/s (10^9 bytes per second), sizes in bytes.
"""

import argparse
import contextlib
import csv
import datetime
import io
import json
import os
import re
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Iterable, Sequence

from command import NoDevice, Parser, ToolError, Usage, output_of, started
from files import BadFile, load_json, write_whole
from measure.columns import by_place, in_order, json_text, rows_of
from measure.schema import DATE, OTHERS, Each, Json, are_texts, check, is_date, is_difference, is_number
from measure.shapes import ELEMENT_BYTES, Shape, parse_shape, shape_of

ROOT = Path(__file__).resolve().parents[3]
MACHINE_TIMEOUT_S = 120
LEAST_LEAD = 1.0  # in points of the copy's speed: a smaller lead may be gone in the next run
STATUSES = ("verified", "wrong", "not applicable", "failed")

# Not among the stages that are recorded, counted and swept: those use one GPU.
OF_SEVERAL_GPUS = "15_several_gpus"

# The library's kernels are the variants of a stage, too, but this stage is not in the ladder. Its executable has another name.
LIBRARY = "rowwise"
OF_LIBRARY = "rowwise_bench"
DISPATCH = "14_dispatch"  # the library as it is called: it chooses one of these kernels


def stage_names(root: Path) -> list[str]:
    """The stages in order: the numbered folders that hold a main.cu, except for that of several GPUs."""
    return sorted(path.parent.name for path in root.glob("[0-9][0-9]_*/main.cu") if path.parent.name != OF_SEVERAL_GPUS)


# The operations of stages that do others than softmax: such a stage is not a step of the ladder, which climbs from one softmax
# to the next. If there are several operations, a variant does one of them.
OPERATIONS = {
    OF_LIBRARY: ("softmax", "softmax_backward", "cross_entropy", "cross_entropy_gradient"),
    "11_backward": ("softmax_backward", "recomputed_softmax_backward"),
    "12_cross_entropy": ("cross_entropy", "cross_entropy_gradient"),
    "13_masked_softmax": ("causal_softmax", "causal_softmax_backward"),
    "14_dispatch": ("softmax", "softmax_backward", "cross_entropy", "cross_entropy_gradient"),
}


def measured_names(root: Path) -> list[str]:
    """The stages that are recorded: those in order, and the library's kernels."""
    library = [OF_LIBRARY] if (root / "common/rowwise/bench/main.cu").is_file() else []
    return [*stage_names(root), *library]


def operations_of(stage: str) -> tuple[str, ...]:
    return OPERATIONS.get(stage, ("softmax",))


def operation_of(stage: str) -> str:
    """The stage's usual operation."""
    return operations_of(stage)[0]


def of_its_operation(entries: Iterable[Json]) -> list[Json]:
    """For each variant and shape the entry of the operation that the variant does, if it does one there; none if its reason
    is that the variant does another."""
    found: dict[str, Json] = {}
    for entry in entries:
        if entry["reason"].startswith("this variant does "):
            continue
        kept = found.setdefault(place_of(entry), entry)
        if kept["status"] == "not applicable" != entry["status"]:
            found[place_of(entry)] = entry
    return list(found.values())


def ladder(stages: Iterable[str]) -> list[str]:
    return [stage for stage in stages if stage not in OPERATIONS]


def stage_executables(root: Path, build: Path, names: Sequence[str] = ()) -> dict[str, Path]:
    """The executables of these stages, or of every stage. Raises ToolError when one has not been built."""
    stages = {name: build / name for name in names or stage_names(root)}
    if not stages:
        raise ToolError(f"{root} holds no stage: no folder NN_name with a main.cu")
    missing = [str(path) for path in stages.values() if not (path.is_file() and os.access(path, os.X_OK))]
    if missing:
        raise ToolError(f"not built: {', '.join(missing)} (cmake --build {build})")
    return stages


def stage_named(text: str, known: list[str]) -> str:
    if text == LIBRARY:
        return OF_LIBRARY
    for stage in known:
        if text.rstrip("/") == stage or re.fullmatch(f"0*{int(stage[:2])}", text):
            return stage
    raise Usage(f"there is no stage '{text}'; the stages are {', '.join([*known, LIBRARY])}")


Stopped = Callable[[], bool]
NEVER: Stopped = lambda: False  # noqa: E731


def run_process(command: list[str], timeout_s: float, stopped: Stopped = NEVER) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end, or until it is `stopped`. Raises ToolError when it cannot start or takes too long.

    It gets a process group of its own: with a profiler, the program that it started is ended too.
    """
    end = time.monotonic() + timeout_s
    try:  # an interrupt by the user must not leave it running on the GPU
        with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8") as (process,):
            while time.monotonic() < end and not stopped():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    out, err = process.communicate(timeout=min(timeout_s, 0.1))
                    return subprocess.CompletedProcess(command, process.returncode, out, err)
            raise ToolError(f"took longer than {timeout_s:.0f} s")
    except OSError as error:
        raise ToolError(f"cannot run {command[0]}: {error.strerror}") from error


def in_parallel(jobs: int | None, run: Callable[[Any, Stopped], Any], work: Iterable[Any]) -> list[Any]:
    """The results of run(item, stopped) for each item. It is stopped at an interrupt: the pool would wait for the last."""
    stopped = threading.Event()
    with ThreadPoolExecutor(jobs) as pool:
        try:
            return list(pool.map(lambda item: run(item, stopped.is_set), work))
        finally:
            stopped.set()


def last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


def stage_options(dtype: str, rows: int, cols: int | str, op: str = "softmax", variants: str = "all") -> list[str]:
    problem = ["--dtype", dtype, "--rows", str(rows), "--cols", str(cols), "--op", op]
    return [*problem, "--input", "normal", "--variant", variants]


def run_stage(
    executable: Path, arguments: list[str], timeout_s: float, device: str = "gpu", stopped: Stopped = NEVER
) -> tuple[Json | None, list[str]]:
    """Runs one stage with `--format json` on "gpu" or "sim"; returns its report and the problems of the run.

    The list of problems is empty exactly when the exit code was 0, the report could be read and no
    result in it is "wrong" or "failed". Raises NoDevice on the stage's exit code 3.
    """
    try:
        command = [str(executable), *arguments, "--device", device, "--format", "json"]
        done = run_process(command, timeout_s, stopped)
    except ToolError as error:
        return None, [str(error)]
    last_words = last_line(done.stderr)
    if done.returncode == 3:
        raise NoDevice(last_words or f"{executable.name}: no usable GPU")
    code = [f"exit code {done.returncode}. {last_words}".strip()] if done.returncode else []
    if code and not done.stdout.strip():
        return None, code
    problems = []
    try:
        report: Json = json.loads(done.stdout)
        for result in report["results"]:
            if result["status"] not in STATUSES:
                problems.append(f"{result['variant']}: unknown status '{result['status']}'")
            elif result["status"] in ("wrong", "failed"):
                what = f"{result['variant']} {shape_of(result)}: {result['status']}. {result['reason']}"
                problems.append(what.strip())
    except (ValueError, KeyError, TypeError) as error:
        return None, [*problems, f"its output is not the expected JSON ({type(error).__name__}: {error})", *code]
    return report, problems + code


def machine_of(stages: dict[str, Path]) -> Json:
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
    return datetime.datetime.now(datetime.timezone.utc).strftime(DATE)


def commit_given(text: str) -> tuple[str, bool]:
    """A parser of commits: HASH or HASH-dirty → the hash, and whether the working tree differs from it."""
    match = re.fullmatch(r"([0-9a-f]{7,40})(-dirty)?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is not HASH or HASH-dirty (7 to 40 hex digits)")
    return match[1], bool(match[2])


def add_commit_option(parser: Parser, when: str = "") -> None:
    """For a machine that got the files without their history."""
    parser.add_argument("--commit", metavar="HASH[-dirty]", type=commit_given, help=f"{when}the commit, if git does not know it")


def commit_of(root: Path, given: tuple[str, bool] | None, must_be_known: bool = True) -> tuple[str, bool]:
    """The commit that is measured, and whether the working tree differs from it: the `given` pair, or git's.

    Markdown and common/results do not count as differences: they cannot change a measurement.
    Raises ToolError when it must be known and is not: a number without its source is worthless.
    """
    if given:
        return given
    # Without this check git would answer for a repository that merely surrounds this folder.
    if (root / ".git").exists():
        git = ("git", "-C", root)
        commit = output_of(*git, "rev-parse", "HEAD")
        if commit:
            return commit, bool(output_of(*git, "status", "--porcelain", "--", ".", ":!common/results", ":!*.md"))
    if must_be_known:
        raise ToolError("the commit is not known here (no git history): pass --commit HASH")
    return UNKNOWN, True


def software_versions(build: Path) -> Json:
    """Driver and compiler versions and the highest SM clock, None where they cannot be found out."""
    # The answer has a line per GPU; the first is used.
    asked = output_of("nvidia-smi", "--query-gpu=driver_version,clocks.max.sm", "--format=csv,noheader,nounits")
    driver, _, clock = (asked or "").partition("\n")[0].partition(", ")
    # The compiler that CMake configured is the one that matters, not the first one on the path.
    cache = build / "CMakeCache.txt"
    configured = cache.read_text(encoding="utf-8") if cache.is_file() else ""
    found = re.search(r"^CMAKE_CUDA_COMPILER:\w+=(.+)$", configured, re.M)
    release = re.search(r"\bV(\d+\.\d+\.\d+)", output_of(found[1] if found else "nvcc", "--version") or "")
    return {
        "driver_version": driver or None,
        "nvcc": release[1] if release else None,
        "max_sm_clock_mhz": int(clock) if clock.isdigit() else None,
    }


# --- Shared by the tools that record ----------------------------------------------------------------


BUILD_HELP = "folder with the stages' executables (default: build)"


def parse(parser: Parser, argv: list[str], build_help: str = BUILD_HELP) -> argparse.Namespace:
    """With the options that say where the stages are."""
    parser.add_argument("--build", type=Path, help=build_help)
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    arguments.build = arguments.build or arguments.root / "build"
    return arguments


def header(arguments: argparse.Namespace, command: str) -> Json:
    """The header of a file. Its command has no paths: they depend on where this machine keeps its files, not on the
    measurement."""
    commit, dirty = commit_of(arguments.root, arguments.commit)
    return {"date_utc": utc_now(), "commit": commit, "dirty": dirty, "command": command}


def write(arguments: argparse.Namespace, recorded: Json, machine: Json, suffix: str = "", **more: Any) -> Path:
    """Writes common/results/<gpu><suffix>.json, or the file that --out names; returns its path."""
    out = arguments.out or arguments.root / "common/results" / f"{gpu_slug(machine['gpu'])}{suffix}.json"
    machine = {**machine, **software_versions(arguments.build)}
    write_whole(out, json_text({"recorded": recorded, "machine": machine, **more}))
    return out


def csv_text(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    return text.getvalue()


def place_of(entry: Json) -> str:
    return f"{entry['stage']} {entry['variant']} {shape_of(entry)}"


# --- Requirements of a recorded file, before anything is made of it --------------------------------


def check_percent(result: Json, where: str) -> None:
    """Raises ToolError unless the percentage, if there is one, follows from the times."""
    time, copy, percent = result["time_us"], result["copy_us"], result["percent_of_copy"]
    if percent is None:
        return
    if not time or not copy:
        raise ToolError(f"{where}: 'time_us' is {time}, and 'copy_us' is {copy}")
    if abs(100 * copy / time - percent) > 0.01 + 1e-3 * percent:
        raise ToolError(f"{where}: 'percent_of_copy' is {percent}, and its times say {100 * copy / time:.2f}")


def check_result(result: Json, where: str) -> None:
    """Raises ToolError unless the numbers of a result follow from each other."""
    if result["time_us"] is None:
        if result["status"] == "verified":
            raise ToolError(f"{where} is verified, and its 'time_us' is None")
        return
    for name in ("copy_us", "percent_of_copy", "bandwidth_gb_s"):
        if result[name] is None:
            raise ToolError(f"{where} has a time, and its '{name}' is None")
    if result["status"] != "verified":
        raise ToolError(f"{where} has a time, and its status is '{result['status']}'")
    check_percent(result, where)
    if result["passes"] is None and result.get("kind") != "peer":
        raise ToolError(f"{where} has a time, and no 'passes'")


def check_counted(entry: Json, where: str) -> None:
    if entry["status"] == "verified" and any(entry[name] is None for name in entry if name.startswith("counted_")):
        raise ToolError(f"{where} is verified, and lacks a number")


def check_table(table: Json, where: str) -> None:
    if len({parse_shape(text) for text in table["shapes"]}) != len(table["shapes"]):
        raise ToolError(f"{where} has a shape twice")


def check_recorded(entry: Json, where: str) -> None:
    """An entry that is older than its file says where it comes from."""
    if "recorded" in entry:
        check(entry["recorded"], BY_NCU["recorded"], f"{where}: recorded")


def check_of_several(result: Json, where: str) -> None:
    if result["time_us"] == 0 or (result["time_us"] is None and result["status"] == "verified"):
        raise ToolError(f"{where}: 'time_us' is {result['time_us']}")
    if result["time_us"] is None and "reason" not in result:
        raise ToolError(f"{where} has no time, and no 'reason'")


def check_verdict(verdict: Json, where: str) -> None:
    if verdict["chosen"] == verdict["fastest"] and round(verdict["percent"], 6) != 100:
        raise ToolError(f"{where} chose the fastest kernel, and its 'percent' is {verdict['percent']}")


UNKNOWN = "unknown"  # the commit of a sweep, if git does not know it
COLOUR = r"\x1b\[[0-9;]*m"  # some libraries colour their messages
NAME = "[A-Za-z0-9_]{1,64}"
VISIBLE = r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]"
LINE, REASON = f"{VISIBLE}{{0,2000}}", f"({COLOUR}|{VISIBLE}){{0,2000}}"
# Text that goes unchanged into tables, captions and pictures.
PLAIN = r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff<>|`\[\]\\]{0,200}"
# The page of ./run report offers it for copying.
COMMAND = (
    r"(\./run (sweep|profile|tune)|python3 common/tools( (record|count|hardware_table|several_gpus)|/(record|count|hardware_table)\.py))"
    r"( --[a-z]+( [A-Za-z0-9_:,.]+)?)*"
)
SIZE, NUMBER, DIFFERENCE = range(1, 10**18), (is_number, None), (is_difference, None)
PLACE = {"stage": NAME, "variant": NAME, "dtype": "|".join(ELEMENT_BYTES), "rows": SIZE, "cols": SIZE}
STATUS = {"status": "|".join(STATUSES), "reason": REASON}
NUMBERS = ("time_us", "spread_percent", "copy_us", "percent_of_copy", "bandwidth_gb_s", "passes", "max_error")
RESULT = {**PLACE, **STATUS, **dict.fromkeys(NUMBERS, NUMBER), "stage": (NAME, "", None), "op": NAME, "input": NAME}
OF_SWEEP = {"contender": PLAIN, "kind": "stage|peer|copy", "noisy": bool, "round_difference_percent": NUMBER}
TABLE = {"name": "[a-z0-9_]{1,40}", "title": PLAIN, "source": PLAIN, "shapes": are_texts}
SETTINGS = {"l2": "cold|warm", "repeats": SIZE}
METRICS = {OTHERS: {"conflicts": DIFFERENCE, "": NUMBER}}
QUANTITIES = {OTHERS: {"conflicts": [DIFFERENCE] * 3, "": [NUMBER] * 3}}
KERNELS = Each("kernel", {"kernel": LINE, "metrics": METRICS})
MADE = {"quantities": QUANTITIES, "metrics": METRICS, "kernels": KERNELS}
PROFILE = {**PLACE, "op": NAME, "counted_rows": SIZE, **MADE}

HEADER = {"date_utc": is_date, "commit": f"[0-9a-f]{{7,40}}|{UNKNOWN}", "dirty": bool, "command": COMMAND}
MACHINE_NUMBERS = "^(multiprocessors|l2_bytes|memory_bytes|max_sm_clock_mhz)$"
MACHINE = {"gpu": PLAIN, OTHERS: {MACHINE_NUMBERS: (range(10**18), None), "": (PLAIN, None)}}
BY_NCU: Json = {"recorded": {**HEADER, "ncu": (PLAIN, None)}, "machine": MACHINE}
RESULTS = Each("result", RESULT, check_result)
RECORDING: Json = {"recorded": HEADER, "machine": MACHINE, "settings": SETTINGS, "results": RESULTS}
SWEEP: Json = {
    **RECORDING,
    "settings": {**SETTINGS, "rounds": SIZE, "peer_tolerance": is_number},
    "results": RESULTS._replace(schema={**RESULT, **OF_SWEEP}),
    "tables": Each("table", TABLE, check_table, may_be_empty=True),
}
COUNTS = Each("counted", {**PLACE, **STATUS, **METRICS}, check_counted)
COUNTED = {"command": COMMAND, "nvcc": (PLAIN, None), "counted": COUNTS}  # simulator.json
# <gpu>-several.json: of a peer little is known.
OF_SEVERAL = {
    **{name: RESULT[name] for name in (*PLACE, "op", "status", "time_us")},
    "gpus": SIZE,
    OTHERS: {"^copy_us$": NUMBER, "^reason$": REASON},
}
SEVERAL: Json = {"recorded": HEADER, "machine": MACHINE, "results": Each("result", OF_SEVERAL, check_of_several)}
# <gpu>-judged.json: the same matrix may be drawn twice, by different seeds.
JUDGED_OPERATION = f"(log_|smoothed_)?({'|'.join(OPERATIONS[OF_LIBRARY])})"
VERDICT = {
    **{name: PLACE[name] for name in ("dtype", "rows", "cols")},
    "op": JUDGED_OPERATION,
    "offset": range(10**18),
    **dict.fromkeys(("chosen", "fastest"), NAME),
    "percent": lambda value: is_number(value) and 0 < round(value, 6) <= 100,
}
JUDGED: Json = {
    "recorded": HEADER,
    "machine": {**MACHINE, "table": PLAIN},
    "results": Each("verdict", VERDICT, check_verdict, may_repeat=True),
}
PROFILES = {**BY_NCU, "entries": Each("entry", PROFILE, check_recorded)}  # <gpu>-profile.json


def load(path: Path, schema: Json) -> Json:
    """A recorded file that fits the schema; also one whose lists are not in columns, like older ones. Raises BadFile that names
    the file and the field."""
    data = load_json(path)
    try:
        check(data, {})
        forms = {name: form for name, form in data.items() if isinstance(form, dict) and "columns" in form}
        data |= {name: rows_of(form, name) for name, form in forms.items()}
        schema = SWEEP if schema is RECORDING and "tables" in data else schema
        check(data, schema)
        for name in (name for name in forms if name in schema and "stage" in schema[name].schema):
            data[name] = in_order(data[name], forms[name].get("variants", []))
        names = [table["name"] for table in data["tables"]] if schema is SWEEP else []
        if len(set(names)) != len(names):
            raise ToolError("two tables have the same name")
    except ToolError as error:
        raise BadFile(f"{path} is no results file: {error}") from error
    except RecursionError:
        raise BadFile(f"{path} is no results file: it is nested too deeply") from None
    return data


def fastest(found: Iterable[Json]) -> Json | None:
    """The result that every table and chart shows: the highest percentage of the copy that was timed with it.

    Not the shortest time: single times drift within a run, and the copy's drift with them. The first of equals;
    None if no result has a time.
    """
    return max((r for r in found if r["time_us"] is not None), key=lambda r: r["percent_of_copy"], default=None)


def as_fast(one: Json, other: Json) -> bool:
    """Whether neither of two that have a time is ahead: they differ by no more than LEAST_LEAD, or than the samples of
    one of them spread."""
    spreads = (r["percent_of_copy"] * (r["spread_percent"] or 0) / 100 for r in (one, other))
    return round(abs(one["percent_of_copy"] - other["percent_of_copy"]), 2) <= max(LEAST_LEAD, *spreads)


def leaders(found: Iterable[Json], as_fast: Callable[[Json, Json], bool] = as_fast) -> list[Json]:
    """The leading results in a line of a table: the fastest, and those that are as fast."""
    timed = [r for r in found if r["time_us"] is not None]
    best = fastest(timed)
    return [r for r in timed if best and as_fast(r, best)]


class Recorded:
    """One results file, asked by stage, variant and shape. Every miss raises ToolError.

    `tables` are the published tables of a sweep's file; `record`'s file has none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        data = load(path, RECORDING)
        self.recorded: Json = data["recorded"]
        self.machine: Json = data["machine"]
        self.settings: Json = data["settings"]
        self.results: list[Json] = data["results"]
        self.tables: list[Json] = data.get("tables", [])
        self._at = by_place(self.results)
        for result in self.results:
            result["reason"] = re.sub(COLOUR, "", result["reason"])

    def at(self, shape: Shape, op: str = "softmax") -> list[Json]:
        """Every result of the operation at one shape, the copy ceiling (stage "") included."""
        if (shape, op) not in self._at:
            raise ToolError(f"nothing recorded at {shape} in {self.path.name}")
        return self._at[shape, op]

    def __contains__(self, place: tuple[Shape, str]) -> bool:
        """Whether anything is recorded of the operation at the shape."""
        return place in self._at

    def has(self, stage: str, shapes: Iterable[Shape]) -> bool:
        """Whether anything is recorded of the stage at one of them."""
        return any(result["stage"] == stage and shape_of(result) in shapes for result in self.results)

    def variants(self, stage: str, shape: Shape, op: str = "") -> list[Json]:
        """One stage's results in the order in which the stage lists its variants: of one operation, or of each variant's."""
        ops: Sequence[str] = (op,) if op else operations_of(stage)
        # A shape may be recorded of some of them alone.
        ops = [one for one in ops if (shape, one) in self._at] or ops
        found = of_its_operation(r for op in ops for r in self.at(shape, op) if r["stage"] == stage)
        if not found:
            raise ToolError(f"no result of stage {stage} at {shape} in {self.path.name}")
        return found

    def best(self, stage: str, shape: Shape, op: str = "") -> Json | None:
        """The fastest verified variant, None where no variant of the stage is applicable."""
        return fastest(self.variants(stage, shape, op))

    def one(self, stage: str, variant: str, shape: Shape, op: str = "") -> Json:
        """One timed result, of the stage's usual operations if none is named; `best` as the variant means the stage's fastest."""
        if variant == "best":
            best = self.best(stage, shape, op)
            if best is None:
                raise ToolError(f"no variant of {stage} is applicable at {shape}")
            return best
        for result in self.variants(stage, shape, op):
            if result["variant"] == variant:
                if result["time_us"] is None:
                    raise ToolError(f"{stage} {variant} has no time at {shape}: {result['reason']}")
                return result
        known = ", ".join(r["variant"] for r in self.variants(stage, shape, op))
        raise ToolError(f"{stage} has no variant '{variant}' at {shape}; it has: {known}")

    def copy(self, shape: Shape, op: str = "softmax") -> Json:
        """The copy ceiling at one shape."""
        for result in self.at(shape, op):
            if result["stage"] == "":
                return result
        raise ToolError(f"no copy ceiling at {shape} in {self.path.name}")


# --- Which of the recorded files -------------------------------------------------------------------

OTHER_SWEEPS = ("softmax_backward", "cross_entropy", "cross_entropy_gradient")
SWEEPS = {"softmax": "-sweep", **{op: f"-sweep-{op}" for op in OTHER_SWEEPS}}  # by operation
KINDS = ("", *SWEEPS.values(), "-profile", "-simulator", "-several", "-judged")  # of the files named <gpu><kind>.json
# Whose numbers the pages show where nothing says another: a second GPU's files, though newer, change none of them.
LESSONS_GPU = "nvidia-h200"


def recorded_files(folder: Path, kind: str) -> dict[str, Path]:
    """The files of a kind, by GPU."""
    paths = sorted(folder.glob(f"*{kind}.json"))
    if not kind:
        paths = [path for path in paths if not path.stem.endswith((*KINDS[1:], "simulator"))]
    return {path.stem.removesuffix(kind): path for path in paths}


def newest(paths: Iterable[Path]) -> Path | None:
    """By the date in the file."""
    dates = ((load(path, {"recorded": HEADER})["recorded"]["date_utc"], path.name, path) for path in paths)
    return max(dates, default=(None,))[-1]


def file_of(folder: Path, kind: str, gpu: str = "") -> Path | None:
    """The file of this GPU, which must be there; of none in particular the lessons' GPU's, or else the newest."""
    files = recorded_files(folder, kind)
    if gpu and gpu not in files:
        there = ", ".join(path.name for path in files.values()) or "none"
        raise ToolError(f"no {gpu}{kind}.json in common/results; there are: {there}")
    return files.get(gpu or LESSONS_GPU) or newest(files.values())
