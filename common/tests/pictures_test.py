"""Tests that every SVG of the repository can be read on a telephone, on a light page and on a dark one."""

import re
from pathlib import Path
from typing import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from prose_test import ROOT, files

SVG = "{http://www.w3.org/2000/svg}"
PAGES = {"light": "#ffffff", "dark": "#0d1117"}
# px: the width of a picture on a telephone of 390, of which a code host keeps 16 at each side, and the least size of text
TELEPHONE, SMALLEST = 358, 10
OF_STROKES, OF_TEXT, OF_LABELS = 3.0, 4.5, 3.0  # contrasts: to the page, to the page, to a box below the text
DARK = re.compile(r"@media \(prefers-color-scheme: dark\)\s*{((?:[^{}]|{[^{}]*})*)}")
RULE = re.compile(r"([^{}]+){([^{}]*)}")
NUMBER = r"-?\d+(?:\.\d+)?"
VARIABLE = re.compile(r"var\((--[\w-]+), (#\w{6})\)")
Rules = list[tuple[str, dict[str, str]]]  # a selector, a class or an element's name, and its properties


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted(luminance(colour) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def blended(colour: str, below: str, opacity: float) -> str:
    pairs = ((int(colour[i : i + 2], 16), int(below[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(opacity * one + (1 - opacity) * other):02x}" for one, other in pairs)


def properties(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.split(";") if ":" in line)
    return {name.strip(): of.strip() for name, _, of in pairs}


def rules(css: str) -> Rules:
    return [(name.strip(), properties(body)) for names, body in RULE.findall(css) for name in names.split(",")]


def value(elements: list[Element], name: str, css: Rules) -> str:
    """The value of a property in the innermost element (the last one) that has it."""
    for element in reversed(elements):
        style = properties(element.get("style", ""))
        selectors = [f".{word}" for word in element.get("class", "").split()] + [element.tag.removeprefix(SVG)]
        of_rules = [found[name] for selector, found in css if selector in selectors and name in found]
        own = style.get(name) or (of_rules[-1] if of_rules else element.get(name))
        if own:
            return own
    return ""


def with_ancestors(root: Element) -> Iterator[list[Element]]:
    def walk(above: list[Element]) -> Iterator[list[Element]]:
        yield above
        for child in above[-1]:
            yield from walk([*above, child])

    yield from walk([root])


def text_size(elements: list[Element], css: Rules) -> float:
    for element in reversed(elements):
        size = re.search(r"([\d.]+)px", properties(element.get("style", "")).get("font", ""))
        found = size[1] if size else value([element], "font-size", css)
        if found:
            return float(found.removesuffix("px"))
    return 16.0


def anchor(text: Element) -> str:
    return text.get("text-anchor") or properties(text.get("style", "")).get("text-anchor", "start")


def number(element: Element, name: str) -> float:
    return float(element.get(name, "0"))


Box = tuple[float, float, float, float]  # left, top, right, bottom


def box_of(element: Element) -> Box | None:
    """The box of a rectangle, also of one that matplotlib draws as a path."""
    if element.tag == SVG + "rect":
        left, top = number(element, "x"), number(element, "y")
        return left, top, left + number(element, "width"), top + number(element, "height")
    corners = re.findall(rf"[ML] ({NUMBER}) ({NUMBER})", element.get("d", ""))
    xs, ys = ([float(corner[axis]) for corner in corners] for axis in (0, 1))
    return (min(xs), min(ys), max(xs), max(ys)) if len(corners) in (4, 5) and "C" not in element.get("d", "") else None


def behind(text: Element, boxes: list[tuple[Box, str]], page: str) -> str:
    """The colour of the last box drawn below the text, or the page's."""
    x, y = number(text, "x") + {"middle": 0, "end": -2}.get(anchor(text), 2), number(text, "y") - 4
    for (left, top, right, bottom), colour in reversed(boxes):
        if left <= x <= right and top <= y <= bottom:
            return colour
    return page


def leaves_the_picture(text: Element, size: float, width: float) -> bool:
    """By a careful guess of a letter's width."""
    wide = 0.54 * size * len("".join(text.itertext()))
    part = {"middle": 0.5, "end": 0.0}.get(anchor(text), 1.0)
    turned = "rotate" in text.get("transform", "") and "rotate(-0 " not in text.get("transform", "")
    left = number(text, "x") - (1 - part) * wide
    return not turned and "x" in text.keys() and (left < 0 or left + wide > width)


def resolved(colour: str, variables: dict[str, str]) -> str:
    """The value of the variable in var(--name, #colour), or the colour after it if there is none."""
    return VARIABLE.sub(lambda found: variables.get(found[1], found[2]), colour)


def problems(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    css = "".join(element.text or "" for element in root.iter(SVG + "style"))
    in_dark = DARK.search(css)
    if not in_dark:
        return ["has no colours for a dark page"]
    by_page = {"light": rules(DARK.sub("", css))}
    by_page["dark"] = by_page["light"] + rules(in_dark[1])
    variables = {name: found for _, body in rules(in_dark[1]) for name, found in body.items() if name.startswith("--")}
    width = float(root.get("viewBox", "").split()[2])
    boxes: dict[str, list[tuple[Box, str]]] = {page: [] for page in PAGES}
    found = [] if root.get("width") else ["has no width: a wide page stretches it over all of its own"]
    for elements in with_ancestors(root):
        element = elements[-1]
        words = "".join(element.itertext()).strip() if element.tag == SVG + "text" else ""
        size = text_size(elements, by_page["light"])
        if words and size * TELEPHONE / width < SMALLEST:
            found.append(f"text of {size * TELEPHONE / width:.1f} px at {TELEPHONE} px: {words}")
        if words and leaves_the_picture(element, size, width):
            found.append(f"leaves the picture: {words}")
        for page, paper in PAGES.items():
            stroke, fill = (resolved(value(elements, name, by_page[page]), variables if page == "dark" else {}) for name in ("stroke", "fill"))
            # A line of the page's own colour keeps others apart.
            if stroke not in ("", "none", paper) and contrast(stroke, paper) < OF_STROKES:
                found.append(f"stroke {stroke} on a {page} page: contrast {contrast(stroke, paper):.1f}, not {OF_STROKES}")
            if element.tag == SVG + "use" and fill not in ("", "none", paper):
                mark = blended(fill, paper, float(value(elements, "opacity", by_page[page]) or "1"))
                if contrast(mark, paper) < OF_STROKES:
                    found.append(f"mark {mark} on a {page} page: contrast {contrast(mark, paper):.1f}, not {OF_STROKES}")
            box = box_of(element) if fill not in ("none", "") else None
            if box:
                opacity = value(elements, "opacity", by_page[page]) or value(elements, "fill-opacity", by_page[page]) or "1"
                boxes[page].append((box, blended(fill, paper, float(opacity))))
            if words:
                ground = behind(element, boxes[page], paper)
                least = OF_TEXT if ground == paper else OF_LABELS
                if contrast(fill or "#000000", ground) < least:
                    found.append(f"text {fill} on {ground}, {page}: contrast {contrast(fill, ground):.1f}, not {least}")
    return list(dict.fromkeys(found))


def pictures(root: Path) -> list[Path]:
    return [file for file in files(root) if file.suffix == ".svg"]


@pytest.mark.parametrize("name", [file.relative_to(ROOT).as_posix() for file in pictures(ROOT)])
def test_pictures_can_be_read(name: str) -> None:
    assert problems((ROOT / name).read_text(encoding="utf-8")) == []


HEAD = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 480 100" width="480" font-size="14"><style>text { fill: #1f2328; } '
BOTH = f"""{HEAD}.a {{ stroke: #0072b2; }}
@media (prefers-color-scheme: dark) {{ text {{ fill: #e6edf3; }} .a {{ stroke: #56b4e9; }} }}</style>"""


@pytest.mark.parametrize(
    "svg, said",
    {
        f'{BOTH}<g class="a"><path/></g><text>right</text></svg>': "",
        f"{HEAD}</style></svg>": "has no colours for a dark page",
        f"{BOTH}</svg>".replace('width="480" ', ""): "has no width: a wide page stretches it over all of its own",
        f'{BOTH}<g font-size="12"><text>small</text></g></svg>': "text of 8.9 px at 358 px: small",
        f'{BOTH}<path stroke="#e3e6ea"/></svg>': "stroke #e3e6ea on a light page: contrast 1.3, not 3.0",
        f'{BOTH}<g stroke="#1f2328"><path/></g></svg>': "stroke #1f2328 on a dark page: contrast 1.2, not 3.0",
        f'{BOTH}<text style="fill: #8b949e">pale</text></svg>': "text #8b949e on #ffffff, light: contrast 3.1, not 4.5",
        f'{BOTH}<rect width="99" height="9" fill="#111111"/><text x="9" y="9">dark on dark</text></svg>':
            "text #1f2328 on #111111, light: contrast 1.2, not 3.0",
        f'{BOTH}<path d="M 0 0 L 99 0 L 99 9 L 0 9 z" style="fill: #000000; opacity: 0.9"/><text x="9" y="9">x</text></svg>':
            "text #1f2328 on #191919, light: contrast 1.1, not 3.0",
        f'{BOTH}<rect width="99" height="9" fill="#e69f00"/><text x="9" y="9" style="fill: #1f2328">right</text></svg>': "",
        f'{BOTH}<use style="fill: #0072b2; opacity: 0.75"/></svg>': "mark #035a8b on a dark page: contrast 2.6, not 3.0",
        f'{BOTH}<text x="300">{"a long line " * 3}</text></svg>': "leaves the picture: a long line a long line a long line",
        f'{BOTH}<path style="stroke: var(--x, #59636e)"/></svg>'.replace("{ text", "{ svg { --x: #30363d; } text"):
            "stroke #30363d on a dark page: contrast 1.6, not 3.0",
    }.items(),
)  # fmt: skip
def test_what_cannot_be_read_is_found(svg: str, said: str) -> None:
    assert said in (problems(svg) or [""]) and len(problems(svg)) <= 1
