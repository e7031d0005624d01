"""Writes common/rowwise/dispatch/choices.inc: which kernel does which matrices, learned from the recordings in common/results.

For rows made of whole packs of 16 bytes and for others, with elements of 4 bytes and of 2, it lays segments over rows and columns:
few, and each with the kernel that loses least there against the best stage. A second list is for GPUs without clusters, if the
first has kernels that need them; it ends with kernels that do anything. A shape that is in the ladder and in a sweep is judged by
the later of them alone. Lines that the table has stay if others would hardly be better. For an operation of which neither is
recorded the table has the lines that are assumed here, and says so.

    python3 common/tools choices             write the table; python3 common/tools generate then draws its picture
    python3 common/tools choices --check     write nothing, and fail where a recorded shape is more than 3 points of the
                                             copy's speed behind the best stage with the table as it is, or, without clusters,
                                             behind the best of the kernels that need none
"""

import argparse
import csv
import itertools
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Collection, Iterable, NamedTuple

from command import Parser, ToolError, not_empty
from files import write_whole
from measure.results import DISPATCH, ELEMENT_BYTES, OF_LIBRARY, OTHERS, PLAIN, RESULT, ROOT, SIZE, Each, Json, check_percent, file_of, load

TABLE = "common/rowwise/dispatch/choices.inc"
MOST_POINTS = 3.0  # of the copy's speed that the table may lose before --check fails
LINE_COSTS = 0.5  # the least gain of an additional line: otherwise the table is not readable
# If fewer shapes are recorded, those with elements of the other size count, too, a little: rows of as many bytes are alike.
FEW_SHAPES = 10
BORROWED = 0.1
# The table's present lines stay unless the new ones cost less by more than this: a gain that the next run may undo changes
# nothing, and between the recorded shapes the present lines are known. They have no such advantage if the new ones have
# fewer shapes with a loss of over a point.
STAY = 2.0
NEAR_ROWS = 16  # up to this factor, fewer rows still say what is best for more
FEW_ROWS = 128  # fewer, with which a GPU has multiprocessors to spare, do not say what is best for more
PACK_BYTES = 16
ANY = (1 << 63) - 1


class Line(NamedTuple):
    most_rows: int  # of a GPU with as many multiprocessors as the recorded one
    most_cols: int
    kernel: str


class Table(NamedTuple):
    """The first line whose limits hold a matrix, and whose kernel can do it, is taken. From one that would need clusters, and cannot
    have them, the search goes on in the lines without."""

    lines: list[Line]
    without_clusters: list[Line]


class Cell(NamedTuple):
    rows: int
    cols: int
    percent: dict[str, float]  # of the copy's speed, by kernel that can do it; of two data types of a size the lower
    best: float  # of any variant of any stage
    weight: float = 1


class Part(NamedTuple):
    """Each has a list of lines."""

    element_bytes: int
    whole_packs: bool

    def __str__(self) -> str:
        return f"of_{self.element_bytes}_bytes" + ("_in_packs" if self.whole_packs else "")


PARTS = [Part(element_bytes, whole_packs) for element_bytes in (4, 2) for whole_packs in (True, False)]


class Kernel(NamedTuple):
    """A kernel's own description."""

    kind: str  # the C++ enumeration
    name: str
    needs_workspace: bool
    needs_clusters: bool
    most_cols: dict[tuple[int, int], int]  # by bytes of an element and of the packs that rows are made of


def _read_kernels(path: Path) -> list[Kernel]:
    """Written by `build/rowwise_bench --kernels`; a test compares them."""
    titles, *rows = csv.reader(path.read_text(encoding="utf-8").splitlines())
    sizes = [(int(of_element), int(of_pack)) for of_element, of_pack in (re.findall("[0-9]+", title) for title in titles[4:])]
    found = []
    for kind, name, workspace, clusters, *limits in rows:
        most_cols = dict(zip(sizes, (ANY if limit == "any" else int(limit) for limit in limits), strict=True))
        found.append(Kernel(kind, name, workspace == "yes", clusters == "yes", most_cols))
    return found


