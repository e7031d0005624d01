"""What `generate` puts between markers: tables, charts and single numbers.

BLOCKS and VALUES at the end are the whole list; each entry takes the context and the marker's
arguments and returns Markdown. Every miss raises ToolError.
"""

from __future__ import annotations

import os
import re
from html import escape
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from command import ToolError
from measure import explanations, hardware_table, profiling, results
from measure.profiling import Reasons
from measure.quantities import DRAM_BUSY, DRAM_READ, DRAM_WRITE, OCCUPANCY_LIMITS, QUANTITIES, REGISTERS, WARPS_ACTIVE, of_l1
from measure.results import Json, Recorded, Shape
from pages import charts
from pages.charts import Chart, shape_text
from text import percent_text, short_text, time_text

NOTHING = "–"


# --- The context of a marker -----------------------------------------------------------------------


class Arguments:
    """The words of one marker: positional ones, and key=value ones that must all be used."""

    def __init__(self, text: str) -> None:
        words = text.split()
        self.positional = [word for word in words if "=" not in word]
        self.named: Dict[str, str] = {}
        for key, value in (word.split("=", 1) for word in words if "=" in word):
            if key in self.named or not value:
                raise ToolError(f"argument '{key}=' is given twice or empty")
            self.named[key] = value

    def next(self, what: str) -> str:
        if not self.positional:
            raise ToolError(f"{what} is missing")
        return self.positional.pop(0)

    def get(self, key: str) -> str:
        if key not in self.named:
            raise ToolError(f"argument '{key}=' is missing")
        return self.named.pop(key)

    def number(self, key: str) -> int:
        text = self.get(key)
        if not re.fullmatch("[0-9]{1,15}", text):
            raise ToolError(f"'{key}={text}' is not a number")
        return int(text)

    def list(self, key: str) -> List[str]:
        """A comma list, empty when the key is not given."""
        return self.named.pop(key).split(",") if key in self.named else []

    def shape(self) -> Shape:
        dtype, rows, cols = self.get("dtype"), self.number("rows"), self.number("cols")
        return results.parse_shape(f"{dtype}:{rows}x{cols}")

    def finish(self) -> None:
        left = self.positional + [f"{key}=" for key in self.named]
        if left:
            raise ToolError(f"unknown argument: {', '.join(left)}")


class Context:
    """What a block may ask for: the stages, the recorded numbers, and the page it stands on."""

    def __init__(self, root: Path, recorded: Callable[[], Recorded], sweep: Callable[[], Recorded]) -> None:
        self.root = root
        self.stages = results.stage_names(root)
        self.page = root / "README.md"
        self.charts: Dict[Path, Chart] = {}
        self._load, self._load_sweep = recorded, sweep
        self._recorded: Optional[Recorded] = None
        self._sweep: Optional[Recorded] = None
        self._profiles: Optional[Json] = None
        self._counted: Optional[Json] = None

    @property
    def recorded(self) -> Recorded:
        # Loaded on first use, so that pages without numbers need no results file.
        if self._recorded is None:
            self._recorded = self._load()
        return self._recorded

    @property
    def sweep(self) -> Recorded:
        if self._sweep is None:
            self._sweep = self._load_sweep()
        return self._sweep

    @property
    def profiles(self) -> Json:
        """What ./run profile --record wrote for the same GPU."""
        if self._profiles is None:
            path = self.recorded.path
            self._profiles = results.load_profiles(path.with_name(f"{path.stem}-profile.json"))
        return self._profiles

    def profiled(self, stage: str, shape: Optional[Shape]) -> List[Json]:
        """The profiles of a stage's variants, at one shape or at all."""
        entries = [e for e in self.profiles["entries"] if e["stage"] == stage]
        found = [e for e in entries if shape is None or entry_shape(e) == shape]
        if not found:
            raise ToolError(f"no profile of {stage}{f' at {shape}' if shape else ''}: see RECORDED_SHAPES in measure/profiling.py")
        return found

    @property
    def counted(self) -> Json:
        """What the simulator counted: common/results/simulator.json."""
        if self._counted is None:
            self._counted = results.load_counted(self.root / "common/results/simulator.json")
        return self._counted

    def link(self, path: Path) -> str:
        """Relative link from the page to a file."""
        return Path(os.path.relpath(path, self.page.parent)).as_posix()

    def stage(self, name: str) -> str:
        if name not in self.stages:
            raise ToolError(f"no such stage: '{name}'; there are: {', '.join(self.stages)}")
        return name

    def chosen_stages(self, args: Arguments) -> List[str]:
        return [self.stage(name) for name in args.list("stages")] or self.stages

    def origin(self, header: Json, machine: Json) -> Tuple[str, str]:
        """Where numbers come from: (GPU, driver and CUDA; date and commit)."""
        driver = f", driver {machine['driver_version']}" if machine.get("driver_version") else ""
        changes = " with local changes" if header["dirty"] else ""
        where = f"{machine['gpu']}{driver}, CUDA {machine.get('nvcc') or machine.get('cuda_runtime')}"
        return where, f"recorded {header['date_utc'][:10]}{{}} at commit {header['commit'][:10]}{changes}"

    def caption(self, shape: str) -> str:
        where, when = self.origin(self.recorded.recorded, self.recorded.machine)
        tool = " by `python3 common/tools record`"
        return f"<sub>{where}, {shape}softmax, {charts.conditions(self.recorded)}; {when.format(tool)}.</sub>"


