"""The content of each chart: its numbers, labels and captions, taken from recorded results. draw.py draws them.

A Chart is plain data, so that `generate --check` can tell without matplotlib whether a picture shows these
numbers: see digest().

Units: time in µs, bandwidth in GB/s (10^9 bytes/s), elements in 10^9 per second.
"""

import hashlib
import itertools
import json
import math
from pathlib import Path
from typing import NamedTuple, Sequence

from command import ToolError
from measure import choices, results
from measure.results import ELEMENT_BYTES, Json, Recorded, Shape, fastest, parse_shape
from text import percent_text, short_text, time_text

# Special functions (exponential, reciprocal, logarithm) that one SM delivers in a clock: "Throughput of
# Native Arithmetic Instructions" in the CUDA C++ Programming Guide, the same from 7.5 to 9.0 and for 12.0.
SPECIAL_FUNCTIONS_PER_CLOCK = 16
# The libraries that a sweep may hold, in the order of their looks.
PEERS = ("pytorch", "triton", "cudnn", "quack", "liger", "flashinfer")


class Chart(NamedTuple):
    kind: str  # the function of draw.py
    title: str
    subtitle: str  # GPU, conditions, date
    note: str  # how to read it, a line or two
    alt: str  # for those who do not see it
    data: Json


def digest(chart: Chart) -> str:
    """A hash of everything that the chart says; the same for the same numbers on every machine."""
    text = json.dumps(chart._asdict(), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def signed(svg: str, chart: Chart) -> str:
    """The SVG with a last line that says which Chart it shows, and that it has not been changed since."""
    drawing = hashlib.sha256(svg.encode()).hexdigest()
    return f"{svg}<!-- numbers {digest(chart)} drawing {drawing} -->\n"


def shows(path: Path, chart: Chart) -> bool:
    """Whether the file is an unchanged drawing of the chart."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return text == signed(text[: text.rfind("<!-- numbers ")], chart)


# --- Numbers as text -------------------------------------------------------------------------------


def shape_text(shape: Shape) -> str:
    return f"{shape.dtype} {shape.rows} × {shape.cols}"


def conditions(recorded: Recorded) -> str:
    return f"{recorded.settings['l2']} L2, medians of {recorded.settings['repeats']} samples"


def subtitle(recorded: Recorded) -> str:
    return f"{recorded.machine['gpu']}, {conditions(recorded)}, recorded {recorded.recorded['date_utc'][:10]}"


# --- The charts ------------------------------------------------------------------------------------


def ladder(recorded: Recorded, shape: Shape, stages: Sequence[str]) -> Chart:
    """Each stage's best variant in percent of the copy, with marks for its other variants."""
    bars = []
    for stage in stages:
        bar: Json = {"stage": stage, "variant": "", "percent": None, "time": "", "others": []}
        best = recorded.best(stage, shape)
        if best:
            bar["variant"], bar["percent"] = best["variant"], best["percent_of_copy"]
            bar["time"] = f"{time_text(best['time_us'])} µs"
            timed = (r for r in recorded.variants(stage, shape) if r["time_us"] is not None)
            bar["others"] = [r["percent_of_copy"] for r in timed if r is not best]
        bars.append(bar)
    copy = recorded.copy(shape)
    copy_label = f"a plain copy: {time_text(copy['time_us'])} µs, {copy['bandwidth_gb_s']:.0f} GB/s"
    title = f"Softmax, {shape_text(shape)}: speed in percent of a plain copy"
    alt = "; ".join(f"{bar['stage']} {percent_text(bar['percent'])}" for bar in bars if bar["percent"] is not None)
    note = "Bar: the stage's best variant. Mark on it: another variant."
    return Chart("ladder", title, subtitle(recorded), note, f"{title}. {alt}", {"copy": copy_label, "bars": bars})


def change(recorded: Recorded, shape: Shape, stage: str, stages: Sequence[str]) -> Chart:
    """The change that a stage makes at a shape: the best variant of all stages before it, its own best, the library and the copy."""
    here = {r["stage"] for r in recorded.at(shape)}  # some shapes are recorded from a later stage on
    before = [recorded.best(name, shape) for name in stages[: stages.index(stage)] if name in here]
    bars = []
    for best in (fastest(best for best in before if best), recorded.best(stage, shape)):
        if best:
            name = f"{best['stage'][:2]} {best['variant']}"
            bars.append({"name": name, "percent": best["percent_of_copy"], "now": best["stage"] == stage})
    if not bars or not bars[-1]["now"]:
        raise ToolError(f"no variant of {stage} is applicable at {shape}")
    if results.DISPATCH in here and (library := recorded.best(results.DISPATCH, shape)):
        bars.append({"name": "the library", "percent": library["percent_of_copy"], "now": False})
    title = f"% of the copy's speed, {shape_text(shape)}"
    alt = "; ".join([f"{bar['name']} {percent_text(bar['percent'])}" for bar in bars] + ["the copy 100 %"])
    return Chart("change", title, subtitle(recorded), "", f"{title}. {alt}", {"bars": bars})


def bandwidth(
    recorded: Recorded, shapes: Sequence[Shape], stages: Sequence[str], all_stages: Sequence[str] = ()
) -> Chart:
    """Effective bandwidth over the number of columns: the stages, and below them the peers, if there are any.

    The shapes have one dtype and differ in cols. A stage or peer is shown by its fastest variant at each shape;
    a point is missing where it has none. `all_stages` is given where `stages` is a choice of them: a
    stage looks the same in every chart.
    """
    shapes = sorted(shapes, key=lambda shape: shape.cols)

    def line(label: str, look: int, names: Sequence[str]) -> Json:
        bests = (fastest(r for r in recorded.at(shape) if r["stage"] in names) for shape in shapes)
        found = [r for r in bests if r]
        if found and found[-1]["cols"] < shapes[-1].cols:
            label += f", to {found[-1]['cols']}"
        points = [[r["cols"], r["bandwidth_gb_s"]] for r in found]
        return {"label": label, "look": look, "points": points, "noisy": [r["cols"] for r in found if r.get("noisy")]}

    def panel(title: str, *lines: Json) -> Json:
        return {"title": title, "copy": copy, "lines": [shown for shown in lines if shown["points"]]}

    copy = line("a plain copy", -1, [recorded.copy(shape)["stage"] for shape in shapes])
    panels = [panel("Stages", *(line(stage, (all_stages or stages).index(stage), [stage]) for stage in stages))]
    peers = [line(peer, look, [peer]) for look, peer in enumerate(PEERS)]
    if any(peer["points"] for peer in peers):
        best = line("best of all stages", -2, stages)
        panels.append(panel("Libraries, and the best of all stages", best, *peers))
    rows = sorted({shape.rows for shape in shapes})
    several = f"{rows[0]} to {rows[-1]} rows" if len(rows) > 1 else f"{rows[0]} rows"
    title = f"Softmax, {shapes[0].dtype}, {several}: effective bandwidth in GB/s"
    note = "Best variant of each. Bandwidth: 2 · rows · cols · element size ÷ time, whatever the kernel moves."
    if any(shown["noisy"] for panel in panels for shown in panel["lines"]):
        note += " Hollow: noisy."
    data = {"panels": panels, "cols": [shape.cols for shape in shapes]}
    return Chart("bandwidth", title, subtitle(recorded), note, f"{title}, by number of columns", data)


def over_gpus(machine: Json, header: Json, shape: Shape, times: dict[str, dict[int, float]]) -> Chart:
    """Effective bandwidth of all GPUs together over their number. `times`: of each variant and number of GPUs, in us; the copy is
    one of them."""
    numbers = sorted(times["copy"])

    def line(variant: str, look: int) -> Json:
        points = [[gpus, 2 * shape.tensor_bytes / us / 1000] for gpus, us in sorted(times[variant].items())]
        return {"label": variant, "look": look, "points": points, "noisy": []}

    others = [variant for variant in times if variant != "copy"]
    panel = {"title": "", "copy": line("copy", -1), "lines": [line(variant, look) for look, variant in enumerate(others)]}
    title = f"Softmax, {shape_text(shape)}, columns split over GPUs: effective bandwidth in GB/s"
    where = f"{machine['gpu']}, recorded {header['date_utc'][:10]}"
    note = "Bandwidth of all GPUs together: 2 · rows · cols · element size ÷ time. The copy: each GPU its part."
    data = {"panels": [panel], "cols": numbers, "across": "GPUs"}
    return Chart("bandwidth", title, where, note, f"{title}, by number of GPUs", data)


def special_function_peak(machine: Json) -> Json | None:
    """10^9 special functions a second and how that was reckoned; None where the clock is not known."""
    clock, sms, per_clock = machine.get("max_sm_clock_mhz"), machine.get("multiprocessors"), SPECIAL_FUNCTIONS_PER_CLOCK
    if not clock or not sms:
        return None
    how = f"{per_clock} per clock and SM · {sms} SMs · {clock} MHz (highest clock)"
    return {"g_per_s": per_clock * sms * clock / 1000, "how": how}


def roofline(recorded: Recorded, shape: Shape, stages: Sequence[str]) -> Chart:
    """Elements a second over elements per byte requested, under the copy's bandwidth and the exponentials' rate.

    How many exponentials a kernel computes is not recorded: the flat roofs are those of 1, 2, 4 and 8 an element.
    """
    size = ELEMENT_BYTES[shape.dtype]
    elements = shape.rows * shape.cols
    points = []
    for look, stage in enumerate(stages):
        best = recorded.best(stage, shape)
        points += [
            {
                "stage": stage,
                "variant": r["variant"],
                "look": look,
                "best": r is best,
                "passes": r["passes"],
                "elements_per_byte": 1 / (r["passes"] * size),
                "g_elements_per_s": elements / r["time_us"] / 1000,
            }
            for r in recorded.variants(stage, shape)
            if r["time_us"] is not None
        ]
    peak = special_function_peak(recorded.machine)
    copy = recorded.copy(shape)["bandwidth_gb_s"]
    title = f"Softmax, {shape_text(shape)}: a roofline"
    note = "Filled: the stage's best variant. Above the slanted roof, caches answered a part of the requests."
    if peak:
        note = f"Dashed: exponentials per element, at {peak['how']} = {peak['g_per_s']:.0f} · 10⁹ per second.\n{note}"
    data = {"bandwidth_gb_s": copy, "element_bytes": size, "peak": peak, "points": points}
    reached = ", ".join(
        f"{p['stage']} {p['g_elements_per_s']:.0f} at {short_text(p['passes'])} passes" for p in points if p["best"]
    )
    alt = f"{title}: 10⁹ elements a second. {reached}"
    return Chart("roofline", title, subtitle(recorded), note, alt, data)


def predicted(recorded: Recorded, stages: Sequence[str]) -> Chart:
    """Every variant at every shape: the time that its bytes would take at the copy's speed, and the time it took."""
    points = [
        {
            "stage": r["stage"],
            "variant": r["variant"],
            "look": stages.index(r["stage"]),
            "shape": shape_text(Shape(r["dtype"], r["rows"], r["cols"])),
            "predicted_us": r["copy_us"] * r["passes"] / 2,  # the copy makes two passes
            "measured_us": r["time_us"],
        }
        for r in recorded.results
        if r["stage"] in stages and r["time_us"] is not None
    ]
    if not points:
        raise ToolError(f"no stage has a time in {recorded.path.name}")

    def slower(point: Json) -> float:
        return point["measured_us"] / point["predicted_us"]

    close = sum(abs(math.log2(slower(point))) <= math.log2(1.1) for point in points)
    title = "Softmax, every variant at every recorded shape: predicted and measured time"
    count = f"{close} of {len(points)} measurements are within 10 % of it"
    note = f"Prediction: bytes requested ÷ the copy's bandwidth. Dotted: twice and half of it. {count}."
    extremes = {"above": max(points, key=slower), "below": min(points, key=slower)}
    known = [stage for stage in stages if any(point["stage"] == stage for point in points)]
    data = {"points": points, "extremes": extremes, "stages": known}
    dtypes = ", ".join(dict.fromkeys(r["dtype"] for r in recorded.results))
    return Chart("predicted", title, f"{subtitle(recorded)}, {dtypes}", note, f"{title}. {note}", data)


def heat_map(recordings: Sequence[Recorded], wider: Sequence[Shape], unaligned: Sequence[Shape], few: Sequence[Shape],
             stages: Sequence[str]) -> Chart:
    """Percent of the copy, by stage and shape, and below the stages the libraries. If several recordings have a
    result of a stage at a shape, the first one's counts: a sweep comes before a record, as it timed libraries, too."""
    groups = [wider, unaligned, few]

    def line(label: str, kind: str, names: Sequence[str]) -> Json:
        cells = []
        for shape in itertools.chain(*groups):
            of_shape = (r.at(shape) for r in recordings if shape in shapes_of(r))
            bests = (fastest(r for r in found if r.get("kind", "stage") == kind and r["stage"] in names) for found in of_shape)
            best = next(filter(None, bests), None)
            cells.append(best["percent_of_copy"] if best else None)
        return {"label": label, "percent": cells}

    of_stages = [*(line(stage, "stage", [stage]) for stage in stages), line("the library", "stage", [results.DISPATCH])]
    peers = [line("PyTorch", "peer", ["pytorch"]), line("best other library", "peer", PEERS)]
    of_stages, peers = ([each for each in lines if any(each["percent"])] for lines in (of_stages, peers))
    first = recordings[0]
    title = "Softmax: speed in percent of a plain copy"
    dates = ", ".join(dict.fromkeys(r.recorded["date_utc"][:10] for r in recordings))
    about = f"{first.machine['gpu']}, {first.settings['l2']} L2, best variant of each stage, recorded {dates}"
    note = ("From left: wider and wider rows, widths that no pack divides, few rows. –: cannot do that shape.\n"
            "Bold: the fastest of the stages and the library, and whatever is as fast within a point.")
    reached = "; ".join(f"{line['label']} {percent_text(max(filter(None, line['percent']), default=0))}" for line in of_stages)
    data = {"groups": [[shape_text(shape) for shape in group] for group in groups], "stages": of_stages, "peers": peers}
    return Chart("heat_map", title, about, note, f"{title}, by stage and shape. At its best shape: {reached}", data)


def by_operation(verdicts: Sequence[Json]) -> dict[str, list[Json]]:
    """Those of each operation, the worst first; softmax and its logarithm are one operation."""
    of_kind = {op: [one for one in verdicts if choices.kind_of(one["op"]) == kind] for op, kind in choices.KINDS.items()}
    return {op: sorted(some, key=lambda one: one["percent"]) for op, some in of_kind.items() if some}


def judged(data: Json) -> Chart:
    """The distribution of the speed that the library's choice reaches at random matrices, by operation."""
    lines = [{"label": op, "percents": [one["percent"] for one in some]} for op, some in by_operation(data["results"]).items()]
    title = "The kernel that the library chooses: speed in percent of the fastest kernel's"
    where = f"{data['machine']['gpu']}, recorded {data['recorded']['date_utc'][:10]}"
    note = f"{len(data['results'])} random matrices. A line begins at its operation's worst one. Left of 1 are the worst 1 %."
    reached = "; ".join(f"{line['label']} {percent_text(line['percents'][0])}" for line in lines)
    return Chart("judged", title, where, note, f"{title}. At the worst matrix: {reached}", {"lines": lines})


# --- All that a file of results gives --------------------------------------------------------------


def stages_of(recorded: Recorded) -> list[str]:
    """The ladder's."""
    ours = {r["stage"] for r in recorded.results if r.get("kind", "stage") == "stage" and r["stage"]}
    return results.ladder(sorted(ours))


def shapes_of(recorded: Recorded) -> list[Shape]:
    """Those of softmax, which the charts show."""
    softmax = (r for r in recorded.results if r["op"] == "softmax")
    return list(dict.fromkeys(Shape(r["dtype"], r["rows"], r["cols"]) for r in softmax))


def widths(recorded: Recorded, dtype: str, rows: str) -> list[Shape]:
    """The results with this number of rows. Odd widths are left out: they were recorded to compare alignment, and on the
    axis of a chart they would be a kink without a cause."""
    here = [s for s in shapes_of(recorded) if (s.dtype, str(s.rows)) == (dtype, rows) and s.cols & (s.cols - 1) == 0]
    return sorted(here, key=lambda shape: shape.cols)


def of_recording(recorded: Recorded) -> dict[str, Chart]:
    """The charts of `record`'s file, by name: the ladder at its first shape, and every chart that has enough shapes."""
    stages, shapes = stages_of(recorded), shapes_of(recorded)
    first = shapes[0]
    charts = {f"ladder-{first.dtype}": ladder(recorded, first, stages)}
    for dtype, rows in dict.fromkeys((shape.dtype, shape.rows) for shape in shapes):
        wide = widths(recorded, dtype, str(rows))
        if len(wide) >= 3:
            charts[f"bandwidth-{dtype}-{rows}"] = bandwidth(recorded, wide, stages)
    charts[f"roofline-{first.dtype}"] = roofline(recorded, first, stages)
    charts["predicted"] = predicted(recorded, stages)
    return charts


def table_of(sweep: Recorded, name: str) -> tuple[str, list[Shape]]:
    """The title and the shapes of a published table."""
    tables = {table["name"]: table for table in sweep.tables}
    if name not in tables:
        raise ToolError(f"no table '{name}' in {sweep.path.name}; there are: {', '.join(tables)}")
    return tables[name]["title"], [parse_shape(text) for text in tables[name]["shapes"]]


def has_width_axis(shapes: Sequence[Shape]) -> bool:
    """Whether a chart over the number of columns can show them: one dtype, one shape a width, enough widths."""
    return len({s.dtype for s in shapes}) == 1 and len({s.cols for s in shapes}) == len(shapes) >= 3


def of_table(sweep: Recorded, name: str) -> Chart:
    """A published table over its widths."""
    title, shapes = table_of(sweep, name)
    if not has_width_axis(shapes):
        raise ToolError(f"table '{name}' is no row of widths of one dtype")
    chart = bandwidth(sweep, shapes, [*stages_of(sweep), results.DISPATCH])
    whose, _, _shapes = title.partition(":")  # the shapes are in the chart's own title
    return chart._replace(subtitle=f"{whose}. {chart.subtitle}")


def of_sweep(sweep: Recorded) -> dict[str, Chart]:
    """A chart for each of a sweep's tables that runs over widths, by name."""
    names = [table["name"] for table in sweep.tables if has_width_axis(table_of(sweep, table["name"])[1])]
    return {f"sweep-{name.replace('_', '-')}": of_table(sweep, name) for name in names}
