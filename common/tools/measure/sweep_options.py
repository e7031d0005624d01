"""What `./run sweep` measures: its options, the published tables with their shapes, and random shapes."""

import argparse
import math
import random
import re
from typing import Callable, NamedTuple, Sequence

from command import Parser, ToolError, Usage, file_to_write, whole_number
from measure import results
from measure.peers import CROSS_ENTROPY, GRADIENTS, PEERS, SOFTMAX, Problem
from measure.results import ELEMENT_BYTES, Shape

REPEATS = 25
ROUNDS = 2
MOST = 100000  # rounds, samples
MOST_OFFSET = 1024  # see Offsets in common/harness/problem.h
KINDS = ["stages", results.LIBRARY, *PEERS]

# Settings of random shapes. Below 64 KiB, the launch takes longer than the work, and says nothing of a kernel. A copy of 2 GiB
# takes a millisecond, and two sets of three such matrices, for a gradient, fit most GPUs.
RANDOM_ROUNDS = 1
RANDOM_REPEATS = 11
MOST_ROWS, MOST_COLS = 10**6, 2 * 10**6
MATRIX_BYTES = range(64 << 10, (2 << 30) + 1)
MOST_RANDOM = 10000
DTYPES = tuple(ELEMENT_BYTES)


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
BETWEEN = (
    "f16:262144x16,f16:262144x24,f16:262144x40,f16:65536x96,bf16:65536x160,f16:65536x200,bf16:49152x328,f16:49152x640,"
    "bf16:49152x1544,f16:8192x20480,f32:262144x8,f32:262144x12,f32:262144x20,f32:65536x48,f32:65536x96,f32:65536x160,"
    "f32:49152x328,f32:8192x6004,bf16:65536x65,bf16:65536x201,f32:65536x101,f32:16384x3001"
)
OF_GRADIENTS = (
    "f32:262144x33,f16:49152x1001,f32:1024x32768,f32:1024x131072,f32:4096x50257,bf16:49152x1025,f32:1x1048576,"
    "bf16:8x262144"
)
LOGITS = (
    "bf16:4096x32000,bf16:4096x50257,f32:4096x50257,bf16:4096x50264,bf16:4096x128256,bf16:16384x32768,bf16:8192x131072"
)
NARROW_GRADIENTS = (
    "bf16:8192x10,bf16:8192x100,bf16:262144x10,bf16:262144x33,bf16:262144x50,bf16:262144x100,bf16:49152x2112,bf16:49152x5312,"
    "bf16:64x131072,bf16:256x262144,f32:8192x50,f32:262144x17,f32:262144x50"
)
CLASSES = (
    "bf16:1091x488,bf16:8192x10,bf16:8192x100,bf16:65536x100,bf16:262144x10,bf16:262144x33,bf16:262144x100,bf16:49152x1025,"
    "bf16:49152x2048,bf16:32768x4096,bf16:8192x16384,f32:8192x10,f32:65536x50,f32:262144x33,f32:16384x4096,f32:8192x8193"
)
DECODING = [Shape(dtype, batch, cols) for dtype in ("f32", "bf16") for cols in VOCABULARIES for batch in (1, 4, 16, 64)]
WIDE = [Shape(dtype, rows, cols) for dtype, rows in (("f32", 1024), ("bf16", 4096)) for cols in (65536, 131072, 262144)]
VOCABULARY = "Awkward shapes: odd widths, just past powers of two, a vocabulary, few rows"
TABLES = [
    Table("fastertransformer", "FasterTransformer's attention: f32, (32·64·s) × s", ONEFLOW, BERT),
    Table("oneflow", "OneFlow's bandwidth curve: f16, 49152 × 32 to 32768", ONEFLOW, CURVE),
    Table("triton_article", "The Triton article's widths: f32, 1024 × 2^8 to 2^17", TRITON, WIDTHS),
    Table("awkward", VOCABULARY, "", parse_shapes(AWKWARD)),
    Table("decoding", "Decoding: batches of 1, 4, 16, 64 × vocabularies of 32000, 65536, 151936", "", DECODING),
    Table("between", "Few columns, and widths that leave lanes, a tile or a block's part unfilled", "", parse_shapes(BETWEEN)),
    Table("wide_rows", "Wide rows: f32 1024 and bf16 4096 × 65536, 131072, 262144", "", WIDE),
    Table("ladder", "The ladder's shape: f32 49152 × 1024", "", [Shape("f32", 49152, 1024)]),
]
# OneFlow published the curve of the gradient at the same shapes.
GRADIENT_TABLES = [
    TABLES[1],
    Table("gradient", "Gradients: wide rows, widths that no pack divides, few rows", "", parse_shapes(OF_GRADIENTS)),
    Table("narrow_gradient", "Gradients: narrow rows, and what lies between others", "", parse_shapes(NARROW_GRADIENTS)),
]
LOGITS_OF = "Cross-entropy: rows of logits over vocabularies of 32000 to 131072"
CLASSES_OF = "Cross-entropy: few classes, and what lies between those and a vocabulary"
CROSS_ENTROPY_TABLES = [
    Table("cross_entropy", LOGITS_OF, "", parse_shapes(LOGITS)),
    Table("classes", CLASSES_OF, "", parse_shapes(CLASSES)),
]
TABLES_OF = {**dict.fromkeys(GRADIENTS, GRADIENT_TABLES), **dict.fromkeys(CROSS_ENTROPY, CROSS_ENTROPY_TABLES)}
ALL_TABLES = {table.name: table for table in (*TABLES, *GRADIENT_TABLES, *CROSS_ENTROPY_TABLES)}