def table(header: List[str], rows: List[List[str]], left: int) -> str:
    """A Markdown table whose first `left` columns are aligned left, the rest right."""
    rule = ["---"] * left + ["---:"] * (len(header) - left)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, rule, *rows])


class Footnotes:
    """Reasons below a table, lettered in order of appearance, each once."""

    def __init__(self) -> None:
        self.reasons: List[str] = []

    def mark(self, reason: str) -> str:
        if reason not in self.reasons:
            self.reasons.append(reason)
        return f"{NOTHING}<sup>{self.letter(reason)}</sup>"

    def letter(self, reason: str) -> str:
        return "abcdefghijklmnopqrstuvwxyz"[self.reasons.index(reason) % 26]

    def lines(self) -> List[str]:
        return [f"<sup>{self.letter(r)}</sup> <sub>not applicable: {escape(r)}</sub>" for r in self.reasons]


def below(parts: List[str]) -> str:
    """A table, and the lines under it as one paragraph."""
    return parts[0] + "\n\n" + "<br>\n".join(parts[1:])


# --- Blocks ----------------------------------------------------------------------------------------


def measured_cells(result: Json, bold: bool, notes: Footnotes) -> List[str]:
    """passes, time, GB/s, percent of copy; dashes with a footnote where not applicable."""
    if result["time_us"] is None:
        return [NOTHING, NOTHING, NOTHING, notes.mark(result["reason"])]
    cells = [
        short_text(result["passes"]),
        time_text(result["time_us"]),
        f"{result['bandwidth_gb_s']:.0f}",
        f"{result['percent_of_copy']:.1f}",
    ]
    return [f"**{cell}**" for cell in cells] if bold else cells


MEASURED = ["passes", "time (µs)", "effective GB/s", "% of copy"]


def complete(context: Context, shape: Shape, stages: List[str]) -> None:
    """Raises ToolError unless the recording has every stage, and no stage that is gone."""
    recorded = {r["stage"] for r in context.recorded.at(shape)} - {""}
    if set(stages) - recorded or recorded - set(context.stages):
        odd = sorted((set(stages) - recorded) | (recorded - set(context.stages)))
        raise ToolError(f"stages and recorded results differ in {', '.join(odd)}: record again")


def ladder_block(context: Context, args: Arguments) -> str:
    shape = args.shape()
    complete(context, shape, context.stages)
    notes, rows = Footnotes(), []
    for stage in context.stages:
        best = context.recorded.best(stage, shape)
        link = f"[{stage}]({context.link(context.root / stage)}/)"
        for result in context.recorded.variants(stage, shape):
            name = f"**{result['variant']}**" if result is best else result["variant"]
            rows.append([link, name, *measured_cells(result, result is best, notes)])
            link = ""
    ceiling = measured_cells(context.recorded.copy(shape), False, notes)
    rows.append(["copy", "the ceiling: one read, one write", *ceiling])
    text = table(["stage", "variant", *MEASURED], rows, 2)
    return below([text, *notes.lines(), context.caption(f"{shape_text(shape)}, ")])


