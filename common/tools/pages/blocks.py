"""The texts that `generate` puts between markers: tables, charts and single numbers.

BLOCKS and VALUES at the end are the whole list. Each is called with the context and the words of its marker, which are its
parameters, and returns Markdown. Every miss raises ToolError.
"""

import inspect
import json
import os
import re
from functools import cached_property, partial
from html import escape
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence, TypeVar

from command import ToolError
from measure import explanations, hardware_table, profiling, quantities, results
from measure.quantities import (
    CONFLICTS, DRAM_BUSY, DRAM_READ, DRAM_WRITE, OCCUPANCY_LIMITS, QUANTITIES, REGISTERS, WARPS_ACTIVE, WAVEFRONTS,
    ratio, tensor_bytes,
)  # fmt: skip
from measure.results import Json, Recorded, Shape, parse_shape, shape_of
from pages import charts, segments
from pages.charts import Chart, shape_text
from text import Notes, percent_text, short_text, time_text

NOTHING = "–"
NO_BREAK = "\u00a0"
Known = TypeVar("Known")


def known(what: str, name: str, among: Mapping[str, Known]) -> Known:
    if name not in among:
        raise ToolError(f"{what} '{name}'; there are: {', '.join(among)}")
    return among[name]


# --- A marker and its context ----------------------------------------------------------------------


def call(maker: Callable[..., Known], context: "Context", plain: Sequence[str], named: Mapping[str, Any]) -> Known:
    """Raises ToolError where the words are not those that `maker` takes."""
    try:
        bound = inspect.signature(maker).bind(context, *plain, **named)
    except TypeError as error:
        raise ToolError(str(error)) from error
    return maker(*bound.args, **bound.kwargs)


def shapes_in(text: str) -> list[Shape]:
    return [parse_shape(shape) for shape in text.split(",")]


class Context:
    """The sources of a block: the stages, its page, and one GPU's recorded files, read on first use.

    `gpu` as in results.file_of().
    """

    def __init__(self, root: Path, results_file: Path | None, gpu: str = "") -> None:
        self.root, self.results_file, self.gpu, self.results = root, results_file, gpu, root / "common/results"
        self.lessons = results.stage_names(root)
        self.stages = results.ladder(self.lessons)
        self.page = root / "README.md"
        self.charts: dict[str, Chart] = {}  # by file name
        self._others: dict[str, Context] = {}  # by GPU

    def of(self, gpu: str) -> "Context":
        """The same for another GPU."""
        other = self._others.setdefault(gpu, Context(self.root, None, gpu))
        other.page, other.charts = self.page, self.charts
        return other

    @cached_property
    def recorded(self) -> Recorded:
        path = self.results_file or results.file_of(self.results, "", self.gpu)
        if not path:
            raise ToolError("no results file in common/results: run python3 common/tools record on a GPU first")
        return Recorded(path)

    @cached_property
    def sweep(self) -> Recorded:
        path = results.file_of(self.results, "-sweep", self.gpu)
        if not path:
            raise ToolError("no sweep's file in common/results: run ./run sweep on a GPU first")
        return Recorded(path)

    @cached_property
    def judged(self) -> Json:
        """The verdicts on the library's choices."""
        path = results.file_of(self.results, "-judged", self.gpu)
        if not path:
            raise ToolError("no verdicts in common/results: run ./run tune --judge on a GPU first")
        return results.load(path, results.JUDGED)

    @cached_property
    def profiles(self) -> Json:
        """What ./run profile --record wrote for the same GPU."""
        path = self.recorded.path
        return results.load(path.with_name(f"{path.stem}-profile.json"), results.PROFILES)

    @cached_property
    def counted(self) -> Json:
        """The simulator's counts."""
        return results.load(self.results / "simulator.json", results.COUNTED)

    def link(self, path: str) -> str:
        """Relative link from the page to a file or folder of the repository."""
        return Path(os.path.relpath(self.root / path, self.page.parent)).as_posix()

    def stage(self, name: str) -> str:
        return known("no such stage:", name, {stage: stage for stage in self.lessons})

    def complete(self, shape: Shape, stages: Sequence[str]) -> Shape:
        """The shape. Raises ToolError unless the recording has every stage there, and no stage that is gone."""
        recorded = {r["stage"] for r in self.recorded.at(shape)} - {""}
        odd = (set(stages) - recorded) | (recorded - {*self.lessons, results.OF_LIBRARY})
        if odd:
            raise ToolError(f"stages and recorded results differ in {', '.join(sorted(odd))}: record again")
        return shape


