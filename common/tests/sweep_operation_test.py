#!/usr/bin/env python3
"""./run sweep on an operation that no stage has yet: the tools know of it by its name alone.

    python3 common/tests/sweep_operation_test.py BUILD     (exits 3 without a GPU)
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from measure import sweep, sweep_options  # noqa: E402
from measure.results import NoDevice  # noqa: E402

OPERATION = "softmax_backward"
WRONG = {"one_percent_off", "changes_dy", "writes_past_the_end"}


def main() -> int:
    build = Path(sys.argv[1]).resolve()
    sweep_options.OPERATIONS.append(OPERATION)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / f"99_{OPERATION}").mkdir()
        (root / f"99_{OPERATION}/main.cu").touch()
        (root / f"libstage_99_{OPERATION}.so").symlink_to(build / f"libstage_{OPERATION}.so")
        (root / "libsoftmax_harness.so").symlink_to(build / "libsoftmax_harness.so")
        options = ["--op", OPERATION, "--shapes", "f32:3000x1000,bf16:2000x777", "--contenders", "stages", "--repeats", "5"]
        out = root / "out.json"
        try:
            code = sweep.main([*options, "--root", folder, "--build", folder, "--commit", "0" * 7, "--out", str(out)])
        except NoDevice as error:
            print(error)
            return 3
        rows = {(row["variant"], row["dtype"]): row for row in json.loads(out.read_text(encoding="utf-8"))["results"]}
    assert code == 1, code  # the wrong ones are told
    for dtype in ("f32", "bf16"):
        assert {name for name, of in rows if of == dtype and rows[name, of]["status"] == "wrong"} == WRONG, rows
        right, copy = rows["naive", dtype], rows["copy", dtype]
        assert right["status"] == "verified" and right["passes"] == 5 and 1 < right["percent_of_copy"] < 100, right
        assert copy["passes"] == 3 and 90 < copy["percent_of_copy"] < 110, copy
        moved_gb = 3 * copy["rows"] * copy["cols"] * (4 if dtype == "f32" else 2) / 1e9
        assert abs(copy["bandwidth_gb_s"] / (moved_gb / (copy["time_us"] * 1e-6)) - 1) < 0.01, copy
    return 0


if __name__ == "__main__":
    sys.exit(main())
