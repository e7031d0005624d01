"""Draws which kernel does which matrices by the table of stage 14: rows upwards, columns to the right, for the recorded GPU."""

import itertools
import math
from pathlib import Path
from typing import NamedTuple

from measure.choices import Line, Part, read_table, recorded_cells, table_of

PICTURE = "14_dispatch/segments.svg"
MOST_COLS, MOST_ROWS = 500_000, 1 << 20
LEAST_COLS = 8
LEFT, TOP, WIDTH, HEIGHT = 74, 34, 550, 280
SHOWN = 480  # px: how wide a page shows it that has the room, as the pictures of the other lessons
LETTER, LINE = 11, 22  # px: the width of a letter, and the height of a line of text
PER_LINE = 4  # kernels in a line of the key
# The picture's names of forward kernels, and their colours: each stage has one, in shades.
KERNELS = {
    "two_or_three_packs": ("03 three", "#b6e3ff"),
    "two_rows_evict_last": ("03 rows", "#80ccff"),
    "padded_packs": ("03 padded", "#54aeff"),
    "fused": ("06 fused", "#d8dee4"),
    "online": ("06", "#afb8c1"),
    "row_exchange": ("07", "#ffb77c"),
    "head_and_tail": ("08", "#aceebb"),
    "flat_span": ("08 span", "#6fdd8b"),
    "row_in_flight": ("08 flight", "#4ac26b"),
    "cluster_2": ("×2", "#ecd8ff"),
    "cluster_4": ("×4", "#d8b9ff"),
    "cluster_16": ("×16", "#c297ff"),
    "registers": ("held", "#ffd6e6"),
    "tickets": ("tickets", "#ff9bce"),
    "unaligned_cluster": ("unaligned", "#f2cc60"),
}
OTHER = "#ffffff"
PANELS = {Part(4, "packs"): "4 bytes per element, rows of whole packs", Part(2, "packs"): "2 bytes per element, rows of whole packs"}


class Box(NamedTuple):
    """More rows than the first number, up to the second, and columns likewise, that are taken by a kernel."""

    rows: tuple[int, int]
    cols: tuple[int, int]
    kernel: str


def boxes(lines: list[Line]) -> list[Box]:
    """The kernel of the first line that holds each place, joined to rectangles; if the kernel can do it."""
    row_ends = sorted({min(line.most_rows, MOST_ROWS) for line in lines})
    col_ends = sorted({LEAST_COLS, *(min(max(line.most_cols, LEAST_COLS), MOST_COLS) for line in lines)})
    found: list[Box] = []
    for rows in zip([0, *row_ends], row_ends):
        of_rows = [line for line in lines if rows[1] <= line.most_rows]
        places = [(cols, next(line.kernel for line in of_rows if cols[1] <= line.most_cols)) for cols in itertools.pairwise(col_ends)]
        for kernel, group in itertools.groupby(places, key=lambda place: place[1]):
            columns = [cols for cols, _ in group]
            box = Box(rows, (columns[0][0], columns[-1][1]), kernel)
            below = next((one for one in found if one.cols == box.cols and one.kernel == kernel and one.rows[1] == rows[0]), None)
            if below:
                found[found.index(below)] = below._replace(rows=(below.rows[0], rows[1]))
            else:
                found.append(box)
    return found


def name_of(kernel: str) -> str:
    return KERNELS.get(kernel, (kernel, OTHER))[0]


def _x(cols: int) -> float:
    return LEFT + WIDTH * math.log(cols / LEAST_COLS) / math.log(MOST_COLS / LEAST_COLS)


def _y(top: int, rows: float) -> float:
    """The height between this number of rows and the next."""
    return top + HEIGHT * (1 - math.log(2 * rows + 1) / math.log(2 * MOST_ROWS + 1))


