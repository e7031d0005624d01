#!/usr/bin/env python3
"""Stages, and the library's kernels, with mistakes in them. The suite's own checks must catch each on a machine without a
GPU, with a message that says where it is. liars.cu tests the harness; this tests what the suite does to the stages.

    mutants.py --list           the names of the groups
    mutants.py BUILD GROUP      makes the group's files in BUILD/mutants, compiles its stage with them, and runs it

A group has several mistakes where different variants or shapes show them, because each compilation takes several
seconds. To save more of it, they are compiled for f32 softmax alone, as PTX alone, and without Thrust.

Their grids have at most two blocks, so that a block works on several rows. In the stages as they are, that happens
only beyond 2^31 - 1 rows, and nothing else here would miss the barrier between one row and the next.

What only a GPU has the memory for is not here: an index that is too narrow. On a GPU the tests
<stage>.beyond_2_31_elements find it.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import check_stage
from check_stage import Failure

SOURCE = Path(__file__).resolve().parents[2]
SOURCES = [
    path.relative_to(SOURCE)
    for top in (*(SOURCE / "common" / name for name in ("kernel", "harness", "rowwise")), *SOURCE.glob("[0-9][0-9]_*"))
    for path in sorted(top.rglob("*.[ch]*"))
    if "exercise" not in path.parts
]
CHOICE = "common/rowwise/dispatch/choice.h"
DISPATCH = "14_dispatch/main.cu"
# Stage 15 has its kernels in another file than main.cu, and needs two devices and NCCL's library.
SEVERAL_GPUS = "15_several_gpus"
# The library's kernels, as variants of a stage for these tests.
LIBRARY = "library"
MAIN_OF = {SEVERAL_GPUS: f"{SEVERAL_GPUS}/variants.cu", LIBRARY: "common/tests/stages/library_kernels.cu"}
# A file that is in no build is compiled by the command of another.
COMPILED_LIKE = {LIBRARY: "common/rowwise/bench/main.cu"}

# A file, and what of it becomes what: "text => other", where the text is there exactly once. The file is named by the last
# one or two parts of its path; .cuh may be left out.
Change = tuple[str, str]


def source_of(end: str) -> str:
    found = [path.as_posix() for path in SOURCES if {end, f"{end}.cuh"} & {"/".join(path.parts[-n:]) for n in (1, 2)}]
    if len(found) != 1:
        raise Failure(f"one source should be '{end}', and not {len(found)}: {found}")
    return found[0]


@dataclass(frozen=True)
class Mistake:
    group: str
    name: str
    run: str  # the variant and the options that show it; 7x1000 stands for --rows 7 --cols 1000
    says: str  # a regular expression for a line of what is printed
    changes: tuple[Change, ...]
    code: int
    at: str | None = None  # a line of what is printed names the place of this text, as changed, ...
    file: str = ""  # ... in this file
    counted: bool = False  # shown by counts.py, not by verification

    @property
    def options(self) -> list[str]:
        return re.sub(r"\b(\d+)x(\d\S*)", r"--rows \1 --cols \2", self.run).split()


    @property
    def variants(self) -> list[str]:
        """The variants that run, or none if all do: counts.py runs some by itself."""
        return [] if self.counted else self.run.split()[:1]


def fault(group: str, name: str, run: str, says: str, *changes: Change, at: str | None = None, file: str = "") -> Mistake:
    """The simulator stops the kernel, and names the line of `file` (where the first change is) that has the text `at`."""
    return Mistake(group, name, run, "simulator: .*" + says, changes, 4, at, file or changes[0][0])


def wrong_result(group: str, name: str, run: str, says: str, *changes: Change) -> Mistake:
    return Mistake(group, name, run, f"WRONG  {run.split()[0]}, .*{says}", changes, 1)


def wrong_count(group: str, name: str, run: str, says: str, *changes: Change, at: str | None = None) -> Mistake:
    """counts.py fails, and `says` is in the line of what it prints that names the line of `at`."""
    return Mistake(group, name, run, says, changes, 1, at, changes[0][0], counted=True)


TOO_NARROW = "of block or cluster scope, which does not reach so far"
ON_ITS_WAY = "read of 16 bytes of shared memory at .*on its way"
NOT_STARTED = "which need not have started"

# What all groups have in common; those in a stage's folder for that stage alone.
COMMON = (
    ("dtype", "if (dtype == DType::f16) return function.template operator()<__half>(); => "),
    ("dtype", "if (dtype == DType::bf16) return function.template operator()<__nv_bfloat16>(); => "),
    ("row_operation", "OpList<Softmax, LogSoftmax>; => OpList<Softmax>;"),
    ("grid", "max_grid_blocks = 0x7fffffff; => max_grid_blocks = 2;"),
    ("07_split_row/split_row", "max_grid_rows = 65535; => max_grid_rows = 2;"),
    ("forward/split_row", "max_grid_rows = 65535; => max_grid_rows = 2;"),
    ("row_gradient", "OpList<SoftmaxBackward, LogSoftmaxBackward>; => OpList<SoftmaxBackward>;"),
    ("row_loss", "Losses = OpList<CrossEntropy, SmoothedCrossEntropy>; => Losses = OpList<CrossEntropy>;"),
    ("row_loss", "OpList<WithGradient<CrossEntropy>, WithGradient<SmoothedCrossEntropy>>; => OpList<WithGradient<CrossEntropy>>;"),
    ("row_loss", "LossesAndGradients = OpList<CrossEntropy, SmoothedCrossEntropy, WithGradient<CrossEntropy>,\n"
                 "                                  WithGradient<SmoothedCrossEntropy>>; => "
                 "LossesAndGradients = OpList<CrossEntropy,\n WithGradient<CrossEntropy>>;"),  # as many lines, for coverage.py
    # Without Thrust.
    ("thrust_calls", "const auto policy = thrust::cuda => "
                     "if constexpr (true) return;\n  else {\n  const auto policy = thrust::cuda"),
    ("thrust_calls", "y, Divide<T>{});\n  } => y, Divide<T>{});\n  }\n  }"),
)  # fmt: skip
# Some kernels have a block for each row and no loop over rows: they refuse more rows than a grid has blocks. If a mistake or
# counts.py needs more rows than that, grids are as large as ever.
ALL_BLOCKS = ("grid", "max_grid_blocks = 2; => max_grid_blocks = 0x7fffffff;")
# Whose kernels' constants a stage takes.
TAKES_FROM = {SEVERAL_GPUS: "07_split_row"}
# What a stage does in a group's run if it is not all the same.
MORE_OPTIONS = {
                     "01_naive": " --variant thread_per_row,block_per_row,block_per_row_division",  # Thrust is not there
                     "11_backward": " --op softmax_backward,recomputed_softmax_backward",
    "12_cross_entropy": " --op cross_entropy,cross_entropy_gradient",
    "13_masked_softmax": " --op causal_softmax,causal_softmax_backward,padded_softmax,padded_softmax_backward",
                 LIBRARY: " --op softmax,softmax_backward,cross_entropy,cross_entropy_gradient",
}

# By group: the stage, or the library, and a number.
MISTAKES = [
    fault("01.1", "no_barrier_before_the_next_row", "block_per_row 7x1000", "race: write of 4 bytes of shared memory",
        ("naive", "__syncthreads();  // the storage is used again => // the storage is used again"),
        at="BlockReduce(storage).Reduce"),
    fault("01.1", "a_column_too_many", "thread_per_row 1x1000",
        "read of 4 bytes of global memory at .*, which nobody has written yet: element 1000 of",
        ("naive", "col < min(chunk + chunk_cols, shape.cols); ++col => "
                  "col < min(chunk + chunk_cols, shape.cols + 1); ++col"), at="chunk_value = ReduceOp{}(chunk_value,"),
    wrong_count("01.2", "no_division_for_every_element", "--variant block_per_row,block_per_row_division",
        "^block_per_row_division: not so: a division for every element",
        ("naive", "division == Division::per_element ? exp / sum : exp * reciprocal => exp * reciprocal")),
    fault("02.1", "no_barrier_between_steps_of_the_tree", "shared_memory_tree 1x1000",
        "race: read of 4 bytes of shared memory", ("block_reduce", "      }\n      __syncthreads(); =>       }\n"),
        at="storage.values[threadIdx.x + stride]);"),
    fault("02.1", "no_barrier_before_warp_results_are_read", "warp_then_shared 1x1000",
        "read of 4 bytes of shared memory at byte .*, which nobody has written yet",
        ("block_reduce", "storage.warp_results[warp] = value;\n    __syncthreads(); => "
                         "storage.warp_results[warp] = value;\n"), at="(storage.warp_results[lane]"),
    fault("02.2", "mask_names_lanes_that_a_block_of_112_lacks", "warp_then_shared_112 1x1000",
        "the mask of a shuffle names lanes 16-31, which the block does not have",
        ("block_reduce", "num_lanes == warp_size ? 0xffffffffu : (1u << num_lanes) - 1; => 0xffffffffu;"),
        at="__shfl_down_sync("),
    wrong_result("02.2", "maximum_starts_at_0", "cub_block_reduce 7x1000 --input very_negative",
        "very_negative: .*first at row 0, column 0: got -?(nan|inf), expected 0.00",
        ("fused_block", "float max = MaxOp::identity; => float max = 0;")),
    wrong_count("02.3", "a_block_for_every_row", "",
        "^fastertransformer_block_per_row: not so: a block loops over a head's rows",
        ("fused_block", "LaunchShape::block_per_head ? tensors.shape.cols : 1 => LaunchShape::block_per_head ? 1 : 1")),
    wrong_count("02.3", "a_barrier_too_many_for_narrow_rows", "", "block barriers .*",
        ("fused_block", "const RowResult<Op> result(max, sum); => if (cols < 100) __syncthreads();  // for nothing\n"
                        "    const RowResult<Op> result(max, sum);"), at="// for nothing"),
    fault("03.1", "a_pack_too_many", "padded_packs 1x1000",
        "read of 16 bytes of global memory at .*, which nobody has written yet: byte 4000 of",
        ("03_warp_reduce/warp_reduce", "col(pack) < shape.cols; }; => col(pack) <= shape.cols; };"), at="load.template fetch<"),
    fault("03.1", "mask_names_lanes_that_have_returned", "narrow_groups 1x16",
        "the mask of a shuffle names lanes 4-31, which have ended the kernel",
        ("03_warp_reduce/warp_reduce", "const std::int64_t row = thread / lanes;\n => "
                                       "const std::int64_t row = thread / lanes; if (row >= shape.rows) return;\n"),
        at="warp_all_reduce<MaxOp"),
    wrong_result("03.2", "missing_packs_are_0", "scalar_loads 7x1000 --input very_negative", "7000 of 7000 elements wrong",
        ("03_warp_reduce/warp_reduce", ": load.template missing<pack_size>(); => : Fetched<Load, pack_size>{};")),
    wrong_result("03.2", "a_row_for_each_warp", "narrow_groups 7x16", "of 112 elements never written",
        ("03_warp_reduce/warp_reduce", "const std::int64_t row = thread / lanes; => const std::int64_t row = thread / 32;")),
    fault("03.2", "packs_that_do_not_cover_the_rows", "padded_packs 7x1001", "misaligned read of 16 bytes",
        ("pack", "cols % N == 0 &&  => cols > 0 && "), at="load.template fetch<", file="03_warp_reduce/warp_reduce"),
    wrong_count("03.3", "the_maximum_of_all_rows_of_a_warp", "--variant narrow_groups 7x16,100", "^narrow_groups: shuffles: ",
        ("03_warp_reduce/warp_reduce", "warp_all_reduce<MaxOp, lanes>(max) => warp_all_reduce<MaxOp, 32>(max)")),
    wrong_count("03.3", "twice_as_many_packs_as_it_takes", "--variant padded_packs 7x256,512",
        "^padded_packs: special_function_lanes: ",
        ("03_warp_reduce/warp_reduce", "if (needed > n) return => if (needed >= n) return")),
    wrong_count("04.1", "layouts_are_swapped", "--variant transposed_layout 3x512",
        "shared stores .* [1-9][0-9]* bank conflicts",
        ("smem", "buffer[i * num_packs + pack] = values[i]; => "
                 "static_cast<volatile float*>(buffer)[i + pack * N] = values[i];"),
        ("smem", "values[i] = buffer[i * num_packs + pack]; => "
                 "values[i] = static_cast<const volatile float*>(buffer)[i + pack * N];"),
        at="(buffer)[i + pack * N] = values[i]"),
    wrong_count("05.1", "a_pass_too_many", "--variant reversed_second_pass 3x512", "global loads .* bytes",
        ("uncached", "(load, row, cols, update_max); => (load, row, cols, update_max);\n"
                     "  for_each_pack<pack_size, Direction::forward>(load, row, cols, update_max);  // again"),
        at="// again"),
    wrong_result("05.1", "maximum_starts_at_minus_10000", "small_block 7x31 --input lowest",
        "lowest: 217 of 217 elements wrong",
        ("reduce_op", "static constexpr float identity = -INFINITY; => static constexpr float identity = -1e4f;")),
    wrong_count("05.1", "backwards_is_forwards", "", "^large_block and reversed_second_pass: all counters are the same",
        ("for_each_pack", "(direction == Direction::forward ? pack : num_packs - 1 - pack) => pack")),
    wrong_count("05.1", "no_hint_for_the_reads", "",
        "^cache_hints: not so: the last read and the write have cache hints",
        ("uncached", "__ldcs(reinterpret_cast<const decltype(Pack<T, N>::word)*>(source)) => "
                     "*reinterpret_cast<const decltype(Pack<T, N>::word)*>(source)")),
    wrong_result("06.1", "merge_of_two_that_saw_only_inf", "online_per_element 7x31 --input neg_inf_prefix",
        "neg_inf_prefix: .*: got -?nan, expected", ("max_sum", "return fmaxf(max, -FLT_MAX); => return max;")),
    wrong_result("06.1", "to_row_is_not_applied", "fused 2x1024", "of 2048 elements wrong",
        ("06_online/online", "value = Op::finish_part(value, to_row); => value = Op::finish_part(value, 1.0f);")),
    fault("06.1", "a_pack_too_many", "fused 1x1000", "read of 16 bytes of global memory at .*, which nobody has written yet",
        ("06_online/online", "fetched[i] = col < cols ? load => fetched[i] = col <= cols ? load"), at="col <= cols ? load"),
    fault("06.2", "no_barrier_before_pairs_are_merged", "online 1x1000", "read of . bytes of shared memory",
        ("block_merge", "storage[warp] = state;\n  __syncthreads(); => storage[warp] = state;\n"), at="? storage[lane]"),
    fault("06.3", "no_barrier_before_the_next_rows_pairs", "online 7x1000", "race: read of . bytes of shared memory",
        ("block_merge", "  __syncthreads();\n  return state; => \n  return state;"), at="? storage[lane]"),
    wrong_result("06.3", "a_thread_without_an_element", "fused 2x100", "200 of 200 elements wrong.*: got -?nan, expected",
        ("06_online/online", "const float shift = safe_shift(own.max); => const float shift = own.max;")),
    wrong_result("06.3", "the_sum_is_not_rescaled", "online 1x1000", "1000 of 1000 elements wrong",
        ("max_sum", "  total.sum *= __expf(total.max - shift);\n => ")),
    wrong_count("06.4", "results_are_written_twice", "--variant online 3x512", "global loads .* bytes",
        ("06_online/online", "    for_each_pack<pack_size>(load, row, cols, write_result);\n => "
                             "    for_each_pack<pack_size>(load, row, cols, write_result);\n"
                             "    for_each_pack<pack_size>(load, row, cols, write_result);  // again\n"), at="// again"),
    wrong_result("07.1", "every_block_has_the_same_pairs", "two_kernels 7x10000", "first at row 1, column 0",
        ("07_split_row/split_row", "pairs[row * gridDim.x + i]); => pairs[i]);")),
    fault("07.1", "second_kernel_does_not_wait", "dependent_launch 7x10000",
        r"which may not have ended \(griddepcontrol.wait is missing\)",
        ("07_split_row/split_row", "if constexpr (dependence == Dependence::programmatic) cudaGridDependencySynchronize(); => "),
        at="pairs[i]);"),
    fault("07.1", "the_last_part_is_as_wide_as_the_others", "row_exchange 1x9996", "read of 16 bytes of global memory",
        ("07_split_row/split_row", "cols(static_cast<int>(min(part_cols, row_cols - first_col))) => "
                                   "cols(static_cast<int>(part_cols))"), at="fetched[i] = col < cols ? load",
        file="06_online/online"),
    wrong_result("07.1", "slots_are_left_full", "row_exchange 7x9984", "left its workspace other than zero",
        ("07_split_row/split_row", "    mine.store(0, cuda::memory_order_relaxed);  // for => // for")),
    fault("07.2", "waits_for_a_block_that_sends_nothing", "row_exchange 1x10000", "waits for ever",
        ("07_split_row/split_row", "slot(to, blockIdx.x).store => if (to != 0) slot(to, blockIdx.x).store"), at="while (bits == 0)"),
    wrong_result("07.2", "threads_without_a_pair_do_not_know_the_total", "two_kernels 2x10000", "of 20000 elements wrong",
        ("07_split_row/split_row", "    total = block_merge<Op>(total, storage);\n => ")),
    fault("07.3", "slots_of_one_row_serve_all", "row_exchange 7x10000", "waits for ever",
        ("07_split_row/split_row", "slots + row * gridDim.x * gridDim.x => slots"), at="while (bits == 0)"),
    fault("07.3", "every_part_is_the_first", "two_kernels 2x10000", "race: write of 16 bytes of global memory",
        ("07_split_row/split_row", "store{y + part.first_col, shape.cols};\n#if => store{y, shape.cols};\n#if"),
        at="store.template store<pack_size>(values, row, col);"),
    wrong_result("07.4", "the_pair_of_the_first_thread", "two_kernels 1x10000", "of 10000 elements wrong",
        ("07_split_row/split_row", "    pair = block_merge<Op>(pair, storage);\n => ")),
    fault("07.4", "one_place_for_the_pairs_of_all_rows", "two_kernels 2x10000", "race: write of (4|8) bytes of global memory",
        ("07_split_row/split_row", "pairs[row * gridDim.x + blockIdx.x] = pair; => pairs[blockIdx.x] = pair;"),
        at="pairs[blockIdx.x] = pair;"),
    fault("07.4", "pairs_reach_their_own_block_alone", "row_exchange 7x10000", TOO_NARROW,
        ("07_split_row/split_row", "cuda::thread_scope_device => cuda::thread_scope_block")),
    wrong_result("08.1", "tail_is_forgotten", "head_and_tail 2x1001", "[0-9]+ of 2002 elements never written",
        ("08_unaligned_rows/unaligned", "tail = (cols - head) % N; => tail = 0;")),
    wrong_result("08.1", "threads_without_a_single_element_have_a_0", "head_and_tail 2x1000 --input very_negative",
        "2000 of 2000 elements wrong",
        ("08_unaligned_rows/unaligned", ": static_cast<T>(-INFINITY); => : T{};")),
    fault("08.2", "the_cut_of_x_for_y", "head_and_tail 2x1001 --offset 1,2", "misaligned write of 16 bytes",
        ("08_unaligned_rows/unaligned", "if (elements_past_boundary(tensors.x) != elements_past_boundary(tensors.y)) { => if (false) {"),
        at="store_pack(row_y + cut.col_of_pack"),
    wrong_count("08.2", "a_warp_too_many", "--variant head_and_tail --rows 7", "^head_and_tail: (block_barriers|shuffles): ",
        ("08_unaligned_rows/unaligned", "with_fused_block(cols / N * N, => with_fused_block(cols / N * N + 1,"), ALL_BLOCKS),
    fault("08.3", "a_single_element_too_many", "head_and_tail 1x1001",
        "read of 4 bytes of global memory at .*, which nobody has written yet",
        ("08_unaligned_rows/unaligned", "thread < cut.num_singles(); => thread <= cut.num_singles();"), at="has_single ? row_x"),
    fault("08.3", "packs_for_rows_that_they_do_not_cover", "scalar 2x1001", "misaligned read of 16 bytes",
        ("08_unaligned_rows/unaligned", "launch_packs<Op, 1>( => launch_packs<Op, elements_per_16_bytes<T>>(")),
    fault("09.1", "copies_are_not_waited_for", "own_packs 7x10000", ON_ITS_WAY,
        ("own_packs", "  __pipeline_wait_prior(0);\n => "), ALL_BLOCKS, at="unpack(load_pack<N>(slot + pack * N), values);\n    Op::add"),
    fault("09.1", "the_bulk_copy_is_not_waited_for", "bulk_copy 7x1000", ON_ITS_WAY,
        ("bulk_copy", "while (!ptx::mbarrier_try_wait_parity(&arrived, 0)) => while (false)"), ALL_BLOCKS,
        at="unpack(load_pack<N>(slot + pack * N), values);\n    Op::add", file="own_packs"),
    fault("09.2", "the_mbarrier_may_not_be_initialised", "bulk_copy 7x1000", "race: read of 8 bytes of shared memory at .*`arrived`",
        ("bulk_copy", "  __syncthreads();  // No thread => // No thread"), ALL_BLOCKS),
    fault("09.2", "no_group_after_the_last_row", "two_rows 300x1000", ON_ITS_WAY,
        ("own_packs", "    request_row(next_slot, x + next_row * shape.cols, next_row < shape.rows ? num_packs : 0);\n => "
                      "    if (next_row < shape.rows) request_row(next_slot, x + next_row * shape.cols, num_packs);\n"),
        at="unpack(load_pack<N>(slot + pack * N), values);\n    Op::add"),
    fault("09.3", "packs_of_other_threads", "own_packs 7x1000", "read of 16 bytes of shared memory at ",
        ("own_packs", "unpack(load_pack<N>(slot + pack * N), values);\n    Op::add => "
                      "unpack(load_pack<N>(slot + (num_packs - 1 - pack) * N), values);\n    Op::add"), ALL_BLOCKS,
        at="unpack(load_pack<N>(slot + (num_packs"),
    fault("09.4", "no_barrier_before_the_next_rows_pairs", "two_rows 300x1000", "race: (read|write) of . bytes of shared memory",
        ("own_packs", "block_merge<Op>(reduce_packs<Op>(slot, num_packs) => block_merge_once<Op>(reduce_packs<Op>(slot, num_packs)")),
    fault("10.1", "the_others_may_not_have_started", "two_barriers_8 3x2048", NOT_STARTED,
        ("10_cluster/cluster", "    cluster.sync();  // A block => // A block"), at="*cluster.map_shared_rank(&pairs"),
    fault("10.1", "no_wait_for_the_others_mbarriers", "one_way_4 3x2048", NOT_STARTED,
        ("10_cluster/cluster", "    ptx::barrier_cluster_wait();  // All blocks => // All blocks"), at="ptx::st_async("),
    fault("10.2", "the_pairs_have_not_all_been_written", "two_barriers_8 3x2048", "read of .* bytes of shared memory at .*",
        ("10_cluster/cluster", "    cluster.sync();  // All pairs have been written.\n    return warp_merge<Op>(lane => "
                               "    return warp_merge<Op>((lane)"), at="return warp_merge<Op>((lane)"),
    fault("10.2", "the_pairs_are_not_waited_for", "one_way_8 3x2048", "read of .* bytes of shared memory at .*",
        ("10_cluster/cluster", "    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &arrived, 0)) {\n    }\n"
                               "    return warp_merge<Op>(lane => return warp_merge<Op>(+lane"), at="return warp_merge<Op>(+lane"),
    fault("10.3", "copies_are_not_waited_for", "one_way_8 3x2048", ON_ITS_WAY,
        ("10_cluster/cluster", "  __pipeline_wait_prior(0);\n => "),
        at="unpack(load_pack<N>(kept + pack * N), values);\n    Op::add"),
    fault("10.4", "a_block_without_a_part_returns", "two_barriers_8 3x24", "which has returned",
        ("10_cluster/cluster", "shape.cols / N) - first_pack);\n => shape.cols / N) - first_pack);\n  if (num_packs <= 0) return;\n")),
    fault("10.4", "the_slot_of_another_block", "two_barriers_8 3x2048", "race: write of .* bytes of shared memory",
        ("10_cluster/cluster", "*cluster.map_shared_rank(&pairs[cluster.block_rank()] => *cluster.map_shared_rank(&pairs[threadIdx.x]"),
        at="*cluster.map_shared_rank(&pairs"),
    fault("10.4", "the_bytes_of_one_pair_are_expected", "one_way_4 3x2048", "read of .* bytes of shared memory at .*",
        ("10_cluster/cluster", "static_cast<unsigned>(cg::this_cluster().num_blocks() * sizeof(State)); => "
                               "static_cast<unsigned>(sizeof(State));")),
    fault("10.5", "pairs_of_others_are_not_acquired", "one_way_4 3x2048", "a wait of block scope for what another block",
        ("10_cluster/cluster", "ptx::sem_acquire, ptx::scope_cluster => ptx::sem_acquire, ptx::scope_cta")),
    wrong_count("11.1", "a_reduction_for_each_pack", "--variant warp_registers 3x256,1000", "^warp_registers: shuffles: ",
        ("11_backward/in_registers", "  const float sum = warp_all_reduce<SumOp, 32>(sum_of_packs<Op>(y_packs, dy_packs)); => "
                                     "  float sum = 0;\n  for (int i = 0; i < packs; ++i) {\n"
                                     "    float of_pack = 0;\n    add_packs<Op>(of_pack, y_packs[i], dy_packs[i]);\n"
                                     "    sum += warp_all_reduce<SumOp, 32>(of_pack);\n  }")),
    wrong_result("11.1", "the_pair_of_the_first_row", "recomputed 7x1000 --op recomputed_softmax_backward",
        "[0-9]+ of 7000 elements wrong. first at row 1, column",
        ("recomputed", "(pairs[2 * row], pairs[2 * row + 1]) => (pairs[0], pairs[1])")),
    fault("11.2", "a_column_too_many", "block_registers 1x1000",
        "read of 16 bytes of global memory at .*, which nobody has written yet",
        ("11_backward/in_registers", "if (col >= cols) continue; => if (col > cols) continue;"), at="    y_packs[pack] = load_pack<N>"),
    wrong_result("11.4", "the_sum_of_dy_alone", "warp_registers 7x100", "[0-9]+ of 700 elements wrong",
        ("row_gradient", "sum += y[i] * dy[i]; => sum += dy[i];")),
    fault("11.2", "no_barrier_before_the_next_rows_sums", "recomputed 7x1000 --op recomputed_softmax_backward",
        "race: read of 4 bytes of shared memory",
        ("block_merge", "  __syncthreads();\n  return state; => \n  return state;"), at="? storage[lane]"),
    wrong_result("11.3", "a_sum_for_each_lane", "warp_registers 7x100", "[0-9]+ of 700 elements wrong",
        ("11_backward/in_registers", "warp_all_reduce<SumOp, 32>(sum_of_packs<Op>(y_packs, dy_packs)); => "
                                     "sum_of_packs<Op>(y_packs, dy_packs);")),
    wrong_result("11.3", "a_sum_for_each_thread", "block_registers 7x100", "[0-9]+ of 700 elements wrong",
        ("11_backward/in_registers", "block_merge<Op>(sum_of_packs<Op>(y_packs, dy_packs), storage); => "
                                     "sum_of_packs<Op>(y_packs, dy_packs);")),
    fault("11.3", "a_column_too_many", "recomputed 1x1000 --op recomputed_softmax_backward",
        "read of 16 bytes of global memory at .*, which nobody has written yet",
        ("recomputed", "col(pack) < shape.cols ? load => col(pack) <= shape.cols ? load"), at="col(pack) <= shape.cols ? load"),
    fault("12.1", "the_label_is_not_checked", "unfused_gradient 3x10 --op cross_entropy_gradient",
        "read of 4 bytes of global memory at .*, which nobody has written yet",
        ("12_cross_entropy/cross_entropy", "return is_column(label, cols) ? static => return label < cols ? static"), ALL_BLOCKS,
        at="return label < cols ?"),
    wrong_result("12.1", "the_logarithm_beside_the_maximum", "one_read 7x1000 --input lowest",
        "6 of 7 elements wrong. first at row 0, column 0: got 0, expected 6.9",
        ("12_cross_entropy/cross_entropy", "logf(row.sum) + (row.max - x_label); => (logf(row.sum) + row.max) - x_label;")),
    fault("12.1", "another_thread_writes_the_label", "unfused_gradient 7x1000 --op cross_entropy_gradient",
        "race: write of 4 bytes of global memory",
        ("12_cross_entropy/cross_entropy", "static_cast<unsigned>(label / N) % blockDim.x => static_cast<unsigned>(label) % blockDim.x")),
    wrong_result("12.5", "the_gradient_of_an_ignored_row", "in_shared_memory 7x1000 --op cross_entropy_gradient",
        "dx: 1000 of 7000 elements wrong. first at row 2, column 0",
        ("12_cross_entropy/cross_entropy", "  if (label == ignored_label) return 0;\n => "), ALL_BLOCKS),
    wrong_result("12.2", "nan_of_an_ignored_row", "unfused_gradient 7x1000 --op cross_entropy_gradient --input one_nan",
        "dx: [0-9]+ of 7000 elements wrong. first at row 2, column [0-9]+: got -?nan, expected 0",
        ("12_cross_entropy/cross_entropy", "if (label == ignored_label) return 0; => if (label == ignored_label) return 0 * probability;")),
    wrong_result("12.4", "the_label_is_written_once", "in_shared_memory 2x1000 --op cross_entropy_gradient",
        "dx: [12] of 2000 elements wrong",
        ("12_cross_entropy/fused_loss", "if (has_label<N>(label, shape.cols)) dx => if (false) dx")),
    wrong_result("12.3", "the_loss_of_the_first_thread_alone", "in_shared_memory 2x1000 --op cross_entropy_gradient",
        "loss: 2 of 2 elements wrong",
        ("12_cross_entropy/fused_loss", "loss_of_row(total, x_label, label);\n  const RowResult => "
                                        "loss_of_row(reduce_packs<Softmax>(slot, num_packs), x_label, label);\n  const RowResult")),
    fault("12.3", "no_barrier_before_the_next_rows_pairs", "one_read 7x1000", "race: read of . bytes of shared memory",
        ("block_merge", "  __syncthreads();\n  return state; => \n  return state;"), at="? storage[lane]"),
    wrong_result("12.3", "the_label_of_the_first_row", "unfused_gradient 2x1000 --op cross_entropy_gradient",
        "dx: [12] of 2000 elements wrong. first at row 1,",
        ("12_cross_entropy/separate", "    const std::int64_t label = labels[row];\n    const auto write => "
                                      "    const std::int64_t label = labels[0];\n    const auto write")),
    wrong_result("12.4", "an_ignored_row_has_a_loss", "unfused 7x1000",
        "1 of 7 elements wrong. first at row 2, column 0: got -?nan, expected 0",
        ("12_cross_entropy/separate", "label == ignored_label ? 0 : -log_probability => -log_probability")),
    wrong_count("12.4", "every_warp_reads_the_label", "--variant one_read 3x8192", "^one_read: passes: ",
        ("12_cross_entropy/fused_loss", "    if (thread != 0) continue;\n    const std::int64_t label = labels[row];\n => "
                                        "    const std::int64_t label = static_cast<const volatile std::int64_t*>(labels)[row];\n"
                                        "    if (thread != 0) continue;\n")),
    wrong_result("12.2", "the_ends_of_a_row_are_left_out", "one_read 7x1001", "[0-9] of 7 elements wrong",
        ("12_cross_entropy/fused_loss", "if (thread < cut.num_singles()) own => if (false) own")),
    wrong_result("13.1", "a_row_that_sees_nothing_is_stored", "masked_in_a_block 7x100 --op padded_softmax",
        "softmax: 100 of 700 elements wrong. first at row 2, column 0: got nan, expected 0",
        ("masked_load_store", "stored[i] = i < seen ? values[i] : 0; => stored[i] = values[i];"), ALL_BLOCKS),
    wrong_result("13.1", "drawn_by_column_alone", "masked_in_a_block 7x100 --op causal_softmax",
        "y: [0-9]+ of 700 elements wrong. first at row [1-6]",
        ("masked_load_store", "const auto index = static_cast<std::uint64_t>(row * cols + col); => "
                              "const auto index = static_cast<std::uint64_t>(col);"), ALL_BLOCKS),
    wrong_result("13.1", "the_gradient_is_not_scaled", "masked_backward 7x100 --op padded_softmax_backward",
        "[0-9]+ of 700 elements wrong", ("masked_softmax", "Dropout::factor * attention_scale => Dropout::factor")),
    wrong_result("13.2", "a_pack_too_many", "masked_backward 1x1000 --op causal_softmax_backward",
        "wrote 1 bytes past the output's end",
        ("masked_softmax", "const int cols = static_cast<int>(shape.cols); => const int cols = static_cast<int>(shape.cols) + 4;")),
    wrong_result("13.2", "does_not_see_itself", "masked_in_a_block 7x100 --op causal_softmax",
        "softmax: [0-9]+ of 700 elements wrong. first at row 0, column 0: got 0, expected 1",
        ("masked_load_store", "return static_cast<unsigned>(row) % static_cast<unsigned>(cols); => "
                              "return static_cast<unsigned>(row) % static_cast<unsigned>(cols) - 1;"), ALL_BLOCKS),
    wrong_result("13.2", "words_of_a_pack_are_those_of_the_first", "masked_in_a_block 7x100 --op padded_softmax",
        "y: [0-9]+ of 700 elements wrong",
        ("masked_load_store", "const int first = N == 8 ? 0 : static_cast<int>(index % 8); => const int first = 0;"), ALL_BLOCKS),
    wrong_result("13.2", "masked_after_the_softmax", "four_kernels 7x100 --op causal_softmax",
        "softmax: [0-9]+ of 700 elements wrong", ("separate_masked", "mask, -INFINITY}); => mask, 0});"), ALL_BLOCKS),
    wrong_count("13.3", "what_nobody_sees_is_read", "--variant masked_in_a_block --op causal_softmax",
        "global loads .* bytes",
        ("masked_load_store", "if (fetched.seen > 0) fetched.pack = => fetched.pack ="), ALL_BLOCKS, at="fetched.pack = load_pack<N>(x"),
    # The result is right: only what is counted shows that another kernel ran.
    wrong_count("14.1", "rows_are_not_looked_at", "--variant dispatch", r"dispatch: .*, and not ",
        ("dispatch/choice.h", "static_cast<double>(matrix.rows) * => 1e6 *")),
    fault("14.2", "half_a_workspace", "dispatch 3x151936", "write of 8 bytes .* past the end of",
        (DISPATCH, ".bytes = needed.workspace_bytes, => .bytes = needed.workspace_bytes / 2,")),
    fault("14.3", "every_matrix_begins_at_a_pack", "dispatch 40x8192 --offset 1", "misaligned",
        (DISPATCH, "choose<Kernel>(matrix_of(problem), => choose<Kernel>("
                   "[&] { Matrix matrix = matrix_of(problem); matrix.alignment = 16; return matrix; }(),")),
    wrong_result("15.1", "sums_are_not_added_up", "two_all_reduces 3x1000", "of 3000 elements wrong",
        ("two_all_reduces", "all_reduce(sums, is_loss<Op> ? 2 * rows : rows, ncclSum);\n => ")),
    wrong_result("15.1", "pairs_of_the_first_rank_alone", "host_collectives 3x1000", "of 3000 elements wrong",
        ("15_several_gpus/host_collectives", "messages[row_of_rank * pieces + i % pieces].pair => messages[row * pieces + i % pieces].pair")),
    wrong_result("15.1", "what_others_say_is_not_read", "device_exchange 3x4096", "of 12288 elements wrong",
        ("mailbox", "from == mail.rank ? own : mail.wait_for<Op>(from, row, number) => own")),
    fault("15.2", "letters_do_not_reach_other_GPUs", "device_exchange 3x4096", "is not of system scope",
        ("mailbox", "st.relaxed.sys.b128 => st.relaxed.gpu.b128")),
    fault("library.1", "a_pack_too_many", "padded_packs 1x1000",
        "read of 16 bytes of global memory at .*, which nobody has written yet: byte 4000 of",
        ("forward/warp_reduce", "col_of_pack(pack) < cols) => col_of_pack(pack) <= cols)"), at="load.template fetch<"),
    fault("library.1", "mask_names_lanes_that_have_returned", "narrow_groups 1x16",
        "the mask of a shuffle names lanes 4-31, which have ended the kernel",
        ("forward/warp_reduce", "item_of_block() * tile.rows_per_block() + group; => "
                        "item_of_block() * tile.rows_per_block() + group; if (group_row >= rows) return;"),
        at="warp_all_reduce<MaxOp"),
    fault("library.1", "waits_for_a_block_that_sends_nothing", "row_exchange 1x10000", "waits for ever",
        ("row_exchange", "slot(to, blockIdx.x).store => if (to != 0) slot(to, blockIdx.x).store"), at="while (bits == 0)"),
    wrong_result("library.2", "tail_of_the_tile_is_dropped", "scalar_loads 7x1000",
        "56 of 7000 elements never written, 7000 wrong in all. first at row 0, column 0",
        ("forward/warp_reduce", "col_of_pack(pack) < cols) => "
                        "col_of_pack(pack) < cols / (32 * tile.pack_size) * (32 * tile.pack_size))")),
    fault("library.2", "slots_of_one_row_serve_all", "row_exchange 7x10000", "waits for ever",
        ("row_exchange", "slots + row * gridDim.x * gridDim.x => slots"), at="while (bits == 0)"),
    fault("library.2", "sent_before_there_is_a_barrier", "loss_cluster_registers 3x40000 --op cross_entropy",
        "whose mbarrier another thread initialised",
        ("cluster_loss", "  ptx::barrier_cluster_wait();  // until => //"), at="ptx::st_async(cluster.map_shared_rank(place, 0)"),
    fault("library.3", "the_last_part_is_as_wide_as_the_others", "row_exchange 1x9996", "read of 16 bytes of global memory",
        ("forward/split_row", "cols(min(part_cols, row_cols - first_col)) => cols(part_cols)"),
        at="static_cast<int>(part.cols));", file="row_exchange"),
    wrong_result("library.3", "slots_are_left_full", "row_exchange 7x10000", "left its workspace other than zero",
        ("row_exchange", "mine.store(0, cuda::memory_order_relaxed); => ")),
    wrong_result("library.4", "tail_is_forgotten", "head_and_tail 7x1001", "[0-9]+ of 7007 elements never written",
        ("cut", "tail = (count - head) % N; => tail = 0;")),
    fault("library.4", "copies_are_not_waited_for", "flat_span 7x33", "read of 4 bytes of shared memory at .*on its way",
        ("forward/flat_span", "  __pipeline_wait_prior(0); => "),
        at="unpack(all_exist || i < count ? load_pack<N>(part + i)"),
    fault("library.4", "sent_before_the_others_have_started", "cluster_2 3x2048", NOT_STARTED,
        ("cluster_row", "  ptx::barrier_cluster_wait();\n => "), at="result(exchange.merge(own, 0))"),
    fault("library.4", "a_group_is_not_waited_for", "tickets 3x8192", ON_ITS_WAY,
        ("tickets", "__pipeline_wait_prior(copy_groups - 1 - group); => __pipeline_wait_prior(copy_groups - group);"),
        at="unpack(load_pack<N>(kept + pack * N), values);\n        Op::add"),
    fault("library.5", "no_barrier_before_the_span_is_read", "flat_span 64x33", "read of 4 bytes of shared memory",
        ("forward/flat_span", "thread, threads, reads);\n    __syncthreads();\n\n => thread, threads, reads);\n\n"),
        at="unpack(all_exist || i < count ? load_pack<N>(part + i)"),
    fault("library.5", "no_barrier_before_the_next_row", "row_in_flight 7x1001 --offset 1,2",
        "race: write of (4|16) bytes of shared memory",
        ("row_in_flight", "__syncthreads();  // the next row is copied over this one => // the next row is"),
        at="copy_async(kept"),
    fault("library.5", "the_pairs_are_not_waited_for", "cluster_2 3x2048", "read of .* bytes of shared memory at .*",
        ("cluster_exchange", "      wait_for_cluster(&received[turn], round / 2 % 2);\n => "),
        at="own = warp_merge<Op>(lane < cluster.num_blocks()"),
    fault("library.5", "another_parity_is_waited_for", "registers 3x4096", "read of 8 bytes of shared memory at .*",
        ("cluster_registers", "wait_for_cluster(&received, 0); => wait_for_cluster(&received, 1);"),
        at="total = Op::merge(total, pairs[i]);"),
    fault("library.6", "no_barrier_before_the_results", "flat_span 64x33 --offset 1,2",
        "race: (read|write) of 4 bytes of shared memory",
        ("forward/flat_span", "__syncthreads();  // and all have read => "
                              "// and all have read"), at="if (all_exist || i < count) store_pack(part + i"),
    fault("library.6", "no_barrier_before_the_results_leave", "flat_span 64x33", "race: read of 16 bytes of shared memory",
        ("forward/flat_span", "    __syncthreads();\n    copy_out => \n    copy_out"),
        at="store_pack(global + cut.col_of_pack(pack)"),
    wrong_result("library.6", "half_of_the_pairs", "registers 3x4096", "",
        ("cluster_registers", "i < num_pairs; i += 32 => i < num_pairs / 2; i += 32")),
    fault("library.6", "what_follows_the_last_pack", "unaligned_cluster 3x1001", "read of 4 bytes of shared memory at ",
        ("forward/unaligned_cluster", "if (thread < in.num_singles()) => if (thread < in.head)"),
        at="write(single, out.col_of_single(thread))"),
    fault("library.6", "one_inbox_for_all_rows", "tickets 300x2048", "asynchronous store",
        ("cluster_exchange", "send_to_all(&pairs[turn][cluster.block_rank()] => send_to_all(&pairs[0][cluster.block_rank()]"),
        ("cluster_exchange", "? pairs[turn][lane] => ? pairs[0][lane]"), at="ptx::st_async("),
    fault("library.7", "a_sum_of_0_is_no_sum", "backward_row_exchange 1x10000 --input neg_inf_prefix --op softmax_backward",
        "waits for ever",
        ("exchange_gradient", "block_storage), 1}; => block_storage), 0};"),
        ("row_exchange", "// for the next launch => // again"), at="while (bits == 0)", file="row_exchange"),
    fault("library.7", "a_group_is_not_waited_for", "backward_shared_memory 7x8192 --op softmax_backward", ON_ITS_WAY,
        ("in_shared_memory", "__pipeline_wait_prior(copy_groups - 1 - group); => __pipeline_wait_prior(copy_groups - group);"),
        at="sum, load_pack<N>(kept_y + pack * N), load_pack<N>(kept_dy + pack * N));\n      });\n    }"),
    fault("library.7", "sent_before_the_others_have_started", "backward_cluster 3x2048 --op softmax_backward", NOT_STARTED,
        ("backward/in_cluster", "  ptx::barrier_cluster_wait();\n => "), at="sum = exchange.merge(sum, 0);"),
    fault("library.7", "no_barrier_before_the_sum", "backward_unaligned 7x1001 --offset 1,2 --op softmax_backward",
        "read of .* bytes of shared memory",
        ("backward/unaligned", "    __pipeline_wait_prior(0);\n    __syncthreads();\n =>     __pipeline_wait_prior(0);\n"),
        ("row_in_flight", "= static_cast<float>(address[i]); => = float(address[i]);"), at="= float(address[i]);", file="row_in_flight"),
    wrong_result("library.7", "single_elements_do_not_count", "backward_head_and_tail 7x1001 --op softmax_backward",
        "[0-9]+ of 7007 elements wrong",
        ("backward/head_and_tail", "    add_packs<Op>(sum, y_single, dy_single);\n => ")),
    wrong_result("library.7", "the_sum_of_the_first_part", "backward_flat_span 40x129 --op softmax_backward",
        "[0-9]+ of 5160 elements wrong",
        ("backward/flat_span", "sums[part * rows_of_block + row]); => sums[row]);")),
    wrong_result("library.7", "every_block_has_the_same_sums", "backward_two_kernels 7x10000 --op softmax_backward",
        "first at row 1, column 0",
        ("split_gradient", "sums[row * gridDim.x + i]); => sums[i]);")),
    fault("library.8", "no_barrier_before_the_next_rows", "backward_unaligned 7x1001 --offset 1,2 --op softmax_backward",
        "race: write of (4|16) bytes of shared memory",
        ("backward/unaligned", "__syncthreads();  // the next rows are copied over these => // the next rows are"),
        at="copy_async(kept"),
    fault("library.8", "no_barrier_before_the_gradients_leave", "backward_flat_span 64x33 --op softmax_backward",
        "race: read of 16 bytes of shared memory",
        ("backward/flat_span", "    __syncthreads();\n    copy_out => \n    copy_out"), at="copy_out(dx + first, span_of_dy"),
    fault("library.8", "pairs_reach_their_own_block_alone", "row_exchange 7x10000", TOO_NARROW,
        ("forward/row_exchange", "cuda::thread_scope_device => cuda::thread_scope_block")),
    fault("library.8", "pairs_of_others_are_not_acquired", "cluster_2 3x2048", "a wait of block scope for what another block",
        ("cluster_exchange", "ptx::sem_acquire, ptx::scope_cluster => ptx::sem_acquire, ptx::scope_cta")),
    wrong_result("library.8", "the_tail_is_forgotten", "backward_unaligned 2x1001 --op softmax_backward",
        "[0-9]+ of 2002 elements never written",
        ("cut", "tail = (count - head) % N; => tail = 0;")),
    fault("library.8", "a_column_too_many", "backward_block_registers 1x1000 --op softmax_backward",
        "read of 16 bytes of global memory at .*, which nobody has written yet",
        ("backward/in_registers", "const auto exists = [&](int pack) { return col(pack) < shape.cols; }; => "
                                  "const auto exists = [&](int pack) { return col(pack) <= shape.cols; };"),
        at="if (!exists(pack)) continue;\n      y_packs[pack] = load_pack<N>(y + first + col(pack));\n"
           "      dy_packs[pack] = load_pack<N>(dy + first + col(pack));\n    }\n\n    typename"),
    fault("library.9", "one_storage_for_all_rows", "loss_drawn_rows 7x1000 --op cross_entropy",
        "race: (read|write) of 4 bytes of shared memory",
        ("loss", "storage[parity]); => storage[0]);"), at="storage[0]);"),
    fault("library.9", "a_group_is_not_waited_for", "gradient_kept_row 7x8192 --op cross_entropy_gradient", ON_ITS_WAY,
        ("kept_row", "__pipeline_wait_prior(copy_groups - 1 - group); => __pipeline_wait_prior(copy_groups - group);"),
        at="unpack(load_pack<N>(kept_ + cut_.col_of_pack(pack)), values);"),
    wrong_result("library.9", "a_line_leaves_more_single_elements_than_threads", "loss_cluster_registers 7x1025 --op cross_entropy",
        "elements wrong", ("cluster_loss", "blockDim.x < 96 ? 16 : line_bytes => line_bytes")),
    wrong_result("library.10", "an_ignored_row_is_multiplied_by_0",
        "loss_narrow_rows 7x10 --input one_pos_inf --op cross_entropy_gradient",
        "elements wrong", ("narrow_rows", "if (label == ignored_label) { => if (false) {")),
    fault("library.10", "lanes_without_a_row_leave_the_others", "loss_narrow_rows 3x64 --op cross_entropy_gradient",
        "the mask of a shuffle names lanes 16-31, which have ended the kernel",
        ("narrow_rows", "- threadIdx.x % 32 / tile.group_width < rows; => "
                        "- (tile.group_width == 16 ? 0 : threadIdx.x % 32 / tile.group_width) < rows;")),
    fault("library.10", "the_next_row_begins_where_this_one_does", "loss_drawn_rows 7x1001 --op cross_entropy",
        "misaligned read of 16 bytes",
        ("loss", "        ahead_cut = cut_of(ahead_x, next);\n => "), at="ahead.fetch(ahead_x, ahead_cut, is_last"),
    wrong_result("library.10", "shifts_are_rounded_however_large", "loss_one_read 7x1000 --input lowest --op cross_entropy",
        "6 of 7 elements wrong",
        ("running_pair", "return fabsf(max) < 0x1p30f; => return max > -1e38f;")),
    fault("library.10", "no_barrier_before_the_next_row", "gradient_kept_row 7x1001 --offset 1,2 --op cross_entropy_gradient",
        "race: write of (4|16) bytes of shared memory",
        ("kept_row", "__syncthreads();  // the next row is copied over this one => // the next row is"),
        ("row_in_flight", "= static_cast<float>(address[i]); => = float(address[i]);"), at="copy_async(kept",
        file="row_in_flight"),
    fault("library.10", "warps_of_all_blocks_send_to_one_place", "loss_cluster_loss 3x10000 --op cross_entropy",
        "into which another one is on its way",
        ("cluster_loss", "&states[cluster.block_rank() * warps + warp] => &states[warp]"),
        at="ptx::st_async(cluster.map_shared_rank(place, 0)"),
    wrong_result("library.10", "every_row_has_the_same_pairs", "loss_split_row 7x10000 --op cross_entropy", "first at row 1, column 0",
        ("split_loss", "states[row * parts + i]); => states[i]);")),
    fault("library.10", "a_block_behind_the_label_writes_the_loss", "gradient_unaligned_cluster 3x1001 --op cross_entropy_gradient",
        "race: write of 4 bytes of global memory",
        ("loss/unaligned_cluster", "0 <= label_here && label_here < cols : => label_here < cols :"),
        at="loss[row] = loss_of_row<Op>"),
    wrong_result("library.11", "the_label_is_of_the_first_part", "loss_flat_span 40x129 --op cross_entropy_gradient",
        "of 40 elements never written",
        ("span_loss", "has_label = first_col <= label && label < min(first_col + most_cols, cols); => "
                      "has_label = label < min(most_cols, cols) && first_col == 0 && label >= 0;")),
    wrong_result("library.11", "tickets_are_not_reset", "loss_drawn_rows 7x1000 --op cross_entropy", "left its workspace other than zero",
        ("async_copy", "atomicInc(counter, static_cast<unsigned>(count - 1)) => atomicAdd(counter, 1u)")),
    fault("library.11", "sent_before_the_others_have_started", "gradient_unaligned_cluster 3x2048 --op cross_entropy_gradient", NOT_STARTED,
        ("loss/unaligned_cluster", "  ptx::barrier_cluster_wait();\n => "), at="exchange.merge(own, 0)"),
    wrong_result("library.11", "packs_that_are_left_over_are_not_added", "loss_cluster_registers 3x10000 --op cross_entropy",
        "2 of 3 elements wrong",
        ("cluster_loss", "if constexpr (left_over > 0) => if constexpr (false)")),
    wrong_result("library.11", "elements_after_the_packs_are_left_out", "loss_narrow_rows 7x1001 --op cross_entropy", "elements wrong",
        ("lane_of_row", "return has_row_ && col_of_single(i) < cols_; => return has_row_ && col_of_single(i) < first_of_packs_;")),
    wrong_result("library.11", "half_of_the_lanes_are_merged", "loss_narrow_rows 7x10 --op cross_entropy_gradient",
        "elements wrong",
        ("narrow_rows", "sum = warp_all_reduce<SumOp, tile.group_width>(sum); => "
                        "sum = warp_all_reduce<SumOp, (tile.group_width + 1) / 2>(sum);")),
    fault("library.12", "no_barrier_before_the_gradients_leave", "loss_flat_span 64x33 --op cross_entropy_gradient",
        "race: read of 16 bytes of shared memory",
        ("span_loss", "      __syncthreads();\n      copy_out => \n      copy_out"), at="copy_out(span_dx, place_in(buffer, span_dx)"),
    fault("library.12", "rows_behind_the_last_one", "loss_narrow_rows 3x10 --op cross_entropy", "read of 8 bytes of global memory",
        ("lane_of_row", "return has_row_ && col(pack) < end_of_packs_; => return col(pack) < end_of_packs_;"),
        ("narrow_rows", "// Missing elements are -inf: they add => // Missing elements are -inf: they do not add"),
        at="packs[i] = exists(i) ? load_pack<N>(row_x + Lane::col(i))", file="narrow_rows"),
    fault("library.12", "the_label_is_not_checked", "loss_one_read 3x10 --op cross_entropy",
        "read of 4 bytes of global memory at .*, which nobody has written yet",
        ("row_loss", "if (exists_) element_ = load_pack<1>(row + col); => element_ = load_pack<1>(row + col);"),
        at="element_ = load_pack<1>(row + col);"),
    wrong_result("library.12", "the_logarithm_beside_the_maximum", "loss_one_read 7x1000 --input lowest --op cross_entropy",
        "6 of 7 elements wrong. first at row 0, column 0: got 0, expected 6.9",
        ("row_loss", "log_of_sum(row.sum) + (row.max - x_label); => (log_of_sum(row.sum) + row.max) - x_label;")),
    wrong_result("library.13", "not_the_first_column_of_a_pack", "gradient_kept_row 7x1000 --op cross_entropy_gradient",
        "dx: [1-6] of 7000 elements wrong. first at row [01], column [0-9]+: got [0-9.e-]+, expected -0.99",
        ("row_loss", "(label_ < col || => (label_ <= col ||")),
    wrong_result("library.11", "nan_of_an_ignored_row", "gradient_kept_row 7x1000 --op cross_entropy_gradient --input one_nan",
        "dx: [0-9]+ of 7000 elements wrong. first at row 2, column [0-9]+: got -?nan, expected 0",
        ("row_loss", "is_ignored_ ? 0 : __expf => is_ignored_ ? 0 * value : __expf")),
    wrong_result("library.13", "the_series_reaches_too_far", "loss_one_read 7x3 --op cross_entropy",
        "[1-7] of 7 elements wrong. first at row [0-6], column 0: got [0-9.]+, expected [0-9.]+",
        ("row_loss", "rest < 0x1p-5f ? => rest < 2 ?")),
    wrong_result("library.12", "below_the_maximum_of_a_thread", "gradient_in_registers 7x1001 --op cross_entropy_gradient",
        "elements wrong",
        ("loss/in_registers", "gradient(state, label, cols, shift); => gradient(state, label, cols);")),
]  # fmt: skip

STAGES = [main.parent.name for main in sorted(SOURCE.glob("[0-9][0-9]_*/main.cu"))]
# Without mistakes: all is well with small grids. Stage 14 has the kernels of the library.
GROUPS: dict[str, list[Mistake]] = {stage: [] for stage in (*STAGES, LIBRARY) if stage != "14_dispatch"}
for _mistake in MISTAKES:
    _stage, _, _part = _mistake.group.partition(".")
    _name = next(stage for stage in (*STAGES, LIBRARY) if stage.startswith(_stage))
    GROUPS.setdefault(f"{_name}_{_part}", []).append(_mistake)


def main_of(stage: str) -> str:
    return MAIN_OF.get(stage, f"{stage}/main.cu")


def changed_files(stage: str, mistakes: list[Mistake]) -> dict[str, str]:
    """The text of each file that the group changes."""
    stages = (stage, TAKES_FROM.get(stage, stage))
    changes = [(source_of(end), change) for end, change in COMMON]
    changes = [(file, change) for file, change in changes if not file[0].isdigit() or file.startswith(stages)]
    changes += [(source_of(end), change) for mistake in mistakes for end, change in mistake.changes]
    texts: dict[str, str] = {}
    for file, change in dict.fromkeys(changes):
        old, new = change.split(" => ")
        text = texts.get(file) or (SOURCE / file).read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise Failure(f"{file} has this text {text.count(old)} times, and not once as a mistake expects: {old!r}")
        texts[file] = text.replace(old, new)
    main = main_of(stage)
    if mistakes and all(mistake.variants for mistake in mistakes):
        text = texts.get(main) or (SOURCE / main).read_text(encoding="utf-8")
        texts[main] = with_variants(text, {name for mistake in mistakes for name in mistake.variants})
    return texts


def with_variants(main: str, names: set[str]) -> str:
    """The text of a main.cu without the other variants, which then need not be compiled."""
    kept, begin, rest = main.partition("variant<")
    rest = begin + rest
    while "variant<" in rest:
        rest = rest[rest.index("variant<") :]
        end, depth = rest.index("("), 1
        while depth:
            end += 1
            depth += {"(": 1, ")": -1}.get(rest[end], 0)
        entry, rest = rest[: end + 1], rest[end + 1 :].removeprefix(",")
        if re.findall(r'"(\w+)"', entry)[0] in names:
            kept += entry + ",\n"
    return kept + rest


def is_up_to_date(executable: Path, *inputs: Path) -> bool:
    """What is built is newer than all that it may have been built from."""
    newest = max(path.stat().st_mtime for path in (*(SOURCE / source for source in SOURCES), *inputs))
    return executable.exists() and executable.stat().st_mtime > newest


def compile_with(command: list[object], folder: Path) -> None:
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise Failure(f"exit code {done.returncode}: {shlex.join(words)}\n{done.stdout}")


def build_executable(build: Path, name: str, stage: str, changed: dict[str, str], *others: Path, header: Path | None = None) -> Path:
    """The stage with changed files, which may all include a header first, in BUILD/mutants/NAME. It is made again if one of the
    `others` is newer."""
    folder = build / "mutants" / name
    # What the mistakes of an earlier build changed is nobody's source any more.
    for path in (folder / "changed").rglob("*.*"):
        if path.relative_to(folder / "changed").as_posix() not in changed:
            path.unlink()
    for file, text in changed.items():
        path = folder / "changed" / file
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    main = SOURCE / main_of(stage)  # its quoted names are looked for in the changed files first
    # The library's objects are taken as they are built: no mistake is in them.
    objects = build / "CMakeFiles"
    library = build / "common/rowwise/CMakeFiles/rowwise_objects.dir/dispatch"
    dispatch = [path for path in sorted((SOURCE / CHOICE).parent.glob("*.c*")) if path.suffix in (".cu", ".cpp")]
    parts = [library / f"{path.name}.o" for path in dispatch] if stage == Path(DISPATCH).parent.name else []
    if stage == SEVERAL_GPUS:
        parts = [objects / f"{stage}.dir" / stage / "main.cu.o", build / "simulator/libnccl.so"]
    database = build / "compile_commands.json"
    commands = json.loads(database.read_text(encoding="utf-8"))
    like = SOURCE / COMPILED_LIKE.get(stage, main_of(stage))
    command = shlex.split(next(entry["command"] for entry in commands if Path(entry["file"]) == like))
    executable, object_file, harness = folder / stage, folder / "main.o", (build / "libharness.a", build / "libharness_core.a")
    if is_up_to_date(executable, main, *harness, database, Path(__file__), *others, *parts, *filter(None, [header])):
        return executable

    # The stage's own command, but for another output, PTX alone, no warning an error, and the changed files first.
    command = command[: command.index("-o")]
    command = [word for word in command if not re.match("--generate-code|-gencode|--Werror|-Xcompiler=-Werror$", word)]
    changed_main = folder / "changed" / main_of(stage)
    command = [str(changed_main if changed_main.exists() else main) if word == str(like) else word for word in command]
    options = next(i for i, word in enumerate(command) if word.startswith("-"))
    command[options:options] = ["-I" + str(folder / "changed"), "--generate-code=arch=compute_90,code=compute_90"]
    command[options:options] = ["-include", str(header)] * bool(header)
    executable.unlink(missing_ok=True)
    compile_with([*command, "-o", object_file], build)
    compiler = [*command[:options], *(word for word in command if word.startswith("-ccbin"))]
    compile_with([*compiler, "-cudart", "shared", object_file, *parts, *harness, "-ldl", "-o", executable], build)
    return executable


def caught(mistake: Mistake, executable: Path) -> str:
    """The lines that name the mistake; raises Failure where the suite would not have seen it."""
    if mistake.counted:
        command = [sys.executable, str(SOURCE / "common/tests/counts.py"), str(executable), "--dtype", "f32"]
    else:
        command = [str(executable), "--device", "sim", "--verify-only", "--variant"]
    command += mistake.options
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if mistake.counted and done.returncode == 3:  # another nvcc made what the recorded counts are of
        print(done.stdout)
        sys.exit(3)
    wanted = [mistake.says]
    if mistake.at:
        file = source_of(mistake.file)
        changed = executable.parent / "changed" / file
        before, *others = (changed if changed.exists() else SOURCE / file).read_text(encoding="utf-8").split(mistake.at)
        if len(others) != 1:
            raise Failure(f"{mistake.name}: {file} has the text of the place {len(others)} times, not once")
        place = f"(at|from) .*{file}:{before.count(chr(10)) + 1}( |$)"
        wanted = [f"{mistake.says}.*{place}"] if mistake.counted else [mistake.says, place]
    lines = [next((line for line in done.stdout.splitlines() if re.search(regex, line)), None) for regex in wanted]
    if done.returncode != mistake.code or None in lines:
        raise Failure(f"{mistake.name}: exit code {done.returncode}, expected {mistake.code} and lines that match\n"
                      + "\n".join(wanted) + f"\n--- but printed was\n{done.stdout}---")  # fmt: skip
    return "; ".join(line.strip() for line in lines)


def check(build: Path, name: str) -> str:
    stage = re.sub(r"_\d+$", "", name)
    executable = build_executable(build, name, stage, changed_files(stage, GROUPS[name]))
    # As seen from here: the loader splits at colons, which the path of a checkout may have.
    if stage == SEVERAL_GPUS:
        os.environ["SIM_DEVICES"] = "2"
    os.environ["LD_LIBRARY_PATH"] = f"{os.path.relpath(build / 'simulator')}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    if not GROUPS[name]:
        options = "--device sim --verify-only --rows 1,2,7,100 --cols 1,31,128,1000,2501 --input normal,neg_inf_prefix"
        options += MORE_OPTIONS.get(stage, "")
        try:
            return f"{len(check_stage.verify([str(executable), *options.split(), '--format', 'csv'])[0])} verified"
        except Failure as failure:
            why = "These grids have at most two blocks (max_grid_blocks of grid.cuh), so a block has to do several rows"
            raise Failure(f"{failure}\n{why}") from None
    return "\n".join(f"{mistake.name}: {caught(mistake, executable)}" for mistake in GROUPS[name])


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print(*GROUPS, sep=";", end="")
    else:
        sys.exit(check_stage.print_or_fail(lambda: check(Path(sys.argv[1]).resolve(), sys.argv[2])))
