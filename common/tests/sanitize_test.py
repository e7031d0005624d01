"""Tests of `sanitize`: the stages and compute-sanitizer are fakes."""

import re
from pathlib import Path

import pytest
from fake_stages import Repository, script

# compute-sanitizer runs the program, then writes its findings. `mode` may hit one tool only.
SANITIZER = r"""#!/bin/bash
while [[ $1 == --* ]]; do declare "${1//-/}=$2"; shift 2; done
[[ "{tool}" == "$tool" ]] && mode="{mode}"
if [[ $mode == "never ran" ]]; then echo '{"results": []}'; else "$@" || exit; fi
errors=0
[[ $mode == "finding"* ]] && errors=10
summary="ERROR SUMMARY: $errors errors"
[[ $tool == racecheck ]] && summary="RACECHECK SUMMARY: $errors hazards displayed (0 warnings)"
[[ $mode == "no summary" ]] && summary=
printf "========= %s\n" "COMPUTE-SANITIZER" "$summary" >"$logfile"
[[ $mode == "finding" ]] && exit "$errorexitcode"
[[ $mode == "not supported" ]] && { echo "Device not supported" >"$logfile"; exit 1; }
exit 0
"""


class Sanitized(Repository):
    def sanitize(self, code: int, stage: str = "", tool: str = "", mode: str = "") -> str:
        """The output; the tool is in this mode."""
        script(self.build / "compute-sanitizer", SANITIZER.replace("{tool}", tool).replace("{mode}", mode))
        return self.tool(f"sanitize {stage} --sanitizer {self.build / 'compute-sanitizer'}", code)


@pytest.fixture
def stages(tmp_path: Path) -> Sanitized:
    return Sanitized(tmp_path)


def test_clean(stages: Sanitized) -> None:
    printed = stages.sanitize(0)
    assert len(re.findall(r"^ok    ", printed, re.M)) == 12 and printed.endswith("\n12 runs clean\n"), printed
    assert (stages.build / "sanitizer/03_fast-racecheck.log").is_file()


@pytest.mark.parametrize("tool", ["memcheck", "initcheck", "synccheck", "racecheck"])
@pytest.mark.parametrize(
    "mode, said",
    [
        ("finding", "exit code 97"),
        ("finding, exit 0", "SUMMARY: 10 "),  # the summary alone must be enough
        ("no summary", "the tool printed no summary"),
        ("never ran", "these shapes never ran: narrow wide"),
    ],
)
def test_every_tool_s_findings_count(stages: Sanitized, tool: str, mode: str, said: str) -> None:
    printed = stages.sanitize(1, "02_tiled", tool, mode)
    assert len(re.findall(r"^ok    ", printed, re.M)) == 3 and "1 of 4 runs not clean" in printed, printed
    assert re.search(rf"(?m)^FAIL  {tool} +02_tiled .*{re.escape(said)}", printed), printed


def test_shapes_that_skip_a_variant_are_a_failure(stages: Sanitized) -> None:
    tiled = stages.build / "02_tiled"
    tiled.write_text(tiled.read_text().replace("2048", "31"))  # narrower than all that racecheck runs
    printed = stages.sanitize(1)
    assert "1 of 12 runs not clean" in printed
    assert re.search(r"(?m)^FAIL  racecheck +02_tiled .*these shapes never ran: narrow$", printed), printed


def test_without_gpu_or_sanitizer(stages: Sanitized) -> None:
    stages.sanitize(3, "", "memcheck", "not supported")
    stages.mode("02_tiled", "exit 3")
    stages.sanitize(3)
    said = "common/tools sanitize: 'none' is not here: install it, or say where it is with --sanitizer\n"
    assert stages.tool("sanitize --sanitizer none", 3) == said


@pytest.mark.parametrize("mode", ["wrong", "failed silently", "exit 4", "garbage", "nothing applies"])
def test_a_stage_that_fails_by_itself(stages: Sanitized, mode: str) -> None:
    stages.mode("01_naive", mode)
    assert stages.sanitize(1).startswith("common/tools sanitize: 01_naive without a tool: ")
