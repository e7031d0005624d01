"""A folder with fake stages, for the tests of common/tools on a machine without a GPU."""

import contextlib
import io
import sys
from pathlib import Path
from typing import Any, Callable

TOOLS = Path(__file__).resolve().parents[1] / "tools"
sys.path.insert(0, str(TOOLS))

import command  # noqa: E402
from measure import results  # noqa: E402
from measure.quantities import COUNTERS  # noqa: E402

COMMIT = "0123456789abcdef"
MACHINE = {"gpu": "NVIDIA Fake 1", "cuda_driver": "13.0", "cuda_runtime": "13.0"}

# A stage: its variants run at `speed` percent of a copy that takes 1 µs per column; a file next to the executable makes
# it misbehave, on the GPU alone if it ends with "gpu".
STAGE = r"""#!{python} -SE
import itertools, json, sys
from pathlib import Path
me, given = Path(__file__), dict(zip(sys.argv[1:], [*sys.argv[2:], ""]))
def stop(code, why, to=sys.stderr):
    print(why, file=to)
    sys.exit(code)
wanted, accepted = given.get("--variant", "all").split(","), [name for name, _, _ in {variants}]
for option, name, known in (("op", given.get("--op", "all"), ["softmax", "log_softmax"]), ("variant", wanted[0], accepted)):
    if name not in (*known, "all"):
        stop(2, f"{me.name}: --{option}: '{name}' is not accepted; accepted: {', '.join(known)}")
if "--list" in given:
    stop(0, "\n".join(f"{name}  an idea" for name in accepted), sys.stdout)
mode = me.with_suffix(".mode").read_text() if me.with_suffix(".mode").exists() else ""
if mode.endswith(" gpu"):
    mode = mode[:-4] if given.get("--device") == "gpu" else ""
if mode.startswith("exit"):
    stop(int(mode.split()[1]), "the stage's last words")
if mode == "garbage":
    stop(0, "no JSON", sys.stdout)
machine = dict({machine}, **({"gpu": "another"} if mode == "other machine" else {}))
timed = "--verify-only" not in given
nothing = dict.fromkeys("time_us spread_percent copy_us percent_of_copy bandwidth_gb_s passes max_error".split())
out = []
for dtype, rows, cols in itertools.product(*(given.get(name, "").split(",") for name in ("--dtype", "--rows", "--cols"))):
    dtype, rows, cols = dtype.replace("all", "f32"), int(rows), int(cols)
    base = dict(nothing, dtype=dtype, op=given.get("--op", "all").replace("all", "softmax"), rows=rows, cols=cols, input="normal", reason="", status="verified")
    copy = cols * (float(mode.split()[2]) if mode.startswith("slow copy") else 1.0)
    for name, speed, widest in {variants}:
        if wanted != ["all"] and name not in wanted:
            continue
        row = dict(base, stage=me.name, variant=name)
        applies = cols <= widest and mode != "nothing applies"
        if not applies:
            row.update(status="not applicable", reason="cols > %d & too wide" % widest)
        elif timed and mode != "without a time":
            row.update(time_us=100 * copy / speed, spread_percent=0.5, copy_us=copy, percent_of_copy=speed,
                       bandwidth_gb_s=speed * 40, passes=2 + 4 / cols, max_error=0.1)
        if given.get("--device") == "sim":
            counts = cols * (2 if mode == "counts more" and name == "wide" else 1)
            row.update(passes=2, **dict.fromkeys({declared}, 4 if applies else None),
                       **dict.fromkeys({counted}, counts if applies else None))
        if mode in ("wrong", "failed"):
            row.update(nothing, status=mode, reason="row 3 differs")
        out += [row] * (2 if mode == "twice" else 1)
    if timed:
        out.append(dict(base, stage="", variant="copy", time_us=copy, spread_percent=0.1, copy_us=copy, passes=2,
                        percent_of_copy=100, bandwidth_gb_s=4000))
print(json.dumps(dict(machine=machine, settings=dict(l2="cold", repeats=25, seed=1, offset=0), results=out)))
sys.exit(mode in ("wrong", "failed silently"))
"""

# The simulator's counters that a stage reports: those that the tools read.
COUNTED = [f"counted_{member}" for counter in COUNTERS.values() for member in counter.members]
COUNTED += ["counted_" + name for name in (
    "passes", "sectors_per_load_request", "sectors_per_store_request", "shared_wavefronts", "bank_conflicts",
    "special_functions_per_element",
)]  # fmt: skip
DECLARED = ["barriers_per_row", "bank_conflicts_per_row"]

VARIANTS = {
    "01_naive": [("thread_per_row", 5.0, 10**9), ("block_per_row", 20.0, 10**9)],
    "02_tiled": [("narrow", 60.0, 2048), ("wide", 50.04, 10**9)],
    "03_fast": [("only", 98.5, 4096)],
}


