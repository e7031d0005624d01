"""Draws which kernel does which matrices by the table of stage 14: rows upwards, columns to the right, for the recorded GPU."""

import itertools
import math
from pathlib import Path
from typing import NamedTuple

from measure.choices import TABLE, Line, Part, read_table

PICTURE = "14_dispatch/segments.svg"
MOST_COLS, MOST_ROWS = 500_000, 1 << 20
LEAST_COLS = 8
LEFT, TOP, WIDTH, HEIGHT, APART = 74, 34, 550, 280, 390
SHOWN = 480  # px: how wide a page shows it that has the room, as the pictures of the other lessons
LETTER, LINE = 11, 18  # px: the width of one, and the height of a line of text
# The picture's names of forward kernels that have another one there. Each stage has a colour.
NAMES = {
    "two_or_three_packs": "03 three",
    "two_rows_evict_last": "03 rows",
    "padded_packs": "03 padded",
    "fused": "06 fused",
    "online": "06",
    "row_exchange": "07",
    "head_and_tail": "08",
    "flat_span": "08 span",
    "row_in_flight": "08 flight",
    "cluster_2": "×2",
    "cluster_4": "×4",
    "cluster_16": "×16",
    "registers": "held",
    "unaligned_cluster": "unaligned",
}
COLOURS = {"03": "#b6e3ff", "06": "#d8dee4", "07": "#ffd8b5", "08": "#aceebb", "10": "#e3d2ff"}
PANELS = {Part(4, True): "4 bytes per element, rows of whole packs", Part(2, True): "2 bytes per element, rows of whole packs"}


class Box(NamedTuple):
    """More rows than the first number, up to the second, and columns likewise, that are taken by a kernel."""

    rows: tuple[int, int]
    cols: tuple[int, int]
    kernel: str


def boxes(lines: list[Line]) -> list[Box]:
    """The kernel of the first line that holds each place, joined to rectangles; if the kernel can do it."""
    row_ends = sorted({min(line.most_rows, MOST_ROWS) for line in lines})
    col_ends = sorted({min(line.most_cols, MOST_COLS) for line in lines})
    found: list[Box] = []
    for rows in zip([0, *row_ends], row_ends):
        places = [
            (cols, next(line.kernel for line in lines if rows[1] <= line.most_rows and cols[1] <= line.most_cols))
            for cols in zip([LEAST_COLS, *col_ends], col_ends)
        ]
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
    return NAMES.get(kernel, kernel)


def _x(cols: int) -> float:
    return LEFT + WIDTH * math.log(cols / LEAST_COLS) / math.log(MOST_COLS / LEAST_COLS)


def _y(top: int, rows: float) -> float:
    """The height between this number of rows and the next."""
    return top + HEIGHT * (1 - math.log(2 * rows + 1) / math.log(2 * MOST_ROWS + 1))


def _panel(top: int, title: str, lines: list[Line]) -> list[str]:
    parts = [f'<text x="{LEFT}" y="{top - 10}">{title}: rows by columns</text>']
    letters: dict[str, str] = {}  # of the kernels whose names some box has no room for
    for box in boxes(lines):
        name = name_of(box.kernel)
        left, right, low, high = _x(box.cols[0]), _x(box.cols[1]), _y(top, box.rows[0]), _y(top, box.rows[1])
        place = f'x="{left + 1:.1f}" y="{high + 1:.1f}" width="{right - left - 2:.1f}" height="{low - high - 2:.1f}"'
        parts.append(f'<rect {place} fill="{COLOURS.get(name[:2], COLOURS["10"])}"/>')
        text = name
        if right - left < LETTER * len(name) or low - high < LINE:
            text = letters.setdefault(name, chr(ord("a") + len(letters)))
        middle = f'x="{(left + right) / 2:.1f}" y="{(low + high) / 2 + 6:.1f}"'
        parts.append(f'<text class="in_box" {middle} text-anchor="middle">{text}</text>')
    for power in (0, 5, 10, 15, 20):
        parts.append(f'<text x="{LEFT - 8}" y="{_y(top, (1 << power) - 0.5) + 6:.1f}" text-anchor="end">{1 << power if power < 20 else "10⁶"}</text>')
    for cols in (32, 256, 2048, 16384, 131072):
        parts.append(f'<text x="{_x(cols):.1f}" y="{top + HEIGHT + 20}" text-anchor="middle">{cols}</text>')
    if letters:
        key = ", ".join(f"{letter}: {name}" for name, letter in letters.items())
        parts.append(f'<text x="{LEFT}" y="{top + HEIGHT + 50}">{key}</text>')
    return parts


def alt(root: Path) -> str:
    """The picture in words: which kernel takes a matrix of very many rows, and which takes one row."""
    said = ["Which kernel takes a matrix, by rows and columns"]
    table = read_table(root / TABLE)
    for part, title in PANELS.items():
        found = sorted(boxes(table["Forward", part].lines), key=lambda box: box.cols)
        for how_many, row in (("many rows", MOST_ROWS), ("one row", 1)):
            here = [box for box in found if box.rows[0] < row <= box.rows[1]]
            ends = [f"up to {box.cols[1]} columns" for box in here[:-1]] + ["above"]
            said.append(f"{title}, {how_many}: " + ", ".join(f"{name_of(box.kernel)} {end}" for box, end in zip(here, ends)))
    return ". ".join(said)


def drawn(root: Path) -> str:
    table = read_table(root / TABLE)
    parts = []
    for number, (part, title) in enumerate(PANELS.items()):
        parts += _panel(TOP + APART * number, title, table["Forward", part].lines)
    height, words = TOP + APART * len(PANELS) - 40, alt(root)
    style = "<style>text { font-family: sans-serif; font-size: 18px; fill: #1f2328; } .in_box { fill: #1f2328; }\n"
    style += "@media (prefers-color-scheme: dark) { text { fill: #f0f6fc; } .in_box { fill: #1f2328; } }</style>"
    size = f'viewBox="0 0 640 {height}" width="{SHOWN}" height="{height * SHOWN / 640:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{words}">'
    return "\n".join([head, f"<title>{words}</title>", style, *parts, "</svg>", ""])
