"""Compares the tables in common/rowwise/tables, by which the library chooses a kernel, with the recordings in common/results. `./run
tune` writes such a table.

    python3 common/tools choices             says where the table loses most against the best kernel or stage
    python3 common/tools choices --check     fails if it loses more than 3 points of the copy's speed at a recorded shape
"""

import argparse
import re
from pathlib import Path
from typing import Iterable, NamedTuple

from command import Parser, ToolError, not_empty
from measure.results import DISPATCH, ELEMENT_BYTES, OF_LIBRARY, OTHERS, PLAIN, RESULT, ROOT, SIZE, Each, Json, check_percent, file_of, gpu_slug, load

TABLES = "common/rowwise/tables"
MOST_POINTS = 3.5  # of the copy's speed that the table may lose before --check fails
ANY = (1 << 63) - 1

# The operations, and the kind of kernels that do them: a C++ enumeration.
KINDS = {"softmax": "Forward", "softmax_backward": "Backward", "cross_entropy": "Loss", "cross_entropy_gradient": "Gradient"}


def kind_of(operation: str) -> str:
    """Also of an operation that is like a recorded one."""
    return KINDS[re.sub("^(log_|smoothed_)", "", operation)]


class Part(NamedTuple):
    """Matrices that have lines of their own, as in choice.cpp. Their rows consist of whole packs of 16 bytes; or would, but the matrix
    begins within a pack; or they consist of packs of 8 bytes; or neither."""

    element_bytes: int
    place: str

    @staticmethod
    def of(element_bytes: int, cols: int, offset: int) -> "Part":
        row_bytes, past = cols * element_bytes, offset * element_bytes
        if row_bytes % 16 == 0:
            return Part(element_bytes, "displaced" if past % 16 else "packs")
        return Part(element_bytes, "others" if row_bytes % 8 or past % 8 else "halves")

    def __str__(self) -> str:
        return f"{self.element_bytes} {self.place}"


PARTS = [Part(element_bytes, place) for element_bytes in (4, 2) for place in ("packs", "displaced", "halves", "others")]


class Line(NamedTuple):
    """A kernel for up to this number of rows, on a GPU with as many multiprocessors as the recorded one, and of columns."""

    most_rows: int
    most_cols: int
    kernel: str


# By kind and part. The first line that holds a matrix, and whose kernel can do it, is taken.
Lines = dict[tuple[str, Part], list[Line]]


class Table(NamedTuple):
    gpu: str
    multiprocessors: int
    lines: Lines


# ---- The file.


def _text(number: int) -> str:
    return "any" if number == ANY else str(number)


def table_text(table: Table, heading: Iterable[str]) -> str:
    text = [*heading, f"gpu {table.gpu}", f"multiprocessors {table.multiprocessors}"]
    for (kind, part), lines in table.lines.items():
        text += ["", f"{kind} {part}"]
        for most_rows in dict.fromkeys(line.most_rows for line in lines):
            segments = (f"{_text(line.most_cols)} {line.kernel}" for line in lines if line.most_rows == most_rows)
            text.append(f"rows {_text(most_rows)}: {', '.join(segments)}")
    return "\n".join([*text, ""])


def read_table(path: Path) -> Table:
    """Raises ToolError if the file is not a table."""

    def number(text: str) -> int:
        return ANY if text == "any" else int(text)

    gpu, multiprocessors = "", 0
    lines: Lines = {}
    of_part: list[Line] = []
    for text in path.read_text(encoding="utf-8").splitlines():
        first, _, rest = text.partition(" ")
        if first == "gpu":
            gpu = rest
        elif first == "multiprocessors":
            multiprocessors = int(rest)
        elif first in KINDS.values():
            element_bytes, place = rest.split()
            of_part = lines[first, Part(int(element_bytes), place)] = []
        elif found := re.fullmatch(r"rows (\w+): (.*)", text):
            of_part += [Line(number(found[1]), number(cols), kernel) for cols, kernel in re.findall(r"(\w+) (\w+)", found[2])]
        elif first not in ("#", ""):
            raise ToolError(f"{path}: '{text}' is not understood")
    if lines.keys() != {(kind, part) for kind in KINDS.values() for part in PARTS}:
        raise ToolError(f"{path} is no table: ./run tune writes one")
    return Table(gpu, multiprocessors, lines)