def script(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def quietly(name: str, *arguments: str) -> tuple[int, str]:
    """Runs a tool; returns its exit code and all that it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            code = command.main([name, *arguments])
        except SystemExit as stop:  # --help
            code = int(stop.code or 0)
    return code, printed.getvalue()


class Repository:
    """A folder with fake stages, built. conftest.py has it as a fixture."""

    stages = VARIANTS
    recorder, recording = "record", ""

    def __init__(self, root: Path) -> None:
        self.root, self.build, self.results = root, root / "build", root / "common/results"
        self.file = self.results / "nvidia-fake-1.json"
        self.build.mkdir()
        self.results.mkdir(parents=True)
        text = STAGE.replace("{python}", sys.executable).replace("{machine}", repr(MACHINE))
        text = text.replace("{counted}", repr(COUNTED)).replace("{declared}", repr(DECLARED))
        for stage, variants in self.stages.items():
            self.page("", f"{stage}/main.cu")
            script(self.build / stage, text.replace("{variants}", repr(variants)))
        self.page("", "09_no_stage/notes.txt")

    def tool(self, words: str, code: int = 0, said: str = "") -> str:
        """A tool with its options ends with this exit code and says this; returns all that it printed."""
        name, *options = words.split()
        options += ["--commit", COMMIT] * (name in ("record", "hardware_table") or "--record" in options)
        if name in ("profile", "hardware_table") and "--ncu" not in options:
            options += ["--ncu", str(self.build / "ncu")]
        ended, printed = quietly(name, "--root", str(self.root), *options)
        assert (ended, said in printed) == (code, True), printed
        return printed

    def recorded(self) -> None:
        """Puts a recording there; made once, since the recorder runs many processes."""
        if not type(self).recording:
            self.tool(self.recorder)
            type(self).recording = self.file.read_text(encoding="utf-8")
        self.file.write_text(self.recording, encoding="utf-8")

    def data(self, file: str = "") -> Any:
        """The recorded data, in this file or in the usual one."""
        return results.load(self.results / file if file else self.file, {})

    def change(self, edit: Callable[[Any], Any]) -> None:
        data = self.data()
        edit(data)
        self.file.write_text(results.json_text(data), encoding="utf-8")

    def mode(self, stage: str, mode: str) -> None:
        (self.build / stage).with_suffix(".mode").write_text(mode)

    def page(self, text: str, name: str = "README.md") -> Path:
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def files(self) -> list[str]:
        return sorted(path.name for path in self.results.iterdir())


# ncu: makes the given launches and lists the launched programs in the report, or prints a report as CSV: a line per
# kernel, with the counters of the fake stages' simulator, `cols` of everything, except for `changed`.
NCU = r"""#!{python} -SE
import json, shlex, subprocess, sys
from pathlib import Path
given, mode, changed = sys.argv[1:], "{mode}", dict({changed})
def value(name):
    return given[given.index(name) + 1]
def line(*cells):
    print(",".join('"%s"' % cell for cell in cells))
def cell(metric, cols):
    one, two = "{:,}".format(cols), "{:,}".format(2 * cols)
    for name, text in (
        ("launch__block_size", "40 (0: 40)"),
        ("sass__inst_executed_per_opcode", f"9 (BAR: {two}; SHFL: {one}; ATOMS: 0; ATOM: {one}; IMAD: 7)"),
        ("sass__thread_inst", f"9 (MUFU.EX2: {one}; IMAD.WIDE: 7)"),
        ("l1tex__data_pipe_lsu_wavefronts", two),
    ):
        if metric.startswith(name):
            return text
    return one
if given == ["--version"]:
    print("NVIDIA (R) Nsight Compute\nVersion 2099.1.0.0 (build 1)")
elif "--import" in given:
    assert (value("--page"), value("--print-units"), value("--print-metric-instances")) == ("raw", "base", "details")
    metrics = value("--metrics").split(",")
    print("==PROF== what ncu says beside it")
    line("ID", "Process ID", "Kernel Name", "Block Size", *metrics)
    changed = {name: text if isinstance(text, tuple) else (text, "") for name, text in changed.items()}
    line("", "", "", "", *(changed.get(metric, ("", ""))[1] for metric in metrics))
    for process, variant, cols in json.loads(Path(value("--import")).read_text()):
        for kernel in range({kernels}.get(variant, 1) if mode != "nothing" else 0):
            texts = (changed[metric][0] if metric in changed else cell(metric, cols) for metric in metrics)
            line(kernel, process, "k%d<float,  4>" % kernel, "(256, 1, 1)", *texts)
else:
    print("==WARNING== Note: Running with unmodified GPU clocks.")
    said = {"uninitialised": "Failed to initialize the profiler: LibraryNotLoaded", "error": "Failed to find metric",
            "permission": "ERR_NVGPUCTRPERM - The user does not have permission to access the counters"}.get(mode)
    if said:
        print("==ERROR==", said, flush=True)
    if mode in ("uninitialised", "error"):
        sys.exit(1)
    assert (value("--clock-control"), value("--profile-from-start")) == ("none", "off") and "--nvtx" in given
    script = Path(given[-1])
    subprocess.check_call(["bash", str(script)])
    launched = []
    for n, command in enumerate(script.read_text().splitlines()):
        words = shlex.split(command)
        assert "--profile" in words and words[words.index("--device") + 1] == "gpu"
        process = int(script.with_name("%d.pid" % n).read_text())
        launched.append([process, words[words.index("--variant") + 1], int(words[words.index("--cols") + 1])])
    if mode != "permission":
        Path(value("--export")).write_text(json.dumps(launched))
"""


def fake_ncu(path: Path, mode: str = "", kernels: Any = None, changed: Any = None) -> None:
    """`kernels`: of a variant, more than one; `changed`: a counter's text, or (text, unit)."""
    text = NCU.replace("{python}", sys.executable).replace("{mode}", mode)
    script(path, text.replace("{kernels}", repr(kernels or {})).replace("{changed}", repr(changed or {})))
