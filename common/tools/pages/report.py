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
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Union

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
    text: Optional[Callable[[float], str]] = None  # of its numbers; None is a column of words
    field: str = ""  # of a result, in the table of all results

    @property
    def numeric(self) -> bool:
        return self.text is not None

    def cell(self, value: Any) -> Cell:
        return Cell(NOTHING if value is None else self.text(value) if self.text else value, value)


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
    percent = best["percent_of_copy"]
    return Cell(f"{percent:.1f}{' ~' if best.get('noisy') else ''}", percent, "best" if best is leader else "")


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
    copy = Column("copy (µs)", time_text)
    columns = [Column("shape"), copy, Column("best stage and best library"), *(Column(name, tenths) for name in names)]
    rows = []
    for order, shape in enumerate(charts.table_of(sweep, table["name"])[1]):
        found = sweep.at(shape)
        best, peer = (results.fastest(r for r in found if r["kind"] == kind) for kind in ("stage", "peer"))
        leader = results.fastest(r for r in (best, peer) if r)
        cells = [Cell(charts.shape_text(shape), order), copy.cell(sweep.copy(shape)["time_us"]), against(best, peer)]
        cells += [share(results.fastest(r for r in found if r["stage"] == name), leader) for name in names]
        rows.append(Row(cells))
    about = "Percent of the copy's speed, the best variant of each; ~ marks a noisy measurement."
    if table.get("source"):
        about = f"Source: {table['source']}. {about}"
    return Table(table["name"], table["title"], about, columns, rows, "compared")


# --- All results -----------------------------------------------------------------------------------


tenths = "{:.1f}".format
ALL_COLUMNS = [
    Column("table"),
    Column("dtype", field="dtype"),
    Column("rows", str, "rows"),
    Column("cols", str, "cols"),
    Column("contender", field="contender"),
    Column("time (µs)", time_text, "time_us"),
    Column("% of copy", tenths, "percent_of_copy"),
    Column("GB/s", "{:.0f}".format, "bandwidth_gb_s"),
    Column("passes", short_text, "passes"),
    Column("spread (%)", tenths, "spread_percent"),
    Column("rounds differ (%)", tenths, "round_difference_percent"),
    Column("error ÷ allowed", "{:.3f}".format, "max_error"),
    Column("status", field="status"),
]


def result_row(place: int, table: str, result: Json) -> Row:
    status, noisy = result["status"], result.get("noisy")
    shown = {
        **result,
        "contender": f"{result['stage']} {result['variant']}".strip(),
        "status": status + (", noisy" if noisy else "") + (f": {result['reason']}" if result["reason"] else ""),
    }
    kind = "noisy" if noisy else "" if status == "verified" else status.replace(" ", "-")
    return Row([Cell(table, place), *(column.cell(shown.get(column.field)) for column in ALL_COLUMNS[1:])], kind)


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
    return Table("all", "All results", "", ALL_COLUMNS, [result_row(*row) for row in rows])


# --- The page --------------------------------------------------------------------------------------


def page(sources: Sources) -> str:
    import jinja2  # draw.load() has found it
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
        facts=[(name, [some[name] for some in known]) for name in known[0] if {some[name] for some in known} != {None}],
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
