"""The things that the tests in Python share: the path to the tools, fake stages, stand-ins for programs, and a browser."""

import signal
import sys
from pathlib import Path

import pytest

sys.dont_write_bytecode = True
# A script's background job ignores Ctrl-C, and so would every program that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from browser import browser  # noqa: E402, F401
from fake_programs import Programs  # noqa: E402
from fake_stages import Repository  # noqa: E402


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path.resolve())


@pytest.fixture
def recorded(repository: Repository) -> Repository:
    """With a full recording in common/results."""
    repository.recorded()
    return repository


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path.resolve())
