"""Writes a page that shows the requests of each warp of a kernel, step by step, as the CPU simulator recorded them: lanes and
the sectors or banks that they touch, shuffles with their values, barriers, and the source next to them. Needs no GPU.

    ./run watch 04                                        the variants of stage 04, on a small matrix
    ./run watch 04 --variant vector_layout --cols 2048    one of them, another matrix
    ./run watch 10 --blocks 0-15 --events 3000            more blocks, and more steps of each kernel

The page is one file, build/watch-04.html (--out: another): it opens from disk and needs no network. It says what
it leaves out: other blocks, and the steps after the last recorded one.

Exit codes: 0 written; 1 a wrong result, or nothing ran (a page is written all the same if there is something to see);
2 bad usage, or a tool is missing; 70 the stage could not be built.
"""

import argparse
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from command import Parser, ToolError, Usage, file_to_write, say, whole_number
from files import write_whole
from learn.building import build

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parents[3]
TEMPLATE = Path(__file__).with_name("watch.html")
TIMEOUT_S = 300
BLOCKS, EVENTS = "0-1", 1000
ROWS = 2
# The first of these widths that a variant takes. Some hold one pack for each lane, some want one for each lane of 16 blocks.
WIDTHS = (512, 256, 128, 1024, 2048, 4096, 33)
# The subject of a lesson, if it is something else.
DEFAULTS: dict[str, Json] = {
    "01_naive": {"rows": 32},  # a warp of them
    "03_warp_reduce": {"rows": 4},  # one for each warp of a block
    "04_smem_bank_conflict": {"dtype": "f16"},  # packs of eight values
    "07_split_row": {"rows": 1, "widths": (8192,)},  # a row of several parts
    "08_unaligned_rows": {"widths": (257,)},  # of no whole number of packs
}


# ---- Recording


def record(command: list[str], root: Path, blocks: str, events: int, warps: str | None = None,
           timeout_s: float = TIMEOUT_S) -> tuple[list[Json], int, str]:  # fmt: skip
    """The launches that a program made under the simulator, its exit code, and its output. If a block stopped that was
    not to be recorded, it is recorded in place of the others."""
    with tempfile.TemporaryDirectory(prefix="softmax-watch-") as folder:
        file = Path(folder) / "trace"
        choice = {"SIM_TRACE": str(file), "SIM_TRACE_BLOCKS": blocks, "SIM_TRACE_EVENTS": str(events)}
        if warps:
            choice["SIM_TRACE_WARPS"] = warps
        try:
            done = subprocess.run(command, cwd=root, env={**os.environ, **choice}, stdin=subprocess.DEVNULL, check=False,
                                  capture_output=True, text=True, errors="replace", timeout=timeout_s)  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise ToolError(f"{Path(command[0]).name} has not ended after {timeout_s:g} seconds") from error
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []
    launches = [json.loads(line) for line in lines]
    for launch in launches:
        block = str(place_of_fault(launch)[0])
        if "fault" in launch and blocks != block and not any(str(event["block"]) == block for event in launch["events"]):
            return record(command, root, block, events, timeout_s=timeout_s)
    return launches, done.returncode, (done.stdout + done.stderr).strip()


def variants_of(stage: Path, root: Path) -> list[str]:
    listed = subprocess.run([str(stage), "--list"], cwd=root, capture_output=True, text=True, check=False).stdout
    return [line.split()[0] for line in listed.splitlines() if line.strip()]


def record_variant(stage: Path, variant: str, options: argparse.Namespace) -> tuple[Json | None, str]:
    """A run of the page, None if the variant does not apply; and the stage's message about a wrong result."""
    shape: dict[str, Any] = {"rows": ROWS, "dtype": "f32", "widths": WIDTHS} | DEFAULTS.get(stage.name, {})
    rows, dtype = options.rows or shape["rows"], options.dtype or shape["dtype"]
    for cols in (options.cols,) if options.cols else shape["widths"]:
        shown = f"--variant {variant} --rows {rows} --cols {cols} --dtype {dtype}"
        for name in ("op", "input", "offset"):
            if getattr(options, name):
                shown += f" --{name} {getattr(options, name)}"
        command = [str(stage), "--device", "sim", "--verify-only", *shown.split()]
        launches, code, said = record(command, options.root, options.blocks, options.events, options.warps)
        if code == Usage.code:
            raise Usage(said)
        if launches:
            title = f"{variant}, {dtype} {rows} × {cols}"
            number = stage.name[:2]
            return {"title": title, "command": f"./run watch {number} {shown}", "launches": launches}, said if code else ""
    if not options.op and not code:  # its operation may be another one of the stage's
        return record_variant(stage, variant, argparse.Namespace(**{**vars(options), "op": "all"}))
    return None, said if code else ""


