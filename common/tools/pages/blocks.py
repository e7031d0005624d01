"""What `generate` puts between markers: tables, charts and single numbers.

BLOCKS and VALUES at the end are the whole list; each entry takes the context and the marker's
arguments and returns Markdown. Every miss raises ToolError.
"""

from __future__ import annotations

import os
import re
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, TypeVar

from command import ToolError
from measure import explanations, hardware_table, profiling, quantities, results
from measure.quantities import DRAM_BUSY, DRAM_READ, DRAM_WRITE, REGISTERS, WARPS_ACTIVE, of_l1
from measure.results import Json, Recorded, Shape
from pages import charts
from pages.charts import Chart, shape_text
from text import percent_text, short_text, time_text

NOTHING = "–"
Known = TypeVar("Known")


def known(what: str, name: str, among: Mapping[str, Known]) -> Known:
    if name not in among:
        raise ToolError(f"{what} '{name}'; there are: {', '.join(among)}")
    return among[name]


# --- A marker and its context ----------------------------------------------------------------------


class Arguments:
    """The words of one marker: plain ones, and key=value ones. All of them must be used."""

    def __init__(self, words: List[str]) -> None:
        self.plain = [word for word in words if "=" not in word]
        self.named: Dict[str, str] = {}
        for key, _, value in (word.partition("=") for word in words if "=" in word):
            if key in self.named or not value:
                raise ToolError(f"argument '{key}=' is given twice or empty")
            self.named[key] = value

    def next(self, what: str) -> str:
        if not self.plain:
            raise ToolError(f"{what} is missing")
        return self.plain.pop(0)

    def get(self, key: str) -> str:
        if key not in self.named:
            raise ToolError(f"argument '{key}=' is missing")
        return self.named.pop(key)

    def list(self, key: str) -> List[str]:
        """A comma list, empty when the key is not given."""
        return self.get(key).split(",") if key in self.named else []

    def shape(self) -> Shape:
        return results.parse_shape(f"{self.get('dtype')}:{self.get('rows')}x{self.get('cols')}")

    def shapes(self) -> List[Shape]:
        return [results.parse_shape(text) for text in self.get("shapes").split(",")]

    def finish(self) -> None:
        left = self.plain + [f"{key}=" for key in self.named]
        if left:
            raise ToolError(f"unknown argument: {', '.join(left)}")


class Context:
    """What a block may ask for: the stages, the page it stands on, and the recorded files, read on first use."""

    def __init__(self, root: Path, results_file: Optional[Path]) -> None:
        self.root, self.results_file, self.results = root, results_file, root / "common/results"
        self.stages = results.stage_names(root)
        self.page = root / "README.md"
        self.charts: Dict[str, Chart] = {}  # by file name

    @cached_property
    def recorded(self) -> Recorded:
        recorded = Recorded(self.results_file) if self.results_file else results.newest(self.results, sweep=False)
        if not recorded:
            raise ToolError("no results file in common/results: run python3 common/tools record on a GPU first")
        return recorded

    @cached_property
    def sweep(self) -> Recorded:
        sweep = results.newest(self.results, sweep=True)
        if not sweep:
            raise ToolError("no sweep's file in common/results: run ./run sweep on a GPU first")
        return sweep

    @cached_property
    def profiles(self) -> Json:
        """What ./run profile --record wrote for the same GPU."""
        path = self.recorded.path
        return results.load_profiles(path.with_name(f"{path.stem}-profile.json"))

    @cached_property
    def counted(self) -> Json:
        """What the simulator counted."""
        return results.load_counted(self.results / "simulator.json")

    def link(self, path: str) -> str:
        """Relative link from the page to a file or folder of the repository."""
        return Path(os.path.relpath(self.root / path, self.page.parent)).as_posix()

    def stage(self, name: str) -> str:
        return known("no such stage:", name, {stage: stage for stage in self.stages})

    def complete(self, shape: Shape, stages: List[str]) -> Shape:
        """The shape. Raises ToolError unless the recording has every stage there, and no stage that is gone."""
        recorded = {r["stage"] for r in self.recorded.at(shape)} - {""}
        odd = (set(stages) - recorded) | (recorded - set(self.stages))
        if odd:
            raise ToolError(f"stages and recorded results differ in {', '.join(sorted(odd))}: record again")
        return shape


