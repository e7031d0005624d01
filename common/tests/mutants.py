#!/usr/bin/env python3
"""Stages with mistakes in them. The suite's own checks must catch each on a machine without a GPU, with a message that
says where it is. liars.cu tests the harness; this tests what the suite does to the stages.

    mutants.py --list           the names of the groups
    mutants.py BUILD GROUP      makes the group's files in BUILD/mutants, compiles its stage with them, and runs it

A group has several mistakes where different variants or shapes show them, because each compilation takes several
seconds. To save more of it, they are compiled for f32 softmax alone, as PTX alone, and without CUB and Thrust where
possible.

Their grids have at most two blocks, so that a block works on several rows. In the stages as they are, that happens
only beyond 2^31 - 1 rows, and nothing else here would miss the barrier between one row and the next.

What only a GPU has the memory for is not here: an index that is too narrow. On a GPU the tests
<stage>.beyond_2_31_elements find it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import check_stage

SOURCE = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Change:
    """One text of a file, which must be there exactly once, and what it becomes."""

    file: str
    text: str
    becomes: str


@dataclass(frozen=True)
class Mistake:
    name: str
    changes: tuple[Change, ...]
    run: str  # the variant and the options that show it
    says: str  # a regular expression for a line of what is printed
    code: int
    at: tuple[str, str] | None = None  # a line of what is printed names the place of this text in this file, as changed
    counted: bool = False  # shown by counts.py, not by verification


def fault(name, *changes, run, says, at, file=None):
    """The simulator stops the kernel at the line of `file` (where the first change is) that has the text `at`."""
    return Mistake(name, changes, run, "simulator: .*" + says, 4, (file or changes[0].file, at))


def wrong_result(name, *changes, run, says):
    return Mistake(name, changes, run, f"WRONG  {run.split()[0]}, .*{says}", 1)


def wrong_count(name, *changes, says, run="", at=None):
    """counts.py fails, and `says` is in the line of what it prints that names the line of `at`."""
    return Mistake(name, changes, run, says, 1, (changes[0].file, at) if at else None, True)


@dataclass(frozen=True)
class Group:
    stage: str
    mistakes: tuple[Mistake, ...] = ()  # none: all is well with small grids
    variants: str = ""


# ---- What all groups have in common.
DTYPE = "common/harness/dtype.cuh"
LAUNCHES = "common/harness/launches.cuh"
GRID = "common/kernel/grid.cuh"
PACK = "common/kernel/pack.cuh"
NAIVE = "01_naive/naive.cuh"
THRUST = "01_naive/thrust_calls.cuh"
REDUCE = "02_fused_block/block_reduce.cuh"
FUSED = "02_fused_block/fused_block.cuh"
WARP = "03_warp_reduce/warp_reduce.cuh"
SMEM = "04_smem_bank_conflict/smem.cuh"
UNCACHED = "05_uncached/uncached.cuh"
ONLINE = "06_online/online.cuh"
REDUCE_OP = "common/kernel/reduce_op.cuh"
MAX_SUM = "common/kernel/max_sum.cuh"
MERGE = "common/kernel/block_merge.cuh"

# Those in a stage's folder for that stage alone.
COMMON = (
    Change(DTYPE, "if (dtype == DType::f16) return function.template operator()<__half>();", ""),
    Change(DTYPE, "if (dtype == DType::bf16) return function.template operator()<__nv_bfloat16>();", ""),
    Change(LAUNCHES, "Operations<Softmax, LogSoftmax>;", "Operations<Softmax>;"),
    Change(GRID, "max_grid_blocks = 0x7fffffff;", "max_grid_blocks = 2;"),
    # Without Thrust.
    Change(THRUST, "const auto policy = thrust::cuda", "if constexpr (true) return;\n  else {\n  const auto policy = thrust::cuda"),
    Change(THRUST, "y, Divide<T>{});\n  }", "y, Divide<T>{});\n  }\n  }"),
)  # fmt: skip
# All stages but 02 include it only for what stands beside the wrapper of CUB's reduction.
WITHOUT_CUB = Change(REDUCE, "#include <cub/block/block_reduce.cuh>",
                     "namespace cub { template <class T, int block_size> class BlockReduce; }")  # fmt: skip

GROUPS = {
    "01_naive": Group("01_naive", (), "--variant thread_per_row,block_per_row,block_per_row_division"),
    "02_fused_block": Group("02_fused_block"),
    "03_warp_reduce": Group("03_warp_reduce"),
    "04_smem_bank_conflict": Group("04_smem_bank_conflict"),
    "05_uncached": Group("05_uncached"),
    "06_online": Group("06_online"),
    "01_naive_1": Group("01_naive", (
        fault("no_barrier_before_the_next_row",
              Change(NAIVE, "__syncthreads();  // the storage is used again", "// the storage is used again"),
              run="block_per_row --rows 7 --cols 1000",
              says="race: write of 4 bytes of shared memory", at="BlockReduce(storage).Reduce"),
        fault("a_column_too_many",
              Change(NAIVE, "col < min(chunk + chunk_cols, shape.cols); ++col",
                     "col < min(chunk + chunk_cols, shape.cols + 1); ++col"),
              run="thread_per_row --rows 1 --cols 1000",
              says="read of 4 bytes of global memory at .*, which nobody has written yet: element 1000 of",
              at="chunk_value = ReduceOp{}(chunk_value,"),
    )),
    "01_naive_2": Group("01_naive", (
        wrong_count("no_division_for_every_element",
                    Change(NAIVE, "division == Division::per_element ? exp / sum : exp * reciprocal", "exp * reciprocal"),
                    run="--variant block_per_row,block_per_row_division",
                    says="^block_per_row_division: not so: a division for every element"),
    )),
    "02_fused_block_1": Group("02_fused_block", (
        fault("no_barrier_between_steps_of_the_tree",
              Change(REDUCE, "      }\n      __syncthreads();", "      }\n"),
              run="shared_memory_tree --rows 1 --cols 1000",
              says="race: read of 4 bytes of shared memory", at="storage.values[threadIdx.x + stride]);"),
        fault("no_barrier_before_warp_results_are_read",
              Change(REDUCE, "storage.warp_results[warp] = value;\n    __syncthreads();",
                     "storage.warp_results[warp] = value;\n"),
              run="warp_then_shared --rows 1 --cols 1000",
              says="read of 4 bytes of shared memory at byte .*, which nobody has written yet",
              at="(storage.warp_results[lane]"),
        fault("no_barrier_before_the_result_of_cub_is_read",
              Change(REDUCE, "__syncthreads();        // also allows CUB", "// also allows CUB"),
              run="cub_block_reduce --rows 1 --cols 1000",
              says="read of 4 bytes of shared memory", at="// written again only after"),
    )),
    "02_fused_block_2": Group("02_fused_block", (
        fault("no_barrier_before_the_next_call",
              Change(REDUCE, "__syncthreads();  // the next call begins by writing to values", ""),
              run="shared_memory_tree --rows 1 --cols 1000",
              says="race: write of 4 bytes of shared memory", at="storage.values[threadIdx.x] = value;"),
        fault("no_barrier_before_the_result_is_read",
              Change(REDUCE, "    __syncthreads();\n    return storage.result;\n", "\n    return storage.result;\n"),
              run="warp_then_shared --rows 1 --cols 1000",
              says="read of 4 bytes of shared memory", at="return storage.result;\n"),
        fault("mask_names_lanes_that_a_block_of_112_lacks",
              Change(REDUCE, "num_lanes == warp_size ? 0xffffffffu : (1u << num_lanes) - 1;", "0xffffffffu;"),
              run="warp_then_shared_112 --rows 1 --cols 1000",
              says="the mask of a shuffle names lanes 16-31, which the block does not have", at="__shfl_down_sync("),
        wrong_result("maximum_starts_at_0",
                     Change(FUSED, "float max = MaxOp::identity;", "float max = 0;"),
                     run="cub_block_reduce --rows 7 --cols 1000 --input very_negative",
                     says="very_negative: .*first at row 0, column 0: got -?(nan|inf), expected 0.00"),
    )),
    "02_fused_block_3": Group("02_fused_block", (
        wrong_count("a_block_for_every_row",
                    Change(FUSED, "LaunchShape::block_per_head ? shape.cols : 1", "LaunchShape::block_per_head ? 1 : 1"),
                    says="^fastertransformer_block_per_row: not so: a block loops over a head's rows"),
        wrong_count("a_barrier_too_many_for_narrow_rows",
                    Change(FUSED, "const RowResult<Op> result(max, sum);",
                           "if (cols < 100) __syncthreads();  // for nothing\n    const RowResult<Op> result(max, sum);"),
                    says="block barriers .*", at="// for nothing"),
    )),
    "03_warp_reduce_1": Group("03_warp_reduce", (
        fault("a_pack_too_many",
              Change(WARP, "col_of_pack(pack) < cols)", "col_of_pack(pack) <= cols)"),
              run="padded_packs --rows 1 --cols 1000",
              says="read of 16 bytes of global memory at .*, which nobody has written yet: byte 4000 of",
              at="load.template fetch<"),
        fault("mask_names_lanes_that_have_returned",
              Change(WARP, "group * tile.rows_per_access;", "group * tile.rows_per_access; if (first_row >= rows) return;"),
              run="narrow_groups --rows 1 --cols 16",
              says="the mask of a shuffle names lanes 4-31, which have returned", at="max = warp_all_reduce"),
    )),
    "03_warp_reduce_2": Group("03_warp_reduce", (
        wrong_result("tail_of_the_tile_is_dropped",
                     Change(WARP, "col_of_pack(pack) < cols)",
                            "col_of_pack(pack) < cols / (32 * tile.pack_size) * (32 * tile.pack_size))"),
                     run="scalar_loads --rows 7 --cols 1000",
                     says="56 of 7000 elements never written, 7000 wrong in all. first at row 0, column 0"),
        fault("packs_that_do_not_cover_the_rows",
              Change(PACK, "cols % N == 0 && ", "cols > 0 && "),
              run="padded_packs --rows 7 --cols 1001",
              says="misaligned read of 16 bytes", at="load.template fetch<", file=WARP),
    )),
    "03_warp_reduce_3": Group("03_warp_reduce", (
        wrong_count("no_tiles_for_the_narrowest_rows",
                    Change(WARP, "group_of(1), group_of(2), group_of(4),", "group_of(4),"),
                    says="^shuffles of narrow groups: not so"),
    )),
    "04_smem_bank_conflict_1": Group("04_smem_bank_conflict", (
        wrong_count("layouts_are_swapped",
                    Change(SMEM, "buffer[i * num_packs + pack] = values[i];",
                           "static_cast<volatile float*>(buffer)[i + pack * N] = values[i];"),
                    Change(SMEM, "values[i] = buffer[i * num_packs + pack];",
                           "values[i] = static_cast<const volatile float*>(buffer)[i + pack * N];"),
                    run="--variant transposed_layout --rows 3 --cols 512",
                    says="shared stores .* [1-9][0-9]* bank conflicts", at="(buffer)[i + pack * N] = values[i]"),
    )),
    "05_uncached_1": Group("05_uncached", (
        wrong_result("tail_of_the_row_is_dropped",
                     Change(UNCACHED, "num_packs = cols / pack_size;",
                            "num_packs = cols / pack_size / blockDim.x * blockDim.x;"),
                     run="small_block --rows 7 --cols 1000",
                     says="[0-9]+ of 7000 elements never written"),
        wrong_count("a_pass_too_many",
                    Change(UNCACHED, "(load, row, cols, update_max);",
                           "(load, row, cols, update_max);\n"
                           "  for_each_pack<pack_size, Direction::forward>(load, row, cols, update_max);  // again"),
                    run="--variant reversed_second_pass --rows 3 --cols 512",
                    says="global loads .* bytes", at="// again"),
    )),
    "05_uncached_2": Group("05_uncached", (
        wrong_result("maximum_starts_at_minus_10000",
                     Change(REDUCE_OP, "static constexpr float identity = -cuda::std::numeric_limits<float>::infinity();",
                            "static constexpr float identity = -1e4f;"),
                     run="small_block --rows 7 --cols 31 --input lowest", says="lowest: 217 of 217 elements wrong"),
        wrong_count("backwards_is_forwards",
                    Change(UNCACHED, "(direction == Direction::forward ? pack : num_packs - 1 - pack)", "pack"),
                    says="^large_block and reversed_second_pass: all counters are the same"),
        wrong_count("no_hint_for_the_reads",
                    Change(UNCACHED, "__ldcs(reinterpret_cast<const decltype(Pack<T, N>::word)*>(source))",
                           "*reinterpret_cast<const decltype(Pack<T, N>::word)*>(source)"),
                    says="^cache_hints: not so: the last read and the write have cache hints"),
    )),
    "06_online_1": Group("06_online", (
        fault("no_barrier_before_pairs_are_merged",
              Change(MERGE, "storage[warp] = state;\n  __syncthreads();", "storage[warp] = state;\n"),
              run="online --rows 1 --cols 1000",
              says="read of . bytes of shared memory", at="? storage[lane]"),
        wrong_result("pair_starts_at_0",
                     Change(MAX_SUM, "float max = -cuda::std::numeric_limits<float>::infinity();", "float max = 0;"),
                     run="online --rows 7 --cols 31 --input very_negative",
                     says="very_negative: .*first at row 0, column 0: got -?(nan|inf), expected 0.0"),
    )),
    "06_online_2": Group("06_online", (
        fault("no_barrier_before_the_next_rows_pairs",
              Change(MERGE, "  __syncthreads();\n  return state;", "\n  return state;"),
              run="online --rows 7 --cols 1000",
              says="race: read of . bytes of shared memory", at="? storage[lane]"),
        wrong_result("merge_of_two_that_saw_only_inf",
                     Change(MAX_SUM, "return fmaxf(max, cuda::std::numeric_limits<float>::lowest());", "return max;"),
                     run="online_per_element --rows 7 --cols 31 --input neg_inf_prefix",
                     says="neg_inf_prefix: .*: got -?nan, expected"),
    )),
    "06_online_3": Group("06_online", (
        wrong_count("no_tile_for_the_narrowest_rows",
                    Change(ONLINE, "BlockTile{32, 8}, ", ""),
                    says="^exponentials of the tile: not so"),
        wrong_count("backwards_is_forwards",
                    Change(UNCACHED, "(direction == Direction::forward ? pack : num_packs - 1 - pack)", "pack"),
                    says="^online and online_reversed: all counters are the same"),
        wrong_count("a_barrier_too_many_for_wide_rows",
                    Change(MERGE, "  __syncthreads();\n  return state;",
                           "  __syncthreads();\n  if (blockDim.x > 512) __syncthreads();  // for nothing\n  return state;"),
                    says="block barriers .*", at="// for nothing"),
    )),
}  # fmt: skip


class Failure(Exception):
    """One line: why the group is not what it should be."""


def changed_files(group: Group) -> dict[str, str]:
    """The text of each file that the group changes."""
    changes = [("every group", change) for change in COMMON
               if not change.file[0].isdigit() or change.file.startswith(group.stage)]  # fmt: skip
    if group.stage != "02_fused_block":
        changes.append(("every group", WITHOUT_CUB))
    changes += [(mistake.name, change) for mistake in group.mistakes for change in mistake.changes]
    texts: dict[str, str] = {}
    for name, change in changes:
        text = texts.get(change.file) or (SOURCE / change.file).read_text(encoding="utf-8")
        if text.count(change.text) != 1:
            raise Failure(f"{change.file} has this text {text.count(change.text)} times, and not once as {name} expects: "
                          f"{change.text!r}")  # fmt: skip
        texts[change.file] = text.replace(change.text, change.becomes)
    return texts


def is_up_to_date(executable: Path, object_file: Path, *inputs: Path) -> bool:
    """What is built is newer than all that it was built from."""
    depend = object_file.with_suffix(".d")
    if not executable.exists() or not depend.exists():
        return False
    names = re.split(r"(?<!\\)\s+", depend.read_text(encoding="utf-8").split(":", 1)[1].replace("\\\n", ""))
    files = [Path(name.replace("\\ ", " ")) for name in names if name]
    built = executable.stat().st_mtime
    return all(file.exists() and file.stat().st_mtime < built for file in (*files, *inputs))


def run(command: list, folder: Path) -> None:
    done = subprocess.run([str(part) for part in command], cwd=folder, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)  # fmt: skip
    if done.returncode != 0:
        raise Failure(f"exit code {done.returncode}: {shlex.join(str(part) for part in command)}\n{done.stdout}")


def build_executable(build: Path, name: str, group: Group) -> Path:
    folder = build / "mutants" / name
    for file, text in changed_files(group).items():
        path = folder / "changed" / file
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    main = SOURCE / group.stage / "main.cu"  # its quoted names are looked for in the changed files first
    database = build / "compile_commands.json"
    commands = json.loads(database.read_text(encoding="utf-8"))
    command = shlex.split(next(entry["command"] for entry in commands if Path(entry["file"]) == main))
    executable, object_file, harness = folder / group.stage, folder / "main.o", build / "libharness.a"
    if is_up_to_date(executable, object_file, harness, database, Path(__file__)):
        return executable

    # The stage's own command, but for another output, PTX alone, no warning an error, and the changed files first.
    command = command[: command.index("-o")]
    command = [word for word in command if not re.match("--generate-code|-gencode|--Werror|-Xcompiler=-Werror$", word)]
    options = next(i for i, word in enumerate(command) if word.startswith("-"))
    command[options:options] = ["-I" + str(folder / "changed"), "--generate-code=arch=compute_90,code=compute_90"]
    executable.unlink(missing_ok=True)
    run([*command, "-o", object_file, "-MD", "-MF", object_file.with_suffix(".d")], build)
    compiler = [*command[:options], *(word for word in command if word.startswith("-ccbin"))]
    run([*compiler, "-cudart", "shared", object_file, harness, "-ldl", "-o", executable], build)
    return executable


def caught(mistake: Mistake, executable: Path) -> str:
    """The lines that name the mistake; raises Failure where the suite would not have seen it."""
    if mistake.counted:
        command = [sys.executable, str(SOURCE / "common/tests/counts.py"), str(executable), "--dtype", "f32"]
    else:
        command = [str(executable), "--device", "sim", "--verify-only", "--variant"]
    command += mistake.run.split()
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    wanted = [mistake.says]
    if mistake.at:
        file, text = mistake.at
        before = (executable.parent / "changed" / file).read_text(encoding="utf-8").split(text)
        if len(before) != 2:
            raise Failure(f"{mistake.name}: {file} has the text of the place {len(before) - 1} times, not once: {text!r}")
        place = f"(at|from) .*changed/{file}:{before[0].count(chr(10)) + 1}( |$)"
        wanted = [f"{mistake.says}.*{place}"] if mistake.counted else [mistake.says, place]
    lines = [next((line for line in done.stdout.splitlines() if re.search(regex, line)), None) for regex in wanted]
    if done.returncode != mistake.code or None in lines:
        raise Failure(f"{mistake.name}: exit code {done.returncode}, expected {mistake.code} and lines that match\n"
                      + "\n".join(wanted) + f"\n--- but printed was\n{done.stdout}---")  # fmt: skip
    return "; ".join(line.strip() for line in lines)


def main() -> int:
    if sys.argv[1:] == ["--list"]:
        print(*GROUPS, sep=";", end="")
        return 0
    build, name = Path(sys.argv[1]).resolve(), sys.argv[2]
    group = GROUPS[name]
    try:
        executable = build_executable(build, name, group)
        # As seen from here: the loader splits at colons, which the path of a checkout may have.
        os.environ["LD_LIBRARY_PATH"] = f"{os.path.relpath(build / 'simulator')}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        for mistake in group.mistakes:
            print(f"{mistake.name}: {caught(mistake, executable)}")
        if not group.mistakes:
            options = "--rows 1,2,7,100 --cols 1,31,128,1000,1025 --input normal,neg_inf_prefix"
            options += f" {group.variants} --device sim --verify-only --format csv"
            check_stage.verify([str(executable), *options.split()])
    except (Failure, check_stage.Failure) as failure:
        print(failure)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
