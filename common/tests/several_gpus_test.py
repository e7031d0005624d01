"""Stage 15 on simulated GPUs: it makes the requests that its lesson derives, and says why if it cannot run."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Callable

import pytest
from measure import results

ROOT = Path(__file__).resolve().parents[2]
STAGE = Path(os.environ.get("BUILD", ROOT / "build")) / "15_several_gpus"
ROWS, COLS, SIZE = 16, 8192, 4
VARIANTS = ["two_all_reduces", "host_collectives", "device_exchange"]


def run(gpus: int, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    if not os.access(STAGE, os.X_OK):
        pytest.skip(f"{STAGE.name} is not built: it needs NCCL")
    command = [str(STAGE), "--device", "sim", "--rows", str(ROWS), "--cols", str(COLS), *options]
    return subprocess.run(command, env={**os.environ, "SIM_DEVICES": str(gpus), **environment}, capture_output=True, text=True)


def counted(gpus: int, variant: str, op: str = "softmax") -> dict[str, float]:
    done = run(gpus, "--variant", variant, "--op", op, "--format", "csv")
    assert done.returncode == 0, done.stderr
    row = next(csv.DictReader(done.stdout.splitlines()))
    if "needs clusters" in row["reason"]:
        pytest.skip(row["reason"])
    assert row["status"] == "verified"
    numbers = {name.removeprefix("counted_"): float(value) for name, value in row.items() if name.startswith("counted_")}
    return {**numbers, "bytes": numbers["passes"] * ROWS * COLS * SIZE}


@pytest.mark.parametrize("gpus", [1, 2, 4])
def test_two_all_reduces(gpus: int) -> None:
    """The sum reads a maximum in each warp, the last kernel the maximum and the sum; a number of each is written."""
    warps = min(COLS // gpus // 4 // 4, 1024) // 32
    beside = ROWS * gpus * (warps * (4 + 8) + 4 + 4)
    assert counted(gpus, "two_all_reduces")["bytes"] == pytest.approx(4 * ROWS * COLS * SIZE + beside, abs=64)


@pytest.mark.parametrize("gpus", [1, 2, 4])
def test_host_collectives(gpus: int) -> None:
    """A piece of 2048 columns says a pair, and each piece of a row reads the pairs of all."""
    pieces = COLS // gpus // 2048
    beside = ROWS * gpus * (pieces * 8 + pieces * gpus * pieces * 8)
    assert counted(gpus, "host_collectives")["bytes"] == pytest.approx(3 * ROWS * COLS * SIZE + beside, abs=64)


@pytest.mark.parametrize("gpus", [2, 4])
@pytest.mark.parametrize("op", ["softmax", "cross_entropy"])
def test_device_exchange(gpus: int, op: str) -> None:
    """The stores for a row on each GPU: its part, in requests of 32 packs; a letter, to all other GPUs at once; a
    ticket that is drawn; or the loss. And the number of the launch. Loads are not compared: those that wait have no number."""
    found = counted(gpus, "device_exchange", op)
    of_part = COLS // gpus // 4 // 32 if op == "softmax" else 1
    assert found["global_store_requests"] == gpus * (ROWS * (of_part + 1 + 1) + 1)
    assert found["atomics"] == gpus * ROWS
    # Two blocks in a cluster: a barrier to merge over the warps; one more before y is written, once the others have answered.
    barriers = 2 if op == "softmax" else 1
    assert found["block_barriers"] == gpus * ROWS * 2 * barriers


@pytest.mark.parametrize("gpus", [2, 4])
@pytest.mark.parametrize(
    "variant, exchanges, from_each",
    [
        # A ring: each number once to add to, and once added up, except for the share that starts with a GPU.
        ("two_all_reduces", ["ncclAllReduce"] * 2, lambda gpus: 2 * 4 / gpus),
        # A pair for each piece of 2048 columns.
        ("host_collectives", ["ncclAllGather"], lambda gpus: 8 * COLS // gpus // 2048),
        ("device_exchange", [], lambda gpus: 16),  # a letter
    ],
)
def test_what_crosses_the_link(gpus: int, variant: str, exchanges: list[str], from_each: Callable[[int], float]) -> None:
    """The bytes that each GPU gets, and its exchanges. The kernel itself sends to all others."""
    told = run(gpus, "--variant", variant, "--verify-only", SIM_REPORT="1").stderr
    found = re.findall(rf"^counted: (nccl\w+) of {gpus} ranks: each gets (\d+) bytes from others$", told, re.M)
    assert [name for name, _ in found] == exchanges
    sent = re.findall(r"\b(\d+) peer bytes\b", told, re.M)
    assert len(sent) == (0 if exchanges else gpus)
    assert {int(count) for _, count in found} | {int(count) for count in sent} == {ROWS * (gpus - 1) * from_each(gpus)}


@pytest.mark.parametrize(
    "gpus, peers, why",
    [(2, "0", "needs GPUs that reach each other's memory (peer access)"), (1, "1", "needs another GPU")],
)
def test_without_a_gpu_to_reach(gpus: int, peers: str, why: str) -> None:
    done = run(gpus, "--verify-only", SIM_PEERS=peers)
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert list(lines) == sorted(VARIANTS)
    assert all(("1 verified" in line) == (name != "device_exchange") for name, line in lines.items())
    assert why in run(gpus, "--variant", "device_exchange", "--format", "csv", SIM_PEERS=peers).stdout


def tool(*options: str, build: Path = STAGE.parent, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "common/tools"), "several_gpus", "--build", str(build), *options]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)


def test_what_would_be_recorded() -> None:
    """The tool that records, on the simulator."""
    if not os.access(STAGE, os.X_OK):
        pytest.skip(f"{STAGE.name} is not built: it needs NCCL")
    done = tool("--simulated", "--gpus", "4,2")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(" GPUs: ")[0] for line in lines] == ["2"] * 16 + ["4"] * 16  # two dtypes, two more operations
    assert all(line.endswith(("verified", "not applicable")) for line in lines)
    assert sum("device_exchange: verified" in line for line in lines) in (8, 0)  # not before compute capability 9.0
    refused = tool("--simulated", "--gpus", "2,none")
    assert (refused.returncode, "accepted: whole numbers from 1 to 64" in refused.stderr) == (2, True)
    assert tool("--gpus", "64").returncode == 3


# A stage that takes a microsecond for each GPU that it sees, and PyTorch, which takes a second.
FAKE_STAGE = f"""#!{sys.executable}
import json, os, sys
of = dict(zip(sys.argv[1::2], sys.argv[2::2]))
gpus = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
one = {{"stage": "15_several_gpus", "variant": "host_collectives", "dtype": of["--dtype"], "op": of["--op"], "rows": int(of["--rows"]),
       "cols": int(of["--cols"]), "status": os.environ["STATUS"], "reason": "", "time_us": len(gpus), "percent_of_copy": 1}}
