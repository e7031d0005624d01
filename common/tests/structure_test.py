"""Tests of the structure: which files may include which, and facts that are stated in one place alone."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r"^\s*#\s*include\s+([<\"])([^>\"]+)[>\"]", re.M)
SOURCES = ("*.h", "*.cuh", "*.cpp", "*.cu")

COUNTERS = r"common/sim/counters?(_sums)?\.h|common/sim/counter_sums\.h"
# Folder (its files and, unless another rule is closer, those below): the files of the repository that its files may include.
MAY_INCLUDE = {
    "common/kernel": r"common/kernel/.*",
    # Only kernel-free headers of the kernels' folder: code that verifies and times must not be wrong with kernels.
    "common/harness": rf"common/kernel/\w+\.h|common/harness/(?!cli/|c/).*|{COUNTERS}",
    "common/harness/cli": rf"common/(kernel|harness)/(?!c/).*|{COUNTERS}",
    "common/harness/c": r"common/(kernel|harness)/(?!cli/).*|common/harness/cli/run_stage\.h",
    "common/sim": r"common/sim/.*",
    "common/exercise": rf"common/(exercise|harness|kernel)/.*|{COUNTERS}",
    "common/primer": r"common/exercise/.*",
    "common/rowwise": r"common/(rowwise|kernel)/.*",
    "common/rowwise/bench": r"common/(rowwise|kernel|harness)/.*",
    "common/rowwise/tune": r"common/(rowwise|kernel|harness)/.*",
    "common/tests": r".*",
}
# The headers of other libraries that a header for kernels may include: it has to do without the host's.
OF_CUDA = re.compile(r"cuda_(bf16|fp16|pipeline|runtime)\.h|cuda/(ptx|std/\w+)|cooperative_groups\.h")


def allowed_in(file: str) -> str:
    """The rule for a file; a stage may include kernels' headers, the harness, and stages up to itself."""
    stage = re.match(r"(\d\d)_\w+/", file)
    if stage:
        earlier = "|".join(f"{number:02}" for number in range(1, int(stage[1]) + 1))
        exercise = "|common/exercise/.*" if "/exercise/" in file else ""
        library = "|common/rowwise/dispatch/.*" if stage[1] == "14" else ""  # the stage is about it
        # A header of kernels does without the harness, which tests them.
        shared = "kernel" if file.endswith(".cuh") else "(kernel|harness)"
        return rf"common/{shared}/.*|({earlier})_\w+/.*{exercise}{library}"
    if file == "common/harness/launches.cuh":  # for stages, not for the harness
        return r"common/(kernel|harness)/.*"
    folders = [folder for folder in MAY_INCLUDE if file.startswith(folder + "/")]
    return MAY_INCLUDE[max(folders, key=len)]


def wrong_includes(root: Path) -> list[str]:
    problems = []
    files = [path for pattern in SOURCES for path in root.rglob(pattern)]
    for path in sorted(files, key=lambda path: path.relative_to(root).as_posix()):
        file = path.relative_to(root).as_posix()
        if not file.startswith("common/") and not re.match(r"\d\d_", file) or path.name.startswith("mine."):
            continue
        for bracket, included in INCLUDE.findall(path.read_text(encoding="utf-8")):
            is_of_kernels = file.startswith("common/kernel/") and file != "common/kernel/cuda_error.h"
            if bracket == "<" and (not is_of_kernels or OF_CUDA.fullmatch(included)):
                continue
            if bracket == "<" or not re.fullmatch(allowed_in(file), included):
                problems.append(f"{file} includes {included}")
    return problems


def test_includes_go_one_way() -> None:
    assert wrong_includes(ROOT) == []


def test_wrong_includes_are_found(tmp_path: Path) -> None:
    wrong = {
        "common/kernel/a.cuh": "<vector>",
        "common/harness/b.cuh": '"common/kernel/max_sum.cuh"',
        "common/harness/c/e.cpp": '"common/harness/cli/command_line.h"',
        "common/rowwise/e.cu": '"common/harness/variant.h"',
        "02_two/g.cuh": '"03_three/h.cuh"',
        "02_two/j.cuh": '"common/harness/operation.h"',
        "02_two/j.cu": '"common/rowwise/dispatch/choice.h"',
        "02_two/k.cuh": '"common/rowwise/kernels/forward/online.cuh"',
    }
    right = {"common/kernel/z.cuh": "<cuda/std/cstdint>", "02_two/z.cuh": '"01_one/a.cuh"', "03_t/z.cu": "<vector>"}
    for file, included in {**wrong, **right}.items():
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#include {included}\n", encoding="utf-8")
    assert wrong_includes(tmp_path) == [f"{file} includes {wrong[file][1:-1]}" for file in sorted(wrong)]


def test_folders_hold_the_files() -> None:
    flat = [path.name for path in (ROOT / "common").iterdir() if path.is_file()]
    assert len(flat) <= 3, flat


def test_the_operation_is_looked_at_in_one_place() -> None:
    comparing = re.compile(r"\bop(->name)?\s*[!=]=|enum class Op\b")
    sources = [path for top in ("common", *ROOT.glob("[0-9][0-9]_*")) for path in (ROOT / top).rglob("*")]
    found = [
        path.relative_to(ROOT).as_posix()
        for path in sources
        if path.suffix in (".h", ".cpp", ".cu", ".cuh") and "/tests/" not in path.as_posix()
        and comparing.search(path.read_text(encoding="utf-8"))
    ]  # fmt: skip
    assert found == ["common/harness/launches.cuh"]
