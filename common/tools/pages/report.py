"""Writes the recorded results as one HTML page that needs nothing else: what is fastest at a shape, charts, tables that
sort, the machine.

    ./run report [--results FILE] [--sweep FILE] [--out FILE]

The page is report.html.jinja filled in; it loads nothing, so it can be mailed and opened from disk.

Exit codes: 0 fine; 1 there are no results; 2 bad usage, a file of results that is damaged, or Jinja or matplotlib is
missing and could not be fetched.
"""

import re
from pathlib import Path
from typing import Any, NamedTuple

from command import file_to_write
from files import write_whole
from measure import results
from measure.results import Json, Recorded, Shape, shape_of
from pages import charts, draw, plot
from pages.plot import Sources
from text import short_text, time_text

# In the report a smaller lead than this reads "as fast as": another run may turn it round.
AS_FAST_RATIO = 1.02
SHOWN = 3  # of the fastest at a shape
TEMPLATE = Path(__file__).resolve().with_name("report.html.jinja")


def inline(svg: str, alt: str) -> str:
    """The SVG as part of a page: no prologue, and no ids that nothing refers to, which another chart has too."""
    svg = svg[svg.index("<svg") : svg.rindex("</svg>") + len("</svg>")]
    svg = re.sub(r' id="[a-z0-9]+(?:\.[a-z]+)*_\d+"', "", svg)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    label = alt.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def facts(recorded: Recorded) -> Json:
    """One file's machine, software and settings, in the order to be shown."""
    machine, header, rounds = recorded.machine, recorded.recorded, recorded.settings.get("rounds")

    def known(name: str, unit: str, size: int = 1) -> str | None:
        return f"{machine[name] / size:.0f} {unit}" if machine.get(name) else None

    return {
        "file": recorded.path.name,
        "GPU": machine["gpu"],
        "compute capability": machine.get("compute_capability"),
        "multiprocessors": machine.get("multiprocessors"),
        "highest SM clock": known("max_sm_clock_mhz", "MHz"),
        "L2 cache": known("l2_bytes", "MiB", 1 << 20),
        "memory": known("memory_bytes", "GiB", 1 << 30),
        "driver": machine.get("driver_version"),
        "CUDA": machine.get("nvcc") or machine.get("cuda_runtime"),
        "python": machine.get("python"),
        **{name: machine.get(name) for name in ("torch" if peer == "pytorch" else peer for peer in charts.PEERS)},
        "measured": charts.conditions(recorded) + (f", {rounds} rounds" if rounds else ""),
        "recorded": header["date_utc"].replace("T", " ").replace("Z", " UTC"),
        "commit": header["commit"] + (" with local changes" if header["dirty"] else ""),
        "command": header["command"],
    }


class Compared(NamedTuple):
    """A row of a published table: the fastest of all stages, of all libraries, and of each; the leaders among them."""

    shape: Shape
    copy: Json
    stage: Json | None
    peer: Json | None
    leaders: list[Json]
    best: list[Json | None]


def as_fast(one: Json, other: Json) -> bool:
    percents = sorted(result["percent_of_copy"] for result in (one, other))
    return results.as_fast(one, other) or percents[1] <= AS_FAST_RATIO * percents[0]


def recorded_shapes(sources: Sources) -> list[Json]:
    """For the form: the fastest at each shape, of the sweep where it has the shape, since that has the libraries, too."""
    found: dict[Shape, list[Json]] = {}
    for recorded in filter(None, (sources.sweep, sources.recording)):
        shapes = {shape_of(result) for result in recorded.results if result["op"] == "softmax"}
        found |= {shape: recorded.at(shape) for shape in shapes - found.keys()}

    def entry(shape: Shape, at_shape: list[Json]) -> Json | None:
        timed = [result for result in at_shape if result["percent_of_copy"] is not None and result["variant"] != "copy"]
        timed.sort(key=lambda result: -result["percent_of_copy"])
        stage = next((result for result in timed if result.get("kind", "stage") == "stage"), None)
        if stage is None:
            return None
        fastest = [
            {"name": f"{result['stage']} {result['variant']}".strip(), "percent": result["percent_of_copy"],
             "time": time_text(result["time_us"]), "as_fast": as_fast(result, timed[0])}
            for result in timed[:SHOWN]
        ]  # fmt: skip
        of_library = stage["stage"] == results.OF_LIBRARY
        return {"dtype": shape.dtype, "rows": shape.rows, "cols": shape.cols, "fastest": fastest, "variant": stage["variant"],
                "run": results.LIBRARY if of_library else stage["stage"][:2],
                "page": f"common/{results.LIBRARY}" if of_library else stage["stage"]}  # fmt: skip

    return [made for shape in sorted(found) if (made := entry(shape, found[shape]))]