def _height(lines: list[Line]) -> int:
    """The height of a panel with its key."""
    return HEIGHT + 74 + LINE * -(-len({box.kernel for box in boxes(lines)}) // PER_LINE)


def _panel(top: int, title: str, lines: list[Line]) -> list[str]:
    parts = [f'<text x="{LEFT}" y="{top - 10}">{title}: rows by columns</text>']
    named: set[str] = set()
    found = boxes(lines)
    # The largest box of a kernel has its name, if there is room.
    for box in sorted(found, key=lambda box: (_x(box.cols[0]) - _x(box.cols[1])) * (_y(top, box.rows[0]) - _y(top, box.rows[1]))):
        left, right, low, high = _x(box.cols[0]), _x(box.cols[1]), _y(top, box.rows[0]), _y(top, box.rows[1])
        place = f'x="{left:.1f}" y="{high:.1f}" width="{right - left:.1f}" height="{low - high:.1f}"'
        name, colour = KERNELS.get(box.kernel, (box.kernel, OTHER))
        parts.append(f'<rect {place} fill="{colour}"/>')
        if box.kernel not in named and right - left > LETTER * len(name) and low - high > LINE:
            middle = f'x="{(left + right) / 2:.1f}" y="{(low + high) / 2 + 6:.1f}"'
            parts.append(f'<text class="in_box" {middle} text-anchor="middle">{name}</text>')
        named.add(box.kernel)
    for power in (0, 5, 10, 15, 20):
        parts.append(f'<text x="{LEFT - 8}" y="{_y(top, (1 << power) - 0.5) + 6:.1f}" text-anchor="end">{1 << power if power < 20 else "10⁶"}</text>')
    for cols in (32, 256, 2048, 16384, 131072):
        parts.append(f'<text x="{_x(cols):.1f}" y="{top + HEIGHT + 20}" text-anchor="middle">{cols}</text>')
    for number, kernel in enumerate(kernel for kernel in (*KERNELS, *sorted(named - KERNELS.keys())) if kernel in named):
        name, colour = KERNELS.get(kernel, (kernel, OTHER))
        left, low = LEFT + WIDTH // PER_LINE * (number % PER_LINE), top + HEIGHT + 52 + LINE * (number // PER_LINE)
        parts.append(f'<rect x="{left}" y="{low - 13}" width="16" height="16" fill="{colour}"/><text x="{left + 22}" y="{low}">{name}</text>')
    return parts


def _lines(root: Path) -> dict[str, list[Line]]:
    """By the title of a panel."""
    _, gpu = recorded_cells(root)
    table = read_table(table_of(root, gpu))
    return {title: table.lines["Forward", part] for part, title in PANELS.items()}


def alt(root: Path) -> str:
    """The picture in words: which kernel takes a matrix of very many rows, and which takes one row; without the narrowest segments."""
    said = ["Which kernel takes a matrix, by rows and columns"]
    for title, lines in _lines(root).items():
        found = sorted(boxes(lines), key=lambda box: box.cols)
        for how_many, row in (("many rows", MOST_ROWS), ("one row", 1)):
            here = [box for box in found if box.rows[0] < row <= box.rows[1] and box.cols[1] > 1.5 * box.cols[0]]
            ends = [f"up to {box.cols[1]} columns" for box in here[:-1]] + ["above"]
            said.append(f"{title}, {how_many}: " + ", ".join(f"{name_of(box.kernel)} {end}" for box, end in zip(here, ends)))
    return ". ".join(said)


def drawn(root: Path) -> str:
    parts, top = [], TOP
    for title, lines in _lines(root).items():
        parts += _panel(top, title, lines)
        top += _height(lines)
    height, words = top - TOP, alt(root)
    style = "<style>text { font-family: sans-serif; font-size: 18px; fill: #1f2328; } .in_box { fill: #1f2328; }\n"
    style += "@media (prefers-color-scheme: dark) { text { fill: #f0f6fc; } .in_box { fill: #1f2328; } }</style>"
    size = f'viewBox="0 0 640 {height}" width="{SHOWN}" height="{height * SHOWN / 640:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} shape-rendering="crispEdges" role="img" aria-label="{words}">'
    return "\n".join([head, f"<title>{words}</title>", style, *parts, "</svg>", ""])
