"""Tests of the recordings of the stages, on a GPU (record) and on the simulator (count): the stages are fakes."""

import re
import shutil
import subprocess

import pytest
from command import ToolError
from fake_stages import COMMIT, MACHINE, Repository, quietly, script
from measure import count, record, results

# The fakes are stages 01 to 03.
OF_THEM = [each for each in record.LESSONS if each.op == "softmax" and each.since <= "01"]
SHAPES = [(each.dtype, each.rows, cols) for each in OF_THEM for cols in each.cols]


def test_all_stages_and_shapes_are_merged_into_one_file(repository: Repository) -> None:
    """The copy with the median time, among those of all stages, stands for the shape."""
    repository.mode("01_naive", "slow copy 2.0")
    repository.mode("02_tiled", "slow copy 3.0")
    printed = repository.tool("record")
    assert (repository.files(), len(SHAPES)) == (["nvidia-fake-1.json"], len(set(SHAPES))), printed
    data = repository.data()
    assert (data["recorded"]["commit"], data["recorded"]["dirty"]) == (COMMIT, False)
    assert {"driver_version", "nvcc", *MACHINE} <= set(data["machine"])
    timed = [r for r in data["results"] if r["stage"]]
    assert (len(timed), len(data["results"]) - len(timed)) == (len(SHAPES) * 5, len(SHAPES))  # one copy per shape
    assert str(repository.root) not in repository.file.read_text(encoding="utf-8")
    shape = results.Shape("f32", 49152, 1024)
    recorded = results.Recorded(repository.file)
    assert recorded.copy(shape)["time_us"] == 2048
    found = [recorded.best(stage, shape) for stage in repository.stages]  # each by its own copy
    assert [(best["copy_us"], round(best["percent_of_copy"])) for best in found] == [(2048, 20), (3072, 60), (1024, 98)]


