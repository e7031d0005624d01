"""Measures which of the library's kernels is the fastest for which matrices on this GPU, and writes the table by which the library
chooses.

    ./run tune                      takes about three minutes, and writes build/<gpu>.table
    ./run tune --judge 200          measures random matrices instead, and says what the library's table loses there
    export ROWWISE_TABLE=$PWD/build/<gpu>.table      from then on the library chooses by this table

Every kernel that can take a matrix is timed at a grid of rows and columns: for rows that consist of whole packs of 16 bytes, for
such rows one element off, for rows of packs of 8 bytes, and for others, in f32 and bf16, of each operation. If two kernels are
equally fast, the table prefers the one that is the fastest in the neighbourhood, so that it has fewer lines.

--judge N times N random matrices of each operation, as those of ./run sweep --random, and compares the kernel that the library
chooses with the fastest one. The verdicts go to build/<gpu>.judged.json.

Exit codes: 0 fine, 2 bad usage, 3 no usable GPU, 4 a CUDA error.
"""

import argparse
import itertools
import math
import re
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Iterable, Iterator, NamedTuple

from command import NoDevice, Parser, ToolError, Usage, file_to_write, is_terminal, say, started, whole_number
from files import write_whole
from measure import results
from measure.choices import ANY, KINDS, PARTS, Line, Lines, Part, Table, kind_of, table_text
from measure.schema import Json
from measure.sweep_options import MATRIX_BYTES, MOST_RANDOM, random_problems

PROGRAM = "rowwise_tune"
TITLE = "# Which kernel is the fastest, by rows and columns: the first line that holds a matrix, and whose kernel can do it, counts."
SAMPLES, SAMPLES_OF_JUDGE = 4, 15
SEED, MOST_SEED = 1, 10**6
DTYPE = {4: "f32", 2: "bf16"}
MOST_COLS = 1 << 21
# Matrices in these places, if their rows are wider, are like others.
NARROW_PLACES, MOST_COLS_OF_NARROW = ("displaced", "halves"), 4096
LEAST_BYTES = 40 << 10  # of a matrix: for less, the launch takes longer than the work
ROWS = (1, 2, 4, 8, 16, 32, 64, 140, 280, 560, 1100, 2200, 4400, 16000, 64000, 256000, 1000000)
# If a launch has few waves of blocks, the number of rows matters more.
NARROW, WIDE = 512, 4096
ROWS_OF_NARROW = (3100, 6200, 8800, 30000, 130000)
ROWS_OF_WIDE = (3, 6, 12, 24, 36, 48, 90, 110, 180, 220, 250, 360, 440, 800)
VERY_WIDE = 1 << 16  # the tiles of clusters, for wider rows, end elsewhere
# With more rows than that, the time is proportional to them, so larger matrices need not be measured.
FEW_ROWS, MANY_ROWS_BYTES = 1100, 128 << 20
EVERY_PACK = 16  # the grid has every number of packs up to this one
FAR_BEHIND = 0.10  # a kernel that is slower by this is as bad as any
# A change of the kernel from one cell to the next costs as much as a loss of 2 % in one cell.
CHANGE_COSTS = 2.0**2
PASSES = 4
# Kernels that do anything, for rows that are wider than the grid, and for matrices that no line before could do.
LAST = {"Forward": ("row_in_flight", "online"), "Backward": ("unaligned", "two_kernels"), "Loss": ("one_read",), "Gradient": ("kept_row",)}


class Matrix(NamedTuple):
    operation: str
    dtype: str
    rows: int
    cols: int
    offset: int

    def described(self) -> Json:
        return {"op": self.operation, "dtype": self.dtype, "rows": self.rows, "cols": self.cols, "offset": self.offset}

    @property
    def part(self) -> Part:
        return Part.of(results.ELEMENT_BYTES[self.dtype], self.cols, self.offset)

    def __str__(self) -> str:
        return " ".join(map(str, self))


class Timed(NamedTuple):
    matrix: Matrix
    chosen: str  # by the table that the library has
    microseconds: dict[str, float]  # by kernel
    needs: dict[str, str]  # of each: letters as in common/rowwise/tune/main.cu


