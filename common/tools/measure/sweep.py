"""Measures every stage, every kernel of rowwise and every peer found at the published tables' shapes, by one timer in one
process.

    ./run sweep
    ./run sweep --tables oneflow --contenders stages,cudnn
    ./run sweep --shapes f16:4096x4096,f32:8x100000

Each contender's result is verified first, against the same double-precision reference as in ./run; a wrong one
gets no time. A peer may err by 4 times as much as a stage: cuDNN's 16-bit results err by up to twice as much. Then all are
timed in turn, in two rounds of opposite order, each with a copy of the same bytes; one that takes more than twice as long
as the copy has one round. Peers are taken where they are found: cuDNN, PyTorch (eager, compiled), Triton, quack, Liger, FlashInfer.

With --op softmax_backward it is the gradient, at tables of its own: two matrices are read and one is written, also by
the copy. With --op cross_entropy it is the loss of each row, whose ceiling is one read; with --op
cross_entropy_gradient the loss with its gradient, one read and one write.

    ./run sweep --random 30
    ./run sweep --random 30 --seed 2 --op softmax_backward

--random finds the shapes that no table has. Rows up to a million and columns up to two million, log-uniform, every
second width rounded up to a multiple of 8; matrices of 64 KiB, below which a launch takes longer than the work, to 2 GiB;
each dtype; softmax or log_softmax, if no --op is given; aligned, or one element off, if no --offset is given. The same
seed gives the same shapes. It ends with a line for each shape, the best stage and the best peer, and the number of
shapes at which the stages lose by more than 3 points of the copy's speed.

An interrupted sweep goes on where it was when the same command is given again. The results go to
common/results/<gpu>-sweep.json, of another operation to <gpu>-sweep-<op>.json, when all the tables were measured
with the usual settings and with cuDNN, PyTorch and Triton, and nothing of ours was wrong; else to build/. --csv writes
them as CSV, too.

Exit codes: 0 fine, 1 a stage's result is wrong (or the results could not be written), 2 bad usage, 3 no usable
GPU, 4 a CUDA error, 130 interrupted.
"""

import argparse
import contextlib
import hashlib
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

from command import NoDevice, Usage, say
from files import write_whole
from measure import peers, results, sweep_tables
from measure.harness import LIBRARY, Harness, HarnessError, Verdict, WrongResult, built
from measure.peers import Candidate, NotApplicable, PeerContender, Problem, one_line
from measure.results import Json, Shape
from measure.sweep_journal import Journal, Measurement
from measure.sweep_options import KINDS, REPEATS, ROUNDS, parse_arguments, tables_of
from measure.sweep_progress import Progress, Stopwatch

SEED = 1  # of the input
FIRST_WARM_UP_MS = 40  # see Sampling in common/harness/timer.h
WARM_UP_MS = 5  # after that the GPU does not rest any more
# A contender far slower than the copy gets fewer samples, down to 5: without this limit 106 s of a sweep's 493 went into
# one variant. With it about one in 20 contenders gets fewer than 25.
LIMIT_MS = 200
TRIAL_REPEATS = 3  # to choose among a peer's candidates
# The GPU rests while a candidate is compiled, unless the compiler measures on it, and a rested GPU is slow at first. A
# whole sweep has 600 trials: 40 ms for each would make it a minute longer.
TRIAL_WARM_UP_MS = 20
PEER_TOLERANCE = 4.0  # a peer may err by this many times as much as a stage


@dataclass
class Entry:
    """One contender: its number in the harness, and the code that it runs."""

    number: int
    stage: str  # a stage's folder, a peer's name, or "" for the copy
    variant: str
    peer: PeerContender | None = None
    candidate: Candidate | None = None  # of a peer: the one that was chosen for the open problem

    @property
    def name(self) -> str:
        return f"{self.stage} {self.variant}".strip()

    def described(self) -> Json:
        kind = "peer" if self.peer else "stage" if self.stage else "copy"
        return {"contender": self.name, "kind": kind, "stage": self.stage, "variant": self.variant}


