"""The shape of a problem."""

import re
from typing import NamedTuple

from command import ToolError
from measure.schema import Json, shortened

ELEMENT_BYTES = {"f32": 4, "f16": 2, "bf16": 2}


class Shape(NamedTuple):
    """One problem: element type and matrix size."""

    dtype: str
    rows: int
    cols: int

    def __str__(self) -> str:
        return f"{self.dtype}:{self.rows}x{self.cols}"

    @property
    def tensor_bytes(self) -> int:
        return self.rows * self.cols * ELEMENT_BYTES[self.dtype]


SHAPE = re.compile(r"(f32|f16|bf16):([1-9][0-9]{0,14})x([1-9][0-9]{0,14})")


def parse_shape(text: str) -> Shape:
    """`f16:49152x1024` → Shape. Raises ToolError that says what is accepted."""
    match = SHAPE.fullmatch(text)
    if not match:
        raise ToolError(f"shape {shortened(text)} is not DTYPE:ROWSxCOLS, for example f16:49152x1024")
    return Shape(match[1], int(match[2]), int(match[3]))


def shape_of(entry: Json) -> Shape:
    return Shape(entry["dtype"], entry["rows"], entry["cols"])