def columns(part: Part) -> list[int]:
    """The grid has the last columns before each quarter of an octave, at which tiles of kernels end, and the first ones after it. If
    packs do not cover the rows, a tile holds up to one more pack."""
    unit = 16 // part.element_bytes
    in_packs = part.place in ("packs", "displaced")
    most = MOST_COLS_OF_NARROW if part.place in NARROW_PLACES else MOST_COLS

    def fits(cols: int) -> bool:
        return Part.of(part.element_bytes, cols, int(part.place == "displaced")) == part

    found = set(filter(fits, range(1, EVERY_PACK * (unit if in_packs else 1) + 1)))
    for exponent, quarter in itertools.product(range(21), range(4)):
        border = (4 + quarter << exponent) // 4
        found.add(next(filter(fits, range(border, 0, -1)), MOST_COLS))
        if border <= VERY_WIDE:
            found.add(next(filter(fits, itertools.count(border + (1 if in_packs else unit + 1)))))
    return sorted(cols for cols in found if cols <= most)


def grid(operation: str) -> Iterator[Matrix]:
    for part in PARTS:
        for cols in columns(part):
            for rows in sorted(ROWS + (ROWS_OF_WIDE if cols >= WIDE else ROWS_OF_NARROW if cols <= NARROW else ())):
                most_bytes = MATRIX_BYTES.stop if rows <= FEW_ROWS else MANY_ROWS_BYTES
                if LEAST_BYTES <= rows * cols * part.element_bytes < most_bytes:
                    yield Matrix(operation, DTYPE[part.element_bytes], rows, cols, int(part.place == "displaced"))


