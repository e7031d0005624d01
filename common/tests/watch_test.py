"""Tests SIM_TRACE and the pages of ./run watch, which are opened in a headless Chromium: the drawings must show the counts.

BUILD in the environment is where the stages and the simulator are built: build. Tests with a browser are skipped without one.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Iterator

import command
import pytest
from browser import PICTURES, Opened, barriers_of
from learn import watch

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD", ROOT / "build")).resolve()
STAGES = sorted(path.parent.name for path in ROOT.glob("[0-9][0-9]_*/main.cu"))
# Counted for each instruction, also where no lane executes it: a trace has none of them. The page says which these are.
PAGE = (ROOT / "common/tools/learn/watch.html").read_text(encoding="utf-8")
NOT_TRACED = set(json.loads(PAGE.partition("onlyCounted = ")[2].partition(";")[0]))
ALL_BLOCKS = "0-999999"

Json = dict[str, Any]


def record(stage: str, variant: str, blocks: str = ALL_BLOCKS, events: int = 100_000, **more: Any) -> Json:
    defaults = {name: None for name in ("rows", "cols", "dtype", "op", "input", "offset", "warps")}
    options = argparse.Namespace(**{**defaults, "root": ROOT, "blocks": blocks, "events": events, **more})
    run, said = watch.record_variant(BUILD / stage, variant, options)
    assert run and not said, f"{stage} {variant}: {said}"
    return run


def flat(counters: Json, before: str = "") -> Iterator[tuple[str, int]]:
    for name, value in counters.items():
        if isinstance(value, dict):
            yield from flat(value, f"{before}{name}.")
        elif name not in NOT_TRACED:
            yield before + name, value


def sum_of(launch: Json) -> Counter[str]:
    total: Counter[str] = Counter()
    for event in launch["events"]:
        for name, value in flat(event["rose"]):
            total[name] += value * event.get("times", 1)
    return +total


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("stage", STAGES)
def test_the_sums_of_a_trace_are_the_counters(stage: str, dtype: str) -> None:
    shape: Json = {"dtype": dtype, "op": "all" if dtype == "f16" else None}
    if stage == "01_naive":
        shape |= {"rows": 2, "cols": 128}
    variants = watch.variants_of(BUILD / stage, ROOT)
    assert variants
    for variant in variants:
        for launch in record(stage, variant, **shape)["launches"]:
            assert sum_of(launch) == Counter(dict(flat(launch["counters"]))), f"{variant}: {launch['kernel']}"
            assert set(launch["left_out"].values()) == {0} and launch["events"]
            lines: Json = {}
            for counters in launch["lines"].values():
                watch.add(lines, counters)
            assert lines == launch["counters"]


def test_only_lanes_of_one_step_are_shortened() -> None:
    even = list(range(0, 128, 4))
    assert watch.shorter(even) == [0, 4]
    for lanes in ([*even[:-1], 0], [None, *even[1:]]):
        assert watch.shorter(lanes) == lanes


def test_what_is_left_out_is_said() -> None:
    (whole,) = record("04_smem_bank_conflict", "vector_layout", rows=2)["launches"]
    (part,) = record("04_smem_bank_conflict", "vector_layout", blocks="1", warps="0-1", rows=2)["launches"]
    assert {(event["block"], event["warp"]) for event in part["events"]} == {(1, 0), (1, 1)}
    assert part["left_out"] == {"of_other_blocks_and_warps": len(whole["events"]) - len(part["events"]), "beyond_the_limit": 0}
    (cut,) = record("04_smem_bank_conflict", "vector_layout", events=10, rows=2)["launches"]
    assert cut["events"] == whole["events"][:10]
    assert cut["left_out"] == {"of_other_blocks_and_warps": 0, "beyond_the_limit": len(whole["events"]) - 10}
    assert part["counters"] == cut["counters"] == whole["counters"]


@pytest.mark.parametrize("variable, value", [("SIM_TRACE_BLOCKS", "1-"), ("SIM_TRACE_WARPS", "x"), ("SIM_TRACE_LAUNCHES", "3-1"),
                                             ("SIM_TRACE", "/no/such/folder/trace")])  # fmt: skip
def test_the_simulator_refuses(tmp_path: Path, variable: str, value: str) -> None:
    environment = {**os.environ, "SIM_TRACE": str(tmp_path / "trace"), variable: value}
    done = subprocess.run([BUILD / "03_warp_reduce", "--device", "sim", "--verify-only", "--rows", "1"], env=environment,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 2 and f"simulator: {variable}: " in done.stderr and done.stderr.count("\n") == 1


def test_values_of_shuffles_are_those_of_the_sources() -> None:
    (launch,) = record("06_online", "fused", rows=1)["launches"]
    shuffles = [event for event in launch["events"] if event["what"] == "shuffle"]
    assert {event["how"] for event in shuffles} == {"xor"} and {event["by"] for event in shuffles} == {16, 8, 4, 2, 1}
    for event in shuffles:
        assert event["from"] == [None if had is None else lane ^ event["by"] for lane, had in enumerate(event["had"])]
        assert event["got"] == [None if of is None else event["had"][of] for of in event["from"]]


def test_values_in_shared_memory_are_those_that_were_stored() -> None:
    (launch,) = record("02_fused_block", "shared_memory_tree", rows=1)["launches"]
    memory: dict[int, int] = {}
    compared = 0
    for event in launch["events"]:
        if event.get("space") != "shared":
            continue
        (words,) = event["words"]
        for offset, word in zip(event["lanes"], words):
            if event["what"] == "store":
                memory[offset] = word
            elif offset is not None:
                assert memory[offset] == word
                compared += 1
    assert compared > 500 and len(memory) >= 257
    # A pair of maximum and sum is two words.
    (launch,) = record("10_cluster", "one_way_4", rows=1)["launches"]
    assert any(len(event.get("words", ())) == 2 for event in launch["events"])


@pytest.mark.parametrize("arguments, said", [
    ([], "which stage? ./run watch 04"),
    (["4x"], "there is no stage '4x'; the stages are 01_naive, "),
    (["03", "--variant", "none"], "--variant: 'none' is not accepted; accepted: scalar_loads, "),
    (["03", "--blocks", "2-"], "--blocks: '2-' is not accepted"),
    (["03", "--cols", "0"], "--cols: '0' is not accepted"),
    (["03", "--input", "none"], "--input: 'none' is not accepted"),
])  # fmt: skip
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    assert command.main(["watch", *arguments, "--build", str(BUILD)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err and err.count("\n") == 1, err


def test_nothing_that_runs_writes_no_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert command.main(["watch", "03", "--cols", "2000", "--build", str(BUILD), "--out", str(page)]) == 1
    assert not page.exists() and "no variant takes this shape" in capsys.readouterr().err


def test_a_block_that_stops_is_recorded_whichever_it_is(tmp_path: Path) -> None:
    launch = {"grid": [4, 2, 1], "block": [64, 1, 1], "fault": "race\n    by thread (40, 0, 0) of block (1, 1, 0)"}
    program = tmp_path / "program"
    program.write_text(f"""#!{sys.executable}