class Table:
    """A Markdown table whose first `left` columns are aligned left, the rest right, with lettered notes below it."""

    def __init__(self, left: int, *header: str) -> None:
        self.rows = [list(header), ["---"] * left + ["---:"] * (len(header) - left)]
        self.notes = Notes()

    def not_applicable(self, result: Json) -> str:
        """A cell without a number."""
        return f"{NOTHING}<sup>{self.notes.mark('not applicable: ' + escape(result['reason'], quote=False))}</sup>"

    def text(self, *below: str) -> str:
        """The table, and as one paragraph its notes and the lines that belong below it."""
        notes = [f"<sup>{letter}</sup> <sub>{note}</sub>" for note, letter in self.notes.items()]
        table = "\n".join("| " + " | ".join(cells) + " |" for cells in self.rows)
        return "\n\n".join(filter(None, [table, "<br>\n".join([*notes, *below])]))


def has_numbers(result: Json) -> bool:
    """A variant that is not applicable at a shape has none."""
    return result.get("status", "verified") == "verified"


def caption(header: Json, machine: Json, tool: str, before: str = "", after: str = "") -> str:
    """The source of numbers; `before` and `after` enclose the GPU with its driver and CUDA."""
    driver = f", driver {machine['driver_version']}" if machine.get("driver_version") else ""
    where = f"{machine['gpu']}{driver}, CUDA {machine.get('nvcc') or machine.get('cuda_runtime')}"
    ncu = f" with ncu {header['ncu']}" if "ncu" in header else ""
    commit = header["commit"][:10] + (" with local changes" if header["dirty"] else "")
    return f"<sub>{before}{where}{after}; recorded {header['date_utc'][:10]} by `{tool}`{ncu} at commit {commit}.</sub>"


def recorded_caption(recorded: Recorded, shape: str, op: str = "softmax") -> str:
    after = f", {shape}{op}, {charts.conditions(recorded)}"
    return caption(recorded.recorded, recorded.machine, "python3 common/tools record", after=after)


# --- The speed of the stages' variants ---------------------------------------------------------


def percent_cell(result: Json, leads: bool) -> str:
    percent = f"{result['percent_of_copy']:.1f}"
    return f"**{percent}**" if leads else percent


def ladder_block(context: Context, shape: Shape) -> str:
    recorded = context.recorded
    context.complete(shape, context.stages)
    table = Table(2, "stage", "variant", "passes", "time (µs)", "effective GB/s", "% of copy")

    def add(first: str, result: Json, name: str, leads: bool = False) -> None:
        cells = [name, short_text(result["passes"]), time_text(result["time_us"])]
        cells += [f"{result['bandwidth_gb_s']:.0f}", f"{result['percent_of_copy']:.1f}"]
        table.rows.append([first, *(f"**{cell}**" if leads else cell for cell in cells)])

    for stage in context.stages:
        link = f"[{stage}]({context.link(stage)}/)"
        for result in filter(has_numbers, recorded.variants(stage, shape)):
            add(link, result, result["variant"], result is recorded.best(stage, shape))
            link = ""
    add("copy", recorded.copy(shape), "the ceiling: one read, one write")
    return table.text(recorded_caption(recorded, f"{shape_text(shape)}, "))


FIRST_WITH_LIBRARY = "03"  # the stages before it are far from the library


def library_cell(recorded: Recorded, shape: Shape, stage: str, op: str) -> str:
    """The library's percentage at a shape, if it has the stage's operation; those of several operations with slashes between."""
    ops = [op] if op else [op for op in results.operations_of(stage) if op in results.operations_of(results.DISPATCH)]
    here = (recorded.at(shape, op) for op in ops if (shape, op) in recorded)
    found = (results.fastest(r for r in results_here if r["stage"] == results.DISPATCH) for results_here in here)
    return " / ".join(percent_cell(best, False) for best in found if best) or NOTHING


def stage_block(context: Context, stage: str, shapes: str, op: str = "") -> str:
    """A stage's variants at an operation, or each at its own. One that is not applicable at any of the shapes has no line."""
    recorded, columns = context.recorded, shapes_in(shapes)
    if not recorded.has(context.stage(stage), columns):
        return "*Not measured yet: `python3 common/tools record`, on a GPU, fills in this table.*"
    found = [{r["variant"]: r for r in recorded.variants(stage, shape, op)} for shape in columns]
    table = Table(1, "variant", "passes", *map(shape_text, columns))
    for variant in dict.fromkeys(name for column in found for name in column):
        if not any(variant in column and has_numbers(column[variant]) for column in found):
            continue
        cells, passes = [], []
        for shape, column in zip(columns, found):
            if variant not in column:
                raise ToolError(f"no result of {stage} {variant} at {shape}: record again")
            result = column[variant]
            if has_numbers(result):
                passes.append(result["passes"])
                cells.append(percent_cell(result, result is recorded.best(stage, shape, result["op"])))
            else:
                cells.append(table.not_applicable(result))
        ends = [short_text(value) for value in (min(passes), max(passes))]
        table.rows.append([variant, " to ".join(dict.fromkeys(ends)), *cells])
    library = [library_cell(recorded, shape, stage, op) for shape in columns]
    if stage >= FIRST_WITH_LIBRARY and stage != results.DISPATCH and set(library) != {NOTHING}:
        table.rows.append(["the library", "", *library])
    shown = {result["op"] for column in found for result in column.values()}
    ops = ", ".join(op for op in results.operations_of(stage) if op in shown)
    return table.text(recorded_caption(recorded, "percent of the copy's speed, ", ops))


