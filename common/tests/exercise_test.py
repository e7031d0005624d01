"""Tests of the exercises, on the simulator. CHECKS in the environment is where the checks are built: build/exercise.

The starter of each exercise fails with the intended message; the solution passes, and so do other right answers;
wrong answers fail with messages that fit: the attempts in attempts.toml, a loop in one thread, every other exercise's
solution. All attempts at an exercise are compiled together, since most of nvcc's time goes into headers.
"""

import functools
import os
import re
import subprocess
from pathlib import Path

import pytest
from exercise_attempts import ATTEMPTS, EXERCISES, FILES, ROOT, check_of, kernel_of, solution_of, text_of
from learn.checker import CHECK_TIMEOUT_S, NO_DEVICE, Checker
from learn.exercise import HINT

CHECKS = Path(os.environ.get("CHECKS", ROOT / "build/exercise")).resolve()

ONE_THREAD = Path(__file__).with_name("one_thread.cuh").read_text(encoding="utf-8")
LANES = "bytes per load request of a warp, where at least 16 are expected.*one does the work of all"

PREDICTED = [name for name, exercise in EXERCISES.items() if exercise.kind == "predict"]
COMPILED = [name for name in EXERCISES if name not in PREDICTED]


def attempts_at(name: str) -> dict[str, Path | str]:
    """Files, and texts that are to become one."""
    attempts: dict[str, Path | str] = {"starter": EXERCISES[name].file("starter")}
    attempts |= {which: text_of(name, attempt) for which, attempt in ATTEMPTS[name].items() if which != "starter"}
    if name in COMPILED:
        attempts["one thread"] = (FILES[name].one_thread or ONE_THREAD).replace("KERNEL", kernel_of(name))
    return attempts


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("work")  # one: the code to compare with is compiled once


def launcher_of(name: str) -> tuple[str, str]:
    """The function that the exercise's file defines, and its parameters."""
    chosen = re.search(r"Launcher::(\w+)", check_of(name))
    launcher = chosen[1] if chosen else "softmax"
    declared = re.search(rf"void {launcher}\((.*?)\);", (ROOT / "common/exercise/launchers.cuh").read_text(encoding="utf-8"), re.DOTALL)
    assert declared
    return launcher, declared[1]


@functools.cache
def compiled(work: Path, name: str) -> tuple[Path, str]:
    """A library of all attempts at an exercise, each in a namespace of its own. ATTEMPT in the environment says which of
    them is called. And the compiler's message if there is none."""
    folder = work / name
    folder.mkdir()
    includes, namespaces, calls = {}, "", ""
    launcher, parameters = launcher_of(name)
    arguments = ", ".join(re.findall(r"(\w+)(?:,|$)", parameters))
    for number, (which, source) in enumerate(attempts_at(name).items()):
        if isinstance(source, str):
            text, source = source, folder / (re.sub(r"\W", "_", which) + ".cu")
            source.write_text(text, encoding="utf-8")
        includes.update(dict.fromkeys(re.findall(r"^#include .*$", source.read_text(encoding="utf-8"), re.MULTILINE)))
        namespaces += f'namespace attempt_{number} {{\n#include "{source}"\n}}\n'
        calls += f"    case {number}: return attempt_{number}::{launcher}({arguments});\n"
    # Their own #includes, in the namespaces, then include nothing.
    everything = "\n".join(["#include <cstdlib>", *includes, namespaces])
    dispatch = f'extern "C" void {launcher}({parameters}) {{\n  switch (std::atoi(std::getenv("ATTEMPT"))) {{\n{calls}  }}\n}}\n'
    (folder / "all.cu").write_text(everything + dispatch, encoding="utf-8")
    library = folder / "all.so"
    command = [*Checker(ROOT, CHECKS, "sim").compiler(), str(folder / "all.cu"), "-o", str(library)]
    result = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return library, result.stdout if result.returncode != 0 else ""


def checker(work: Path, device: str = "sim", timeout_s: float = CHECK_TIMEOUT_S) -> Checker:
    made = Checker(ROOT, CHECKS, device, timeout_s)
    made.work = work
    return made


