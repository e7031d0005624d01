#!/usr/bin/env python3
"""Deletes each barrier of a stage's kernels, makes each `<` a `<=` and each `<=` a `<`, one at a time: the suite's checks must notice
all of these mistakes except the survivors below, which make no difference. In the library's kernels it only deletes barriers: most
of their comparisons choose among kernels that are all right. mutants.py has mistakes that need a thought.

    operators.py BUILD STAGE

A stage is compiled once, with all of these mistakes in its files (switched.cuh); a number in its PTX switches one of them on.

Exit codes: 0 all are as expected; 1 a mistake was not noticed, or one of the survivors was; 2 bad usage.
"""

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

import check_stage
import mutants
from check_stage import Failure

SWITCH = 1_000_000_000  # of switched.cuh
HEADER = mutants.SOURCE / "common/tests/stages/switched.cuh"
# A statement of one line that makes threads or copies wait, or their writes visible.
WAIT = re.compile(r"^( *)((?:__sync\w+|__threadfence\w*|cluster\.sync|(?:ptx::)?\w*(?:wait|fence|arrive)\w*)\([^;]*\);)(.*)$")
# Code that does not run: texts, and comparisons of constants.
AT_COMPILE_TIME = re.compile(r'"|^ *(#|static_assert)|constexpr|<\(')
IS_SET = re.compile(r"[A-Z_]+=").match
COMPARISON = re.compile(r" (<=?) ")

# From small to large: most mistakes show at once.
RUNS = (
    "--rows 2,3 --cols 1,33,128,1000",
    "--rows 1,7,100 --cols 31,1025,2048 --input normal,neg_inf_prefix",
)
# Each block of a small GPU has several rows; and the matrices begin at different places between two packs.
MORE_RUNS = {
    mutants.LIBRARY: (
        "SIM_MULTIPROCESSORS=4 --rows 3001 --cols 3,33",
        "SIM_MULTIPROCESSORS=4 --rows 3001 --cols 3,33 --offset 1,2",
        "SIM_MULTIPROCESSORS=4 --rows 40 --cols 1001,6000,20001 --offset 1,2",
    )
}
OPTIONS = {
    "12_cross_entropy": " --op cross_entropy,cross_entropy_gradient",
    "15_several_gpus": " --op softmax,cross_entropy",
    "13_masked_softmax": " --op causal_softmax,causal_softmax_backward,padded_softmax,padded_softmax_backward",
}

PLACES = {mutants.LIBRARY: ("common/kernel/", "common/rowwise/kernels/")}
# A kernel of the library does the operations of its folder.
OPERATIONS = {
    "common/rowwise/kernels/forward/": "softmax",
    "common/rowwise/kernels/backward/": "softmax_backward",
    "common/rowwise/kernels/loss/": "cross_entropy,cross_entropy_gradient",
}

# The mistakes that survive: the line of the file as it is, and the reason why no check that runs here can notice.
ARRAY = "a thread has no such register: the compiler takes that step for impossible"
EITHER = "at this width both sizes are right"
SURVIVORS: dict[str, dict[str, str]] = {
    "01_naive": {
        "for (std::int64_t chunk = 0; chunk < shape.cols; chunk += chunk_cols) {": "one more chunk, which is empty",
    },
    "04_smem_bank_conflict": {
        "for (int i = 0; i < N / words<N>; ++i) {": ARRAY,
        "for (int pack = first_pack; pack < num_packs; pack += packs_in_flight * step) {": "one more step, whose packs do not exist",
    },
    "06_online": {
        "for (int i = 0; i < count / pack_size; ++i) {": ARRAY,
        "if (cols <= 512 * 16) {": EITHER,
        "} else if (cols <= 512 * 32) {": EITHER,
    },
    "07_split_row": {
        "const int elements = cols <= most_narrow_cols ? narrow_part_elements : wide_part_elements;": EITHER,
        "if (tensors.shape.cols <= most_narrow_cols) {": EITHER,
    },
    "08_unaligned_rows": {
        "for (int i = 0; i < packs_per_thread; ++i) {": ARRAY,
        "for (int i = 0; i < packs_per_thread; ++i) unpack(fetched[i], values_of_pack<N>(values, i));": ARRAY,
    },
    "09_async_copy": {
        "if (gpu.compute_capability < 9) return {Why::bulk_copies};": "the variant would be missing from the recorded counts: count --check notices",
    },
    "11_backward": {
        "for (int pack = 0; pack < packs; ++pack) {": ARRAY,
        "for (int pack = 0; pack < packs_per_thread; ++pack) {": ARRAY,
        "for (int i = 0; i < N; ++i) {": ARRAY,
        "if (cols <= 512 * 8) return launch.template operator()<8>(threads(8));": EITHER,
    },
    "13_masked_softmax": {
        "for (int i = 0; i < N; ++i) kept |= (drawn(bits, first + i) >= dropped_of_65536 ? 1U : 0U) << i;": "a bit that nothing reads",
        "if (seen <= 0) return fetched;": "what follows masks the whole pack, too",
        "for (int pack = 0; pack < packs_per_thread; ++pack) {": ARRAY,
    },
    "15_several_gpus": {
        "if (is_first && threadIdx.x < 32) message.x_label = part.at_label(row, 0, part.shape.cols);": "one more thread loads it",
        ".packs_per_thread = piece_packs <= 8 * 1024 ? 8 : 16,  // a block has at most 1024 threads": EITHER,
        "__threadfence_system();": "it makes a message for the host visible before the kernel ends in an error: the simulator makes every write so",
    },
}  # fmt: skip


