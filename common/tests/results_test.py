"""Tests that the tools believe nothing of a recorded file. Every one that is damaged is named with its field."""

import copy
import json
from pathlib import Path
from typing import Any, Callable, Iterator

import files
import pytest
import synthetic_sweep
from command import ToolError
from measure import columns, hardware_table, results

RECORDED = results.ROOT / "common/results"
LOAD: dict[str, Callable[[Path], Any]] = {
    "nvidia-h200.json": results.Recorded,
    "nvidia-h200-sweep.json": results.Recorded,
    "nvidia-h200-profile.json": lambda path: results.load(path, results.PROFILES),
    "simulator.json": lambda path: results.load(path, results.COUNTED),
    "nvidia-h200-simulator.json": lambda path: results.load(path, hardware_table.SCHEMA),
    "nvidia-h200-judged.json": lambda path: results.load(path, results.JUDGED),
    "nvidia-h200-several.json": lambda path: results.load(path, results.SEVERAL),
}
# A list of many alike is as good as its first two.
LISTS = ("results", "entries", "counted", "tables")
GOOD = {
    name: {key: value[:2] if key in LISTS else value for key, value in results.load(RECORDED / name, {}).items()}
    for name in LOAD
}
RECORDING = GOOD["nvidia-h200.json"]


def swept(*contenders: str) -> Any:
    """A sweep of these contenders at two shapes, at one of which 03_warp_reduce is not applicable."""
    data = synthetic_sweep.sweep()
    rows = [row for row in data["results"] if row["contender"] in contenders and row["rows"] == 1024 and row["cols"] in (1024, 2048)]
    return {**data, "tables": data["tables"][:1], "results": rows}


IN_COLUMNS = json.loads(results.json_text(swept("copy", "03_warp_reduce packs", "cudnn accurate")))
# Wrong replacements for each value: each kind once. KeyError: it is not there.
WRONG = (True, -1, "", "<b>x</b>", "../../../x", "x\x1b[2J", [], {}, None, 1e300, "\ud800", KeyError)
# Fields that must be refused, and which of WRONG they may well be.
MUST_REFUSE: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("date_utc", "commit", "command", "dtype", "status", "l2", "variant", "op", "name", "shapes"), ()),
    **dict.fromkeys(("rows", "cols", "repeats", "rounds", "kind", "counted_rows"), ()),
    **dict.fromkeys(("time_us", "copy_us"), (1e300,)),  # said of the percentage that does not follow
    **dict.fromkeys(("dirty", "noisy"), (True,)),
    **dict.fromkeys(("gpu", "title", "source", "contender"), ("", "../../../x")),
    "reason": ("", "<b>x</b>", "../../../x"),
}

Said = Callable[[str, Any], str]


@pytest.fixture
def said(tmp_path: Path) -> Said:
    """The message about a file with this text or data; empty if it is taken."""
    path = tmp_path / "a.json"

    def load(name: str, data: Any) -> str:
        path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
        try:
            LOAD[name](path)
        except files.BadFile as error:
            text = str(error)
            assert "a.json" in text
            assert (error.code, text.count("\n"), text.isprintable()) == (2, 0, True), text
            return text
        return ""

    return load


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values; of the lists of many alike, through the first element only."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        if not (len(path) == 1 and path[0] in LISTS and key == 1):
            yield (*path, key)
            yield from places(one, (*path, key))


def damaged(good: Any, path: tuple[Any, ...], wrong: Any) -> Any:
    """A copy with another value at the path; None where it is the same."""
    data = inside = copy.deepcopy(good)
    for key in path[:-1]:
        inside = inside[key]
    if wrong is KeyError:
        inside.pop(path[-1])
    elif type(inside[path[-1]]) is type(wrong) and inside[path[-1]] == wrong:
        return None
    else:
        inside[path[-1]] = wrong
    return data


def test_a_shape_that_is_recorded_of_one_operation_alone_shows_this_one() -> None:
    recorded = results.Recorded(RECORDED / "nvidia-h200.json")
    shown = recorded.variants("12_cross_entropy", results.Shape("bf16", 65536, 520))
    assert {result["op"] for result in shown} == {"cross_entropy"}


def test_what_is_recorded_is_taken(said: Said) -> None:
    for name in LOAD:
        assert said(name, GOOD[name]) == ""
    for kind in results.KINDS:  # of every GPU
        load = LOAD.get(f"nvidia-h200{kind}.json", results.Recorded)
        for path in results.recorded_files(RECORDED, kind).values():
            load(path)
    LOAD["simulator.json"](RECORDED / "simulator.json")
    assert said("nvidia-h200-sweep.json", synthetic_sweep.sweep()) == ""


