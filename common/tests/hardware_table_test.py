"""Tests of the table that compares the simulator with Nsight Compute: the stages and ncu are fakes."""

import json
import re
from pathlib import Path
from typing import Any, Callable

import pytest
from fake_stages import VARIANTS, Repository, fake_ncu
from measure import explanations, hardware_table, ncu, results
from measure.explanations import Explanation

# The fake ncu counts twice the wavefronts that the simulator does, so these differ.
DIFFERING = [f"shared {access} {what}" for what in ("wavefronts (hardware)", "conflicts") for access in ("load", "store")]


class Table(Repository):
    """The fake stages at widths of which each variant can do two."""

    recorder = "hardware_table"

    def explain(self, *counters: str, where: str = r"{stage} \w+ \S+ ") -> None:
        """These differences have a reason, in every stage."""
        places = [where.format(stage=stage) for stage in VARIANTS]
        explanations.EXPLANATIONS[:] = [
            Explanation(name, "(hard" in name, tuple(place + re.escape(name) for place in places), "A reason.")
            for name in counters
        ]

    def ncu_counts(self, counter: str, number: Callable[[int], Any]) -> None:
        self.change(lambda data: [e["ncu"].update({counter: number(e["ncu"][counter])}) for e in data["entries"]])

    def check(self, *said: str, code: int = 1) -> str:
        """--check fails and says these; returns all that it says."""
        printed = self.tool("hardware_table --check", code)
        assert all(text in printed for text in said), printed
        return printed


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    made = Table(tmp_path.resolve())
    made.file = made.results / "nvidia-fake-1-simulator.json"
    monkeypatch.setattr(explanations, "EXPLANATIONS", [])
    monkeypatch.setattr(hardware_table, "COLS_OF_STAGE", {"02_tiled": (96, 1000, 8192), "03_fast": (96, 1000)})
    fake_ncu(made.build / "ncu")
    return made


def test_what_both_said_is_recorded(table: Table) -> None:
    table.recorded()
    data = table.data()
    entry = data["entries"][0]
    assert (entry["variant"], entry["dtype"], entry["cols"]) == ("thread_per_row", "f32", 1000)
    for counter in ("global load sectors", "shuffles", "block barriers", "exponential lanes", "atomics"):
        assert (entry["ncu"][counter], entry["simulator"][counter]) == (1000, 1000), counter
    assert entry["ncu"]["shared load wavefronts (hardware)"] == 2000
    assert entry["ncu"]["shared load conflicts"] == 0  # 1000 - (2000 - 1000)
    assert (data["recorded"]["ncu"], len(data["entries"])) == ("2099.1.0.0", 2 * (2 * 2 + 2 + 3 + 2))


def test_every_difference_needs_its_reason(table: Table) -> None:
    table.recorded()
    table.check("not explained: 01_naive thread_per_row f32:64x1000: shared load conflicts: ncu 0, simulator 1000")
    table.explain(*DIFFERING)
    assert table.check(code=0) == ""
    table.tool("hardware_table --check 01", 2, "not together with a STAGE")
    table.explain(*DIFFERING, where=r"{stage} thread_per_row \S+ ")
    table.check("not explained: 01_naive block_per_row f32:64x1000: shared load c")
    table.explain(*DIFFERING, "shuffles")
    printed = table.check(*(rf"explains nothing: shuffles in {stage} \w+ \S+ shuffles" for stage in VARIANTS))
    assert printed.count("\n") == len(VARIANTS) + 1
    table.explain(*DIFFERING, where=explanations.ELSEWHERE + r"{stage} \w+ \S+ ")
    assert "explains nothing" not in table.check("not explained: 01_naive thread_per_row f32:64x1000: shared load c")


def test_a_second_gpu_s_file_is_not_the_one_that_is_checked(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "LESSONS_GPU", "nvidia-fake-1")
    table.recorded()
    table.explain(*DIFFERING)
    other = table.data()
    other["entries"][0]["ncu"]["atomics"] += 7
    (table.results / "nvidia-fake-2-simulator.json").write_text(json.dumps(other), encoding="utf-8")
    assert table.check(code=0) == ""
    page = "<!-- generated: hardware_table differences{} -->\n<!-- end generated -->\n"
    table.page(page.format(""))
    table.tool("generate")
    table.page(page.format(" gpu=nvidia-fake-2"))
    table.tool("generate", 1, "hardware_table: 1 times, first: not explained")
    table.file.unlink()
    (table.results / "nvidia-fake-2-simulator.json").unlink()
    table.check("common/results has no file named <gpu>-simulator.json")


def test_a_reason_excuses_no_change_of_the_simulator_s_number(table: Table) -> None:
    table.recorded()
    table.explain(*DIFFERING, "shuffles")
    table.ncu_counts("shuffles", lambda number: number - 1)  # explained: fewer
    assert table.check(code=0) == ""
    table.ncu_counts("atomics", lambda _: None)  # which ncu does not know
    table.check("atomics: ncu None")
    table.change(lambda data: data["entries"].pop(0))
    table.check("not recorded yet: 01_naive thread_per_row. On a GPU, python3 common/tools hardware_table --missing records them")
    table.mode("02_tiled", "counts more")
    table.check(
        "differs: 02_tiled wide f32:64x96: shuffles was 96, is 192",
        "not explained: 02_tiled wide f32:64x96: global load sectors: ncu 96, simulator 192",
    )
    table.change(lambda data: data["machine"].update(nvcc="1.2.3"))
    assert table.check(code=3).startswith("skipped: recorded with nvcc 1.2.3, compiled here with ")


def test_a_variant_needs_two_shapes(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware_table, "COLS_OF_STAGE", {})
    table.tool("hardware_table", 1, "fewer than two shapes: 02_tiled narrow f32")
    assert table.files() == []


def test_what_is_missing_is_written_a_few_launches_at_a_time(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ncu, "MISSING_AT_ONCE", 2)
    table.recorded()
    table.tool("hardware_table --missing", 1, "nothing is left to record")
    whole = table.data()["entries"]
    last = list(map(results.place_of, whole[-5:]))  # one of 02, and four of 03
    table.change(lambda data: data["entries"].__delitem__(slice(-5, None)))
    table.ncu_counts("atomics", lambda number: number + 7)  # tells new counts from those that stay
    table.mode("02_tiled", "exit 1 gpu")
    printed = table.tool("hardware_table --missing", 1, f"not all was written:\n  {last[0]}: exit code 1")
    assert "launches 3 to 4 of 5:" in printed
    assert len(table.data()["entries"]) == len(whole) - 2
    table.mode("02_tiled", "")
    table.tool("hardware_table --missing", said="[1 of 2]")
    entries = table.data()["entries"]
    assert sorted(map(results.place_of, entries)) == sorted(map(results.place_of, whole))
    added = [results.place_of(entry) for entry in entries if entry["ncu"]["atomics"] < 7 + entry["cols"]]
    assert sorted(added) == sorted(last)


def test_a_variant_is_launched_with_its_own_operation(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which need not be the stage's usual one: with that, a stage here would refuse it."""
    monkeypatch.setattr(results, "operation_of", lambda stage: "another")
    table.recorded()
