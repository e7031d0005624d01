"""./run sweep on an operation that no stage has yet: the tools know of it by what the stage's library says alone.

BUILD=build python3 common/tests/run_pytest.py common/tests/sweep_operation_test.py     (exits 3 without a GPU)
"""

import json
import os
from pathlib import Path

import pytest

from command import NoDevice
from measure import sweep

OPERATION = "cross_entropy"
WRONG = {"loss_of_the_row_before", "no_gradient_at_the_label", "never_writes_the_loss", "changes_a_label",
         "writes_past_the_end"}  # fmt: skip


def test_an_operation_that_no_stage_has_yet(tmp_path: Path) -> None:
    build, stage, out = Path(os.environ["BUILD"]).resolve(), tmp_path / f"99_{OPERATION}", tmp_path / "out.json"
    stage.mkdir()
    (stage / "main.cu").touch()
    (tmp_path / f"libstage_{stage.name}.so").symlink_to(build / f"libstage_{OPERATION}.so")
    (tmp_path / "libsoftmax_harness.so").symlink_to(build / "libsoftmax_harness.so")
    options = f"--op {OPERATION} --shapes f32:3000x1000,bf16:2000x777 --contenders stages --repeats 5 --commit 0000000"
    folders = ["--root", str(tmp_path), "--build", str(tmp_path), "--out", str(out)]
    try:
        assert sweep.main([*options.split(), *folders]) == 1  # the wrong ones are told
    except NoDevice as error:
        pytest.skip(str(error))
    rows = {(row["variant"], row["dtype"]): row for row in json.loads(out.read_text(encoding="utf-8"))["results"]}
    for dtype in ("f32", "bf16"):
        assert {name for name, of in rows if of == dtype and rows[name, of]["status"] == "wrong"} == WRONG
        right, copy = rows["naive", dtype], rows["copy", dtype]
        assert right["status"] == "verified" and 3 < right["passes"] < 3.1 and 1 < right["percent_of_copy"] < 100, right
        assert 2 < copy["passes"] < 2.01 and 90 < copy["percent_of_copy"] < 110, copy
        moved_gb = copy["rows"] * (2 * copy["cols"] * (4 if dtype == "f32" else 2) + 8 + 4) / 1e9
        assert copy["bandwidth_gb_s"] / (moved_gb / (copy["time_us"] * 1e-6)) == pytest.approx(1, abs=0.01)
