"""Tests of the library as another project gets it: installed, its exports, and programs that are built outside of the tree.

python3 common/tests/run_pytest.py common/tests/rowwise_install_test.py

BUILD in the environment is where the library is built: build, for the simulator, under which the programs run.
"""

import ctypes
import json
import math
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from measure.results import ROOT

BUILD = Path(os.environ.get("BUILD", ROOT / "build")).resolve()
SOURCE = ROOT / "common/rowwise"
CONSUMER = SOURCE / "tests/consumer"
MOST_BYTES = 25_000_000  # of the library, for one architecture
# The simulator takes the place of the CUDA runtime where a test says so.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(words, text=True, capture_output=True, check=False, env=ENVIRONMENT | environment)


def must_run(*command: str | Path, **environment: str) -> str:
    done = run(*command, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prefix = tmp_path_factory.mktemp("installed")
    must_run("cmake", "--install", BUILD / "common/rowwise", "--prefix", prefix)
    return prefix


@pytest.fixture(scope="module")
def consumer(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs."""
    build = tmp_path_factory.mktemp("consumer")
    must_run("cmake", "-S", CONSUMER, "-B", build, f"-DCMAKE_PREFIX_PATH={installed}")
    must_run("cmake", "--build", build)
    return build


def library_in(prefix: Path) -> Path:
    (library,) = prefix.glob("lib*/librowwise.so")
    return library


def test_two_headers_are_installed(installed: Path) -> None:
    headers = sorted(path.relative_to(installed).as_posix() for path in installed.rglob("*.h*"))
    assert headers == ["include/rowwise/softmax.h", "include/rowwise/softmax_c.h"]


def test_it_exports_what_the_c_header_declares(installed: Path) -> None:
    header = (installed / "include/rowwise/softmax_c.h").read_text(encoding="utf-8")
    declared = re.findall(r"^[a-z][\w *]*?\b(rowwise_\w+)\(", header, re.M)
    listed = must_run("nm", "-D", "--defined-only", library_in(installed))
    assert sorted(line.split()[-1] for line in listed.splitlines()) == sorted(declared)


def test_its_name_has_the_version_of_the_interface(installed: Path) -> None:
    (of_interface,) = re.findall(r"SONAME.*\[(.*)\]", must_run("readelf", "-d", library_in(installed)))
    version = ctypes.CDLL(str(library_in(installed))).rowwise_version
    version.restype = ctypes.c_char_p
    major, minor, patch = version().decode().split(".")
    assert of_interface == f"librowwise.so.{major}.{minor}"
    assert library_in(installed).resolve().name == f"{of_interface}.{patch}"


def check_results(printed: str, cols: int) -> None:
    total = cols // 7 * sum(math.exp(value) for value in range(7))
    assert list(map(float, printed.split())) == pytest.approx([math.exp(value) / total for value in range(7)], rel=1e-5)


@pytest.mark.parametrize("program, cols", [("consumer", 151935), ("consumer_in_c", 7)])
def test_programs_get_right_results(consumer: Path, program: str, cols: int) -> None:
    (simulator,) = (BUILD / "simulator").glob("libcudart.so.*")
    # As seen from here: the loader splits at colons, which the path of a checkout may have.
    check_results(must_run(consumer / program, LD_LIBRARY_PATH=os.path.relpath(simulator.parent)), cols)


@pytest.mark.parametrize("options, is_text", [([], False), (["-DROWWISE_FOR_SIMULATOR=ON"], True)])
def test_ptx_is_text_if_it_is_for_the_simulator(tmp_path: Path, options: list[str], is_text: bool) -> None:
    must_run("cmake", "-S", SOURCE, "-B", tmp_path, "-DCMAKE_CUDA_ARCHITECTURES=90-virtual", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *options)
    entries = json.loads((tmp_path / "compile_commands.json").read_text(encoding="utf-8"))
    command = next(entry["command"] for entry in entries if entry["file"].endswith("/current_gpu.cu"))  # its kernel is small
    must_run("sh", "-c", f'cd "$0" && {command}', tmp_path)
    (compiled,) = tmp_path.rglob("current_gpu.cu.o*")
    assert (b"\n.target sm_90\n" in compiled.read_bytes()) == is_text


def test_on_a_gpu_it_is_small(tmp_path: Path) -> None:
    """As README.md installs it. To compile it takes minutes, so this waits for a machine with a GPU."""
    command = ["nvidia-smi", "--id=0", "--query-gpu=compute_cap", "--format=csv,noheader"]
    if shutil.which(command[0]) is None or run(*command).returncode != 0:
        pytest.skip("no usable NVIDIA GPU")
    architecture = run(*command).stdout.strip().replace(".", "")
    must_run("cmake", "-S", SOURCE, "-B", tmp_path / "build", f"-DCMAKE_CUDA_ARCHITECTURES={architecture}")
    must_run("cmake", "--build", tmp_path / "build", "--parallel")
    must_run("cmake", "--install", tmp_path / "build", "--prefix", tmp_path)
    library = library_in(tmp_path).read_bytes()
    assert len(library) <= MOST_BYTES
    assert b"SmoothedCrossEntropy" not in library  # as in the names of kernels that no function launches
    test_it_exports_what_the_c_header_declares(tmp_path)
    must_run("cmake", "-S", CONSUMER, "-B", tmp_path / "consumer", f"-DCMAKE_PREFIX_PATH={tmp_path}")
    must_run("cmake", "--build", tmp_path / "consumer")
    check_results(must_run(tmp_path / "consumer/consumer"), 151935)


@pytest.mark.parametrize("program", ["consumer", "consumer_in_c"])
def test_without_a_device_there_is_one_line(consumer: Path, program: str) -> None:
    done = run(consumer / program, CUDA_VISIBLE_DEVICES="")
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(rf"{program}: cuda\w+ \(.*\) from .*\n", done.stderr)


def test_another_type_is_refused_by_the_compiler(installed: Path, tmp_path: Path) -> None:
    source = (CONSUMER / "main.cpp").read_text(encoding="utf-8").replace("float", "double")
    (tmp_path / "main.cpp").write_text(source, encoding="utf-8")
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n", encoding="utf-8")
    (tmp_path / "CMakeLists.txt").write_text((CONSUMER / "CMakeLists.txt").read_text(encoding="utf-8"), encoding="utf-8")
    must_run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={installed}")
    done = run("cmake", "--build", tmp_path / "build")
    assert done.returncode != 0 and "rowwise: elements are float, __half or __nv_bfloat16" in done.stdout + done.stderr


def test_another_minor_version_is_refused(installed: Path, tmp_path: Path) -> None:
    text = (CONSUMER / "CMakeLists.txt").read_text(encoding="utf-8").replace("rowwise 0.1", "rowwise 0.99")
    (tmp_path / "CMakeLists.txt").write_text(text, encoding="utf-8")
    done = run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={installed}")
    assert done.returncode != 0 and 'compatible with requested version "0.99"' in re.sub(r"\s+", " ", done.stderr)


def test_a_project_that_fetches_the_repository_has_the_library(tmp_path: Path) -> None:
    """It is configured alone: to compile the kernels would take minutes."""
    fetch = f'include(FetchContent)\nFetchContent_Declare(rowwise SOURCE_DIR "{ROOT}")\nFetchContent_MakeAvailable(rowwise)'
    text = (CONSUMER / "CMakeLists.txt").read_text(encoding="utf-8")
    found = "find_package(rowwise 0.1 CONFIG REQUIRED)"
    assert found in text
    text = text.replace(found, fetch).replace(" main.", f" {CONSUMER}/main.")
    (tmp_path / "CMakeLists.txt").write_text(text, encoding="utf-8")
    must_run("cmake", "-S", tmp_path, "-B", tmp_path / "build", "-G", "Unix Makefiles")
    targets = must_run("cmake", "--build", tmp_path / "build", "--target", "help")
    assert {"consumer", "rowwise"} <= set(re.findall(r"^\.\.\. (\w+)$", targets, re.M))
    assert "harness" not in targets
