"""Runs pytest for CTest: python3 common/tests/run_pytest.py FILE[::TEST] [pytest's options]

Exit codes: 0 all passed, 1 not all did or none was there, 3 a test was skipped (its reason is the last line), or pytest
is missing.
"""

import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.append(str(Path(__file__).resolve().parents[2] / ".tools/pytest"))
SKIPPED = 3

try:
    import pytest
except ImportError:
    print("pytest is missing: ./test fetches it into .tools/pytest where there is a network")
    sys.exit(SKIPPED)


class Skips:
    """Hears of every test that was skipped."""

    def __init__(self):
        self.reasons = []

    def pytest_runtest_logreport(self, report):
        if report.skipped:
            self.reasons.append(report.longrepr[2].replace("Skipped: ", ""))

    pytest_collectreport = pytest_runtest_logreport


skips = Skips()
code = pytest.main(["-q", "-p", "no:cacheprovider", "--tb=short", "--no-header", *sys.argv[1:]], plugins=[skips])
if skips.reasons and code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
    print(skips.reasons[0])
    sys.exit(SKIPPED)
sys.exit(1 if code else 0)