def tables_of(op: str) -> list[Table]:
    """The tables that are measured of an operation unless others are named."""
    return TABLES_OF.get(op, TABLES)


def all_shapes(tables: list[Table]) -> list[Shape]:
    """Every shape of the tables, once, in the order in which they are shown."""
    return list(dict.fromkeys(shape for table in tables for shape in table.shapes))


def random_problems(number: int, seed: int, op: str | None, offset: int | None) -> list[Problem]:
    """This number of problems, no shape twice; the same for the same seed, and fewer of them are the first of more.

    Rows and columns are log-uniform. Every second width is made a multiple of 8: of widths left to chance most would be
    divided by no pack, and the kernels made of packs would hardly be seen.
    """
    chance = random.Random(seed)

    def log_uniform(most: int) -> int:
        return round(math.exp(chance.random() * math.log(most)))

    found: dict[Shape, Problem] = {}
    while len(found) < number:
        # All of it by chance each time, so that --op and --offset leave the shapes as they are.
        dtype, rows, cols = chance.choice(DTYPES), log_uniform(MOST_ROWS), log_uniform(MOST_COLS)
        in_packs, some_op, some_offset = chance.random() < 0.5, chance.choice(SOFTMAX), chance.choice((0, 1))
        shape = Shape(dtype, rows, -(-cols // 8) * 8 if in_packs else cols)
        if shape.tensor_bytes in MATRIX_BYTES:
            problem = Problem(*shape, op or some_op, some_offset if offset is None else offset)
            found.setdefault(shape, problem)
    return list(found.values())


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


def offset_number(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) > MOST_OFFSET:
        raise argparse.ArgumentTypeError(f"'{text}' is not accepted; accepted: whole numbers from 0 to {MOST_OFFSET}")
    return int(text)


def parse_arguments(argv: list[str], description: str | None) -> argparse.Namespace:
    """Sets `chosen`, the tables to measure, and `problems`, all that is measured, too. Raises Usage."""
    parser = Parser("./run sweep", description, allow_abbrev=False)
    option = parser.add_argument
    kinds = ", ".join(KINDS)
    count = whole_number(MOST)
    option("--tables", metavar="NAME,...", type=names_of(list(ALL_TABLES)), help=f"of {', '.join(ALL_TABLES)}")
    shapes_help = "shapes of your own, such as f16:4096x4096"
    option("--shapes", metavar="DTYPE:ROWSxCOLS,...", type=parse_shapes, help=shapes_help)
    option("--random", metavar="N", type=whole_number(MOST_RANDOM), help="number of random shapes; see above")
    option("--seed", metavar="N", type=count, help="of the random shapes (default: 1)")
    option("--contenders", metavar="NAME,...", type=names_of(KINDS), default=KINDS, help=f"of {kinds} (default: all)")
    op_help = "log_softmax, softmax_backward, cross_entropy or another operation of a stage (default: softmax)"
    option("--op", metavar="NAME", help=op_help)
    offset_help = f"elements by which each tensor is off its alignment, up to {MOST_OFFSET} (default: 0)"
    option("--offset", metavar="N", type=offset_number, help=offset_help)
    rounds_help = f"(default: {ROUNDS}; of random shapes {RANDOM_ROUNDS})"
    option("--rounds", metavar="N", type=count, help=rounds_help)
    repeats_help = f"samples a round (default: {REPEATS}; of random shapes {RANDOM_REPEATS})"
    option("--repeats", metavar="N", type=count, help=repeats_help)
    option("--l2", choices=("cold", "warm"), default="cold", help="as for the stages (default: cold)")
    option("--out", metavar="FILE", type=file_to_write, help="where to write the results (JSON)")
    option("--csv", metavar="FILE", type=file_to_write, help="write them as CSV, too")
    option("--fresh", action="store_true", help="discard the results of an interrupted sweep")
    option("--list", action="store_true", help="list the measurements, and stop")
    option("--device", metavar="gpu", type=device, default="gpu", help=argparse.SUPPRESS)
    results.add_commit_option(parser)
    arguments = results.parse(parser, argv, argparse.SUPPRESS)
    if arguments.random and (arguments.tables or arguments.shapes):
        raise Usage("--random: not together with --tables or --shapes")
    if arguments.seed and not arguments.random:
        raise Usage("--seed: needs --random")
    arguments.rounds = arguments.rounds or (RANDOM_ROUNDS if arguments.random else ROUNDS)
    arguments.repeats = arguments.repeats or (RANDOM_REPEATS if arguments.random else REPEATS)
    if arguments.random:
        arguments.seed = arguments.seed or 1
        arguments.chosen = []
        arguments.problems = random_problems(arguments.random, arguments.seed, arguments.op, arguments.offset)
        return arguments
    arguments.op, arguments.offset = arguments.op or "softmax", arguments.offset or 0
    arguments.chosen = [ALL_TABLES[name] for name in arguments.tables or []]
    if arguments.shapes:
        arguments.chosen.append(Table("own", "Shapes of your own", "", list(dict.fromkeys(arguments.shapes))))
    arguments.chosen = arguments.chosen or tables_of(arguments.op)
    arguments.problems = [Problem(*shape, arguments.op, arguments.offset) for shape in all_shapes(arguments.chosen)]
    return arguments
