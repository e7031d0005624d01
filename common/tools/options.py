"""What the commands' options share: bad usage is one line and exit code 2."""

from __future__ import annotations

import argparse
from typing import Callable

from results import ToolError


class Usage(ToolError):
    """Bad usage: exit code 2."""


class Parser(argparse.ArgumentParser):
    """Raises Usage where argparse would print the usage and exit."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise Usage(message)


def whole_number(most: int) -> Callable[[str], int]:
    """A parser of whole numbers from 1 to `most`."""

    def parse(text: str) -> int:
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"'{text}' is not accepted; accepted: whole numbers from 1 to {most}")
        return int(text)

    return parse
