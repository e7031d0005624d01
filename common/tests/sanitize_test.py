"""Tests of sanitize.sh: the stages and compute-sanitizer are fakes."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from fake_stages import TOOLS, Repository, script

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


def run(*arguments: object, sanitizer: object = "no-such-tool") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COMPUTE_SANITIZER": str(sanitizer)}
    command = ["bash", str(TOOLS / "sanitize.sh"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def sanitize(repository: Repository, tool: str = "", mode: str = "", *stages: str) -> tuple[int, str]:
    fake = repository.build / "compute-sanitizer"
    script(fake, SANITIZER.replace("{tool}", tool).replace("{mode}", mode))
    # Without the stages it would look for those of the repository that the script lies in.
    given = stages or tuple(repository.stages)
    done = run("--logs", repository.root / "logs", repository.build, *given, sanitizer=fake)
    return done.returncode, done.stdout + done.stderr


def change(repository: Repository, stage: str, old: str, new: str) -> None:
    path = repository.build / stage
    path.write_text(path.read_text().replace(old, new))


@pytest.fixture
def stages(repository: Repository) -> Repository:
    for stage in repository.stages:  # the sanitizer's shapes say `all` where the fake wants a name
        change(repository, stage, 'value("--dtype")', '"f32"')
    return repository


def test_clean(stages: Repository) -> None:
    code, printed = sanitize(stages)
    assert (code, len(re.findall(r"^ok    ", printed, re.M))) == (0, 12), printed
    assert re.search(r"12 runs clean, \d+ s\n$", printed)
    assert (stages.root / "logs/03_fast-racecheck.log").is_file()


@pytest.mark.parametrize("tool", ["memcheck", "initcheck", "synccheck", "racecheck"])
@pytest.mark.parametrize(
    "mode, said",
    [
        ("finding", "exit code 97"),
        ("finding, exit 0", "SUMMARY: 10 "),  # the summary alone must be enough
        ("no summary", "the tool printed no summary"),
        ("never ran", "these shapes never ran: "),
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
    assert code == 1, printed
    assert re.search(r"(?m)^FAIL  racecheck +02_tiled .*these shapes never ran: narrow$", printed), printed
    assert "1 of 12 runs not clean" in printed


def test_without_gpu_or_sanitizer(stages: Repository) -> None:
    assert sanitize(stages, "memcheck", "not supported")[0] == 3
    stages.mode("02_tiled", "exit 3")
    assert sanitize(stages)[0] == 3
    done = run(stages.build, "01_naive")
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)


@pytest.mark.parametrize("mode", ["wrong", "failed silently", "exit 4", "garbage", "nothing applies"])
def test_a_stage_that_fails_by_itself(stages: Repository, mode: str) -> None:
    stages.mode("01_naive", mode)
    code, printed = sanitize(stages)
    assert (code, "FAIL  01_naive without a tool" in printed) == (1, True), printed


def test_usage(stages: Repository) -> None:
    assert sanitize(stages, "", "", "08_none")[0] == 2
    done = run()
    assert (done.returncode, "sanitize.sh [-j JOBS]" in done.stderr) == (2, True)