class Table:
    """A Markdown table whose first `left` columns are aligned left, the rest right."""

    def __init__(self, header: List[str], left: int) -> None:
        self.rows = [header, ["---"] * left + ["---:"] * (len(header) - left)]
        self.reasons: List[str] = []

    def footnote(self, reason: str) -> str:
        """A cell without a number, and the letter of the reason below: in order of appearance, each reason once."""
        if reason not in self.reasons:
            self.reasons.append(reason)
        return f"{NOTHING}<sup>{letter(self.reasons.index(reason))}</sup>"

    def text(self, *below: str) -> str:
        """The table, and as one paragraph its footnotes and the lines that belong below it."""
        lines = ["| " + " | ".join(cells) + " |" for cells in self.rows]
        reasons = [(letter(n), escape(reason)) for n, reason in enumerate(self.reasons)]
        notes = [f"<sup>{mark}</sup> <sub>not applicable: {reason}</sub>" for mark, reason in reasons]
        return "\n".join(lines) + ("\n\n" if notes or below else "") + "<br>\n".join([*notes, *below])


def letter(number: int) -> str:
    return chr(ord("a") + number)


def caption(header: Json, machine: Json, tool: str, before: str = "", after: str = "") -> str:
    """Where numbers come from; `before` and `after` stand about the GPU with its driver and CUDA."""
    driver = f", driver {machine['driver_version']}" if machine.get("driver_version") else ""
    where = f"{machine['gpu']}{driver}, CUDA {machine.get('nvcc') or machine.get('cuda_runtime')}"
    ncu = f" with ncu {header['ncu']}" if "ncu" in header else ""
    commit = header["commit"][:10] + (" with local changes" if header["dirty"] else "")
    return f"<sub>{before}{where}{after}; recorded {header['date_utc'][:10]} by `{tool}`{ncu} at commit {commit}.</sub>"


def recorded_caption(recorded: Recorded, shape: str) -> str:
    after = f", {shape}softmax, {charts.conditions(recorded)}"
    return caption(recorded.recorded, recorded.machine, "python3 common/tools record", after=after)


# --- What the stages' variants reach ---------------------------------------------------------------


def ladder_block(context: Context, args: Arguments) -> str:
    recorded, shape = context.recorded, context.complete(args.shape(), context.stages)
    table = Table(["stage", "variant", "passes", "time (µs)", "effective GB/s", "% of copy"], 2)

    def add(first: str, result: Json, name: str, leads: bool = False) -> None:
        if result["time_us"] is None:
            cells = [name, NOTHING, NOTHING, NOTHING, table.footnote(result["reason"])]
        else:
            cells = [name, short_text(result["passes"]), time_text(result["time_us"])]
            cells += [f"{result['bandwidth_gb_s']:.0f}", f"{result['percent_of_copy']:.1f}"]
        table.rows.append([first, *(f"**{cell}**" if leads else cell for cell in cells)])

    for stage in context.stages:
        best = recorded.best(stage, shape)
        link = f"[{stage}]({context.link(stage)}/)"
        for result in recorded.variants(stage, shape):
            add(link, result, result["variant"], result is best)
            link = ""
    add("copy", recorded.copy(shape), "the ceiling: one read, one write")
    return table.text(recorded_caption(recorded, f"{shape_text(shape)}, "))


def stage_block(context: Context, args: Arguments) -> str:
    recorded, stage = context.recorded, context.stage(args.next("the stage's name"))
    shapes = args.shapes()
    table = Table(["variant", "passes", *(f"{shape_text(shape)}, % of copy" for shape in shapes)], 1)
    columns = [{r["variant"]: r for r in recorded.variants(stage, shape)} for shape in shapes]
    for variant in dict.fromkeys(name for column in columns for name in column):
        cells, passes = [], []
        for shape, column in zip(shapes, columns):
            if variant not in column:
                raise ToolError(f"no result of {stage} {variant} at {shape}: record again")
            result = column[variant]
            if result["time_us"] is None:
                cells.append(table.footnote(result["reason"]))
                continue
            passes.append(result["passes"])
            percent = f"{result['percent_of_copy']:.1f}"
            cells.append(f"**{percent}**" if result is recorded.best(stage, shape) else percent)
        ends = [short_text(value) for value in (min(passes), max(passes))] if passes else [NOTHING]
        table.rows.append([variant, " to ".join(dict.fromkeys(ends)), *cells])
    return table.text(recorded_caption(recorded, ""))


