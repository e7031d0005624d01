"""A test that each counter counts something: a counter that no instruction sets would be 0 in every table.

counters_test.py COUNTERS.H PROGRAM...: runs the programs, before whose names variables may be set as for env, with
SIM_REPORT=1, and fails if a counter of the header is 0 in all of their launches.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path


def names(header: str, macro: str) -> list[str]:
    block = re.search(rf"#define {macro}\(X\)(?:.*\\\n)*.*\n", header)
    assert block, macro
    return [name.replace("_", " ") for name in re.findall(r"X\((\w+)", block[0])]


def main(header: str, *programs: str) -> None:
    text = Path(header).read_text(encoding="utf-8")
    said = ""
    for program in programs:
        command = ["env", "SIM_REPORT=1", *shlex.split(program)]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
        assert done.returncode == 0, f"{program} ends with {done.returncode}"
        said += done.stderr
    wanted = names(text, "SIM_COUNTERS") + names(text, "SIM_ACCESS_COUNTERS")
    silent = [name for name in wanted if not re.search(rf"\b[1-9][0-9]* {name}\b", said)]
    if silent:
        sys.exit(f"no launch of these programs has counted {', '.join(silent)}")
    print(f"each of {len(wanted)} counters has counted something")


if __name__ == "__main__":
    main(*sys.argv[1:])