@dataclass
class Sweep:
    """Measures; finished measurements are in the journal."""

    harness: Harness
    journal: Journal
    watch: Stopwatch
    rounds: int
    repeats: int

    def run(self, problems: list[Problem], entries: list[Entry]) -> None:
        def left(problem: Problem) -> int:
            return sum(len(self.journal.left(problem, entry.name)) for entry in entries)

        work = {problem: [entry for entry in entries if self.journal.left(problem, entry.name)] for problem in problems}
        work = {problem: some for problem, some in work.items() if some}
        peers_here = [entry.peer for entry in entries if entry.peer]
        for compile_ahead, peer in {peer.compile_ahead: peer for peer in peers_here}.items():
            ahead = [problem for problem in work if problem.op in peer.operations]
            if compile_ahead and ahead:
                with self.watch("compiling Triton kernels ahead"):
                    compile_ahead(ahead)
        with contextlib.closing(Progress(work, self.repeats, left)) as self.progress:
            for problem, some in work.items():
                self.measure(problem, some)

    def measure(self, problem: Problem, entries: list[Entry]) -> None:
        self.progress.show(problem, entries[0].name)
        try:
            with self.watch("inputs"):
                self.harness.open_problem(problem.shape, problem.op, "normal", SEED, problem.offset)
        except Usage as error:
            for entry in entries:
                self.journal.add(Measurement(str(problem), entry.name, status="not applicable", reason=str(error)))
            return
        known: dict[int, Measurement] = {}
        try:
            for entry in entries:
                with self.told(problem, entry):
                    known[entry.number] = self.verify(problem, entry)
            for number in range(self.rounds):
                warm_up_ms = FIRST_WARM_UP_MS
                for entry in entries if number % 2 == 0 else reversed(entries):
                    if entry.number in known and number in self.journal.left(problem, entry.name):
                        with self.told(problem, entry), self.watch("timing"):
                            timing = self.harness.time(entry.number, self.repeats, warm_up_ms, LIMIT_MS)
                            times = {name: getattr(timing, name) for name in ("time_us", "spread_percent", "copy_us")}
                            self.journal.add(known[entry.number]._replace(round=number, **times))
                        warm_up_ms = WARM_UP_MS
        finally:
            for entry in entries:
                entry.candidate = None
                if entry.peer:
                    with contextlib.suppress(Exception):  # fails where the GPU is lost, which was said already
                        entry.peer.release()
            self.harness.close_problem()

    @contextlib.contextmanager
    def told(self, problem: Problem, entry: Entry) -> Iterator[None]:
        """Writes an error of a contender into its row. Raises HarnessError if it has lost the GPU."""
        self.progress.show(problem, entry.name)
        try:
            yield
        except Exception as error:  # noqa: BLE001  whatever a peer raises
            # OutOfResources is Triton's: more than the GPU has.
            refused = isinstance(error, NotApplicable) or type(error).__name__ == "OutOfResources"
            status = "not applicable" if refused else "wrong" if isinstance(error, WrongResult) else "failed"
            reason = str(error) if isinstance(error, (NotApplicable, WrongResult)) else one_line(error)
            self.journal.add(Measurement(str(problem), entry.name, status=status, reason=reason))
            if not self.harness.is_alive():
                raise HarnessError(
                    f"{entry.name} at {problem} has made the GPU unusable for this process: {reason}; the same command "
                    "goes on without it"
                ) from error

    def verify(self, problem: Problem, entry: Entry) -> Measurement:
        """The measurement without its times. Raises if there is nothing to time."""
        reason, passes = self.harness.applies(entry.number)
        if reason:
            raise NotApplicable(reason)
        with self.watch("preparing the peers" if entry.peer else "verifying"):
            verdict = self.choose(problem, entry, entry.peer) if entry.peer else self.right(entry, 1)
        known = Measurement(str(problem), entry.name, passes=passes, max_error=verdict.max_error)
        return known._replace(configuration=entry.candidate.configuration if entry.candidate else "")

    def right(self, entry: Entry, tolerance_factor: float) -> Verdict:
        """Raises WrongResult."""
        verdict = self.harness.verify(entry.number, tolerance_factor)
        if not verdict.correct:
            raise WrongResult(verdict.explanation)
        return verdict

    def choose(self, problem: Problem, entry: Entry, peer: PeerContender) -> Verdict:
        """Prepares a peer: verifies its candidates and leaves the fastest right one in place."""
        if problem.op not in peer.operations:
            raise NotApplicable(f"{peer.peer} has no {problem.op}")
        candidates = peer.prepare(problem)
        best = None
        errors: list[Exception] = []
        for entry.candidate in candidates:
            try:
                verdict = self.right(entry, PEER_TOLERANCE)
                time_us = 0.0
                if len(candidates) > 1:
                    time_us = self.harness.time(entry.number, TRIAL_REPEATS, TRIAL_WARM_UP_MS, LIMIT_MS).time_us
                if best is None or time_us < best[0]:
                    best = time_us, entry.candidate, verdict
            except Exception as error:  # noqa: BLE001  the next candidate may do
                if not self.harness.is_alive():
                    raise
                errors.append(error)
        if best is None:
            raise next((error for error in errors if isinstance(error, WrongResult)), errors[-1])
        _, entry.candidate, verdict = best
        return verdict