def check(work: Path, name: str, which: str, timeout_s: float = CHECK_TIMEOUT_S) -> tuple[int, str]:
    """The exit code and the output of the check of an attempt."""
    attempts = attempts_at(name)
    if name not in COMPILED:
        source = attempts[which]
        if isinstance(source, str):
            text, source = source, work / "answer.txt"
            source.write_text(text, encoding="utf-8")
        return checker(work).check(EXERCISES[name], source)
    library, message = compiled(work, name)
    assert not message, message
    os.environ["ATTEMPT"] = str(list(attempts).index(which))
    code, text = checker(work, timeout_s=timeout_s).run_check(EXERCISES[name], [str(library), "nothing to compare with"])
    return code, re.sub(r"attempt_\d+::", "", text)


def check_wrong(work: Path, name: str, which: str, message: str, **more: float) -> None:
    code, text = check(work, name, which, **more)
    assert (code, bool(re.search(message, text, re.DOTALL))) == (1, True), f"expected: {message}\n{text}"


@pytest.mark.parametrize("name, which", [pytest.param(n, w, id=f"{n}: {w}") for n in ATTEMPTS for w in ATTEMPTS[n]])
def test_attempt(work: Path, name: str, which: str) -> None:
    attempt = ATTEMPTS[name][which]
    if not attempt.is_right:
        check_wrong(work, name, which, attempt.says, timeout_s=5 if which == "too long" else CHECK_TIMEOUT_S)
    else:
        code, text = check(work, name, which)
        assert code == 0 and text.startswith("Solved") and re.search(attempt.says, text, re.DOTALL), text
        assert attempt.says or "could be less" not in text, text


def mistakes_in(name: str) -> list[list[str]]:
    """The mistakes in an exercise to predict: question, wrong answer and message."""
    code, text = Checker(ROOT, CHECKS, "sim").run_check(EXERCISES[name], ["--mistakes"])
    assert code == 0, text
    return [line.split("\t") for line in text.splitlines()]


@pytest.mark.parametrize("name", PREDICTED, ids=lambda name: f"{name}: ")
def test_mistakes(work: Path, name: str) -> None:
    """One question's answer is wrong, and the others are right."""
    answers = work / "answers.txt"
    for question, answer, advice in mistakes_in(name):
        text, replaced = re.subn(rf"(?m)^{question} = \S+", f"{question} = {answer}", solution_of(name))
        answers.write_text(text, encoding="utf-8")
        code, said = checker(work).check(EXERCISES[name], answers)
        expected = f"`{question} = {answer}` is not the counted number. {advice}\n"
        assert (replaced, code, said[: len(expected)]) == (1, 1, expected)


