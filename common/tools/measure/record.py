"""Measures every stage at the lessons' shapes and writes common/results/<gpu>.json.

    cmake --build build && python3 common/tools record

Runs on the machine with the GPU; needs Python and the built stages, no network. The file is
written only when every variant that applies was verified: a wrong or failed one leaves the old file
as it was. Runs that an interrupted recording of the same commit made are not made again.

Exit codes: 0 recorded, 1 something failed and nothing was written, 2 bad usage, 3 no usable GPU.
"""

import argparse
import itertools
import json
import shutil
import time
from pathlib import Path
from typing import NamedTuple

from command import Parser, ToolError, file_to_write
from files import load_json, write_whole
from measure import results
from measure.columns import by_place
from measure.results import Json
from measure.schema import check_each


class Lesson(NamedTuple):
    """One run of each stage; `cols` is a list because a stage takes many in one run."""

    dtype: str
    rows: int
    cols: tuple[int, ...]
    op: str = "softmax"  # of the stages that do it
    since: str = ""  # the first stage that is measured, if the naive ones take long and show nothing new


# The first line is the ladder of the README, and the only one that --quick runs.
LESSONS = (
    Lesson("f32", 49152, (1024,)),
    Lesson("f16", 49152, (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)),
    Lesson("f32", 1024, (1024, 4096, 8192, 16384, 32768, 65536, 131072)),
    Lesson("f32", 262144, (128,)),  # many narrow rows
    Lesson("f32", 65536, (32,)),  # rows narrower than a warp's access
    Lesson("f32", 49152, (1000,)),  # not a power of two, still whole packs
    # Widths that no pack divides.
    Lesson("f16", 49152, (1001, 2049)),
    Lesson("bf16", 49152, (1025,)),
    Lesson("f32", 262144, (33,)),
    Lesson("f32", 16384, (8193,)),
    Lesson("f32", 4096, (50257,)),
    Lesson("bf16", 4096, (50257,)),
    Lesson("bf16", 4096, (65536,), since="06"),  # 128 KiB per row
    # Rows larger than an SM.
    Lesson("f32", 1024, (262144,), since="06"),
    Lesson("bf16", 4096, (262144,), since="06"),
    Lesson("bf16", 256, (1048576,), since="06"),
    # Few rows.
    Lesson("f32", 1, (32000, 151936, 1048576), since="05"),
    Lesson("f32", 16, (32000, 151936), since="05"),
    Lesson("f32", 64, (32000,), since="05"),
    Lesson("bf16", 8, (262144,), since="05"),
    Lesson("f32", 1, (50257, 1000003), since="05"),
    Lesson("bf16", 16, (50257,), since="05"),
    # The gradient: two reads and one write.
    Lesson("f16", 49152, (128, 1024, 4096, 8192, 16384, 32768), "softmax_backward"),
    Lesson("f16", 49152, (2112, 5312, 12288), "softmax_backward"),  # just too wide for a tile of registers, and between two
    Lesson("f32", 1024, (32768, 131072), "softmax_backward"),
    Lesson("f32", 16384, (4104, 8193), "softmax_backward"),
    Lesson("f32", 4096, (50257,), "softmax_backward"),
    Lesson("bf16", 49152, (257, 1025), "softmax_backward"),
    Lesson("f32", 1, (50257, 1048576), "softmax_backward"),
    Lesson("bf16", 8, (262144,), "softmax_backward"),
    Lesson("bf16", 64, (32768, 131072, 262144, 1360000), "softmax_backward"),  # neither few rows nor many
    Lesson("bf16", 256, (262144,), "softmax_backward"),
    Lesson("bf16", 16, (50257,), "softmax_backward"),
    Lesson("bf16", 262144, (10, 33, 100), "softmax_backward"),  # narrow
    Lesson("f32", 262144, (3, 5, 33, 50), "softmax_backward"),
    Lesson("bf16", 65536, (65, 201, 417, 520), "softmax_backward"),  # between rows that few lanes hold and those of a warp
    Lesson("bf16", 49152, (1032, 1281), "softmax_backward"),
    Lesson("bf16", 16384, (3001,), "softmax_backward"),
    Lesson("bf16", 4096, (1348, 3004, 12289, 50257), "softmax_backward"),
    Lesson("f32", 65536, (101, 256), "softmax_backward"),
    Lesson("f32", 16384, (450, 641, 1032, 1501, 2048), "softmax_backward"),
    Lesson("bf16", 8192, (100,), "softmax_backward"),
    Lesson("f32", 8192, (50,), "softmax_backward"),
    # Soon done: rows that packs of 16 bytes cover, and those that packs of 8 bytes do.
    Lesson("bf16", 256, (520, 1032, 1360, 2048, 4096), "softmax_backward"),
    Lesson("bf16", 256, (300, 900, 2004, 3004), "softmax_backward"),
    Lesson("f32", 256, (1032, 4096), "softmax_backward"),
    Lesson("f32", 256, (450, 674, 1502, 4094), "softmax_backward"),
    # y made again: the shapes that the lesson shows for both, and some between these.
    Lesson("f16", 49152, (1024, 4096, 16384, 32768), "recomputed_softmax_backward"),
    Lesson("f32", 1024, (32768, 131072), "recomputed_softmax_backward"),
    Lesson("f32", 16384, (4104,), "recomputed_softmax_backward"),
    Lesson("bf16", 49152, (1025,), "recomputed_softmax_backward"),
    Lesson("f32", 4096, (50257,), "recomputed_softmax_backward"),
    Lesson("f32", 1, (1048576,), "recomputed_softmax_backward"),
    Lesson("bf16", 8, (262144,), "recomputed_softmax_backward"),
    # Cross-entropy: one read; with the gradient one write, too.
    *(
        Lesson(dtype, rows, cols, op)
        for op in ("cross_entropy", "cross_entropy_gradient")
        for dtype, rows, cols in (
            ("bf16", 4096, (32000, 50257, 50264, 128256)),
            ("bf16", 16384, (32768,)),
            ("bf16", 8192, (131072,)),
            ("bf16", 65536, (201, 417)),
            ("f32", 65536, (101,)),
            ("bf16", 256, (63561,)),
            ("bf16", 262144, (10, 33, 100, 1000)),  # few classes: rows narrower than a warp's access, and one that is not
            ("f32", 262144, (33, 50)),
            ("bf16", 8192, (100,)),  # the same of a matrix that is soon done
            ("f32", 8192, (50,)),
            # Widths between classes and a vocabulary.
            ("bf16", 49152, (1025, 1281, 2048, 2112)),
            ("bf16", 16384, (4096, 8192, 8193)),
            ("bf16", 8192, (16384,)),
            ("f32", 16384, (641, 4096, 4097, 8193)),
        )
    ),
    Lesson("bf16", 32768, (101,), "cross_entropy_gradient"),  # between a matrix that is soon done and one that is not
    # The loss alone: a pack more than lanes have four of, few rows, narrow ones, wide ones that are cut, and between a block of a cluster and many.
    Lesson("bf16", 65536, (520, 1032), "cross_entropy"),
    Lesson("bf16", 1000, (182,), "cross_entropy"),
    Lesson("f32", 8192, (22, 33), "cross_entropy"),  # narrow, with few spans
    Lesson("f32", 65536, (33,), "cross_entropy"),
    Lesson("bf16", 16384, (3001, 5001), "cross_entropy"),
    Lesson("bf16", 8192, (12288, 13321, 16001, 20489, 22001, 24000, 32767), "cross_entropy"),
    Lesson("bf16", 4096, (49152, 65536, 65537), "cross_entropy"),
    Lesson("f32", 65536, (64, 256, 1024), "cross_entropy"),
    Lesson("f32", 16384, (2048, 6000, 8192), "cross_entropy"),
    Lesson("f32", 8192, (12345, 16384, 32768), "cross_entropy"),
    Lesson("f32", 4096, (50257, 65536), "cross_entropy"),
    # Attention's softmax, of 32, 16 and 2 heads.
    *(
        Lesson("bf16", rows, (cols,), op)
        for op in ("causal_softmax", "causal_softmax_backward")
        for rows, cols in ((32768, 1024), (32768, 2048), (16384, 8192))
    ),
)

