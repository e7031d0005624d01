"""Tests of the table of stage 14: it agrees with the recordings, and each disagreement is reported."""

import itertools
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from command import ToolError
from files import BadFile
from measure import choices
from measure.choices import ANY, Cell, Line, Part
from measure.results import OF_LIBRARY, ROOT
from pages import segments


def result(kernel: str, percent: float, rows: int = 64, cols: int = 1001, dtype: str = "f32", stage: str = OF_LIBRARY) -> dict:
    of_problem = {"dtype": dtype, "op": "softmax", "rows": rows, "cols": cols, "offset": 0}
    of_times = {"time_us": 100.0, "copy_us": float(percent), "percent_of_copy": percent}
    return {"kind": "stage", "stage": stage, "variant": kernel, **of_problem, "status": "verified", **of_times}


def recorded(root: Path, sweep: list[dict], ladder: list[dict] | None = None, ladder_date: str = "2026-11-01") -> Path:
    """A repository with these recordings and the table as it is."""
    machine = {"gpu": "NVIDIA H200", "multiprocessors": 132}
    for name, date, results in (("nvidia-h200", ladder_date, ladder or []), ("nvidia-h200-sweep", "2026-11-02", sweep)):
        path = root / f"common/results/{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"recorded": {"date_utc": date}, "machine": machine, "results": results}), encoding="utf-8")
    (root / choices.TABLE).parent.mkdir(parents=True, exist_ok=True)
    (root / choices.TABLE).write_text((ROOT / choices.TABLE).read_text(encoding="utf-8"), encoding="utf-8")
    return root


def cell(rows: int, cols: int, **percent: float) -> Cell:
    return Cell(rows, cols, percent, max(percent.values()))


def table_of(op: str, part: Part, cells: list[Cell], of: Part | None = None) -> choices.Table:
    """The lines for a part of the matrices where these cells are recorded of it, or of another part alone."""
    return choices.table_of(choices.work_of(op), part, {one: cells if one == (of or part) else [] for one in choices.PARTS})


def test_the_table_agrees_with_what_is_recorded() -> None:
    assert choices.disagreements(ROOT) == []


def test_a_sweep_that_disagrees_by_more_than_3_points_is_named(tmp_path: Path) -> None:
    head, other = "head_and_tail", "fused"
    assert choices.disagreements(recorded(tmp_path, [result(head, 90), result(other, 93)])) == []
    root = recorded(tmp_path, [result(head, 90), result(other, 93.1)])
    assert choices.disagreements(root) == [
        "softmax 64 x 1001, 4 bytes per element: the table takes head_and_tail, which is 3.1 points behind the best stage"
    ]
    with pytest.raises(ToolError, match="disagree with the table"):
        choices.main(["--check", "--root", str(root)])