PEER_NAMES = {"cudnn": "cuDNN", "pytorch": "PyTorch", "triton": "Triton", "quack": "quack", "liger": "Liger"}
NOISY, INEXACT = "\\~", "\\*"  # marks behind a percentage


def swept_cell(result: Optional[Json], leads: bool) -> str:
    """Percent of the copy's speed, marks, and the variant."""
    if result is None:
        return NOTHING
    percent = f"**{result['percent_of_copy']:.1f}**" if leads else f"{result['percent_of_copy']:.1f}"
    inexact = (result["max_error"] or 0) > 1  # right only by the wider tolerance that peers have
    return f"{percent}{NOISY * result['noisy']}{INEXACT * inexact} {result['variant']}"


def sweep_block(context: Context, args: Arguments) -> str:
    sweep, settings = context.sweep, context.sweep.settings
    _, shapes = charts.table_of(sweep, args.next("the table's name"))
    peers = [p for p in PEER_NAMES if any(r["stage"] == p and r["time_us"] for s in shapes for r in sweep.at(s))]
    header = ["shape", "copy (µs)", "best stage, % of copy", *(f"{PEER_NAMES[peer]}, % of copy" for peer in peers)]
    table = Table(header, 1)
    for shape in shapes:
        found = sweep.at(shape)
        stage = results.fastest(r for r in found if r["kind"] == "stage")
        best = [stage, *(results.fastest(r for r in found if r["stage"] == peer) for peer in peers)]
        leader = results.fastest(r for r in best if r is not None)
        first, *others = (swept_cell(result, result is leader) for result in best)
        if stage:
            first = f"[{stage['stage'][:2]}]({context.link(context.stage(stage['stage']))}/) {first}"
        table.rows.append([shape_text(shape), time_text(sweep.copy(shape)["time_us"]), first, *others])
    marks = {
        NOISY: "noisy: the rounds, or the samples of one, differ by more than they should",
        INEXACT: f"errs by more than a stage may, by less than {settings['peer_tolerance']:g} times that",
    }
    notes = [f"<sub>{mark} {why}</sub>" for mark, why in marks.items() if any(mark in c for r in table.rows for c in r)]
    versions = [f"{PEER_NAMES[p]} {sweep.machine.get('torch' if p == 'pytorch' else p)}" for p in peers]
    how = f"{settings['l2']} L2, {settings['rounds']} rounds of {settings['repeats']} samples"
    after = f", {', '.join([*versions, 'softmax', how])}"
    return table.text(*notes, caption(sweep.recorded, sweep.machine, "./run sweep", after=after))


# --- Charts ----------------------------------------------------------------------------------------


def at_one_shape(chart: Callable[[Recorded, Shape, Sequence[str]], Chart]) -> Callable[[Context, Arguments], Chart]:
    return lambda context, args: chart(context.recorded, context.complete(args.shape(), context.stages), context.stages)


def bandwidth_chart(context: Context, args: Arguments) -> Chart:
    dtype, rows = args.get("dtype"), args.get("rows")
    stages = [context.stage(name) for name in args.list("stages")] or context.stages
    shapes = [context.complete(shape, stages) for shape in charts.widths(context.recorded, dtype, rows)]
    if not shapes:
        raise ToolError(f"nothing recorded for {dtype} with {rows} rows in {context.recorded.path.name}")
    return charts.bandwidth(context.recorded, shapes, stages, context.stages)


CHARTS: Dict[str, Callable[[Context, Arguments], Chart]] = {
    "ladder": at_one_shape(charts.ladder),
    "bandwidth": bandwidth_chart,
    "roofline": at_one_shape(charts.roofline),
    "predicted": lambda context, _: charts.predicted(context.recorded, context.stages),
    "table": lambda context, args: charts.of_table(context.sweep, args.next("the table's name")),
}


