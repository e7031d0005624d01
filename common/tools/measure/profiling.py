"""Declared, counted, measured: the numbers of each variant by its declaration, the simulator and Nsight Compute.

    ./run profile                                            every stage at f32 49152 x 1024
    ./run profile 03 04 --dtype f16 --cols 8192
    ./run profile 04 --variant transposed_layout,vector_layout --set full
    ./run profile --record                                   on a GPU: what the lessons show, into common/results
    ./run profile 06 --record                                only of this stage; what is recorded of others stays

    declared   by the variant: the bytes that it requests
    counted    by the simulator in the PTX, on a part of the rows; needs no GPU
    measured   by Nsight Compute (ncu) on the GPU, one launch of each variant, clocks as they are

It leaves ncu's report, which opens in its window with the NVTX range of each launch named after its variant, and a
table as CSV. Without a GPU, without ncu, or without the permission to read the counters, it says so and shows what is
declared and counted.

Exit codes: 0 fine; 1 a wrong result, or ncu failed; 2 bad usage; 3 no GPU (--device gpu), or for --record no GPU, no
ncu, no permission.
"""

import argparse
import shutil
import textwrap
from itertools import zip_longest
from pathlib import Path
from typing import Iterable, Sequence

from command import NoDevice, Parser, Usage, file_to_write, folder_to_write, say, whole_number
from files import write_whole
from measure import count, ncu, quantities, results
from measure.quantities import QUANTITIES, Row
from measure.results import ELEMENT_BYTES, Json, Shape, shape_of
from text import Notes, short_text

# On the simulator: the cost of a row does not depend on the number of rows, beyond a few blocks of them.
COUNTED_ROWS = 64
COUNTED_ELEMENTS = 4 << 20

# The shapes that the lessons show, for --record: two of every stage, and others that make a stage's point.
RECORDED_SHAPES = (Shape("f16", 49152, 1024), Shape("f32", 1024, 32768))
RECORDED_BY_STAGE = {
    "01_naive": (Shape("f32", 49152, 1024),),
    "02_fused_block": (Shape("f32", 49152, 1024),),
    "03_warp_reduce": (Shape("f32", 49152, 1024), Shape("f16", 49152, 128)),
    "04_smem_bank_conflict": (Shape("f32", 49152, 1024), Shape("f16", 49152, 8192)),
    "05_uncached": (Shape("f32", 1024, 131072),),
    "06_online": (Shape("f32", 1024, 131072), Shape("f16", 49152, 16384)),
    "07_split_row": (Shape("f32", 1, 1048576),),
    "08_unaligned_rows": (Shape("f16", 49152, 1001), Shape("f32", 4096, 50257)),
    "09_async_copy": (Shape("f16", 49152, 8192), Shape("f16", 49152, 32768)),
    "10_cluster": (Shape("f32", 1024, 65536),),
}

# How these stages cut a row depends on the number of rows: they are not recorded at shapes with more than are counted.
FEW_ROWS = ("07_split_row", "11_backward", "12_cross_entropy", "13_masked_softmax", "14_dispatch")

LARGEST_SIZE = 1 << 40  # of rows and columns, as the stages have it
STAGE_TIMEOUT_S = 120
SETS = ("basic", "detailed", "full")


# --- Counting and measuring ------------------------------------------------------------------------


