"""Recorded counts of a stage, in its counts.csv: a line per variant, operation and shape. counts.py records them and compares."""

import csv
import io
import re
import sys
from pathlib import Path
from types import SimpleNamespace as Row

AGAIN = "python3 common/tests/counts.py --record build"
SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "common/tools"))
from measure.results import software_versions  # noqa: E402

PLACE = ("variant", "op", "multiprocessors", "offset", "rows", "cols")  # and dtype
COUNTERS = ("passes", "global_load_requests", "global_load_sectors", "global_store_requests", "global_store_sectors",
            "shared_wavefronts", "bank_conflicts", "shuffles", "block_barriers", "special_function_lanes", "atomics")  # fmt: skip
HEADER = (*PLACE, "dtypes", *COUNTERS)
Place = tuple[str, ...]
Counts = tuple[str, ...]


def place_of(row: Row) -> Place:
    """The place of a row of one of the stage's runs, as text."""
    return tuple(str(getattr(row, name)) for name in (*PLACE, "dtype"))


def counts_of(row: Row) -> Counts:
    return tuple(str(getattr(row, "counted_" + name)) for name in COUNTERS)


def made_by(executable: Path) -> str:
    """The compiler, as the build folder around the executable says it, and the newest architecture that it made PTX for."""
    build = next(folder for folder in executable.resolve().parents if (folder / "CMakeCache.txt").is_file())
    return f"nvcc {software_versions(build)['nvcc']} and PTX of sm_{newest_architecture(executable)}"


def newest_architecture(executable: Path) -> int:
    """The one of the executable's PTX, which it has as text."""
    return max(map(int, re.findall(rb"^\.target sm_(\d+)", executable.read_bytes(), re.MULTILINE)))


def file_of(stage: str) -> Path:
    return SOURCE / ("common/rowwise" if stage == "rowwise_bench" else stage) / "counts.csv"


def read(stage: str) -> tuple[str, dict[Place, Counts]]:
    """The compiler of the recorded stage, and the stage's counts."""
    comment, header, *lines = file_of(stage).read_text(encoding="utf-8").splitlines()
    if header != ",".join(HEADER):
        sys.exit(f"{file_of(stage)} has other columns than COUNTERS of recorded_counts.py. Record again: {AGAIN}")
    recorded = {}
    for words in csv.reader(lines):
        place, dtypes, counts = words[: len(PLACE)], words[len(PLACE)], words[len(PLACE) + 1 :]
        recorded.update({(*place, dtype): tuple(counts) for dtype in dtypes.split()})
    return comment.removeprefix(f"# {AGAIN}: "), recorded


def write(stage: str, made: str, rows: list[Row]) -> Path:
    """Types of which the same is counted at a place share a line."""
    dtypes: dict[tuple[Place, Counts], list[str]] = {}
    for row in rows:
        dtypes.setdefault((place_of(row)[:-1], counts_of(row)), []).append(row.dtype)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(HEADER)
    lines = ((*place, " ".join(of), *counts) for (place, counts), of in dtypes.items())
    table.writerows(sorted(lines, key=lambda line: line[:2]))  # a variant's together
    file_of(stage).write_text(f"# {AGAIN}: {made}\n{text.getvalue()}", encoding="utf-8")
    return file_of(stage)