PEER_NAMES = {
    "cudnn": "cuDNN",
    "pytorch": "PyTorch",
    "triton": "Triton",
    "quack": "quack",
    "liger": "Liger",
    "flashinfer": "FlashInfer",
}
NOISY, INEXACT = "\\~", "\\*"  # marks after a percentage


def swept_cell(result: Json | None, leads: bool) -> str:
    """Percent of the copy's speed, marks, and the variant."""
    if result is None:
        return NOTHING
    inexact = (result["max_error"] or 0) > 1  # right only by the wider tolerance that peers have
    variant = "" if result["stage"] == results.DISPATCH else f" {result['variant']}"
    return f"{percent_cell(result, leads)}{NOISY * result['noisy']}{INEXACT * inexact}{variant}"


def sweep_block(context: Context, name: str) -> str:
    sweep = context.sweep
    _, shapes = charts.table_of(sweep, name)
    peers = [p for p in PEER_NAMES if any(r["stage"] == p and r["time_us"] for s in shapes for r in sweep.at(s))]
    best_of = ["the library", *(PEER_NAMES[peer] for peer in peers)]
    table = Table(1, "shape", "copy (µs)", *(f"{who}, % of copy" for who in best_of))
    for shape in shapes:
        found = sweep.at(shape)
        best = [results.fastest(r for r in found if r["stage"] == who) for who in (results.DISPATCH, *peers)]
        leaders = results.leaders(r for r in best if r is not None)
        cells = (swept_cell(result, result in leaders) for result in best)
        table.rows.append([shape_text(shape), time_text(sweep.copy(shape)["time_us"]), *cells])
    return swept_text(table, sweep, peers, "softmax")


def of_operation(context: Context, op: str, make: Callable[[Recorded], str]) -> str:
    """A block that is made of an operation's sweep."""
    path = results.file_of(context.results, known("nobody sweeps", op, results.SWEEPS), context.gpu)
    if not path:
        return f"*Not measured yet: `./run sweep --op {op}`, on a GPU with the libraries, fills in this table.*"
    return make(Recorded(path))


def beside_libraries(sweep: Recorded, op: str, table: Table, places: Iterable[tuple[list[str], Shape, Sequence[str]]]) -> str:
    """Adds a row for each place: its first cells, the best results of these stages at the shape, and the best of the peers."""
    peers = set()
    for first, shape, stages in places:
        if (shape, op) not in sweep:
            raise ToolError(f"{shape} is in no recorded table of the sweep of {op}")
        found = sweep.at(shape, op)
        best = [results.fastest(r for r in found if r["stage"] == stage) for stage in stages]
        peer = results.fastest(r for r in found if r["kind"] == "peer")
        leaders = results.leaders(r for r in (*best, peer) if r)
        cells = [swept_cell(result, result in leaders) for result in (*best, peer)]
        if peer:
            cells[-1] = f"{PEER_NAMES[peer['stage']]} {cells[-1]}"
            peers.add(peer["stage"])
        table.rows.append([*first, *cells])
    return swept_text(table, sweep, [peer for peer in PEER_NAMES if peer in peers], op)


def libraries_block(context: Context, name: str, op: str) -> str:
    """A table of a sweep with the best of the libraries at each shape in one column."""

    def make(sweep: Recorded) -> str:
        table = Table(1, "shape", "ceiling (µs)", "rowwise, % of the ceiling", "best of the others, % of the ceiling")
        shapes = charts.table_of(sweep, name)[1]
        places = (([shape_text(shape), time_text(sweep.copy(shape, op)["time_us"])], shape, [results.DISPATCH]) for shape in shapes)
        return beside_libraries(sweep, op, table, places)

    return of_operation(context, op, make)


# The shapes at which a lesson shows its variants first.
STAGE_BLOCK = re.compile(r"<!-- generated: stage (\S+) shapes=(\S+) -->")


def lesson_places(context: Context, op: str) -> Iterator[tuple[list[str], Shape, Sequence[str]]]:
    """The rows of lessons_block: the link to a lesson in the first of its rows, and a shape at which it shows its variants."""
    for stage in context.lessons:
        page = context.root / stage / "README.md"
        shown = STAGE_BLOCK.search(page.read_text(encoding="utf-8")) if page.is_file() else None
        if shown and FIRST_WITH_LIBRARY <= stage < results.DISPATCH and op in results.operations_of(stage):
            link = f"[{stage}]({context.link(stage)}/)"
            for number, shape in enumerate(shapes_in(shown[2])):
                yield ["" if number else link, shape_text(shape)], shape, (stage, results.DISPATCH)