print(json.dumps({{"machine": {{"gpu": "NVIDIA Fake 1"}}, "results": [one]}}))
"""
FAKE_PYTHON = """#!/bin/sh
echo '[{"stage": "peers", "variant": "torch_eager", "dtype": "f32", "op": "softmax", "rows": 1, "cols": 2, "status": "verified", "time_us": 1e6}]'
"""


def test_what_is_recorded(tmp_path: Path) -> None:
    for name, text in (("15_several_gpus", FAKE_STAGE), ("python", FAKE_PYTHON)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    out = tmp_path / "several.json"
    options = ("--gpus", "4,2", "--commit", "0123456789", "--out", str(out), "--python", str(tmp_path / "python"))
    seen = {"build": tmp_path, "CUDA_VISIBLE_DEVICES": "7,6,5,4,3"}
    failed = tool(*options, STATUS="wrong", **seen)  # type: ignore[arg-type]
    assert (failed.returncode, "2 GPUs: host_collectives bf16:4096x151936: wrong" in failed.stderr, out.exists()) == (1, True, False)
    done = tool(*options, STATUS="verified", **seen)  # type: ignore[arg-type]
    assert done.returncode == 0, done.stderr
    found = results.load(out, results.SEVERAL)["results"]
    times = {(one["gpus"], one["variant"]): one["time_us"] for one in found}
    assert times == {(gpus, name): time for gpus in (2, 4) for name, time in (("host_collectives", gpus), ("torch_eager", 1e6))}
    assert len(found) == 2 * (6 + 1)  # the lesson's shapes
    assert tool("--gpus", "6", **seen).returncode == 3  # type: ignore[arg-type]