@pytest.mark.parametrize("name, schema", [("nvidia-h200.json", results.RECORDING), ("simulator.json", results.COUNTED)])
def test_a_file_that_is_read_and_written_is_the_same(name: str, schema: Any) -> None:
    assert results.json_text(results.load(RECORDED / name, schema)) == (RECORDED / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "objects",
    [
        [],
        [{}],
        [{"a": 1, "b": None}, {"a": 1, "b": 2}],
        [{"a": 1}, {"a": 1.0}, {"a": True}],
        [{"a": {}}, {"a": {}}],
        [{"a": [1]}, {"a": []}, {"a": {"b": 1}}],
        [{"b": 1}, {"a": 1, "b": 2}, {"b": 3, "c": 4}, {"a": 5, "b": 6, "c": 7}],  # lacking the last, and lacking others
        [{"n": {"x": [{"y": 1}, {"y": 2, "z": {"u": 3}}]}}, {"n": {"x": []}}, {"n": {"x": [{"z": {"u": 4}}]}}],
    ],
)
def test_what_is_written_in_columns_is_read_again(objects: list[Any]) -> None:
    text = json.dumps(columns.packed(objects))
    read = columns.unpacked(json.loads(text), "results")
    assert [json.dumps(one, sort_keys=True) for one in read] == [json.dumps(one, sort_keys=True) for one in objects], text


def test_what_is_not_applicable_has_a_line_for_each_reason(tmp_path: Path) -> None:
    data, path = synthetic_sweep.sweep(), tmp_path / "a-sweep.json"
    rows = copy.deepcopy(data["results"])
    absent = [row for row in rows if row["status"] == "not applicable"]
    path.write_text(results.json_text(data), encoding="utf-8")
    form = json.loads(path.read_text(encoding="utf-8"))["results"]
    assert len(form["rows"]) == len(rows) - len(absent)
    assert len(form["not_applicable"]["rows"]) == len({(row["variant"], row["reason"]) for row in absent}) < len(absent)
    assert results.load(path, results.SWEEP)["results"] == rows  # in this order
    path.write_text(json.dumps(data), encoding="utf-8")  # an older file
    assert results.load(path, results.SWEEP)["results"] == rows


def test_columns_that_are_damaged(said: Said) -> None:
    assert said("nvidia-h200-sweep.json", IN_COLUMNS) == ""
    for path in places(IN_COLUMNS["results"], ("results",)):
        for wrong in WRONG:
            data = damaged(IN_COLUMNS, path, wrong)
            text = data and said("nvidia-h200-sweep.json", data)
            if data and path[-1] in ("columns", "rows", "shapes", "variants", "not_applicable") and wrong not in ([], {}, KeyError):
                assert f"'{path[-1]}'" in text or "not_applicable is" in text, (path, wrong)
    more = copy.deepcopy(IN_COLUMNS)
    more["results"]["rows"][1].append(0)
    assert "results 2 has more values than columns" in said("nvidia-h200-sweep.json", more)
    # As text, because Python itself refuses to write so deep a nesting. The depth that it reads depends on its version.
    more["results"]["columns"] = "deep"
    for depth in (400, 700):
        deep = '[{"a": ' * depth + "[]" + "}]" * depth
        text = said("nvidia-h200-sweep.json", json.dumps(more).replace('"deep"', deep))
    assert "it is nested too deeply" in text


NOT_JSON = {
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
}


def test_not_json(said: Said) -> None:
    for text, problem in NOT_JSON.items():
        assert [name for name in LOAD if problem not in said(name, text)] == [], text[:80]


def test_not_text_or_not_there(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'{"a": "\xe9"}')
    with pytest.raises(files.BadFile, match="is not JSON"):
        files.load_json(tmp_path / "a.json")
    with pytest.raises(ToolError) as missing:
        files.load_json(tmp_path / "b.json")
    assert missing.value.code == 1
    with pytest.raises(files.BadFile, match="/dev/null is not a regular file"):
        files.load_json(Path("/dev/null"))


def test_tables_that_are_none(said: Said, tmp_path: Path) -> None:
    assert "'tables' is empty" in said("nvidia-h200-sweep.json", {**GOOD["nvidia-h200-sweep.json"], "tables": None})
    assert results.newest([tmp_path / "a.json"]) == tmp_path / "a.json"