class Site(NamedTuple):
    """A place of a mistake."""

    file: str
    line: str  # as it is in the file, stripped
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.what}: {self.line}"


def switched(file: str, text: str, compares: bool, sites: list[Site]) -> str:
    """The text with a switch at each place of a mistake; adds the places to `sites`, in the order of their numbers, from 1."""
    lines = []
    for line in text.split("\n"):
        code, slashes, comment = line.partition("//")
        wait = WAIT.match(code)
        if wait:
            code = f"{wait[1]}if (!is_on<{len(sites) + 1}>()) {wait[2]}{wait[3]}"
            sites.append(Site(file, line.strip(), "deleted"))
        elif compares and not AT_COMPILE_TIME.search(code):
            code = COMPARISON.sub(partial(comparison, file, line.strip(), sites), code)
        lines.append(code + slashes + comment)
    return "\n".join(lines)


def write_executable(path: Path, image: bytes) -> None:
    """As a new file: a process that has not quite ended may still hold the one before."""
    new = path.with_suffix(".new")
    new.write_bytes(image)
    new.chmod(0o755)
    new.replace(path)


def comparison(file: str, line: str, sites: list[Site], found: re.Match[str]) -> str:
    name, other = ("LESS", "<=") if found[1] == "<" else ("LESS_OR_EQUAL", "<")
    sites.append(Site(file, line, f"{found[1]} became {other}"))
    return f" < {name}({len(sites)}) > "


def with_switches(stage: str) -> tuple[dict[str, str], list[Site]]:
    """The changed files of the stage and its mistakes."""
    sites: list[Site] = []
    texts = mutants.changed_files(stage, [])
    for source in mutants.SOURCES:
        file = source.as_posix()
        if file.startswith(PLACES.get(stage, (f"{stage}/",))) and file.endswith(".cuh"):
            text = texts.get(file) or (mutants.SOURCE / file).read_text(encoding="utf-8")
            texts[file] = switched(file, text, stage != mutants.LIBRARY, sites)
    return texts, sites


def run_of(text: str, checked: list[str]) -> list[str]:
    """A run as a command: its variables of the environment come first."""
    words = text.split()
    return ["env", *filter(IS_SET, words), *checked, *(word for word in words if not IS_SET(word))]


def folder_of(site: Site) -> str:
    return next((folder for folder in OPERATIONS if site.file.startswith(folder)), "")


def is_noticed(command: list[str], number: int) -> bool:
    environment = {**os.environ, "MISTAKE": str(number)}
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def check(build: Path, stage: str) -> str:
    texts, sites = with_switches(stage)
    executable = mutants.build_executable(build, f"operators_{stage}", stage, texts, Path(__file__), header=HEADER)
    os.environ["LD_LIBRARY_PATH"] = f"{os.path.relpath(build / 'simulator')}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    if stage == mutants.SEVERAL_GPUS:
        os.environ["SIM_DEVICES"] = "2"
    image, off = executable.read_bytes(), b"switched_on = %d;" % SWITCH
    if image.count(off) != 1:
        raise Failure(f"the PTX of {executable} has the switch {image.count(off)} times, and not once")
    mistaken = executable.parent / "one_mistake" / executable.name  # by whose name check_stage.py knows its operations
    mistaken.parent.mkdir(exist_ok=True)
    tests = Path(__file__).parent
    checked = [sys.executable, str(tests / "check_stage.py"), str(mistaken), "--device", "sim"]
    options = OPTIONS.get(stage) or mutants.MORE_OPTIONS.get(stage, "")
    of_folder = {folder: f" --op {operations}" for folder, operations in OPERATIONS.items()}
    texts_of_runs = RUNS + MORE_RUNS.get(stage, ())
    runs = {folder: [run_of(text + more, checked) for text in texts_of_runs] for folder, more in {"": options, **of_folder}.items()}
    if stage != mutants.LIBRARY:  # a limit of a GPU's part; a list of operations cut short
        runs[""].append([sys.executable, str(tests / "limits.py"), str(mistaken), "f32"])
    expected = SURVIVORS.get(stage, {})
    problems: list[str] = []
    survived: list[str] = []
    write_executable(mistaken, image)
    for run in (run for folder in sorted({folder_of(site) for site in sites}) for run in runs[folder]):
        if is_noticed(run, 0):
            raise Failure(f"fails without a mistake: {' '.join(run)}")
    for number, site in enumerate(sites, 1):
        write_executable(mistaken, image.replace(off, b"switched_on = %d;" % (SWITCH + number)))
        if not any(is_noticed(run, number) for run in runs[folder_of(site)]):
            survived.append(site.line)
            if site.line not in expected:
                problems.append(f"not noticed: {site}")
    problems += [f"is noticed, and so is no survivor: {line}" for line in expected if line not in survived]
    if problems:
        raise Failure("\n".join(problems))
    return f"{len(sites) - len(survived)} mistakes are noticed; {len(survived)} make no difference"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("operators.py BUILD STAGE")
    sys.exit(check_stage.print_or_fail(lambda: check(Path(sys.argv[1]).resolve(), sys.argv[2])))
