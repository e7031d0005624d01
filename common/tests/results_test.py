#!/usr/bin/env python3
"""Tests of what the tools believe of a recorded file: nothing. Every one that is damaged is named with its field.

    python3 common/tests/results_test.py
"""

from __future__ import annotations

import copy
import json
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

sys.dont_write_bytecode = True
sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "tools")]

import files
import synthetic_sweep
from command import ToolError
from measure import hardware_table, results

RECORDED = results.ROOT / "common/results"
LOAD: Dict[str, Callable[[Path], Any]] = {
    "nvidia-h200.json": results.Recorded,
    "nvidia-h200-sweep.json": results.Recorded,
    "nvidia-h200-profile.json": results.load_profiles,
    "simulator.json": results.load_counted,
    "nvidia-h200-simulator.json": lambda path: results.load_hardware(path, hardware_table.COUNTERS),
}
# A list of many alike is as good as its first two.
LISTS = {"results": "result", "entries": "entry", "counted": "counted", "tables": "table"}
# What each may be instead, and is not: each kind of value once.
WRONG: List[Any] = [True, -1, "", "<b>x</b>", "../../../x", "x\x1b[2J", [], {}, None, 1e300, "\ud800"]


def places(value: Any, path: Tuple[Any, ...] = ()) -> Iterator[Tuple[Any, ...]]:
    """The paths of all values."""
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


