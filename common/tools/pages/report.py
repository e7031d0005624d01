"""Writes the recorded results as one HTML page that needs nothing else: charts, tables that sort, the machine.

    ./run report [--results FILE] [--sweep FILE] [--out FILE]

The page is report.html.jinja filled in; it loads nothing, so it can be mailed and opened from disk.

Exit codes: 0 fine; 1 there are no results; 2 bad usage, a file of results that is damaged, or Jinja or matplotlib is
missing and could not be fetched.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Optional, Union

from command import file_to_write
from files import write_whole
from measure import results
from measure.results import Json, Recorded, Shape
from pages import charts, draw, plot
from pages.plot import Sources
from text import short_text, time_text

TEMPLATE = Path(__file__).resolve().with_name("report.html.jinja")
NOTHING = "–"


class Cell(NamedTuple):
    text: str
    key: Union[float, str, None]  # what the column sorts by; None comes last
    kind: str = ""  # its CSS class


class Column(NamedTuple):
    title: str
    numeric: bool = False


class Row(NamedTuple):
    cells: List[Cell]
    kind: str = ""


class Table(NamedTuple):
    name: str
    title: str
    about: str
    columns: List[Column]
    rows: List[Row]
    kind: str = ""


def inline(name: str, svg: str, alt: str) -> str:
    """The SVG as part of a page: no prologue, and no ids that nothing refers to, which another chart has too."""
    svg = svg[svg.index("<svg") : svg.rindex("</svg>") + len("</svg>")]
    svg = re.sub(r' id="[a-z0-9]+(?:\.[a-z]+)*_\d+"', "", svg)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    label = alt.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def facts(recorded: Recorded) -> Json:
    """What is known of one file's machine, software and settings, in the order to be shown."""
    machine, header, rounds = recorded.machine, recorded.recorded, recorded.settings.get("rounds")

    def known(name: str, unit: str, size: int = 1) -> Optional[str]:
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
        **{name: machine.get(name) for name in ("python", "torch", "triton", "cudnn", "quack", "liger")},
        "measured": charts.conditions(recorded) + (f", {rounds} rounds" if rounds else ""),
        "recorded": header["date_utc"].replace("T", " ").replace("Z", " UTC"),
        "commit": header["commit"] + (" with local changes" if header["dirty"] else ""),
        "command": header["command"],
    }


# --- The published tables --------------------------------------------------------------------------


def share(best: Optional[Json], leader: Optional[Json]) -> Cell:
    if not best:
        return Cell(NOTHING, None)
    text = f"{best['percent_of_copy']:.1f}{' ~' if best.get('noisy') else ''}"
    return Cell(text, best["percent_of_copy"], "best" if best is leader else "")


def against(stage: Optional[Json], peer: Optional[Json]) -> Cell:
    """How many times faster the best stage is than the best library."""
    if not stage or not peer:
        return Cell(NOTHING, None)
    ratio = stage["percent_of_copy"] / peer["percent_of_copy"]
    if ratio >= 1:
        return Cell(f"{ratio:.2f} × faster than {peer['contender']}", ratio, "ahead")
    return Cell(f"{1 / ratio:.2f} × slower than {peer['contender']}", ratio, "behind")


def published(sweep: Recorded, table: Json) -> Table:
    """One of the sweep's tables: percent of the copy by shape, for each stage's and library's best variant."""
    names = charts.stages_of(sweep) + [p for p in charts.PEERS if any(r["stage"] == p for r in sweep.results)]
    columns = [Column("shape"), Column("copy (µs)", True), Column("best stage and best library")]
    rows = []
    for order, shape in enumerate(charts.table_of(sweep, table["name"])[1]):
        found, copy = sweep.at(shape), sweep.copy(shape)["time_us"]
        best, peer = (results.fastest(r for r in found if r["kind"] == kind) for kind in ("stage", "peer"))
        leader = results.fastest(r for r in (best, peer) if r)
        cells = [Cell(charts.shape_text(shape), order), Cell(time_text(copy), copy), against(best, peer)]
        cells += [share(results.fastest(r for r in found if r["stage"] == name), leader) for name in names]
        rows.append(Row(cells))
    about = "Percent of the copy's speed, the best variant of each; ~ marks a noisy measurement."
    if table.get("source"):
        about = f"Source: {table['source']}. {about}"
    columns += [Column(name, True) for name in names]
    return Table(table["name"], table["title"], about, columns, rows, "compared")


