"""The workshop's notebook: its cells are run from top to bottom in a fresh folder. They clone and build, for some minutes."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Kernel:
    """Runs cells as a notebook would: Python, and lines that begin with ! for the shell, in which "$name" may be a variable."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__", "shell": self.shell}
        self.printed = ""

    def shell(self, command: str) -> None:
        known = {name: value for name, value in self.names.items() if isinstance(value, str)}
        done = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, env={**os.environ, **known}, check=False)  # fmt: skip
        self.write(done.stdout)

    def write(self, *texts: object) -> None:
        self.printed += " ".join(map(str, texts)) + "\n"

    def run(self, cell: str) -> str:
        """The output of the cell."""
        self.printed, self.names["print"] = "", self.write
        python = re.sub(r"^( *)!(.*)$", lambda line: f"{line[1]}shell({line[2]!r})", cell, flags=re.M)
        exec(compile(python, "cell", "exec"), self.names)  # noqa: S102  # it is our own
        return self.printed


@pytest.fixture
def cells() -> list[str]:
    notebook = json.loads((ROOT / "common/workshop/softmax.ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], len({cell["id"] for cell in notebook["cells"]})) == (4, len(notebook["cells"]))
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook["cells"])
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


# The text that each cell must print, in their order.
SAID = [r"/softmax$", r"^Ready: ", r"^03_warp_reduce .*(.*\n)+^padded_packs .*(.*\n)+^Next: ", r"1000.*(.*\n)+^padded_packs ",
        r"^Exercises: 0 of \d+ solved", r"^Stuck\?", r"Exercise 03\.1", r"Hint 1", r"shown so far: 1 of 3", r"mine\.tar\.gz"]  # fmt: skip


@pytest.mark.skipif(not shutil.which("git") or not (ROOT / ".git").exists(), reason="no git, or no history: nothing is there to clone")
@pytest.mark.skipif("CI" in os.environ, reason="it clones and builds what CI has just built: run ./test -R notebook elsewhere")
def test_the_notebook(cells: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # A clone of the files here, committed or not.
    origin = tmp_path / "origin"
    list_files = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(list_files, cwd=ROOT, text=True).split("\0"):
        if name and (ROOT / name).exists():
            (origin / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, origin / name)
    git = ["git", "-C", str(origin), "-c", "user.name=test", "-c", "user.email=test@example.com"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
        subprocess.check_call([*git, *command])
    monkeypatch.setenv("REPOSITORY", f"file://{origin}")
    monkeypatch.setenv("CCACHE_BASEDIR", str(tmp_path / "softmax"))  # a compiler cache, if any, knows the files
    kernel = Kernel()
    assert len(cells) == len(SAID)
    for cell, said in zip(cells, SAID):
        printed = kernel.run(cell)
        assert re.search(said, printed, re.M), f"{cell}\n{printed}"
