"""How a recorded file writes a list of objects that have the same names: each name once, and a line of values for each object.

    {"all": {"op": "softmax"}, "columns": ["variant", "rows", {"ncu": ["sectors", "barriers"]}], "rows": [["packs", 8, [6, 0]]]}

stands for [{"op": "softmax", "variant": "packs", "rows": 8, "ncu": {"sectors": 6, "barriers": 0}}]. "all" holds what no object
has otherwise. A column of objects has columns of its own, and [columns] where it is of lists of objects. A line is shorter if the
object lacks the last columns, and is the object itself if it lacks others.
"""

import json
from collections import Counter
from typing import Any

from command import ToolError
from measure.schema import Json, check


def packed(objects: list[Json]) -> Json:
    first = objects[0] if objects else {}
    texts = {name: json.dumps(value) for name, value in first.items()}  # 1, 1.0 and True are equal, and not the same
    same = [name for name in first if all(name in one and json.dumps(one[name]) == texts[name] for one in objects)]
    others = [{name: value for name, value in one.items() if name not in same} for one in objects]
    columns = _columns_of(others)
    return {"all": {name: first[name] for name in same}, "columns": columns or [], "rows": [_line(one, columns) for one in others]}


def unpacked(form: Json, what: str) -> list[Json]:
    """Raises ToolError that says which of `what` is damaged."""
    check(form, FORM, what)
    return [{**form["all"], **_value(line, form["columns"], f"{what} {n}")} for n, line in enumerate(form["rows"], start=1)]


def _columns_of(values: list[Any]) -> list[Any] | None:
    """None where values are neither objects nor lists of objects."""
    if values and all(isinstance(value, dict) for value in values):
        often = Counter(name for value in values for name in value)
        inner = {name: _columns_of([value[name] for value in values if name in value]) for name, _ in often.most_common()}
        return [name if columns is None else {name: columns} for name, columns in inner.items()]
    if values and all(isinstance(value, list) for value in values):
        columns = _columns_of([one for value in values for one in value])
        return [columns] if columns else None
    return None


def _pairs(columns: list[Any]) -> list[tuple[str, Any]]:
    """The names, each with the columns of its objects, or None."""
    return [pair for column in columns for pair in (column.items() if isinstance(column, dict) else [(column, None)])]


def _line(value: Any, columns: list[Any] | None) -> Any:
    if columns is None:
        return value
    if columns and isinstance(columns[0], list):
        return [_line(one, columns[0]) for one in value]
    pairs = _pairs(columns)[: len(value)]
    return [_line(value[name], inner) for name, inner in pairs] if value.keys() == dict(pairs).keys() else value


def _value(line: Any, columns: list[Any] | None, where: str) -> Any:
    if columns is None or isinstance(line, dict):
        return line
    if not isinstance(line, list):
        raise ToolError(f"{where} has no list where its columns need one")
    if columns and isinstance(columns[0], list):
        return [_value(one, columns[0], where) for one in line]
    if len(line) > len(columns):
        raise ToolError(f"{where} has more values than columns")
    return {name: _value(value, inner, where) for value, (name, inner) in zip(line, _pairs(columns))}


def _are_columns(value: Any) -> bool:
    """Of objects; inside of them, of lists of objects, too."""
    if not isinstance(value, list) or not all(isinstance(one, str) or (isinstance(one, dict) and len(one) == 1) for one in value):
        return False
    inner = [some[0] if isinstance(some, list) and some and isinstance(some[0], list) else some for _, some in _pairs(value)]
    return len(dict(_pairs(value))) == len(value) and all(some is None or _are_columns(some) for some in inner)


FORM: Json = {
    "all": lambda value: isinstance(value, dict),
    "columns": _are_columns,
    "rows": lambda value: isinstance(value, list),
}
