"""Tests of `./run profile` on a machine without a GPU: the stages and ncu are fakes."""

import csv
import itertools
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from command import NoDevice, ToolError
from fake_programs import has_ended
from fake_stages import COMMIT, Repository, fake_ncu, script
from measure import explanations, ncu, profiling, quantities, results
from pages import blocks
from measure.explanations import Explanation
from measure.results import Shape

# As ncu 2025.3 prints it on an H200, with fewer columns and shorter lists of opcodes.
RAW_PAGE = '''==PROF== Connected to process 1012 (/build/01_naive)
"ID","Process ID","Kernel Name","dram__bytes_read.sum","gpu__time_duration.sum","launch__block_size","sass__inst_executed_per_opcode"
"","","","Mbyte","ns","",""
"0","1012","reduce_thread_per_row","100.67","203,104","64 (0: 64)","5,965,824 (FMNMX: 1,579,008; LDG.E: 1,572,864)"
"1","1012","void divide<float,  4>","n/a","80,992","128 (0: 128)","7 (BAR: 7)"
"2","1060","reduce_block_per_row","0","1","128 (0: 128)","7 (BAR: 7)"
'''


NAMED = {quantity.name: quantity for quantity in quantities.QUANTITIES}


# --- ncu ---------------------------------------------------------------------------------------------


def test_reads_the_raw_page() -> None:
    metrics = ("dram__bytes_read.sum", "launch__block_size", "sass__inst_executed_per_opcode", "of_another_ncu")
    processes = ncu.parse(RAW_PAGE, metrics)
    assert list(processes) == [1012, 1060]
    first, second = processes[1012]
    assert (first["kernel"], second["kernel"]) == ("reduce_thread_per_row", "void divide<float, 4>")
    assert list(first["metrics"].values()) == [100670000, 64, {"FMNMX": 1579008, "LDG.E": 1572864}, None]
    assert second["metrics"]["dram__bytes_read.sum"] is None
    assert ncu.parse("==ERROR== nothing\n", metrics) == {}


@pytest.mark.parametrize("text, unit, number", [
    ("203,104", "ns", 203104), ("203.104", "us", 203104), ("203.104", "usecond", 203104), ("1.5", "ms", 1.5e6),
    ("1.5", "msecond", 1.5e6), ("2", "s", 2e9), ("2", "second", 2e9), ("7", "byte", 7), ("1.5", "Kbyte", 1500),
    ("1.5", "Mbyte", 1.5e6), ("1.5", "Gbyte", 1.5e9), ("45.03", "%", 45.03), ("n/a", "us", None),
])  # fmt: skip
def test_units_are_nanoseconds_and_bytes_whatever_ncu_scales_them_to(text: str, unit: str, number: Any) -> None:
    assert ncu.number(text, unit) == (number if number is None else pytest.approx(number, rel=1e-12))


def entry_at(variant: str, cols: int) -> results.Json:
    return {"stage": "01_naive", "variant": variant, "dtype": "f16", "rows": 64, "cols": cols, "op": "softmax"}


def measured(repository: Repository, entries: list[results.Json], *report: Path) -> list[str]:
    stages = results.stage_executables(repository.root, repository.build)
    return ncu.measure(str(repository.build / "ncu"), stages, entries, ("a", "b"), *report)


def test_launches_keep_their_order_and_their_kernels(repository: Repository, capsys: pytest.CaptureFixture) -> None:
    fake_ncu(repository.build / "ncu", kernels={"thread_per_row": 2}, changed={"b": ("1.5", "Kbyte")})
    folder = repository.build / "my 'own' checkout; $HOME"
    folder.mkdir()
    entries = [entry_at(*which) for which in (("block_per_row", 7), ("thread_per_row", 8), ("block_per_row", 9))]
    assert measured(repository, entries, folder / "a report.ncu-rep") == []
    assert [len(entry["kernels"]) for entry in entries] == [1, 2, 1]
    assert entries[2]["kernels"] == [{"kernel": "k0<float, 4>", "metrics": {"a": 9, "b": 1500}}]
    assert [path.name for path in folder.iterdir()] == ["a report.ncu-rep"]
    began = re.findall(r"\[(\d) of 3\] (.*)\n", capsys.readouterr().err)
    assert began and all(results.place_of(entries[int(n) - 1]) == place for n, place in began)