@pytest.mark.parametrize("name", ["block_sum"], ids=lambda name: f"{name}: ")
def test_the_answer_in_the_readme(work: Path, name: str) -> None:
    """Shown there with other line breaks and the name that a learner's file has."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"```text\n(.*?)```", readme, re.DOTALL)
    assert shown
    answer = work / "answer.cu"
    answer.write_text(solution_of(name).replace("  __syncthreads();", ""), encoding="utf-8")
    _, said = checker(work).check(EXERCISES[name], answer)
    said = said.replace(str(answer), EXERCISES[name].file("mine").relative_to(ROOT).as_posix())
    assert " ".join(shown[1].split()) in " ".join(said.split()), said


@pytest.mark.parametrize("name", COMPILED, ids=lambda name: f"{name}: ")
def test_one_thread(work: Path, name: str) -> None:
    check_wrong(work, name, "one thread", LANES)


@pytest.mark.parametrize(
    "launcher, message",
    [("", "defines no function `softmax`"),
     ("void softmax(const float*, float*, Shape, cudaStream_t) {}\n", "launched no kernel; it should launch `warp_softmax`")],
    ids=lambda _: "warp_all_reduce: ",
)  # fmt: skip
def test_no_kernel(work: Path, launcher: str, message: str) -> None:
    answer = work / "answer.cu"
    answer.write_text(f'#include "common/exercise/launchers.cuh"\n{launcher}', encoding="utf-8")
    code, text = checker(work).check(EXERCISES["warp_all_reduce"], answer)
    assert code == 1 and re.search(message, text), text


@pytest.mark.parametrize("name", ["warp_all_reduce"], ids=lambda name: f"{name}: ")
def test_what_the_compiler_warns_of(work: Path, name: str) -> None:
    answer = work / "answer.cu"
    answer.write_text(solution_of(name).replace("  return value;\n", "", 1), encoding="utf-8")
    code, text = checker(work).check(EXERCISES[name], answer)
    warned = re.findall(r"answer.cu\(13\): missing return statement at end of non-void function .*\n +\| }", text)
    assert code == 1 and "The compiler warns:" in text and len(warned) == 1, text


@pytest.mark.parametrize("name", EXERCISES, ids=lambda name: f"{name}: ")
def test_solution(work: Path, name: str) -> None:
    code, text = checker(work).check(EXERCISES[name], EXERCISES[name].file("solution"))
    assert code == 0 and text.startswith("Solved"), text
    assert "stopped" not in text or FILES[name].simulator_stops_starter, text  # counters before
    if name not in COMPILED:
        return
    for other in set(COMPILED) - {name}:
        library = str(work / f"{name}-sim.so")
        code, text = Checker(ROOT, CHECKS, "sim").run_check(EXERCISES[other], [library, library])
        refused = re.search("file of another exercise|defines no function|The simulator stopped the kernel", text)
        assert code == 1 and refused, f"{other} takes it: {text}"


@pytest.mark.parametrize("name", COMPILED)
def test_on_a_gpu(work: Path, name: str) -> None:
    code, text = checker(work, "gpu").check(EXERCISES[name], EXERCISES[name].file("starter"))
    if code == NO_DEVICE:
        pytest.skip(text)
    assert code == 1, text
    code, text = checker(work, "gpu").check(EXERCISES[name], EXERCISES[name].file("solution"))
    assert code == 0 and "Verified on NVIDIA" in text, text


def test_nothing_is_forgotten() -> None:
    """And no solution is a starter: the one has to fail, and the other to pass."""
    mistakes = {name: len(mistakes_in(name)) if name in PREDICTED else 0 for name in EXERCISES}
    for family in {file.family for file in FILES.values()}:
        names = [name for name, file in FILES.items() if file.family == family]
        assert sum(len(ATTEMPTS[name]) + mistakes[name] for name in names) >= 40, f"{family}: {names}"
    assert len({exercise.number for exercise in EXERCISES.values()}) == len(EXERCISES)
    stages = {path.parent.name for path in ROOT.glob("[0-9][0-9]_*/main.cu")}
    assert stages | {"primer"} == {exercise.stage for exercise in EXERCISES.values()}
    for name, exercise in EXERCISES.items():
        assert exercise.stage_number == ("00" if exercise.stage == "primer" else exercise.stage[:2])
        assert len(FILES[name].wrong) + mistakes[name] >= 3, name
        starter = exercise.file("starter").read_text(encoding="utf-8").splitlines()
        solution = solution_of(name).splitlines()
        assert starter[0] == solution[0] and starter[1:] != solution[1:], name
        assert len(HINT.findall((exercise.folder / "hints.md").read_text(encoding="utf-8"))) == 3, name
        assert len(list(exercise.folder.glob("check.c*"))) == 1, name
        title = starter[0].partition(", ")[2]
        lesson = (exercise.folder.parents[1] / "README.md").read_text(encoding="utf-8")
        assert f"`./run exercise {exercise.number}`: {title}" in lesson
        number = sum(other.stage == exercise.stage for other in EXERCISES.values())
        says = ("One exercise checks itself", "Two exercises check themselves", "Three exercises check themselves")[number - 1]
        assert exercise.stage == "primer" or f"\n{says} on any machine" in lesson, f"{exercise.stage} has {number}"
