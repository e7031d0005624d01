"""Builds what an exercise needs, as ./run does."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Tuple

SCRIPT = 'source common/tools/setup.sh; set_up; build "$@"'


def build(root: Path, who: str, *targets: str, **streams: Any) -> Tuple[int, str]:
    """Returns the exit code, and what was written to a stream that is subprocess.PIPE. `who` begins the messages."""
    command = ["bash", "-euo", "pipefail", "-c", SCRIPT, who, *targets]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.DEVNULL, text=True, errors="replace", **streams) as script:
        try:
            printed, _ = script.communicate()
        except BaseException:
            script.terminate()  # and it ends its compilers
            raise
    return script.returncode, printed or ""
