"""Stage 14 on simulated GPUs: that it asks for what its lesson derives, and what it says where it cannot run."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Callable

import pytest

ROOT = Path(__file__).resolve().parents[2]
STAGE = Path(os.environ.get("BUILD", ROOT / "build")) / "14_several_gpus"
ROWS, COLS, SIZE = 16, 8192, 4
VARIANTS = ["two_all_reduces", "host_collectives", "chunked", "device_exchange"]


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


@pytest.mark.parametrize("variant", ["host_collectives", "chunked"])
@pytest.mark.parametrize("gpus", [1, 2, 4])
def test_gathered_pairs(gpus: int, variant: str) -> None:
    """A piece of 2048 columns says a pair, and each piece of a row reads the pairs of all."""
    pieces = COLS // gpus // 2048
    beside = ROWS * gpus * (pieces * 8 + pieces * gpus * pieces * 8)
    assert counted(gpus, variant)["bytes"] == pytest.approx(3 * ROWS * COLS * SIZE + beside, abs=64)


@pytest.mark.parametrize("gpus", [2, 4])
@pytest.mark.parametrize("op, words", [("softmax", 2), ("cross_entropy", 3)])
def test_device_exchange(gpus: int, op: str, words: int) -> None:
    """What is written for a row on each GPU: its part, in requests of 32 packs; the words of a message, to all GPUs at once; a
    ticket that is drawn; or the loss. And the number of the launch. Loads are not compared: those that wait have no number."""
    found = counted(gpus, "device_exchange", op)
    of_part = COLS // gpus // 4 // 32 if op == "softmax" else 1
    assert found["global_store_requests"] == gpus * (ROWS * (of_part + words + 1) + 1)
    assert found["atomics"] == gpus * ROWS
    # Of two blocks in a cluster. Two in its exchange; of what is written one more, once the others have answered.
    barriers = 3 if op == "softmax" else 2
    assert found["block_barriers"] == gpus * ROWS * 2 * barriers


@pytest.mark.parametrize("gpus", [2, 4])
@pytest.mark.parametrize(
    "variant, exchanges, from_each",
    [
        # A ring: each number once to add to, and once added up, but for the share that starts with a GPU.
        ("two_all_reduces", ["ncclAllReduce"] * 2, lambda gpus: 2 * 4 / gpus),
        # A pair for each piece of 2048 columns.
        ("host_collectives", ["ncclAllGather"], lambda gpus: 8 * COLS // gpus // 2048),
        ("chunked", ["ncclAllGather"], lambda gpus: 8 * COLS // gpus // 2048),
        ("device_exchange", [], lambda gpus: 2 * 8),  # words of 4 bytes with the number of the launch
    ],
)
def test_what_crosses_the_link(gpus: int, variant: str, exchanges: list[str], from_each: Callable[[int], float]) -> None:
    """What each GPU gets, in how many exchanges. The kernel itself sends to all others."""
    told = run(gpus, "--variant", variant, "--verify-only", SIM_REPORT="1").stderr
    found = re.findall(rf"^counted: (nccl\w+) of {gpus} ranks: each gets (\d+) bytes from others$", told, re.M)
    assert [name for name, _ in found] == exchanges
    sent = re.findall(r"^ +(\d+) bytes of other devices' memory$", told, re.M)
    assert len(sent) == (0 if exchanges else gpus)
    assert {int(count) for _, count in found} | {int(count) for count in sent} == {ROWS * (gpus - 1) * from_each(gpus)}


def test_gpus_that_are_no_peers() -> None:
    done = run(2, "--verify-only", SIM_PEERS="0")
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert all(("1 verified" in line) == (name != "device_exchange") for name, line in lines.items())
    told = run(2, "--variant", "device_exchange", "--format", "csv", SIM_PEERS="0").stdout
    assert "needs GPUs that reach each other's memory (peer access)" in told


def test_one_gpu() -> None:
    done = run(1, "--verify-only")
    assert done.returncode == 0
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert list(lines) == sorted(VARIANTS)
    assert all(("1 verified" in line) == (name != "device_exchange") for name, line in lines.items())
    assert "needs another GPU" in run(1, "--variant", "device_exchange").stdout


def tool(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "common/tools"), "several_gpus", "--build", str(STAGE.parent), *options]
    return subprocess.run(command, capture_output=True, text=True)


def test_what_would_be_recorded() -> None:
    """The tool that records, on the simulator."""
    if not os.access(STAGE, os.X_OK):
        pytest.skip(f"{STAGE.name} is not built: it needs NCCL")
    done = tool("--simulated", "--gpus", "4,2")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(" GPUs: ")[0] for line in lines] == ["2"] * 20 + ["4"] * 20  # two dtypes, two more operations
    assert all(line.endswith(("verified", "not applicable")) for line in lines)
    assert sum("device_exchange: verified" in line for line in lines) in (8, 0)  # not before compute capability 9.0
    refused = tool("--simulated", "--gpus", "2,none")
    assert (refused.returncode, "accepted: whole numbers from 1 to 64" in refused.stderr) == (2, True)
    assert tool("--gpus", "64").returncode == 3
