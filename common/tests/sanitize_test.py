"""Tests of `sanitize`: the stages and compute-sanitizer are fakes."""

from __future__ import annotations

import re
from typing import Tuple

import pytest
from fake_stages import Repository, quietly, script

# compute-sanitizer runs the program, then writes its findings. `mode` may hit one tool only.
SANITIZER = r"""#!/bin/bash
while (($#)); do
  case $1 in
    --tool) tool=$2; shift 2 ;;
    --error-exitcode) code=$2; shift 2 ;;
    --log-file) log=$2; shift 2 ;;
    *) break ;;
  esac
done
[[ "{tool}" == "$tool" ]] && mode="{mode}"
if [[ $mode == "never ran" ]]; then echo '{"results": []}'; else "$@" || exit; fi
errors=0
[[ $mode == "finding"* ]] && errors=10
{
  echo "========= COMPUTE-SANITIZER"
  if [[ $mode == "no summary" ]]; then :
  elif [[ $tool == racecheck ]]; then echo "========= RACECHECK SUMMARY: $errors hazards displayed (0 warnings)"
  else echo "========= ERROR SUMMARY: $errors errors"
  fi
} >"$log"
[[ $mode == "finding" ]] && exit "$code"
[[ $mode == "not supported" ]] && { echo "Device not supported" >"$log"; exit 1; }
exit 0
"""


def sanitize(stages: Repository, tool: str = "", mode: str = "", *more: str) -> Tuple[int, str]:
    fake = stages.build / "compute-sanitizer"
    script(fake, SANITIZER.replace("{tool}", tool).replace("{mode}", mode))
    return quietly("sanitize", "--root", str(stages.root), "--sanitizer", str(fake), *more)


def change(stages: Repository, stage: str, old: str, new: str) -> None:
    path = stages.build / stage
    path.write_text(path.read_text().replace(old, new))


@pytest.fixture
def stages(repository: Repository) -> Repository:
    for stage in repository.stages:  # the sanitizer's shapes say `all` where the fake wants a name
        change(repository, stage, 'value("--dtype")', '"f32"')
    return repository


def test_clean(stages: Repository) -> None:
    code, printed = sanitize(stages)
    assert (code, len(re.findall(r"^ok    ", printed, re.M))) == (0, 12), printed
    assert printed.endswith("\n12 runs clean\n")
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
def test_every_tool_s_findings_count(stages: Repository, tool: str, mode: str, said: str) -> None:
    code, printed = sanitize(stages, tool, mode, "02_tiled")
    assert (code, len(re.findall(r"^ok    ", printed, re.M))) == (1, 3), printed
    assert re.search(rf"(?m)^FAIL  {tool} +02_tiled .*{re.escape(said)}", printed), printed
    assert "1 of 4 runs not clean" in printed


def test_shapes_that_skip_a_variant_are_a_failure(stages: Repository) -> None:
    change(stages, "02_tiled", "2048", "31")  # narrower than all that racecheck runs
    code, printed = sanitize(stages)
    assert code == 1 and "1 of 12 runs not clean" in printed
    assert re.search(r"(?m)^FAIL  racecheck +02_tiled .*these shapes never ran: narrow$", printed), printed


def test_without_gpu_or_sanitizer(stages: Repository) -> None:
    assert sanitize(stages, "memcheck", "not supported")[0] == 3
    stages.mode("02_tiled", "exit 3")
    assert sanitize(stages)[0] == 3
    said = "common/tools sanitize: 'none' is not here: install it, or say where it is with --sanitizer\n"
    assert quietly("sanitize", "--root", str(stages.root), "--sanitizer", "none") == (3, said)


@pytest.mark.parametrize("mode", ["wrong", "failed silently", "exit 4", "garbage", "nothing applies"])
def test_a_stage_that_fails_by_itself(stages: Repository, mode: str) -> None:
    stages.mode("01_naive", mode)
    code, printed = sanitize(stages)
    assert code == 1 and printed.startswith("common/tools sanitize: 01_naive without a tool: "), printed