def at(value: Any, path: Tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


class DamagedTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "a.json"

    def load(self, name: str, data: Any) -> str:
        """What is said of the file; empty when it is taken."""
        self.path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
        try:
            LOAD[name](self.path)
        except files.BadFile as error:
            self.assertIn("a.json", str(error))
            self.assertEqual((error.code, str(error).count("\n"), str(error).isprintable()), (2, 0, True), str(error))
            return str(error)
        return ""

    def short(self, name: str) -> Any:
        data = json.loads((RECORDED / name).read_text(encoding="utf-8"))
        return {key: value[:2] if key in LISTS else value for key, value in data.items()}

    def test_what_is_recorded_is_taken(self) -> None:
        for name in LOAD:
            LOAD[name](RECORDED / name)
            self.assertEqual(self.load(name, self.short(name)), "", name)
        self.assertEqual(self.load("nvidia-h200-sweep.json", synthetic_sweep.sweep()), "")

    def test_not_json(self) -> None:
        for text, said in {
            "": "is not JSON",
            "{": "is not JSON",
            "[" * 100000: "nested too deeply",
            '{"a": NaN}': "NaN is not a finite number",
            '{"a": -Infinity}': "-Infinity is not a finite number",
            '{"a": 1e999}': "1e999 is not a finite number",
            '{"a": ' + "9" * 5000 + "}": "is too large",
            '{"a": 1, "a": 1}': "'a' is there twice",
            "[]": "it is list",
            "7": "it is 7",
            "null": "it is None",
            "{}": "it has no '",
        }.items():
            for name in LOAD:
                self.assertIn(said, self.load(name, text), name)
        self.path.write_bytes(b'{"a": "\xe9"}')
        with self.assertRaisesRegex(files.BadFile, "is not JSON"):
            files.load_json(self.path)
        with self.assertRaises(ToolError) as missing:
            files.load_json(self.path.with_name("b.json"))
        self.assertEqual(missing.exception.code, 1)

    def test_every_field_of_another_kind_or_missing_is_refused_or_harmless(self) -> None:
        """Each value of each file is replaced by each wrong one: never a traceback, and a refusal names the field."""
        refused = taken = 0
        for name in LOAD:
            good = self.short(name)
            for path in places(good):
                if not path or (len(path) > 1 and path[0] in LISTS and path[1] == 1):
                    continue
                for wrong in (*WRONG, KeyError):
                    data = copy.deepcopy(good)
                    inside = at(data, path[:-1])
                    if wrong is KeyError:
                        inside.pop(path[-1])
                    elif type(inside[path[-1]]) is type(wrong) and inside[path[-1]] == wrong:
                        continue
                    else:
                        inside[path[-1]] = wrong
                    said = self.load(name, data)
                    refused, taken = refused + bool(said), taken + (not said)
                    if path[-1] in MUST_REFUSE and wrong not in MUST_REFUSE[path[-1]]:
                        self.assertIn(f"'{path[-1]}'", said, f"{name} {path}: {wrong!r}")
        self.assertGreater(refused, 4 * taken)

    def test_what_does_not_fit_together(self) -> None:
        name = "nvidia-h200.json"
        good = self.short(name)
        self.assertIn("result 3 has the place of result 1", self.load(name, {**good, "results": [*good["results"], good["results"][0]]}))
        first = good["results"][0]
        percent = 100 * first["copy_us"] / first["time_us"]
        for fields, said in (
            ({"percent_of_copy": 20.0}, f"'percent_of_copy' is 20.0, and its times say {percent:.2f}"),
            ({"time_us": 0}, "'time_us' or 'copy_us' is 0"),
            ({"copy_us": None}, "has a time, and its 'copy_us' is None"),
            ({"status": "wrong"}, "has a time, and its status is 'wrong'"),
            ({"passes": None}, "has a time, and no 'passes'"),
            ({"status": "fine"}, "'status' is 'fine'"),
        ):
            self.assertIn(said, self.load(name, {**good, "results": [{**first, **fields}]}))
        self.assertIn("'results' is empty", self.load(name, {**good, "results": []}))
        sweep = synthetic_sweep.sweep()
        for table, said in (
            ({"name": "../../../x"}, "table 1: 'name' is '../../../x'"),
            ({"title": "<script>"}, "table 1: 'title' is '<script>'"),
            ({"shapes": ["f16:7"]}, "shape 'f16:7' is not DTYPE:ROWSxCOLS"),
            ({"shapes": ["f16:8x8", "f16:8x8"]}, "table 1 has a shape twice"),
            ({"name": "oneflow"}, "two tables have the same name"),
        ):
            tables = [{**sweep["tables"][0], **table}, *sweep["tables"][1:]]
            self.assertIn(said, self.load(name, {**sweep, "tables": tables}))

    def test_what_the_page_offers_for_copying(self) -> None:
        good = self.short("nvidia-h200.json")

        def with_header(**fields: Any) -> str:
            return self.load("nvidia-h200.json", {**good, "recorded": {**good["recorded"], **fields}})

        for command in ("python3 common/tools record", "python3 common/tools/record.py --quick", "./run profile --record",
                        "./run sweep --tables oneflow,awkward --shapes f16:4096x4096,bf16:8x9"):  # fmt: skip
            self.assertEqual(with_header(command=command), "", command)
        for command in ("rm -rf ~", "./run sweep; rm -rf ~", "./run sweep\nrm -rf ~", "./run sweep $(rm x)", "./run sweep --out /x",
                        "./run report", "curl x | sh", ""):  # fmt: skip
            self.assertIn("recorded: 'command' is ", with_header(command=command), command)
        for commit in ("main", "HEAD; rm x", "0123456\n", "--help", "0" * 41):
            self.assertIn("recorded: 'commit' is ", with_header(commit=commit))
        for date in ("2026-11-20", "2026-13-20T15:50:22Z", "2026-11-20T15:50:22Z\n", "tomorrow", 5):
            self.assertIn("recorded: 'date_utc' is ", with_header(date_utc=date))


# Fields that must be refused, and which of WRONG they may well be.
MUST_REFUSE: Dict[str, Tuple[Any, ...]] = {
    **dict.fromkeys(("date_utc", "commit", "command", "dtype", "status", "l2", "variant", "op", "name", "shapes"), ()),
    **dict.fromkeys(("rows", "cols", "repeats", "rounds", "kind", "counted_rows"), ()),
    **dict.fromkeys(("time_us", "copy_us"), (1e300,)),  # said of the percentage that does not follow
    **dict.fromkeys(("dirty", "noisy"), (True,)),
    **dict.fromkeys(("gpu", "title", "source", "contender"), ("", "../../../x")),
    "reason": ("", "<b>x</b>", "../../../x"),
}


if __name__ == "__main__":
    unittest.main()
