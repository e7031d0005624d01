"""Draws the charts of charts.py with matplotlib, as SVG and PNG.

    python3 common/tools draw    exit 0 if the packages can be used, else 2 and one line that says why not

The packages are those that ./run plot, ./run report and ./test --all put into .tools/python, or else python3's own.
The same Chart gives the same SVG, byte for byte, with the versions that wheels.txt pins.

A picture is as wide as a telephone's text at 10 px, and has colours for a light and a dark page. The lines'
colours have a contrast of 3 to both; dashes and markers tell the lines apart in grey as well. Text stays text;
it is laid out with matplotlib's own font, and the font that a reader has in its place is not wider.
"""

import io
import math
import re
import sys
import textwrap
from pathlib import Path
from typing import Any, Callable

from command import MissingTool
from measure.results import Json
from pages import charts
from pages.charts import Chart

PACKAGES = Path(__file__).resolve().parents[3] / ".tools/python"
WIDTH = 480  # px; on 360 px the text is three quarters as large
TITLE, TEXT = 12, 10.2  # points, of which 96 / 72 are a pixel
TITLE_LETTERS, TEXT_LETTERS = 43, 62  # that fit a line
OLDEST_MATPLOTLIB = (3, 7)

PAGE, INK, FAINT, GRID = "#ffffff", "#1f2328", "#59636e", "#848d97"
DARK = {PAGE: "#0d1117", INK: "#e6edf3", FAINT: "#9198a1"}  # the others do for both
BAR, COPY, BEFORE = "#0072b2", INK, "#848d97"
# Okabe and Ito's, but two that white would swallow are darker.
COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#9a6700", "#7f5fd0")
DASHES = ("-", (0, (6, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")

STYLE = {
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Helvetica", "Arial"],
    "font.size": TEXT,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": FAINT,
    "axes.titlesize": TEXT,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": PAGE,
    "grid.color": GRID,
    "grid.linestyle": (0, (1, 4)),
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.loc": "upper left",
    "legend.borderaxespad": 0,
    "legend.labelspacing": 0.7,
    "legend.handlelength": 3.2,
    "lines.linewidth": 1.6,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "svg.fonttype": "none",
}
LINE = 19  # px, of text


def load() -> Any:
    """matplotlib. Raises MissingTool that says what is missing and how to get it."""
    if str(PACKAGES) not in sys.path:
        sys.path.insert(0, str(PACKAGES))
    advice = "./run plot fetches it into .tools/python (if it did: delete that folder, it is another Python's)"
    try:
        import jinja2  # noqa: F401  # report.py's; both come together
        import matplotlib
        import matplotlib.figure
    except ImportError as error:
        raise MissingTool(f"{error.name or error} is missing for {sys.executable}: {advice}") from error
    if matplotlib.__version_info__[:2] < OLDEST_MATPLOTLIB:
        raise MissingTool(f"matplotlib {matplotlib.__version__} is too old: {advice}")
    return matplotlib


def look(index: int) -> dict[str, Any]:
    """A line's colour, dashes and marker: neighbours differ in all three, so that grey suffices."""
    if index < 0:
        return {"color": COPY, "linestyle": DASHES[1] if index == -1 else "-", "linewidth": 2}
    marker = MARKERS[index % len(MARKERS)]
    return {
        "color": COLOURS[index % len(COLOURS)],
        "linestyle": DASHES[index % len(DASHES)],
        "marker": marker,
        "markersize": 6.5 if marker in "PX" else 5,
        "markeredgecolor": PAGE,
        "markeredgewidth": 0.6,
    }


def lines_of(chart: Chart) -> tuple[list[str], list[str], list[str]]:
    """Title, subtitle and note, in lines that fit."""
    note = [line for part in chart.note.splitlines() for line in textwrap.wrap(part, TEXT_LETTERS)]
    return textwrap.wrap(chart.title, TITLE_LETTERS), textwrap.wrap(chart.subtitle, TEXT_LETTERS), note


def figure_of(chart: Chart) -> Any:
    """The matplotlib figure of a chart; call it within matplotlib.rc_context(STYLE)."""
    draw, height_of = KINDS[chart.kind]
    title, subtitle, note = lines_of(chart)
    above, below = 16 + (LINE + 3) * len(title) + LINE * len(subtitle) + 8, 24 + LINE * len(note)
    height = height_of(chart.data) + above + below
    figure = load().figure.Figure(figsize=(WIDTH / 96, height / 96), facecolor=PAGE)
    rect = (0.02, below / height, 0.96, 1 - (above + below) / height)
    figure.set_layout_engine("constrained", rect=rect, h_pad=0.13)
    down = 14
    for lines, step, style in (
        (title, LINE + 3, {"size": TITLE, "weight": "bold"}),
        (subtitle, LINE, {"color": FAINT}),
        (note, LINE, {"color": FAINT}),
    ):
        down = height - below + 14 if lines is note else down
        for line in lines:
            figure.text(12 / WIDTH, 1 - down / height, line, va="top", **style)
            down += step
    draw(figure, chart.data)
    # The solver's last digits differ from run to run: lay out once, and round.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        axes.set_position([round(part, 4) for part in axes.get_position().bounds])
    return figure


def saved(chart: Chart, about: Json, **options: Any) -> bytes:
    file = io.BytesIO()
    # The salt makes the names inside unique among the charts of one page, and the same in every run.
    with load().rc_context({**STYLE, "svg.hashsalt": charts.digest(chart)}):
        metadata = {"Title": chart.title, "Description": chart.alt, **about}
        figure_of(chart).savefig(file, metadata=metadata, **options)
    return file.getvalue()


def svg(chart: Chart) -> str:
    """The signed SVG text: see charts.signed."""
    text = saved(chart, {"Date": None}, format="svg").decode()
    for light, dark in DARK.items():
        text = text.replace(f": {light}", f": var(--on-{dark[1:]}, {light})")
    names = " ".join(f"--on-{dark[1:]}: {dark};" for dark in DARK.values())
    text = text.replace("</style>", f"@media (prefers-color-scheme: dark) {{svg {{{names}}}}}</style>", 1)
    return charts.signed("\n".join(line.rstrip() for line in text.splitlines()) + "\n", chart)


def png(chart: Chart) -> bytes:
    """A picture of twice the SVG's pixels."""
    return saved(chart, {}, format="png", dpi=192)


ON_BAR = "#fefefe"  # the text on a bar, on a dark page, too
LABEL_CELLS = 4.6  # the width of the labels left of a heat map, in cells
HEAD_CELLS = 4.3  # and the height of the shapes above it


def short_label(stage: str) -> str:
    """04_smem_bank_conflict -> 04 smem bank: as many words as there is room for."""
    return textwrap.wrap(stage.replace("_", " "), 17)[0]


def heat_map(figure: Any, data: Json) -> None:
    axes = figure.subplots()
    stages, peers, groups = data["stages"], data["peers"], data["groups"]
    # The cells of a group touch; between two groups, and between stages and libraries, is a gap.
    shapes = [shape for group in groups for shape in group]
    left = [place + 0.3 * gap for place, gap in enumerate(gap for gap, group in enumerate(groups) for _ in group)]
    best = [max((line["percent"][col] or 0 for line in stages), default=0) for col in range(len(shapes))]
    for x, shape in zip(left, shapes):
        axes.text(x + 0.5, -0.2, shape, rotation=90, ha="center", va="bottom", color=FAINT)
    for row, line in enumerate([*stages, *peers]):
        y = row + 0.3 * (row >= len(stages))
        axes.text(-LABEL_CELLS, y + 0.5, short_label(line["label"]), va="center")
        for col, (x, percent) in enumerate(zip(left, line["percent"])):
            if percent is None:
                axes.text(x + 0.5, y + 0.5, "–", color=FAINT, ha="center", va="center")
                continue
            strength = 0.06 + 0.94 * min(percent / 100, 1) ** 2.5
            axes.fill([x, x + 0.95, x + 0.95, x], [y, y, y + 0.92, y + 0.92], color=BAR, alpha=strength, linewidth=0)
            leads = row < len(stages) and percent >= best[col] - 1
            style = {"color": ON_BAR if strength > 0.85 else INK, "weight": "bold" if leads else "normal"}
            axes.text(x + 0.48, y + 0.46, f"{percent:.0f}", ha="center", va="center", **style)
    axes.set(xlim=(-LABEL_CELLS, left[-1] + 1), ylim=(len(stages) + len(peers) + 0.4, -HEAD_CELLS))
    axes.set_axis_off()


def ladder(figure: Any, data: Json) -> None:
    axes = figure.subplots()
    bars: list[Json] = data["bars"]
    most = max([100.0] + [p for bar in bars for p in (bar["percent"] or 0, *bar["others"])])
    for place, bar in enumerate(bars):
        axes.text(0.6, place - 0.3, bar["stage"], weight="bold", va="bottom")
        if bar["percent"] is None:
            axes.text(0.6, place, "not applicable at this shape", color=FAINT, va="bottom")
            continue
        axes.text(98, place - 0.3, f"{bar['percent']:.1f} %", weight="bold", ha="right", va="bottom")
        axes.text(0.6, place, bar["variant"], color=FAINT, va="bottom")
        axes.barh(place + 0.2, bar["percent"], height=0.32, color=BAR)
        # White around the mark keeps it visible on the bar, black on the white next to it.
        for colour, width in ((PAGE, 3.5), (INK, 1.4)):
            axes.vlines(bar["others"], place + 0.02, place + 0.38, color=colour, linewidth=width)
    axes.axvline(100, color=COPY, linewidth=1.4, linestyle=DASHES[1], ymax=1 - 0.5 / (len(bars) + 0.5))
    axes.text(100, -0.68, data["copy"], ha="right", va="bottom")
    axes.set(xlim=(0, most * 1.01), ylim=(len(bars) - 0.5, -1), xticks=range(0, 101, 20), yticks=[])
    axes.set_xlabel("percent of the copy's speed")


def change(figure: Any, data: Json) -> None:
    axes = figure.subplots()
    bars: list[Json] = data["bars"]
    for place, bar in enumerate(bars):
        axes.text(0.8, place - 0.2, bar["name"], va="bottom", weight="bold" if bar["now"] else None)
        text = f"{bar['percent']:.1f} %"
        axes.text(98, place - 0.2, text, ha="right", va="bottom", weight="bold" if bar["now"] else None)
        axes.barh(place + 0.08, bar["percent"], height=0.42, color=BAR if bar["now"] else BEFORE)
    axes.axvline(100, color=COPY, linewidth=1.6, linestyle=DASHES[1])
    axes.text(101.5, -0.2, "the copy", va="bottom")
    axes.set(xlim=(0, 120), ylim=(len(bars) - 0.5, -0.75), xticks=[], yticks=[])
    axes.spines["bottom"].set_visible(False)


def panel_height(panel: Json) -> int:
    return 345 + (LINE + 5) * (len(panel["lines"]) + 1)


def below(axes: Any, **style: Any) -> None:
    """The legend."""
    axes.legend(loc="upper left", bbox_to_anchor=(-0.12, -52 / 280), **style)


def bandwidth(figure: Any, data: Json) -> None:
    panels: list[Json] = data["panels"]
    cols: list[int] = data["cols"]
    rows = figure.subplots(len(panels), 1, squeeze=False, height_ratios=list(map(panel_height, panels)))[:, 0]
    for axes, panel in zip(rows, panels):
        for line in sorted([panel["copy"], *panel["lines"]], key=lambda line: -line["points"][-1][1]):
            # A missing point of a line is a gap, not a bridge.
            by_cols = dict(map(tuple, line["points"]))
            values = [by_cols.get(col, math.nan) for col in cols]
            axes.plot(cols, values, label=line["label"], clip_on=False, zorder=3, **look(line["look"]))
            noisy = [by_cols[col] for col in line["noisy"]]
            axes.plot(line["noisy"], noisy, "o", mfc=PAGE, mec=look(line["look"])["color"], ms=6, zorder=4)
        axes.set_xscale("log", base=2)
        every = math.ceil(len(cols) / 6)  # as many labels as fit, the last one always
        axes.set_xticks(cols, ["" if (len(cols) - 1 - i) % every else str(col) for i, col in enumerate(cols)])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.set_ylabel("GB/s")
        if len(panels) > 1:
            axes.set_title(panel["title"], loc="left", weight="bold")
        axes.set_xlabel(data.get("across", "columns"))
        below(axes)


SHARES = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)  # in percent


def judged(figure: Any, data: Json) -> None:
    axes = figure.subplots()
    lines: list[Json] = data["lines"]
    for number, line in enumerate(lines):
        percents = line["percents"]
        shares = [100 * place / len(percents) for place in range(1, len(percents) + 1)]
        # Further right the lines meet, and the markers would hide each other.
        marks = [0, *(math.ceil(share * len(percents) / 100) - 1 for share in SHARES if shares[0] < share <= 10)]
        axes.plot(shares, percents, label=line["label"], clip_on=False, zorder=3, markevery=marks, **look(number))
    for percent in (90, 97):
        axes.axhline(percent, color=FAINT, linewidth=0.8, zorder=1)
    bottom = min(80, math.floor(min(line["percents"][0] for line in lines) / 10) * 10)
    left = min(100 / len(line["percents"]) for line in lines) / 1.1
    axes.set_xscale("log")
    axes.set_xticks(SHARES, list(map(str, SHARES)))
    axes.set_yticks([*range(bottom, 91, 10), *([97] if bottom >= 50 else []), 100])  # or else its label would lie on that of 100
    axes.minorticks_off()
    axes.set(xlim=(left, 100), ylim=(bottom, 100))  # after the ticks, which would widen it
    axes.set(xlabel="share of the matrices, from the worst on (%)", ylabel="% of the fastest kernel's speed")
    below(axes)


def roofline(figure: Any, data: Json) -> None:
    axes = figure.subplots()
    copy, size, peak = data["bandwidth_gb_s"], data["element_bytes"], data["peak"]
    points: list[Json] = data["points"]
    rates = [p["g_elements_per_s"] for p in points]
    low, high = min(p["elements_per_byte"] for p in points) / 1.7, 6.0
    top = 2 * (peak["g_per_s"] if peak else copy)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set(xlim=(low, high), ylim=(min(rates) / 1.5, top))
    axes.set_xticks([2.0**p for p in range(-5, 3)], [f"1/{2**-p}" if p < 0 else str(2**p) for p in range(-5, 3)])
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")

    axes.plot([low, high], [low * copy, high * copy], color=COPY, linewidth=2, label=f"the copy, {copy:.0f} GB/s")
    for count in (1, 2, 4, 8) if peak else ():
        y = peak["g_per_s"] / count
        axes.plot([y / copy, high], [y, y], color=INK, linewidth=1.6 if count == 1 else 0.9, linestyle=DASHES[1])
        text = f"{count} exponential{'s' if count > 1 else ''}"  # longer ones reach the slanted roof
        axes.text(high, y * 1.03, text, ha="right", va="bottom")
    labelled = math.inf
    for passes in sorted({round(p["passes"], 1) for p in points}):
        x = 1 / (passes * size)
        axes.axvline(x, color=FAINT, linewidth=0.7, linestyle=DASHES[2], zorder=1)
        up = {"rotation": 90, "ha": "right", "va": "top", "transform": axes.get_xaxis_transform()}
        if labelled / x > 1.25:  # or else the label would lie on its neighbour
            axes.text(x, 0.99, f"{passes:g} passes ", color=FAINT, **up)
            labelled = x
    for point in sorted(points, key=lambda p: (p["best"], p["stage"])):
        style = look(point["look"])
        style.update(linestyle="none", markersize=1.6 * style["markersize"] if point["best"] else style["markersize"])
        if not point["best"]:
            style.update(markerfacecolor=PAGE, markeredgecolor=style["color"], markeredgewidth=1)
        where = f"{point['passes']:.3g} passes, {point['g_elements_per_s']:.0f}"
        label = f"{point['stage']}: {where}\n{point['variant']}" if point["best"] else None
        axes.plot(point["elements_per_byte"], point["g_elements_per_s"], label=label, zorder=5, **style)
    below(axes, labelspacing=0.9, handlelength=1.2)
    axes.set(xlabel="elements per byte requested", ylabel="10⁹ elements per second")
    axes.grid(visible=False)


def predicted(figure: Any, data: Json) -> None:
    axes = figure.subplots()
    points: list[Json] = data["points"]
    times = [p[key] for p in points for key in ("predicted_us", "measured_us")]
    low, high = min(times) / 1.5, max(times) * 1.5
    axes.plot([low, high], [low, high], color=COPY, linewidth=1.6)
    for factor in (2, 0.5):
        axes.plot([low, high], [low * factor, high * factor], color=FAINT, linewidth=0.8, linestyle=DASHES[2])
    for stage in data["stages"]:
        mine = [p for p in points if p["stage"] == stage]
        style = {**look(mine[0]["look"]), "linestyle": "none", "markeredgewidth": 0.4}
        axes.plot([p["predicted_us"] for p in mine], [p["measured_us"] for p in mine], label=stage, **style)
    # The corner below the diagonal is empty; the one above is where the axis goes on upwards.
    line = {"arrowstyle": "-", "color": FAINT, "linewidth": 0.8, "shrinkB": 4}
    for where, corner, align in (("above", (0.03, 0.97), "left"), ("below", (0.98, 0.04), "right")):
        point = data["extremes"][where]
        ratio = point["measured_us"] / point["predicted_us"]
        rounded = f"{ratio:.0f}" if ratio >= 9.5 else f"{ratio:.1f}"
        variant = re.sub(r"(.{16,}?_)", r"\1\n", point["variant"])  # or else a long one reaches the points
        text = f"{rounded} times the prediction:\n{point['stage']}\n{variant}\n{point['shape']}"
        style = {"ha": align, "va": "top" if where == "above" else "bottom", "arrowprops": line}
        axes.annotate(text, (point["predicted_us"], point["measured_us"]), corner, "data", "axes fraction", **style)
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, 6 * high))
    axes.set(xlabel="predicted time (µs)", ylabel="measured time (µs)")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
    below(axes, handlelength=1.2)


# How each kind is drawn, and its height in px: a chart of many stages grows rather than let its labels touch.
KINDS: dict[str, tuple[Callable[[Any, Json], None], Callable[[Json], int]]] = {
    "ladder": (ladder, lambda data: 110 + 62 * len(data["bars"])),
    "change": (change, lambda data: 10 + 52 * len(data["bars"])),
    "bandwidth": (bandwidth, lambda data: sum(map(panel_height, data["panels"]))),
    "judged": (judged, lambda data: 345 + (LINE + 5) * len(data["lines"])),
    "roofline": (roofline, lambda data: 490 + 48 * len({p["stage"] for p in data["points"]})),
    "heat_map": (heat_map, lambda data: int(100 + 28 * (len(data["stages"]) + len(data["peers"]) + HEAD_CELLS + 1))),
    "predicted": (predicted, lambda data: 450 + (LINE + 5) * len(data["stages"])),
}


def main(_argv: list[str]) -> None:
    load()
