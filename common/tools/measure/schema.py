"""Checks that a recorded file fits its schema, before anything is made of it, and names a field that does not."""

import datetime
import re
from typing import Any, Callable, NamedTuple

from command import ToolError

Json = dict[str, Any]
DATE = "%Y-%m-%dT%H:%M:%SZ"
# These say which object it is: no two of a list are the same in all of them.
IDENTITY = ("stage", "variant", "dtype", "rows", "cols", "op", "input", "gpus")


class Each(NamedTuple):
    """A list of objects, no two of the same place unless they may repeat."""

    one: str
    schema: Json
    then: Callable[[Json, str], None] = lambda _one, _where: None  # raises ToolError for fields that do not fit together
    may_be_empty: bool = False
    may_repeat: bool = False


OTHERS = "*"  # in an object's schema: kinds by regular expressions, for all names that it does not have


def fits(value: Any, kind: Any) -> bool:
    """A kind is a regular expression, a range, None, bool, several of these, a list of as many, or a function."""
    if isinstance(kind, tuple):
        return any(fits(value, one) for one in kind)
    if isinstance(kind, list):
        return isinstance(value, list) and len(value) == len(kind) and all(map(fits, value, kind))
    if isinstance(kind, str):
        return isinstance(value, str) and re.fullmatch(kind, value) is not None
    if isinstance(kind, range):
        return type(value) is int and value in kind  # True is an int, too
    return value is None if kind is None else type(value) is bool if kind is bool else kind(value)


def is_difference(value: Any) -> bool:
    return type(value) in (int, float)  # load_json lets finite ones through


def is_number(value: Any) -> bool:
    return is_difference(value) and value >= 0


def is_date(value: Any) -> bool:
    try:
        return datetime.datetime.strptime(value, DATE).strftime(DATE) == value
    except (TypeError, ValueError):
        return False


def are_texts(value: Any) -> bool:
    return isinstance(value, list) and value != [] and all(isinstance(text, str) for text in value)


def check(found: Any, schema: Json, where: str = "it") -> None:
    """Raises ToolError that names a missing field, or shows the contents of a wrong one."""
    if not isinstance(found, dict):
        raise ToolError(f"{where} is {shortened(found)}")
    named = {name: kind for name, kind in schema.items() if name != OTHERS}
    for pattern, kind in schema.get(OTHERS, {}).items():
        named |= {name: kind for name in found if name not in named and re.search(pattern, name)}
    for name, kind in named.items():
        if name not in found:
            raise ToolError(f"{where} has no '{name}'")
        if isinstance(kind, Each):
            check_each(found[name], kind, name)
        elif isinstance(kind, dict):
            check(found[name], kind, name if where == "it" else f"{where}: {name}")
        elif not fits(found[name], kind):
            raise ToolError(f"{where}: '{name}' is {shortened(found[name])}")


def check_each(found: Any, each: Each, name: str) -> None:
    if not isinstance(found, list) or not (found or each.may_be_empty):
        raise ToolError(f"'{name}' is {shortened(found) if found else 'empty'}")
    places: dict[tuple[Any, ...], int] = {}
    for number, one in enumerate(found, start=1):
        where = f"{each.one} {number}"
        check(one, each.schema, where)
        each.then(one, where)
        place = tuple(one[key] for key in IDENTITY if key in each.schema)
        first = places.setdefault(place or (number,), number)
        if first != number and not each.may_repeat:
            raise ToolError(f"{where} has the place of {each.one} {first}")


def shortened(value: Any) -> str:
    text = ascii(value) if isinstance(value, (str, int, float, type(None))) else type(value).__name__
    return text if len(text) <= 60 else text[:60] + " ..."
