"""The form of the recorded files: a list of objects is written as columns, with each name once and a line of values per object.

    {"all": {"op": "softmax"}, "columns": ["variant", "rows", {"ncu": ["sectors", "barriers"]}], "rows": [["packs", 8, [6, 0]]]}

stands for [{"op": "softmax", "variant": "packs", "rows": 8, "ncu": {"sectors": 6, "barriers": 0}}]. "all" holds the values that
all objects share. A column that holds objects names their columns, and one that holds lists of objects names them as [columns]. A
line is shorter if the object lacks the last columns; it is the object itself if it lacks others.

A result that is not applicable has no row of its own: "not_applicable" has a line for each variant and reason, with the shapes.
"""

import itertools
import json
from collections import Counter
from typing import Any, Iterable

from command import ToolError
from measure.schema import Json, are_texts, check
from measure.shapes import Shape, parse_shape, shape_of


def packed(objects: list[Json]) -> Json:
    """The objects in columns."""
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
    """Columns of objects; inside of them, of lists of objects, too."""
    if not isinstance(value, list) or not all(isinstance(one, str) or (isinstance(one, dict) and len(one) == 1) for one in value):
        return False
    inner = [some[0] if isinstance(some, list) and some and isinstance(some[0], list) else some for _, some in _pairs(value)]
    return len(dict(_pairs(value))) == len(value) and all(some is None or _are_columns(some) for some in inner)


FORM: Json = {
    "all": lambda value: isinstance(value, dict),
    "columns": _are_columns,
    "rows": lambda value: isinstance(value, list),
}


# --- Results that are not applicable ------------------------------------------------------------------------


def json_text(data: Json) -> str:
    """JSON with a line for each element of a list, so that a new recording gives a readable diff. See form_of()."""

    def text(value: Any, indent: str) -> str:
        if isinstance(value, dict) and ("columns" in value or not indent):
            begin, end, parts = *"{}", [f"{json.dumps(name)}: {text(one, indent + ' ')}" for name, one in value.items()]
        elif isinstance(value, list) and value:
            begin, end, parts = *"[]", [json.dumps(one, ensure_ascii=False) for one in value]
        else:
            return json.dumps(value, ensure_ascii=False)
        return f"{begin}\n" + ",\n".join(f"{indent} {part}" for part in parts) + f"\n{indent}{end}"

    return text({name: form_of(value) if isinstance(value, list) else value for name, value in data.items()}, "") + "\n"


def form_of(rows: list[Json]) -> Json:
    """The rows in columns; "variants" says where those that are not applicable were among the others."""
    shapes: dict[str, list[Shape]] = {}
    for row in filter(is_not_applicable, rows):
        alike = json.dumps({name: value for name, value in row.items() if name not in Shape._fields})
        shapes.setdefault(alike, []).append(shape_of(row))
    form = packed(list(itertools.filterfalse(is_not_applicable, rows)))
    if shapes:
        absent = [{**json.loads(alike), "shapes": list(map(str, sorted(shapes[alike])))} for alike in sorted(shapes)]
        order = order_of(rows)
        form["not_applicable"] = packed(sorted(absent, key=lambda one: order.index(variant_of(one))))
        form["variants"] = order
    return form


def rows_of(form: Json, name: str) -> list[Json]:
    """The rows that the form stands for, those that are not applicable last. Raises ToolError."""
    rows = unpacked(form, name)
    if "not_applicable" in form:
        check(form, {"variants": are_texts}, name)
        where = f"{name}: not_applicable"
        for number, alike in enumerate(unpacked(form["not_applicable"], where), start=1):
            check(alike, {"shapes": are_texts}, f"{where} {number}")
            shapes = map(parse_shape, alike.pop("shapes"))
            rows += [{**alike, **shape._asdict()} for shape in shapes]
    return rows


def order_of(rows: list[Json]) -> list[str]:
    """The variants, in an order that agrees with the rows of every shape and operation."""
    order: list[str] = []
    for of_place in by_place(rows).values():
        at = len(order)
        for name in map(variant_of, reversed(of_place)):
            if name not in order:
                order.insert(at, name)
            at = order.index(name)
    return order


def in_order(rows: list[Json], variants: list[str]) -> list[Json]:
    """Moves each row that is not applicable to its variant's place among the rows of its shape and operation."""
    number = {variant: n for n, variant in enumerate(variants)}

    def at(row: Json) -> int:
        return number.get(variant_of(row), len(number))

    waiting = by_place(sorted(filter(is_not_applicable, rows), key=at))
    others = list(itertools.filterfalse(is_not_applicable, rows))
    last = {place(row): row for row in others if row["stage"]}  # after them the copy's row may be far away
    found = []
    for row in others:
        here = waiting.get(place(row), [])
        while here and at(here[0]) < at(row):
            found.append(here.pop(0))
        found.append(row)
        while here and row is last.get(place(row)):
            found.append(here.pop(0))
    return [*found, *itertools.chain(*waiting.values())]


def by_place(rows: Iterable[Json]) -> dict[tuple[Shape, str], list[Json]]:
    found: dict[tuple[Shape, str], list[Json]] = {}
    for row in rows:
        found.setdefault(place(row), []).append(row)
    return found


def place(row: Json) -> tuple[Shape, str]:
    """The shape and the operation; without one where a variant does one alone."""
    return shape_of(row), row.get("op", "")


def variant_of(row: Json) -> str:
    return f"{row['stage']} {row['variant']}"


def is_not_applicable(row: Json) -> bool:
    return row.get("status") == "not applicable"