def stage_block(context: Context, args: Arguments) -> str:
    stage = context.stage(args.next("the stage's name"))
    many = [results.parse_shape(text) for text in args.list("shapes")]
    notes, rows = Footnotes(), []
    if not many:
        shape = args.shape()
        best = context.recorded.best(stage, shape)
        for result in context.recorded.variants(stage, shape):
            name = f"**{result['variant']}**" if result is best else result["variant"]
            rows.append([name, *measured_cells(result, result is best, notes)])
        text = table(["variant", *MEASURED], rows, 1)
        return below([text, *notes.lines(), context.caption(f"{shape_text(shape)}, ")])

    columns = [context.recorded.variants(stage, shape) for shape in many]
    bests = [context.recorded.best(stage, shape) for shape in many]
    for variant in dict.fromkeys(r["variant"] for column in columns for r in column):
        cells, passes = [], []
        for column, best, shape in zip(columns, bests, many):
            here = [r for r in column if r["variant"] == variant]
            if not here:
                raise ToolError(f"no result of {stage} {variant} at {shape}: record again")
            if here[0]["time_us"] is None:
                cells.append(notes.mark(here[0]["reason"]))
                continue
            passes.append(here[0]["passes"])
            percent = f"{here[0]['percent_of_copy']:.1f}"
            cells.append(f"**{percent}**" if here[0] is best else percent)
        ends = [short_text(value) for value in (min(passes), max(passes))] if passes else [NOTHING]
        rows.append([variant, " to ".join(dict.fromkeys(ends)), *cells])
    header = ["variant", "passes", *(f"{shape_text(shape)}, % of copy" for shape in many)]
    return below([table(header, rows, 1), *notes.lines(), context.caption("")])


def ladder_chart(context: Context, args: Arguments) -> Chart:
    shape, stages = args.shape(), context.chosen_stages(args)
    complete(context, shape, stages)
    return charts.ladder(context.recorded, shape, stages)


def bandwidth_chart(context: Context, args: Arguments) -> Chart:
    dtype, rows, stages = args.get("dtype"), args.number("rows"), context.chosen_stages(args)
    recorded = context.recorded
    here = {r["cols"] for r in recorded.results if (r["dtype"], r["rows"]) == (dtype, rows)}
    # Odd widths were recorded to compare alignment; on this axis they would be a kink without a cause.
    cols = [int(text) for text in args.list("cols")] or sorted(c for c in here if c & (c - 1) == 0)
    if not cols:
        raise ToolError(f"nothing recorded for {dtype} with {rows} rows in {recorded.path.name}")
    shapes = [Shape(dtype, rows, col) for col in cols]
    for shape in shapes:
        complete(context, shape, stages)
    return charts.bandwidth(recorded, shapes, stages, context.stages)


def roofline_chart(context: Context, args: Arguments) -> Chart:
    shape = args.shape()
    complete(context, shape, context.stages)
    return charts.roofline(context.recorded, shape, context.stages)


def predicted_chart(context: Context, _: Arguments) -> Chart:
    return charts.predicted(context.recorded, context.stages)


def table_chart(context: Context, args: Arguments) -> Chart:
    return charts.of_table(context.sweep, args.next("the table's name"))


CHARTS: Dict[str, Callable[[Context, Arguments], Chart]] = {
    "ladder": ladder_chart,
    "bandwidth": bandwidth_chart,
    "roofline": roofline_chart,
    "predicted": predicted_chart,
    "table": table_chart,
}


