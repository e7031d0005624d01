"""Measures every stage and every peer found at the published tables' shapes, by one timer in one process.

    ./run sweep
    ./run sweep --tables oneflow --contenders stages,cudnn
    ./run sweep --shapes f16:4096x4096,f32:8x100000

Each contender's result is verified first, against the same double-precision reference as in ./run; what is wrong
gets no time. A peer may err by 4 times what a stage may: cuDNN's 16-bit results err by up to twice that. Then all are
timed in turn, in two rounds of opposite order, each beside a copy of the same bytes. Peers are taken where
they are found: cuDNN, PyTorch (eager, compiled), Triton, quack, Liger.

An interrupted sweep goes on where it was when the same command is given again. The results go to
common/results/<gpu>-sweep.json when all the tables were measured with the usual settings and with cuDNN, PyTorch and
Triton, and nothing of ours was wrong; else to build/. --csv writes them as CSV, too.

Exit codes: 0 fine, 1 a stage's result is wrong (or the results could not be written), 2 bad usage, 3 no usable
GPU, 4 a CUDA error, 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import platform
import re
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

from command import NoDevice, ToolError, say
from files import write_whole
from measure import peers, results, sweep_compile, sweep_journal, sweep_tables
from measure.harness import Harness, HarnessError, Timing, Verdict, library_in
from measure.peers import Candidate, NotApplicable, PeerContender, Problem
from measure.results import Json, Shape
from measure.sweep_journal import Journal, Measurement
from measure.sweep_options import is_usual, parse_arguments, tables_of
from measure.sweep_plan import Table, all_shapes
from measure.sweep_progress import Progress, Stopwatch

SEED = 1
WRONG_RESULT = 1  # the code of the C interface
FIRST_WARM_UP_MS = 40  # see Sampling in common/harness/timer.h
WARM_UP_MS = 5  # after that the GPU does not rest any more
# What is far slower than the copy gets fewer samples, down to 5: without this limit 106 s of a sweep's 493 went into
# one variant. With it about one in 20 contenders gets fewer than 25.
LIMIT_MS = 200
TRIAL_REPEATS = 3  # to choose among a peer's candidates
# The GPU rests while a candidate is compiled, unless the compiler measures on it, and a rested GPU is slow at first. A
# whole sweep has 600 trials: 40 ms for each would make it a minute longer.
TRIAL_WARM_UP_MS = 20
PEER_TOLERANCE = 4.0  # a peer may err by so many times what a stage may


class Entry(NamedTuple):
    """One contender: its number in the harness, and what is behind it."""

    number: int
    name: str  # "03_warp_reduce packs", "pytorch eager", "copy"
    kind: str  # "copy", "stage", "peer"
    stage: str
    variant: str
    peer: Optional[PeerContender] = None


class PeerLaunch:
    """What the harness calls for a peer: the launch of the candidate that was chosen for the open problem."""

    def __init__(self) -> None:
        self.candidate: Optional[Candidate] = None

    def __call__(self, x: int, y: int, stream: int) -> None:
        assert self.candidate is not None
        self.candidate.launch(x, y, stream)


class ContextLost(ToolError):
    """A launch has cost the process its GPU."""

    code = 4


def one_line(error: BaseException) -> str:
    text = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", str(error)).split())  # some colour their messages
    text = text if isinstance(error, ToolError) else f"{type(error).__name__}: {text}"
    return text[:300]


class Sweep:
    """Measures; what is finished stands in the journal."""

    def __init__(
        self,
        harness: Harness,
        entries: List[Entry],
        launches: Dict[str, PeerLaunch],
        journal: Journal,
        arguments: argparse.Namespace,
        progress: Progress,
        watch: Stopwatch,
    ) -> None:
        self.harness = harness
        self.entries = entries
        self.launches = launches
        self.journal = journal
        self.op: str = arguments.op
        self.repeats: int = arguments.repeats
        self.rounds: int = arguments.rounds
        self.progress = progress
        self.watch = watch

    def run(self, shapes: List[Shape]) -> None:
        for shape in shapes:
            left = [e for e in self.entries if not self.journal.finished(str(shape), e.name, self.rounds)]
            self.progress.begin(shape, len(self.entries), len(left))
            if left:
                self.measure(shape, left)

    def measure(self, shape: Shape, left: List[Entry]) -> None:
        with self.watch("inputs"):
            try:
                self.harness.open_problem(shape, self.op, "normal", SEED, 0)
            except HarnessError as error:
                if error.code != 2:
                    raise
                for entry in left:
                    self.add(shape, entry, 0, "not applicable", str(error))
                return
        try:
            verified = {e.number: made for e in left for made in [self.verify(shape, e)] if made is not None}
            timed = [e for e in left if e.number in verified]
            for number in range(self.rounds):
                warm_up = FIRST_WARM_UP_MS
                for entry in timed if number % 2 == 0 else reversed(timed):
                    if not self.journal.has(str(shape), entry.name, number):
                        self.time(shape, entry, number, warm_up, verified[entry.number])
                        warm_up = WARM_UP_MS
        finally:
            for entry in left:
                if entry.peer:
                    self.launches[entry.name].candidate = None
                    with contextlib.suppress(Exception):  # fails where the GPU is lost, which was said already
                        entry.peer.release()
            self.harness.close_problem()

    def verify(self, shape: Shape, entry: Entry) -> Optional[Json]:
        """What is known before timing; None, and a line in the journal, where there is nothing to time."""
        self.progress.show(entry.name)
        reason, passes = self.harness.applies(entry.number)
        if reason:
            self.add(shape, entry, 0, "not applicable", reason)
            return None
        configuration = ""
        try:
            if entry.peer:
                configuration, verdict = self.choose(shape, entry)
            else:
                with self.watch("verifying"):
                    verdict = self.harness.verify(entry.number)
        except NotApplicable as error:
            self.add(shape, entry, 0, "not applicable", str(error))
            return None
        except Exception as error:  # noqa: BLE001  whatever a peer raises belongs into its row
            self.fail(shape, entry, error)
            return None
        if not verdict.correct:
            self.add(shape, entry, 0, "wrong", verdict.explanation)
            return None
        return {"passes": passes, "max_error": verdict.max_error, "configuration": configuration}

    def choose(self, shape: Shape, entry: Entry) -> Tuple[str, Verdict]:
        """Prepares a peer: verifies its candidates and leaves the fastest right one in place; its configuration."""
        launch = self.launches[entry.name]
        assert entry.peer is not None
        best: Optional[Tuple[float, Candidate, Verdict]] = None
        wrong: Optional[Verdict] = None
        error: Optional[Exception] = None
        with self.watch("preparing the peers"):
            candidates = entry.peer.prepare(Problem(*shape, self.op))
            for candidate in candidates:
                launch.candidate = candidate
                try:
                    verdict = self.harness.verify(entry.number, PEER_TOLERANCE)
                    if not verdict.correct:
                        wrong = wrong or verdict
                        continue
                    alone = len(candidates) == 1
                    time_us = 0 if alone else self.harness.time(
                        entry.number, TRIAL_REPEATS, TRIAL_WARM_UP_MS, LIMIT_MS
                    ).time_us
                except Exception as raised:  # noqa: BLE001  the next candidate may do
                    self.check_alive(raised)
                    error = raised
                    continue
                if best is None or time_us < best[0]:
                    best = time_us, candidate, verdict
        if best is None:
            if wrong is None and error is not None:
                raise error
            assert wrong is not None
            return "", wrong
        launch.candidate = best[1]
        return best[1].configuration, best[2]

    def time(self, shape: Shape, entry: Entry, number: int, warm_up_ms: int, known: Json) -> None:
        self.progress.show(entry.name)
        try:
            with self.watch("timing"):
                timing = self.harness.time(entry.number, self.repeats, warm_up_ms, LIMIT_MS)
        except HarnessError as error:
            if error.code != WRONG_RESULT:
                self.fail(shape, entry, error)
            else:
                self.add(shape, entry, number, "wrong", one_line(error))
            return
        except Exception as error:  # noqa: BLE001
            self.fail(shape, entry, error)
            return
        self.add(shape, entry, number, "verified", "", known, timing)

    def check_alive(self, error: BaseException) -> None:
        if not self.harness.is_alive():
            raise ContextLost(one_line(error)) from error

    def fail(self, shape: Shape, entry: Entry, error: BaseException) -> None:
        reason = one_line(error)
        out_of_resources = type(error).__name__ == "OutOfResources"  # Triton: more than the GPU has
        self.add(shape, entry, 0, "not applicable" if out_of_resources else "failed", reason)
        if isinstance(error, ContextLost) or not self.harness.is_alive():
            raise ContextLost(
                f"{entry.name} at {shape} has made the GPU unusable for this process: {reason}; the same command "
                "goes on without it"
            ) from error

    def add(
        self,
        shape: Shape,
        entry: Entry,
        number: int,
        status: str,
        reason: str,
        known: Optional[Json] = None,
        timing: Optional[Timing] = None,
    ) -> None:
        known = known or {}
        self.journal.add(
            Measurement(
                str(shape),
                entry.name,
                number,
                status,
                reason,
                known.get("configuration", ""),
                known.get("passes"),
                known.get("max_error"),
                timing and timing.time_us,
                timing and timing.spread_percent,
                timing and timing.copy_us,
            )
        )
        self.progress.advance(1 if timing else self.rounds)


def code_digest(build: Path, stages: List[str]) -> str:
    """What the measured code is: the libraries, and the files of this tool."""
    digest = hashlib.sha256()
    libraries = [build / "libsoftmax_harness.so", *(build / f"libstage_{stage}.so" for stage in stages)]
    tools = Path(__file__).resolve().parent
    for path in [*libraries, *sorted(tools.glob("sweep*.py")), tools / "harness.py", *sorted(tools.glob("peers/*.py"))]:
        digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()[:16]


def commit_of(root: Path, override: Optional[str]) -> Json:
    try:
        commit, dirty = results.commit_of(root, override)
    except ToolError:
        if override:
            raise
        return {"commit": results.UNKNOWN, "dirty": True}
    return {"commit": commit, "dirty": dirty}


def show_plan(tables: List[Table], stages: List[str], contenders: List[str]) -> None:
    for table in tables:
        print(f"{table.name}: {table.title}\n  {' '.join(map(str, table.shapes))}")
    if "stages" in contenders:
        print(f"stages: {' '.join(stages)}")
    print(f"peers, where found: {' '.join(name for name in contenders if name != 'stages') or 'none'}")


def results_of(header: Json, tables: List[Table], entries: List[Entry], journal: Journal, arguments) -> Json:
    rows = [
        sweep_tables.row(shape, arguments.op, entry, journal, arguments.rounds)
        for shape in all_shapes(tables)
        for entry in entries
    ]
    command = "./run sweep" + "".join(
        f" --{name} {','.join(map(str, value))}"
        for name, value in (("tables", arguments.tables), ("shapes", arguments.shapes))
        if value
    )
    recorded = {"date_utc": results.utc_now(), "commit": header["commit"], "dirty": header["dirty"], "command": command}
    return {
        "recorded": recorded,
        "machine": header["machine"],
        "settings": header["settings"],
        "tables": [
            {"name": t.name, "title": t.title, "source": t.source, "shapes": list(map(str, t.shapes))} for t in tables
        ],
        "results": rows,
    }


def add_contenders(
    harness: Harness, stages: List[str], found: List[PeerContender]
) -> Tuple[List[Entry], Dict[str, PeerLaunch]]:
    """The copy, the stages' variants and the peers."""
    harness.add_stages(stages)
    entries = [
        Entry(number, f"{c.stage} {c.name}".strip(), "stage" if c.stage else "copy", c.stage, c.name)
        for number, c in enumerate(harness.contenders())
    ]
    launches = {contender.name: PeerLaunch() for contender in found}
    for contender in found:
        number = harness.add_contender(contender.peer, contender.variant, launches[contender.name])
        entries.append(Entry(number, contender.name, "peer", contender.peer, contender.variant, contender))
    return entries, launches