def lessons_block(context: Context, op: str) -> str:
    """Each lesson's best variant, the library, and the best of the other libraries: at the lesson's shapes, in one run."""

    def make(sweep: Recorded) -> str:
        table = Table(2, "lesson", "shape", "its best, % of copy", "the library, % of copy", "best of the others, % of copy")
        return beside_libraries(sweep, op, table, lesson_places(context, op))

    return of_operation(context, op, make)


def swept_text(table: Table, sweep: Recorded, peers: list[str], op: str) -> str:
    """The table, the meaning of its marks, the contenders, and how they were measured."""
    settings = sweep.settings
    marks = {
        NOISY: "noisy: the rounds, or the samples of one, differ by more than they should",
        INEXACT: f"errs by more than a stage may, by less than {settings['peer_tolerance']:g} times that",
    }
    notes = [f"<sub>{mark} {why}</sub>" for mark, why in marks.items() if any(mark in c for r in table.rows for c in r)]
    versions = [f"{PEER_NAMES[p]} {sweep.machine.get('torch' if p == 'pytorch' else p)}" for p in peers]
    how = f"{settings['l2']} L2, {settings['rounds']} rounds of {settings['repeats']} samples"
    after = f", {', '.join([*versions, op, how])}"
    command = "./run sweep" + (f" --op {op}" if op != "softmax" else "")
    return table.text(*notes, caption(sweep.recorded, sweep.machine, command, after=after))


def judged_block(context: Context) -> str:
    """For each operation, how near the kernel that the library chooses comes to the fastest one, and the worst matrix."""
    recorded, machine = context.judged["recorded"], context.judged["machine"]
    near = ("97 % or more", "90 % or more")
    table = Table(1, "operation", "matrices", "mean, %", *near, "worst, %", "worst matrix", "chosen kernel", "fastest kernel")
    for op, some in charts.by_operation(context.judged["results"]).items():
        percents, worst = [one["percent"] for one in some], some[0]
        shares = (sum(percent >= least for percent in percents) / len(percents) for least in (97, 90))
        name = f"{worst['op']} " if worst["op"] != op else ""
        offset = f", offset {worst['offset']}" if worst["offset"] else ""
        mean = f"{sum(percents) / len(percents):.1f}"
        cells = [str(len(some)), mean, *(f"{share:.1%}".replace("%", " %") for share in shares), f"{percents[0]:.1f}"]
        table.rows.append([op, *cells, f"{name}{shape_text(shape_of(worst))}{offset}", worst["chosen"], worst["fastest"]])
    return table.text(caption(recorded, machine, recorded["command"], after=f", {machine['table']}"))


# --- Charts ----------------------------------------------------------------------------------------


def at_one_shape(chart: Callable[[Recorded, Shape, Sequence[str]], Chart], context: Context, shape: Shape) -> Chart:
    return chart(context.recorded, context.complete(shape, context.stages), context.stages)


def change_chart(context: Context, stage: str, shape: Shape) -> Chart:
    return charts.change(context.recorded, shape, context.stage(stage), context.stages)


def bandwidth_chart(context: Context, dtype: str, rows: str, stages: str = "") -> Chart:
    shown = [context.stage(name) for name in stages.split(",")] if stages else context.stages
    shapes = charts.widths(context.recorded, dtype, rows)
    # Some widths are recorded from a later stage on.
    of_all = [shape for shape in shapes if set(shown) <= {r["stage"] for r in context.recorded.at(shape)}]
    shapes = of_all or [context.complete(shape, shown) for shape in shapes]
    if not shapes:
        raise ToolError(f"nothing recorded for {dtype} with {rows} rows in {context.recorded.path.name}")
    return charts.bandwidth(context.recorded, shapes, shown, context.stages)


def heat_map_chart(context: Context, wider: str, unaligned: str, few: str) -> Chart:
    recordings = [context.sweep, context.recorded] if results.file_of(context.results, "-sweep", context.gpu) else [context.recorded]
    return charts.heat_map(recordings, shapes_in(wider), shapes_in(unaligned), shapes_in(few), context.stages)


CHARTS: dict[str, Callable[..., Chart]] = {
    "ladder": partial(at_one_shape, charts.ladder),
    "change": change_chart,
    "bandwidth": bandwidth_chart,
    "heat_map": heat_map_chart,
    "judged": lambda context: charts.judged(context.judged),
    "roofline": partial(at_one_shape, charts.roofline),
    "predicted": lambda context: charts.predicted(context.recorded, context.stages),
    "table": lambda context, name: charts.of_table(context.sweep, name),
}


def picture(context: Context, file: str, chart: Chart) -> str:
    """Shows the chart, which generate draws."""
    if context.charts.setdefault(file, chart) != chart:
        raise ToolError(f"two different charts are named {file}")
    return f"![{chart.alt}]({context.link(f'common/results/{file}')})"


