"""Prints the recorded percentages of the copy's speed for a stage's --recorded: ./run shows them beside the counted
numbers where there is no GPU. The GPU in the first line, then in each line stage, variant, dtype, op, rows, columns and
percent.
"""

import argparse
from pathlib import Path

from command import Parser, ToolError
from measure import results


def main(argv: list[str]) -> None:
    parser = Parser("common/tools recorded", __doc__)
    parser.add_argument("--root", type=Path, default=results.ROOT, help=argparse.SUPPRESS)
    path = results.file_of(parser.parse_args(argv).root / "common/results", "")
    if path is None:
        raise ToolError("nothing is recorded in common/results")
    recorded = results.Recorded(path)
    print(recorded.machine["gpu"])
    for result in recorded.results:
        if result["stage"] and result["percent_of_copy"] is not None:
            columns = ("stage", "variant", "dtype", "op", "rows", "cols", "percent_of_copy")
            print(*(result[column] for column in columns))
