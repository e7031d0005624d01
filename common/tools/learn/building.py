"""Builds what an exercise needs, as ./run does."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from command import signals_wait

SCRIPT = 'source common/tools/setup.sh; set_up; build "$@"'


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