RUN_TIMEOUT_S = 300
NOISY_PERCENT = 5.0


def measure(stages: dict[str, Path], lessons: tuple[Lesson, ...], finished: Path) -> tuple[list[Json], list[str]]:
    """Runs every stage at every lesson's shapes; returns the reports and all that went wrong. The reports of runs that
    went well are kept in the folder `finished`, and used if they are there, and younger than the stage.

    A failure does not stop the rest: one run on a borrowed GPU should name every problem.
    """
    reports: list[Json] = []
    problems: list[str] = []
    work = [
        (lesson, stage)
        for lesson, stage in itertools.product(lessons, stages)
        if stage >= lesson.since and lesson.op in results.operations_of(stage)
    ]
    for number, (lesson, stage) in enumerate(work, start=1):
        cols = ",".join(map(str, lesson.cols))
        start = time.monotonic()
        options = results.stage_options(lesson.dtype, lesson.rows, cols, lesson.op)
        what = f"{stage} {lesson.dtype} {lesson.rows} x {cols}"
        kept = finished / f"{what} {lesson.op}.json"
        is_kept = kept.is_file() and kept.stat().st_mtime > stages[stage].stat().st_mtime
        report, found = (load_json(kept), []) if is_kept else results.run_stage(stages[stage], options, RUN_TIMEOUT_S)
        problems += [f"{what}: {problem}" for problem in found]
        outcome = "FAILED"
        if report is not None and not found:
            reports.append(report)
            mine = [r for r in report["results"] if r["stage"]]
            verified = sum(r["status"] == "verified" for r in mine)
            outcome = f"{verified} verified, {len(mine) - verified} not applicable"
            if is_kept:
                outcome += " in the interrupted recording"
            else:
                write_whole(kept, json.dumps(report))
        print(f"[{number:3}/{len(work)}] {what}: {outcome}, {time.monotonic() - start:.1f} s", flush=True)
    return reports, problems