def test_every_field_of_another_kind_or_missing_is_refused_or_harmless(said: Said) -> None:
    """Each value of each file is replaced by each wrong one: never a traceback, and a refusal names the field."""
    refused = taken = 0
    for name, good in GOOD.items():
        for path in places(good):
            for wrong in WRONG:
                data = damaged(good, path, wrong)
                if data is None:
                    continue
                text = said(name, data)
                refused, taken = refused + bool(text), taken + (not text)
                of_a_peer = name.endswith("-several.json") and path[-1] in ("reason", "copy_us") and wrong in (KeyError, None)
                if path[-1] in MUST_REFUSE and wrong not in MUST_REFUSE[path[-1]] and not of_a_peer:
                    assert f"'{path[-1]}'" in text, f"{name} {path}: {wrong!r}"
    assert refused > 4 * taken


@pytest.mark.parametrize(
    "key, fields, problem",
    [
        ("results", {"percent_of_copy": 20.0}, "'percent_of_copy' is 20.0, and its times say {:.2f}"),
        ("results", {"time_us": 0}, "'time_us' is 0, and 'copy_us' is {copy_us}"),
        ("results", {"copy_us": None}, "has a time, and its 'copy_us' is None"),
        ("results", {"status": "wrong"}, "has a time, and its status is 'wrong'"),
        ("results", {"passes": None}, "has a time, and no 'passes'"),
        ("tables", {"shapes": ["f16:7"]}, "shape 'f16:7' is not DTYPE:ROWSxCOLS"),
        ("tables", {"shapes": ["f16:8x8", "f16:8x8"]}, "table 1 has a shape twice"),
        ("tables", {"name": "oneflow"}, "two tables have the same name"),
    ],
)
def test_what_does_not_fit_together(said: Said, key: str, fields: dict[str, Any], problem: str) -> None:
    data = copy.deepcopy(RECORDING) if key == "results" else synthetic_sweep.sweep()
    first = data["results"][0]
    problem = problem.format(100 * first["copy_us"] / first["time_us"], copy_us=first["copy_us"])
    data[key][0].update(fields)
    assert problem in said("nvidia-h200.json", data)


@pytest.mark.parametrize("factor, refused", [(0.995, True), (0.9999, False), (1.0001, False), (1.005, True)])
def test_percentages_follow_from_the_times(said: Said, factor: float, refused: bool) -> None:
    data = copy.deepcopy(RECORDING)
    data["results"][0]["percent_of_copy"] = 100 * data["results"][0]["copy_us"] / data["results"][0]["time_us"] * factor
    assert ("'percent_of_copy' is" in said("nvidia-h200.json", data)) == refused


def test_no_results_and_two_of_one_place(said: Said) -> None:
    for listed, problem in ([], "'results' is empty"), ([0, 1, 0], "result 3 has the place of result 1"):
        data = {**RECORDING, "results": [RECORDING["results"][n] for n in listed]}
        assert problem in said("nvidia-h200.json", data)


def test_verdicts(said: Said) -> None:
    """The library's choices; the same matrix may be drawn twice."""
    good = {"op": "log_softmax", "dtype": "f16", "rows": 8, "cols": 8, "offset": 1, "chosen": "a", "fastest": "b", "percent": 90.0}

    def refused(**fields: Any) -> str:
        return said("nvidia-h200-judged.json", {**GOOD["nvidia-h200-judged.json"], "results": [good, {**good, **fields}]})

    assert [refused(), refused(percent=100.00000000000001), refused(chosen="b", percent=100)] == [""] * 3
    for field, value in (("percent", 0), ("percent", 100.1), ("op", "causal_softmax"), ("op", "log_max"), ("offset", -1), ("fastest", "a b")):
        assert f"verdict 2: '{field}' is " in refused(**{field: value})
    assert "verdict 2 chose the fastest kernel, and its 'percent' is 90.0" in refused(chosen="b")


def test_what_the_page_offers_for_copying(said: Said) -> None:
    def refused(field: str, value: Any) -> bool:
        text = said("nvidia-h200.json", {**RECORDING, "recorded": {**RECORDING["recorded"], field: value}})
        assert text == "" or f"recorded: '{field}' is " in text
        return text != ""

    record = ["python3 common/tools record", "python3 common/tools/record.py --quick", "./run profile --record"]
    record += ["./run tune --judge 200 --seed 51,52,53"]
    for command in (*record, "./run sweep --tables oneflow,awkward --shapes f16:4096x4096,bf16:8x9"):
        assert not refused("command", command), command
    sweep = [f"./run sweep{more}" for more in ("; rm -rf ~", "\nrm -rf ~", " $(rm x)", " --out /x")]
    for field, values in {
        "command": (*sweep, "rm -rf ~", "./run report", "curl x | sh", ""),
        "commit": ("main", "HEAD; rm x", "0123456\n", "--help", "0" * 41),
        "date_utc": ("2026-11-20", "2026-13-20T15:50:22Z", "2026-11-20T15:50:22Z\n", "tomorrow", 5),
    }.items():
        assert [value for value in values if not refused(field, value)] == []
