"""Tests of rowwise/softmax_c.h through ctypes, under the simulator: codes, texts, and that refused calls write nothing.

LD_PRELOAD=build/simulator/libcudart.so.13 python3 common/tests/run_pytest.py common/tests/softmax_c_test.py

BUILD in the environment is where the library is built: build.
"""

import ctypes
import math
import os
import re
import subprocess
import sys
from ctypes import c_char_p, c_float, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path

import pytest

from measure.results import ROOT

BUILD = Path(os.environ.get("BUILD", ROOT / "build")).resolve()
ROWS, COLS = 3, 1000
OK, BAD_ARGUMENT = 0, 1
F32, BF16 = 0, 2
SOFTMAX, CROSS_ENTROPY_GRADIENT = 0, 5
TO_DEVICE, TO_HOST = 1, 2


class Library:
    """The functions that the header declares, with their types."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL(str(BUILD / "librowwise.so"))
        self.lib.rowwise_error.restype = self.lib.rowwise_table.restype = c_char_p
        tail = [c_int64, c_int64, c_void_p, c_size_t, c_void_p]
        for name, pointers in {
            "softmax": 2,
            "log_softmax": 2,
            "softmax_backward": 3,
            "log_softmax_backward": 3,
            "cross_entropy": 3,
            "cross_entropy_gradient": 4,
        }.items():
            getattr(self.lib, f"rowwise_{name}").argtypes = [c_int, *[c_void_p] * pointers, *tail]
        self.lib.rowwise_workspace_bytes.argtypes = [c_int, c_int, c_int64, c_int64, ctypes.POINTER(c_size_t)]

    def error(self) -> str:
        return self.lib.rowwise_error().decode()

    def workspace_bytes(self, operation: int, dtype: int, rows: int, cols: int) -> int:
        size = c_size_t()
        assert self.lib.rowwise_workspace_bytes(operation, dtype, rows, cols, ctypes.byref(size)) == OK
        return size.value


class Device:
    """Memory of the simulated device."""

    def __init__(self) -> None:
        self.runtime = ctypes.CDLL(None)

    def upload(self, values: list[float] | list[int], kind: type) -> int:
        host, pointer = (kind * len(values))(*values), c_void_p()
        assert self.runtime.cudaMalloc(ctypes.byref(pointer), c_size_t(ctypes.sizeof(host))) == 0
        assert self.runtime.cudaMemcpy(pointer, host, c_size_t(ctypes.sizeof(host)), TO_DEVICE) == 0
        assert pointer.value
        return pointer.value

    def download(self, pointer: int, count: int) -> list[float]:
        assert self.runtime.cudaDeviceSynchronize() == 0
        host = (c_float * count)()
        assert self.runtime.cudaMemcpy(host, c_void_p(pointer), c_size_t(ctypes.sizeof(host)), TO_HOST) == 0
        return list(host)


@pytest.fixture(scope="module")
def library() -> Library:
    return Library()


@pytest.fixture
def device() -> Device:
    return Device()


X = [math.sin(i) for i in range(ROWS * COLS)]


def softmax_of_row(row: int) -> list[float]:
    exps = [math.exp(value) for value in X[row * COLS : (row + 1) * COLS]]
    return [value / sum(exps) for value in exps]


def test_softmax(library: Library, device: Device) -> None:
    x, y = device.upload(X, c_float), device.upload([9.0] * len(X), c_float)
    assert library.lib.rowwise_softmax(F32, x, y, ROWS, COLS, None, 0, None) == OK
    assert device.download(y, len(X)) == pytest.approx([p for row in range(ROWS) for p in softmax_of_row(row)], rel=1e-5)


def test_softmax_and_its_gradient_in_place(library: Library, device: Device) -> None:
    x, dy = device.upload(X, c_float), device.upload([1.0] * len(X), c_float)
    assert library.lib.rowwise_log_softmax(F32, x, x, ROWS, COLS, None, 0, None) == OK
    assert library.lib.rowwise_log_softmax_backward(F32, x, dy, dy, ROWS, COLS, None, 0, None) == OK
    expected = [1 - COLS * p for row in range(ROWS) for p in softmax_of_row(row)]
    assert device.download(dy, len(X)) == pytest.approx(expected, abs=1e-4)


def test_loss_and_gradient(library: Library, device: Device) -> None:
    x, labels = device.upload(X, c_float), device.upload([7, -100, COLS], c_int64)
    loss, dx = device.upload([9.0] * ROWS, c_float), device.upload([9.0] * len(X), c_float)
    assert library.lib.rowwise_cross_entropy_gradient(F32, x, labels, loss, dx, ROWS, COLS, None, 0, None) == OK
    first, ignored, wrong = device.download(loss, ROWS)
    assert first == pytest.approx(-math.log(softmax_of_row(0)[7]), rel=1e-5)
    assert ignored == 0 and math.isnan(wrong)
    gradient = device.download(dx, len(X))
    assert gradient[7] == pytest.approx(softmax_of_row(0)[7] - 1, rel=1e-5)
    assert set(gradient[COLS : 2 * COLS]) == {0} and all(map(math.isnan, gradient[2 * COLS :]))
    assert library.lib.rowwise_cross_entropy(F32, x, labels, loss, ROWS, COLS, None, 0, None) == OK
    assert device.download(loss, 1) == pytest.approx([first], rel=1e-5)


def test_few_wide_rows_have_a_workspace_that_stays_zero(library: Library, device: Device) -> None:
    size = library.workspace_bytes(SOFTMAX, F32, 1, 151936)
    assert size > 0 and library.workspace_bytes(CROSS_ENTROPY_GRADIENT, BF16, 4096, 1024) == 0
    x, y = (device.upload([0.0] * 151936, c_float) for _ in range(2))
    workspace = device.upload([0.0] * divide_up(size, 4), c_float)
    for _ in range(2):
        assert library.lib.rowwise_softmax(F32, x, y, 1, 151936, workspace, size, None) == OK
    assert device.download(y, 151936) == pytest.approx([1 / 151936] * 151936)
    assert set(device.download(workspace, size // 4)) == {0}


def divide_up(a: int, b: int) -> int:
    return -(-a // b)


Arguments = dict[str, int | None]
HOST = (c_float * len(X))(*X)


@pytest.mark.parametrize(
    "changed, says",
    [
        ({"dtype": 3}, "dtype: 3 is none"),
        ({"dtype": -1}, "dtype: -1 is none"),
        ({"x": None}, "x is null"),
        ({"y": None}, "y is null"),
        ({"rows": -1}, "rows and cols must not be negative: -1 x 1000"),
        ({"cols": -5}, "rows and cols must not be negative: 3 x -5"),
        ({"size": 1 << 20}, "workspace is null"),
        ({"x": ctypes.addressof(HOST)}, "x is not in device memory"),
        ({"y": ctypes.addressof(HOST)}, "y is not in device memory"),
    ],
)
def test_bad_arguments_are_refused(library: Library, device: Device, changed: Arguments, says: str) -> None:
    y = device.upload([9.0] * len(X), c_float)
    arguments: Arguments = {"dtype": F32, "x": device.upload(X, c_float), "y": y, "rows": ROWS, "cols": COLS}
    arguments |= {"workspace": None, "size": 0, "stream": None}
    assert library.lib.rowwise_softmax(*(arguments | changed).values()) == BAD_ARGUMENT
    assert library.error() == says
    assert set(device.download(y, len(X))) == {9.0} and list(HOST) == pytest.approx(X)


def test_overlaps_are_refused(library: Library, device: Device) -> None:
    x = device.upload(X * 2, c_float)
    assert library.lib.rowwise_softmax(F32, x, x + 4, ROWS, COLS, None, 0, None) == BAD_ARGUMENT
    assert library.error() == "y overlaps x"
    assert device.download(x, 2 * len(X)) == pytest.approx(X * 2)


def test_a_workspace_that_is_too_small_is_refused(library: Library, device: Device) -> None:
    size = library.workspace_bytes(SOFTMAX, F32, 1, 151936)
    x, y, workspace = (device.upload([9.0] * 151936, c_float) for _ in range(3))
    assert library.lib.rowwise_softmax(F32, x, y, 1, 151936, workspace, 16, None) == BAD_ARGUMENT
    assert library.error() == f"workspace: 16 bytes are too few; workspace_bytes() says {size}"
    assert set(device.download(y, 151936)) == {9.0}


SIZE = ctypes.byref(c_size_t())


@pytest.mark.parametrize(
    "query, says",
    [
        ((6, F32, 1, 1, SIZE), "operation: 6 is none"),
        ((SOFTMAX, 9, 1, 1, SIZE), "dtype: 9 is none"),
        ((SOFTMAX, F32, -1, 1, SIZE), "rows and cols must not be negative"),
        ((SOFTMAX, F32, 1, 1, None), "bytes is null"),
        ((CROSS_ENTROPY_GRADIENT, F32, 1, 1 << 31, SIZE), "cross-entropy: 1 to"),
    ],
)
def test_bad_queries_are_refused(library: Library, query: tuple, says: str) -> None:
    assert library.lib.rowwise_workspace_bytes(*query) == BAD_ARGUMENT
    assert library.error().startswith(says)


# ---- The table by which the library chooses its kernels. A process reads it once.


def in_another_process(table: Path, cols: int = 1000) -> tuple[int, int, str]:
    """The code and the bytes of workspace for 3 rows of bf16 with ROWWISE_TABLE, and the table's name or the error."""
    ask = (
        "from ctypes import CDLL, byref, c_char_p, c_int64, c_size_t; import sys; library, size = CDLL(sys.argv[1]), c_size_t()\n"
        "library.rowwise_table.restype = library.rowwise_error.restype = c_char_p\n"
        "code = library.rowwise_workspace_bytes(0, 2, c_int64(3), c_int64(int(sys.argv[2])), byref(size))\n"
        "print(code, size.value, (library.rowwise_table() or library.rowwise_error()).decode())"
    )
    command = [sys.executable, "-c", ask, str(BUILD / "librowwise.so"), str(cols)]
    done = subprocess.run(command, env={**os.environ, "ROWWISE_TABLE": str(table)}, text=True, capture_output=True, check=True)
    code, size, said = done.stdout.strip().split(" ", 2)
    return int(code), int(size), said