def counted_shape(shape: Shape) -> Shape:
    """The shape at which the simulator counts: fewer rows of the same width."""
    return shape._replace(rows=max(1, min(shape.rows, COUNTED_ROWS, COUNTED_ELEMENTS // shape.cols)))


def count_all(
    stages: dict[str, Path], work: Sequence[tuple[str, Shape]], op: str = "", variants: str = "all"
) -> tuple[list[Json], list[str]]:
    """An entry for each variant that applies, without measurements; and the variants that do not, and why."""
    entries, others = [], []
    asked = {(stage, counted_shape(shape)): shape for stage, shape in work}
    for counted in count.simulate(stages, list(asked), op, variants):
        stage, variant = counted["stage"], counted["variant"]
        shape = asked[stage, shape_of(counted)]
        if counted["status"] == "verified":
            place = {"stage": stage, "variant": variant, **shape._asdict(), "op": op or counted["op"]}
            entries.append({**place, "counted": counted, "kernels": []})
        else:
            others.append(f"{stage} {variant} at {shape}: {counted['reason']}")
    return entries, others


# --- Showing ---------------------------------------------------------------------------------------


def cell(row: Row, measured: bool) -> str:
    return " · ".join("-" if number is None else number_text(number) for number in row.numbers[: 3 if measured else 2])


def number_text(number: float) -> str:
    """About four digits."""
    if number < 100 or number == int(number):
        return short_text(number)
    return f"{number:.1f}" if number < 1000 else f"{number:.0f}"


def is_shown(quantity: quantities.Quantity, rows: Sequence[Row]) -> bool:
    """Not a line without numbers: some quantities need ncu, and shared memory needs a kernel that uses it."""
    if quantity.needs_ncu and all(row.numbers[2] is None for row in rows):
        return False
    return any(n for row in rows for n in row.numbers) or any(row.numbers[0] is not None for row in rows)


UNKNOWN = f"differs by more than {100 * quantities.SAME:g} %, and no reason is known"


def mark(row: Row, notes: Notes) -> str:
    """The letter of the note that says why counted and measured differ."""
    return notes.mark(f"{row.why.name}. {row.why.reason}" if row.why else UNKNOWN) if row.differs else ""


LABEL = max(len(q.heading) for q in QUANTITIES)
COLUMN = 22


def split_name(name: str) -> list[str]:
    """A variant's name in lines that fit its column, broken after a _."""
    if len(name) <= COLUMN - 2:
        return [name]
    return [line.replace("_ ", "_") for line in textwrap.wrap(name.replace("_", "_ "), COLUMN - 2)]


def stage_table(entries: Sequence[Json], measured: bool, width: int, notes: Notes) -> list[str]:
    """One stage: a line for each quantity, a column for each variant, as many as fit."""
    fit = max(1, (width - LABEL - 2) // COLUMN)
    lines: list[str] = []
    by_quantity = [rows for rows in zip(*map(quantities.rows, entries)) if is_shown(rows[0].quantity, rows)]
    for part in (slice(first, first + fit) for first in range(0, len(entries), fit)):
        names = list(zip_longest(*(split_name(entry["variant"]) for entry in entries[part]), fillvalue=""))
        table = [(entries[0]["stage"] if line is names[0] else "", line) for line in names]
        for rows in by_quantity:
            cells = tuple(f"{cell(row, measured)} {mark(row, notes)}" for row in rows[part])
            table.append((rows[0].quantity.heading, cells))
        lines += [f"{label:<{LABEL}}  {''.join(f'{c:<{COLUMN}}' for c in cells)}".rstrip() for label, cells in table]
        lines.append("")
    return lines


def screen(entries: list[Json], others: list[str], shape: Shape, op: str, measured_on: str) -> str:
    """A table for each stage. `measured_on`: the GPU; empty if nothing was measured."""
    width = max(80, shutil.get_terminal_size((124, 24)).columns)
    notes, measured = Notes(), bool(measured_on)
    columns = f"declared · counted ({counted_shape(shape).rows} rows, CPU simulator)"
    columns += f" · measured (ncu, {measured_on})" if measured else ""
    lines = [f"{shape.dtype} {op}, {shape.rows} x {shape.cols}: {columns}", ""]
    for stage in dict.fromkeys(e["stage"] for e in entries):
        lines += stage_table([e for e in entries if e["stage"] == stage], measured, width, notes)
    if measured:
        lines += [agreement(entries), ""]
    for text, letter in notes.items():
        lines += textwrap.wrap(text, width, initial_indent=f"{letter} ", subsequent_indent="  ")
    counted_rows = counted_shape(shape).rows
    few = [stage for stage in dict.fromkeys(e["stage"] for e in entries) if stage in FEW_ROWS and counted_rows < shape.rows]
    if few:
        text = f"{', '.join(few)}: how many blocks share a row, and which kernel is chosen, can depend on the number of rows"
        lines += textwrap.wrap(f"{text}; counted is of {counted_rows}", width, subsequent_indent="  ")
    lines += [f"not applicable: {text}" for text in others]
    return "\n".join(lines).rstrip()


def agreement(entries: list[Json]) -> str:
    both = [row for entry in entries for row in quantities.rows(entry) if None not in row.numbers[1:]]
    different = sum(row.differs for row in both)
    text = f"counted and measured: {len(both) - different} of {len(both)} numbers agree within {100 * quantities.SAME:g} %"
    return text + ("; the letters say why the others do not" if different else "")


def csv_text(entries: list[Json]) -> str:
    place = ("stage", "variant", "dtype", "op", "rows", "cols")
    columns = ("counted_rows", "quantity", "unit", "declared", "counted", "measured", "why_different", "ncu_metrics")
    rows = []
    for entry in entries:
        for quantity, numbers, differs, why in quantities.rows(entry):
            row = [*(entry[name] for name in place), entry["counted"]["rows"], quantity.name, quantity.unit]
            row += ["" if n is None else f"{n:.6g}" for n in numbers]
            rows.append([*row, why.name if why else "not known" * differs, " ".join(quantity.metrics)])
    return results.csv_text((*place, *columns), rows)


# --- Recording -------------------------------------------------------------------------------------


def recorded_entry(entry: Json) -> Json:
    """The entry that the file keeps: ncu's counters without those by opcode, and the values of the quantities."""
    metrics = quantities.combined(entry["kernels"])
    kernels = [{"kernel": k["kernel"], "metrics": {n: k["metrics"][n] for n in metrics}} for k in entry["kernels"]]
    kept = {name: entry[name] for name in (*results.PLACE, "op")}
    rounded = [[None if n is None else float(f"{n:.6g}") for n in row.numbers] for row in quantities.rows(entry)]
    found = dict(zip((quantity.name for quantity in QUANTITIES), rounded))
    made = {"quantities": found, "metrics": metrics, "kernels": kernels}
    return {**kept, "counted_rows": entry["counted"]["rows"], **made}


def row_of(quantity: quantities.Quantity, entry: Json) -> Row:
    """The row of a recorded entry."""
    return quantities.compared(entry, quantity, *entry["quantities"][quantity.name])


def record(arguments: argparse.Namespace, stages: dict[str, Path]) -> Path:
    """Replaces the recorded entries of these stages. Raises ToolError, and then has written nothing."""
    work = [
        (stage, shape)
        for stage in stages
        for shape in (*(() if stage in FEW_ROWS else RECORDED_SHAPES), *RECORDED_BY_STAGE.get(stage, ()))
    ]
    how = quantities.METRICS, recorded_entry, ["--set", SETS[0]]
    return ncu.record(arguments, "./run profile --record", "-profile", stages, lambda: count_all(stages, work)[0], *how)


# --- The command -----------------------------------------------------------------------------------


def check_accepted(stages: Iterable[Path], op: str, variants: str) -> None:
    """Raises Usage with a stage's message about an operation or a variant that it does not have."""
    for stage in stages:
        done = results.run_process([str(stage), "--list", "--op", op, "--variant", variants], STAGE_TIMEOUT_S)
        if done.returncode == Usage.code:
            raise Usage(done.stderr.strip().replace(f"{stage.name}: ", "", 1))


def profile(arguments: argparse.Namespace, stages: dict[str, Path]) -> int:
    check_accepted(stages.values(), arguments.op, arguments.variant)
    shape = Shape(arguments.dtype, arguments.rows, arguments.cols)
    gpu = ""
    try:
        gpu = "" if arguments.device == "sim" else results.machine_of(stages)["gpu"]
    except NoDevice as why:
        if arguments.device == "gpu":
            raise
        say(f"not measured: {why}")
    say(f"counting on the simulator ({counted_shape(shape).rows} rows) ...")
    entries, others = count_all(stages, [(stage, shape) for stage in stages], arguments.op, arguments.variant)
    if not entries and not others:
        accepted = ", ".join(operation for stage in stages for operation in results.operations_of(stage))
        raise Usage(f"--variant {arguments.variant} does not do --op {arguments.op}; the stage's operations: {accepted}")
    folder = arguments.out or arguments.build / "profile"
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{'_'.join(stages) if len(stages) < 3 else 'stages'}-{shape.dtype}-{shape.rows}x{shape.cols}"
    report, table = folder / f"{name}.ncu-rep", folder / f"{name}.csv"
    measured_on, problems = "", []
    try:
        if gpu and entries:
            options = ["--set", arguments.set, *(["--import-source", "yes"] if arguments.set == "full" else [])]
            problems = ncu.measure(ncu.find(arguments.ncu), stages, entries, quantities.METRICS, report, options)
            measured_on = gpu
    except NoDevice as why:
        say(f"not measured: {why}")
    print(screen(entries, others, shape, arguments.op, measured_on), flush=True)
    write_whole(table, csv_text(entries))
    if measured_on:
        say(f"wrote {report}  (for ncu-ui; its option Report UI > NVTX Rename Mode > Kernel shows the variants' names)")
    say(f"wrote {table}")
    for problem in problems:
        say(f"failed: {problem}")
    return 1 if problems else 0


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Raises Usage."""
    names = "\n".join(f"  {q.heading}:\n    " + "\n    ".join(q.metrics) for q in QUANTITIES)
    epilog = f"What is measured, and ncu's names of it:\n{names}"
    parser = Parser("./run profile", __doc__, allow_abbrev=False, epilog=epilog)
    option = parser.add_argument
    option("stages", metavar="STAGE", nargs="*", help="3, 03 or 03_warp_reduce (default: all)")
    option("--variant", metavar="NAME,...", default="all", help="of one STAGE (default: all)")
    option("--dtype", choices=tuple(ELEMENT_BYTES), default="f32", help="(default: f32)")
    option("--rows", metavar="N", type=whole_number(LARGEST_SIZE), default=49152, help="(default: 49152)")
    option("--cols", metavar="N", type=whole_number(LARGEST_SIZE), default=1024, help="(default: 1024)")
    option("--op", metavar="OP", help="an operation of the stages (default: softmax, or the operation of the first STAGE)")
    set_help = "ncu's set of sections in the report; full also has the source (default: basic)"
    option("--set", choices=SETS, default=SETS[0], help=set_help)
    device_help = "sim: only count; gpu: an error without one (default: gpu if there is one)"
    option("--device", choices=("gpu", "sim"), help=device_help)
    out = file_to_write if "--record" in argv else folder_to_write
    option("--out", metavar="FOLDER", type=out, help="for report and table (default: build/profile)")
    option("--ncu", metavar="PROGRAM", default="ncu", help="Nsight Compute's command line program")
    option("--list", action="store_true", help="name the stages that would be profiled, and stop")
    option("--record", action="store_true", help="measure the numbers in the lessons, and write them to --out")
    results.add_commit_option(parser, "for --record: ")
    arguments = results.parse(parser, argv, argparse.SUPPRESS)
    known = results.stage_names(arguments.root)
    given = [results.stage_named(text, known) for text in arguments.stages]
    arguments.stages = given or (known if arguments.record else results.ladder(known))
    arguments.op = arguments.op or results.operation_of(arguments.stages[0])
    if arguments.record and arguments.variant != "all":
        raise Usage("--record measures every variant: give no --variant")
    if arguments.op == "all" or "," in arguments.op:
        raise Usage(f"--op is one operation, and '{arguments.op}' is not")
    if arguments.variant != "all" and len(arguments.stages) != 1:
        raise Usage("--variant needs one STAGE: ./run profile 03 --variant NAME")
    return arguments


def main(argv: list[str]) -> int:
    arguments = parse_arguments(argv)
    if arguments.list:
        print("\n".join(arguments.stages))
        return 0
    stages = results.stage_executables(arguments.root, arguments.build, arguments.stages)
    if arguments.record:
        print(f"wrote {record(arguments, stages)}")
        return 0
    return profile(arguments, stages)