def test_it_says_where_the_table_is_worst(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = recorded(tmp_path, [result("head_and_tail", 90), result("row_in_flight", 92.9)])
    for argv, behind in (["--check"], "2.9"), ([], "0.0"):  # the latter fits the table to it
        choices.main([*argv, "--root", str(root)])
        assert re.search(rf"the worst of 1 .*: softmax 64 x 1001, .* {behind} points behind", capsys.readouterr().out)
    with pytest.raises(ToolError, match="--gpu: '' is not accepted"):
        choices.main(["--gpu", ""])


def test_the_later_recording_of_a_shape_counts_alone(tmp_path: Path) -> None:
    head, other = "head_and_tail", "fused"
    ladder = [{name: value for name, value in result(other, 99).items() if name != "kind"}]
    assert choices.disagreements(recorded(tmp_path, [result(head, 90), result(other, 91)], ladder)) == []
    assert len(choices.disagreements(recorded(tmp_path, [result(head, 90, cols=1003)], [*ladder]))) == 1
    assert len(choices.disagreements(recorded(tmp_path, [result(head, 90), result(other, 91)], ladder, "2026-11-03"))) == 1


def test_a_damaged_recording_is_named(tmp_path: Path) -> None:
    for damage in ({"percent_of_copy": "<b>"}, {"percent_of_copy": 99}, {"rows": -1}, {"op": None}, {"offset": []}):
        root = recorded(tmp_path, [{**result("head_and_tail", 90), **damage}])
        with pytest.raises(BadFile, match=f"nvidia-h200-sweep.json is no results file: .*'{next(iter(damage))}' is"):
            choices.disagreements(root)


def test_the_stage_does_not_compete_with_itself(tmp_path: Path) -> None:
    sweep = [result("head_and_tail", 90), result("dispatch", 99, stage="14_dispatch")]
    assert choices.disagreements(recorded(tmp_path, sweep)) == []


def test_each_kernel_of_the_table_is_recorded_under_its_name() -> None:
    """A new kernel is not recorded yet, and the table does not choose it until it is."""
    results, _, _ = choices.recordings(ROOT)
    table = choices.read_table(ROOT / choices.TABLE)
    for work in choices.WORKS:
        cells = itertools.chain(*choices.recorded_cells(results, work).values())
        recorded = {kernel for cell in cells for kernel in cell.percent}
        lists = itertools.chain(*(of_part for (name, _), of_part in table.items() if name == work.name))
        assert {line.kernel for lines in lists for line in lines} <= recorded <= work.kernels.keys()


def test_the_last_line_does_anything() -> None:
    table = choices.read_table(ROOT / choices.TABLE)
    works = {work.name: work for work in choices.WORKS}
    for (name, _), of_part in table.items():
        assert of_part.without_clusters[-1] == Line(ANY, ANY, works[name].last[-1])


def test_segments_are_few_and_lie_halfway() -> None:
    cells = [Cell(64, cols, {"narrow": 90 - cols / 100, "wide": 80.0}, 90) for cols in (100, 200, 1600, 3200)]
    assert choices.fitted(cells, ["narrow", "wide"]) == [Line(ANY, 570, "narrow"), Line(ANY, ANY, "wide")]


def test_few_rows_have_a_band_of_their_own() -> None:
    cells = [cell(4, 32000, split=60, block=10), *(cell(1024, cols, split=50, block=90) for cols in (32000, 1000))]
    lines = choices.fitted(cells, ["split", "block"])
    assert [choices.of_lines(lines, one) for one in cells] == ["split", "block", "block"]
    # For rows narrower than those recorded with few rows, no recording shows that few rows are better split.
    assert lines == [Line(ANY, 16000, "block"), Line(64, ANY, "split"), Line(ANY, ANY, "block")]


def test_of_many_rows_that_were_recorded_with_narrow_ones_alone_the_wide_ones_are_as_of_fewer() -> None:
    kernels = {"narrow": 60.0, "wide": 60.0, "many": 60.0}
    cells = [Cell(4, cols, {**kernels, best: 90.0}, 90) for cols, best in ((1000, "narrow"), (4000, "narrow"), (64000, "wide"))]
    for rows, of_wide in ((64, "wide"), (65, "many")):  # recordings of 4 rows count for up to 64
        many = [Cell(rows, cols, {**kernels, "many": 90.0}, 90) for cols in (1000, 4000)]
        lines = choices.fitted([*cells, *many], list(kernels))
        found = [choices.of_lines(lines, Cell(rows, cols, kernels, 90)) for cols in (1000, 4000, 16000, 17000, 10**6)]
        assert found == ["many", "many", "many", of_wide, of_wide]
    # Nor do few say it by way of others that only have it from them.
    more = [Cell(rows, 4000, {**kernels, best: 90.0}, 90) for rows, best in ((64, "narrow"), (1024, "many"))]
    assert choices.of_lines(choices.fitted([*cells[:3], *more], list(kernels)), Cell(1024, 10**6, kernels, 90)) == "many"


def test_bands_of_many_rows_lend_each_other_what_they_do_not_have() -> None:
    cells = [cell(1024, 256, groups=80, padded=90), cell(1024, 10**5, cluster=99)]
    cells += [cell(49152, cols, groups=99, padded=40) for cols in (16, 256)]
    lines = choices.fitted(cells, ["cluster", "groups", "padded"])
    assert [choices.of_lines(lines, one) for one in cells] == ["padded", "cluster", "groups", "groups"]
    # Wide ones of more rows than were recorded are as those of fewer, and narrow ones of fewer as those of more.
    asked = cell(10**6, 10**5, cluster=99), cell(1024, 16, groups=99)
    assert [choices.of_lines(lines, one) for one in asked] == ["cluster", "groups"]


def test_of_more_rows_that_were_recorded_with_wide_ones_alone_the_narrow_ones_are_as_of_fewer() -> None:
    cells = [cell(4096, cols, groups=99, blocks=20) for cols in (16, 128)]
    cells += [cell(4096, 512, groups=99, blocks=90), cell(10**6, 512, groups=90, blocks=99)]
    lines = choices.fitted(cells, ["groups", "blocks"])
    assert [choices.of_lines(lines, one) for one in cells] == ["groups", "groups", "groups", "blocks"]
    asked = [choices.of_lines(lines, cell(10**6, cols, groups=99, blocks=99)) for cols in (8, 64, 260, 270, 5000)]
    assert asked == ["groups", "groups", "groups", "blocks", "blocks"]


def test_rows_that_few_were_recorded_of_say_nothing_of_many() -> None:
    cells = [cell(8, 64000, split=70, cluster=60), *(cell(49152, cols, split=50, cluster=99) for cols in (1000, 16000))]
    lines = choices.fitted(cells, ["split", "cluster"])
    assert [choices.of_lines(lines, cell(rows, 10**5, split=0, cluster=0)) for rows in (8, 128, 129)] == ["split", "split", "cluster"]


def test_what_may_not_be_able_to_is_followed_by_what_is() -> None:
    few = [cell(4, cols, held=90, split=89.5, many=30) for cols in (1000, 2000)]
    cells = [*few, cell(1024, 1000, held=50, split=50, many=90), cell(1024, 9000, split=50, many=90)]
    lines = choices.fitted(cells, ["held", "split", "many"])
    asked = cell(4, 9000, held=0, split=0, many=0), cell(4, 9000, split=0, many=0)
    assert [choices.of_lines(lines, one) for one in asked] == ["held", "split"]


def test_a_particular_kernel_has_a_stand_in() -> None:
    percent = {"flat_span": 97.0, "narrow_rows": 85.0, "in_registers": 40.0}
    cells = [Cell(262144, 33, percent, 97), Cell(262144, 4097, {"in_registers": 99.0}, 99)]
    lines, _ = table_of("cross_entropy_gradient", Part(4, False), cells)
    everything = dict.fromkeys(choices.work_of("cross_entropy_gradient").kernels, 0.0)
    elsewhere = {kernel: 0.0 for kernel in everything if kernel != "flat_span"}
    found = [choices.of_lines(lines, Cell(262144, 33, kernels, 0)) for kernels in (everything, elsewhere)]
    assert found == ["flat_span", "narrow_rows"]


def test_one_is_particular_where_whole_packs_do_not_cover_the_rows() -> None:
    cells = [Cell(256, 2000, {"block_registers": 90.0, "head_and_tail": 80.0, "unaligned": 50.0}, 90)]
    for part, kernels in (
        (Part(2, True), ["block_registers"]),
        (Part(2, False), ["block_registers", "head_and_tail"]),
    ):
        assert [line.kernel for line in table_of("softmax_backward", part, cells).lines] == kernels


def test_what_a_particular_kernel_gains_is_not_borrowed_from_the_other_size() -> None:
    cells = [Cell(262144, 34, {"flat_span": 90.0, "warp_registers": 70.0, "unaligned": 40.0}, 90)]
    assert table_of("softmax_backward", Part(4, False), cells, of=Part(2, False)).lines[0].kernel == "warp_registers"


def test_between_what_is_recorded_nothing_is_borrowed() -> None:
    work, part, other = choices.work_of("softmax_backward"), Part(4, True), Part(2, True)
    recorded_cells = {one: [] for one in choices.PARTS}
    recorded_cells[part] = [Cell(1024, cols, {"block_registers": 99.0}, 99) for cols in (1000, 4000)]
    recorded_cells[other] = [Cell(rows, 4000, {"shared_memory": 99.0}, 99) for rows in (1, 1024)]
    cells = choices.with_borrowed(recorded_cells, part, work)
    assert [(cell.rows, cell.cols) for cell in cells] == [(1024, 1000), (1024, 4000), (1, 2000)]


def test_what_a_kernel_is_not_asked_for_counts_for_the_best_alone() -> None:
    """Rows of 257 columns of 4 bytes; those of 16 bits are cut."""
    kernel, shapes = "warp_registers", [("f32", cols) for cols in (255, 257, 258)] + [("bf16", 257)]
    recorded = ({**result(f"backward_{kernel}", 97, cols=cols, dtype=dtype), "op": "softmax_backward"} for dtype, cols in shapes)
    of_part = choices.recorded_cells(recorded, choices.work_of("softmax_backward"))
    found = [(cell.cols, list(cell.percent), cell.best) for part in (Part(4, False), Part(2, False)) for cell in of_part[part]]
    assert found == [(255, [kernel], 97), (257, [], 97), (258, [kernel], 97), (257, [kernel], 97)]


def test_gpus_without_clusters_have_lines_of_their_own() -> None:
    held = Cell(1024, 16384, {"tickets": 99.0, "fused": 95.0, "row_exchange": 75.0, "online": 60.0}, 99)
    wide = Cell(1024, 10**6, {"row_exchange": 80.0, "online": 60.0}, 80)
    table = table_of("softmax", Part(4, True), [held, wide])
    assert [line.kernel for line in table.lines] == ["tickets", "row_exchange"]
    assert [line.kernel for line in table.without_clusters] == ["fused", "row_in_flight", "online"]
    # The line for wider rows is not for those that a cluster would have held.
    assert [choices.chosen(table, cell) for cell in (held, *choices.without_clusters([held, wide]))] == ["tickets", "fused", "row_exchange"]


def test_what_clusters_take_between_what_is_recorded_others_take_as_they_take_more_rows() -> None:
    few, many = {"narrow_rows": 99.0, "in_registers": 60.0}, {"narrow_rows": 60.0, "in_registers": 99.0}
    recorded_cells = [Cell(4096, 501, few, 99), *(Cell(49152, cols, many, 99) for cols in (501, 8001))]
    recorded_cells.append(Cell(4096, 50001, {"kept_row": 97.0, "unaligned_cluster": 99.0}, 99))
    table = table_of("cross_entropy_gradient", Part(2, False), recorded_cells)
    cells = [Cell(1000, cols, {**few, "kept_row": 40.0}, 99) for cols in (4000, 6000, 16000, 26000)]
    assert [choices.chosen(table, cell) for cell in cells] == ["narrow_rows", "in_registers", "in_registers", "kept_row"]


def test_who_is_behind_on_a_gpu_without_clusters_is_named(tmp_path: Path) -> None:
    of_wide = {"rows": 4096, "cols": 32768}
    results = [result(kernel, 99, **of_wide) for kernel in ("cluster_2", "cluster_4")]  # whichever the table takes
    results.append(result("row_in_flight", 60, **of_wide))
    results.append(result("fused", 95, **of_wide))
    assert choices.disagreements(recorded(tmp_path, results)) == []
    root = recorded(tmp_path, results)
    table = (root / choices.TABLE).read_text()
    (root / choices.TABLE).write_text(table.replace("46000, .kernel = Forward::fused", "46000, .kernel = Forward::row_in_flight"))
    assert choices.disagreements(root) == [
        "softmax 4096 x 32768, 4 bytes per element: the table takes row_in_flight, which is 35.0 points behind the best of those that "
        "need no clusters"
    ]


@pytest.mark.parametrize(
    "points, also_wide, stays",
    [
        ([1], False, True),
        ([1.2], False, False),
        ([2], False, False),
        ([0.8, 0.8], False, False),  # GPUs without clusters count, too
        ([0.75, 0.75], True, True),  # others would need an additional line
        ([1.05], True, False),  # and would make up for more than a point
    ],
)
def test_what_the_table_has_stays_unless_it_is_clearly_behind(tmp_path: Path, points: list[float], also_wide: bool, stays: bool) -> None:
    has, other = "row_in_flight", "head_and_tail"
    narrow = [(one, percent, 1001 + 2 * at) for at, behind in enumerate(points) for one, percent in ((has, 90 - behind), (other, 90))]
    wide = [(has, 90, 8193), (other, 80, 8193)] if also_wide else []
    results = [result(kernel, percent, cols=cols) for kernel, percent, cols in narrow + wide]
    root = recorded(tmp_path, [one for one in results if one["variant"] == has])
    (root / choices.TABLE).unlink()
    table = choices.table_text(root)
    assert f"Forward::{other}" not in table
    recorded(tmp_path, results)
    (root / choices.TABLE).write_text(table)
    assert (f"Forward::{other}" not in choices.table_text(root)) == stays
    (root / choices.TABLE).write_text(table.replace("Forward::online", "Forward::gone"))
    assert "Forward::gone" not in choices.table_text(root)


def test_an_operation_that_is_not_recorded_has_assumed_lines(tmp_path: Path) -> None:
    text = choices.table_text(recorded(tmp_path, [result("head_and_tail", 90)]))
    assert "// assumed: no cross_entropy is recorded\n" in text


def test_where_nothing_is_recorded_the_assumed_lines_hold() -> None:
    percent = {"one_read": 91.0, "drawn_rows": 94.0, "split_row": 88.0}
    table = table_of("cross_entropy", Part(2, True), [Cell(4096, cols, percent, 94) for cols in (10000, 20000)])
    every = {"narrow_rows": 1.0, "one_read": 1.0, "drawn_rows": 1.0, "split_row": 1.0}
    shapes = [(4096, 10000), (4096, 5001), (4096, 5000), (64, 20000), (65, 20000)]
    chosen = [choices.chosen(table, Cell(*shape, every, 1)) for shape in shapes]
    assert chosen == ["drawn_rows", "drawn_rows", "narrow_rows", "split_row", "drawn_rows"]


@pytest.mark.parametrize("element_bytes", [4, 2])
def test_narrow_rows_that_no_pack_divides_have_no_block_each_in_the_gradient(element_bytes: int) -> None:
    table = choices.read_table(ROOT / choices.TABLE)["Backward", Part(element_bytes, False)]
    both = {"warp_registers": 1.0, "head_and_tail": 1.0}
    assert [choices.chosen(table, Cell(10**5, cols, both, 1)) for cols in (10, 2001)] == list(both)


@pytest.mark.parametrize("points, lines", [(0.5, 1), (1.0, 2)])
def test_a_point_is_worth_a_line_and_half_of_one_is_not(points: float, lines: int) -> None:
    other = 100 - points
    cells = [Cell(4096, 1000, {"a": 100, "b": other}, 100), Cell(4096, 4000, {"a": other, "b": 100}, 100)]
    assert len(choices.fitted(cells, ["a", "b"])) == lines


def test_a_line_whose_matrices_others_give_to_the_same_kernel_goes() -> None:
    rest = [Line(100, 23, "a"), Line(100, 90, "b"), Line(ANY, 23, "a"), Line(ANY, ANY, "c")]
    assert choices._without_covered([Line(ANY, 8, "a"), *rest]) == rest
    assert choices._without_covered([Line(64, 30, "a"), *rest]) == [Line(64, 30, "a"), *rest]


def test_what_lines_before_have_taken_needs_no_line() -> None:
    few = [Line(100, 50, "a"), Line(100, ANY, "b"), Line(ANY, 50, "c"), Line(ANY, ANY, "b")]
    assert choices._without_covered(few) == [few[0], *few[2:]]
    # Rows that cannot have the first kernel come further.
    assert choices._without_covered(few, {"a"}) == few


def test_lines_that_need_a_workspace_are_passed_over() -> None:
    cells = [
        Cell(rows, cols, {**dict.fromkeys(("row_exchange", "head_and_tail", "fused", "online"), 60.0), best: 99.0}, 99)
        for rows, cols, best in ((64, 900, "row_exchange"), (64, 9000, "fused"), (8192, 900, "head_and_tail"), (8192, 9000, "fused"))
    ]
    table = table_of("softmax", Part(4, True), cells)
    assert choices.chosen(table, cells[0]) == "row_exchange"
    without_workspace = cells[0]._replace(percent={kernel: 60.0 for kernel in cells[0].percent if kernel != "row_exchange"})
    assert choices.chosen(table, without_workspace) == "fused"  # as the next of as few rows, not as those of many


def test_a_line_that_is_never_reached_goes() -> None:
    taken = [Line(ANY, 100, "a"), Line(64, ANY, "cluster"), Line(ANY, ANY, "online")]
    assert choices._without_covered([*taken[:2], Line(8, 50, "a"), Line(32, ANY, "b"), taken[2]]) == taken
    # What "a" cannot do of such columns, no "a" can; "online" can do anything.
    for kernel in ("a", "online"):
        ends = [Line(ANY, ANY, kernel), Line(ANY, ANY, "b")]
        assert choices._without_covered([ends[0], Line(8, 50, "a"), ends[1]]) == ends
    # The last line is for the rows that no line can do.
    assert choices._without_covered([Line(ANY, ANY, "a"), Line(ANY, ANY, "b"), Line(ANY, ANY, "a")])[-1] == Line(ANY, ANY, "a")


def test_no_line_says_what_the_next_one_says() -> None:
    for (work, part), table in choices.read_table(ROOT / choices.TABLE).items():
        for lines in table:
            for line, after in zip(lines, lines[1:]):
                covered = line.most_rows <= after.most_rows and line.most_cols <= after.most_cols
                assert line.kernel != after.kernel or not covered, (work, str(part), line)


def named_in(svg: str) -> list[tuple[str, ...]]:
    """The texts within each box of the picture of the segments, with each letter replaced as the key below says."""
    root = ElementTree.fromstring(svg)
    texts = [(float(text.get("x", "")), float(text.get("y", "")), text.text or "") for text in root.findall(".//{*}text")]
    found = []
    for box in root.findall(".//{*}rect"):
        left, top, wide, high = (float(box.get(name, "")) for name in ("x", "y", "width", "height"))
        inside = [text for x, y, text in texts if left < x < left + wide and top + 12 <= y <= top + high]
        keys = [text for y, text in sorted((y, text) for _, y, text in texts) if y > top + high and text.startswith("a: ")]
        of_letter = dict(pair.split(": ") for pair in keys[0].split(", ")) if keys else {}
        found.append(tuple(of_letter.get(text, text) for text in inside))
    return found


def test_every_segment_of_the_picture_is_named() -> None:
    assert segments.name_of("a_new_kernel") == "a_new_kernel"
    svg = segments.drawn(ROOT)
    table = choices.read_table(ROOT / choices.TABLE)
    kernels = [box.kernel for part in segments.PANELS for box in segments.boxes(table["Forward", part].lines)]
    assert named_in(svg) == [(segments.name_of(kernel),) for kernel in kernels]
    assert f"rows of whole packs, one row: {segments.name_of(kernels[0])} up to " in segments.alt(ROOT)
