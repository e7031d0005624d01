"""./run sim on files that a reader might write: one that is right, one with each kind of fault, and bad input.

BUILD in the environment is where the simulator is built: build.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Callable

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD", ROOT / "build")).resolve()
PROGRAM = """#include <cstdio>
#include <cstdlib>
__global__ void kernel(float* x, int n) {
  __shared__ float s[64];
  const int i = threadIdx.x;
  %s
}
int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 64;
  float* x = nullptr;
  cudaMalloc(&x, 64 * sizeof(float));
  kernel<<<1, 64>>>(x, n);
  cudaDeviceSynchronize();
  std::printf("printed %%d %%s\\n", n, argc > 2 ? argv[2] : "");
  return n == 7 ? 5 : 0;
}
"""
LINE = 6  # of the statement
RIGHT = "s[i] = i; __syncthreads(); x[i] = s[63 - i];"

Sim = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def sim(tmp_path: Path) -> Sim:
    def run(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-B", str(ROOT / "common/tools"), "sim", "--build", str(BUILD), *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300,
                              env={**os.environ, **environment})

    return run


def write(folder: Path, statement: str) -> None:
    (folder / "mine.cu").write_text(PROGRAM % statement, encoding="utf-8")


def test_a_program_that_is_right(sim: Sim, tmp_path: Path) -> None:
    write(tmp_path, RIGHT)
    done = sim("mine.cu", "--", "3", "two words")
    assert (done.returncode, done.stdout) == (0, "printed 3 two words\n"), done.stderr
    assert "counted: kernel <<<(1, 1, 1), (64, 1, 1)" in done.stderr
    assert f"2 requests          8 sectors           256 bytes  at mine.cu:{LINE}" in done.stderr
    assert sim("mine.cu", "--", "7").returncode == 5  # the program's own
    assert "at mine.cu" not in sim("mine.cu", SIM_REPORT="1").stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.cu"]


@pytest.mark.parametrize(
    "statement, said",
    [
        ("x[i + 1] = 0;", "out of bounds: write of 4 bytes of global memory"),
        ("x[i] = x[63 - i];", "which nobody has written yet"),
        ("s[i] = i; x[i] = s[63 - i];", "nobody has written yet (is a barrier missing, or is the index too large?)"),
        ("x[i] = i; x[0] = i;", "race: write of 4 bytes of global memory"),
        ("if (i < 40) __syncthreads(); else return; x[i] = 1;", "barrier not reached by all threads of the block"),
        ("if (i < 16) x[i] = __shfl_xor_sync(~0u, i, 1); else __syncwarp();", "lanes 16-31"),
        ("for (volatile int k = 0; k < n;) { } x[i] = 1;", "endless loop"),
    ],
)  # fmt: skip
def test_faults(sim: Sim, tmp_path: Path, statement: str, said: str) -> None:
    write(tmp_path, statement)
    done = sim("mine.cu")
    assert (done.returncode, done.stdout) == (1, "printed 64 \n"), done.stderr
    assert said in done.stderr
    assert f" mine.cu:{LINE}\n" in done.stderr
    assert done.stderr.endswith("./run sim: 1 launch ended with a fault: see above\n")


def test_what_need_not_be_a_mistake(sim: Sim, tmp_path: Path) -> None:
    write(tmp_path, "x[i] = i; x[0] = i;")
    done = sim("mine.cu", SIM_CHECK="warn")
    assert (done.returncode, "the launch goes on (SIM_CHECK=warn)" in done.stderr) == (0, True), done.stderr
    assert "race" not in sim("mine.cu", SIM_CHECK="off").stderr
    assert sim("mine.cu", SIM_CHECK="maybe").returncode == 2


def test_programs_that_do_not_come_to_an_end(sim: Sim, tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("#include <cstdio>\nint main() { std::puts(\"none\"); }\n", encoding="utf-8")
    done = sim("a.cu")
    assert (done.returncode, done.stdout, done.stderr) == (0, "none\n", "./run sim: no kernel was launched\n")
    (tmp_path / "b.cu").write_text(
        "int main() { float* x; cudaMalloc(&x, 4); *x = 1; }\n", encoding="utf-8")  # fmt: skip
    done = sim("b.cu")
    assert done.returncode == 128 + 11
    assert done.stderr.endswith("ended by SIGSEGV; on the host, device pointers must not be read or written\n")


def test_bad_input_is_one_line(sim: Sim, tmp_path: Path) -> None:
    (tmp_path / "folder.cu").mkdir()
    (tmp_path / "mine.txt").write_text("x", encoding="utf-8")
    for arguments, said in (
        (["none.cu"], "there is no file 'none.cu'"),
        (["folder.cu"], "there is no file 'folder.cu'"),
        (["mine.txt"], "accepted: the name of a file that ends in .cu"),
        ([], "FILE.cu"),
        (["--", "mine.cu"], "FILE.cu"),
        (["a.cu", "b.cu"], "b.cu"),
    ):
        done = sim(*arguments)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
        assert said in done.stderr


def test_what_does_not_compile(sim: Sim, tmp_path: Path) -> None:
    write(tmp_path, "x[i] = nothing;")
    done = sim("mine.cu")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (70, "./run sim: mine.cu does not compile")
    assert f"mine.cu({LINE}): error" in done.stdout + done.stderr