def chart_block(context: Context, args: Arguments) -> str:
    name, kind = args.next("the chart's file name"), args.next("the chart's kind")
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*\.svg", name):
        raise ToolError(f"'{name}' is not a file name like ladder-f32.svg")
    if kind not in CHARTS:
        raise ToolError(f"unknown chart '{kind}'; there are: {', '.join(CHARTS)}")
    chart = CHARTS[kind](context, args)
    path = context.root / "common/results" / name
    if context.charts.setdefault(path, chart) != chart:
        raise ToolError(f"two different charts are named {name}")
    return f"![{chart.alt}]({context.link(path)})"


class CounterColumn(NamedTuple):
    header: str
    value: Callable[[Json, float], Optional[float]]  # (metrics, bytes of one pass) → number
    text: Callable[[float], str]


def metric(name: str) -> Callable[[Json, float], Optional[float]]:
    return lambda metrics, _: metrics[name]


def sectors_per_request(direction: str) -> Callable[[Json, float], Optional[float]]:
    """32-byte sectors per warp instruction; nothing for a kernel without such accesses."""
    sectors, requests = of_l1("sectors", direction), of_l1("requests", direction)

    def value(metrics: Json, _: float) -> Optional[float]:
        if metrics[sectors] is None or not metrics[requests]:
            return None
        return metrics[sectors] / metrics[requests]

    return value


def passes_of(name: str) -> Callable[[Json, float], Optional[float]]:
    return lambda metrics, size: None if metrics[name] is None else metrics[name] / size


def whole(value: float) -> str:
    return f"{value:.0f}"


def tenth(value: float) -> str:
    return f"{value:.1f}"


COUNTER_COLUMNS: Dict[str, CounterColumn] = {
    "dram_read": CounterColumn("DRAM read passes", passes_of(DRAM_READ), short_text),
    "dram_write": CounterColumn("DRAM write passes", passes_of(DRAM_WRITE), short_text),
    "load_sectors": CounterColumn("sectors per load request", sectors_per_request("ld"), short_text),
    "store_sectors": CounterColumn("sectors per store request", sectors_per_request("st"), short_text),
    "load_wavefronts": CounterColumn("shared load wavefronts", metric(hardware_table.WAVEFRONTS.format("ld")), whole),
    "store_wavefronts": CounterColumn("shared store wavefronts", metric(hardware_table.WAVEFRONTS.format("st")), whole),
    "sass_load_wavefronts": CounterColumn("of the machine code", metric(hardware_table.SASS_WAVEFRONTS.format("ld")), whole),
    "sass_store_wavefronts": CounterColumn("of the machine code", metric(hardware_table.SASS_WAVEFRONTS.format("st")), whole),
    "load_conflicts": CounterColumn("load bank conflicts", metric(hardware_table.CONFLICTS.format("ld")), whole),
    "store_conflicts": CounterColumn("store bank conflicts", metric(hardware_table.CONFLICTS.format("st")), whole),
    "registers": CounterColumn("registers per thread", metric(REGISTERS), whole),
    "register_limit": CounterColumn("blocks an SM by registers", metric(OCCUPANCY_LIMITS[0]), whole),
    "shared_limit": CounterColumn("blocks an SM by shared memory", metric(OCCUPANCY_LIMITS[1]), whole),
    "warps_active": CounterColumn("active warps (%)", metric(WARPS_ACTIVE), tenth),
    "dram_busy": CounterColumn("DRAM busy (%)", metric(DRAM_BUSY), tenth),
}
DEFAULT_COUNTER_COLUMNS = [
    "dram_read", "dram_write", "load_sectors", "store_sectors", "load_wavefronts", "store_wavefronts",
    "load_conflicts", "store_conflicts", "registers", "warps_active",
]


def counter_column(name: str) -> CounterColumn:
    if name not in COUNTER_COLUMNS:
        raise ToolError(f"unknown counter column '{name}'; there are: {', '.join(COUNTER_COLUMNS)}")
    return COUNTER_COLUMNS[name]


def counter_cell(column: CounterColumn, entry: Json) -> str:
    size = entry["rows"] * entry["cols"] * results.ELEMENT_BYTES[entry["dtype"]]
    try:
        value = column.value(entry["metrics"], size)
    except KeyError as error:
        raise ToolError(f"the profiles have no {error}: record again") from error
    return NOTHING if value is None else column.text(value)