# ---- The page


def file_below(path: str, root: Path) -> str:
    """The name of a file of this checkout, seen from its top; "" of any other. A compiler cache, or a build folder that was
    moved, may name the files of another checkout."""
    parts = Path(path).parts
    for first in range(len(parts) if Path(path).is_absolute() else 1):
        name = Path(*parts[first:])
        if not name.is_absolute() and ".." not in name.parts and (root / name).is_file():
            return str(name)
    return ""


def places_of(text: str, root: Path) -> list[tuple[str, int]]:
    """Of "file:line from file:line": those in this checkout, innermost first."""
    found = []
    for place in re.split(r"\s+(?:called )?from ", text):
        path, _, line = place.strip().rpartition(":")
        name = file_below(path, root) if path else ""
        if name and line.isdigit():
            found.append((name, int(line)))
    return found


def shorter(lanes: list[int | None]) -> list[int | None]:
    """[first, step] of 32 numbers with one step; others as they are."""
    first, second = lanes[0], lanes[1]
    if None in lanes or first is None or second is None:
        return lanes
    return [first, second - first] if lanes == [first + i * (second - first) for i in range(len(lanes))] else lanes


def place_of_fault(launch: Json) -> tuple[int, int, int]:
    """Block, warp and lane of the thread that made a mistake; zeros where it is not named."""
    by = re.search(r"by thread \((\d+), (\d+), (\d+)\) of block \((\d+), (\d+), (\d+)\)", launch.get("fault", ""))
    x, y, z, block_x, block_y, block_z = map(int, by.groups()) if by else (0,) * 6
    size, grid = launch["block"], launch["grid"]
    thread = (z * size[1] + y) * size[0] + x
    return (block_z * grid[1] + block_y) * grid[0] + block_x, thread // 32, thread % 32


def fault_event(launch: Json, root: Path, places: list[Any]) -> Json:
    """The last step of the warp that made a mistake."""
    at = re.search(r"\n    at (.+?)(?:\n    by |\Z)", launch["fault"], re.DOTALL)
    places.append(places_of(at[1], root) if at else [])
    block, warp, lane = place_of_fault(launch)
    return {"block": block, "warp": warp, "lane": lane, "at": len(places) - 1, "what": "fault", "text": launch["fault"], "rose": {}}


def prepare(launch: Json, root: Path) -> Json:
    """The data of a launch that the page needs."""
    places = [places_of(place, root) for place in launch["places"]]
    for event in launch["events"]:
        for name in ("lanes", "from"):
            if name in event:
                event[name] = shorter(event[name])
    if "fault" in launch:
        launch["events"].append(fault_event(launch, root, places))
    # The cost of a line, with the functions that it calls: each line on the way to an instruction counts once.
    costs: dict[str, Json] = {}
    for place, counters in launch["lines"].items():
        for name, line in dict.fromkeys(places_of(place, root)):
            add(costs.setdefault(f"{name}:{line}", {}), counters)
    return {**launch, "places": places, "lines": costs}


def add(sum_: Json, counters: Json) -> None:
    for name, value in counters.items():
        if isinstance(value, dict):
            add(sum_.setdefault(name, {}), value)
        else:
            sum_[name] = sum_.get(name, 0) + value


def first_fault(runs: list[Json]) -> Json | None:
    """The step of the first mistake, at which the page opens."""
    for run, launches in enumerate(one["launches"] for one in runs):
        for number, launch in enumerate(launches):
            for event in launch["events"]:
                if event["what"] == "fault":
                    return {"run": run, "launch": number, "block": event["block"], "warp": event["warp"], "step": -1}
    return None


def first_at(runs: list[Json], file: str, line: int) -> Json | None:
    """The first step that comes from this line."""
    for run, launches in enumerate(one["launches"] for one in runs):
        for number, launch in enumerate(launches):
            steps: dict[tuple[int, int], int] = {}
            for event in launch["events"]:
                warp = (event["block"], event["warp"])
                if (file, line) in launch["places"][event["at"]]:
                    return {"run": run, "launch": number, "block": warp[0], "warp": warp[1], "step": steps.get(warp, 0)}
                steps[warp] = steps.get(warp, 0) + 1
    return None