def chart_block(context: Context, file: str, kind: str, *words: str, **named: Any) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*\.svg", file):
        raise ToolError(f"'{file}' is not a file name like ladder-f32.svg")
    return picture(context, file, call(known("unknown chart", kind, CHARTS), context, words, named))


# --- Counters --------------------------------------------------------------------------------------


class Column(NamedTuple):
    """A number of an entry: the sum of some of its counters, divided by another."""

    header: str
    counters: tuple[str, ...]
    divisor: str = "one"
    digits: int | None = None  # after the point; None is two at most

    def cell(self, entry: Json) -> str:
        numbers = {**entry, **entry.get("metrics", {}), "one": 1, "bytes": tensor_bytes(entry)}
        missing = [name for name in (*self.counters, self.divisor) if name not in numbers]
        if missing:
            raise ToolError(f"what is recorded of {entry['stage']} has no '{missing[0]}': record again")
        found = [numbers[name] for name in self.counters]
        value = None if None in found else ratio(sum(found), numbers[self.divisor])
        if value is None:
            return NOTHING
        return short_text(value) if self.digits is None else f"{value:.{self.digits}f}"


class Counts(NamedTuple):
    """A recorded file with an entry for each variant and shape, and the columns that a table may show of it."""

    entries: Callable[[Context], list[Json]]
    missing: str
    columns: dict[str, Column]

    def of(self, context: Context, stage: str, shape: Shape | None) -> list[Json]:
        """The entries of a stage's variants, at one shape or at all."""
        stage = context.stage(stage)
        found = [e for e in self.entries(context) if e["stage"] == stage and shape in (None, shape_of(e))]
        if not found:
            raise ToolError(self.missing.format(f"{stage} at {shape}" if shape else stage))
        return found

    def table(
        self, context: Context, stage: str, columns: str, wanted: Sequence[Shape | None], with_shape: bool
    ) -> tuple[Table, list[Shape]]:
        """One stage's variants, at the shapes that are wanted and that they do; several shapes are always shown."""
        shown = [known("unknown column", name, self.columns) for name in columns.split(",")]
        entries = [entry for shape in wanted for entry in self.of(context, stage, shape) if has_numbers(entry)]
        shapes = list(dict.fromkeys(map(shape_of, entries)))
        left = ["variant", "shape"] if with_shape or len(shapes) > 1 else ["variant"]
        table = Table(len(left), *left, *(column.header for column in shown))
        for entry in entries:
            cells = [column.cell(entry) for column in shown]
            table.rows.append([*[entry["variant"], shape_text(shape_of(entry))][: len(left)], *cells])
        return table, shapes


COUNTERS = Counts(
    lambda context: context.profiles["entries"],
    "no profile of {}: see RECORDED_SHAPES in measure/profiling.py",
    {
        "dram_read": Column("DRAM read passes", (DRAM_READ,), "bytes"),
        "dram_write": Column("DRAM write passes", (DRAM_WRITE,), "bytes"),
        "load_wavefronts": Column("shared load wavefronts", (WAVEFRONTS.format("ld"),), digits=0),
        "store_wavefronts": Column("shared store wavefronts", (WAVEFRONTS.format("st"),), digits=0),
        "load_conflicts": Column("load bank conflicts", (CONFLICTS.format("ld"),), digits=0),
        "store_conflicts": Column("store bank conflicts", (CONFLICTS.format("st"),), digits=0),
        "registers": Column("registers per thread", (REGISTERS,), digits=0),
        "register_limit": Column("blocks an SM by registers", OCCUPANCY_LIMITS[:1], digits=0),
        "warps_active": Column("active warps (%)", (WARPS_ACTIVE,), digits=1),
        "dram_busy": Column("DRAM busy (%)", (DRAM_BUSY,), digits=1),
    },
)
SHARED_REQUESTS = ("counted_shared_load_requests", "counted_shared_store_requests")
COUNTED = Counts(
    lambda context: context.counted["counted"],
    "nothing counted for {}: see common/tools/measure/count.py",
    {
        "declared": Column("passes, declared", ("passes",)),
        "passes": Column("passes, counted", ("counted_passes",)),
        "load_requests": Column("load requests per row", ("counted_global_load_requests",), "rows"),
        "load_sectors": Column("sectors per load request", ("counted_sectors_per_load_request",)),
        "store_sectors": Column("sectors per store request", ("counted_sectors_per_store_request",)),
        "shared_requests": Column("shared-memory requests per row", SHARED_REQUESTS, "rows"),
        "wavefronts": Column("shared wavefronts per row", ("counted_shared_wavefronts",), "rows"),
        "conflicts": Column("bank conflicts per row", ("counted_bank_conflicts",), "rows"),
        "shuffles": Column("shuffles per row", ("counted_shuffles",), "rows"),
        "barriers": Column("barriers per row", ("counted_block_barriers",), "rows"),
        "special": Column("special functions per element", ("counted_special_functions_per_element",)),
    },
)


