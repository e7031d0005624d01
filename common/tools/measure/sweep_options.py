"""What `./run sweep` measures: its options, and the published tables with their shapes."""

import argparse
from typing import Callable, NamedTuple, Sequence

from command import Parser, ToolError, file_to_write, whole_number
from measure import results
from measure.peers import PEERS
from measure.results import Shape

REPEATS = 25
ROUNDS = 2
MOST = 100000  # rounds, samples
KINDS = ["stages", *PEERS]


class Table(NamedTuple):
    name: str
    title: str
    source: str
    shapes: list[Shape]


def parse_shapes(text: str) -> list[Shape]:
    try:
        return [results.parse_shape(shape) for shape in text.split(",")]
    except ToolError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


ONEFLOW = "OneFlow's article on its softmax kernel"
TRITON = "the Triton article on softmax"
AWKWARD = (
    "f32:262144x33,f16:49152x1001,f32:49152x1000,bf16:49152x1025,f16:49152x2049,f32:16384x8193,f32:4096x50257,"
    "bf16:4096x50257,f32:1024x262144,bf16:256x1048576,f16:64x100003,bf16:8x262144,f32:1x1048576"
)
BERT = [Shape("f32", 32 * 64 * s, s) for s in (16, 32, 64, 128, 512)]
CURVE = [Shape("f16", 49152, 1 << exponent) for exponent in range(5, 16)]
WIDTHS = [Shape("f32", 1024, 1 << exponent) for exponent in range(8, 18)]
VOCABULARIES = (32000, 65536, 151936)
DECODING = [Shape(dtype, batch, cols) for dtype in ("f32", "bf16") for cols in VOCABULARIES for batch in (1, 4, 16, 64)]
WIDE = [Shape(dtype, rows, cols) for dtype, rows in (("f32", 1024), ("bf16", 4096)) for cols in (65536, 131072, 262144)]
VOCABULARY = "Awkward shapes: odd widths, just past powers of two, a vocabulary, few rows"
TABLES = [
    Table("fastertransformer", "FasterTransformer's attention: f32, (32·64·s) × s", ONEFLOW, BERT),
    Table("oneflow", "OneFlow's bandwidth curve: f16, 49152 × 32 to 32768", ONEFLOW, CURVE),
    Table("triton_article", "The Triton article's widths: f32, 1024 × 2^8 to 2^17", TRITON, WIDTHS),
    Table("awkward", VOCABULARY, "", parse_shapes(AWKWARD)),
    Table("decoding", "Decoding: batches of 1, 4, 16, 64 × vocabularies of 32000, 65536, 151936", "", DECODING),
    Table("wide_rows", "Wide rows: f32 1024 and bf16 4096 × 65536, 131072, 262144", "", WIDE),
]


def all_shapes(tables: list[Table]) -> list[Shape]:
    """Every shape of the tables, once, in the order in which they are shown."""
    return list(dict.fromkeys(shape for table in tables for shape in table.shapes))


def names_of(accepted: Sequence[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        for name in text.split(","):
            if name not in accepted:
                raise argparse.ArgumentTypeError(f"'{name}' is not accepted; accepted: {', '.join(accepted)}")
        return [name for name in accepted if name in text.split(",")]

    return parse


def device(text: str) -> str:
    if text != "gpu":
        said = "the simulator takes no times" if text == "sim" else f"'{text}' is not accepted"
        raise argparse.ArgumentTypeError(f"{said}; accepted: gpu")
    return text


def parse_arguments(argv: list[str], description: str | None) -> argparse.Namespace:
    """Sets `chosen`, the tables to measure, too. Raises Usage."""
    parser = Parser("./run sweep", description, allow_abbrev=False)
    option = parser.add_argument
    names = [table.name for table in TABLES]
    kinds = ", ".join(KINDS)
    count = whole_number(MOST)
    option("--tables", metavar="NAME,...", type=names_of(names), help=f"of {', '.join(names)}")
    shapes_help = "shapes of your own, such as f16:4096x4096"
    option("--shapes", metavar="DTYPE:ROWSxCOLS,...", type=parse_shapes, help=shapes_help)
    kinds_help = f"of {kinds} (default: all)"
    option("--contenders", metavar="NAME,...", type=names_of(KINDS), default=KINDS, help=kinds_help)
    option("--op", metavar="NAME", default="softmax", help="log_softmax, or what else a stage does (default: softmax)")
    option("--rounds", metavar="N", type=count, default=ROUNDS, help=f"(default: {ROUNDS})")
    option("--repeats", metavar="N", type=count, default=REPEATS, help=f"samples a round (default: {REPEATS})")
    option("--l2", choices=("cold", "warm"), default="cold", help="as for the stages (default: cold)")
    option("--out", metavar="FILE", type=file_to_write, help="where to write the results (JSON)")
    option("--csv", metavar="FILE", type=file_to_write, help="write them as CSV, too")
    option("--fresh", action="store_true", help="forget what an interrupted sweep has measured")
    option("--list", action="store_true", help="say what would be measured, and stop")
    option("--device", metavar="gpu", type=device, default="gpu", help=argparse.SUPPRESS)
    option("--commit", metavar="HASH[-dirty]", help="the commit, where git does not know it")
    arguments = results.parse(parser, argv, argparse.SUPPRESS)
    arguments.chosen = [table for table in TABLES if table.name in (arguments.tables or [])]
    if arguments.shapes:
        arguments.chosen.append(Table("own", "Shapes of your own", "", list(dict.fromkeys(arguments.shapes))))
    arguments.chosen = arguments.chosen or TABLES
    return arguments