def code_digest(build: Path, stages: list[str]) -> str:
    """A digest of the measured code: the libraries, and the files of this tool."""
    tools = Path(__file__).parent
    libraries = [build / LIBRARY, *(build / f"libstage_{stage}.so" for stage in stages)]
    sources = [*sorted(tools.glob("sweep*.py")), tools / "harness.py", *sorted(tools.glob("peers/*.py"))]
    digest = hashlib.sha256()
    for path in (*libraries, *sources):
        digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()[:16]


def show_plan(arguments: argparse.Namespace, stages: list[str]) -> None:
    for table in arguments.chosen:
        print(f"{table.name}: {table.title}\n  {' '.join(map(str, table.shapes))}")
    if arguments.random:
        print("\n".join(map(str, arguments.problems)))
    if {"stages", results.LIBRARY} & {*arguments.contenders}:
        print(f"stages: {' '.join(stages)}")
    print(f"peers, where found: {' '.join(name for name in arguments.contenders if name in peers.PEERS) or 'none'}")


def does(stage: str, op: str) -> bool:
    """False for a stage of softmax where the gradient or the loss is measured, and the other way round."""
    families = [family for family in peers.FAMILIES if op in family]
    return not families or any(operation in families[0] for operation in results.operations_of(stage))


def add_contenders(harness: Harness, stages: list[str], found: list[PeerContender]) -> list[Entry]:
    """The copy, the stages' variants and the peers."""
    harness.add_stages(stages)
    entries = [Entry(number, *contender) for number, contender in enumerate(harness.contenders())]
    for peer in found:
        entry = Entry(len(entries), peer.peer, peer.variant, peer)
        harness.add_contender(peer.peer, peer.variant, lambda *to, entry=entry: entry.candidate.launch(*to))
        entries.append(entry)
    return entries


def header_of(
    arguments: argparse.Namespace, device: Json, versions: dict[str, str], stages: list[str], entries: list[Entry]
) -> Json:
    """The plan of the measurement, and how it is made; machine and settings are in the results file, too."""
    libraries = {"torch" if peer == "pytorch" else peer: versions.get(peer) for peer in peers.PEERS}
    software = {**results.software_versions(arguments.build), "python": platform.python_version(), **libraries}
    how = {"l2": arguments.l2, "repeats": arguments.repeats, "limit_ms": LIMIT_MS, "seed": SEED}
    problems = list(map(str, arguments.problems))
    return {
        "machine": {**device, **software},
        "code": code_digest(arguments.build, stages),
        "settings": {**how, "offset": arguments.offset, "rounds": arguments.rounds, "peer_tolerance": PEER_TOLERANCE},
        "plan": {"problems": problems, "contenders": [entry.name for entry in entries]},
    }


def results_of(arguments: argparse.Namespace, header: Json, entries: list[Entry], journal: Journal) -> Json:
    rows = []
    for problem in arguments.problems:
        copy = journal.rounds(problem, "copy")
        least_passes = copy[0].passes if copy and copy[0].passes else 2
        for entry in entries:
            rounds = journal.rounds(problem, entry.name)
            rows.append(sweep_tables.row(entry.described(), problem, rounds, least_passes))
    command = "./run sweep"
    usual = {} if arguments.random else {"op": "softmax", "offset": 0}
    for name in ("tables", "shapes", "random", "seed", "op", "offset"):
        value = getattr(arguments, name)
        if value is not None and value != usual.get(name):
            command += f" --{name} {','.join(map(str, value)) if isinstance(value, list) else value}"
    commit = {name: header[name] for name in ("commit", "dirty")}
    return {
        "recorded": {"date_utc": results.utc_now(), **commit, "command": command},
        "machine": header["machine"],
        "settings": header["settings"],
        "tables": [{**table._asdict(), "shapes": list(map(str, table.shapes))} for table in arguments.chosen],
        "results": rows,
    }


