"""The two charts of the lessons as SVG text: no library, and the same bytes for the same numbers.

Colours are Okabe and Ito's, told apart by colour-blind readers; dashes and markers tell the lines apart
in grey as well. The background is drawn, so that a chart reads the same on a dark page.
"""

from __future__ import annotations

import math
from html import escape
from statistics import mean
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

WIDTH = 880
FONT = "-apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
INK, FAINT_INK, GRID = "#1f2328", "#59636e", "#e3e6ea"
BAR = "#0072b2"
COPY = "#000000"

# (colour, dash, marker). Without yellow, which white swallows; black is the copy's.
LINE_STYLES = (
    ("#d55e00", "", "circle"),
    ("#0072b2", "9 4", "square"),
    ("#009e73", "2 3", "triangle"),
    ("#cc79a7", "", "diamond"),
    ("#e69f00", "9 3 2 3", "circle"),
    ("#56b4e9", "5 3", "square"),
)


class Bar(NamedTuple):
    """One stage of the ladder; percent is None where no variant is applicable."""

    stage: str
    variant: str
    percent: Optional[float]  # of the copy's speed
    time: str  # with its unit
    others: Tuple[float, ...]  # percent of the stage's other variants


class Line(NamedTuple):
    """One stage's bandwidth in GB/s by number of columns; a gap is a missing key."""

    label: str
    points: Dict[int, float]
    look: int = 0  # the stage's place in the ladder: it looks the same in every chart


def text_width(text: str, size: float) -> float:
    """Upper estimate in px of a sans-serif text's width: fonts differ from reader to reader."""
    return 0.56 * size * len(text)


def _text(x: float, y: float, text: str, size: int = 13, anchor: str = "start", more: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}"'
    anchored = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f"<text {place}{anchored}{more}>{escape(text, quote=False)}</text>"


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float, dash: str = "") -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width:g}"{dashed}/>'


def _document(height: float, title: str, subtitle: str, body: List[str]) -> str:
    size = f'width="{WIDTH}" height="{height:.0f}" viewBox="0 0 {WIDTH} {height:.0f}"'
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}" fill="{INK}">',
        f"<title>{escape(title, quote=False)}</title>",
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:.0f}" rx="6" fill="#ffffff" stroke="#d1d9e0"/>',
        _text(24, 34, title, 17, more=' font-weight="600"'),
        _text(24, 56, subtitle, 13, more=f' fill="{FAINT_INK}"'),
    ]
    return "\n".join(head + body + ["</svg>"]) + "\n"


def ladder_svg(title: str, subtitle: str, copy_label: str, bars: Sequence[Bar]) -> str:
    """Horizontal bars: each stage's best variant as percent of the copy; marks for its other variants."""
    labels = [text_width(bar.stage, 14) for bar in bars] + [text_width(bar.variant, 12) for bar in bars]
    left, right, top, pitch = 24 + max(labels) + 14, WIDTH - 120, 108, 46
    bottom = top + pitch * len(bars)
    most = max([100.0] + [p for bar in bars for p in (bar.percent or 0, *bar.others)])
    scale = (right - left) / (most * 1.03)

    body = []
    for tick in range(0, 100, 20):
        x = left + tick * scale
        body.append(_line(x, top, x, bottom, GRID, 1))
        body.append(_text(x, bottom + 18, f"{tick}", 12, "middle", f' fill="{FAINT_INK}"'))
    x = left + 100 * scale
    body.append(_line(x, top - 8, x, bottom, COPY, 1.5, "5 3"))
    body.append(_text(x, bottom + 18, "100", 12, "middle"))
    body.append(_text(x + 4, top - 16, copy_label, 13, "end"))
    for number, bar in enumerate(bars):
        middle = top + pitch * (number + 0.5)
        body.append(_text(24, middle - 2, bar.stage, 14, more=' font-weight="600"'))
        if bar.percent is None:
            body.append(_text(left + 6, middle + 4, "not applicable at this shape", 12, more=f' fill="{FAINT_INK}"'))
            continue
        body.append(_text(24, middle + 14, bar.variant, 12, more=f' fill="{FAINT_INK}"'))
        place = f'x="{left:.1f}" y="{middle - 12:.1f}" width="{bar.percent * scale:.1f}" height="24"'
        body.append(f'<rect {place} fill="{BAR}"/>')
        for other in bar.others:
            # White around the mark keeps it visible on the bar, black on the white beside it.
            x = left + other * scale
            body.append(_line(x, middle - 14, x, middle + 14, "#ffffff", 4))
            body.append(_line(x, middle - 14, x, middle + 14, INK, 1.5))
        body.append(_text(WIDTH - 24, middle - 2, f"{bar.percent:.1f} %", 14, "end", ' font-weight="600"'))
        body.append(_text(WIDTH - 24, middle + 14, bar.time, 12, "end", f' fill="{FAINT_INK}"'))
    body.append(_line(left, top, left, bottom, INK, 1))
    axis = "percent of the copy's speed. Bar: the stage's best variant. Black mark: another variant"
    body.append(_text(WIDTH - 24, bottom + 42, axis, 12, "end", f' fill="{FAINT_INK}"'))
    return _document(bottom + 60, title, subtitle, body)


