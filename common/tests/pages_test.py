"""Tests of `generate` and of the numbers in the charts, with fake stages; charts_test.py looks at the drawings."""

import argparse
import json
import re
import sys
from pathlib import Path

import pytest
import synthetic_sweep
from command import ToolError
from fake_stages import COMMIT, Repository
from measure import record, results
from pages import charts, draw, plot

SHAPE = "dtype=f32 rows=49152 cols=1024"
WIDE = "dtype=f16 rows=49152 cols=4096"
END = "<!-- end generated -->"
LADDER = f"<!-- generated: ladder {SHAPE} -->"


def block(marker: str) -> str:
    return f"<!-- generated: {marker} -->\n{END}\n"


def value(marker: str) -> str:
    return f"x <!-- value: {marker} --><!-- end value -->\n"


COPY = value(f"copy_time {SHAPE}")


@pytest.fixture
def lessons(recorded: Repository, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """With charts that `generate` draws without matplotlib."""
    monkeypatch.setattr(draw, "svg", lambda chart: charts.signed(f"<svg>{chart.title}</svg>\n", chart))
    return recorded


def filled(lessons: Repository, text: str, name: str = "README.md") -> str:
    """The text that `generate` puts between the markers."""
    page = lessons.page(text, name)
    lessons.tool("generate")
    found = re.search(r"-->\n?(.*?)\n?<!-- end", page.read_text(encoding="utf-8"), re.S)
    assert found
    return found[1]


def refuse(lessons: Repository, text: str, said: str) -> None:
    """generate refuses the page, says this and leaves it alone."""
    page = lessons.page(text)
    lessons.tool("generate", 1, said)
    assert page.read_text(encoding="utf-8") == text


def test_ladder(lessons: Repository) -> None:
    rows = filled(lessons, block(f"ladder {WIDE}")).splitlines()
    assert rows[2] == "| [01_naive](01_naive/) | thread_per_row | 2 | 81920 | 200 | 5.0 |"
    assert rows[3] == "|  | **block_per_row** | **2** | **20480** | **800** | **20.0** |"
    # `narrow` does not do rows of this width.
    assert rows[4] == "| [02_tiled](02_tiled/) | **wide** | **2** | **8185** | **2002** | **50.0** |"
    assert rows[6] == "| copy | the ceiling: one read, one write | 2 | 4096 | 4000 | 100.0 |"
    for part in ("NVIDIA Fake 1", "f16 49152\u00a0×\u00a04096", "cold L2", "medians of 25 samples", COMMIT[:10]):
        assert part in rows[8]


def test_links_are_relative_to_the_page(lessons: Repository) -> None:
    assert "[01_naive](../01_naive/)" in filled(lessons, block(f"ladder {SHAPE}"), "02_tiled/README.md")
    chart = filled(lessons, block(f"chart a.svg ladder {SHAPE}"), "02_tiled/README.md")
    assert "](../common/results/a.svg)" in chart


def test_stage(lessons: Repository) -> None:
    rows = filled(lessons, block("stage 02_tiled shapes=f32:65536x32,f16:49152x4096")).splitlines()
    assert rows[0] == "| variant | passes | f32 65536\u00a0×\u00a032 | f16 49152\u00a0×\u00a04096 |"
    assert "percent of the copy's speed" in rows[-1]
    assert rows[2] == "| narrow | 2.12 | **60.0** | –<sup>a</sup> |"
    assert rows[3] == "| wide | 2 to 2.12 | 50.0 | **50.0** |"
    assert rows[5] == "<sup>a</sup> <sub>not applicable: cols &gt; 2048 &amp; too wide</sub><br>"
    assert "narrow" not in filled(lessons, block("stage 02_tiled shapes=f16:49152x4096"))


def with_the_library(data: dict) -> None:
    """Adds the library's results, half as fast as those of 03_fast."""
    fast = [r for r in data["results"] if r["stage"] == "03_fast" and r["status"] == "verified"]
    data["results"] += [{**r, "stage": "14_dispatch", "variant": "dispatch", "time_us": 2 * r["time_us"], "percent_of_copy": r["percent_of_copy"] / 2} for r in fast]


def test_the_library_is_beside_a_lesson(lessons: Repository) -> None:
    lessons.change(with_the_library)
    shapes = "shapes=f32:49152x1024,f16:49152x8192"  # the second is too wide for both
    assert "| the library |  | 49.2 | – |" in filled(lessons, block(f"stage 03_fast {shapes}")).splitlines()
    assert "the library" not in filled(lessons, block(f"stage 02_tiled {shapes}"))
    marker = f"percent stage=03_fast variant=only op=softmax_backward {SHAPE}"
    refuse(lessons, value(marker), "nothing recorded at f32:49152x1024")  # of that operation
    assert ("the library", 49.25) in changes(lessons, "03_fast", "f32:49152x1024")


@pytest.mark.parametrize(
    "marker, text",
    {
        f"percent stage=03_fast variant=only {SHAPE}": "98 %",
        f"percent stage=02_tiled variant=best {SHAPE}": "60 %",
        f"percent stage=01_naive variant=thread_per_row {SHAPE}": "5.0 %",
        f"time stage=02_tiled variant=best {SHAPE}": "1707 µs",
        f"ratio a=01_naive/thread_per_row b=02_tiled/best {SHAPE}": "12",
        f"ratio a=01_naive/best b=02_tiled/wide {SHAPE}": "2.5",
        f"copy_time {SHAPE}": "1024 µs",
        f"copy_bandwidth {SHAPE}": "4000 GB/s",
    }.items(),
)
def test_values(lessons: Repository, marker: str, text: str) -> None:
    assert filled(lessons, value(marker)) == text


def of_several(name: str, **more: object) -> dict:
    shape = {"gpus": 2, "dtype": "f32", "rows": 8, "cols": 64, "op": "softmax"}
    return {"stage": "15_several_gpus", "variant": name, **shape, "status": "verified", "reason": "", "copy_us": 3.0, **more}


def test_several_gpus(lessons: Repository) -> None:
    text = block("several_gpus shapes=f32:8x64")
    assert filled(lessons, text).startswith("*Not measured yet")
    data = {"recorded": lessons.data()["recorded"], "machine": {"gpu": "NVIDIA Fake 1"}, "results": [
        of_several("host_collectives", time_us=6.0),
        of_several("device_exchange", time_us=None, copy_us=None, status="not applicable", reason="cols > 2048"),
        of_several("copy", stage="", time_us=4.0, copy_us=None),
        {name: value for name, value in of_several("torch_eager", time_us=40.0).items() if name not in ("reason", "copy_us")},
    ]}  # fmt: skip

    def record() -> None:
        lessons.page(json.dumps(data), "common/results/nvidia-fake-1-several.json")

    record()
    rows = [row.strip("| ").split(" | ") for row in filled(lessons, text).splitlines()]
    assert rows[2:6] == [["host_collectives", "6.00, 50 %"], ["device_exchange", "–<sup>a</sup>"], ["copy", "4.00, 100 %"], ["torch eager", "40.0, 10 %"]]
    assert "2 × NVIDIA Fake 1" in rows[-1][0]
    data["results"] += [of_several("two_all_reduces", time_us=9.0) | {"gpus": gpus} for gpus in (2, 4)]
    data["results"] += [of_several(name, time_us=4.0) | {"gpus": 4} for name in ("host_collectives", "device_exchange", "copy")]
    record()
    picture, _, *rows = [row.strip("| ").split(" | ") for row in filled(lessons, block("predicted_gpus shape=f32:8x64")).splitlines()]
    assert picture[0].endswith("by number of GPUs](common/results/several-gpus.svg)")
    assert "Softmax, f32 8 × 64, columns split over GPUs" in (lessons.results / "several-gpus.svg").read_text(encoding="utf-8")
    assert rows[0] == ["µs", "2 GPUs, predicted", "2 GPUs, measured", "4 GPUs, predicted", "4 GPUs, measured"]
    # 2 copies of 4 µs and 2 exchanges of 15 µs; 1.5 and 1; 1 and none.
    predicted = {row[0]: row[1::2] for row in rows[2:5]}
    assert predicted == {"two_all_reduces": ["38.0"] * 2, "host_collectives": ["21.0"] * 2, "device_exchange": ["4.00"] * 2}
    assert (rows[2][2::2], rows[4][2::2], "2 and 4 × NVIDIA Fake 1" in rows[-1][0]) == (["9.00"] * 2, ["–", "4.00"], True)
    lessons.page(block("several_gpus shapes=f32:8x65"))
    lessons.tool("generate", 1, "no host_collectives of softmax at f32:8x65 on 2 GPUs in nvidia-fake-1-several.json")
    data["results"][0]["time_us"] = 0
    record()
    lessons.tool("generate", 2, "nvidia-fake-1-several.json is no results file: result 1: 'time_us' is ")


def verdict(percent: float, op: str = "softmax", offset: int = 0, chosen: str = "fused") -> dict:
    shape = {"dtype": "bf16", "rows": 8, "cols": 100, "offset": offset}
    return {"op": op, **shape, "chosen": chosen, "fastest": "fused" if percent > 99 else "held", "percent": percent}


VERDICTS = [verdict(100.0), verdict(89.95, "log_softmax", 1, "online"), verdict(96.5), verdict(97), verdict(98, "cross_entropy_gradient")]


def test_the_library_s_choices(lessons: Repository) -> None:
    for marker in ("judged", "chart a.svg judged"):
        refuse(lessons, block(marker), "no verdicts in common/results: run ./run tune --judge on a GPU first")
    machine = {"gpu": "NVIDIA Fake 1", "table": "the table of NVIDIA Fake 1 in a.table"}
    command = "./run tune --judge 4 --seed 5"
    data = {"recorded": {**lessons.data()["recorded"], "command": command}, "machine": machine, "results": VERDICTS}
    file = lessons.page(json.dumps(data), "common/results/nvidia-fake-1-judged.json")
    assert filled(lessons, COPY) == "1024 µs"  # it is not a file of `record`
    _, _, *rows, empty, source = filled(lessons, block("judged")).splitlines()
    assert rows == [
        "| softmax | 4 | 95.9 | 50.0 % | 75.0 % | 90.0 | log_softmax bf16 8\u00a0×\u00a0100, offset 1 | online | held |",
        "| cross_entropy_gradient | 1 | 98.0 | 100.0 % | 100.0 % | 98.0 | bf16 8\u00a0×\u00a0100 | fused | held |",
    ]
    assert f"{machine['table']}; recorded" in source and f"by `{command}`" in source
    assert filled(lessons, block("chart a.svg judged")).endswith("softmax 90 %; cross_entropy_gradient 98 %](common/results/a.svg)")
    lines = charts.judged(data).data["lines"]
    assert [(line["label"], line["percents"]) for line in lines] == [("softmax", [89.95, 96.5, 97, 100.0]), ("cross_entropy_gradient", [98])]
    data["results"] = []
    file.write_text(json.dumps(data))
    lessons.page(block("judged"))
    lessons.tool("generate", 2, "nvidia-fake-1-judged.json is no results file: 'results' is empty")


def test_chart_over_the_number_of_gpus() -> None:
    times = {"chunked": {2: 8.0, 4: 4.0}, "copy": {2: 4.0, 4: 2.0}, "torch_eager": {4: 16.0}}
    data = charts.over_gpus({"gpu": "NVIDIA Fake 1"}, {"date_utc": "2099-01-01T00"}, results.Shape("f32", 8, 1000), times).data
    (panel,) = data["panels"]
    assert (data["cols"], data["across"], panel["copy"]["points"]) == ([2, 4], "GPUs", [[2, 16.0], [4, 32.0]])  # 64000 bytes
    assert {line["label"]: line["points"] for line in panel["lines"]} == {"chunked": [[2, 8.0], [4, 16.0]], "torch_eager": [[4, 4.0]]}


def test_text_around_the_markers_stays(lessons: Repository) -> None:
    copy = f"<!-- value: copy_time {SHAPE} -->{{}}<!-- end value -->"
    text = f"# Ä title\n\nOn {copy} and {copy}.  \n\n{LADDER}\n{{}}{END}\nEnd without a line break"
    page = lessons.page(text.format("", "old", ""))
    lessons.tool("generate")
    written = page.read_text(encoding="utf-8")
    table = re.search(rf"{LADDER}\n(.*){END}", written, re.S)
    assert table and written == text.format("1024 µs", "1024 µs", table[1])
    assert lessons.tool("generate --check") == ""


def test_check_catches_a_changed_digit_and_changes_nothing(lessons: Repository) -> None:
    chart = block(f"chart a.svg ladder {SHAPE}")
    page = lessons.page(f"{chart}\n{value(f'percent stage=02_tiled variant=best {SHAPE}')}")
    lessons.tool("generate")
    assert lessons.tool("generate --check") == ""
    good = page.read_text(encoding="utf-8")
    lessons.page(good.replace("60 %<", "61 %<"))
    lessons.tool("generate --check", 1, "differs: README.md:5: percent stage=02_tiled")
    assert "61 %" in page.read_text(encoding="utf-8")
    lessons.page(good)
    svg = lessons.results / "a.svg"
    drawn = svg.read_text(encoding="utf-8")
    for changed in (drawn.replace("Softmax", "softmax"), drawn.replace("numbers ", "numbers 0"), drawn + "\n", ""):
        svg.write_text(changed, encoding="utf-8")
        lessons.tool("generate --check", 1, "differs: common/results/a.svg")
    svg.unlink()
    lessons.tool("generate --check", 1)
    assert not svg.exists()


@pytest.mark.parametrize(
    "text, said",
    {
        # A marker that is none of a pair.
        f"\n\n{LADDER}\n": f"README.md:3: this is no marker, or none of a pair: {LADDER}",
        f"\n{END}\n": "README.md:2: this is no",
        f"{LADDER}\n<!-- end value -->\n": "README.md:1: this is no",
        f"{LADDER}\n{LADDER}\n{END}\n": "README.md:2: this is no",
        f"{block('lader')}<!-- generate: ladder -->\n": "README.md:1: lader: unknown block 'lader'; there are: ladder",
        "<!--generated: ladder-->\n": "README.md:1: this is no",
        f"{LADDER} {END}\n": "README.md:1: the markers of a block stand on lines of their own",
        f"{LADDER}\ntext {END}\n": "README.md:1: the markers of a block",
        f"a\n  {COPY[2:]}": "README.md:2: a value cannot begin a line",
        f"- {COPY[2:]}": "README.md:1: a value cannot begin a line",
        value("speed"): "README.md:1: speed: unknown value 'speed'; there are: percent",
        # Not the words that it takes.
        block("ladder dtype=f32 rows=49152"): "README.md:1: ladder: missing a required argument: 'shape'",
        block("ladder dtype=f32 rows=49152 cols=x"): "shape 'f32:49152xx' is not DTYPE:ROWSxCOLS",
        block(f"ladder {SHAPE} cols=8"): "an argument is given twice",
        block(f"ladder {SHAPE} colour=blue"): "unexpected keyword argument 'colour'",
        block(f"chart a.svg ladder {SHAPE} more"): "chart: multiple values for argument 'shape'",
        block(f"chart A.svg ladder {SHAPE}"): "not a file name",
        block(f"chart a.svg pie {SHAPE}"): "unknown chart 'pie'",
        block("hardware_table more"): "unknown part 'more'; there are: agreement, differences",
        # Missing recordings.
        block("ladder dtype=f32 rows=49152 cols=999"): "nothing recorded at f32:49152x999",
        block("stage 07_none shapes=f32:49152x1024"): "no such stage: '07_none'; there are: 01_naive",
        block("chart a.svg bandwidth dtype=bf16 rows=49152"): "nothing recorded for bf16",
        block("chart a.svg table oneflow"): "no sweep's file in common/results",
        block("counters 01_naive columns=registers"): "nvidia-fake-1-profile.json",
        value(f"counted column=shuffles stage=01_naive variant=block_per_row {SHAPE}"): "simulator.json",
        block(f"chart a.svg ladder {SHAPE}") + block("chart a.svg predicted"): "two different charts are named a.svg",
        value(f"percent stage=01_naive variant=none {SHAPE}"): "no variant 'none'",
        value(f"percent stage=02_tiled variant=narrow {WIDE}"): "has no time at f16:49152x4096: cols > 2048",
        value("time stage=03_fast variant=best dtype=f16 rows=49152 cols=8192"): "no variant of 03_fast is applicable",
    }.items(),
)
def test_what_is_wrong_is_named_with_its_line(lessons: Repository, text: str, said: str) -> None:
    refuse(lessons, text, said)


def test_an_error_on_one_page_leaves_every_page_alone(lessons: Repository) -> None:
    lessons.page(f"{END}\n", "03_fast/README.md")
    refuse(lessons, block(f"ladder {SHAPE}"), "03_fast/README.md:1")


def test_a_stage_without_results_is_an_error(lessons: Repository) -> None:
    lessons.page("", "04_new/main.cu")
    refuse(lessons, block(f"ladder {SHAPE}"), "differ in 04_new: record again")


def test_pages_without_numbers_need_no_results(lessons: Repository) -> None:
    lessons.file.unlink()
    lessons.page("# Only words, and <!-- a comment -->\n")
    assert lessons.tool("generate --check") == ""
    refuse(lessons, COPY, "no results file in common/results")


def test_the_newest_recording_is_taken(lessons: Repository) -> None:
    data = lessons.data()
    data["recorded"]["date_utc"] = "2001-01-01T00:00:00Z"
    data["machine"]["gpu"] = "An old one"
    old = lessons.page(json.dumps(data), "common/results/zz-old.json")
    for name in ("simulator", "zz-simulator", "zz-profile"):
        lessons.page("not even JSON", f"common/results/{name}.json")
    assert "NVIDIA Fake 1" in filled(lessons, block(f"ladder {SHAPE}"))
    lessons.tool(f"generate --results {old}")
    assert "An old one" in (lessons.root / "README.md").read_text(encoding="utf-8")


def second_gpu(lessons: Repository) -> None:
    """Files of another GPU, recorded later, on which everything takes twice the time."""
    recording = lessons.data()
    for data, suffix in ((recording, ""), (synthetic_sweep.sweep(), "-sweep")):
        (lessons.results / f"nvidia-fake-1{suffix}.json").write_text(json.dumps(data))
        data["recorded"]["date_utc"], data["machine"]["gpu"] = "2031-01-01T00:00:00Z", "NVIDIA Fake 2"
        for result in data["results"]:
            if result["time_us"]:
                result.update(time_us=2 * result["time_us"], copy_us=2 * result["copy_us"])
        (lessons.results / f"nvidia-fake-2{suffix}.json").write_text(json.dumps(data))


def test_a_second_gpu_s_files(lessons: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages stay with the lessons' GPU, and a block, a value or a whole run may choose another's."""
    second_gpu(lessons)
    for stage in {r["stage"] for r in synthetic_sweep.sweep()["results"] if r["kind"] == "stage"}:
        (lessons.root / stage).mkdir(exist_ok=True)
    ladder, chart = f"ladder {SHAPE}", f"chart a.svg ladder {SHAPE}"
    other = "gpu=nvidia-fake-2"
    assert filled(lessons, COPY) == "2048 µs"  # the newest
    monkeypatch.setattr(results, "LESSONS_GPU", "nvidia-fake-1")
    assert filled(lessons, COPY) == "1024 µs"
    assert filled(lessons, value(f"copy_time {SHAPE} {other}")) == "2048 µs"
    assert "<sub>NVIDIA Fake 1," in filled(lessons, block(ladder))
    assert "<sub>NVIDIA Fake 2," in filled(lessons, block(f"{ladder} {other}"))
    assert "| copy | the ceiling: one read, one write | 2 | 2048 |" in filled(lessons, block(f"{ladder} {other}"))
    two = block(chart) + block(f"{chart.replace('a.svg', 'b.svg')} {other}")
    assert "a.svg" in filled(lessons, two) and lessons.tool("generate --check") == ""
    refuse(lessons, block(chart) + block(f"{chart} {other}"), "two different charts are named a.svg")
    oneflow = block(f"chart a.svg table oneflow {other}")
    assert "a.svg" in filled(lessons, oneflow)
    lessons.tool("generate --gpu nvidia-fake-2")
    lessons.page(COPY)
    lessons.tool("generate --gpu nvidia-fake-2")
    assert "2048 µs" in (lessons.root / "README.md").read_text(encoding="utf-8")
    said = "no nvidia-fake-3.json in common/results; there are: nvidia-fake-1.json, nvidia-fake-2.json"
    refuse(lessons, value(f"copy_time {SHAPE} gpu=nvidia-fake-3"), said)
    (lessons.results / "nvidia-fake-2-sweep.json").unlink()
    refuse(lessons, oneflow, "no nvidia-fake-2-sweep.json in common/results")


def test_plot_and_report_show_one_gpu(lessons: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    def shown(**named: Path) -> list[str]:
        arguments = argparse.Namespace(root=lessons.root, **{"results": None, "sweep": None, **named})
        return [found.path.name if found else "" for found in plot.find_sources(arguments)]

    second_gpu(lessons)
    one, two = ([f"nvidia-fake-{n}.json", f"nvidia-fake-{n}-sweep.json"] for n in (1, 2))
    assert shown() == two  # the newest
    assert shown(results=lessons.results / one[0]) == shown(sweep=lessons.results / one[1]) == one
    assert shown(results=lessons.results / one[0], sweep=lessons.results / two[1]) == [one[0], two[1]]
    assert capsys.readouterr().out == ""
    (lessons.results / two[0]).unlink()
    assert shown() == ["", two[1]]
    assert "no file of `record` of nvidia-fake-2 in common/results: without the ladder" in capsys.readouterr().out


def test_charts_follow_the_numbers(lessons: Repository) -> None:
    kinds = (f"ladder {SHAPE}", "bandwidth dtype=f16 rows=49152", f"roofline {SHAPE}", "predicted")
    lessons.page("".join(block(f"chart {kind.split()[0]}.svg {kind}") for kind in kinds))
    lessons.tool("generate")
    assert lessons.tool("generate --check") == ""
    changed = {"time_us": 1.0, "copy_us": 0.5, "percent_of_copy": 50.0, "bandwidth_gb_s": 9999}
    where = ("wide", 8192)
    lessons.change(lambda data: [r.update(changed) for r in data["results"] if (r["variant"], r["cols"]) == where])
    # The ladder and the roofline are of another width.
    assert re.findall(r"/(\w+)\.svg", lessons.tool("generate --check", 1)) == ["bandwidth", "predicted"]


def test_a_sweep_s_table(lessons: Repository) -> None:
    refuse(lessons, block("sweep oneflow"), "README.md:1: sweep: no sweep's file in common/results")
    lessons.page(json.dumps(synthetic_sweep.sweep()), "common/results/nvidia-fake-1-sweep.json")
    assert filled(lessons, COPY) == "1024 µs"  # of the recording, which is older
    tables = "no table 'twoflow' in nvidia-fake-1-sweep.json; there are: fastertransformer, oneflow"
    for what in ("sweep", "chart a.svg table"):
        refuse(lessons, block(f"{what} twoflow"), tables)
    assert "the library, % of copy" in filled(lessons, block("sweep oneflow"))
    refuse(lessons, block("chart a.svg table awkward"), "'awkward' is no row of widths")
    assert "f16, 49152 rows" in filled(lessons, block("chart a.svg table oneflow"))


def test_who_leads_and_whatever_is_as_fast_is_bold(lessons: Repository) -> None:
    data = synthetic_sweep.sweep()
    for name in sorted({r["stage"] for r in data["results"]} - {""}):
        (lessons.root / name).mkdir(exist_ok=True)
        (lessons.root / name / "main.cu").touch()
    here = {r["contender"]: r for r in data["results"] if (r["dtype"], r["rows"], r["cols"]) == ("f16", 49152, 32)}
    path = lessons.results / "nvidia-fake-1-sweep.json"
    for percent, bold in {97.0: ["97.4", "97.0"], 96.0: ["97.4"], 98.0: ["97.4", "98.0"], 99.0: ["99.0"]}.items():
        copy = here["quack softmax"]["time_us"] * percent / 100
        here["quack softmax"].update(copy_us=copy, percent_of_copy=percent)
        path.write_text(json.dumps(data))
        row = filled(lessons, block("sweep oneflow")).splitlines()[2]
        assert re.findall(r"\*\*(.*?)\*\*", row) == bold


def test_the_best_library_beside_the_best_variant(lessons: Repository) -> None:
    marker = block("libraries oneflow op=softmax_backward")
    assert filled(lessons, marker).startswith("*Not measured yet: `./run sweep --op softmax_backward`")
    data = synthetic_sweep.sweep()
    file = lessons.page(json.dumps(data), "common/results/nvidia-fake-1-sweep-softmax_backward.json")
    refuse(lessons, marker, "nothing recorded at f16:49152x32")  # of that operation
    for result in data["results"]:
        result["op"] = "softmax_backward"
    for result in data["results"]:  # no library at this one
        if result["cols"] == 64 and result["kind"] == "peer":
            result.update(dict.fromkeys(results.NUMBERS), status="not applicable", reason="too narrow")
    data["recorded"]["command"] = "./run sweep --op softmax_backward"
    file.write_text(json.dumps(data))
    header, _, first, second, *_, last = filled(lessons, marker).splitlines()
    assert header == "| shape | ceiling (µs) | rowwise, % of the ceiling | best of the others, % of the ceiling |"
    assert first == "| f16 49152\u00a0×\u00a032 | 3.46 | **97.4** | quack 90.0 softmax |"
    assert second.endswith("** | – |")
    assert "PyTorch 2.9" not in last and "quack 0.2" in last  # those in the table
    assert "softmax_backward, cold L2" in last and "by `./run sweep --op softmax_backward` at" in last
    refuse(lessons, block("libraries oneflow op=max"), "nobody sweeps 'max'; there are: softmax, softmax_backward")


def test_each_lesson_beside_the_libraries(lessons: Repository) -> None:
    data = synthetic_sweep.sweep()
    lessons.page(json.dumps(data), "common/results/nvidia-fake-1-sweep.json")
    for stage in ("02_fused_block", "03_warp_reduce", "14_dispatch"):
        lessons.page("", f"{stage}/main.cu")
        lessons.page(block(f"stage {stage} shapes=f16:49152x32,f16:49152x64"), f"{stage}/README.md")
    header, _, first, second, *_ = filled(lessons, block("lessons op=softmax")).splitlines()
    assert header == "| lesson | shape | its best, % of copy | the library, % of copy | best of the others, % of copy |"
    assert first == "| [03_warp_reduce](03_warp_reduce/) | f16 49152\u00a0×\u00a032 | **97.9** packs | **97.4** | quack 90.0 softmax |"
    assert second.startswith("|  | f16 49152\u00a0×\u00a064 | ")
    lessons.page(block("stage 03_warp_reduce shapes=f16:49152x33"), "03_warp_reduce/README.md")
    refuse(lessons, block("lessons op=softmax"), "f16:49152x33 is in no recorded table of the sweep of softmax")


# --- The numbers of the charts ---------------------------------------------------------------------


def changes(repository: Repository, stage: str, shape: str) -> list[tuple[str, float]]:
    names = ["01_naive", "02_tiled", "03_fast"]
    chart = charts.change(results.Recorded(repository.file), results.parse_shape(shape), stage, names)
    assert chart.alt.endswith("; the copy 100 %")
    return [(bar["name"], bar["percent"]) for bar in chart.data["bars"]]


def test_what_a_stage_changes(recorded: Repository) -> None:
    assert changes(recorded, "02_tiled", "f32:49152x1024") == [("01 block_per_row", 20.0), ("02 narrow", 60.0)]
    assert changes(recorded, "01_naive", "f32:49152x1024") == [("01 block_per_row", 20.0)]  # none was before it
    assert [name for name, _ in changes(recorded, "03_fast", "f16:49152x4096")] == ["02 wide", "03 only"]
    with pytest.raises(ToolError, match="no variant of 03_fast is applicable"):
        changes(recorded, "03_fast", "f16:49152x8192")
    recorded.change(lambda data: data.update(results=[r for r in data["results"] if r["stage"] != "01_naive"]))
    assert changes(recorded, "02_tiled", "f32:49152x1024") == [("02 narrow", 60.0)]


def recorded_charts(repository: Repository) -> dict[str, charts.Chart]:
    return charts.of_recording(results.Recorded(repository.file))


def test_a_file_s_charts(recorded: Repository) -> None:
    names = ["ladder-f32", "bandwidth-f16-49152", "bandwidth-f32-1024", "roofline-f32", "predicted"]
    assert list(recorded_charts(recorded)) == names
    quick = [r for r in recorded.data()["results"] if (r["dtype"], r["rows"], r["cols"]) == ("f32", 49152, 1024)]
    recorded.change(lambda data: data.update(results=quick))
    assert list(recorded_charts(recorded)) == ["ladder-f32", "roofline-f32", "predicted"]


def test_bandwidth(recorded: Repository) -> None:
    data = recorded_charts(recorded)["bandwidth-f16-49152"].data
    assert 1001 not in data["cols"]  # an odd width is not on a log2 axis
    (panel,) = data["panels"]
    assert [line["label"] for line in panel["lines"]] == ["01_naive", "02_tiled", "03_fast, to 4096"]
    points = dict(panel["lines"][1]["points"])
    assert (points[2048], points[4096]) == (2400, 2001.6)  # 02_tiled's best is `narrow` as far as it goes


def test_libraries_have_a_panel_of_their_own(recorded: Repository) -> None:
    path = recorded.page(json.dumps(synthetic_sweep.sweep()), "common/results/a-sweep.json")
    found = charts.of_sweep(results.Recorded(path))
    assert list(found) == ["sweep-fastertransformer", "sweep-oneflow", "sweep-triton-article"]
    stages, libraries = found["sweep-oneflow"].data["panels"]
    best, *peers = libraries["lines"]
    assert [peer["label"] for peer in peers] == ["pytorch", "triton", "cudnn", "quack", "liger", "flashinfer"]
    of_stages = [dict(line["points"]) for line in stages["lines"]]
    assert best["points"] == [[32 << p, max(points.get(32 << p, 0) for points in of_stages)] for p in range(11)]
    # Triton's fused kernel ends at 16384 columns, its online one goes on.
    assert len(peers[1]["points"]) == 11
    assert [line["label"] for line in stages["lines"] if line["noisy"]] == ["06_online"]


def test_heat_map(recorded: Repository) -> None:
    data = synthetic_sweep.sweep()
    for result in data["results"]:
        if result["stage"] == "02_fused_block":
            result["stage"] = "02_tiled"  # as the recording's
    sweep = results.Recorded(recorded.page(json.dumps(data), "common/results/a-sweep.json"))
    both, alone, neither = map(results.parse_shape, ("f16:49152x4096", "f32:1024x256", "f32:7x7"))
    record = results.Recorded(recorded.file)

    def percent(sources: list[results.Recorded], label: str) -> list[float | None]:
        chart = charts.heat_map(sources, [both], [alone], [neither], ["02_tiled", "03_fast"])
        assert chart.data["groups"] == [["f16 49152 × 4096"], ["f32 1024 × 256"], ["f32 7 × 7"]]
        return next(line["percent"] for line in chart.data["stages"] + chart.data["peers"] if line["label"] == label)

    swept = [sweep.best("02_tiled", shape) for shape in (both, alone)]
    assert percent([sweep, record], "02_tiled") == [*(best and best["percent_of_copy"] for best in swept), None]
    assert percent([record, sweep], "02_tiled")[0] == record.best("02_tiled", both)["percent_of_copy"]
    assert percent([sweep, record], "03_fast") == [record.best("03_fast", both)["percent_of_copy"], None, None]
    best = [max(r["percent_of_copy"] for r in sweep.at(shape) if r["kind"] == "peer" and r["time_us"]) for shape in (both, alone)]
    assert percent([sweep, record], "best other library") == [*best, None] != percent([sweep, record], "PyTorch")


def test_roofline_and_prediction(recorded: Repository) -> None:
    found = recorded_charts(recorded)
    point = next(p for p in found["roofline-f32"].data["points"] if p["variant"] == "narrow")
    # 60 % of a copy that takes 1024 µs; 2 + 4/1024 passes of 4 bytes.
    assert point["g_elements_per_s"] == pytest.approx(49152 * 1024 / (1024 / 0.6) / 1000)
    assert point["elements_per_byte"] == pytest.approx(1 / (4 * (2 + 4 / 1024)))
    assert point["best"]
    points = found["predicted"].data["points"]
    point = next(p for p in points if p["variant"] == "narrow")
    assert point["predicted_us"] == pytest.approx(1024 * (2 + 4 / 1024) / 2)
    assert point["measured_us"] == pytest.approx(1024 / 0.6)
    lessons = [lesson for lesson in record.LESSONS if lesson.op == "softmax" and lesson.since <= "01"]
    cols = [cols for lesson in lessons for cols in lesson.cols]
    assert len(points) == sum(5 - (c > 2048) - (c > 4096) for c in cols)  # without the widths that `narrow` and `only` refuse


def test_special_function_peak() -> None:
    machine = {"gpu": "B", "multiprocessors": 100, "max_sm_clock_mhz": 1500}
    peak = charts.special_function_peak(machine)
    assert peak and peak["g_per_s"] == pytest.approx(2400) and "1500 MHz (highest clock)" in peak["how"]
    assert charts.special_function_peak({**machine, "max_sm_clock_mhz": None}) is None


@pytest.mark.parametrize("tool", ["plot", "report", "generate"])
def test_without_matplotlib(recorded: Repository, monkeypatch: pytest.MonkeyPatch, tool: str) -> None:
    for package in ("matplotlib", "jinja2"):
        monkeypatch.setitem(sys.modules, package, None)
    recorded.page(block("chart a.svg predicted"))
    printed = recorded.tool(tool, 2)
    assert printed.count("\n") == 1 and re.search(r"is missing .*: ./run plot fetches it into .tools/python", printed)
    assert recorded.files() == [recorded.file.name]
    assert not (recorded.build / "charts").exists() and not (recorded.build / "report.html").exists()


@pytest.mark.parametrize("tool", ["plot", "report"])
def test_a_file_that_is_not_there(repository: Repository, tool: str) -> None:
    for option in ("--results", "--sweep"):
        repository.tool(f"{tool} {option} no.json", 2, "there is no file 'no.json'")