def test_a_launch_that_hangs_is_ended(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_ncu(repository.build / "ncu")
    script(repository.build / "01_naive", f"#!/bin/sh\necho $$ >{repository.build}/hangs\nexec sleep 60\n")
    monkeypatch.setattr(ncu, "LAUNCH_TIMEOUT_S", 1)
    with pytest.raises(ToolError, match="01_naive block_per_row f16:64x1024 took longer than 1 s under ncu"):
        measured(repository, [entry_at("block_per_row", 1024)])
    assert has_ended(int((repository.build / "hangs").read_text()))


def test_where_it_is(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = [repository.build / place / "ncu" for place in ("", "nsight/2024.3", "nsight/2025.1")]
    for program in programs:
        program.parent.mkdir(parents=True, exist_ok=True)
        fake_ncu(program)
    monkeypatch.setattr(ncu, "USUAL_PLACES", ())
    for path, name, said in ((repository.build, "other", "'other' is not here"), ("/nowhere", "ncu", "install Nsight")):
        monkeypatch.setenv("PATH", str(path))
        with pytest.raises(NoDevice, match=said):
            ncu.find(name)
    monkeypatch.setattr(ncu, "USUAL_PLACES", (f"{repository.build}/nsight/*/ncu",))
    assert ncu.find() == str(programs[2])
    monkeypatch.setenv("PATH", str(repository.build))
    assert ncu.find() == str(programs[0])


# --- The output --------------------------------------------------------------------------------------


class Profiled(Repository):
    """The fake stages, and an ncu that knows their numbers."""

    def ncu(self, mode: str = "") -> None:
        """The duration and the registers of a kernel, and as many bytes as 2 passes of f32 64 x 1000."""
        numbers = {
            quantities.DURATION: "2,000",
            quantities.REGISTERS: "32 (0: 32)",
            quantities.DRAM_BUSY: "50.5",
            **dict.fromkeys(quantities.REQUESTED, ("256", "Kbyte")),
            quantities.OCCUPANCY_LIMITS[1]: "n/a",
        }
        fake_ncu(self.build / "ncu", mode, {"thread_per_row": 2}, numbers)

    def shown(self, more: str = "", code: int = 0) -> str:
        """The output for a small shape."""
        return self.tool(f"profile --rows 64 --cols 1000 {more}", code)

    def csv_rows(self, name: str) -> list[dict[str, str]]:
        with (self.build / "profile" / name).open(encoding="utf-8") as file:
            return list(csv.DictReader(file))


@pytest.fixture
def profiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profiled:
    made = Profiled(tmp_path.resolve())
    made.ncu()
    monkeypatch.setattr(explanations, "EXPLANATIONS", [])
    monkeypatch.setenv("COLUMNS", "200")
    return made


def test_three_numbers_side_by_side(profiled: Profiled) -> None:
    printed = profiled.shown()
    columns = "declared · counted (64 rows, CPU simulator) · measured (ncu, NVIDIA Fake 1)"
    assert f"f32 softmax, 64 x 1000: {columns}" in printed
    lines = printed.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("01_naive"))
    assert lines[first].split() == ["01_naive", "thread_per_row", "block_per_row"]
    assert re.match(r"bytes requested, passes +2 · 1000 · 4 a +2 · 1000 · 2 a$", lines[first + 1])
    assert any(line.startswith("barriers per row") and " 4 · 15.62 · 15.62" in line for line in lines)
    assert re.search(r"\nduration, µs +- · - · 4 +- · - · 2\n", printed)
    assert "\na differs by more than 2 %, and no reason is known\n" in printed
    agree = r"\ncounted and measured: \d+ of 45 numbers agree within 2 %; the letters say why the others do not\n"
    assert re.search(agree, printed)
    assert (profiled.build / "profile/stages-f32-64x1000.ncu-rep").is_file()
    table = profiled.csv_rows("stages-f32-64x1000.csv")
    assert len(table) == 5 * len(quantities.QUANTITIES)
    duration = next(r for r in table if r["quantity"] == "duration" and r["variant"] == "thread_per_row")
    assert (duration["measured"], duration["declared"], duration["ncu_metrics"]) == ("4", "", quantities.DURATION)


def test_narrow_terminals_get_fewer_columns(profiled: Profiled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "COLUMN", 30)  # two of them need more than 80
    one, other = "thread_per_row", "block_per_row"
    for width, tables in ("60", [[one], [other]]), ("120", [[one, other]]):
        monkeypatch.setenv("COLUMNS", width)
        lines = profiled.shown("1").splitlines()
        assert [line.split()[1:] for line in lines if line.startswith("01_naive ")] == tables


def test_long_names_are_broken_to_fit() -> None:
    for name in (["transposed_layout"], ["reversed_second_pass"], ["fastertransformer_", "block_per_head"]):
        assert profiling.split_name("".join(name)) == name


def test_a_known_difference_has_its_reason(profiled: Profiled, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Explanation("Merging", False, (r"01_naive .* shared (load|store) conflicts",), "Of words.")
    monkeypatch.setattr(explanations, "EXPLANATIONS", [known])
    printed = profiled.shown("1 2")
    lines = [line for line in printed.splitlines() if line.startswith("bank conflicts")]
    assert " 4 · 31.25 · 0 b" in lines[0]
    assert " b" not in lines[1].replace("bank", "")
    assert "\nb Merging. Of words.\n" in printed
    rows = [r for r in profiled.csv_rows("01_naive_02_tiled-f32-64x1000.csv") if r["quantity"] == "bank conflicts"]
    assert {(r["stage"], r["why_different"]) for r in rows} == {("01_naive", "Merging"), ("02_tiled", "not known")}


def test_no_gpu(profiled: Profiled) -> None:
    profiled.mode("01_naive", "exit 3 gpu")
    printed = profiled.shown()
    assert "not measured: the stage's last words\n" in printed
    assert "f32 softmax, 64 x 1000: declared · counted (64 rows, CPU simulator)\n" in printed
    assert profiled.tool("profile --device gpu", 3) == "./run profile: the stage's last words\n"
    assert "not measured" not in profiled.shown("--device sim")
    profiled.tool("profile --record", 3)
    assert profiled.files() == []


def test_counted_on_a_part_of_the_rows() -> None:
    for rows, cols, counted in ((49152, 1024, 64), (7, 1024, 7), (49152, 1 << 20, 4), (49152, 1 << 23, 1)):
        assert profiling.counted_shape(Shape("f32", rows, cols)).rows == counted


def test_what_goes_wrong_with_one_launch_stays_there(profiled: Profiled) -> None:
    profiled.mode("02_tiled", "exit 4 gpu")
    said = [f"failed: 02_tiled {name} f32:64x1000: exit code 4. the stage's last words" for name in ("narrow", "wide")]
    assert re.findall("failed: .*", profiled.shown("1 2", 1)) == said
    table = profiled.csv_rows("01_naive_02_tiled-f32-64x1000.csv")
    assert [row["measured"] for row in table if row["quantity"] == "duration"] == ["4", "2", "", ""]
    profiled.mode("02_tiled", "wrong")
    profiled.tool("profile 2", 1, "row 3 differs")


@pytest.mark.parametrize(
    "arguments, said",
    [
        ("9", "there is no stage '9'; the stages are 01_naive, 02_tiled, 03_fast"),
        ("--variant wide", "--variant needs one STAGE"),
        ("2 --variant tall", "--variant: 'tall' is not accepted; accepted: narrow, wide"),
        ("--op max", "--op: 'max' is not accepted; accepted: softmax, log_softmax"),
        ("--op all", "--op is one operation, and 'all' is not"),
        ("--op softmax,log_softmax", "--op is one operation, and 'softmax,log_softmax' is not"),
        ("--cols 0", "'0' is not accepted; accepted: whole numbers from 1"),
        ("--dtype f8", "invalid choice: 'f8'"),
        ("2 --record --variant tall", "--record measures every variant"),
    ],
)
def test_bad_usage(profiled: Profiled, arguments: str, said: str) -> None:
    assert profiled.tool(f"profile {arguments}", 2, said).count("\n") == 1
    assert not (profiled.build / "profile").exists()


def test_a_variant_of_another_operation(profiled: Profiled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling.count, "simulate", lambda *_: [])  # it leaves them out
    profiled.tool("profile 2 --variant wide", 2, "--variant wide does not do --op softmax; the stage's operations: softmax")


def test_chosen_stages(profiled: Profiled) -> None:
    assert profiled.tool("profile --list 2 03_fast/") == "02_tiled\n03_fast\n"
    (profiled.build / "02_tiled").unlink()
    profiled.tool("profile 2", 1, "not built")
    (profiled.build / "02_tiled").mkdir()  # the sources' folder, with --build .
    profiled.tool("profile 2", 1, "not built")
    profiled.tool("profile 1")


def test_chosen_variants(profiled: Profiled) -> None:
    assert "narrow" not in profiled.shown("02 --variant wide --dtype f16 --op log_softmax")
    rows = profiled.csv_rows("02_tiled-f16-64x1000.csv")
    assert {(r["variant"], r["op"]) for r in rows} == {("wide", "log_softmax")}
    printed = profiled.shown("2 --rows 7 --cols 5000")
    assert "not applicable: 02_tiled narrow at f32:7x5000: cols > 2048" in printed
    assert re.search(r"\nshuffles per row +- · 714.3 · 714.3\n", printed), printed  # of 5000 in 7 rows


# --- The lessons' tables -----------------------------------------------------------------------------


def test_recorded_and_shown_in_the_lessons(profiled: Profiled) -> None:
    """The contents of the blocks are tested by host.generated_pages."""
    profiled.recorded()
    profiled.tool("profile --record")
    data = profiled.data("nvidia-fake-1-profile.json")
    assert (data["recorded"]["commit"], data["recorded"]["ncu"]) == (COMMIT, "2099.1.0.0")
    found = [(e["stage"], e["variant"], e["dtype"], e["cols"]) for e in data["entries"]]
    assert len(found) == 2 * 3 + 2 + 1 + 1  # 01_naive has a third shape; 32768 columns are too many for two
    assert ("01_naive", "thread_per_row", "f32", 1024) in found
    two, one = data["entries"][:2]
    assert [kernel["kernel"] for kernel in two["kernels"]] == ["k0<float, 4>", "k1<float, 4>"]
    names = (quantities.DURATION, quantities.REGISTERS, quantities.DRAM_BUSY)
    assert [two["metrics"][name] for name in names] == [4000, 32, 50.5]
    assert one["metrics"][quantities.OCCUPANCY_LIMITS[1]] is None  # n/a
    assert one["quantities"]["barriers"] == [4.0, 16.0, 0.0208333]

    # One stage anew: the recordings of the others stay, and say when they were made.
    profiled.tool("profile 2 --record")
    anew = profiled.data("nvidia-fake-1-profile.json")["entries"]
    assert len(anew) == len(found)
    assert {(e["stage"], e.get("recorded") == data["recorded"]) for e in anew if e["stage"] <= "02_tiled"} == {
        ("01_naive", True), ("02_tiled", False)}  # fmt: skip

    shape = "dtype=f16 rows=49152 cols=1024"
    for marker, said in {
        "counters 01_naive columns=speed": "column 'speed'",
        "counters 01_naive dtype=f16 rows=1 cols=1 columns=registers": "no profile of 01_naive at f16:1x1",
        f"profile 01_naive {shape} quantities=speed": "'speed'",
        f"profile 01_naive {shape} quantities=registers,barriers": "",
    }.items():
        page = profiled.page(f"<!-- generated: {marker} -->\n<!-- end generated -->\n")
        profiled.tool("generate", 1 if said else 0, said)
    text = page.read_text(encoding="utf-8")
    # A quantity that only ncu knows is one number; if declared, counted and measured differ, all three are shown.
    assert "| variant | registers per thread | barriers per row |" in text
    assert " | 32 | 4 · 16 · 0.02<sup>a</sup> |" in text
    assert "Three: declared · counted · measured." in text


@pytest.mark.parametrize(
    "numbers, text",
    {
        (8, 8.01, 8.0): "8.01",  # agree, and the counted one is exact
        (None, 4, None): "4",
        (None, None, 5.04): "5.04",
        (0, 0, 3.58): "0 · 0 · 3.58",
        (None, 14, 12): "– · 14 · 12",
        (4, 8, 8): "4 · 8 · 8",  # a variant that declares something else
        (None, None, None): "–",
    }.items(),
)
def test_one_number_where_all_agree(numbers: tuple[float | None, ...], text: str) -> None:
    differs = None not in numbers[1:] and not quantities.same(*numbers[1:])  # type: ignore[arg-type]
    row = quantities.Row(quantities.QUANTITIES[0], numbers, differs, None)  # type: ignore[arg-type]
    assert blocks.profile_cell(row) == text


@pytest.mark.parametrize(
    "mode, code, said, lines",
    [
        ("permission", 3, "no permission to read the GPU's counters (ERR_NVGPUCTRPERM)", 3),
        ("uninitialised", 3, "ncu cannot profile on this machine: it failed to initialise the profiler", 1),
        ("missing", 3, "'no-such-ncu' is not here", 1),
        ("error", 1, "ncu failed (exit code 1). ==ERROR== Failed to find metric", 1),
        ("nothing", 1, "ncu counted no kernel", 1),
    ],
)
def test_what_cannot_be_measured_is_counted_and_not_recorded(
    profiled: Profiled, mode: str, code: int, said: str, lines: int
) -> None:
    recording = profiled.results / "nvidia-fake-1-profile.json"
    recording.write_text("old")
    profiled.ncu(mode)
    program = "--ncu no-such-ncu" if mode == "missing" else ""
    printed = profiled.tool(f"profile --record {program}", code, said)
    assert (recording.read_text(), profiled.files()) == ("old", [recording.name]), printed
    if code == 1:
        return
    printed = profiled.shown(program)
    before = printed[printed.index(f"not measured: {said}") : printed.index("f32 softmax")]
    assert len(before.splitlines()) == lines
    assert ["docker" in before, "modprobe.d" in before] == 2 * [mode == "permission"]
    assert re.search(r"\nbytes requested, passes +2 · 1000 +2 · 1000\n", printed)
    assert "measured (ncu" not in printed and "duration" not in printed
    assert not list((profiled.build / "profile").glob("*.ncu-rep"))
    assert profiled.csv_rows("stages-f32-64x1000.csv")[0]["measured"] == ""


# --- Quantities --------------------------------------------------------------------------------------


def entry_of(*kernels: results.Json) -> results.Json:
    unknown = dict.fromkeys(quantities.METRICS)
    measured = [{"kernel": "k", "metrics": {**unknown, **metrics}} for metrics in kernels]
    return {**entry_at("a", 100), "rows": 10, "counted": defaultdict(int, rows=10), "kernels": measured}


def test_several_kernels() -> None:
    names = (quantities.DURATION, quantities.DRAM_BUSY, quantities.REGISTERS, quantities.DRAM_READ)
    slow, fast = dict(zip(names, (3000, 80, 30, 1000))), dict(zip(names, (1000, 40, 90, 3000)))
    shown = ("duration", "DRAM throughput", "registers", "read from DRAM", "written to DRAM")
    for kernels, numbers in ((slow, fast), [4, 70, 90, 2, None]), ((), [None] * 5):  # 4000 bytes of 2000
        measured = {row.quantity.name: row.numbers[2] for row in quantities.rows(entry_of(*kernels))}
        assert [measured[name] for name in shown] == numbers


def test_same_is_within_two_percent() -> None:
    for counted, measured, differs in ((100, 98.1, 0), (100, 97.9, 1), (0, 0, 0), (0, 0.1, 1), (None, 1, 0)):
        assert quantities.compared(entry_of(), NAMED["barriers"], None, counted, measured).differs == differs


def test_fewer_sectors_a_request_may_be_more_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    more = Explanation("Unrolled", True, ("elsewhere: 01_naive .* global load requests",), "r")
    monkeypatch.setattr(explanations, "EXPLANATIONS", [more])
    quantity = NAMED["sectors load"]
    assert quantities.compared(entry_of(), quantity, None, 4, 3).why is more
    assert quantities.compared(entry_of(), quantity, None, 3, 4).why is None


def test_every_real_variant_of_the_recordings_is_explained() -> None:
    """The lessons show these: a difference without a reason would stand there."""
    recordings = list((results.ROOT / "common/results").glob("*-profile.json"))
    assert recordings
    for path in recordings:
        for entry, quantity in itertools.product(results.load(path, results.PROFILES)["entries"], quantities.QUANTITIES):
            row = profiling.row_of(quantity, entry)
            assert not row.differs or row.why, f"{results.place_of(entry)} {quantity.name}: {row.numbers}"
