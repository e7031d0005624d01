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
from typing import Dict, Iterable, List, NamedTuple, Optional, Union

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


def number(value: Optional[float], digits: int) -> Cell:
    return Cell(NOTHING, None) if value is None else Cell(f"{value:.{digits}f}", value)


def inline(name: str, svg: str, alt: str) -> str:
    """The SVG as part of a page: no prologue, and no ids that nothing refers to, which another chart has too."""
    svg = svg[svg.index("<svg") : svg.rindex("</svg>") + len("</svg>")]
    svg = re.sub(r' id="[a-z0-9]+(?:\.[a-z]+)*_\d+"', "", svg)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    label = alt.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


# --- The machine -----------------------------------------------------------------------------------


def size_text(value: Optional[int], unit: str) -> Optional[str]:
    power = {"MiB": 20, "GiB": 30}[unit]
    return f"{value / 2**power:.0f} {unit}" if value else None


def facts(recorded: Recorded) -> Json:
    """What is known of one file's machine, software and settings, in the order to be shown."""
    machine, header, settings = recorded.machine, recorded.recorded, recorded.settings
    return {
        "file": recorded.path.name,
        "GPU": machine["gpu"],
        "compute capability": machine.get("compute_capability"),
        "multiprocessors": machine.get("multiprocessors"),
        "highest SM clock": f"{machine['max_sm_clock_mhz']} MHz" if machine.get("max_sm_clock_mhz") else None,
        "L2 cache": size_text(machine.get("l2_bytes"), "MiB"),
        "memory": size_text(machine.get("memory_bytes"), "GiB"),
        "driver": machine.get("driver_version"),
        "CUDA": machine.get("nvcc") or machine.get("cuda_runtime"),
        **{name: machine.get(name) for name in ("python", "torch", "triton", "cudnn", "quack", "liger")},
        "measured": ", ".join([charts.conditions(recorded), *rounds_text(settings)]),
        "recorded": header["date_utc"].replace("T", " ").replace("Z", " UTC"),
        "commit": header["commit"] + (" with local changes" if header["dirty"] else ""),
        "command": header["command"],
    }


def rounds_text(settings: Json) -> List[str]:
    return [f"{settings['rounds']} rounds"] if settings.get("rounds") else []


# --- The tables ------------------------------------------------------------------------------------


def bests(found: Iterable[Json], kind: str) -> Dict[str, Json]:
    """The fastest of each stage, or of each library."""
    by_name: Dict[str, List[Json]] = {}
    for result in found:
        if result.get("kind") == kind:
            by_name.setdefault(result["stage"], []).append(result)
    leaders = {name: results.fastest(some) for name, some in by_name.items()}
    return {name: best for name, best in leaders.items() if best}


def share(best: Optional[Json], leader: Optional[Json]) -> Cell:
    if not best:
        return Cell(NOTHING, None)
    noisy = " ~" if best.get("noisy") else ""
    kind = "best" if best is leader else ""
    return Cell(f"{best['percent_of_copy']:.1f}{noisy}", best["percent_of_copy"], kind)


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
    stages = charts.stages_of(sweep)
    peers = [peer for peer in charts.PEERS if any(r["stage"] == peer for r in sweep.results)]
    columns = [Column("shape"), Column("copy (µs)", True), Column("best stage and best library")]
    columns += [Column(name, True) for name in [*stages, *peers]]
    rows = []
    for order, text in enumerate(table["shapes"]):
        shape = results.parse_shape(text)
        found = sweep.at(shape)
        mine, theirs = bests(found, "stage"), bests(found, "peer")
        best, peer = results.fastest(list(mine.values())), results.fastest(list(theirs.values()))
        leader = results.fastest([r for r in (best, peer) if r])
        copy = sweep.copy(shape)["time_us"]
        cells = [Cell(charts.shape_text(shape), order), Cell(time_text(copy), copy), against(best, peer)]
        cells += [share(mine.get(name), leader) for name in stages]
        cells += [share(theirs.get(name), leader) for name in peers]
        rows.append(Row(cells))
    about = "Percent of the copy's speed, the best variant of each; ~ marks a noisy measurement."
    if table.get("source"):
        about = f"Source: {table['source']}. {about}"
    return Table(table["name"], table["title"], about, columns, rows, "compared")


ALL_COLUMNS = [
    Column("table"),
    Column("dtype"),
    Column("rows", True),
    Column("cols", True),
    Column("contender"),
    Column("time (µs)", True),
    Column("% of copy", True),
    Column("GB/s", True),
    Column("passes", True),
    Column("spread (%)", True),
    Column("rounds differ (%)", True),
    Column("error ÷ allowed", True),
    Column("status"),
]


def result_row(place: int, table: str, result: Json) -> Row:
    time, status = result["time_us"], result["status"]
    if result.get("noisy"):
        status += ", noisy"
    if result["reason"]:
        status += f": {result['reason']}"
    passes = result["passes"]
    cells = [
        Cell(table, place),
        Cell(result["dtype"], result["dtype"]),
        number(result["rows"], 0),
        number(result["cols"], 0),
        Cell(f"{result['stage']} {result['variant']}".strip(), f"{result['stage']} {result['variant']}".strip()),
        Cell(NOTHING, None) if time is None else Cell(time_text(time), time),
        number(result["percent_of_copy"], 1),
        number(result["bandwidth_gb_s"], 0),
        Cell(NOTHING, None) if passes is None else Cell(short_text(passes), passes),
        number(result["spread_percent"], 1),
        number(result.get("round_difference_percent"), 1),
        number(result["max_error"], 3),
        Cell(status, status),
    ]
    kind = (
        "noisy" if result.get("noisy") else "" if result["status"] == "verified" else result["status"].replace(" ", "-")
    )
    return Row(cells, kind)


def all_results(sources: Sources) -> Table:
    """Every result, by table and shape: the lessons' recording first, then the sweep."""
    rows = []
    if sources.recording:
        rows += [(0, "lessons", result) for result in sources.recording.results]
    if sources.sweep:
        tables: Dict[Shape, List[str]] = {}
        for table in sources.sweep.tables:
            for text in table["shapes"]:
                tables.setdefault(results.parse_shape(text), []).append(table["name"])
        order = {name: place for place, name in enumerate(tables_in_order(tables), start=1)}
        for result in sources.sweep.results:
            name = ", ".join(tables.get(Shape(result["dtype"], result["rows"], result["cols"]), ["no table"]))
            rows.append((order.get(name, len(order) + 1), name, result))
    rows.sort(key=lambda row: (row[0], row[2]["dtype"], row[2]["rows"], row[2]["cols"]))
    made = [result_row(place, name, result) for place, name, result in rows]
    return Table("all", "All results", "", ALL_COLUMNS, made)


def tables_in_order(tables: Dict[Shape, List[str]]) -> List[str]:
    return list(dict.fromkeys(", ".join(names) for names in tables.values()))


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
    pictures = [
        {"name": name, "title": chart.title, "svg": inline(name, draw.svg(chart), chart.alt)}
        for name, chart in sources.charts().items()
    ]
    known = [facts(recorded) for recorded in files]
    names = [name for name in known[0] if any(some[name] is not None for some in known)]
    return template.render(
        gpu=files[0].machine["gpu"],
        facts=[(name, [NOTHING if some[name] is None else some[name] for some in known]) for name in names],
        charts=pictures,
        tables=[published(sources.sweep, table) for table in sources.sweep.tables] if sources.sweep else [],
        results=all_results(sources),
        has_sweep=bool(sources.sweep),
        has_recording=bool(sources.recording),
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