def _marker(x: float, y: float, colour: str, shape: str) -> str:
    style = f'fill="{colour}" stroke="#ffffff" stroke-width="1"'
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" {style}/>'
    corners = {
        "square": ((-4, -4), (4, -4), (4, 4), (-4, 4)),
        "triangle": ((0, -5.5), (5, 4), (-5, 4)),
        "diamond": ((0, -6), (5, 0), (0, 6), (-5, 0)),
    }[shape]
    return '<polygon points="' + " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners) + f'" {style}/>'


def _look(index: int) -> Tuple[str, str, str]:
    """Colour, dash and marker: past the sixth line the colours come again with another marker."""
    markers = ("circle", "square", "triangle", "diamond")
    colour, dash, marker = LINE_STYLES[index % len(LINE_STYLES)]
    return colour, dash, markers[(markers.index(marker) + index // len(LINE_STYLES)) % len(markers)]


def spread_apart(wanted: Sequence[float], gap: float, low: float, high: float) -> List[float]:
    """Moves label positions as little as possible, keeping their order, to be `gap` apart in [low, high].

    `wanted` is ascending. When the range cannot hold them all, they go on past `high`.
    """
    # Without the gaps the task is to make a sequence ascending: neighbours out of order share their mean.
    groups: List[List[float]] = []
    for index, want in enumerate(wanted):
        groups.append([want - index * gap])
        while len(groups) > 1 and mean(groups[-2]) > mean(groups[-1]):
            last = groups.pop()
            groups[-1] += last
    top = max(low, high - gap * (len(wanted) - 1))
    settled = [min(max(mean(group), low), top) for group in groups for _ in group]
    return [place + index * gap for index, place in enumerate(settled)]


def _round_steps(most: float) -> Tuple[float, float]:
    """Axis step and end: 1, 2 or 5 times a power of ten, four to ten steps."""
    raw = most / 5
    power = 10 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw)
    return step, math.ceil(most / step) * step


def bandwidth_svg(title: str, subtitle: str, copy: Line, stages: Sequence[Line]) -> str:
    """Effective bandwidth over the number of columns (logarithmic), one line per stage, the copy on top.

    A stage that stops before the last column says so in its label; a gap in a line is a width at
    which no variant is applicable.
    """
    cols = sorted(copy.points)
    drawn = [(line, _look(line.look)) for line in stages if line.points]
    drawn.insert(0, (copy, (COPY, "", "")))
    labels = {
        line.label: line.label + (f", to {max(line.points)}" if max(line.points) < cols[-1] else "")
        for line, _ in drawn
    }
    left, top, bottom = 78, 96, 430
    right = WIDTH - 24 - 62 - max(text_width(label, 13) for label in labels.values())
    # A chart of many stages grows rather than let its labels touch.
    bottom = max(bottom, top + 20 * len(drawn))
    step, end = _round_steps(max(value for line, _ in drawn for value in line.points.values()))

    def x_of(col: int) -> float:
        span = math.log2(cols[-1] / cols[0]) or 1.0
        return left + 10 + (right - left - 20) * (math.log2(col / cols[0]) / span if len(cols) > 1 else 0.5)

    def y_of(value: float) -> float:
        return bottom - (bottom - top) * value / end

    body = [_text(24, top - 14, "GB/s", 12, more=f' fill="{FAINT_INK}"')]
    for tick in range(round(end / step) + 1):
        y = y_of(tick * step)
        body.append(_line(left, y, right, y, INK if tick == 0 else GRID, 1))
        body.append(_text(left - 8, y + 4, f"{tick * step:.0f}", 12, "end", f' fill="{FAINT_INK}"'))
    taken = -math.inf
    for col in cols:
        x, half = x_of(col), text_width(str(col), 12) / 2
        body.append(_line(x, bottom, x, bottom + 5, INK, 1))
        if x - half > taken:
            body.append(_text(x, bottom + 20, str(col), 12, "middle", f' fill="{FAINT_INK}"'))
            taken = x + half + 6
    body.append(_text((left + right) / 2, bottom + 42, "columns", 12, "middle", f' fill="{FAINT_INK}"'))

    for line, (colour, dash, marker) in drawn:
        width = 3 if line is copy else 2
        runs: List[List[str]] = [[]]
        for col in cols:
            if col in line.points:
                runs[-1].append(f"{x_of(col):.1f},{y_of(line.points[col]):.1f}")
            elif runs[-1]:
                runs.append([])
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        for run in (run for run in runs if len(run) > 1):
            points = " ".join(run)
            body.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}"{dashed}/>')
        if marker:
            body += [_marker(x_of(c), y_of(v), colour, marker) for c, v in sorted(line.points.items())]

    # Labels in the order of the lines' ends; the copy first, then by bandwidth.
    drawn.sort(key=lambda entry: y_of(entry[0].points[max(entry[0].points)]))
    ends = [y_of(line.points[max(line.points)]) for line, _ in drawn]
    for (line, (colour, dash, marker)), y, place in zip(drawn, ends, spread_apart(ends, 20, top, bottom)):
        swatch = right + 18
        if max(line.points) == cols[-1]:
            body.append(_line(x_of(cols[-1]) + 6, y, swatch - 2, place, colour, 0.75))
        body.append(_line(swatch, place, swatch + 36, place, colour, 3 if line is copy else 2, dash))
        if marker:
            body.append(_marker(swatch + 18, place, colour, marker))
        body.append(_text(swatch + 44, place + 4.5, labels[line.label], 13))
    return _document(bottom + 62, title, subtitle, body)