KERNELS = _read_kernels(ROOT / "common/rowwise/dispatch/kernels.csv")
NEED_CLUSTERS = {kernel.name for kernel in KERNELS if kernel.needs_clusters}
# The other kernels whose lines are passed over if there is no workspace; and those that take every matrix, even without one.
NEED_WORKSPACE = {kernel.name for kernel in KERNELS if kernel.needs_workspace} - NEED_CLUSTERS
DO_ANYTHING = {kernel.name for kernel in KERNELS if {*kernel.most_cols.values()} == {ANY}} - NEED_CLUSTERS - NEED_WORKSPACE


def needs_clusters(kernel: str) -> bool:
    return kernel in NEED_CLUSTERS


@dataclass(frozen=True)
class Work:
    """Operations that the same kernels do."""

    name: str  # of the C++ enumeration
    operation: str  # that is recorded for all
    last: tuple[str, ...]  # kernels for the shapes that are left
    particular: tuple[str, ...] = ()  # kernels that cannot do every matrix elsewhere in memory, or between the recorded widths
    particular_cut: tuple[str, ...] = ()  # likewise if whole packs do not cover the rows
    assumed: dict[Part, list[Line]] = field(default_factory=dict)  # the lines if nothing is recorded

    @property
    def prefix(self) -> str:
        """The beginning of the names under which its kernels are recorded."""
        return "" if self.name == "Forward" else f"{self.name.lower()}_"

    @property
    def kernels(self) -> dict[str, Kernel]:
        return {kernel.name: kernel for kernel in KERNELS if kernel.kind == self.name}

    def is_particular(self, kernel: str, part: Part) -> bool:
        return kernel in self.particular or (kernel in self.particular_cut and not part.whole_packs)



