"""The shapes of `sanitize` reach every variant of every stage: on the simulator, which can do what an H200 can.

BUILD in the environment is where the stages are built: build.
"""

import os
import subprocess
from pathlib import Path

import pytest
from fake_stages import TOOLS  # the tools can be imported then
from measure import results
from sanitize import RACES, verified

BUILD = Path(os.environ.get("BUILD", TOOLS.parents[1] / "build")).resolve()


@pytest.mark.parametrize("stage", results.stage_names(TOOLS.parents[1]))
def test_racecheck_s_shapes_reach_every_variant(stage: str) -> None:
    listed = subprocess.run([str(BUILD / stage), "--list"], check=True, capture_output=True, text=True).stdout
    options = ["--verify-only", *RACES.split(), "--op", ",".join(results.operations_of(stage))]
    report, problems = results.run_stage(BUILD / stage, options, 300, "sim")
    assert not problems
    assert verified(report) == {line.split()[0] for line in listed.splitlines()}