def chart_block(context: Context, args: Arguments) -> str:
    name, kind = args.next("the chart's file name"), args.next("the chart's kind")
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*\.svg", name):
        raise ToolError(f"'{name}' is not a file name like ladder-f32.svg")
    chart = known("unknown chart", kind, CHARTS)(context, args)
    if context.charts.setdefault(name, chart) != chart:
        raise ToolError(f"two different charts are named {name}")
    return f"![{chart.alt}]({context.link(f'common/results/{name}')})"


# --- What is counted -------------------------------------------------------------------------------


class Column(NamedTuple):
    """A number of an entry: the sum of some of its counters, divided by another."""

    header: str
    counters: Tuple[str, ...]
    divisor: str = "one"
    digits: Optional[int] = None  # behind the point; None is two at most

    def cell(self, entry: Json) -> str:
        numbers = {**entry, **entry.get("metrics", {}), "one": 1, "bytes": quantities.tensor_bytes(entry)}
        missing = [name for name in (*self.counters, self.divisor) if name not in numbers]
        if missing:
            raise ToolError(f"what is recorded of {entry['stage']} has no '{missing[0]}': record again")
        found = [numbers[name] for name in self.counters]
        value = None if None in found else quantities.ratio(sum(found), numbers[self.divisor])
        if value is None:
            return NOTHING
        return short_text(value) if self.digits is None else f"{value:.{self.digits}f}"


class Counts(NamedTuple):
    """A recorded file with an entry for each variant and shape, and what a table may show of it."""

    name: str
    entries: Callable[[Context], List[Json]]
    missing: str
    columns: Dict[str, Column]

    def column(self, name: str) -> Column:
        return known(f"unknown {self.name} column", name, self.columns)

    def of(self, context: Context, stage: str, shape: Optional[Shape]) -> List[Json]:
        """The entries of a stage's variants, at one shape or at all."""
        found = [e for e in self.entries(context) if e["stage"] == stage and shape in (None, entry_shape(e))]
        if not found:
            raise ToolError(self.missing.format(f"{stage} at {shape}" if shape else stage))
        return found

    def value(self, context: Context, args: Arguments) -> str:
        """One number in prose."""
        column, stage = self.column(args.get("column")), context.stage(args.get("stage"))
        variant, shape = args.get("variant"), args.shape()
        if variant == "best":
            variant = context.recorded.one(stage, variant, shape)["variant"]
        for entry in self.of(context, stage, shape):
            if entry["variant"] == variant and column.cell(entry) != NOTHING:
                return column.cell(entry)
        raise ToolError(self.missing.format(f"{stage} {variant} at {shape}"))

    def table(self, context: Context, args: Arguments, with_shape: bool) -> Tuple[Table, List[Shape]]:
        """One stage's variants, at the shapes that are asked for or at all; several shapes are always shown."""
        stage = context.stage(args.next("the stage's name"))
        columns = [self.column(name) for name in args.list("columns") or self.columns]
        wanted = args.shapes() if "shapes" in args.named else [args.shape() if args.named else None]
        entries = [entry for shape in wanted for entry in self.of(context, stage, shape)]
        shapes = list(dict.fromkeys(map(entry_shape, entries)))
        left = ["variant", "shape"] if with_shape or len(shapes) > 1 else ["variant"]
        table = Table([*left, *(column.header for column in columns)], len(left))
        for entry in entries:
            cells = [column.cell(entry) for column in columns]
            if entry.get("status", "verified") != "verified":
                cells[-1] = table.footnote(entry["reason"])
            table.rows.append([*[entry["variant"], shape_text(entry_shape(entry))][: len(left)], *cells])
        return table, shapes


def entry_shape(entry: Json) -> Shape:
    return Shape(entry["dtype"], entry["rows"], entry["cols"])