# --- All results -----------------------------------------------------------------------------------


class Field(NamedTuple):
    """A column of the table of all results."""

    title: str
    name: str
    text: Optional[Callable[[float], str]] = None  # of a number

    def cell(self, result: Json) -> Cell:
        value = result.get(self.name)
        if value is None:
            return Cell(NOTHING, None)
        return Cell(self.text(value) if self.text else value, value)


FIELDS = (
    Field("dtype", "dtype"),
    Field("rows", "rows", str),
    Field("cols", "cols", str),
    Field("contender", "contender"),
    Field("time (µs)", "time_us", time_text),
    Field("% of copy", "percent_of_copy", "{:.1f}".format),
    Field("GB/s", "bandwidth_gb_s", "{:.0f}".format),
    Field("passes", "passes", short_text),
    Field("spread (%)", "spread_percent", "{:.1f}".format),
    Field("rounds differ (%)", "round_difference_percent", "{:.1f}".format),
    Field("error ÷ allowed", "max_error", "{:.3f}".format),
    Field("status", "status"),
)


def result_row(place: int, table: str, result: Json) -> Row:
    status, noisy = result["status"], result.get("noisy")
    shown = {
        **result,
        "contender": f"{result['stage']} {result['variant']}".strip(),
        "status": status + (", noisy" if noisy else "") + (f": {result['reason']}" if result["reason"] else ""),
    }
    kind = "noisy" if noisy else "" if status == "verified" else status.replace(" ", "-")
    return Row([Cell(table, place), *(field.cell(shown) for field in FIELDS)], kind)


def all_results(sources: Sources) -> Table:
    """Every result, by table and shape: the lessons' recording first, then the sweep."""
    rows = [(0, "lessons", result) for result in (sources.recording.results if sources.recording else [])]
    if sources.sweep:
        tables: Dict[Shape, str] = {}
        for table in sources.sweep.tables:
            for shape in charts.table_of(sources.sweep, table["name"])[1]:
                tables[shape] = f"{tables[shape]}, {table['name']}" if shape in tables else table["name"]
        order = [*dict.fromkeys(tables.values()), "no table"]
        for result in sources.sweep.results:
            name = tables.get(Shape(result["dtype"], result["rows"], result["cols"]), "no table")
            rows.append((1 + order.index(name), name, result))
    rows.sort(key=lambda row: (row[0], row[2]["dtype"], row[2]["rows"], row[2]["cols"]))
    columns = [Column("table"), *(Column(field.title, field.text is not None) for field in FIELDS)]
    return Table("all", "All results", "", columns, [result_row(*row) for row in rows])


# --- The page --------------------------------------------------------------------------------------


def page(sources: Sources) -> str:
    draw.load()
    import jinja2
    import markupsafe

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    # A long name may break after its underscores.
    environment.filters["broken"] = lambda text: markupsafe.Markup("_<wbr>").join(text.split("_"))
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    files = [recorded for recorded in sources if recorded]
    known = [facts(recorded) for recorded in files]
    pictures = {name: inline(name, draw.svg(chart), chart.alt) for name, chart in sources.charts().items()}
    return template.render(
        gpu=files[0].machine["gpu"],
        facts=[(name, [some[name] for some in known]) for name in known[0] if any(some[name] for some in known)],
        charts=pictures,
        tables=[published(sources.sweep, table) for table in sources.sweep.tables] if sources.sweep else [],
        results=all_results(sources),
        sources=sources,
        files=files,
    )


def write(arguments: argparse.Namespace) -> None:
    draw.load()
    out: Path = arguments.out or arguments.root / "build/report.html"
    write_whole(out, page(plot.find_sources(arguments)))
    print(f"wrote {out}")


def main(argv: List[str]) -> None:
    parser = plot.argument_parser("report", "Write the recorded results as one HTML page.")
    parser.add_argument("--out", type=file_to_write, metavar="FILE", help="the page (default: build/report.html)")
    write(parser.parse_args(argv))