def entry_shape(entry: Json) -> Shape:
    return Shape(entry["dtype"], entry["rows"], entry["cols"])


def counters_block(context: Context, args: Arguments) -> str:
    stage = context.stage(args.next("the stage's name"))
    columns = [counter_column(name) for name in args.list("columns") or DEFAULT_COUNTER_COLUMNS]
    entries = context.profiled(stage, args.shape() if args.named else None)
    rows = [
        [e["variant"], shape_text(entry_shape(e)), *(counter_cell(column, e) for column in columns)] for e in entries
    ]
    header = ["variant", "shape", *(column.header for column in columns)]
    return below([table(header, rows, 2), profile_caption(context, "Nsight Compute, one launch, summed over the GPU")])


def profile_caption(context: Context, what: str) -> str:
    where, when = context.origin(context.profiles["recorded"], context.profiles["machine"])
    tool = f" by `./run profile --record` with ncu {context.profiles['recorded']['ncu']}"
    return f"<sub>{what}: {where}; {when.format(tool)}.</sub>"


def chosen_of(everything: Sequence[Any], wanted: List[str], key: Callable[[Any], str]) -> List[Any]:
    """Those that are wanted, or all, in their own order."""
    keys = [key(one) for one in everything]
    unknown = [name for name in wanted if name not in keys]
    if unknown:
        raise ToolError(f"no '{unknown[0]}' in the profile; it has: {', '.join(keys)}")
    return [one for one, name in zip(everything, keys) if not wanted or name in wanted]


def profile_block(context: Context, args: Arguments) -> str:
    """What ./run profile shows of one stage: a row for each quantity, a column for each variant."""
    stage, shape = context.stage(args.next("the stage's name")), args.shape()
    entries = context.profiled(stage, shape)
    chosen = chosen_of(entries, args.list("variants"), lambda entry: entry["variant"])
    rows, reasons = [], Reasons()
    for quantity in chosen_of(QUANTITIES, args.list("quantities"), lambda quantity: quantity.name.replace(" ", "_")):
        try:
            found = [profiling.row_of(quantity, entry) for entry in chosen]
        except KeyError as error:
            raise ToolError(f"the profiles have no {error}: record again") from error
        if profiling.is_shown(quantity, found):
            marks = [reasons.mark(row) for row in found]
            cells = [profiling.cell(row, True) + (f"<sup>{mark}</sup>" if mark else "") for row, mark in zip(found, marks)]
            rows.append([f"{quantity.name}, {quantity.unit}", *cells])
    header = ["declared · counted · measured", *(e["variant"] for e in chosen)]
    notes = [f"<sup>{letter}</sup> <sub>{text}</sub>" for letter, text in reasons.lettered()]
    what = f"{shape_text(shape)}, softmax, counted by the simulator on {chosen[0]['counted_rows']} rows, measured by Nsight Compute"
    return below([table(header, rows, 1), *notes, profile_caption(context, what)])


class CountedColumn(NamedTuple):
    header: str
    value: Callable[[Json], float]


def counted(name: str) -> Callable[[Json], float]:
    return lambda entry: entry[f"counted_{name}"]


def counted_per_row(name: str) -> Callable[[Json], float]:
    return lambda entry: entry[f"counted_{name}"] / entry["rows"]


COUNTED_COLUMNS: Dict[str, CountedColumn] = {
    "declared": CountedColumn("passes, declared", lambda entry: entry["passes"]),
    "passes": CountedColumn("passes, counted", counted("passes")),
    "load_sectors": CountedColumn("sectors per load request", counted("sectors_per_load_request")),
    "store_sectors": CountedColumn("sectors per store request", counted("sectors_per_store_request")),
    "load_requests": CountedColumn("load requests per row", counted_per_row("global_load_requests")),
    "shared_requests": CountedColumn(
        "shared-memory requests per row",
        lambda e: (e["counted_shared_load_requests"] + e["counted_shared_store_requests"]) / e["rows"],
    ),
    "wavefronts": CountedColumn("shared wavefronts per row", counted_per_row("shared_wavefronts")),
    "conflicts": CountedColumn("bank conflicts per row", counted_per_row("bank_conflicts")),
    "shuffles": CountedColumn("shuffles per row", counted_per_row("shuffles")),
    "barriers": CountedColumn("barriers per row", counted_per_row("block_barriers")),
    "special": CountedColumn("special functions per element", counted("special_functions_per_element")),
}


