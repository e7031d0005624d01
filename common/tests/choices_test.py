"""Tests of the library's tables: each agrees with the recordings, and each disagreement is reported."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from command import ToolError
from files import BadFile
from measure import choices
from measure.choices import ANY, Line, Part, Table
from measure.results import OF_LIBRARY, ROOT
from pages import segments

PACKS, OTHERS = Part(4, "packs"), Part(4, "others")


def result(kernel: str, percent: float, rows: int = 64, cols: int = 1001, dtype: str = "f32", stage: str = OF_LIBRARY) -> dict:
    of_problem = {"dtype": dtype, "op": "softmax", "rows": rows, "cols": cols, "offset": 0}
    of_times = {"time_us": 100.0, "copy_us": float(percent), "percent_of_copy": percent}
    return {"kind": "stage", "stage": stage, "variant": kernel, **of_problem, "status": "verified", **of_times}


def table(lines: list[Line], part: Part = OTHERS) -> Table:
    every = {(kind, one): [Line(ANY, ANY, "online")] for kind in choices.KINDS.values() for one in choices.PARTS}
    return Table("NVIDIA H200", 132, {**every, ("Forward", part): lines})


def recorded(root: Path, sweep: list[dict], ladder: list[dict] | None = None, ladder_date: str = "2026-11-01") -> Path:
    """A repository with these recordings and a table that gives all matrices to head_and_tail."""
    machine = {"gpu": "NVIDIA H200", "multiprocessors": 132}
    for name, date, results in (("nvidia-h200", ladder_date, ladder or []), ("nvidia-h200-sweep", "2026-11-02", sweep)):
        path = root / f"common/results/{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"recorded": {"date_utc": date}, "machine": machine, "results": results}), encoding="utf-8")
    path = choices.table_of(root, "NVIDIA H200")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(choices.table_text(table([Line(ANY, ANY, "head_and_tail"), Line(ANY, ANY, "online")]), ["# a test"]), encoding="utf-8")
    return root


def test_the_table_agrees_with_what_is_recorded() -> None:
    assert choices.disagreements(ROOT) == []


def test_a_sweep_that_disagrees_by_more_than_3_and_a_half_points_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head, other = "head_and_tail", "fused"
    root = recorded(tmp_path, [result(head, 90), result(other, 93.5)])
    assert choices.disagreements(root) == []
    choices.main(["--check", "--root", str(root)])
    words = "softmax f32 64 x 1001: the table takes head_and_tail, which is 3.5 points behind the best"
    assert capsys.readouterr().out == f"the worst of 1 recorded shapes: {words}\n"
    root = recorded(tmp_path, [result(head, 90), result(other, 93.6)])
    assert choices.disagreements(root) == [words.replace("3.5", "3.6")]
    with pytest.raises(ToolError, match="disagree with the table"):
        choices.main(["--check", "--root", str(root)])
    choices.main(["--root", str(root)])  # only says so
    assert "3.6 points behind" in capsys.readouterr().out
    with pytest.raises(ToolError, match="--gpu: '' is not accepted"):
        choices.main(["--gpu", ""])


def test_the_later_recording_of_a_shape_counts_alone(tmp_path: Path) -> None:
    head, other = "head_and_tail", "fused"
    ladder = [{name: value for name, value in result(other, 99).items() if name != "kind"}]
    assert choices.disagreements(recorded(tmp_path, [result(head, 90), result(other, 91)], ladder)) == []
    ladder.append({name: value for name, value in result(head, 90).items() if name != "kind"})
    assert len(choices.disagreements(recorded(tmp_path, [result(head, 90, cols=1003)], ladder))) == 1
    assert len(choices.disagreements(recorded(tmp_path, [result(head, 90), result(other, 91)], ladder, "2026-11-03"))) == 1


def test_a_damaged_recording_is_named(tmp_path: Path) -> None:
    for damage in ({"percent_of_copy": "<b>"}, {"percent_of_copy": 99}, {"rows": -1}, {"op": None}, {"offset": []}):
        root = recorded(tmp_path, [{**result("head_and_tail", 90), **damage}])
        with pytest.raises(BadFile, match=f"nvidia-h200-sweep.json is no results file: .*'{next(iter(damage))}' is"):
            choices.disagreements(root)


def test_the_library_does_not_compete_with_its_kernels_and_a_stage_does(tmp_path: Path) -> None:
    sweep = [result("head_and_tail", 90), result("dispatch", 99, stage="14_dispatch")]
    assert choices.disagreements(recorded(tmp_path, sweep)) == []
    assert len(choices.disagreements(recorded(tmp_path, [*sweep, result("packs", 95, stage="08_unaligned_rows")]))) == 1


@pytest.mark.parametrize(
    "element_bytes, cols, offset, place",
    [(4, 4, 0, "packs"), (4, 4, 4, "packs"), (4, 4, 2, "displaced"), (4, 2, 0, "halves"), (4, 6, 2, "halves"), (4, 6, 1, "others")]
    + [(4, 3, 0, "others"), (2, 8, 0, "packs"), (2, 8, 1, "displaced"), (2, 4, 0, "halves"), (2, 2, 0, "others"), (2, 4, 2, "others")],
)
def test_each_matrix_has_one_list(element_bytes: int, cols: int, offset: int, place: str) -> None:
    assert Part.of(element_bytes, cols, offset) == Part(element_bytes, place)


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    lines = [Line(8, 100, "fused"), Line(8, ANY, "row_exchange"), Line(8, ANY, "online"), Line(ANY, 100, "fused"), Line(ANY, ANY, "online")]
    path, written = tmp_path / "a.table", table(lines, PACKS)
    path.write_text(choices.table_text(written, ["# one line", "# and another"]), encoding="utf-8")
    assert choices.read_table(path) == written
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# one line\n# and another\ngpu NVIDIA H200\nmultiprocessors 132\n")
    assert "Forward 4 packs\nrows 8: 100 fused, any row_exchange, any online\nrows any: 100 fused, any online\n" in text
    for damage, says in ((("rows 8:", "row 8:"), "'row 8: .*' is not understood"), (("Loss 2 others", "# no"), "is no table")):
        path.write_text(text.replace(*damage), encoding="utf-8")
        with pytest.raises(ToolError, match=says):
            choices.read_table(path)


def test_the_first_line_that_holds_the_matrix_and_can_do_it_is_taken() -> None:
    lines = [Line(8, 100, "a"), Line(8, ANY, "b"), Line(ANY, 100, "c"), Line(ANY, ANY, "d")]
    asked = [(8, 100, "abcd"), (8, 101, "abcd"), (9, 100, "abcd"), (9, 101, "abcd"), (8, 100, "cd"), (8, 101, "ac")]
    assert [choices.chosen(lines, *one) for one in asked] == ["a", "b", "c", "d", "c", None]


def test_every_list_of_the_table_ends_with_a_line_for_anything() -> None:
    _, gpu = choices.recorded_cells(ROOT)
    for lines in choices.read_table(choices.table_of(ROOT, gpu)).lines.values():
        assert lines[-1][:2] == (ANY, ANY)
        assert [line.most_rows for line in lines] == sorted(line.most_rows for line in lines)


def test_the_lesson_shows_the_beginning_of_a_list() -> None:
    shown = re.search("```text\n(.*)\n(.*), \\.\\.\\.\n```", (ROOT / "14_dispatch/README.md").read_text(encoding="utf-8"))
    assert shown
    assert f"\n{shown[1]}\n{shown[2]}, " in choices.table_of(ROOT, "NVIDIA H200").read_text(encoding="utf-8")


def test_each_kernel_of_the_picture_is_in_its_key() -> None:
    assert segments.name_of("a_new_kernel") == "a_new_kernel"
    root = ElementTree.fromstring(segments.drawn(ROOT))
    texts = [text.text for text in root.findall(".//{*}text")]
    for lines in segments._lines(ROOT).values():
        named = {segments.name_of(box.kernel) for box in segments.boxes(lines)}
        assert named <= {*texts}
        first = segments.name_of(min(segments.boxes(lines), key=lambda box: (box.rows[0], box.cols)).kernel)
        assert f"rows of whole packs, one row: {first} up to " in segments.alt(ROOT)


def test_the_boxes_of_the_picture_cover_it() -> None:
    lines = [Line(8, 100, "a"), Line(8, ANY, "b"), Line(ANY, 100, "a"), Line(ANY, ANY, "c")]
    assert segments.boxes(lines) == [
        segments.Box((0, segments.MOST_ROWS), (segments.LEAST_COLS, 100), "a"),
        segments.Box((0, 8), (100, segments.MOST_COLS), "b"),
        segments.Box((8, segments.MOST_ROWS), (100, segments.MOST_COLS), "c"),
    ]
