"""Tests that every SVG of the repository can be read on a telephone, on a light page and on a dark one."""

import re
from pathlib import Path
from typing import Callable, Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from prose_test import ROOT, files

SVG = "{http://www.w3.org/2000/svg}"
PAGES = {"light": "#ffffff", "dark": "#0d1117"}
TELEPHONE, SMALLEST = 360, 10  # px: how wide a picture is there, and how small its text may be
OF_STROKES, OF_TEXT = 3.0, 4.5  # contrasts to the page, of WCAG 2.1
DARK = re.compile(r"@media \(prefers-color-scheme: dark\)\s*{((?:[^{}]|{[^{}]*})*)}")
RULE = re.compile(r"([^{}]+){([^{}]*)}")
VARIABLE = re.compile(r"var\((--[\w-]+), (#\w{6})\)")
Rules = list[tuple[str, dict[str, str]]]  # a selector, a class or an element's name, and its properties


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted(luminance(colour) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def properties(text: str) -> dict[str, str]:
    return dict((part.strip() for part in line.split(":", 1)) for line in text.split(";") if ":" in line)  # type: ignore[misc]


def rules(css: str) -> Rules:
    return [(name.strip(), properties(body)) for names, body in RULE.findall(css) for name in names.split(",")]


def value(elements: list[Element], name: str, css: Rules) -> str:
    """Of a property: of the innermost element (the last one) that has it."""
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
    found: list[str] = []
    for elements in with_ancestors(root):
        element = elements[-1]
        is_text = element.tag == SVG + "text" and "".join(element.itertext()).strip()
        size = text_size(elements, by_page["light"]) * TELEPHONE / width
        if is_text and size < SMALLEST:
            found.append(f"text of {size:.1f} px at {TELEPHONE} px: {''.join(element.itertext())}")
        for page, behind in PAGES.items():
            resolve: Callable[[re.Match[str]], str] = lambda v: variables[v[1]] if page == "dark" else v[2]
            colours = {name: VARIABLE.sub(resolve, value(elements, name, by_page[page])) for name in ("stroke", "fill")}
            for name, least in (("stroke", OF_STROKES), *[("fill", OF_TEXT)] * bool(is_text)):
                colour = colours[name] or ("#000000" if name == "fill" else "none")
                # What has the page's own colour keeps others apart.
                if colour in ("none", behind):
                    continue
                if contrast(colour, behind) < least:
                    found.append(f"{name} {colour} on a {page} page: contrast {contrast(colour, behind):.1f}, not {least}")
    return list(dict.fromkeys(found))


def pictures(root: Path) -> list[Path]:
    return [file for file in files(root) if file.suffix == ".svg"]


@pytest.mark.parametrize("name", [file.relative_to(ROOT).as_posix() for file in pictures(ROOT)])
def test_pictures_can_be_read(name: str) -> None:
    assert problems((ROOT / name).read_text(encoding="utf-8")) == []


HEAD = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 480 100" font-size="14"><style>text { fill: #1f2328; } '
BOTH = HEAD + ".a { stroke: #0072b2; } @media (prefers-color-scheme: dark) { text { fill: #e6edf3; } .a { stroke: #56b4e9; } }</style>"


@pytest.mark.parametrize(
    "svg, said",
    {
        f'{BOTH}<g class="a"><path/></g><text>right</text></svg>': "",
        f"{HEAD}</style></svg>": "has no colours for a dark page",
        f'{BOTH}<text font-size="13">small</text></svg>': "text of 9.8 px at 360 px: small",
        f'{BOTH}<g font-size="12"><text>small</text></g></svg>': "text of 9.0 px at 360 px: small",
        f'{BOTH}<path stroke="#e3e6ea"/></svg>': "stroke #e3e6ea on a light page: contrast 1.3, not 3.0",
        f'{BOTH}<g stroke="#1f2328"><path/></g></svg>': "stroke #1f2328 on a dark page: contrast 1.2, not 3.0",
        f'{BOTH}<text style="fill: #8b949e">pale</text></svg>': "fill #8b949e on a light page: contrast 3.1, not 4.5",
        f'{BOTH}<path style="stroke: var(--x, #59636e)"/></svg>'.replace("{ text", "{ svg { --x: #30363d; } text"):
            "stroke #30363d on a dark page: contrast 1.6, not 3.0",
    }.items(),
)  # fmt: skip
def test_what_cannot_be_read_is_found(svg: str, said: str) -> None:
    assert said in (problems(svg) or [""]) and len(problems(svg)) <= 1