def counted_column(name: str) -> CountedColumn:
    if name not in COUNTED_COLUMNS:
        raise ToolError(f"unknown counted column '{name}'; there are: {', '.join(COUNTED_COLUMNS)}")
    return COUNTED_COLUMNS[name]


def counted_cell(column: CountedColumn, entry: Json) -> str:
    try:
        return short_text(column.value(entry))
    except (KeyError, TypeError) as error:  # passes may be null
        raise ToolError(f"the counts lack a number ({error}): count again") from error


def counted_entries(context: Context, stage: str, shape: Shape) -> List[Json]:
    found = [e for e in context.counted["counted"] if e["stage"] == stage and entry_shape(e) == shape]
    if not found:
        raise ToolError(f"nothing counted for {stage} at {shape}: see common/tools/measure/count.py")
    return found


def counted_block(context: Context, args: Arguments) -> str:
    """What the simulator counted: one stage's variants at one shape or, below each other, at several."""
    stage = context.stage(args.next("the stage's name"))
    columns = [counted_column(name) for name in args.list("columns") or COUNTED_COLUMNS]
    shapes = [results.parse_shape(text) for text in args.list("shapes")] or [args.shape()]
    notes, rows = Footnotes(), []
    for shape in shapes:
        for entry in counted_entries(context, stage, shape):
            if entry["status"] == "verified":
                cells = [counted_cell(column, entry) for column in columns]
            else:
                cells = [NOTHING] * (len(columns) - 1) + [notes.mark(entry["reason"])]
            rows.append([entry["variant"], *([shape_text(shape)] if len(shapes) > 1 else []), *cells])
    header = ["variant", *(["shape"] if len(shapes) > 1 else []), *(column.header for column in columns)]
    where = "" if len(shapes) > 1 else f"{shape_text(shapes[0])}, "
    beside = f"[beside a GPU]({context.link(context.root / 'common/results/simulator.md')})"
    how = f"counted by the simulator on the PTX of nvcc {context.counted['nvcc']} ({beside})"
    caption = f"<sub>{where}softmax: {how}.</sub>"
    return below([table(header, rows, 2 if len(shapes) > 1 else 1), *notes.lines(), caption])


def hardware_table_block(context: Context, args: Arguments) -> str:
    """The simulator against Nsight Compute: `agreement` per variant, or the `differences` and their reasons."""
    part = args.next("the part")
    recorded = hardware_table.load_recorded(context.root)
    problems = hardware_table.not_explained(recorded["entries"])
    if problems:
        raise ToolError(f"{len(problems)} times, first: {problems[0]}")
    differing = hardware_table.differences(recorded["entries"])
    if part == "agreement":
        return agreement(context, recorded, differing)
    if part == "differences":
        return difference_table(differing)
    raise ToolError(f"unknown part '{part}'; there are: agreement, differences")


def agreement(context: Context, recorded: Json, differing: List[hardware_table.Difference]) -> str:
    rows = []
    entries = recorded["entries"]
    for stage, variant in dict.fromkeys((e["stage"], e["variant"]) for e in entries):
        mine = [e for e in entries if (e["stage"], e["variant"]) == (stage, variant)]
        shapes = []
        for dtype in dict.fromkeys(e["dtype"] for e in mine):
            shapes.append(f"{dtype} " + ", ".join(str(e["cols"]) for e in mine if e["dtype"] == dtype))
        different = sum((d.entry["stage"], d.entry["variant"]) == (stage, variant) for d in differing)
        cells = len(mine) * len(hardware_table.COUNTERS)
        rows.append([stage, variant, "; ".join(shapes), str(cells), str(cells - different), str(different)])
    cells = len(entries) * len(hardware_table.COUNTERS)
    sums = f"{cells - len(differing)} of {cells} numbers are the same, {len(differing)} differ."
    where, when = context.origin(recorded["recorded"], recorded["machine"])
    tool = f" by `python3 common/tools hardware_table` with ncu {recorded['recorded']['ncu']}"
    header = ["stage", "variant", "columns", "numbers", "the same", "different"]
    return f"{sums}\n\n" + below([table(header, rows, 3), f"<sub>{where}; {when.format(tool)}.</sub>"])