COUNTERS = Counts(
    "counter",
    lambda context: context.profiles["entries"],
    "no profile of {}: see RECORDED_SHAPES in measure/profiling.py",
    {
        "dram_read": Column("DRAM read passes", (DRAM_READ,), "bytes"),
        "dram_write": Column("DRAM write passes", (DRAM_WRITE,), "bytes"),
        "load_sectors": Column("sectors per load request", (of_l1("sectors", "ld"),), of_l1("requests", "ld")),
        "load_wavefronts": Column("shared load wavefronts", (hardware_table.WAVEFRONTS.format("ld"),), digits=0),
        "store_wavefronts": Column("shared store wavefronts", (hardware_table.WAVEFRONTS.format("st"),), digits=0),
        "load_conflicts": Column("load bank conflicts", (hardware_table.CONFLICTS.format("ld"),), digits=0),
        "store_conflicts": Column("store bank conflicts", (hardware_table.CONFLICTS.format("st"),), digits=0),
        "registers": Column("registers per thread", (REGISTERS,), digits=0),
        "register_limit": Column("blocks an SM by registers", quantities.OCCUPANCY_LIMITS[:1], digits=0),
        "warps_active": Column("active warps (%)", (WARPS_ACTIVE,), digits=1),
        "dram_busy": Column("DRAM busy (%)", (DRAM_BUSY,), digits=1),
    },
)
SHARED_REQUESTS = ("counted_shared_load_requests", "counted_shared_store_requests")
COUNTED = Counts(
    "counted",
    lambda context: context.counted["counted"],
    "nothing counted for {}: see common/tools/measure/count.py",
    {
        "declared": Column("passes, declared", ("passes",)),
        "passes": Column("passes, counted", ("counted_passes",)),
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


def counters_block(context: Context, args: Arguments) -> str:
    table, _ = COUNTERS.table(context, args, with_shape=True)
    return table.text(profile_caption(context, "Nsight Compute, one launch, summed over the GPU"))


def counted_block(context: Context, args: Arguments) -> str:
    table, shapes = COUNTED.table(context, args, with_shape=False)
    where = f"{shape_text(shapes[0])}, " if len(shapes) == 1 else ""
    beside = f"[beside a GPU]({context.link('common/results/simulator.md')})"
    how = f"counted by the simulator on the PTX of nvcc {context.counted['nvcc']} ({beside})"
    return table.text(f"<sub>{where}softmax: {how}.</sub>")


def profile_caption(context: Context, what: str) -> str:
    header, machine = context.profiles["recorded"], context.profiles["machine"]
    return caption(header, machine, "./run profile --record", before=f"{what}: ")


def chosen(wanted: List[str], everything: Dict[str, Any]) -> List[Any]:
    """Those that are wanted, or all, in their own order."""
    unknown = [name for name in wanted if name not in everything]
    if unknown:
        raise ToolError(f"no '{unknown[0]}' in the profile; it has: {', '.join(everything)}")
    return [one for name, one in everything.items() if not wanted or name in wanted]


def profile_block(context: Context, args: Arguments) -> str:
    """What ./run profile shows of one stage: a row for each quantity, a column for each variant."""
    stage, shape = context.stage(args.next("the stage's name")), args.shape()
    entries = chosen(args.list("variants"), {e["variant"]: e for e in COUNTERS.of(context, stage, shape)})
    recorded = [q for q in quantities.QUANTITIES if all(q.name in entry["quantities"] for entry in entries)]
    table = Table(["declared · counted · measured", *(e["variant"] for e in entries)], 1)
    reasons = profiling.Reasons()
    for quantity in chosen(args.list("quantities"), {q.name.replace(" ", "_"): q for q in recorded}):
        rows = [profiling.row_of(quantity, entry) for entry in entries]
        if profiling.is_shown(quantity, rows):
            marks = [f"<sup>{mark}</sup>" if mark else "" for mark in map(reasons.mark, rows)]
            cells = [profiling.cell(row, True) + mark for row, mark in zip(rows, marks)]
            table.rows.append([f"{quantity.name}, {quantity.unit}", *cells])
    notes = [f"<sup>{mark}</sup> <sub>{text}</sub>" for mark, text in reasons.lettered()]
    how = f"counted by the simulator on {entries[0]['counted_rows']} rows, measured by Nsight Compute"
    return table.text(*notes, profile_caption(context, f"{shape_text(shape)}, softmax, {how}"))


# --- The simulator beside Nsight Compute -----------------------------------------------------------


def hardware_table_block(context: Context, args: Arguments) -> str:
    make = known("unknown part", args.next("the part"), {"agreement": agreement, "differences": difference_tables})
    recorded = hardware_table.load_recorded(context.root)
    problems = hardware_table.not_explained(recorded["entries"])
    if problems:
        raise ToolError(f"{len(problems)} times, first: {problems[0]}")
    return make(recorded, hardware_table.differences(recorded["entries"]))


def kernel_of(entry: Json) -> Tuple[str, str]:
    return entry["stage"], entry["variant"]


def agreement(recorded: Json, differing: List[hardware_table.Difference]) -> str:
    """On how many counters both agree, by variant."""
    entries = recorded["entries"]
    table = Table(["stage", "variant", "columns", "numbers", "the same", "different"], 3)
    for kernel in dict.fromkeys(map(kernel_of, entries)):
        cols: Dict[str, List[str]] = {}
        for entry in entries:
            if kernel_of(entry) == kernel:
                cols.setdefault(entry["dtype"], []).append(str(entry["cols"]))
        shapes = "; ".join(f"{dtype} {', '.join(some)}" for dtype, some in cols.items())
        numbers = sum(map(len, cols.values())) * len(hardware_table.COUNTERS)
        different = sum(kernel_of(d.entry) == kernel for d in differing)
        table.rows.append([*kernel, shapes, str(numbers), str(numbers - different), str(different)])
    numbers, different = len(entries) * len(hardware_table.COUNTERS), len(differing)
    sums = f"{numbers - different} of {numbers} numbers are the same, {different} differ."
    where = caption(recorded["recorded"], recorded["machine"], "python3 common/tools hardware_table")
    return f"{sums}\n\n{table.text(where)}"


def difference_tables(_: Json, differing: List[hardware_table.Difference]) -> str:
    """Where they differ: the reasons, each with the numbers that it explains."""
    parts = []
    for explanation in explanations.EXPLANATIONS:
        places: Dict[Tuple[str, str, str], List[str]] = {}
        for difference in (d for d in differing if d.explanation is explanation):
            entry, counter = difference.entry, difference.counter
            numbers = f"{entry['dtype']} {entry['cols']}: {entry['ncu'][counter]} / {entry['simulator'][counter]}"
            places.setdefault((*kernel_of(entry), counter), []).append(numbers)
        table = Table(["stage", "variant", "counter", "columns: ncu / simulator"], 4)
        table.rows += [[*place, "; ".join(numbers)] for place, numbers in places.items()]
        parts.append(f"**{explanation.name}.** {explanation.reason}\n\n{table.text()}")
    return "\n\n".join(parts) or "None."


# --- Values in prose -------------------------------------------------------------------------------


def result(context: Context, args: Arguments) -> Json:
    return context.recorded.one(context.stage(args.get("stage")), args.get("variant"), args.shape())


def copy(context: Context, args: Arguments) -> Json:
    return context.recorded.copy(args.shape())


def ratio_value(context: Context, args: Arguments) -> str:
    shape, times = args.shape(), []
    for key in ("a", "b"):
        stage, slash, variant = args.get(key).partition("/")
        if not slash:
            raise ToolError(f"argument '{key}=' is STAGE/VARIANT")
        times.append(context.recorded.one(context.stage(stage), variant, shape)["time_us"])
    value = times[0] / times[1]
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}" if value >= 1.95 else f"{value:.2f}"


def machine_value(context: Context, args: Arguments) -> str:
    fields = {name: str(value) for name, value in context.recorded.machine.items() if value is not None}
    return known("no machine field", args.get("field"), fields)


Maker = Callable[[Context, Arguments], str]
BLOCKS: Dict[str, Maker] = {
    "ladder": ladder_block,
    "stage": stage_block,
    "chart": chart_block,
    "counters": counters_block,
    "profile": profile_block,
    "counted": counted_block,
    "hardware_table": hardware_table_block,
    "sweep": sweep_block,
}
VALUES: Dict[str, Maker] = {
    "percent": lambda context, args: percent_text(result(context, args)["percent_of_copy"]),
    "time": lambda context, args: f"{time_text(result(context, args)['time_us'])} µs",
    "copy_time": lambda context, args: f"{time_text(copy(context, args)['time_us'])} µs",
    "copy_bandwidth": lambda context, args: f"{copy(context, args)['bandwidth_gb_s']:.0f} GB/s",
    "ratio": ratio_value,
    "counter": COUNTERS.value,
    "counted": COUNTED.value,
    "machine": machine_value,
}
