"""Builds what an exercise or the simulator needs, as ./run does."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

from command import Usage, signals_wait

SCRIPT = 'source common/tools/setup.sh; set_up; build "$@"'


class CMakeCache:
    """What a build folder was configured with."""

    def __init__(self, path: Path) -> None:
        try:
            self.text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise Usage(f"{path} is missing: build first, with ./run 01") from error

    def value(self, name: str) -> str:
        """Empty where there is none."""
        found = re.search(rf"^{name}:[A-Z]+=(.+)$", self.text, re.MULTILINE)
        return found.group(1) if found else ""


def build(root: Path, who: str, *targets: str, **streams: Any) -> tuple[int, str]:
    """Returns the exit code, and what was written to a stream that is subprocess.PIPE. `who` begins the messages."""
    command = ["bash", "-euo", "pipefail", "-c", SCRIPT, who, *targets]
    script = None
    try:
        with signals_wait():
            script = subprocess.Popen(command, cwd=root, stdin=subprocess.DEVNULL, text=True, errors="replace", **streams)
        printed, _ = script.communicate()
    except BaseException:
        if script:
            script.terminate()  # and it ends its compilers
            script.wait()
        raise
    return script.returncode, printed or ""