def output(program: Path, matrices: list[Matrix], samples: int) -> Iterator[str]:
    """The lines of common/rowwise/tune/main.cu, which times every kernel at each matrix."""
    if not program.is_file():
        raise ToolError(f"not built: {program} (cmake --build {program.parent} --target {PROGRAM})")
    with started([str(program), str(samples)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as (process,):
        assert process.stdin and process.stdout
        # A thread writes while this one reads: a pipe would be full.
        writer = threading.Thread(target=_write, args=(process, matrices), daemon=True)
        writer.start()
        for line in process.stdout:
            yield line.rstrip("\n")
        writer.join()
        code = process.wait()
    if code:
        error = {NoDevice.code: NoDevice("no usable NVIDIA GPU, and the simulator takes no times")}
        raise error.get(code, ToolError(f"{PROGRAM} ended with exit code {code} (its message is above)"))


def _write(process: "subprocess.Popen[str]", matrices: Iterable[Matrix]) -> None:
    assert process.stdin
    try:
        with process.stdin as stream:
            stream.writelines(f"{matrix}\n" for matrix in matrices)
    except BrokenPipeError:
        pass  # the program has ended, and has said why


def parsed(line: str) -> Timed:
    """Raises ToolError unless the line is as common/rowwise/tune/main.cu describes it."""
    words, _, rest = line.partition(": ")
    chosen, _, times = rest.partition(";")
    found = [[*pair.split(), ""] for pair in times.split(",") if pair.strip()]
    try:
        operation, dtype, rows, cols, offset = words.split()
        matrix = Matrix(operation, dtype, int(rows), int(cols), int(offset))
        microseconds = {kernel: float(time) for kernel, time, *_ in found}
    except ValueError as error:
        raise ToolError(f"'{line}' is not a line of {PROGRAM}") from error
    return Timed(matrix, chosen, microseconds, {kernel: needs for kernel, _, needs, *_ in found})


# ---- The fit.


class Loss(NamedTuple):
    part: float  # of the kernel's time, that the fastest kernel would save
    needs: str  # of the kernel


Losses = dict[str, Loss]  # by kernel
Cells = dict[int, dict[int, Losses]]  # by rows and columns


def cells_of(measured: Iterable[Timed]) -> dict[tuple[str, Part], Cells]:
    """By kind of kernel and part."""
    found: dict[tuple[str, Part], Cells] = defaultdict(lambda: defaultdict(dict))
    for matrix, _, microseconds, needs in measured:
        if microseconds:
            fastest = min(microseconds.values())
            # All matrices that have the lines of whole packs begin at alike places.
            needs = {kernel: letters.replace("a", "") for kernel, letters in needs.items()} if matrix.part.place == "packs" else needs
            losses = {kernel: Loss(1 - fastest / time, needs[kernel]) for kernel, time in microseconds.items()}
            found[kind_of(matrix.operation), matrix.part][matrix.rows][matrix.cols] = losses
    for kind, element_bytes, place in itertools.product(KINDS.values(), DTYPE, NARROW_PLACES):
        for rows, of_rows in found[kind, Part(element_bytes, "others")].items():
            found[kind, Part(element_bytes, place)][rows] |= {cols: losses for cols, losses in of_rows.items() if cols > MOST_COLS_OF_NARROW}
    return found


def filled(cells: Cells) -> Cells:
    """Matrices that are too small or too large for the grid are taken for like those of the nearest rows."""
    found: Cells = {}
    for rows in sorted(cells):
        found[rows] = {}
        for cols in sorted({cols for of_rows in cells.values() for cols in of_rows}):
            nearest = min((other for other in cells if cols in cells[other]), key=lambda other: abs(math.log(other / rows)))
            found[rows][cols] = cells[nearest][cols]
    return found


def _penalty(loss: Loss) -> float:
    return (100 * min(loss.part, FAR_BEHIND)) ** 2


def _best_sequence(cells: dict[int, Losses], beside: list[dict[int, str]]) -> dict[int, str]:
    """The kernel for each number of columns, with the least sum of penalties and changes, also against the neighbouring rows."""
    best: dict[str, tuple[float, list[str]]] = {}
    for cols, losses in cells.items():
        changed = min(best.values(), default=(-CHANGE_COSTS, []))
        after = {}
        for kernel, loss in losses.items():
            cost, before = min(best.get(kernel, (math.inf, [])), (changed[0] + CHANGE_COSTS, changed[1]))
            cost += _penalty(loss) + CHANGE_COSTS * sum(other[cols] != kernel for other in beside)
            after[kernel] = cost, [*before, kernel]
        best = after
    return dict(zip(cells, min(best.values())[1]))


def labelled(cells: Cells) -> dict[int, dict[int, str]]:
    """The kernel for each cell: the fastest at first; then the best sequence for each number of rows in turn, several times."""
    heights = list(cells)
    labels = {rows: {cols: min(losses, key=losses.__getitem__) for cols, losses in of_rows.items()} for rows, of_rows in cells.items()}
    for _, at in itertools.product(range(PASSES), range(len(heights))):
        beside = [labels[rows] for rows in (*heights[max(at - 1, 0) : at], *heights[at + 1 : at + 2])]
        labels[heights[at]] = _best_sequence(cells[heights[at]], beside)
    return labels


def _stand_ins(first: str, cells: list[Losses]) -> Iterator[str]:
    """The best kernels for calls without a workspace, GPUs without clusters, matrices that begin at different places, and all of these;
    as far as the kernels before cannot do them."""
    needs = {kernel: {letter for losses in cells for letter in losses[kernel].needs} for kernel in cells[0] if all(kernel in losses for losses in cells)}
    names = [first]
    for number in range(1, 4):
        for missing in map(set, itertools.combinations("wca", number)):
            able = [kernel for kernel in needs if not needs[kernel] & missing]
            if able and not {*able} & {*names}:
                names.append(min(able, key=lambda kernel: sum(_penalty(losses[kernel]) for losses in cells)))
                yield names[-1]


def _slower(first: str, losses: Losses, last: tuple[str, ...]) -> Iterator[str]:
    """The other kernels from the fastest to the first that does anything and needs nothing. Wider rows than those of the grid get them,
    as far as each can do them."""
    for kernel in sorted(losses, key=losses.__getitem__):
        if kernel != first:
            yield kernel
        if kernel in last and not losses[kernel].needs:
            return


def lines_of(kind: str, measured: Cells) -> list[Line]:
    cells = filled(measured)
    heights = list(cells)
    found: dict[int, list[Line]] = {}
    for at, (rows, labels) in enumerate(labelled(cells).items()):
        most_rows = ANY if at + 1 == len(heights) else round(math.sqrt(rows * heights[at + 1]))
        widths, found[rows] = list(labels), []
        for kernel, group in itertools.groupby(widths, key=labels.__getitem__):
            cols = list(group)
            after = next((width for width in widths if width > cols[-1]), None)
            most_cols = math.isqrt(cols[-1] * after) if after else ANY
            # A kernel that cannot do the next columns of the grid may be able to do all before them. Then its stand-ins do not.
            first_cols, stand_in_cols = most_cols, most_cols
            if after and kernel not in cells[rows][after]:
                first_cols, stand_in_cols = after - 1, cols[-1]
            found[rows].append(Line(most_rows, first_cols, kernel))
            names = _stand_ins(kernel, [cells[rows][one] for one in cols]) if after else _slower(kernel, cells[rows][cols[-1]], LAST[kind])
            found[rows] += [Line(most_rows, stand_in_cols, name) for name in names]
    # Lines that the next rows have, too, are not needed here.
    alike = lambda lines: [(line.most_cols, line.kernel) for line in lines]  # noqa: E731
    kept = [rows for rows, after in itertools.zip_longest(heights, heights[1:]) if not after or alike(found[rows]) != alike(found[after])]
    return [line for rows in kept for line in found[rows]]


def fitted(gpu: str, multiprocessors: int, measured: Iterable[Timed]) -> Table:
    lines: Lines = {}
    for (kind, part), cells in cells_of(measured).items():
        lines[kind, part] = [*lines_of(kind, cells), *(Line(ANY, ANY, kernel) for kernel in LAST[kind])]
    return Table(gpu, multiprocessors, lines)


# ---- The distance of the table from the fastest kernel.


class Verdict(NamedTuple):
    """The part of the fastest kernel's speed that the chosen one reaches, in percent."""

    matrix: Matrix
    chosen: str
    fastest: str
    percent: float


def judged(measured: Iterable[Timed]) -> list[Verdict]:
    found = []
    for matrix, chosen, microseconds, _ in measured:
        if microseconds:
            fastest = min(microseconds, key=microseconds.__getitem__)
            found.append(Verdict(matrix, chosen, fastest, 100 * microseconds[fastest] / microseconds[chosen]))
    return found


def summary(verdicts: list[Verdict]) -> str:
    """A line for each kind of operation: the distribution of the percentages, and the worst matrix."""
    lines = [f"{'operation':22} {'matrices':>8} {'mean':>6} {'97 % or more':>13} {'worst':>6}"]
    for operation, kind in KINDS.items():
        some = sorted((one for one in verdicts if kind_of(one.matrix.operation) == kind), key=lambda one: one.percent)
        if some:
            mean = sum(one.percent for one in some) / len(some)
            near = 100 * sum(one.percent >= 97 for one in some) / len(some)
            worst = f"{some[0].percent:6.1f}  {some[0].matrix}: {some[0].chosen}, {some[0].fastest}"
            lines.append(f"{operation:22} {len(some):8} {mean:6.1f} {near:11.1f} % {worst}")
    return "\n".join(lines)


def machine_of(first: str) -> Json:
    """The GPU, from the program's first line."""
    found = re.fullmatch(r"gpu (.*); (\d+) multiprocessors; (.*)", first.strip())
    if not found:
        raise ToolError(f"'{first.strip()}' is not the first line of {PROGRAM}")
    table = re.sub(r" in .*/", " in ", found[3])  # the folders are those of this machine
    return {"gpu": found[1], "multiprocessors": int(found[2]), "table": table}


def measured_here(program: Path, matrices: list[Matrix], samples: int) -> list[str]:
    begin, lines = time.monotonic(), []
    for line in output(program, matrices, samples):
        lines.append(line)
        if is_terminal() and len(lines) % 100 == 0:
            print(f"\rmeasured: {len(lines)} of {len(matrices)} matrices", end="", file=sys.stderr, flush=True)
    say(f"{len(matrices)} matrices in {time.monotonic() - begin:.0f} s")
    return lines


def random_matrices(number: int, seed: int) -> list[Matrix]:
    """As those of ./run sweep --random, for each operation; softmax or its logarithm by chance."""
    problems = [one for op in KINDS for one in random_problems(number, seed, None if op == "softmax" else op, None)]
    return [Matrix(one.op, one.dtype, one.rows, one.cols, one.offset) for one in problems]


def write_table(arguments: argparse.Namespace, lines: list[str]) -> None:
    """The lines of a .times file: how it was measured, the GPU, and the matrices."""
    heading = [line for line in lines if line.startswith("#")]
    machine, measured = machine_of("".join(lines[len(heading) : len(heading) + 1])), map(parsed, lines[len(heading) + 1 :])
    out = arguments.out or arguments.build / f"{results.gpu_slug(machine['gpu'])}.table"
    table = table_text(fitted(machine["gpu"], machine["multiprocessors"], measured), [TITLE, *heading])
    write_whole(out, table)
    say(f"wrote {out}. The library uses it from now on after: export ROWWISE_TABLE={out.resolve()}")


def seeds(text: str) -> list[int]:
    return list(map(whole_number(MOST_SEED), text.split(",")))


def main(argv: list[str]) -> None:
    parser = Parser("./run tune", __doc__, allow_abbrev=False)
    option = parser.add_argument
    option("--judge", metavar="N", type=whole_number(MOST_RANDOM), help="number of random matrices per operation and seed; see above")
    option("--seed", metavar="N,...", type=seeds, default=[SEED], help=f"of the random matrices (default: {SEED})")
    option("--from", metavar="FILE", type=Path, dest="times", help="make the table from times that an earlier call has left in build")
    option("--out", metavar="FILE", type=file_to_write, help="where to write the table, or the verdicts")
    option("--list", action="store_true", help="list the matrices, and stop")
    results.add_commit_option(parser)
    arguments = results.parse(parser, argv, argparse.SUPPRESS)
    if arguments.judge and arguments.times:
        raise Usage("--from: not together with --judge")
    if arguments.judge:
        matrices = [matrix for seed in arguments.seed for matrix in random_matrices(arguments.judge, seed)]
    else:
        matrices = [matrix for operation in KINDS for matrix in grid(operation)]
    if arguments.list:
        print("\n".join(map(str, matrices)))
        return
    if arguments.times:
        write_table(arguments, arguments.times.read_text(encoding="utf-8").splitlines())
        return
    commit, dirty = results.commit_of(arguments.root, arguments.commit, must_be_known=False)
    lines = measured_here(arguments.build / PROGRAM, matrices, SAMPLES_OF_JUDGE if arguments.judge else SAMPLES)
    if arguments.judge:
        machine, verdicts = machine_of(lines[0]), judged(map(parsed, lines[1:]))
        print(summary(verdicts))
        arguments.out = arguments.out or arguments.build / f"{results.gpu_slug(machine['gpu'])}.judged.json"
        command = f"./run tune --judge {arguments.judge} --seed {','.join(map(str, arguments.seed))}"
        recorded = {"date_utc": results.utc_now(), "commit": commit, "dirty": dirty, "command": command}
        rows = [{**one.matrix.described(), "chosen": one.chosen, "fastest": one.fastest, "percent": one.percent} for one in verdicts]
        results.write(arguments, recorded, machine, results=rows)
        say(f"wrote {arguments.out}")
        return
    versions = results.software_versions(arguments.build)
    heading = (
        f"Measured by ./run tune on {results.utc_now()[:10]}: {len(matrices)} matrices, driver {versions['driver_version']},",
        f"CUDA {versions['nvcc']}, commit {commit[:12]}{' and changes' if dirty else ''}.",
    )
    lines = [*(f"# {line}" for line in heading), *lines]
    write_whole(arguments.build / f"{results.gpu_slug(machine_of(lines[2])['gpu'])}.times", "".join(f"{line}\n" for line in lines))
    write_table(arguments, lines)
