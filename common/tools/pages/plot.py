"""Draws every chart of the recorded results, as SVG and as PNG of twice the size.

    ./run plot [--results FILE] [--sweep FILE] [--out FOLDER]

From `record`'s file: the ladder, the bandwidth over the widths, a roofline, predicted against measured time.
From a sweep's file: the bandwidth over each published table's widths, of the stages and the libraries.

Exit codes: 0 fine; 1 there are no results; 2 bad usage, a file of results that is damaged, or matplotlib is missing and
could not be fetched.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

from command import Parser, ToolError, folder_to_write
from files import write_whole
from measure import results
from measure.results import Recorded
from pages import charts, draw
from pages.charts import Chart


def existing_file(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"there is no file '{text}'")
    return path


def argument_parser(command: str, description: str) -> Parser:
    """The options that ./run plot and ./run report share."""
    parser = Parser(f"./run {command}", description, allow_abbrev=False)
    for option, file in (("--results", "the file of `record`"), ("--sweep", "a sweep's file")):
        help_ = f"{file} (default: of the GPU with the newest file in common/results)"
        parser.add_argument(option, type=existing_file, metavar="FILE", help=help_)
    parser.add_argument("--root", type=Path, default=results.ROOT, help=argparse.SUPPRESS)
    return parser


class Sources(NamedTuple):
    """The results to show: at least one of the two."""

    recording: Recorded | None
    sweep: Recorded | None

    def charts(self) -> dict[str, Chart]:
        """By file name without its ending."""
        of_recording = charts.of_recording(self.recording) if self.recording else {}
        return {**of_recording, **(charts.of_sweep(self.sweep) if self.sweep else {})}


def find_sources(arguments: argparse.Namespace) -> Sources:
    """The files that are named, or else the newest file and its GPU's other one; says which kind is missing."""
    folder = arguments.root / "common/results"
    files = {kind: results.recorded_files(folder, kind) for kind in ("", "-sweep")}
    named = {"": arguments.results, "-sweep": arguments.sweep}
    every = [path for of_kind in files.values() for path in of_kind.values()]
    first = arguments.results or arguments.sweep or results.newest(every)
    gpu = results.gpu_slug(Recorded(first).machine["gpu"]) if first else ""
    paths = (named[kind] or files[kind].get(gpu) for kind in files)
    recording, sweep = (Recorded(path) if path else None for path in paths)
    if not recording and not sweep:
        raise ToolError("no results in common/results: run python3 common/tools record on a GPU first")
    of_gpu = {kind: f" of {gpu}" if some else "" for kind, some in files.items()}
    if not sweep:
        lacking = "without the published tables and the libraries (./run sweep)"
        print(f"no sweep file{of_gpu['-sweep']} in common/results: {lacking}")
    if not recording:
        print(f"no file of `record`{of_gpu['']} in common/results: without the ladder, roofline and prediction")
    return Sources(recording, sweep)


def main(argv: list[str]) -> None:
    parser = argument_parser("plot", "Draw the recorded results: SVG and PNG.")
    parser.add_argument("--out", type=folder_to_write, metavar="FOLDER", help="where to (default: build/charts)")
    arguments = parser.parse_args(argv)
    draw.load()
    out: Path = arguments.out or arguments.root / "build/charts"
    for name, chart in find_sources(arguments).charts().items():
        write_whole(out / f"{name}.svg", draw.svg(chart))
        write_whole(out / f"{name}.png", draw.png(chart))
        print(f"wrote {out / name}.svg, .png")
