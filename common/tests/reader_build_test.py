"""A reader may edit the stages: in a copy of the checkout whose stages hold other text, CMake configures with the tests
and without them, and the tests do not change how a reader's stages are compiled. Compiles nothing.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2]
Command = tuple[str, str]


def is_of_a_test(entry: dict[str, str]) -> bool:
    """make compiles from the folder of a CMakeLists.txt, ninja from the top."""
    output = re.search(r" -o (\S+)", entry["command"])
    return output is not None and "/tests/" in f"{entry['directory']}/{output[1]}"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    checkout = tmp_path / "checkout"
    shutil.copytree(SOURCE, checkout, ignore=shutil.ignore_patterns("build*", ".*"))
    for file in checkout.glob("[0-9][0-9]_*/*.cu*"):
        file.write_text("int unused;  // no barrier, no text that was here before\n", encoding="utf-8")
    return checkout


def test_configures_whatever_the_stages_hold(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = checkout.with_name("build")
    monkeypatch.delenv("CI", raising=False)

    def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, text=True, capture_output=True, check=False)

    def configure(*options: str) -> set[Command]:
        """Returns each file but those of the tests, and how it is compiled."""
        done = run("cmake", "-S", checkout, "-B", build, *options)
        assert done.returncode == 0, done
        entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
        return {(e["file"], e["command"]) for e in entries if not is_of_a_test(e)}

    def number_of_tests() -> int:
        return len(re.findall(r"^ +Test +#\d+: ", run("ctest", "-N", "--test-dir", build).stdout, re.MULTILINE))

    def stopped_by_warnings(commands: set[Command]) -> set[str]:
        return {Path(file).suffix for file, command in commands if "-Werror" in command}

    reader = configure()
    assert (number_of_tests(), stopped_by_warnings(reader)) == (0, set())
    assert any(file.endswith("main.cu") for file, _ in reader)
    assert configure("-DSOFTMAX_TESTS=ON") == reader  # nothing is compiled again
    assert number_of_tests() > 100
    # The default is determined once: a folder keeps its own.
    monkeypatch.setenv("CI", "true")
    assert configure() == reader
    ci = configure("-UWARNINGS_AS_ERRORS")
    assert stopped_by_warnings(ci) == {".cpp", ".cu", ".cxx"}  # .cxx: several .cpp together
    assert all("-Werror" in command for _, command in ci)