def _assumed_losses() -> dict[Part, list[Line]]:
    """A warp does rows that its lanes hold, 32 packs each; many blocks share few rows."""
    return {
        part: [
            Line(ANY, 32 * 32 * PACK_BYTES // part.element_bytes, "narrow_rows"),
            Line(64, ANY, "cluster_loss"),
            Line(ANY, 8192, "one_read"),
            Line(64, ANY, "split_row"),
            Line(ANY, ANY, "drawn_rows"),
        ]
        for part in PARTS
    }


def _assumed_gradients() -> dict[Part, list[Line]]:
    """A warp does rows that its lanes hold, 12 packs each; rows of up to 64 KiB stay in registers."""
    return {
        part: [
            Line(ANY, 32 * 12 * PACK_BYTES // part.element_bytes, "narrow_rows"),
            Line(ANY, (1 << 16) // part.element_bytes, "in_registers"),
            Line(ANY, ANY, "unaligned_cluster"),
        ]
        for part in PARTS
    }


WORKS = [
    Work("Forward", "softmax", ("row_in_flight", "online")),
    Work("Backward", "softmax_backward", ("unaligned", "two_kernels"), ("flat_span",), ("block_registers",)),
    Work("Loss", "cross_entropy", ("one_read",), ("flat_span",), assumed=_assumed_losses()),
    Work("Gradient", "cross_entropy_gradient", ("kept_row",), ("flat_span",), assumed=_assumed_gradients()),
]


def work_of(operation: str) -> Work:
    """Also of an operation that is like a recorded one."""
    found = re.sub("^(log_|smoothed_)", "", operation)
    return next(work for work in WORKS if work.operation == found)


def is_offered(kernel: Kernel, element_bytes: int, cols: int) -> bool:
    """The library uses some kernels for fewer matrices than they can do."""
    row_bytes = cols * element_bytes
    return cols <= kernel.most_cols[element_bytes, min(row_bytes & -row_bytes, PACK_BYTES)]


def recorded_cells(results: Iterable[Json], work: Work) -> dict[Part, list[Cell]]:
    """The operation's recorded results, put together by part and shape. Its own stage does not compete with itself."""
    best: dict[tuple[Part, int, int], dict[str, float]] = {}
    percents: dict[tuple[Part, int, int], dict[str, dict[str, float]]] = {}
    for result in results:
        if result["op"] != work.operation or result["status"] != "verified" or result["percent_of_copy"] is None:
            continue
        if result["stage"] in ("", DISPATCH) or result.get("kind", "stage") != "stage" or result.get("offset", 0):
            continue
        element_bytes, rows, cols = ELEMENT_BYTES[result["dtype"]], result["rows"], result["cols"]
        place = Part(element_bytes, cols * element_bytes % PACK_BYTES == 0), rows, cols
        percent, dtype = result["percent_of_copy"], result["dtype"]
        kernel = result["variant"].removeprefix(work.prefix) if result["stage"] == OF_LIBRARY else ""
        of_dtype = best.setdefault(place, {})
        of_dtype[dtype] = max(of_dtype.get(dtype, 0.0), percent)
        if kernel in work.kernels and is_offered(work.kernels[kernel], element_bytes, cols):
            of_kernel = percents.setdefault(place, {}).setdefault(kernel, {})
            of_kernel[dtype] = max(of_kernel.get(dtype, 0.0), percent)
    cells: dict[Part, list[Cell]] = {part: [] for part in PARTS}
    for place, of_dtype in best.items():
        worst = max(of_dtype.values())
        # Each data type's loss against its own best, in points, is subtracted from one best.
        kernels = {
            kernel: min(worst - (of_dtype[dtype] - percent) for dtype, percent in found.items())
            for kernel, found in percents.get(place, {}).items()
            if found.keys() == of_dtype.keys()
        }
        part, rows, cols = place
        cells[part].append(Cell(rows, cols, kernels, worst))
    return cells


# ---- Fitting segments.


def _penalty(points: float) -> float:
    """The cost of a kernel that loses these points. Half a point may be gone in the next run, and is worth no line; one is."""
    return points * points


class Fit(NamedTuple):
    cost: float
    lines: tuple[tuple[int, str], ...]  # the last column, and the kernel


def _fit_columns(cells: list[Cell], kernels: Iterable[str]) -> Fit:
    """The cheapest cut of the columns, from left to right."""
    columns = sorted({cell.cols for cell in cells})
    many = max(cell.rows for cell in cells) >= FEW_ROWS
    fits = [Fit(0, ())]
    for end in range(1, len(columns) + 1):
        found = []
        for begin in range(end):
            inside = [cell for cell in cells if columns[begin] <= cell.cols <= columns[end - 1]]
            if many and all(cell.rows < FEW_ROWS for cell in inside):
                continue
            for kernel in kernels:
                if all(kernel in cell.percent for cell in inside):
                    behind = sum(cell.weight * _penalty(cell.best - cell.percent[kernel]) for cell in inside)
                    before = fits[begin]
                    found.append(Fit(before.cost + LINE_COSTS + behind, (*before.lines, (columns[end - 1], kernel))))
        fits.append(min(found, default=Fit(math.inf, ())))
    return fits[-1]


def _halfway(before: int, after: int) -> int:
    """The geometric mean, to two digits."""
    mean = math.sqrt(before * after)
    digits = 10 ** (int(math.log10(mean)) - 1)
    return max(before, round(mean / digits) * digits if digits >= 1 else round(mean))


def _limits(recorded: list[int], all_recorded: list[int]) -> list[int]:
    """The end of a segment for each recorded number that is its last: halfway to the next of all; the last has no end."""
    ends = []
    for number in recorded:
        after = [other for other in all_recorded if other > number]
        ends.append(_halfway(number, min(after)) if after else ANY)
    return ends


def _joined(bands: list[list[Line]], cells: list[Cell]) -> list[Line]:
    """Bands of few rows were not recorded for narrow ones: there, up to half of their first width, bands of more rows hold."""
    lines: list[Line] = []
    for band in reversed(bands):
        half = min(cell.cols for cell in cells if cell.rows <= band[0].most_rows) // 2
        beyond = next((at for at, line in enumerate(lines) if line.most_cols > half), len(lines))
        narrow, rest = lines[:beyond], lines[beyond:]
        # A segment that ends beyond has a line for its narrow part, unless that is less than an octave.
        if rest and max((line.most_cols for line in narrow), default=0) < half // 2:
            narrow.append(rest[0]._replace(most_cols=half))
        lines = narrow + band + rest
    return lines


def fitted(cells: list[Cell], kernels: Iterable[str]) -> list[Line]:
    """Bands of rows, and in each a cut of the columns."""
    kernels = sorted(kernels)
    heights = sorted({cell.rows for cell in cells})
    cuts: list[tuple[float, list[tuple[int, int, Fit]]]] = [(0.0, [])]  # the cheapest for the first n heights
    for end in range(1, len(heights) + 1):
        found = []
        for begin in range(end):
            fit = _fit_columns([cell for cell in cells if heights[begin] <= cell.rows <= heights[end - 1]], kernels)
            cost, before = cuts[begin]
            found.append((cost + fit.cost, [*before, (heights[begin], heights[end - 1], fit)]))
        cuts.append(min(found, key=lambda one: one[0]))
    bands: list[list[Line]] = []
    all_columns = sorted({cell.cols for cell in cells})
    able = [kernel for kernel in kernels if any(kernel in cell.percent for cell in cells if cell.cols == all_columns[-1])]
    for least, most, fit in cuts[-1][1]:
        most_rows = _limits([most], heights)[0]
        if most < FEW_ROWS < most_rows < ANY:
            most_rows = FEW_ROWS
        own = [cell for cell in cells if least <= cell.rows <= most]
        columns = sorted({cell.cols for cell in own})
        limits = _limits([most_cols for most_cols, _ in fit.lines], columns)
        band = [Line(most_rows, limit, kernel) for limit, (_, kernel) in zip(limits, fit.lines, strict=True)]
        # For rows wider than the band's recorded ones, the lines for fewer rows hold if those are not many fewer, or fill a GPU.
        end = _limits(columns[-1:], all_columns)[0]
        fewer_rows = bands[-1] if bands else []
        wider = [line._replace(most_rows=most_rows) for line in fewer_rows if line.most_cols > end]
        widest = [cell for cell in own if cell.cols == columns[-1]]
        rows_of_wider = max((cell.rows for cell in cells if cell.rows < least and cell.cols > columns[-1]), default=0)
        near = rows_of_wider >= FEW_ROWS or min(cell.rows for cell in widest) <= NEAR_ROWS * rows_of_wider
        if wider and near:
            last = band.pop()._replace(most_cols=end)
            band += [last, *wider] if last.kernel != wider[0].kernel else wider
        # Likewise for narrower ones, up to halfway.
        if narrower := [cell.cols for cell in cells if FEW_ROWS <= cell.rows < least and cell.cols < columns[0]]:
            end = _halfway(max(narrower), columns[0])
            beyond = next((at for at, line in enumerate(fewer_rows) if line.most_cols > end), len(fewer_rows))
            lent = [*fewer_rows[:beyond], *(line._replace(most_cols=end) for line in fewer_rows[beyond : beyond + 1])]
            band = [line._replace(most_rows=most_rows) for line in lent] + band
        # A kernel that has not done the widest rows may not be able to: after it comes one that has. For one that needs clusters
        # there are the lines without.
        wide = [kernel for kernel in able if all(kernel in cell.percent for cell in widest)]
        if wide and band[-1].kernel not in able and not needs_clusters(band[-1].kernel):
            best = min(wide, key=lambda kernel: sum(_penalty(cell.best - cell.percent[kernel]) for cell in widest))
            band.append(Line(most_rows, ANY, best))
        bands.append(band)
    return _joined(bands, cells)


def with_borrowed(cells: dict[Part, list[Cell]], part: Part, work: Work) -> list[Cell]:
    if len(cells[part]) >= FEW_SHAPES:
        return cells[part]
    other = Part(6 - part.element_bytes, part.whole_packs)

    def is_known(rows: int, cols: int) -> bool:
        """Whether it is between recorded shapes of few rows, or of many."""
        own = [cell.cols for cell in cells[part] if (cell.rows < FEW_ROWS) == (rows < FEW_ROWS)]
        return bool(own) and min(own) <= cols <= max(own)

    borrowed = [
        cell._replace(
            cols=cell.cols * other.element_bytes // part.element_bytes,
            # The gain of a particular kernel depends on the size of an element.
            percent={kernel: percent for kernel, percent in cell.percent.items() if not work.is_particular(kernel, part)},
            weight=BORROWED,
        )
        for cell in cells[other]
    ]
    return cells[part] + [cell for cell in borrowed if cell.cols > 0 and not is_known(cell.rows, cell.cols)]


def assumed_lines(work: Work, part: Part, cells: list[Cell]) -> list[Line]:
    """The assumed lines, up to half of the fewest rows or columns that are recorded. All of them if there is no cell."""
    assumed = work.assumed.get(part, [])
    if not cells:
        return assumed
    few = min(cell.rows for cell in cells) // 2
    narrow = min(cell.cols for cell in cells) // 2
    lines: list[Line] = []
    for line in assumed:
        limited = line._replace(
            most_rows=line.most_rows if line.most_rows == ANY else min(line.most_rows, few),
            most_cols=line.most_cols if line.most_cols == ANY else min(line.most_cols, narrow),
        )
        # Only a line of clusters leaves shapes that it covers to later lines.
        is_left = not any(_covers(before, limited) and not needs_clusters(before.kernel) for before in lines)
        if is_left and (line.most_rows, line.most_cols) != (ANY, ANY):
            lines.append(limited)
    return lines


def table_of(work: Work, part: Part, recorded: dict[Part, list[Cell]]) -> Table:
    cells = with_borrowed(recorded, part, work)
    assumed = assumed_lines(work, part, cells)
    lines = assumed + (_with_stand_ins(fitted(cells, work.kernels), cells, work, part) if cells else [])
    left = _behind_clusters(assumed)
    if in_clusters := [cell for cell in cells if needs_clusters(of_lines(lines, cell) or "")]:
        # Narrower shapes that clusters take, up to half of the narrowest recorded one, get the lines for more rows.
        half = min(cell.cols for cell in in_clusters) // 2
        lent = (_lent(line, lines, half) for line in _behind_clusters(lines) if line not in assumed)
        left += [line for line in lent if line]
        left += fitted(in_clusters, [kernel for kernel in work.kernels if not needs_clusters(kernel)])
    # These are added even if such a line is among the others: a call without a workspace passes over it.
    last = [Line(ANY, ANY, kernel) for kernel in work.last]
    passed_over = {*NEED_WORKSPACE, *work.particular, *work.particular_cut}
    return Table(_without_covered(lines or last, passed_over), _without_covered([*left, *last], passed_over))


def _behind_clusters(lines: list[Line]) -> list[Line]:
    behind = itertools.dropwhile(lambda line: not needs_clusters(line.kernel), lines)
    return [line for line in behind if not needs_clusters(line.kernel)]


def _lent(line: Line, lines: list[Line], most_cols: int) -> Line | None:
    """The line up to `most_cols`, if it takes matrices that narrow, and a line of clusters before it takes others."""
    lent = line._replace(most_cols=min(line.most_cols, most_cols))
    rows = {lent.most_rows, *(other.most_rows for other in lines if other.most_rows < lent.most_rows)}
    cols = {lent.most_cols, *(other.most_cols for other in lines if other.most_cols < lent.most_cols)}
    firsts = {next(other for other in lines if _covers(other, Line(r, c, ""))) for r, c in itertools.product(rows, cols)}
    return lent if line in firsts and any(needs_clusters(first.kernel) for first in firsts) else None


def _with_stand_ins(lines: list[Line], cells: list[Cell], work: Work, part: Part) -> list[Line]:
    """After each line of a particular kernel, adds one for the matrices that it cannot do, with the best kernel for all."""
    both: list[Line] = []
    for line in lines:
        both.append(line)
        if not work.is_particular(line.kernel, part):
            continue
        of_line = [cell for cell in cells if of_lines(lines, cell) == line.kernel]
        able = [kernel for kernel in work.kernels if all(kernel in cell.percent for cell in of_line)]
        others = [kernel for kernel in able if not work.is_particular(kernel, part)]
        best = min(others, key=lambda kernel: sum(_penalty(cell.best - cell.percent[kernel]) for cell in of_line))
        both.append(line._replace(kernel=best))
    return both


def _covers(line: Line, other: Line) -> bool:
    return other.most_rows <= line.most_rows and other.most_cols <= line.most_cols


def _without_covered(lines: list[Line], passed_over: Collection[str] = ()) -> list[Line]:
    """Without lines whose matrices never come so far, or go to the same kernel anyway. The last stays: it takes the rest."""

    def comes_further(other: Line, kernel: str) -> bool:
        """Whether a line of `kernel` after it may have the shapes of `other`, which may have more columns than its kernel can do."""
        may_fail = other.most_cols == ANY or other.kernel in passed_over
        return may_fail and other.kernel not in (kernel, *DO_ANYTHING) and not needs_clusters(other.kernel)

    kept = lines[-1:]
    for at, line in reversed(list(enumerate(lines[:-1]))):
        rows = {line.most_rows, *(other.most_rows for other in kept if other.most_rows < line.most_rows)}
        cols = {line.most_cols, *(other.most_cols for other in kept if other.most_cols < line.most_cols)}
        corners = [Line(r, c, "") for r, c in itertools.product(rows, cols)]
        before = [other for other in lines[:at] if not comes_further(other, line.kernel)]
        coming = [corner for corner in corners if not any(_covers(other, corner) for other in before)]
        later = [next((other.kernel for other in kept if _covers(other, corner)), None) for corner in coming]
        if any(kernel != line.kernel for kernel in later):
            kept.insert(0, line)
    return kept


def of_lines(lines: Iterable[Line], cell: Cell) -> str | None:
    """The kernel of the first line that holds it and can do it, or that would need clusters."""
    for line in lines:
        if cell.rows <= line.most_rows and cell.cols <= line.most_cols and (line.kernel in cell.percent or needs_clusters(line.kernel)):
            return line.kernel
    return None


def chosen(table: Table, cell: Cell) -> str | None:
    """As choose() of common/rowwise/dispatch/choice.h, on the GPU that was recorded."""
    kernel = of_lines(table.lines, cell)
    return kernel if kernel in cell.percent else of_lines(table.without_clusters, cell)


# ---- Recorded results, and the file.

# The fields that are taken from a results file.
FIELDS = ("stage", "variant", "dtype", "op", "rows", "cols", "status", "time_us", "copy_us", "percent_of_copy")
OF_RESULT = {name: RESULT[name] for name in FIELDS}
JUDGED: Json = {
    "recorded": {"date_utc": PLAIN},
    "machine": {"gpu": PLAIN, "multiprocessors": SIZE},
    "results": Each("result", {**OF_RESULT, OTHERS: {"^offset$": range(10**18)}}, check_percent, may_be_empty=True),
}


def recordings(root: Path, gpu: str = "") -> tuple[list[Json], str, int]:
    """The results of the ladder and of all sweeps of a GPU, its name, and how many multiprocessors it has. `gpu` as in
    results.file_of()."""
    ladder = file_of(root / "common/results", "", gpu)
    if ladder is None:
        raise ToolError("nothing is recorded in common/results")
    files = [load(path, JUDGED) for path in [ladder, *ladder.parent.glob(f"{ladder.stem}-sweep*.json")]]
    # For each shape the results of the latest file: one run, one order.
    by_shape: dict[tuple[object, ...], list[Json]] = {}
    for file in sorted(files, key=lambda file: file["recorded"]["date_utc"]):
        latest: dict[tuple[object, ...], list[Json]] = {}
        for result in file["results"]:
            latest.setdefault(_shape(result), []).append(result)
        by_shape.update(latest)
    machine = files[0]["machine"]
    return [result for of_shape in by_shape.values() for result in of_shape], machine["gpu"], machine["multiprocessors"]


def _shape(result: Json) -> tuple[object, ...]:
    return *(result[key] for key in ("op", "dtype", "rows", "cols")), result.get("offset", 0)


def without_clusters(cells: list[Cell]) -> list[Cell]:
    """The kernels of a GPU without clusters, judged against the best of them."""
    able = [cell._replace(percent={kernel: cell.percent[kernel] for kernel in cell.percent if not needs_clusters(kernel)}) for cell in cells]
    return [cell._replace(best=max(cell.percent.values())) for cell in able if cell.percent]


def _behind(cell: Cell, table: Table) -> float:
    return cell.best - cell.percent.get(chosen(table, cell) or "", 0.0)


def _cost(table: Table, cells: dict[Part, list[Cell]], part: Part, work: Work) -> float:
    judged = with_borrowed(cells, part, work)
    behind = sum(cell.weight * _penalty(_behind(cell, table)) for cell in [*judged, *without_clusters(judged)])
    return LINE_COSTS * sum(map(len, table)) + behind


def _a_point_behind(table: Table, cells: list[Cell]) -> int:
    return sum(_behind(cell, table) > 1 for cell in cells)


def _number(value: int) -> str:
    return "any" if value == ANY else str(value)


def table_text(root: Path, of_gpu: str = "") -> str:
    results, gpu, multiprocessors = recordings(root, of_gpu)
    before = read_table(root / TABLE) if (root / TABLE).exists() else {}
    text = [
        "// Written by `python3 common/tools choices`, from what is recorded in common/results: not to be edited.",
        "",
        "/// Of the GPU that was measured. Rows are counted as it would see them: half as many multiprocessors are as busy with half as",
        "/// many rows.",
        f"inline constexpr int recorded_multiprocessors = {multiprocessors};  // {gpu}",
    ]
    for work in WORKS:
        cells = recorded_cells(results, work)
        for part in PARTS:
            table, has = table_of(work, part, cells), before.get((work.name, part))
            if has and any(cells.values()) and {line.kernel for lines in has for line in lines} <= work.kernels.keys():
                stay = STAY if _a_point_behind(has, cells[part]) <= _a_point_behind(table, cells[part]) else 0
                if _cost(has, cells, part, work) <= _cost(table, cells, part, work) + stay:
                    table = has
            behind = max((_behind(cell, table) for cell in cells[part]), default=0.0)
            recorded = f"recorded shapes: {len(cells[part])}, at most {behind:.1f} points behind the best stage"
            if not any(cells.values()):
                recorded = f"assumed: no {work.operation} is recorded"
            text += ["", f"// {recorded}"]
            for name, lines in zip(_names(work, part), table):
                text += [
                    f"inline constexpr Choice<{work.name}> {name}[] = {{",
                    *(
                        f"    {{.most_rows = {_number(line.most_rows)}, .most_cols = {_number(line.most_cols)}, "
                        f".kernel = {work.name}::{line.kernel}}},"
                        for line in lines
                    ),
                    "};",
                ]
    return "\n".join([*text, ""])


def _names(work: Work, part: Part) -> tuple[str, str]:
    name = f"{work.name.lower()}_{part}"
    return name, f"{name}_without_clusters"


def read_table(path: Path) -> dict[tuple[str, Part], Table]:
    """The tables of the file, by the name of the work and part."""
    text = path.read_text(encoding="utf-8")
    number = lambda found: ANY if found == "any" else int(found)  # noqa: E731

    def lines(name: str) -> list[Line]:
        array = re.search(rf" {name}\[\] = \{{\n(.*?)\}};", text, re.S)
        found = re.findall(r"most_rows = (\w+), \.most_cols = (\w+), \.kernel = \w+::(\w+)", array[1] if array else "")
        if not found:
            raise ToolError(f"{path} has no lines of {name}")
        return [Line(number(rows), number(cols), kernel) for rows, cols, kernel in found]

    return {(work.name, part): Table(*map(lines, _names(work, part))) for work in WORKS for part in PARTS}


def judged(root: Path, gpu: str = "") -> list[tuple[float, str]]:
    """The points that the table loses at each recorded shape, also in words."""
    table = read_table(root / TABLE)
    results, _, _ = recordings(root, gpu)
    found = []
    for work in WORKS:
        for part, cells in recorded_cells(results, work).items():
            of_part = table[work.name, part]
            compared = [(cell, "the best stage") for cell in cells]
            in_clusters = [cell for cell in cells if needs_clusters(chosen(of_part, cell) or "")]
            compared += [(cell, "the best of those that need no clusters") for cell in without_clusters(in_clusters)]
            for cell, best in compared:
                behind = _behind(cell, of_part)
                shape = f"{work.operation} {cell.rows} x {cell.cols}, {part.element_bytes} bytes per element"
                words = f"{shape}: the table takes {chosen(of_part, cell)}, which is {behind:.1f} points behind {best}"
                found.append((behind, words))
    return found


def disagreements(root: Path, gpu: str = "") -> list[str]:
    """The recorded shapes at which the table loses more than MOST_POINTS against the best stage."""
    return [words for behind, words in judged(root, gpu) if behind > MOST_POINTS]


def main(argv: list[str]) -> None:
    parser = Parser("common/tools choices", __doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, and compare the table with the recorded times")
    parser.add_argument("--gpu", metavar="NAME", type=not_empty, help="whose files in common/results (default: the lessons' GPU)")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    where = arguments.root, arguments.gpu or ""
    if not arguments.check:
        write_whole(arguments.root / TABLE, table_text(*where))
        print(f"wrote {TABLE}")
    elif found := disagreements(*where):
        raise ToolError("\n".join(["recorded sweeps disagree with the table:", *found]))
    if shapes := judged(*where):
        print(f"the worst of {len(shapes)} comparisons with what is recorded: {max(shapes)[1]}")