def counters_block(context: Context, stage: str, columns: str, shape: Shape | None = None) -> str:
    table, _ = COUNTERS.table(context, stage, columns, [shape], with_shape=True)
    entry = next(each for each in context.profiles["entries"] if each["stage"] == stage)
    return table.text(profile_caption(context, "Nsight Compute, one launch, summed over the GPU", entry))


def counted_block(context: Context, stage: str, columns: str, shape: Shape | None = None, shapes: str = "") -> str:
    wanted: list[Shape | None] = list(shapes_in(shapes)) if shapes else [shape]
    table, found = COUNTED.table(context, stage, columns, wanted, with_shape=False)
    where = f"{shape_text(found[0])}, " if len(found) == 1 else ""
    beside = f"[beside a GPU]({context.link('common/results/simulator.md')})"
    how = f"counted by the simulator on the PTX of nvcc {context.counted['nvcc']} ({beside})"
    return table.text(f"<sub>{where}{', '.join(results.operations_of(stage))}: {how}.</sub>")


def profile_caption(context: Context, what: str, entry: Json) -> str:
    header = entry["recorded"] if "recorded" in entry else context.profiles["recorded"]
    return caption(header, context.profiles["machine"], "./run profile --record", before=f"{what}: ")


def profile_cell(row: quantities.Row) -> str:
    """One number if all that are known agree; otherwise all three."""
    declared, counted, measured = row.numbers
    exact = measured if counted is None else counted
    if exact is None:
        return NOTHING
    if not row.differs and (declared is None or quantities.same(declared, exact)):
        return profiling.number_text(exact)
    return " · ".join(NOTHING if number is None else profiling.number_text(number) for number in row.numbers)


def profile_block(context: Context, stage: str, shape: Shape, quantities: str) -> str:
    """What ./run profile shows of one stage: a row for each variant, a column for each quantity."""
    entries = COUNTERS.of(context, stage, shape)
    recorded = {q.name.replace(" ", "_"): q for q in QUANTITIES if all(q.name in e["quantities"] for e in entries)}
    shown = [known("no such quantity:", name, recorded) for name in quantities.split(",")]
    columns = [[profiling.row_of(quantity, entry) for entry in entries] for quantity in shown]
    table = Table(1, "variant", *(quantity.heading for quantity in shown))
    why = f"counted and measured differ: [why]({context.link('common/results/simulator.md')}#where-they-differ-and-why)"
    three = False
    for number, entry in enumerate(entries):
        cells = []
        for row in (column[number] for column in columns):
            cell = profile_cell(row)
            three = three or "·" in cell
            note = f"{row.why.name}: {why}" if row.why else profiling.UNKNOWN
            cells.append(f"{cell}<sup>{table.notes.mark(note)}</sup>" if row.differs else cell)
        table.rows.append([entry["variant"], *cells])
    counted = entries[0]["counted_rows"]
    how = f"counted by the simulator on {counted} row{'s' if counted > 1 else ''}, measured by Nsight Compute"
    reading = "<sub>One number: all that is known agrees. Three: declared · counted · measured.</sub>" if three else ""
    what = f"{shape_text(shape)}, softmax, {how}"
    return table.text(*filter(None, [reading]), profile_caption(context, what, entries[0]))


# --- The simulator and Nsight Compute --------------------------------------------------------------


def hardware_table_block(context: Context, part: str) -> str:
    make = known("unknown part", part, {"agreement": agreement, "differences": difference_tables})
    recorded = hardware_table.load_recorded(context.root, context.gpu)
    problems = hardware_table.not_explained(recorded["entries"])
    if problems:
        raise ToolError(f"{len(problems)} times, first: {problems[0]}")
    return make(recorded, hardware_table.differences(recorded["entries"]))


def agreement(recorded: Json, differing: list[hardware_table.Difference]) -> str:
    """On how many counters both agree, by variant."""
    table = Table(3, "stage", "variant", "columns", "numbers", "the same", "different")
    kernels: dict[tuple[str, str], dict[str, list[str]]] = {}  # and their widths, by type
    for entry in recorded["entries"]:
        kernel = entry["stage"], entry["variant"]
        kernels.setdefault(kernel, {}).setdefault(entry["dtype"], []).append(str(entry["cols"]))
    for kernel, cols in kernels.items():
        shapes = "; ".join(f"{dtype} {', '.join(some)}" for dtype, some in cols.items())
        numbers = sum(map(len, cols.values())) * len(quantities.COUNTERS)
        different = sum((d.entry["stage"], d.entry["variant"]) == kernel for d in differing)
        table.rows.append([*kernel, shapes, *map(str, (numbers, numbers - different, different))])
    numbers, different = len(recorded["entries"]) * len(quantities.COUNTERS), len(differing)
    tool = "python3 common/tools hardware_table"
    headers = {json.dumps(e.get("recorded", recorded["recorded"])): e["stage"] for e in recorded["entries"]}  # and its last
    where = "<br>\n".join(caption(json.loads(header), recorded["machine"], tool, f"To {last}: ") for header, last in headers.items())
    return f"{numbers - different} of {numbers} numbers are the same, {different} differ.\n\n{table.text(where)}"