GPU = "CPU simulator (attributes of an H200)"
TABLE = (ROOT / "common/rowwise/tables/nvidia-h200.table").read_text(encoding="utf-8")
OWN = TABLE.replace("gpu NVIDIA H200", f"gpu {GPU}")


def test_the_table_that_is_compiled_in_is_scaled_to_another_gpu(library: Library) -> None:
    said = library.lib.rowwise_table().decode()
    assert said == f"the table of NVIDIA H200, scaled from 132 multiprocessors; ./run tune writes one for {GPU}"


# The library returns the most bytes for all places at which a matrix may begin, so rows of packs count as displaced rows, too.
@pytest.mark.parametrize(
    "place, of_packs, of_halves, of_others",
    [("packs", True, False, False), ("displaced", True, False, False), ("halves", False, True, False), ("others", False, True, True)],
)
def test_a_table_that_the_environment_names_is_used(tmp_path: Path, place: str, of_packs: bool, of_halves: bool, of_others: bool) -> None:
    head, lists = OWN.split("\n\n", 1)
    plain = re.sub("(?m)^(Forward .*)\n(rows .*\n)+", r"\1\nrows any: any online\n", lists + "\n")
    path = tmp_path / "own.table"
    path.write_text(f"{head}\n\n" + plain.replace(f"Forward 2 {place}\n", f"Forward 2 {place}\nrows 8: any row_exchange\n"), encoding="utf-8")
    for cols, needs in ((1000, of_packs), (1004, of_halves), (1001, of_others)):
        code, size, name = in_another_process(path, cols)
        assert (code, size > 0, name) == (OK, needs, f"the table of {GPU} in {path}")


