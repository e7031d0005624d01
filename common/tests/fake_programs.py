"""Stand-ins for programs on PATH, and programs that last until a signal ends them."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

BASH = shutil.which("bash")


class Programs:
    """A folder for PATH. Its stand-ins, and copies of them, record each call as a line "name arguments"."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "bin"
        self.folder.mkdir()
        self.log = folder / "calls"
        self.log.touch()

    def fake(self, *names: str, body: str = "") -> None:
        for name in names:
            path = self.folder / name
            path.unlink(missing_ok=True)
            path.write_text(f'#!{BASH}\nprintf "%s\\n" "${{0##*/}} $*" >>"{self.log}"\n{body}\n', encoding="utf-8")
            path.chmod(0o755)

    def real(self, *names: str) -> None:
        for name in names:
            (self.folder / name).symlink_to(str(shutil.which(name)))

    def remove(self, *names: str) -> None:
        for name in names:
            (self.folder / name).unlink()


def lasting(started: Path) -> str:
    """A shell script that starts another process, and writes its number into a file."""
    return f"sleep 60 &\necho $! >{started}.$$\nmv {started}.$$ {started}\nwait\n"


def has_ended(pid: int) -> bool:
    """At once or a little later; its exit code may not have been read yet."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def check_signal_ends(number: signal.Signals, command: list[str], started: Path, **more: object) -> None:
    """The signal ends the command and the process that `lasting` has started; `more` is for Popen."""
    started.unlink(missing_ok=True)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, **more)  # fmt: skip
    while process.poll() is None and not started.exists():
        time.sleep(0.05)
    os.kill(process.pid, number)
    printed, _ = process.communicate(timeout=30)
    assert (process.returncode, "Traceback" in printed) == (128 + number, False), printed
    assert has_ended(int(started.read_text()))