def test_each_operation_has_a_copy_of_its_own(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    ops = ("softmax", "log_softmax")
    monkeypatch.setattr(results, "OPERATIONS", dict.fromkeys(repository.stages, ops))
    monkeypatch.setattr(record, "LESSONS", [record.Lesson("f32", 64, (1024,), op) for op in ops])
    repository.tool("record")
    recorded = results.Recorded(repository.file)
    assert [len(recorded.at(results.Shape("f32", 64, 1024), op)) for op in ops] == [5 + 1, 5 + 1]


def test_quick_stays_out_of_the_results(repository: Repository) -> None:
    repository.tool("record --quick")
    assert repository.files() == []
    recorded = results.Recorded(repository.build / "nvidia-fake-1-quick.json")
    assert {(r["dtype"], r["rows"], r["cols"]) for r in recorded.results} == {("f32", 49152, 1024)}


def test_the_library_is_recorded_with_the_stages(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "OPERATIONS", {})  # like the stages, it does softmax here
    main = repository.root / "common/rowwise/bench/main.cu"
    main.parent.mkdir(parents=True)
    main.touch()
    repository.tool("record --quick", 1, f"not built: {repository.build / results.OF_LIBRARY}")
    shutil.copy(repository.build / "03_fast", repository.build / results.OF_LIBRARY)
    repository.tool("record --quick")
    of_all = results.Recorded(repository.build / "nvidia-fake-1-quick.json").results
    assert {result["stage"] for result in of_all} == {*repository.stages, results.OF_LIBRARY, ""}


def test_another_gpu_s_recording_stays(recorded: Repository) -> None:
    before = recorded.file.read_text(encoding="utf-8")
    for stage in recorded.stages:
        recorded.mode(stage, "other machine")
    recorded.tool("record")
    assert recorded.files() == ["another.json", "nvidia-fake-1.json"]
    assert recorded.file.read_text(encoding="utf-8") == before


@pytest.mark.parametrize(
    "mode, named",
    [
        ("wrong", "only f32:49152x1024: wrong. row 3 differs"),
        ("failed", "only f32:49152x1024: failed. row 3 differs"),
        ("failed silently", "exit code 1"),
        ("exit 4", "1024: exit code 4. the stage's last words"),
        ("garbage", "not the expected JSON"),
        ("other machine", "different machines"),
        ("without a time", "is verified, and its 'time_us' is None"),
        ("twice", "result 4 has the place of result 3"),
    ],
)
def test_whatever_goes_wrong_nothing_is_written(repository: Repository, mode: str, named: str) -> None:
    repository.file.write_text("the old recording")
    repository.mode("02_tiled" if mode == "twice" else "03_fast", mode)
    printed = repository.tool(f"record --quick --out {repository.file}", 1, named)
    assert ("JSON" in printed) == (mode == "garbage"), printed
    assert ("03_fast f32 49152 x 1024: FAILED" in printed) == (mode.split()[0] in ("wrong", "failed", "exit", "garbage")), printed
    assert (repository.file.read_text(), repository.files()) == ("the old recording", [repository.file.name])


def test_no_gpu_not_built_and_a_stage_that_hangs(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.mode("02_tiled", "exit 3")
    repository.tool("record --quick", 3, "the stage's last words")
    assert repository.files() == []
    (repository.build / "02_tiled").unlink()
    repository.tool("record --quick", 1, "not built")
    script(repository.build / "02_tiled", "#!/bin/sh\nsleep 60\n")
    monkeypatch.setattr(record, "RUN_TIMEOUT_S", 0.2)
    repository.tool("record --quick", 1, "took longer")


KEPT = "in the interrupted recording"


def test_an_interrupted_recording_goes_on(repository: Repository) -> None:
    repository.mode("02_tiled", "wrong")
    assert KEPT not in repository.tool("record --quick", 1, "nothing was written")
    repository.mode("02_tiled", "")
    (repository.build / "03_fast").touch()  # built again
    printed = repository.tool(f"record --quick --out {repository.root}/01_naive/main.cu/no.json", 1, "File exists")
    assert [line.split()[2] for line in printed.splitlines() if KEPT in line] == ["01_naive"], printed
    assert repository.tool("record --quick").count(KEPT) == len(repository.stages)
    of_all = results.Recorded(repository.build / "nvidia-fake-1-quick.json").results
    assert {result["stage"] for result in of_all} == {*repository.stages, ""}
    assert KEPT not in repository.tool("record --quick")  # the journal of a written file is forgotten


def test_a_quick_recording_leaves_an_interrupted_long_one_alone(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "LESSONS", record.LESSONS[:1])
    repository.mode("02_tiled", "wrong")
    repository.tool("record", 1)
    repository.mode("02_tiled", "")
    assert KEPT not in repository.tool("record --quick")
    assert repository.tool("record").count(KEPT) == len(repository.stages) - 1


def test_what_is_refused_is_not_kept(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.mode("02_tiled", "other machine")
    repository.tool("record --quick", 1, "different machines")
    repository.mode("02_tiled", "wrong")
    assert KEPT not in repository.tool("record --quick", 1)
    monkeypatch.setattr(results, "software_versions", lambda _: {"driver_version": "another"})
    assert KEPT not in repository.tool("record --quick", 1)


def test_of_a_working_tree_nothing_is_kept(repository: Repository) -> None:
    repository.mode("02_tiled", "wrong")
    for _ in range(2):
        code, printed = quietly("record", "--quick", "--root", str(repository.root), "--commit", COMMIT + "-dirty")
        assert (code, KEPT in printed) == (1, False), printed


def test_the_commit_is_given(repository: Repository) -> None:
    code, printed = quietly("record", "--root", str(repository.root))
    assert (code, "pass --commit" in printed) == (1, True)
    assert results.commit_of(repository.root, results.commit_given("0123456-dirty")) == ("0123456", True)
    # `./run sweep` detects bad usage by --list, before it builds.
    for tool in ("record", "hardware_table", "several_gpus", "profile", "sweep --list"):
        code, printed = quietly(*tool.split(), "--root", str(repository.root), "--commit", "main")
        assert (code, "'main' is not HASH" in printed) == (2, True), tool


@pytest.mark.skipif(not shutil.which("git"), reason="git is not here: which commit is recorded was not tested")
def test_the_commit_is_git_s(repository: Repository) -> None:
    def git(*words: str) -> None:
        name = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(repository.root), *name, *words], check=True, capture_output=True)

    git("init")
    git("add", "01_naive/main.cu")
    git("commit", "-m", "first")
    commit, dirty = results.commit_of(repository.root, None)
    assert re.fullmatch("[0-9a-f]{40}", commit)
    assert dirty  # the other stages are not committed
    git("add", ".")
    git("commit", "-m", "second")
    (repository.results / "new.json").write_text("{}")
    repository.page("a lesson's text")
    assert not results.commit_of(repository.root, None)[1]
    with pytest.raises(ToolError, match="pass --commit"):  # of a repository that merely surrounds it
        results.commit_of(repository.root / "01_naive", None)


# --- Counted on the simulator ------------------------------------------------------------------------


@pytest.fixture
def counted(repository: Repository) -> Repository:
    """With simulator.json, which is `file` here."""
    repository.file = repository.results / "simulator.json"
    repository.tool("count")
    return repository


def test_every_variant_is_counted_and_checked(counted: Repository) -> None:
    before = counted.data()
    entries = before["counted"]
    assert len(entries) == 5 * len(count.DEFAULT_SHAPES)
    assert (entries[0]["counted_shuffles"], "time_us" in entries[0]) == (1024, False)
    assert counted.tool("count --check") == ""
    counted.mode("02_tiled", "counts more")
    counted.tool("count --check", 1, "differs: 02_tiled wide f32:64x1024: counted_shuffles was 1024, is 2048")
    assert counted.data() == before


def test_check_catches_a_variant_that_is_new_or_gone(counted: Repository) -> None:
    counted.change(lambda data: data["counted"][0].update(variant="old_name"))
    printed = counted.tool("count --check", 1, "01_naive thread_per_row f32:64x1024: not recorded")
    assert "01_naive old_name f32:64x1024: recorded, and no longer counted" in printed


def test_another_nvcc_may_count_otherwise(counted: Repository) -> None:
    counted.change(lambda data: data.update(nvcc="1.2.3"))
    counted.tool("count --check")  # it counts the same
    counted.mode("02_tiled", "counts more")
    said = r"skipped: recorded with nvcc 1\.2\.3, compiled here with \S+, and \d+ numbers differ\n"
    assert re.match(said, counted.tool("count --check", 3))


def test_what_cannot_be_counted_is_not_written(repository: Repository) -> None:
    repository.mode("03_fast", "failed")
    repository.tool("count", 1, "row 3 differs")
    assert repository.files() == []
    repository.mode("03_fast", "")
    repository.tool("count --check", 1)  # nothing recorded either


def test_markers_that_name_what_is_not_counted(counted: Repository) -> None:
    for marker, said in {
        "dtype=f16 rows=64 cols=999 columns=passes": "nothing counted for 02_tiled at f16:64x999",
        "dtype=f16 rows=64 cols=1024 columns=speed": "column 'speed'",
    }.items():
        counted.page(f"<!-- generated: counted 02_tiled {marker} -->\n<!-- end generated -->\n")
        counted.tool("generate", 1, said)


def test_percentages_for_the_simulator_s_table(recorded: Repository) -> None:
    """Each that is recorded, and nothing else."""
    first, *lines = recorded.tool("recorded").splitlines()
    timed = [result for result in recorded.data()["results"] if result["stage"] and result["percent_of_copy"] is not None]
    columns = ("stage", "variant", "dtype", "op", "rows", "cols", "percent_of_copy")
    assert first == MACHINE["gpu"] and lines == [" ".join(str(result[name]) for name in columns) for result in timed]
    recorded.file.unlink()
    recorded.tool("recorded", 1, "nothing is recorded")