def difference_table(differing: List[hardware_table.Difference]) -> str:
    """A list of the reasons, each with the numbers that it explains."""
    parts = []
    for explanation in explanations.EXPLANATIONS:
        mine = [d for d in differing if d.explanation is explanation]
        rows = []
        for stage, variant, counter in dict.fromkeys((d.entry["stage"], d.entry["variant"], d.counter) for d in mine):
            cells = [
                f"{e['dtype']} {e['cols']}: {e['ncu'][counter]} / {e['simulator'][counter]}"
                for e in (d.entry for d in mine if d.counter == counter)
                if (e["stage"], e["variant"]) == (stage, variant)
            ]
            rows.append([stage, variant, counter, "; ".join(cells)])
        heading = f"**{explanation.name}.** {explanation.reason}"
        parts.append(heading + "\n\n" + table(["stage", "variant", "counter", "columns: ncu / simulator"], rows, 4))
    return "\n\n".join(parts) or "None."


# --- Values in prose -------------------------------------------------------------------------------


def result_value(text: Callable[[Json], str]) -> Callable[[Context, Arguments], str]:
    def value(context: Context, args: Arguments) -> str:
        stage, variant = context.stage(args.get("stage")), args.get("variant")
        return text(context.recorded.one(stage, variant, args.shape()))

    return value


def copy_value(text: Callable[[Json], str]) -> Callable[[Context, Arguments], str]:
    return lambda context, args: text(context.recorded.copy(args.shape()))


def ratio_value(context: Context, args: Arguments) -> str:
    shape, times = args.shape(), []
    for key in ("a", "b"):
        stage, slash, variant = args.get(key).partition("/")
        if not slash:
            raise ToolError(f"argument '{key}=' is STAGE/VARIANT")
        times.append(context.recorded.one(context.stage(stage), variant, shape)["time_us"])
    ratio = times[0] / times[1]
    return f"{ratio:.0f}" if ratio >= 9.95 else f"{ratio:.1f}" if ratio >= 1.95 else f"{ratio:.2f}"


def counter_value(context: Context, args: Arguments) -> str:
    column, stage = counter_column(args.get("column")), context.stage(args.get("stage"))
    variant, shape = args.get("variant"), args.shape()
    if variant == "best":
        variant = context.recorded.one(stage, variant, shape)["variant"]
    for entry in context.profiled(stage, shape):
        if entry["variant"] == variant:
            return counter_cell(column, entry)
    raise ToolError(f"no profile of {stage} {variant} at {shape}: ./run profile --record")


def counted_value(context: Context, args: Arguments) -> str:
    column, stage = counted_column(args.get("column")), context.stage(args.get("stage"))
    variant, shape = args.get("variant"), args.shape()
    for entry in counted_entries(context, stage, shape):
        if entry["variant"] == variant and entry["status"] == "verified":
            return counted_cell(column, entry)
    raise ToolError(f"nothing counted for {stage} {variant} at {shape}")


def machine_value(context: Context, args: Arguments) -> str:
    field, machine = args.get("field"), context.recorded.machine
    if machine.get(field) is None:
        raise ToolError(f"no machine field '{field}'; there are: {', '.join(machine)}")
    return str(machine[field])


# --- Published tables ------------------------------------------------------------------------------


PEER_NAMES = {"cudnn": "cuDNN", "pytorch": "PyTorch", "triton": "Triton", "quack": "quack", "liger": "Liger"}


NOISY, INEXACT = "\\~", "\\*"  # marks behind a percentage


