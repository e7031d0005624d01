"""What `./run sweep` measures: the published tables and their shapes."""

from __future__ import annotations

from typing import List, NamedTuple, Tuple

from measure.results import Shape

ONEFLOW = "OneFlow's article on its softmax kernel"


class Table(NamedTuple):
    name: str
    title: str
    source: str
    shapes: Tuple[Shape, ...]


def powers_of_two(first: int, last: int) -> List[int]:
    return [1 << exponent for exponent in range(first, last + 1)]


TABLES = (
    Table(
        "fastertransformer",
        "FasterTransformer's attention: f32, (32·64·s) × s",
        ONEFLOW,
        tuple(Shape("f32", 32 * 64 * s, s) for s in (16, 32, 64, 128, 512)),
    ),
    Table(
        "oneflow",
        "OneFlow's bandwidth curve: f16, 49152 × 32 to 32768",
        ONEFLOW,
        tuple(Shape("f16", 49152, cols) for cols in powers_of_two(5, 15)),
    ),
    Table(
        "triton_article",
        "The Triton article's widths: f32, 1024 × 2^8 to 2^17",
        "the Triton article on softmax",
        tuple(Shape("f32", 1024, cols) for cols in powers_of_two(8, 17)),
    ),
    Table(
        "awkward",
        "Awkward shapes: odd widths, just past powers of two, a vocabulary, few rows",
        "",
        (
            Shape("f32", 262144, 33),
            Shape("f16", 49152, 1001),
            Shape("f32", 49152, 1000),
            Shape("bf16", 49152, 1025),
            Shape("f16", 49152, 2049),
            Shape("f32", 16384, 8193),
            Shape("f32", 4096, 50257),
            Shape("bf16", 4096, 50257),
            Shape("f32", 1024, 262144),
            Shape("bf16", 256, 1048576),
            Shape("f16", 64, 100003),
            Shape("bf16", 8, 262144),
            Shape("f32", 1, 1048576),
        ),
    ),
)


def own_table(shapes: List[Shape]) -> Table:
    """The table of --shapes."""
    return Table("own", "Shapes of your own", "", tuple(dict.fromkeys(shapes)))


def all_shapes(tables: List[Table]) -> List[Shape]:
    """Every shape of the tables, once, in the order in which they are shown."""
    return list(dict.fromkeys(shape for table in tables for shape in table.shapes))