import json, os
block = int(os.environ["SIM_TRACE_BLOCKS"].split("-")[0])
json.dump({{**{launch}, "events": [{{"block": block}}]}}, open(os.environ["SIM_TRACE"], "w"))
""")
    program.chmod(0o755)
    (recorded,), code, said = watch.record([str(program)], tmp_path, "0-1", 10)
    assert watch.place_of_fault(recorded) == (5, 1, 8) and recorded["events"] == [{"block": 5}] and (code, said) == (0, "")


def test_files_of_another_checkout_are_found_in_this_one() -> None:
    assert watch.file_below("/elsewhere/softmax/common/rowwise/kernels/forward/online.cuh", ROOT) == "common/rowwise/kernels/forward/online.cuh"
    assert watch.file_below("common/rowwise/kernels/forward/online.cuh", ROOT) == "common/rowwise/kernels/forward/online.cuh"
    assert watch.file_below("/usr/include/none.h", ROOT) == watch.file_below("../common/rowwise/kernels/forward/online.cuh", ROOT) == ""
    place = "/usr/local/cuda/include/sm_30.hpp:4 from /x/common/rowwise/kernels/forward/online.cuh:92 from 06_online/main.cu:7"
    assert watch.places_of(place, ROOT) == [("common/rowwise/kernels/forward/online.cuh", 92), ("06_online/main.cu", 7)]


# ---- In a browser


def page_of(stage: str, runs: list[Json]) -> str:
    return watch.page(stage, f"{stage}/", runs, ROOT)


@pytest.mark.parametrize("stage", STAGES)
def test_every_variant_steps_to_its_end(browser: Any, tmp_path: Path, stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if stage == "15_several_gpus":
        if not (BUILD / stage).exists():
            pytest.skip("built without NCCL")
        monkeypatch.setenv("SIM_DEVICES", "2")
    shape = {"rows": 2, "cols": 128} if stage == "01_naive" else {}
    runs = [record(stage, variant, "0-1", **shape) for variant in watch.variants_of(BUILD / stage, ROOT)]
    with Opened(browser, page_of(stage, runs), tmp_path / "page.html") as page:
        assert stage in page.title() and page.locator("#run option").count() == len(runs)
        for number, run in enumerate(runs):
            page.select_option("#run", str(number))
            for launch in range(len(run["launches"])):
                page.select_option("#launch", str(launch))
                page.locator("h1").click()  # and then by keyboard alone
                steps = page.evaluate("current().length")
                assert page.inner_text("#say").startswith(f"Step 1 of {steps}: ")
                for _ in range(min(steps - 1, 5)):
                    page.keyboard.press("ArrowRight")
                page.keyboard.press("End")
                page.keyboard.press("ArrowRight")
                assert page.inner_text("#say").startswith(f"Step {steps} of {steps}: ")
                # Each other step is drawn, too.
                assert page.evaluate("current().every((event, step) => typeof drawEvent(current(), step, 358) === 'string')")
        # The page's rules must derive the counts from the addresses, for each access that was recorded.
        wrong, compared = page.evaluate("""() => {
          const wrong = [];
          let compared = 0;
          for (const run of data.runs) for (const launch of run.launches) for (const event of launch.events) {
            const [kind, counted] = Object.entries(event.rose).find(([, value]) => typeof value === "object") ?? [];
            if (!kind || event.what === "bulk copy" || Array.isArray(event.of)) continue;  // not drawn: said lane by lane
            const addresses = lanes(event.lanes), groups = turnsOf(addresses, event.bytes);
            const drawn = event.space === "global" ? [sectorsOf(addresses, event.bytes).length] : [wavefronts(groups), conflicts(groups)];
            const expected = event.space === "global" ? [counted.sectors] : [counted.wavefronts, counted.bank_conflicts ?? 0];
            compared++;
            if (String(drawn) !== String(expected)) wrong.push([run.title, JSON.stringify(event), drawn]);
          }
          return [wrong, compared];
        }""")
        assert wrong == [] and compared >= 10 * len(runs)


@pytest.fixture(scope="module")
def example() -> str:
    """Conflicts, barriers, warps that wait, and a launch of which blocks and steps are left out."""
    runs = [record("04_smem_bank_conflict", "interleaved_layout", "0-1", dtype="f16", cols=512, rows=2),
            record("04_smem_bank_conflict", "vector_layout", "0", 20, dtype="f16", cols=512, rows=2)]  # fmt: skip
    return page_of("04_smem_bank_conflict", runs)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 800, 390])
def test_every_width(browser: Any, tmp_path: Path, example: str, width: int, scheme: str) -> None:
    with Opened(browser, example, tmp_path / "page.html", width, scheme) as page:
        # At no step does the page scroll sideways, or is a text of its pictures small.
        assert page.evaluate("""() => current().flatMap((_, step) => {
          go(step);
          const small = [...document.querySelectorAll("svg text")].filter(text => parseFloat(getComputedStyle(text).fontSize) < 10);
          const wide = document.documentElement.scrollWidth !== window.innerWidth;
          return [...small.map(text => text.textContent), ...wide ? [`step ${step} scrolls`] : []];
        })""") == []
        page.evaluate("go(1)")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == {"light": "rgb(255, 255, 255)",
                                                                                  "dark": "rgb(13, 17, 23)"}[scheme]
        page.screenshot(path=str(PICTURES / f"watch-{width}-{scheme}.png"), full_page=True)
        assert barriers_of(page) == []


def test_what_a_reader_does(browser: Any, tmp_path: Path, example: str) -> None:
    with Opened(browser, example, tmp_path / "page.html") as page:
        page.click("#next")
        said = page.inner_text("#say")
        assert said == ("Step 2 of 42: store of shared memory, 32 lanes × 16 bytes: 8 turns of the 32 banks, 4 of them for bank "
                        "conflicts.")  # fmt: skip
        # Four words of each lane, in the first turn of its group or the second.
        drawn = [page.locator(f"#picture rect[fill='var(--{turn})']").count() for turn in ("bank", "conflict")]
        assert drawn == [16 * 4, 16 * 4]
        assert page.inner_text("#line").startswith("smem.cuh:") and "buffer[" in page.inner_text("#line")
        assert page.locator("#code tr.now td").first.inner_text() == "128 turns, 64 conflicts"
        # By keyboard: to the slider, and on.
        page.focus("#step")
        page.keyboard.press("ArrowRight")
        assert page.inner_text("#say").startswith("Step 3 of 42: ") and page.url.endswith("#0.0.0.0.2")
        page.focus("#code")  # there the arrows scroll
        page.keyboard.press("ArrowRight")
        assert page.inner_text("#say").startswith("Step 3 of 42: ")
        # Which warps wait: those without columns of their own come with fewer steps.
        page.evaluate("go(current().findIndex(event => event.what === 'barrier'))")
        assert "warp 2: 6, then it waits" in page.inner_text("#picture") and "warp 0: 9" in page.inner_text("#picture")
        page.locator("#life rect[data-step='3,0']").click()
        assert page.input_value("#warp") == "3" and "a shuffle, down 16" in page.inner_text("#say")
        assert page.locator("#picture circle").count() == 6 * 32
        assert "0: −∞ ← −∞ of 16" in page.inner_text("#picture")
        page.locator("#chain button").last.click()
        assert page.locator("#chain button[aria-current=true]").inner_text().startswith("from smem.cuh:")
        assert not page.locator("#left-out").is_visible()
        # The second is cut.
        page.select_option("#run", "1")
        assert page.locator("#left-out").is_visible()
        left_out = page.inner_text("#left-out")
        assert "steps beyond the limit of this recording" in left_out and "here are 1 of 2 blocks, of 4 warps each" in left_out
        assert "--variant vector_layout --rows 2 --cols 512 --dtype f16" in page.inner_text("#command")
        page.click("summary")
        counts = page.inner_text("#counts")
        assert "shared stores: wavefronts" in counts
        # A link leads to a step.
        page.goto(page.url.split("#")[0] + "#0.0.1.1.3")
        page.reload()
        assert (page.input_value("#block"), page.input_value("#warp"), page.input_value("#step")) == ("1", "1", "3")


def test_the_model(browser: Any, tmp_path: Path, example: str) -> None:
    with Opened(browser, example, tmp_path / "page.html", 390) as page:
        for size, stride, offset, padding, sectors, turns in (
            ("4", 1, 0, 0, "4 sectors, 100 %", "1 turn, 0 of"),
            ("4", 32, 0, 0, "32 sectors, 13 %", "32 turns, 31 of"),
            ("4", 32, 0, 4, "32 sectors, 13 %", "1 turn, 0 of"),
            ("16", 1, 16, 0, "17 sectors, 94 %", "4 turns, 0 of"),
            ("16", 2, 0, 0, "32 sectors, 50 %", "8 turns, 4 of"),
            ("8", 0, 0, 0, "1 sector, 25 %", "2 turns, 0 of"),
            ("2", 1, 2, 0, "3 sectors, 67 %", "1 turn, 0 of"),
        ):
            page.select_option("#try-bytes", size)
            for name, value in (("stride", stride), ("offset", offset), ("padding", padding)):
                page.fill(f"#try-{name}", str(value))
            said = page.inner_text("#try-say")
            assert f"As global memory {sectors}" in said and f"As shared memory {turns}" in said, said
        assert "a model, not a recording" in page.inner_text("#model-title")
        # A step's own numbers, by the same rules: the store with conflicts.
        page.evaluate("go(1)")
        page.click("#try-this")
        assert "As shared memory 8 turns, 4 of" in page.inner_text("#try-say")


def test_a_fault_is_where_the_page_opens(browser: Any, tmp_path: Path) -> None:
    (launch,) = record("04_smem_bank_conflict", "vector_layout", "0-1", rows=2)["launches"]
    launch["fault"] = ("out of bounds: read of 4 bytes of <global> memory at 0x10, of nothing\n    in kernel\n"
                       "    at 04_smem_bank_conflict/smem.cuh:40\n    called from 04_smem_bank_conflict/smem.cuh:117\n"
                       "    by thread (35, 0, 0) of block (1, 0, 0)")  # fmt: skip
    run = {"title": "mine", "command": "./run", "launches": [launch]}
    with Opened(browser, page_of("04_smem_bank_conflict", [run]), tmp_path / "page.html") as page:
        assert (page.input_value("#block"), page.input_value("#warp")) == ("1", "1")
        assert "The simulator stops the kernel here, because of lane 3." in page.inner_text("#say")
        assert "<global> memory at 0x10" in page.inner_text("#picture")
        assert page.locator("#code tr.now td").nth(1).inner_text() == "40"
        page.keyboard.press("ArrowLeft")
        assert "stops" not in page.inner_text("#say")


def test_every_kind_of_step_has_words_and_a_picture(browser: Any, tmp_path: Path) -> None:
    ones, half = [1] * 32, [lane if lane < 16 else None for lane in range(32)]
    said = [
        ({"what": "vote", "how": "ballot", "had": ones, "got": [2**32 - 1] * 32, "rose": {"votes": 1}}, "a vote, ballot", "0xffffffff"),
        ({"what": "vote", "how": "any", "had": ones, "got": ones}, "a vote, any", "true"),
        ({"what": "vote", "how": "redux", "had": ones, "got": [32] * 32}, "a vote, redux", "The result: 32"),
        ({"what": "vote", "how": "elect", "got": [0] * 32}, "a vote, elect", "0x0"),
        ({"what": "shuffle", "how": "idx", "by": 3, "from": [3] * 32, "had": list(range(32)), "got": [3] * 32}, "a shuffle, idx 3",
         "31: 31 ← 3 of 3"),
        ({"what": "warp barrier"}, "__syncwarp", ""),
        ({"what": "barrier arrival"}, "arrives at a barrier of the block and goes on", ""),
        ({"what": "cluster barrier"}, "arrives at the cluster's barrier", ""),
        ({"what": "atomic", "space": "global", "bytes": 4, "of": -1, "lanes": half, "times": 7,
          "rose": {"global_stores": {"sectors": 2, "bytes": 64}}}, "16 lanes × 4 bytes, of several arrays: 2 sectors", "byte 0"),
        ({"what": "load", "space": "global", "bytes": 4, "of": [lane % 2 for lane in range(32)], "lanes": [0] * 32,
          "rose": {"global_loads": {"sectors": 2, "bytes": 8}}}, "13 % of their bytes", "lane 1: array 1, byte 0"),
        ({"what": "store", "space": "shared", "bytes": 8, "of": 3, "lanes": [0, 8], "words": [[0x3F800000] * 32, [0x40000000] * 32],
          "rose": {"shared_stores": {"wavefronts": 2}}}, "of block 3 of the cluster: 2 turns", "31: 1, 2"),
        ({"what": "async store", "space": "shared", "bytes": 8, "of": [0, 1] + [None] * 30, "lanes": [64, 64] + [None] * 30},
         "to blocks 0, 1 of the cluster", "lane 1: block 1, byte 64"),
        ({"what": "bulk copy", "space": "global", "bytes": 8192, "of": 0, "lanes": [32] + [None] * 31,
          "rose": {"global_loads": {"sectors": 256, "bytes": 8192}}}, "1 lane for 8,192 bytes, 256 sectors", "and 128 more sectors"),
        ({"what": "store", "space": "shared", "bytes": 8, "lanes": [0] + [None] * 31, "words": [[1] + [None] * 31]},
         "1 lane × 8 bytes, of a mbarrier: what is done to one is not counted as an access.", "The values"),
    ]  # fmt: skip
    steps = [{"block": 0, "warp": 0, "at": 0, "rose": {}, **event} for event, _, _ in said]
    launch = {"kernel": "void mine<4>", "grid": [1, 1, 1], "block": [32, 1, 1], "places": [""], "lines": {}, "counters": {"votes": 4},
              "allocations": [{"what": "variable x", "bytes": 9000}], "events": steps,
              "left_out": {"of_other_blocks_and_warps": 0, "beyond_the_limit": 0}}  # fmt: skip
    run = {"title": "mine", "command": "./run", "launches": [launch]}
    with Opened(browser, page_of("none", [run]), tmp_path / "page.html") as page:
        for step, (_, words, drawn) in enumerate(said):
            page.evaluate(f"go({step})")
            assert words in page.inner_text("#say") and drawn in page.inner_text("#picture"), page.inner_text("#say")
        page.evaluate("go(8)")
        assert page.inner_text("#say").endswith("7 times in a row: it polls.")
        assert "This is not a line of the repository." in page.inner_text("#chain")