def is_inexact(result: Json) -> bool:
    """Right only by the wider tolerance that peers have."""
    return (result["max_error"] or 0) > 1


def swept_cell(result: Optional[Json], leads: bool) -> str:
    """Percent of the copy's speed, marks, and the variant."""
    if result is None:
        return NOTHING
    percent = f"**{result['percent_of_copy']:.1f}**" if leads else f"{result['percent_of_copy']:.1f}"
    return f"{percent}{NOISY * result['noisy']}{INEXACT * is_inexact(result)} {result['variant']}"


def sweep_block(context: Context, args: Arguments) -> str:
    sweep, name = context.sweep, args.next("the table's name")
    tables = {table["name"]: table for table in sweep.tables}
    if name not in tables:
        raise ToolError(f"no table '{name}' in {sweep.path.name}; there are: {', '.join(tables)}")
    shapes = [results.parse_shape(text) for text in tables[name]["shapes"]]
    peers = [p for p in PEER_NAMES if any(r["stage"] == p and r["time_us"] for s in shapes for r in sweep.at(s))]
    rows = []
    for shape in shapes:
        found = sweep.at(shape)
        stage = results.fastest(r for r in found if r["kind"] == "stage")
        cells = [stage, *(results.fastest(r for r in found if r["stage"] == peer) for peer in peers)]
        leader = results.fastest([r for r in cells if r is not None])
        link = f"[{stage['stage'][:2]}]({context.link(context.root / context.stage(stage['stage']))}/)" if stage else ""
        first, *others = (swept_cell(cell, cell is leader) for cell in cells)
        rows.append([shape_text(shape), time_text(sweep.copy(shape)["time_us"]), f"{link} {first}".strip(), *others])
    header = ["shape", "copy (µs)", "best stage, % of copy", *(f"{PEER_NAMES[peer]}, % of copy" for peer in peers)]
    text = table(header, rows, 1)
    notes = []
    if NOISY in text:
        notes.append(f"<sub>{NOISY} noisy: the rounds, or the samples of one, differ by more than they should</sub>")
    if INEXACT in text:
        factor = sweep.settings["peer_tolerance"]
        notes.append(f"<sub>{INEXACT} errs by more than a stage may, by less than {factor:g} times that</sub>")
    where, when = context.origin(sweep.recorded, sweep.machine)
    versions = [f"{PEER_NAMES[p]} {sweep.machine.get('torch' if p == 'pytorch' else p)}" for p in peers]
    settings = sweep.settings
    how = f"{settings['l2']} L2, {settings['rounds']} rounds of {settings['repeats']} samples"
    tool = " by `./run sweep`"
    caption = f"<sub>{', '.join([where, *versions])}, softmax, {how}; {when.format(tool)}.</sub>"
    return below([text, *notes, caption])


BLOCKS: Dict[str, Callable[[Context, Arguments], str]] = {
    "ladder": ladder_block,
    "stage": stage_block,
    "chart": chart_block,
    "counters": counters_block,
    "profile": profile_block,
    "counted": counted_block,
    "hardware_table": hardware_table_block,
    "sweep": sweep_block,
}

VALUES: Dict[str, Callable[[Context, Arguments], str]] = {
    "percent": result_value(lambda r: percent_text(r["percent_of_copy"])),
    "time": result_value(lambda r: f"{time_text(r['time_us'])} µs"),
    "bandwidth": result_value(lambda r: f"{r['bandwidth_gb_s']:.0f} GB/s"),
    "passes": result_value(lambda r: short_text(r["passes"])),
    "spread": result_value(lambda r: f"{r['spread_percent']:.1f} %"),
    "name": result_value(lambda r: f"`{r['variant']}`"),
    "copy_time": copy_value(lambda r: f"{time_text(r['time_us'])} µs"),
    "copy_bandwidth": copy_value(lambda r: f"{r['bandwidth_gb_s']:.0f} GB/s"),
    "ratio": ratio_value,
    "counter": counter_value,
    "counted": counted_value,
    "machine": machine_value,
}
