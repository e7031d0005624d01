"""The options of `./run sweep`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Callable, List, Optional

from command import Parser, ToolError, file_to_write, whole_number
from measure import results
from measure.peers import PEERS
from measure.results import Shape
from measure.sweep_plan import TABLES, Table, own_table

REPEATS = 25
ROUNDS = 2
MOST = 100000  # rounds, samples
KINDS = ("stages", *PEERS)


OPERATIONS = ["softmax", "log_softmax"]


def names(accepted: List[str]) -> Callable[[str], List[str]]:
    def parse(text: str) -> List[str]:
        for name in text.split(","):
            if name not in accepted:
                raise argparse.ArgumentTypeError(f"'{name}' is not accepted; accepted: {', '.join(accepted)}")
        return [name for name in accepted if name in text.split(",")]

    return parse


def shapes(text: str) -> List[Shape]:
    try:
        return [results.parse_shape(shape) for shape in text.split(",")]
    except ToolError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def device(text: str) -> str:
    if text == "sim":
        raise argparse.ArgumentTypeError("the simulator takes no times; accepted: gpu")
    if text != "gpu":
        raise argparse.ArgumentTypeError(f"'{text}' is not accepted; accepted: gpu")
    return text


def parse_arguments(argv: List[str], description: Optional[str]) -> argparse.Namespace:
    """Raises Usage."""
    parser = Parser(
        prog="./run sweep",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    table_names = [table.name for table in TABLES]
    parser.add_argument("--tables", metavar="NAME,...", type=names(table_names), help=f"of {', '.join(table_names)}")
    parser.add_argument(
        "--shapes", metavar="DTYPE:ROWSxCOLS,...", type=shapes, help="shapes of your own, such as f16:4096x4096"
    )
    parser.add_argument(
        "--contenders",
        metavar="NAME,...",
        type=names(list(KINDS)),
        default=list(KINDS),
        help=f"of {', '.join(KINDS)} (default: all)",
    )
    parser.add_argument("--op", choices=OPERATIONS, default=OPERATIONS[0], help=f"(default: {OPERATIONS[0]})")
    parser.add_argument("--rounds", metavar="N", type=whole_number(MOST), default=ROUNDS, help=f"(default: {ROUNDS})")
    parser.add_argument(
        "--repeats", metavar="N", type=whole_number(MOST), default=REPEATS, help=f"samples a round (default: {REPEATS})"
    )
    parser.add_argument("--l2", choices=("cold", "warm"), default="cold", help="as for the stages (default: cold)")
    parser.add_argument("--out", metavar="FILE", type=file_to_write, help="where to write the results (JSON)")
    parser.add_argument("--csv", metavar="FILE", type=file_to_write, help="write them as CSV, too")
    parser.add_argument("--fresh", action="store_true", help="forget what an interrupted sweep has measured")
    parser.add_argument("--list", action="store_true", help="say what would be measured, and stop")
    parser.add_argument("--device", metavar="gpu", type=device, default="gpu", help=argparse.SUPPRESS)
    parser.add_argument("--commit", metavar="HASH[-dirty]", help="the commit, where git does not know it")
    parser.add_argument("--build", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, default=results.ROOT, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    arguments.build = arguments.build or arguments.root / "build"
    return arguments


def tables_of(arguments: argparse.Namespace) -> List[Table]:
    chosen = [table for table in TABLES if table.name in (arguments.tables or [])]
    if not arguments.tables and not arguments.shapes:
        chosen = list(TABLES)
    return chosen + ([own_table(arguments.shapes)] if arguments.shapes else [])


def is_usual(arguments: argparse.Namespace) -> bool:
    """The whole sweep with the usual settings."""
    chosen = (arguments.op, arguments.rounds, arguments.repeats, arguments.l2, arguments.contenders)
    return tables_of(arguments) == list(TABLES) and chosen == ("softmax", ROUNDS, REPEATS, "cold", list(KINDS))
