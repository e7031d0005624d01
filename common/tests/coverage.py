#!/usr/bin/env python3
"""The parts of the stages' kernels that no test has run on the simulator, which recorded the others with SIM_COVERAGE:

    coverage.py FOLDER STAGE...    FOLDER: of SIM_COVERAGE; STAGE: an executable

Prints kernels that were never launched, source lines that no thread reached, and lines whose branches went one way only, in
some kernels made of one template or in all of them. Unreachable parts are in coverage_accepted.txt, with the reason. A branch is
one of the PTX; nvcc makes some of them selections, which have no ways to go.

Exit codes: 0 nothing is missing, 1 something is, 3 branches are, and the PTX is by another version of nvcc than the list's.
"""

import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from counts import demangled

ROOT = Path(__file__).resolve().parents[2]
ACCEPTED = Path(__file__).with_name("coverage_accepted.txt")
# Kernels of libraries and of the harness: the stages do not decide which of them are launched.
OTHERS = re.compile(r"\b(thrust|cub|tabulate_detail)::|^(void )?\(anonymous namespace\)::")
EXECUTED, TAKEN, PASSED = 1, 2, 4


def path_in_repository(path: str) -> str | None:
    """Also of a checkout that lay elsewhere: a compiler's cache keeps the paths of whoever compiled first."""
    parts: list[str] = []
    for part in Path(path).parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    tails = ("/".join(parts[-count:]) for count in range(2, len(parts)))
    return next((tail for tail in tails if (ROOT / tail).is_file()), None)


@dataclass
class Place:
    """A source line, as part of all kernels that one template was made into."""

    is_reached: bool = False
    branches: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # by kernel: TAKEN, PASSED


@dataclass(frozen=True)
class Accepted:
    files: str  # a pattern
    text: str
    in_all: bool


def accepted_places() -> tuple[str, list[Accepted]]:
    """The version of PTX that the list is for, and the list."""
    text = "".join(line for line in ACCEPTED.read_text(encoding="utf-8").splitlines(True) if not line.startswith("#"))
    version, *entries = text.strip().split("\n\n")
    found = []
    for entry in entries:
        files, *lines, reason = (part.strip() for part in entry.split("\n"))
        source = [line for path in ROOT.glob(files) for line in path.read_text(encoding="utf-8").splitlines()]
        for text in lines:
            if not any(text in line for line in source) or not re.match("(some|all): ", reason):
                sys.exit(f"{ACCEPTED.name}: {files} has no such line, or it says neither 'some' nor 'all': {text}")
            found.append(Accepted(files, text, reason.startswith("all")))
    return version.removeprefix("PTX "), found


def read_places(folder: Path, kernels: set[str]) -> tuple[dict[tuple[str, str, int], Place], set[str]]:
    """By template, file and line; and the kernels, by their names in the PTX, that were launched."""
    places: dict[tuple[str, str, int], Place] = defaultdict(Place)
    launched = set()
    files: dict[str, str | None] = {}
    for path in folder.glob("*.kernel"):
        head, _, code = path.read_text(encoding="utf-8").partition("\n\n")
        name, readable, *written = head.split("\n")
        if name not in kernels:
            continue
        launched.add(name)
        for instruction, ran in zip(code.split("\n"), path.with_suffix(".ran").read_bytes()):
            # The innermost of the lines through which it was inlined.
            file, _, line = written[int(instruction.rstrip("b"))].split(" from ")[0].rpartition(":")
            if file not in files:
                files[file] = path_in_repository(file)
            known = files[file]
            if known is None:
                continue
            place = places[re.sub("<.*", "", readable), known, int(line)]
            place.is_reached |= ran & EXECUTED != 0
            if instruction.endswith("b"):
                place.branches[readable] |= ran & (TAKEN | PASSED)
    return places, launched


def holes_of(places: dict[tuple[str, str, int], Place], accepted: list[Accepted]) -> list[str]:
    holes = []
    for (template, file, line), place in sorted(places.items()):
        text = (ROOT / file).read_text(encoding="utf-8").splitlines()[line - 1].strip()
        where = f"{file}:{line}: {text}\n    in {template}"
        one_way = sorted(kernel for kernel, ways in place.branches.items() if ways != TAKEN | PASSED)
        is_accepted = any(fnmatch(file, entry.files) and entry.text in text
                          and (entry.in_all or len(one_way) < len(place.branches)) for entry in accepted)  # fmt: skip
        if not place.is_reached:
            holes.append(f"never reached: {where}")
        elif one_way and not is_accepted:
            holes.append(f"one way only: {where}, {len(one_way)} of {len(place.branches)}, such as {one_way[0]}")
    return holes


def main() -> int:
    folder, executables = Path(sys.argv[1]), [Path(path) for path in sys.argv[2:]]
    ptx = b"".join(path.read_bytes() for path in executables)  # the executables hold it as text
    kernels = {name.decode() for name in re.findall(rb"\.entry (\w+)\(", ptx)}
    places, launched = read_places(folder, kernels)
    unseen = sorted(re.sub(r"^void |\([^()]*\)$", "", name)
                    for name in map(demangled, kernels - launched) if not OTHERS.search(name))  # fmt: skip
    recorded_version, accepted = accepted_places()
    holes = holes_of(places, accepted)
    print(*(f"never launched: {name}" for name in unseen), *holes, sep="\n")
    print(f"{len(launched)} kernels were launched, {len(unseen)} were not; {len(holes)} of {len(places)} places are not covered")
    versions = {version.decode() for version in re.findall(rb"\.version ([\d.]+)\n", ptx)}
    if not unseen and holes and versions != {recorded_version}:
        print(f"skipped: {ACCEPTED.name} is for PTX {recorded_version}")
        return 3
    return 1 if unseen or holes or not launched else 0


if __name__ == "__main__":
    sys.exit(main())
