"""Reading and writing files: whole or not at all, and without trust in a file's contents."""

import contextlib
import json
import math
import os
import secrets
from pathlib import Path
from typing import Any

from command import ToolError


class BadFile(ToolError):
    """A file that cannot be used: the text names it and its fault."""

    code = 2


def write_new(path: Path, content: bytes) -> None:
    """Fails where something is: nothing is written over, nor through a link. A file that cannot be finished is removed."""
    with path.open("xb") as file:
        try:
            file.write(content)
            file.flush()
        except BaseException:
            path.unlink()
            raise


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes a file so that a reader sees the old content or the new one, never a half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    write_new(temporary, content.encode() if isinstance(content, str) else content)
    try:
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is not a finite number")
    return value


def _whole(text: str) -> int:
    if len(text) > 18:
        raise ValueError(f"{text[:20]}... is too large")
    return int(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(name for name, _ in pairs if sum(name == other for other, _ in pairs) > 1)
        raise ValueError(f"'{twice}' is there twice")
    return found


def load_json(path: Path) -> Any:
    """Raises BadFile that names the file when it is not JSON with finite numbers and no name twice; ToolError where it
    cannot be read."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():  # a device may never end
            raise BadFile(f"{path} is not a regular file")
        text = path.read_text(encoding="utf-8")
        return json.loads(text, parse_constant=_finite, parse_float=_finite, parse_int=_whole, object_pairs_hook=_object)
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}") from error
    except RecursionError:
        raise BadFile(f"{path} is not JSON: it is nested too deeply") from None
    except ValueError as error:
        raise BadFile(f"{path} is not JSON: {error}") from error
