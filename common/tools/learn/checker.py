"""Compiles a learner's file and runs the check of its exercise."""

import itertools
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from command import Usage
from learn import watch
from learn.building import build, cache_of, compiling, nvcc
from learn.progress import Exercise

SOLVED, NOT_YET, NO_DEVICE = 0, 1, 3

CHECK_TIMEOUT_S = 60


class Checker:
    """Builds and checks learners' files. checks: a folder with the checks, built; None: build them."""

    def __init__(self, root: Path, checks: Path | None, device: str, timeout_s: float = CHECK_TIMEOUT_S) -> None:
        self.root = root
        self.checks = checks or root / "build/exercise"
        self.builds = checks is None
        self.device = device
        self.timeout_s = timeout_s
        self.work = root / "build/exercise/learner"

    def build_check(self, exercise: Exercise) -> None:
        if not self.builds:
            return
        built = (self.checks / exercise.name).exists()
        if not built:
            print("Building the check of this exercise: this takes some minutes, but only the first time.", flush=True)
        lesson = (exercise.folder.parent.parent / "README.md").relative_to(self.root)
        code = build(self.root, "./run exercise", f"exercise_{exercise.name}", "simulator", reading=str(lesson), quiet=built)
        if code != 0:
            sys.exit(code)

    def compiler(self) -> list[str]:
        """For the GPU that the simulator is; for a GPU, the oldest of those that the stages are compiled for."""
        cache = cache_of(self.checks.parent)
        if self.device == "gpu":
            architectures = re.findall(r"\d+", cache.get("compiled_for", ""))
            oldest = min(map(int, architectures), default=80)
            code = f"arch=compute_{oldest},code=[compute_{oldest},sm_{oldest}]"
        else:
            code = "arch=compute_90,code=compute_90"
        options = ["-ftz=true", "-gencode", code, "-shared", "-Xcompiler=-fPIC"]
        return [*nvcc(cache, self.root), *options]

    def check(self, exercise: Exercise, source: Path) -> tuple[int, str]:
        """Returns an exit code and the messages."""
        self.build_check(exercise)
        if exercise.kind == "predict":
            return self.run_check(exercise, [str(source)])
        if self.device == "gpu":
            code, text = self.run_check(exercise, ["no library", "no library", "--device", "gpu"])
            if code == NO_DEVICE:
                return code, text
        self.work.mkdir(parents=True, exist_ok=True)
        library = self.library(exercise)
        # The counters that a learner's are compared with.
        before = self.work / f"{exercise.name}-before-{self.device}.so"
        before_source = exercise.folder / "before.cu"
        if not before_source.exists():
            before_source = exercise.file("starter")
        unfinished = before.with_suffix(".partial")
        sources = {library: source}
        if not before.exists() or before.stat().st_mtime < before_source.stat().st_mtime:
            sources[unfinished] = before_source
        commands = [[*self.compiler(), str(file), "-o", str(out)] for out, file in sources.items()]
        with compiling(*commands, cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as compilers:
            messages = [compiler.communicate()[0] for compiler in compilers]
        if compilers[0].returncode != 0:
            return NOT_YET, first_error(messages[0], self.root)
        if unfinished in sources:
            os.replace(unfinished, before)
        code, text = self.run_check(exercise, [str(library), str(before), "--device", self.device])
        return code, text + (warnings_of(messages[0], self.root) if code == NOT_YET else "")

    def library(self, exercise: Exercise) -> Path:
        """The library that the learner's file is compiled into."""
        return self.work / f"{exercise.name}-{self.device}.so"

    def record(self, exercise: Exercise) -> list[watch.Json]:
        """A trace of the learner's kernel in the case at which the check ended: the one that is wrong, or the last."""
        command = [str(self.checks / exercise.name), str(self.library(exercise)), "no library"]
        return watch.record(command, self.root, watch.BLOCKS, watch.EVENTS, timeout_s=self.timeout_s)[0]

    def run_check(self, exercise: Exercise, arguments: list[str]) -> tuple[int, str]:
        try:
            result = subprocess.run(
                [str(self.checks / exercise.name)] + arguments, cwd=self.root, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", check=False,
                timeout=self.timeout_s)
        except subprocess.TimeoutExpired:
            return NOT_YET, (f"No answer after {self.timeout_s:g} seconds. Is there a loop that does not end (how does its "
                             "variable change?), or does every thread do the work of all?")
        except OSError as error:
            raise Usage(f"cannot start {self.checks / exercise.name}: {error.strerror}") from error
        if result.returncode < 0:
            name = signal.Signals(-result.returncode).name
            return NOT_YET, (result.stdout + f"The launcher ended the program ({name}). On the host, device pointers must not "
                             "be read or written: only kernels may do that.")
        if result.returncode not in (SOLVED, NOT_YET):
            return result.returncode, result.stdout + result.stderr
        return result.returncode, result.stdout.replace(str(self.root) + "/", "")


def warnings_of(messages: str, root: Path) -> str:
    """The warnings of nvcc, with the source lines; without those of unused variables, which starters have. "" if none."""
    found = re.findall(r"^(\S+\(\d+\)): warning #(\d+)-D: (.*)\n(.*)", messages.replace(str(root) + "/", ""), re.MULTILINE)
    without = re.compile(r" \[with [^]]*\]")  # the same warning of each instantiation
    warnings = {f"  {place}: {without.sub('', text)}\n       | {line.strip()}\n" for place, number, text, line in found if number not in ("177", "550")}
    return "\nThe compiler warns:\n" + "".join(sorted(warnings)) if warnings else ""


def first_error(messages: str, root: Path) -> str:
    """The first error of nvcc or the host compiler, with the source line that they show, and how many there are."""
    lines = messages.replace(str(root) + "/", "").splitlines()
    places = [i for i, line in enumerate(lines) if re.search(r"\b(fatal )?error\b\s*:", line)]
    begin, *others = places or [0]
    belong = itertools.takewhile(lambda i: lines[i].strip() and i not in others, range(begin + 1, len(lines)))
    shown = [begin, *belong][:4] if places else range(min(10, len(lines)))
    text = "\n".join(["It does not compile:", *(f"  {lines[i]}" for i in shown)])
    return text + (f"\n({len(others)} more error{'s' if len(others) > 1 else ''} after this one)" if others else "")
