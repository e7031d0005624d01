"""Tests of the table of the simulator beside Nsight Compute: the stages and ncu are fakes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Callable

import pytest
from fake_stages import COMMIT, VARIANTS, Repository, fake_ncu, quietly
from measure import explanations, hardware_table, results
from measure.quantities import LANE_OPCODES
from measure.explanations import Explanation

# The fake ncu counts twice the wavefronts that the simulator does, so these differ.
DIFFERING = (
    "shared load wavefronts (hardware)",
    "shared store wavefronts (hardware)",
    "shared load conflicts",
    "shared store conflicts",
)


class Table(Repository):
    """The fake stages at widths of which each variant can do two."""

    recording = ""

    def record(self, *more: str) -> tuple[int, str]:
        program = str(self.build / "ncu")
        return quietly("hardware_table", "--root", str(self.root), "--commit", COMMIT, "--ncu", program, *more)

    def explain(self, *counters: str, where: str = r"{stage} \w+ \S+ ") -> None:
        """These differences have a reason, in every stage."""
        places = [where.format(stage=stage) for stage in VARIANTS]
        explanations.EXPLANATIONS[:] = [
            Explanation(name, "(hard" in name, tuple(place + re.escape(name) for place in places), "A reason.")
            for name in counters
        ]

    def ncu_counts(self, counter: str, number: Callable[[int], Any]) -> None:
        self.change(lambda data: [e["ncu"].update({counter: number(e["ncu"][counter])}) for e in data["entries"]])

    def checked(self, *said: str) -> str:
        """--check fails and says these; returns all that it says."""
        code, printed = self.record("--check")
        assert code == 1
        for text in said:
            assert text in printed
        return printed


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    made = Table()
    made.make(tmp_path.resolve())
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
    table.checked("not explained: 01_naive thread_per_row f32:64x1000: shared load conflicts: ncu 0, simulator 1000")
    table.explain(*DIFFERING)
    assert table.record("--check") == (0, "")
    table.explain(*DIFFERING, where=r"{stage} thread_per_row \S+ ")
    table.checked("not explained: 01_naive block_per_row f32:64x1000: shared load c")
    table.explain(*DIFFERING, "shuffles")
    printed = table.checked(*(rf"explains nothing: shuffles in {stage} \w+ \S+ shuffles" for stage in VARIANTS))
    assert printed.count("\n") == len(VARIANTS) + 1
    table.explain(*DIFFERING, where=explanations.ELSEWHERE + r"{stage} \w+ \S+ ")
    assert "explains nothing" not in table.checked("not explained: 01_naive thread_per_row f32:64x1000: shared load c")


def test_a_second_gpu_s_file_is_not_the_one_that_is_checked(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "LESSONS_GPU", "nvidia-fake-1")
    table.recorded()
    table.explain(*DIFFERING)
    other = table.data()
    other["entries"][0]["ncu"]["atomics"] += 7
    (table.results / "nvidia-fake-2-simulator.json").write_text(json.dumps(other), encoding="utf-8")
    assert table.record("--check") == (0, "")
    page = "<!-- generated: hardware_table differences{} -->\n<!-- end generated -->\n"
    table.page(page.format(""))
    assert table.generate()[0] == 0
    table.page(page.format(" gpu=nvidia-fake-2"))
    assert "atomics: ncu 1007, simulator 1000" in table.generate()[1]
    table.file.unlink()
    (table.results / "nvidia-fake-2-simulator.json").unlink()
    assert "common/results has no file named <gpu>-simulator.json" in table.record("--check")[1]


def test_a_reason_why_ncu_counts_more_does_not_explain_fewer(table: Table) -> None:
    fake_ncu(table.build / "ncu", changed={LANE_OPCODES: "9 (MUFU.EX2: 7; MUFU.RCP: 5)"})
    assert table.record()[0] == 0
    table.explain(*DIFFERING, "other special-function lanes")
    table.checked("other special-function lanes: ncu 5, simulator 0")


def test_a_reason_excuses_no_change_of_the_simulator_s_number(table: Table) -> None:
    table.recorded()
    table.explain(*DIFFERING, "shuffles")
    table.ncu_counts("shuffles", lambda number: number - 1)  # explained: fewer
    assert table.record("--check") == (0, "")
    table.ncu_counts("atomics", lambda _: None)  # which ncu does not know
    table.checked("atomics: ncu None")
    table.mode("02_tiled", "counts more")
    table.checked(
        "differs: 02_tiled wide f32:64x96: shuffles was 96, is 192",
        "not explained: 02_tiled wide f32:64x96: global load sectors: ncu 96, simulator 192",
    )
    table.change(lambda data: data["machine"].update(nvcc="1.2.3"))
    code, printed = table.record("--check")
    assert (code, printed.startswith("skipped: recorded with nvcc 1.2.3, compiled here with ")) == (3, True), printed


def test_a_variant_needs_two_shapes(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware_table, "COLS_OF_STAGE", {})
    code, printed = table.record()
    assert (code, table.files(), "fewer than two shapes: 02_tiled narrow f32" in printed) == (1, [], True)


def test_the_page_shows_no_difference_without_a_reason(table: Table) -> None:
    table.recorded()
    page = "<!-- generated: hardware_table differences -->\n<!-- end generated -->\n"
    table.page(page, "common/results/simulator.md")
    assert "hardware_table: 88 times, first: not explained" in table.generate()[1]
