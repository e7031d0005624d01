"""Tests of `./run tune`: the grid, the fit and the files, with a script in place of the program for a GPU."""

import json
from pathlib import Path

import pytest

from command import NoDevice, ToolError
from measure import choices, tune
from measure.choices import ANY, KINDS, PARTS, Line, Part
from measure.tune import Loss, Matrix, Timed

PACKS, DISPLACED, OTHERS = Part(4, "packs"), Part(4, "displaced"), Part(4, "others")


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_the_grid_is_dense_where_tiles_end(part: Part) -> None:
    found = tune.columns(part)
    assert all(Part.of(part.element_bytes, cols, int(part.place == "displaced")) == part for cols in found)
    most = tune.MOST_COLS_OF_NARROW // 2 if part.place in tune.NARROW_PLACES else 1 << 20
    for border in (512, 640, 1024, most):
        before, behind = max(cols for cols in found if cols <= border), min(cols for cols in found if cols > border)
        assert border - before < 16 // part.element_bytes
        assert behind - border <= 32 // part.element_bytes or border > tune.VERY_WIDE
    matrices = list(tune.grid("softmax"))
    assert len(matrices) == len({*matrices})
    assert {matrix.part for matrix in matrices} == {*PARTS}
    assert all(matrix.rows * matrix.cols * 2 < 2 << 30 for matrix in matrices)


def test_a_line_of_the_program_is_understood() -> None:
    assert tune.parsed("softmax bf16 4096 1000 1: held; fused 4.21, held 3.98 wc, span 5 a") == Timed(
        Matrix("softmax", "bf16", 4096, 1000, 1), "held", {"fused": 4.21, "held": 3.98, "span": 5.0}, {"fused": "", "held": "wc", "span": "a"}
    )
    assert tune.parsed("softmax bf16 4096 1000 1: held;").microseconds == {}
    with pytest.raises(ToolError, match="'x' is not the first line"):
        tune.machine_of("x\n")


def losses(needs: dict[str, str] | None = None, **parts: float) -> dict[str, Loss]:
    return {kernel: Loss(part, (needs or {}).get(kernel, "")) for kernel, part in parts.items()}


def lines_of(cells: tune.Cells) -> list[Line]:
    """The lines, if none of the test's kernels does anything."""
    return tune.lines_of("Loss", cells)


def test_each_cell_has_the_fastest_kernel_unless_its_neighbours_have_one_that_is_as_fast() -> None:
    def segments(cells: tune.Cells) -> list[Line]:
        """Without the slower kernels that follow the first one of a segment."""
        return list({line[:2]: line for line in reversed(lines_of(cells))}.values())[::-1]

    narrow, wide = losses(a=0, b=0.05), losses(a=0.05, b=0)
    cells = {rows: {100: narrow, 200: narrow, 400: wide, 800: wide} for rows in (1, 10, 100)}
    assert segments(cells) == [Line(ANY, 282, "a"), Line(ANY, ANY, "b")]
    for loss, number in ((0.01, 2), (0.09, 7)):
        cells[10][100] = losses(a=loss, b=0)
        assert len(segments(cells)) == number
    cells[100] = {cols: losses(a=0.09, b=0) for cols in cells[100]}
    cells[10] = cells[1]
    assert segments(cells) == [Line(32, 282, "a"), Line(32, ANY, "b"), Line(ANY, ANY, "b")]


def test_matrices_that_were_not_measured_are_like_those_of_the_nearest_rows() -> None:
    few, many = losses(a=0, b=0.1), losses(a=0.1, b=0)
    cells = {1: {4000: few}, 100: {10: many, 4000: many}, 1000: {10: many}}
    filled = tune.filled(cells)
    assert [list(filled[rows]) for rows in filled] == [[10, 4000]] * 3
    assert filled[1][10] == filled[1000][4000] == many
    assert filled[1][4000] == few


END = {"one_read": Loss(0, "")}  # the widest rows, which a kernel for anything does best


def slow_before(cell: dict[str, Loss]) -> dict[str, Loss]:
    return {kernel: loss._replace(part=0.09) for kernel, loss in cell.items()} | END


REST = [Line(ANY, ANY, "one_read")]


def test_a_kernel_that_needs_something_has_stand_ins() -> None:
    needs = {"all": "wca", "clusters": "c", "workspace": "w"}
    cell = losses(needs, all=0, clusters=0.02, workspace=0.03, plain=0.05, slow=0.09)
    lines = lines_of({1: {100: cell, 400: slow_before(cell)}})
    assert lines == [*(Line(ANY, 200, kernel) for kernel in ("all", "clusters", "workspace", "plain")), *REST]
    for able, kernel in (("clusters slow plain", "clusters"), ("workspace plain slow", "workspace"), ("slow plain", "plain")):
        assert choices.chosen(lines, 1, 100, able.split()) == kernel
    plain = losses(plain=0, all=0.01)
    assert lines_of({1: {100: plain, 400: slow_before(plain)}}) == [Line(ANY, 200, "plain"), *REST]


def test_the_segment_of_a_kernel_that_cannot_do_the_next_columns_reaches_up_to_them() -> None:
    here = losses({"held": "w"}, held=0, slow=0.08)
    assert lines_of({1: {100: here, 400: END}}) == [Line(ANY, 399, "held"), Line(ANY, 100, "slow"), *REST]
    assert lines_of({1: {100: here, 400: slow_before(here)}}) == [Line(ANY, 200, "held"), Line(ANY, 200, "slow"), *REST]