def difference_tables(_: Json, differing: list[hardware_table.Difference]) -> str:
    """The reasons for differences, each with the numbers that it explains."""
    parts = []
    for explanation in explanations.EXPLANATIONS:
        places: dict[tuple[str, str, str], list[str]] = {}
        for entry, counter, *_why in (d for d in differing if d.explanation is explanation):
            numbers = f"{entry['dtype']} {entry['cols']}: {entry['ncu'][counter]} / {entry['simulator'][counter]}"
            places.setdefault((entry["stage"], entry["variant"], counter), []).append(numbers)
        table = Table(4, "stage", "variant", "counter", "columns: ncu / simulator")
        table.rows += [[*place, "; ".join(numbers)] for place, numbers in places.items()]
        parts.append(f"**{explanation.name}.** {explanation.reason}\n\n{table.text()}")
    return "\n\n".join(parts) or "None."


# --- Values in prose -------------------------------------------------------------------------------


def result_of(context: Context, stage: str, variant: str, shape: Shape, op: str = "") -> Json:
    return context.recorded.one(context.stage(stage), variant, shape, op)


def counter_value(context: Context, column: str, stage: str, variant: str, shape: Shape) -> str:
    """What Nsight Compute counted."""
    shown = known("unknown column", column, COUNTERS.columns)
    if variant == "best":
        variant = result_of(context, stage, variant, shape)["variant"]
    for entry in COUNTERS.of(context, stage, shape):
        if entry["variant"] == variant and shown.cell(entry) != NOTHING:
            return shown.cell(entry)
    raise ToolError(COUNTERS.missing.format(f"{stage} {variant} at {shape}"))


def counted_value(context: Context, column: str, stage: str, variant: str, shape: Shape) -> str:
    """A variant's number in the simulator's counts."""
    shown = known("unknown column", column, COUNTED.columns)
    found = [entry for entry in COUNTED.of(context, stage, shape) if entry["variant"] == variant]
    if not found or shown.cell(found[0]) == NOTHING:
        raise ToolError(COUNTED.missing.format(f"{stage} {variant} at {shape}"))
    return shown.cell(found[0])


def ratio_value(context: Context, a: str, b: str, shape: Shape) -> str:
    """The ratio of two times, each of a STAGE/VARIANT."""
    times = [result_of(context, *name.partition("/")[::2], shape)["time_us"] for name in (a, b)]
    value = times[0] / times[1]
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}" if value >= 1.95 else f"{value:.2f}"


# --- All of them -----------------------------------------------------------------------------------

# --- Several GPUs ------------------------------------------------------------------------------------


# By variant, as the lesson derives it: copies of a part, and exchanges that a GPU waits for.
PREDICTED = {"two_all_reduces": (2.0, 2), "host_collectives": (1.5, 1), "device_exchange": (1.0, 0)}
EXCHANGE_US = 15.0


class OfSeveralGpus:
    """The recorded results of stage 15 and its peers for one operation."""

    def __init__(self, path: Path, op: str) -> None:
        self.path, self.op = path, op
        self.data = results.load(path, results.SEVERAL)
        self.found = {(r["gpus"], r["variant"], shape_of(r)): r for r in self.data["results"] if r["op"] == op}

    def at(self, gpus: int, variant: str, shape: Shape) -> Json:
        if (gpus, variant, shape) not in self.found:
            raise ToolError(f"no {variant} of {self.op} at {shape} on {gpus} GPUs in {self.path.name}")
        return self.found[gpus, variant, shape]

    def numbers(self) -> list[int]:
        return sorted({gpus for gpus, _, _ in self.found})

    def variants(self) -> list[str]:
        return list(dict.fromkeys(variant for _, variant, _ in self.found))

    def times(self, variant: str, shape: Shape) -> dict[int, float]:
        """The variant's times, by the numbers of GPUs at which it ran."""
        found = {gpus: self.found.get((gpus, variant, shape)) for gpus in self.numbers()}
        return {gpus: result["time_us"] for gpus, result in found.items() if result and result["time_us"]}

    def caption(self, gpus: str) -> str:
        machine = {**self.data["machine"], "gpu": f"{gpus} × {self.data['machine']['gpu']}"}
        return caption(self.data["recorded"], machine, "python3 common/tools several_gpus", after=f", {self.op}")


def of_several_gpus(context: Context, op: str, make: Callable[[OfSeveralGpus], str]) -> str:
    files = results.recorded_files(context.results, "-several")
    if not files:
        return "*Not measured yet: `python3 common/tools several_gpus`, on a machine with several GPUs, fills in this table.*"
    return make(OfSeveralGpus(min(files.items())[1], op))


