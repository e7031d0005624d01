"""The shapes of `sanitize` reach every variant of every stage: on the simulator, which can do everything that an H200 can.

BUILD in the environment is where the stages are built: build.
"""

import os
import subprocess
from pathlib import Path

import pytest
from fake_stages import TOOLS  # the tools can be imported then
from measure import results
from sanitize import TOOLS as SANITIZERS
from sanitize import options_of, verified

BUILD = Path(os.environ.get("BUILD", TOOLS.parents[1] / "build")).resolve()


@pytest.mark.parametrize("shapes", dict.fromkeys(shapes for shapes, _ in SANITIZERS.values()))
@pytest.mark.parametrize("stage", results.measured_names(TOOLS.parents[1]))
def test_shapes_reach_every_variant(stage: str, shapes: str) -> None:
    listed = subprocess.run([str(BUILD / stage), "--list"], check=True, capture_output=True, text=True).stdout
    report, problems = results.run_stage(BUILD / stage, options_of(stage, shapes), 300, "sim")
    assert not problems
    assert verified(report) == {line.split()[0] for line in listed.splitlines()}