@pytest.mark.parametrize(
    "text, says",
    [
        (None, "ROWWISE_TABLE: {path} cannot be read"),
        (TABLE, f"ROWWISE_TABLE: {{path}} is of NVIDIA H200, and the device is {GPU}; ./run tune writes one for it"),
        ("", "{path}:0: the table names no GPU"),
        (f"gpu {GPU}\n", "{path}:1: the table names no GPU"),
        ("multiprocessors x\n", "{path}:1: the number of multiprocessors is missing"),
        ("rows 8: any fused\n", "{path}:1: rows of no operation"),
        ("x\n", "{path}:1: 'x' is not understood"),
        ("Softmax 4 packs\n", "{path}:1: 'Softmax' is none of Forward, Backward, Loss and Gradient"),
        ("Forward 3 packs\n", "{path}:1: 'Forward' is not understood"),
        ("Forward 4 pack\n", "{path}:1: 'pack' is none of packs, displaced, halves and others"),
        ("Forward 4 packs\nrows\n", "{path}:2: rows N: is missing"),
        ("Forward 4 packs\nrows 0: any fused\n", "{path}:2: '0' is no number of rows"),
        ("Forward 4 packs\nrows 8: 8x fused\n", "{path}:2: '8x' is no number of columns"),
        ("Forward 4 packs\nrows 8: any kept_row\n", "{path}:2: 'kept_row' is no kernel"),
        ("Forward 4 packs\nrows 8: any fused\nrows 4: any fused\n", "{path}:3: rows must not decrease"),
        (f"gpu {GPU}\nmultiprocessors 132\n", "{path}:2: a list does not end with a line for any rows and columns"),
    ],
)
def test_a_damaged_table_is_refused(tmp_path: Path, text: str | None, says: str) -> None:
    path = tmp_path / "own.table"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    assert in_another_process(path) == (BAD_ARGUMENT, 0, says.format(path=path))
