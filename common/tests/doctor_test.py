"""./run doctor with a PATH of stand-ins: each part that can be missing is taken away once."""

import os
import shutil
from pathlib import Path
from unittest import mock

import pytest
from fake_programs import Programs
from learn import doctor

NVIDIA_SMI = """case $1 in
  *gpu=name*) echo "NVIDIA Fake 1" ;;
  *compute_cap*) echo 9.0 ;;
  *driver_version*) echo 580.1 ;;
  *) echo "| NVIDIA-SMI 580.1   CUDA Version: 13.0 |" ;;
esac"""
CHECK = "../build/exercise/bank_conflicts"


class Patient:
    """A machine with everything."""

    def __init__(self, root: Path, programs: Programs) -> None:
        self.root, self.programs = root, programs
        for folder in ("build/simulator", "build/exercise", "driver/nvidia", "01_first"):
            (root / folder).mkdir(parents=True)
        for file in ("01_first/main.cu", "02_second/main.cu", "01_first/exercise/one/starter.cu"):
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).touch()
        (root / "build/simulator/libcudart.so.13").touch()
        self.params = root / "driver/nvidia/params"
        self.params.write_text("RmProfilingAdminOnly: 0\n", encoding="utf-8")
        self.change({
            "g++": "echo 'g++ 12.2'",
            "cmake": "echo cmake version 3.25.1",
            "nvcc": "echo release 13.0, V13.0.88",
            "nvidia-smi": NVIDIA_SMI,
            **dict.fromkeys(("ninja", "ncu", CHECK, "../build/01_first"), ""),
        })  # fmt: skip

    def change(self, bodies: dict[str, str | None]) -> None:
        """Replaces the body of each program; None: it is not there."""
        for name, body in bodies.items():
            self.programs.remove(name) if body is None else self.programs.fake(name, body=body)

    def findings(self) -> dict[str, doctor.Finding]:
        machine = doctor.Machine(self.root, self.root, str(self.root / "no/nvcc"))
        return {part: check(machine) for part, check in doctor.CHECKS.items()}

    def check(self, part: str, state: str, mend: str = "") -> None:
        finding = self.findings()[part]
        assert finding.state == state and mend in finding.mend, finding

    def verdict(self, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
        return doctor.report(self.findings()), capsys.readouterr().out.splitlines()


@pytest.fixture
def patient(tmp_path: Path, programs: Programs, monkeypatch: pytest.MonkeyPatch) -> Patient:
    for name in ("CXX", "CUDACXX", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(programs.folder))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return Patient(tmp_path, programs)


def test_everything_is_here(patient: Patient, capsys: pytest.CaptureFixture[str]) -> None:
    assert {finding.state for finding in patient.findings().values()} == {"ok"}, patient.findings()
    code, lines = patient.verdict(capsys)
    assert (code, len(lines)) == (0, len(doctor.CHECKS) + 2)  # one line each, and the verdict
    assert "on the GPU and on the simulator" in lines[-1] and "\033" not in "".join(lines)


def test_nothing_is_here(patient: Patient, capsys: pytest.CaptureFixture[str]) -> None:
    patient.change(dict.fromkeys(("g++", "cmake", "ninja", "nvcc", "nvidia-smi", "ncu")))
    shutil.rmtree(patient.root / "build/simulator")
    for finding in patient.findings().values():
        assert finding.mend or finding.state == "ok", finding
    code, lines = patient.verdict(capsys)
    assert (code, lines[-1]) == (1, "Missing: C++ compiler, CMake, Ninja or make, CUDA toolkit.")


def test_no_gpu_is_fine(patient: Patient, capsys: pytest.CaptureFixture[str]) -> None:
    patient.change({"nvidia-smi": None})
    code, lines = patient.verdict(capsys)
    assert code == 0 and "There is no GPU, so nothing is timed" in lines[-1]


OLD_DRIVER = NVIDIA_SMI.replace("13.0", "12.8")
CHANGES: list[tuple[dict[str, str | None], str, str, str]] = [
    ({"nvidia-smi": None}, "GPU", "note", "they run on the simulator"),
    ({"nvidia-smi": None}, "driver", "note", "needed only with a GPU"),
    ({"nvidia-smi": None}, "counters of ncu", "note", "the simulator counts"),
    ({"nvidia-smi": "echo 'NVIDIA-SMI has failed'; exit 9"}, "GPU", "note", "they run on the simulator"),
    ({"nvidia-smi": NVIDIA_SMI.replace("9.0", "6.1")}, "GPU", "note", "7.5 or newer"),
    ({"nvcc": "echo release 11.8, V11.8.1"}, "CUDA toolkit", "missing", "install CUDA 12.4 or newer"),
    ({"cmake": "echo cmake version 3.18.4"}, "CMake", "note", "fetches a newer one"),
    ({"nvidia-smi": OLD_DRIVER}, "driver", "missing", "update the driver"),
    # The same major version is enough.
    ({"nvidia-smi": OLD_DRIVER, "nvcc": "echo release 12.9, V12.9.1"}, "driver", "ok", ""),
    ({"ninja": None, "make": ""}, "Ninja or make", "ok", ""),
    ({"ncu": None}, "counters of ncu", "note", "install Nsight Compute"),
    ({CHECK: "exit 1"}, "simulator", "missing", "./run doctor --build"),
    ({CHECK: None, "../build/01_first": None}, "simulator", "note", "./run doctor --build"),
    ({"../build/01_first": None}, "built", "note", "./run builds the stages"),
    # As ./run leaves a reader's build: a stage, and no exercise's check.
    ({CHECK: None, "../build/01_first": ""}, "simulator", "ok", ""),
    ({CHECK: None, "../build/01_first": "exit 4"}, "simulator", "missing", "./run doctor --build"),
]


@pytest.mark.parametrize("change, part, state, mend", CHANGES)
def test_programs(patient: Patient, change: dict[str, str | None], part: str, state: str, mend: str) -> None:
    patient.change(change)
    patient.check(part, state, mend)


@pytest.mark.parametrize("code", [0, 70])
def test_a_build_that_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: int) -> None:
    monkeypatch.setattr(doctor, "build", lambda *_: code)
    monkeypatch.setattr(doctor, "CHECKS", {"GPU": lambda _: doctor.Finding("ok", "a GPU", "")})
    assert (doctor.main(["--build"]), "The build failed" in capsys.readouterr().out) == (code != 0, code != 0)


def test_built(patient: Patient) -> None:
    patient.check("built", "ok", "./run builds the others (02)")
    assert patient.findings()["built"].found == "1 of 2 stages, the checks of 0 of 1 exercises"
    patient.change({"../build/02_second": "", "../build/exercise/one": ""})
    (patient.root / "build/CMakeCache.txt").write_text("compiled_for:INTERNAL=80-real;90-virtual\n")
    assert patient.findings()["built"] == ("ok", "2 of 2 stages, the checks of 1 of 1 exercises; for 80-real, 90-virtual", "")


def test_counters(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    patient.params.write_text("RmProfilingAdminOnly: 1\n", encoding="utf-8")
    patient.check("counters of ncu", "note", "NVreg_RestrictProfilingToAdminUsers=0")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    patient.check("counters of ncu", "ok")
    patient.params.unlink()
    patient.check("counters of ncu", "note", "ERR_NVGPUCTRPERM")


def test_another_compiler_and_little_disk(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "nosuch++")
    patient.check("C++ compiler", "missing", "or set CXX")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: mock.Mock(free=1e9))
    patient.check("disk", "note", "make room")
