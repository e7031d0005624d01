"""Why Nsight Compute's counts differ from the simulator's: the reasons in explanations.md, and the places where they hold."""

import re
from pathlib import Path
from typing import NamedTuple

from measure.results import Json, place_of

ELSEWHERE = "elsewhere: "


class Explanation(NamedTuple):
    name: str
    more: bool  # ncu counts more than the simulator; otherwise fewer
    patterns: tuple[str, ...]  # of place_of() and a counter's name
    reason: str


def read(path: Path) -> list[Explanation]:
    found = []
    for section in path.read_text(encoding="utf-8").split("\n## ")[1:]:
        heading, patterns, reason = section.strip().split("\n\n")
        name, more = heading.split(": ")
        lines = tuple(line.strip() for line in patterns.splitlines())
        found.append(Explanation(name, more == "more", lines, " ".join(reason.split())))
    return found


EXPLANATIONS = read(Path(__file__).with_suffix(".md"))


def explain(entry: Json, counter: str, more: bool, anywhere: bool) -> tuple[Explanation | None, str]:
    """The first that holds there, and its pattern; `anywhere`: at shapes that the table does not have, too."""
    place = f"{place_of(entry)} {counter}"
    for explanation in EXPLANATIONS:
        for pattern in explanation.patterns if explanation.more == more else ():
            if (anywhere or not pattern.startswith(ELSEWHERE)) and re.fullmatch(pattern.removeprefix(ELSEWHERE), place):
                return explanation, pattern
    return None, ""