def usual_file(arguments: argparse.Namespace, data: Json, wrong: list[Json]) -> Path:
    """Only a whole sweep with the usual settings, with the main peers and nothing wrong, replaces the recorded file."""
    settings = (arguments.rounds, arguments.repeats, arguments.l2, arguments.offset, arguments.contenders)
    usual = not arguments.random and arguments.op in results.SWEEPS and arguments.chosen == tables_of(arguments.op)
    usual = usual and settings == (ROUNDS, REPEATS, "cold", 0, KINDS)
    measured = {"cudnn", "pytorch", "triton"} <= {r["stage"] for r in data["results"]}
    whole = usual and data["recorded"]["commit"] != results.UNKNOWN and measured and not wrong
    folder = arguments.root / "common/results" if whole else arguments.build
    kind = "-sweep-random" if arguments.random else results.SWEEPS.get(arguments.op, "-sweep")
    return folder / f"{results.gpu_slug(data['machine']['gpu'])}{kind}.json"


def run(arguments: argparse.Namespace) -> int:
    op, wanted = arguments.problems[0].op, "stages" in arguments.contenders
    # The harness knows softmax by itself, and the other operations from the stages.
    library = results.LIBRARY in arguments.contenders
    stages = results.stage_names(arguments.root) if wanted or (op not in peers.SOFTMAX and not library) else []
    stages += [stage for stage in results.measured_names(arguments.root) if library and stage == results.OF_LIBRARY]
    stages = [stage for stage in stages if does(stage, op)]
    if arguments.list:
        show_plan(arguments, stages)
        return 0
    watch = Stopwatch()
    commit, dirty = results.commit_of(arguments.root, arguments.commit, must_be_known=False)
    built(arguments.build / LIBRARY)  # not built: said before the peers are loaded, which takes seconds
    with watch("loading the peers"):
        found, versions, missing = peers.find([name for name in arguments.contenders if name in peers.PEERS])
    with Harness(arguments.build, arguments.l2) as harness:
        device = dict(harness.device)
        if device.pop("simulated"):
            raise NoDevice("no usable NVIDIA GPU: this process runs under the simulator, which takes no times")
        for peer, why in missing.items():
            say(f"without {peer}: {why}")
        ops = {problem.op for problem in arguments.problems}
        entries = add_contenders(harness, stages, peers.of_operations(found, ops))
        if not wanted:
            entries = [entry for entry in entries if entry.peer or entry.stage in ("", results.OF_LIBRARY)]
        harness.open_problem(Shape("f32", 1, 1), op, "normal", SEED, 0)  # refuses operations that no contender does
        header = {**header_of(arguments, device, versions, stages, entries), "commit": commit, "dirty": dirty}
        with contextlib.closing(Journal(arguments.build, header, arguments.fresh)) as journal:
            if journal.done:
                say(f"going on: {len(journal.done)} measurements of an interrupted sweep are used")
            Sweep(harness, journal, watch, arguments.rounds, arguments.repeats).run(arguments.problems, entries)
            data = results_of(arguments, header, entries, journal)
            wrong = [r for r in data["results"] if r["kind"] == "stage" and r["status"] in ("wrong", "failed")]
            out = arguments.out or usual_file(arguments, data, wrong)
            write_whole(out, results.json_text(data))
            if arguments.csv:
                rows = [result.values() for result in data["results"]]
                write_whole(arguments.csv, results.csv_text(data["results"][0], rows))
            journal.remove()
    shown = sweep_tables.ranking if arguments.random else sweep_tables.text
    print(shown(data), flush=True)  # before the lines on the other stream
    say(watch.summary())
    say(f"wrote {out}" + (f" and {arguments.csv}" if arguments.csv else ""))
    for row in wrong:
        say(f"{row['status']}: {row['contender']} {results.shape_of(row)}: {row['reason']}")
    return 1 if wrong else 0


def main(argv: list[str]) -> int:
    try:
        return run(parse_arguments(argv, __doc__))
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the same command goes on from here") from None