def published(sweep: Recorded) -> list[Json]:
    """The sweep's tables, with a row for each shape."""
    names = charts.stages_of(sweep) + [p for p in charts.PEERS if any(r["stage"] == p for r in sweep.results)]

    def row(shape: Shape) -> Compared:
        found = sweep.at(shape)
        stage, peer = (results.fastest(r for r in found if r["kind"] == kind) for kind in ("stage", "peer"))
        best = [results.fastest(r for r in found if r["stage"] == name) for name in names]
        return Compared(shape, sweep.copy(shape), stage, peer, results.leaders(filter(None, best), as_fast), best)

    shapes = {table["name"]: charts.table_of(sweep, table["name"])[1] for table in sweep.tables}
    return [{**table, "names": names, "rows": list(map(row, shapes[table["name"]]))} for table in sweep.tables]


def all_results(sources: Sources) -> list[tuple[int, str, Json]]:
    """Every result, by table and shape: the lessons' recording first, then the sweep."""
    rows = [(0, "lessons", result) for result in (sources.recording.results if sources.recording else [])]
    if sources.sweep:
        tables: dict[Shape, str] = {}
        for table in sources.sweep.tables:
            for shape in charts.table_of(sources.sweep, table["name"])[1]:
                tables[shape] = f"{tables[shape]}, {table['name']}" if shape in tables else table["name"]
        order = [*dict.fromkeys(tables.values()), "no table"]
        names = ((tables.get(shape_of(result), "no table"), result) for result in sources.sweep.results)
        rows += [(1 + order.index(name), name, result) for name, result in names]
    ops = list(dict.fromkeys(result["op"] for _, _, result in rows))

    def key(row: tuple[int, str, Json]) -> tuple[Any, ...]:
        """The best at a shape first, results without a time last, one operation after the other."""
        place, _, result = row
        percent = result["percent_of_copy"]
        return place, shape_of(result), -(percent or 0), ops.index(result["op"]) if percent is None else 0

    return sorted(rows, key=key)


def page(sources: Sources) -> str:
    import jinja2  # draw.load() has found it
    import markupsafe

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    # A long name may break after its underscores.
    environment.filters["broken"] = lambda text: markupsafe.Markup("_<wbr>").join(text.split("_"))
    texts = {"time_text": time_text, "short_text": short_text, "shape_text": charts.shape_text}
    environment.globals.update(texts, as_fast=as_fast)
    files = [recorded for recorded in sources if recorded]
    known = [facts(recorded) for recorded in files]
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        gpu=files[0].machine["gpu"],
        facts=[(name, [some[name] for some in known]) for name in known[0] if {some[name] for some in known} != {None}],
        charts={name: inline(draw.svg(chart), chart.alt) for name, chart in sources.charts().items()},
        tables=published(sources.sweep) if sources.sweep else [],
        results=all_results(sources),
        shapes=recorded_shapes(sources),
        sources=sources,
        files=files,
    )


def main(argv: list[str]) -> None:
    parser = plot.argument_parser("report", "Write the recorded results as one HTML page.")
    parser.add_argument("--out", type=file_to_write, metavar="FILE", help="the page (default: build/report.html)")
    arguments = parser.parse_args(argv)
    draw.load()
    out: Path = arguments.out or arguments.root / "build/report.html"
    write_whole(out, page(plot.find_sources(arguments)))
    print(f"wrote {out}")
