"""What ./test says at the end: how many tests passed, which failed, and why others were skipped.

    python3 common/tools test_summary [--gpu] [FILE]    FILE: what ctest --output-junit wrote

Exit codes: 0 fine; 1 a test failed, none ran, or one was skipped that must not be: with --gpu one that uses it.
"""

import re
import textwrap
import xml.etree.ElementTree as xml
from pathlib import Path

from command import Parser, ToolError

WIDTH = 110


def result(case: xml.Element) -> str:
    skipped = case.find("skipped")
    if case.get("status") == "disabled" or (skipped is not None and skipped.get("message", "").startswith("SKIP_")):
        return "skipped"
    return "passed" if case.get("status") == "run" else "failed"  # a test that could not be started failed, too


def reason(case: xml.Element) -> str:
    """The first line that a skipped test printed, less the name of the program ("01_naive: ") and pytest's sums."""
    uninteresting = re.compile(r"^[^ ]+: |^[.s]+ *\[ *\d+%\]$|^\d+ (passed|skipped).* in [\d.]+s$")
    lines = [uninteresting.sub("", line.strip()) for line in case.findtext("system-out", "").splitlines()]
    return next(filter(None, lines), "no reason given")


def main(arguments: list[str]) -> int:
    parser = Parser("common/tools test_summary", __doc__)
    parser.add_argument("--gpu", action="store_true", help="there is a GPU here")
    parser.add_argument("file", type=Path, nargs="?", default="build/test-results.xml", metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        cases = list(xml.parse(options.file).iter("testcase"))
    except FileNotFoundError:
        raise ToolError("no test ran") from None
    except xml.ParseError as error:
        raise ToolError(f"{options.file}: {error}") from None
    names: dict[str, list[str]] = {"passed": [], "failed": [], "skipped": []}
    why: dict[str, list[str]] = {}
    for case in cases:
        name = case.get("name", "")
        names[result(case)].append(name)
        if result(case) == "skipped":
            why.setdefault(reason(case), []).append(name)

    print("\nSummary: " + ", ".join(f"{len(of_result)} {which}" for which, of_result in names.items()) + ".")
    for name in names["failed"]:
        print(f"  failed: {name}")
    for text, of_reason in why.items():
        print(f"  {len(of_reason)} skipped: {text}")
        print(textwrap.fill(" ".join(of_reason), WIDTH, initial_indent="    ", subsequent_indent="    ",
                            break_long_words=False, break_on_hyphens=False))  # fmt: skip
    if names["failed"]:
        return 1
    if not names["passed"]:
        raise ToolError("no test ran")
    if options.gpu and not all(name.startswith(("host.", "sim.")) for name in names["skipped"]):
        raise ToolError("a GPU is present, so no test that uses it may be skipped")
    return 0
