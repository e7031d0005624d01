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

Sim = Callable[..., tuple[str, str]]


@pytest.fixture
def sim(tmp_path: Path) -> Sim:
    """./run sim ends with this exit code; the output on both streams."""

    def run(code: int, *arguments: str, **environment: str) -> tuple[str, str]:
        command = [sys.executable, "-B", str(ROOT / "common/tools"), "sim", "--build", str(BUILD), *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300,
                              env={**os.environ, **environment})  # fmt: skip
        assert done.returncode == code, done
        return done.stdout, done.stderr

    return run


def write(folder: Path, statement: str) -> None:
    (folder / "mine.cu").write_text(PROGRAM % statement, encoding="utf-8")


def test_a_program_that_is_right(sim: Sim, tmp_path: Path) -> None:
    write(tmp_path, RIGHT)
    out, err = sim(0, "mine.cu", "--", "3", "two words")
    assert out == "printed 3 two words\n" and "counted: kernel <<<(1, 1, 1), (64, 1, 1)" in err
    assert f"2 requests          8 sectors           256 bytes  at mine.cu:{LINE}" in err
    sim(5, "mine.cu", "--", "7")  # the program's own
    assert "at mine.cu" not in sim(0, "mine.cu", SIM_REPORT="1")[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.cu"]


@pytest.mark.parametrize("statement, said", [
    ("x[i + 1] = 0;", "out of bounds: write of 4 bytes of global memory"),
    ("x[i] = x[63 - i];", "which nobody has written yet"),
    ("s[i] = i; x[i] = s[63 - i];", "nobody has written yet (is a barrier missing, or is the index too large?)"),
    ("x[i] = i; x[0] = i;", "race: write of 4 bytes of global memory"),
    ("if (i < 40) __syncthreads(); else return; x[i] = 1;", "barrier not reached by all threads of the block"),
    ("if (i < 16) x[i] = __shfl_xor_sync(~0u, i, 1); else __syncwarp();", "lanes 16-31"),
    ("for (volatile int k = 0; k < n;) { } x[i] = 1;", "endless loop"),
])  # fmt: skip
def test_faults(sim: Sim, tmp_path: Path, statement: str, said: str) -> None:
    write(tmp_path, statement)
    out, err = sim(1, "mine.cu")
    assert out == "printed 64 \n" and said in err and f" mine.cu:{LINE}\n" in err, err
    assert err.endswith("./run sim: 1 launch ended with a fault: see above\n")
    is_mistake = said.startswith(("out of bounds", "endless"))
    assert ("the launch ends here (SIM_CHECK=warn: it goes on)" in err) == (not is_mistake), err


def test_what_need_not_be_a_mistake(sim: Sim, tmp_path: Path) -> None:
    write(tmp_path, "x[i] = i; x[0] = i;")
    assert "the launch goes on (SIM_CHECK=warn)" in sim(0, "mine.cu", SIM_CHECK="warn")[1]
    assert "race" not in sim(0, "mine.cu", SIM_CHECK="off")[1]
    sim(2, "mine.cu", SIM_CHECK="maybe")


def test_programs_that_do_not_come_to_an_end(sim: Sim, tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("#include <cstdio>\nint main() { std::puts(\"none\"); }\n", encoding="utf-8")
    assert sim(0, "a.cu") == ("none\n", "./run sim: no kernel was launched\n")
    (tmp_path / "b.cu").write_text("int main() { float* x; cudaMalloc(&x, 4); *x = 1; }\n", encoding="utf-8")
    said = "ended by SIGSEGV; on the host, device pointers must not be read or written\n"
    assert sim(128 + 11, "b.cu")[1].endswith(said)


def test_bad_input_is_one_line(sim: Sim, tmp_path: Path) -> None:
    (tmp_path / "folder.cu").mkdir()
    (tmp_path / "mine.txt").write_text("x", encoding="utf-8")
    for arguments, said in {
        "none.cu": "there is no file 'none.cu'",
        "folder.cu": "there is no file 'folder.cu'",
        "mine.txt": "accepted: the name of a file that ends in .cu",
        "": "FILE.cu",
        "-- mine.cu": "FILE.cu",
        "a.cu b.cu": "b.cu",
    }.items():
        out, err = sim(2, *arguments.split())
        assert (out, err.count("\n"), said in err) == ("", 1, True), err


def test_what_does_not_compile(sim: Sim, tmp_path: Path) -> None:
    write(tmp_path, "x[i] = nothing;")
    out, err = sim(70, "mine.cu")
    assert err.splitlines()[-1] == "./run sim: mine.cu does not compile"
    assert f"mine.cu({LINE}): error" in out + err