def table_of(root: Path, gpu: str) -> Path:
    return root / TABLES / f"{gpu_slug(gpu)}.table"


def chosen(lines: Iterable[Line], rows: int, cols: int, able: Iterable[str]) -> str | None:
    """As choose() of common/rowwise/dispatch/choice.h, on the GPU that was recorded: one of the kernels that are `able`."""
    able = {*able}
    return next((line.kernel for line in lines if rows <= line.most_rows and cols <= line.most_cols and line.kernel in able), None)


# ---- Recorded results.

# The fields that are taken from a results file.
FIELDS = ("stage", "variant", "dtype", "op", "rows", "cols", "status", "time_us", "copy_us", "percent_of_copy")
OF_RESULT = {name: RESULT[name] for name in FIELDS}
JUDGED: Json = {
    "recorded": {"date_utc": PLAIN},
    "machine": {"gpu": PLAIN, "multiprocessors": SIZE},
    "results": Each("result", {**OF_RESULT, OTHERS: {"^offset$": range(10**18)}}, check_percent, may_be_empty=True),
}


class Cell(NamedTuple):
    """A recorded shape."""

    operation: str
    dtype: str
    rows: int
    cols: int
    percent: dict[str, float]  # of the copy's speed, by kernel of the library
    best: float  # of any variant of any stage


def recorded_cells(root: Path, gpu: str = "") -> tuple[list[Cell], str]:
    """The shapes of the ladder and of all sweeps of a GPU, and its name. `gpu` as in results.file_of(). For each shape, the results of the latest
    file count. The library itself does not compete with its kernels."""
    ladder = file_of(root / "common/results", "", gpu)
    if ladder is None:
        raise ToolError("nothing is recorded in common/results")
    files = [load(path, JUDGED) for path in [ladder, *ladder.parent.glob(f"{ladder.stem}-sweep*.json")]]
    cells: dict[tuple[str, str, int, int], Cell] = {}
    for file in sorted(files, key=lambda file: file["recorded"]["date_utc"]):
        latest: dict[tuple[str, str, int, int], Cell] = {}
        for result in file["results"]:
            counts = result["op"] in KINDS and result["status"] == "verified" and result["percent_of_copy"] is not None
            if not counts or result["stage"] in ("", DISPATCH) or result.get("kind", "stage") != "stage" or result.get("offset", 0):
                continue
            shape = result["op"], result["dtype"], result["rows"], result["cols"]
            cell = latest.get(shape, Cell(*shape, {}, 0.0))
            if result["stage"] == OF_LIBRARY:
                cell.percent[re.sub("^(backward|loss|gradient)_", "", result["variant"])] = result["percent_of_copy"]
            latest[shape] = cell._replace(best=max(cell.best, result["percent_of_copy"]))
        cells.update(latest)
    return [cell for cell in cells.values() if cell.percent], files[0]["machine"]["gpu"]


def judged(root: Path, gpu: str = "") -> list[tuple[float, str]]:
    """The points that the GPU's table loses at each recorded shape, also in words."""
    cells, name = recorded_cells(root, gpu)
    table = read_table(table_of(root, name))
    found = []
    for operation, dtype, rows, cols, percent, best in cells:
        kernel = chosen(table.lines[KINDS[operation], Part.of(ELEMENT_BYTES[dtype], cols, 0)], rows, cols, percent)
        behind = best - percent.get(kernel or "", 0.0)
        words = f"{operation} {dtype} {rows} x {cols}: the table takes {kernel}, which is {behind:.1f} points behind the best"
        found.append((behind, words))
    return found


def disagreements(root: Path, gpu: str = "") -> list[str]:
    """The recorded shapes at which the table loses more than MOST_POINTS."""
    return [words for behind, words in judged(root, gpu) if behind > MOST_POINTS]


def main(argv: list[str]) -> None:
    parser = Parser("common/tools choices", __doc__)
    parser.add_argument("--check", action="store_true", help="fail if the table loses more than 3 points somewhere")
    parser.add_argument("--gpu", metavar="NAME", type=not_empty, help="whose files in common/results (default: the lessons' GPU)")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    where = arguments.root, arguments.gpu or ""
    if (found := disagreements(*where)) and arguments.check:
        raise ToolError("\n".join(["recorded sweeps disagree with the table:", *found]))
    shapes = judged(*where)
    print(f"the worst of {len(shapes)} recorded shapes: {max(shapes)[1]}")