def page(title: str, home: str, runs: list[Json], root: Path, at: tuple[str, int] | None = None) -> str:
    """`runs` as record_variant() gives them; each place is shown by its line in the folder `home`. Opens at the first
    mistake, or at a line, or at the beginning."""
    runs = [{**run, "launches": [prepare(launch, root) for launch in run["launches"]]} for run in runs]
    named = {name for run in runs for launch in run["launches"] for place in launch["places"] for name, _ in place}
    files = {name: (root / name).read_text(encoding="utf-8", errors="replace").splitlines() for name in sorted(named)}
    data = {"title": title, "home": home, "runs": runs, "files": files, "open": first_fault(runs) or (at and first_at(runs, *at))}
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    return TEMPLATE.read_text(encoding="utf-8").replace("/*DATA*/null", text)


def stage_named(name: str, root: Path) -> str:
    stages = sorted(path.parent.name for path in root.glob("[0-9][0-9]_*/main.cu"))
    wanted = name.rstrip("/")
    found = [stage for stage in stages if wanted == stage or (wanted.isdigit() and int(wanted) == int(stage[:2]))]
    if not found:
        raise Usage(f"there is no stage '{name}'; the stages are {', '.join(stages)}")
    return found[0]


def numbers(text: str) -> str:
    if not re.fullmatch(r"\d{1,9}(-\d{1,9})?", text):
        raise argparse.ArgumentTypeError(f"'{text}' is not accepted; accepted: a number such as 3, or 0-7")
    return text


def main(arguments: list[str]) -> int:
    parser = Parser("./run watch", __doc__)
    parser.add_argument("stage", nargs="?", metavar="STAGE", help="4, 04 or 04_smem_bank_conflict")
    parser.add_argument("--variant", metavar="NAME,...", help="only these (default: all that apply)")
    parser.add_argument("--rows", type=whole_number(1 << 20), metavar="N", help=f"default {ROWS}; 32 of stage 01, 4 of 03, 1 of 07")
    parser.add_argument("--cols", type=whole_number(1 << 24), metavar="N",
                        help=f"default: the first that a variant takes of {', '.join(map(str, WIDTHS))}; 8192 of stage 07, 257 of 08")
    parser.add_argument("--dtype", choices=("f32", "f16", "bf16"), help="default f32; f16 of stage 04")
    parser.add_argument("--op", metavar="NAME", help="log_softmax, or another operation of the stage")
    parser.add_argument("--input", metavar="KIND", help="as for the stages")
    parser.add_argument("--offset", metavar="N", help="as for the stages")
    parser.add_argument("--blocks", type=numbers, default=BLOCKS, metavar="N-M", help=f"the blocks to record (default {BLOCKS})")
    parser.add_argument("--warps", type=numbers, metavar="N-M", help="the warps of each block (default: all)")
    parser.add_argument("--events", type=whole_number(100_000), default=EVENTS, metavar="N",
                        help=f"steps of a kernel's launch, at most (default {EVENTS})")
    parser.add_argument("--out", type=file_to_write, help="the page (default build/watch-STAGE.html)")
    # For the tests:
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    parser.add_argument("--build", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.stage is None:
        raise Usage("which stage? ./run watch 04")
    name = stage_named(options.stage, options.root)
    if options.build is None:
        code = build(options.root, "./run watch", name, "simulator", reading=f"{name}/README.md", quiet=(options.root / "build" / name).exists())
        if code != 0:
            return code
    stage = (options.build or options.root / "build") / name
    names = variants_of(stage, options.root)
    wanted = options.variant.split(",") if options.variant else names
    for variant in wanted:
        if variant not in names:
            raise Usage(f"--variant: '{variant}' is not accepted; accepted: {', '.join(names)}")
    runs, wrong = [], 0
    for variant in wanted:
        run, said = record_variant(stage, variant, options)
        if said:
            say(said)
            wrong = 1
        if run:
            runs.append(run)
        elif not said:
            say(f"./run watch: {variant} does not take this shape: left out")
    if not runs:
        raise ToolError("nothing ran: no variant takes this shape")
    out = options.out or options.root / f"build/watch-{name[:2]}.html"
    write_whole(out, page(name, name + "/", runs, options.root))
    print(f"wrote {out}: {len(runs)} variant{'s' if len(runs) > 1 else ''}; open it in a browser")
    return wrong