def several_gpus_block(context: Context, shapes: str, op: str = "softmax", gpus: str = "2") -> str:
    """Stage 15 and its peers: microseconds, and percent of the copy of a part on all GPUs at once."""
    columns, number = shapes_in(shapes), int(gpus)

    def make(recorded: OfSeveralGpus) -> str:
        table = Table(1, "µs, and % of the copy", *map(shape_text, columns))
        for variant in recorded.variants():
            cells = []
            for shape in columns:
                result, copy = recorded.at(number, variant, shape), recorded.at(number, "copy", shape)["time_us"]
                if result["time_us"] is None:
                    cells.append(table.not_applicable(result))
                else:
                    percent = 100 * (result.get("copy_us") or copy or 0) / result["time_us"]
                    cells.append(f"{time_text(result['time_us'])}, {percent:.0f} %")
            table.rows.append([variant.replace("_", " ") if variant.startswith("torch") else variant, *cells])
        return table.text(recorded.caption(gpus))

    return of_several_gpus(context, op, make)


def predicted_gpus_block(context: Context, shape: str, op: str = "softmax") -> str:
    """For each measured number of GPUs, the times that the lesson's arithmetic makes of the copy's, and the measured ones; if
    there are several numbers, also a chart over them."""
    place = parse_shape(shape)

    def make(recorded: OfSeveralGpus) -> str:
        numbers = recorded.numbers()
        table = Table(1, "µs", *(f"{gpus} GPUs, {what}" for gpus in numbers for what in ("predicted", "measured")))
        for variant, (copies, exchanges) in PREDICTED.items():
            cells = []
            for gpus in numbers:
                took, copy = recorded.at(gpus, variant, place)["time_us"], recorded.at(gpus, "copy", place)["time_us"]
                predicted = time_text(copies * copy + exchanges * EXCHANGE_US) if copy else NOTHING
                cells += [predicted, time_text(took) if took else NOTHING]
            table.rows.append([variant, *cells])
        made = table.text(recorded.caption(" and ".join(map(str, numbers))))
        if len(numbers) == 1:
            return made
        times = {variant: recorded.times(variant, place) for variant in recorded.variants()}
        shown = {variant: of_variant for variant, of_variant in times.items() if of_variant}
        chart = charts.over_gpus(recorded.data["machine"], recorded.data["recorded"], place, shown)
        return f"{picture(context, 'several-gpus.svg', chart)}\n\n{made}"

    return of_several_gpus(context, op, make)


def segments_block(context: Context) -> str:
    """The picture of stage 14's table, which generate draws."""
    return f"![{segments.alt(context.root)}]({Path(segments.PICTURE).name})"


BLOCKS: dict[str, Callable[..., str]] = {
    "ladder": ladder_block,
    "stage": stage_block,
    "chart": chart_block,
    "counters": counters_block,
    "profile": profile_block,
    "counted": counted_block,
    "hardware_table": hardware_table_block,
    "sweep": sweep_block,
    "lessons": lessons_block,
    "libraries": libraries_block,
    "judged": judged_block,
    "several_gpus": several_gpus_block,
    "predicted_gpus": predicted_gpus_block,
    "segments": segments_block,
}
VALUES: dict[str, Callable[..., str]] = {
    "percent": lambda context, stage, variant, shape, op="": percent_text(
        result_of(context, stage, variant, shape, op)["percent_of_copy"]),
    "time": lambda context, stage, variant, shape: time_text(
        result_of(context, stage, variant, shape)["time_us"]) + " µs",
    "copy_time": lambda context, shape: f"{time_text(context.recorded.copy(shape)['time_us'])} µs",
    "copy_bandwidth": lambda context, shape: f"{context.recorded.copy(shape)['bandwidth_gb_s']:.0f} GB/s",
    "ratio": ratio_value,
    "counter": counter_value,
    "counted": counted_value,
}


def produce(context: Context, kind: str, marker: str) -> str:
    """The text that belongs between a pair of markers. All take gpu=; dtype=, rows= and cols= become one argument, the shape."""
    name, *words = marker.split()
    maker = known("unknown value", name, VALUES) if kind == "value" else known("unknown block", name, BLOCKS)
    pairs = [word.split("=", 1) for word in words if "=" in word]
    named: dict[str, Any] = dict(pairs)
    if len(named) < len(pairs):
        raise ToolError("an argument is given twice")
    if {"dtype", "rows", "cols"} <= named.keys():
        named["shape"] = parse_shape(f"{named.pop('dtype')}:{named.pop('rows')}x{named.pop('cols')}")
    context = context.of(named.pop("gpu")) if "gpu" in named else context
    made = call(maker, context, [word for word in words if "=" not in word], named)
    # A shape is one word: a table on a telephone must not break it into four lines.
    made = re.sub(r"(?<=\d) × (?=\d)", f"{NO_BREAK}×{NO_BREAK}", made)
    return made if kind == "value" else f"\n{made}\n"