def test_wide_rows_of_parts_that_are_measured_when_narrow_are_like_others() -> None:
    def at(cols: int, offset: int, **microseconds: float) -> Timed:
        return Timed(Matrix("log_softmax", "f32", 8, cols, offset), "", microseconds, dict.fromkeys(microseconds, ""))

    cells = tune.cells_of([at(1000, 1, a=1.0, b=2.0), at(1001, 0, a=2.0, b=1.0), at(9001, 0, a=4.0, b=1.0), at(8, 0)])
    assert {cols: found["a"].part for cols, found in cells["Forward", DISPLACED][8].items()} == {1000: 0, 9001: 0.75}
    assert [*cells["Forward", OTHERS][8]] == [1001, 9001]
    assert not cells["Forward", PACKS]


def test_rows_that_are_wider_than_the_grid_get_the_fastest_kernel_that_can_do_them() -> None:
    needs = {"held": "c", "two_kernels": "w"}
    cell = losses(needs, held=0, quick=0.02, two_kernels=0.04, unaligned=0.06, slow=0.09)
    lines = tune.lines_of("Backward", {1: {100: cell, 400: cell}})
    assert lines == [Line(ANY, ANY, kernel) for kernel in ("held", "quick", "two_kernels", "unaligned")]


MACHINE = "gpu NVIDIA H200; 132 multiprocessors; the table of NVIDIA H200 in /home/me/h200.table"


def program(build: Path, code: int = 0) -> Path:
    """Answers for each matrix that "fused" takes 2 µs and "online" takes 1 µs."""
    build.mkdir(exist_ok=True)
    answer = f'#!/bin/sh\necho "{MACHINE}"\nwhile read -r line; do echo "$line: fused; online 1, fused 2 w"; done\nexit {code}\n'
    (build / tune.PROGRAM).write_text(answer, encoding="utf-8")
    (build / tune.PROGRAM).chmod(0o755)
    return build


def test_it_writes_a_table_and_the_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--build", str(program(tmp_path / "build")), "--commit", "0123456789ab-dirty"]
    tune.main(where)
    path = tmp_path / "build/nvidia-h200.table"
    assert f"export ROWWISE_TABLE={path}" in capsys.readouterr().err
    table = choices.read_table(path)
    assert table[:2] == ("NVIDIA H200", 132)
    for (kind, _), lines in table.lines.items():
        assert [line.kernel for line in lines] == ["online", *(["fused"] if kind != "Forward" else []), *tune.LAST[kind]]
    text = path.read_text(encoding="utf-8")
    assert "commit 0123456789ab and changes." in text
    times = (tmp_path / "build/nvidia-h200.times").read_text(encoding="utf-8").splitlines()
    assert times[1].endswith("commit 0123456789ab and changes.")
    assert times[2] == MACHINE
    assert len(times) == 3 + sum(1 for operation in KINDS for _ in tune.grid(operation))
    out = tmp_path / "again.table"
    tune.main([*where, "--from", str(tmp_path / "build/nvidia-h200.times"), "--out", str(out)])
    assert out.read_text(encoding="utf-8") == text


def test_it_judges_the_librarys_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tune.main(["--build", str(program(tmp_path / "build")), "--judge", "3", "--seed", "5,6", "--commit", "0123456789ab"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["operation", "matrices", "mean", "97", "%", "or", "more", "worst"]
    assert [line.split()[:5] for line in lines[1:]] == [[operation, "6", "50.0", "0.0", "%"] for operation in KINDS]
    recorded = json.loads((tmp_path / "build/nvidia-h200.judged.json").read_text(encoding="utf-8"))
    assert recorded["recorded"]["command"] == "./run tune --judge 3 --seed 5,6"
    assert recorded["machine"]["table"] == "the table of NVIDIA H200 in h200.table"
    assert len(recorded["results"]["rows"]) == 24
    assert recorded["results"]["all"] == {"chosen": "fused", "fastest": "online", "percent": 50.0}


def test_what_goes_wrong_is_said(tmp_path: Path) -> None:
    for code, error, says in ((3, NoDevice, "no usable NVIDIA GPU"), (4, ToolError, "rowwise_tune ended with exit code 4")):
        with pytest.raises(error, match=says):
            tune.main(["--build", str(program(tmp_path / "build", code)), "--judge", "1", "--commit", "0123456"])
        assert [path.name for path in (tmp_path / "build").iterdir()] == [tune.PROGRAM]
    with pytest.raises(ToolError, match="not built: .*/rowwise_tune"):
        tune.main(["--build", str(tmp_path / "empty")])
    with pytest.raises(ToolError, match="--seed: '0' is not accepted"):
        tune.main(["--seed", "1,0"])
    times = tmp_path / "a.times"
    with pytest.raises(ToolError, match="--from: not together with --judge"):
        tune.main(["--judge", "1", "--from", str(times)])
    for text, says in (("", "'' is not the first line of"), (f"# of a test\n{MACHINE}\nsoftmax f32 1 x 0: a; a 1\n", "'softmax f32 1 x 0: a; a 1' is not")):
        times.write_text(text, encoding="utf-8")
        with pytest.raises(ToolError, match=says):
            tune.main(["--from", str(times), "--out", str(tmp_path / "a.table")])
    assert not (tmp_path / "a.table").exists()