def machine_of(device: Json, build: Path, versions: Dict[str, str]) -> Json:
    """The GPU, and the versions of all that runs on it; null for what is not here."""
    libraries = {"torch" if peer == "pytorch" else peer: versions.get(peer) for peer in peers.PEERS}
    return {**device, **results.software_versions(build), "python": platform.python_version(), **libraries}


def plan_of(arguments: argparse.Namespace, shapes: List[Shape], entries: List[Entry]) -> Json:
    """What is measured, and how: the first line of the journal has it, and the results file its settings."""
    settings = {
        "l2": arguments.l2,
        "repeats": arguments.repeats,
        "limit_ms": LIMIT_MS,
        "seed": SEED,
        "offset": 0,
        "rounds": arguments.rounds,
        "peer_tolerance": PEER_TOLERANCE,
    }
    plan = {"op": arguments.op, "shapes": list(map(str, shapes)), "contenders": [e.name for e in entries]}
    return {"settings": settings, "plan": plan}


def usual_file(arguments: argparse.Namespace, data: Json) -> Path:
    """Only a whole sweep, with the main peers and nothing wrong, replaces the recorded file."""
    whole = (
        is_usual(arguments)
        and data["recorded"]["commit"] != results.UNKNOWN
        and {"cudnn", "pytorch", "triton"} <= {r["stage"] for r in data["results"]}
        and not wrong_stages(data)
    )
    folder = arguments.root / "common/results" if whole else arguments.build
    return folder / f"{results.gpu_slug(data['machine']['gpu'])}-sweep.json"