def merge(reports: list[Json]) -> list[Json]:
    """One list of results out of all reports.

    Each run times its own copy ceiling, which its percentages refer to (copy_us). The copy with the median time
    stands for the shape and operation.
    """
    found = [result for report in reports for result in report["results"]]
    copies = by_place(result for result in found if not result["stage"])
    ceilings = (sorted(of_shape, key=lambda r: r["time_us"])[(len(of_shape) - 1) // 2] for of_shape in copies.values())
    return [*(result for result in found if result["stage"]), *ceilings]


def checked(reports: list[Json]) -> tuple[Json, Json, list[Json]]:
    """The machine, the settings and all results. Raises ToolError when they are not of one recording."""
    machine, settings = reports[0]["machine"], reports[0]["settings"]
    if any(report["machine"] != machine or report["settings"] != settings for report in reports):
        raise ToolError("the stages report different machines or settings: record again")
    merged = merge(reports)
    check_each(merged, results.RECORDING["results"], "results")
    return machine, settings, merged


def record(arguments: argparse.Namespace) -> Path:
    """Measures and writes; returns the file. Raises ToolError, and then has written nothing."""
    header = results.header(arguments, "python3 common/tools record" + (" --quick" if arguments.quick else ""))
    stages = results.stage_executables(arguments.root, arguments.build, results.measured_names(arguments.root))
    # The driver: the reports do not name it, and the file has one for all of them.
    driver = results.software_versions(arguments.build)["driver_version"]
    # A quick recording, which forgets them soon, leaves a long one's alone.
    kind = "quick" if arguments.quick else "all lessons"
    finished = arguments.build / "unfinished-recording" / f"{header['commit']}, driver {driver}, {kind}"
    if header["dirty"]:  # it is unknown which code they are of
        shutil.rmtree(finished, ignore_errors=True)
    reports, problems = measure(stages, LESSONS[:1] if arguments.quick else LESSONS, finished)
    if problems:
        raise ToolError("nothing was written:\n  " + "\n  ".join(problems))
    try:
        machine, settings, merged = checked(reports)
    except ToolError:
        shutil.rmtree(finished)  # with these, the next recording would be refused, too
        raise
    for result in merged:
        if (result["spread_percent"] or 0) > NOISY_PERCENT:
            where = f"{result['stage']} {result['variant']} {result['rows']} x {result['cols']}"
            print(f"noisy: {where}: spread {result['spread_percent']:.1f} %")
    # A quick run stays out of common/results: it would replace the full one.
    if arguments.quick and not arguments.out:
        arguments.out = arguments.build / f"{results.gpu_slug(machine['gpu'])}-quick.json"
    path = results.write(arguments, header, machine, settings=settings, results=merged)
    shutil.rmtree(finished)
    return path


def main(argv: list[str]) -> None:
    parser = Parser("python3 common/tools record", "Record the lessons' measurements on this GPU.")
    parser.add_argument("--out", type=file_to_write, help="results file (default: common/results/<gpu>.json)")
    results.add_commit_option(parser)
    parser.add_argument("--quick", action="store_true", help="only the ladder's shape; written to the build folder")
    print(f"wrote {record(results.parse(parser, argv))}")