def wrong_stages(data: Json) -> List[Json]:
    return [r for r in data["results"] if r["kind"] == "stage" and r["status"] in ("wrong", "failed")]


def run(arguments: argparse.Namespace) -> int:
    tables = tables_of(arguments)
    if arguments.list:
        show_plan(tables, results.stage_names(arguments.root), arguments.contenders)
        return 0
    watch = Stopwatch()
    commit = commit_of(arguments.root, arguments.commit)
    library_in(arguments.build)  # not built: said before the peers are loaded, which takes seconds
    with watch("loading the peers"):
        found, versions, missing = peers.find([name for name in arguments.contenders if name != "stages"])
    with Harness(arguments.build, arguments.l2) as harness:
        device = harness.device()
        if device.pop("simulated"):
            raise NoDevice("no usable NVIDIA GPU: this process runs under the simulator, which takes no times")
        for peer, why in missing.items():
            say(f"without {peer}: {why}")
        stages = results.stage_names(arguments.root) if "stages" in arguments.contenders else []
        entries, launches = add_contenders(harness, stages, found)
        shapes = all_shapes(tables)
        machine = machine_of(device, arguments.build, versions)
        code = code_digest(arguments.build, stages)
        header = {"machine": machine, "code": code, **commit, **plan_of(arguments, shapes, entries)}
        journal = Journal(sweep_journal.path_in(arguments.build, header), header, arguments.fresh)
        for message in journal.messages:
            say(message)
        if journal.done:
            say(f"going on: {len(journal.done)} measurements of an interrupted sweep are used")
        try:
            left = [s for s in shapes if any(not journal.finished(str(s), e.name, arguments.rounds) for e in entries)]
            if "triton" in versions:
                with watch("compiling Triton kernels ahead"):
                    sweep_compile.triton_ahead([Problem(*s, arguments.op) for s in left], machine["compute_capability"])
            progress = Progress(shapes, arguments.rounds, arguments.repeats)
            with contextlib.closing(progress):
                Sweep(harness, entries, launches, journal, arguments, progress, watch).run(shapes)
        finally:
            journal.close()
    data = results_of(header, tables, entries, journal, arguments)
    out = arguments.out or usual_file(arguments, data)
    write_whole(out, results.json_text(data))
    if arguments.csv:
        write_whole(arguments.csv, sweep_tables.csv_text(data["results"]))
    journal.remove()
    print(sweep_tables.text(data), flush=True)  # before what follows on the other stream
    say(watch.summary())
    say(f"wrote {out}" + (f" and {arguments.csv}" if arguments.csv else ""))
    for row in wrong_stages(data):
        say(f"{row['status']}: {row['contender']} {sweep_tables.shape_of(row)}: {row['reason']}")
    return 1 if wrong_stages(data) else 0


def main(argv: List[str]) -> int:
    try:
        return run(parse_arguments(argv, __doc__))
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the same command goes on from here") from None
