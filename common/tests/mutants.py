#!/usr/bin/env python3
"""Stages with mistakes in them. The suite's own checks must catch each on a machine without a GPU, with a message that
says where it is. liars.cu tests the harness; this tests what the suite does to the stages.

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


# A file, and what of it becomes what: "text => other", where the text is there exactly once.
Change = tuple[str, str]


@dataclass(frozen=True)
class Mistake:
    name: str
    run: str  # the variant and the options that show it
    says: str  # a regular expression for a line of what is printed
    changes: tuple[Change, ...]
    code: int
    at: str | None = None  # a line of what is printed names the place of this text, as changed, ...
    file: str = ""  # ... in this file
    counted: bool = False  # shown by counts.py, not by verification


def fault(name: str, run: str, says: str, *changes: Change, at: str | None = None, file: str = "") -> Mistake:
    """The simulator stops the kernel, where it names a line at that of `file` (where the first change is) that has the text `at`."""
    return Mistake(name, run, "simulator: .*" + says, changes, 4, at, file or changes[0][0])


def wrong_result(name: str, run: str, says: str, *changes: Change) -> Mistake:
    return Mistake(name, run, f"WRONG  {run.split()[0]}, .*{says}", changes, 1)


def wrong_count(name: str, run: str, says: str, *changes: Change, at: str | None = None) -> Mistake:
    """counts.py fails, and `says` is in the line of what it prints that names the line of `at`."""
    return Mistake(name, run, says, changes, 1, at, changes[0][0], counted=True)


DTYPE = "common/harness/dtype.cuh"
GRID = "common/kernel/grid.cuh"
PACK = "common/kernel/pack.cuh"
NAIVE = "01_naive/naive.cuh"
THRUST = "01_naive/thrust_calls.cuh"
REDUCE = "02_fused_block/block_reduce.cuh"
FUSED = "02_fused_block/fused_block.cuh"
WARP = "common/rowwise/kernels/forward/warp_reduce.cuh"
SMEM = "04_smem_bank_conflict/smem.cuh"
UNCACHED = "05_uncached/uncached.cuh"
WALK = "common/kernel/for_each_pack.cuh"
SPLIT = "common/rowwise/kernels/forward/split_row.cuh"
EXCHANGE = "common/rowwise/kernels/forward/row_exchange.cuh"
CUT = "common/rowwise/kernels/forward/cut.cuh"
SPAN = "common/rowwise/kernels/forward/flat_span.cuh"
FLIGHT = "common/rowwise/kernels/forward/row_in_flight.cuh"
PACKS = "09_async_copy/own_packs.cuh"
BULK = "09_async_copy/bulk_copy.cuh"
ASYNC = "common/kernel/async_copy.cuh"
CLUSTER = "common/kernel/cluster_exchange.cuh"
CLUSTER_ROW = "common/rowwise/kernels/forward/cluster_row.cuh"
CLUSTER_REGISTERS = "common/rowwise/kernels/forward/cluster_registers.cuh"
TICKETS = "common/rowwise/kernels/forward/tickets.cuh"
UNALIGNED_CLUSTER = "common/rowwise/kernels/forward/unaligned_cluster.cuh"
GRADIENT = "common/kernel/row_gradient.cuh"
IN_REGISTERS = "common/rowwise/kernels/backward/in_registers.cuh"
LANE_OF_ROW = "common/rowwise/kernels/backward/lane_of_row.cuh"
IN_SHARED = "common/rowwise/kernels/backward/in_shared_memory.cuh"
IN_CLUSTER = "common/rowwise/kernels/backward/in_cluster.cuh"
SPLIT_GRADIENT = "common/rowwise/kernels/backward/split_gradient.cuh"
EXCHANGE_GRADIENT = "common/rowwise/kernels/backward/exchange_gradient.cuh"
UNALIGNED = "common/rowwise/kernels/backward/unaligned.cuh"
RECOMPUTED = "11_backward/recomputed.cuh"
SPAN_GRADIENT = "common/rowwise/kernels/backward/flat_span.cuh"
ROW_LOSS = "common/kernel/row_loss.cuh"
LOSS = "common/rowwise/kernels/loss/loss.cuh"
KEPT_ROW = "common/rowwise/kernels/loss/kept_row.cuh"
CLUSTER_LOSS = "common/rowwise/kernels/loss/cluster_loss.cuh"
LOSS_OF_ANY_WIDTH = "common/rowwise/kernels/loss/unaligned_cluster.cuh"
NARROW_ROWS = "common/rowwise/kernels/loss/narrow_rows.cuh"
SPAN_LOSS = "common/rowwise/kernels/loss/span_loss.cuh"
MASKED = "13_masked_softmax/masked_load_store.cuh"
MASKED_SOFTMAX = "13_masked_softmax/masked_softmax.cuh"
CHOICE = "common/rowwise/dispatch/choice.h"
DISPATCH = "14_dispatch/main.cu"
OPERATION = "common/kernel/row_operation.cuh"
REDUCE_OP = "common/kernel/reduce_op.cuh"
MAX_SUM = "common/kernel/max_sum.cuh"
MERGE = "common/kernel/block_merge.cuh"

# What all groups have in common; those in a stage's folder for that stage alone.
COMMON = (
    (DTYPE, "if (dtype == DType::f16) return function.template operator()<__half>(); => "),
    (DTYPE, "if (dtype == DType::bf16) return function.template operator()<__nv_bfloat16>(); => "),
    (OPERATION, "OpList<Softmax, LogSoftmax>; => OpList<Softmax>;"),
    (GRID, "max_grid_blocks = 0x7fffffff; => max_grid_blocks = 2;"),
    (SPLIT, "max_grid_rows = 65535; => max_grid_rows = 2;"),
    (GRADIENT, "OpList<SoftmaxBackward, LogSoftmaxBackward>; => OpList<SoftmaxBackward>;"),
    (ROW_LOSS, "Losses = OpList<CrossEntropy, SmoothedCrossEntropy>; => Losses = OpList<CrossEntropy>;"),
    (ROW_LOSS, "OpList<WithGradient<CrossEntropy>, WithGradient<SmoothedCrossEntropy>>; => OpList<WithGradient<CrossEntropy>>;"),
    (ROW_LOSS, "LossesAndGradients = OpList<CrossEntropy, SmoothedCrossEntropy, WithGradient<CrossEntropy>,\n"
               "                                  WithGradient<SmoothedCrossEntropy>>; => "
               "LossesAndGradients = OpList<CrossEntropy, WithGradient<CrossEntropy>>;"),
    # Without Thrust.
    (THRUST, "const auto policy = thrust::cuda => "
             "if constexpr (true) return;\n  else {\n  const auto policy = thrust::cuda"),
    (THRUST, "y, Divide<T>{});\n  } => y, Divide<T>{});\n  }\n  }"),
)  # fmt: skip
# Stage 15 has its kernels in another file than main.cu, and needs two devices and NCCL's library.
SEVERAL_GPUS = "15_several_gpus"
# Whose kernels' constants a stage takes.
TAKES_FROM = {"11_backward": "07_split_row", "12_cross_entropy": "07_split_row", SEVERAL_GPUS: "07_split_row"}
# What a stage does in a group's run if it is not all the same.
MORE_OPTIONS = {
    "01_naive": " --variant thread_per_row,block_per_row,block_per_row_division",  # Thrust is not there
    "11_backward": " --op softmax_backward,recomputed_softmax_backward",
    "12_cross_entropy": " --op cross_entropy,cross_entropy_gradient",
    "13_masked_softmax": " --op causal_softmax,causal_softmax_backward,padded_softmax,padded_softmax_backward",
}

# By stage, and numbered where a stage has several. Without mistakes: all is well with small grids.
GROUPS: dict[str, list[Mistake]] = {
    # Stage 14 has the kernels of the others.
    **{main.parent.name: [] for main in sorted(SOURCE.glob("[0-9][0-9]_*/main.cu")) if main.parent.name != "14_dispatch"},
    "01_naive_1": [
        fault("no_barrier_before_the_next_row", "block_per_row --rows 7 --cols 1000",
            "race: write of 4 bytes of shared memory",
            (NAIVE, "__syncthreads();  // the storage is used again => // the storage is used again"),
            at="BlockReduce(storage).Reduce"),
        fault("a_column_too_many", "thread_per_row --rows 1 --cols 1000",
            "read of 4 bytes of global memory at .*, which nobody has written yet: element 1000 of",
            (NAIVE, "col < min(chunk + chunk_cols, shape.cols); ++col => "
                    "col < min(chunk + chunk_cols, shape.cols + 1); ++col"),
            at="chunk_value = ReduceOp{}(chunk_value,"),
    ],
    "01_naive_2": [
        wrong_count("no_division_for_every_element", "--variant block_per_row,block_per_row_division",
            "^block_per_row_division: not so: a division for every element",
            (NAIVE, "division == Division::per_element ? exp / sum : exp * reciprocal => exp * reciprocal")),
    ],
    "02_fused_block_1": [
        fault("no_barrier_between_steps_of_the_tree", "shared_memory_tree --rows 1 --cols 1000",
            "race: read of 4 bytes of shared memory", (REDUCE, "      }\n      __syncthreads(); =>       }\n"),
            at="storage.values[threadIdx.x + stride]);"),
        fault("no_barrier_before_warp_results_are_read", "warp_then_shared --rows 1 --cols 1000",
            "read of 4 bytes of shared memory at byte .*, which nobody has written yet",
            (REDUCE, "storage.warp_results[warp] = value;\n    __syncthreads(); => "
                     "storage.warp_results[warp] = value;\n"), at="(storage.warp_results[lane]"),
    ],
    "02_fused_block_2": [
        fault("mask_names_lanes_that_a_block_of_112_lacks", "warp_then_shared_112 --rows 1 --cols 1000",
            "the mask of a shuffle names lanes 16-31, which the block does not have",
            (REDUCE, "num_lanes == warp_size ? 0xffffffffu : (1u << num_lanes) - 1; => 0xffffffffu;"),
            at="__shfl_down_sync("),
        wrong_result("maximum_starts_at_0", "cub_block_reduce --rows 7 --cols 1000 --input very_negative",
            "very_negative: .*first at row 0, column 0: got -?(nan|inf), expected 0.00",
            (FUSED, "float max = MaxOp::identity; => float max = 0;")),
    ],
    "02_fused_block_3": [
        wrong_count("a_block_for_every_row", "",
            "^fastertransformer_block_per_row: not so: a block loops over a head's rows",
            (FUSED, "LaunchShape::block_per_head ? tensors.shape.cols : 1 => LaunchShape::block_per_head ? 1 : 1")),
        wrong_count("a_barrier_too_many_for_narrow_rows", "", "block barriers .*",
            (FUSED, "const RowResult<Op> result(max, sum); => if (cols < 100) __syncthreads();  // for nothing\n"
                    "    const RowResult<Op> result(max, sum);"), at="// for nothing"),
    ],
    "03_warp_reduce_1": [
        fault("a_pack_too_many", "padded_packs --rows 1 --cols 1000",
            "read of 16 bytes of global memory at .*, which nobody has written yet: byte 4000 of",
            (WARP, "col_of_pack(pack) < cols) => col_of_pack(pack) <= cols)"), at="load.template fetch<"),
        fault("mask_names_lanes_that_have_returned", "narrow_groups --rows 1 --cols 16",
            "the mask of a shuffle names lanes 4-31, which have ended the kernel",
            (WARP, "item_of_block() * tile.rows_per_block() + group; => "
                   "item_of_block() * tile.rows_per_block() + group; if (group_row >= rows) return;"),
            at="warp_all_reduce<MaxOp"),
    ],
    "03_warp_reduce_2": [
        wrong_result("tail_of_the_tile_is_dropped", "scalar_loads --rows 7 --cols 1000",
            "56 of 7000 elements never written, 7000 wrong in all. first at row 0, column 0",
            (WARP, "col_of_pack(pack) < cols) => "
                   "col_of_pack(pack) < cols / (32 * tile.pack_size) * (32 * tile.pack_size))")),
        fault("packs_that_do_not_cover_the_rows", "padded_packs --rows 7 --cols 1001", "misaligned read of 16 bytes",
            (PACK, "cols % N == 0 &&  => cols > 0 && "), at="load.template fetch<", file=WARP),
    ],
    "03_warp_reduce_3": [
        wrong_count("no_tiles_for_the_narrowest_rows", "", "^narrow_groups: shuffles: ",
            (WARP, "LaneGroup{1, packs}, LaneGroup{2, packs}, => ")),
        wrong_count("three_packs_where_two_suffice", "", "^two_or_three_packs: special_function_lanes: ",
            (WARP, "LaneGroup{8, 2}, LaneGroup{8, 3}, => LaneGroup{8, 3}, ")),
    ],
    "04_smem_bank_conflict_1": [
        wrong_count("layouts_are_swapped", "--variant transposed_layout --rows 3 --cols 512",
            "shared stores .* [1-9][0-9]* bank conflicts",
            (SMEM, "buffer[i * num_packs + pack] = values[i]; => "
                   "static_cast<volatile float*>(buffer)[i + pack * N] = values[i];"),
            (SMEM, "values[i] = buffer[i * num_packs + pack]; => "
                   "values[i] = static_cast<const volatile float*>(buffer)[i + pack * N];"),
            at="(buffer)[i + pack * N] = values[i]"),
    ],
    "05_uncached_1": [
        wrong_count("a_pass_too_many", "--variant reversed_second_pass --rows 3 --cols 512", "global loads .* bytes",
            (UNCACHED, "(load, row, cols, update_max); => (load, row, cols, update_max);\n"
                       "  for_each_pack<pack_size, Direction::forward>(load, row, cols, update_max);  // again"),
            at="// again"),
        wrong_result("maximum_starts_at_minus_10000", "small_block --rows 7 --cols 31 --input lowest",
            "lowest: 217 of 217 elements wrong",
            (REDUCE_OP, "static constexpr float identity = -INFINITY; => "
                        "static constexpr float identity = -1e4f;")),
        wrong_count("backwards_is_forwards", "", "^large_block and reversed_second_pass: all counters are the same",
            (WALK, "(direction == Direction::forward ? pack : num_packs - 1 - pack) => pack")),
        wrong_count("no_hint_for_the_reads", "", "^cache_hints: not so: the last read and the write have cache hints",
            (UNCACHED, "__ldcs(reinterpret_cast<const decltype(Pack<T, N>::word)*>(source)) => "
                       "*reinterpret_cast<const decltype(Pack<T, N>::word)*>(source)")),
    ],
    "06_online_1": [
        wrong_result("merge_of_two_that_saw_only_inf", "online_per_element --rows 7 --cols 31 --input neg_inf_prefix",
            "neg_inf_prefix: .*: got -?nan, expected",
            (MAX_SUM, "return fmaxf(max, -FLT_MAX); => return max;")),
    ],
    "06_online_2": [
        fault("no_barrier_before_pairs_are_merged", "online --rows 1 --cols 1000", "read of . bytes of shared memory",
            (MERGE, "storage[warp] = state;\n  __syncthreads(); => storage[warp] = state;\n"), at="? storage[lane]"),
    ],
    "06_online_3": [
        fault("no_barrier_before_the_next_rows_pairs", "online --rows 7 --cols 1000",
            "race: read of . bytes of shared memory",
            (MERGE, "  __syncthreads();\n  return state; => \n  return state;"), at="? storage[lane]"),
    ],
    "07_split_row_1": [
        wrong_result("every_block_has_the_same_pairs", "two_kernels --rows 7 --cols 10000",
            "first at row 1, column 0",
            (SPLIT, "pairs[row * gridDim.x + i]); => pairs[i]);")),
        fault("second_kernel_does_not_wait", "dependent_launch --rows 7 --cols 10000",
            r"which may not have ended \(griddepcontrol.wait is missing\)",
            (SPLIT, "cudaGridDependencySynchronize(); => ;"), at="pairs[i]);"),
        fault("the_last_part_is_as_wide_as_the_others", "row_exchange --rows 1 --cols 9996",
            "read of 16 bytes of global memory",
            (SPLIT, "cols(min(part_cols, row_cols - first_col)) => cols(part_cols)"), at="static_cast<int>(part.cols));", file=EXCHANGE),
        wrong_result("slots_are_left_full", "row_exchange --rows 7 --cols 10000", "left its workspace other than zero",
            (EXCHANGE, "mine.store(0, cuda::memory_order_relaxed); => ")),
    ],
    "07_split_row_2": [
        fault("waits_for_a_block_that_sends_nothing", "fixed_split --rows 1 --cols 10000", "waits for ever",
            (EXCHANGE, "slot(to, blockIdx.x).store => if (to != 0) slot(to, blockIdx.x).store"), at="while (bits == 0)"),
        fault("slots_of_one_row_serve_all", "row_exchange --rows 7 --cols 10000", "waits for ever",
            (EXCHANGE, "slots + row * gridDim.x * gridDim.x => slots"), at="while (bits == 0)"),
    ],
    "08_unaligned_rows_1": [
        wrong_result("tail_is_forgotten", "head_and_tail --rows 7 --cols 1001", "[0-9]+ of 7007 elements never written",
            (CUT, "tail = (count - head) % N; => tail = 0;")),
        fault("copies_are_not_waited_for", "flat_span --rows 7 --cols 33",
            "read of 4 bytes of shared memory at .*on its way",
            (SPAN, "  __pipeline_wait_prior(0); => "), at="unpack(all_exist || i < count ? load_pack<N>(part + i)"),
    ],
    "08_unaligned_rows_2": [
        fault("no_barrier_before_the_span_is_read", "flat_span --rows 64 --cols 33",
            "read of 4 bytes of shared memory",
            (SPAN, "thread, threads, reads);\n    __syncthreads();\n\n => thread, threads, reads);\n\n"),
            at="unpack(all_exist || i < count ? load_pack<N>(part + i)"),
        fault("no_barrier_before_the_next_row", "row_in_flight --rows 7 --cols 1001 --offset 1,2",
            "race: write of (4|16) bytes of shared memory",
            (FLIGHT, "__syncthreads();  // the next row is copied over this one => // the next row is"),
            at="copy_async(kept"),
    ],
    "08_unaligned_rows_3": [
        fault("no_barrier_before_the_results", "flat_span --rows 64 --cols 33 --offset 1,2",
            "race: (read|write) of 4 bytes of shared memory",
            (SPAN, "__syncthreads();  // and all have read => // and all have read"), at="if (all_exist || i < count) store_pack(part + i"),
        fault("no_barrier_before_the_results_leave", "flat_span --rows 64 --cols 33",
            "race: read of 16 bytes of shared memory",
            (SPAN, "    __syncthreads();\n    copy_out => \n    copy_out"), at="store_pack(global + cut.col_of_pack(pack)"),
        wrong_count("a_warp_too_many", "--variant head_and_tail",
            "^head_and_tail: (special_function_lanes|shuffles|block_barriers): ",
            ("common/rowwise/kernels/forward/head_and_tail.cuh", "shape.cols / N; => shape.cols / N + 1;")),
    ],
    "09_async_copy_1": [
        fault("a_group_is_not_waited_for", "own_packs --rows 7 --cols 10000",
            "read of 16 bytes of shared memory at .*on its way",
            (PACKS, "__pipeline_wait_prior(copy_groups - 1 - group); => __pipeline_wait_prior(copy_groups - group);"),
            at="unpack(load_pack<N>(slot + pack * N), values);\n      Op::add"),
        fault("bulk_copies_are_not_waited_for", "bulk_copy --rows 7 --cols 1000",
            "read of 16 bytes of shared memory at .*on its way",
            (BULK, "    wait_for_phase(&arrived[slot], step / ring_slots % 2);\n => "),
            at="unpack(load_pack<N>(slot_at(slot) + pack * N), values);"),
    ],
    "09_async_copy_2": [
        fault("requested_before_all_are_done_with_the_slot", "bulk_copy --rows 14 --cols 1000",
            "read of 16 bytes of shared memory at .*on its way",
            (BULK, "    const RowResult<Op> result(block_merge_once<Op>(own, storage[step % 2]));\n => "),
            (BULK, "ring_slots * gridDim.x + ticket);\n    }\n => ring_slots * gridDim.x + ticket);\n    }\n"
                   "    const RowResult<Op> result(block_merge_once<Op>(own, storage[step % 2]));\n"),
            at="write_pack(y + row * shape.cols, slot_at(slot), pack, result);"),
        fault("one_storage_for_all_rows", "bulk_copy --rows 14 --cols 1000", "race: (read|write) of 4 bytes of shared memory",
            (BULK, "storage[step % 2])); => storage[0]));"), at="storage[0]));"),
    ],
    "09_async_copy_3": [
        fault("packs_of_other_threads", "own_packs --rows 7 --cols 1000", "read of 16 bytes of shared memory at ",
            (PACKS, "unpack(load_pack<N>(slot + pack * N), values);\n      Op::add => "
                    "unpack(load_pack<N>(slot + (num_packs - 1 - pack) * N), values);\n      Op::add"),
            at="unpack(load_pack<N>(slot + (num_packs"),
        fault("the_parity_never_changes", "bulk_copy --rows 14 --cols 1000", "waits for ever",
            (BULK, "step / ring_slots % 2 => 0"), at="wait_for_phase(&arrived[slot], 0);"),
        wrong_result("tickets_are_not_reset", "bulk_copy --rows 14 --cols 1000", "left its workspace other than zero",
            (ASYNC, "atomicInc(counter, static_cast<unsigned>(count - 1)) => atomicAdd(counter, 1u)")),
    ],
    "10_cluster_1": [
        fault("sent_before_the_others_have_started", "cluster_2 --rows 3 --cols 2048", "which need not have started",
            (CLUSTER_ROW, "  ptx::barrier_cluster_wait();\n => "),
            at="result(exchange.merge(own, 0))"),
        fault("a_group_is_not_waited_for", "tickets --rows 3 --cols 8192", "read of 16 bytes of shared memory at .*on its way",
            (TICKETS, "__pipeline_wait_prior(copy_groups - 1 - group); => __pipeline_wait_prior(copy_groups - group);"),
            at="unpack(load_pack<N>(kept + pack * N), values);\n        Op::add"),
    ],
    "10_cluster_2": [
        fault("the_pairs_are_not_waited_for", "cluster_2 --rows 3 --cols 2048", "read of .* bytes of shared memory at .*",
            (CLUSTER, "      wait_for_cluster(&received[turn], round / 2 % 2);\n => "),
            at="own = warp_merge<Op>(lane < cluster.num_blocks()"),
        fault("another_parity_is_waited_for", "registers --rows 3 --cols 4096", "read of 8 bytes of shared memory at .*",
            (CLUSTER_REGISTERS, "wait_for_cluster(&received, 0); => wait_for_cluster(&received, 1);"),
            at="total = Op::merge(total, pairs[i]);"),
    ],
    "10_cluster_3": [
        wrong_result("half_of_the_pairs", "registers --rows 3 --cols 4096", "",
            (CLUSTER_REGISTERS, "i < num_pairs; i += 32 => i < num_pairs / 2; i += 32")),
        fault("what_follows_the_last_pack", "unaligned_cluster --rows 3 --cols 1001", "read of 4 bytes of shared memory at ",
            (UNALIGNED_CLUSTER, "if (thread < in.num_singles()) => if (thread < in.head)"),
            at="write(single, out.col_of_single(thread))"),
        fault("one_inbox_for_all_rows", "tickets --rows 300 --cols 2048", "asynchronous store",
            (CLUSTER, "send_to_all(&pairs[turn][cluster.block_rank()] => send_to_all(&pairs[0][cluster.block_rank()]"),
            (CLUSTER, "? pairs[turn][lane] => ? pairs[0][lane]"),
            at="ptx::st_async("),
    ],
    "11_backward_1": [
        wrong_count("a_sum_per_lane", "--variant warp_registers --rows 3 --cols 256,1000", "^warp_registers: shuffles: ",
            (IN_REGISTERS, "  }\n  sum = warp_all_reduce<SumOp, tile.group_width>(sum); => "
                           "  }\n  sum = warp_all_reduce<SumOp, tile.group_width>(warp_all_reduce<SumOp, 1>(sum)) + __shfl_xor_sync(0xffffffff, 0.0f, 1);")),
        fault("a_sum_of_0_is_no_sum", "row_exchange --rows 1 --cols 10000 --input neg_inf_prefix", "waits for ever",
            (EXCHANGE_GRADIENT, "block_storage), 1}; => block_storage), 0};"),
            (EXCHANGE, "// for the next launch => // again"), at="while (bits == 0)", file=EXCHANGE),
        wrong_result("nothing_is_rounded_off", "two_floats --rows 7 --cols 1000", "[0-9]+ of 7000 elements wrong",
            (GRADIENT, "__fadd_rn(b, -of_b))}; => __fadd_rn(b, of_b))};")),
        fault("a_group_is_not_waited_for", "shared_memory --rows 7 --cols 8192",
            "read of 16 bytes of shared memory at .*on its way",
            (IN_SHARED, "__pipeline_wait_prior(copy_groups - 1 - group); => __pipeline_wait_prior(copy_groups - group);"),
            at="sum, load_pack<N>(kept_y + pack * N), load_pack<N>(kept_dy + pack * N));\n      });\n    }"),
        fault("sent_before_the_others_have_started", "cluster --rows 3 --cols 2048", "which need not have started",
            (IN_CLUSTER, "  ptx::barrier_cluster_wait();\n => "), at="sum = exchange.merge(sum, 0);"),
        fault("no_barrier_before_the_sum", "unaligned --rows 7 --cols 1001 --offset 1,2", "read of .* bytes of shared memory",
            (UNALIGNED, "    __pipeline_wait_prior(0);\n    __syncthreads();\n =>     __pipeline_wait_prior(0);\n"),
            (FLIGHT, "= static_cast<float>(address[i]); => = float(address[i]);"), at="= float(address[i]);", file=FLIGHT),
        wrong_result("single_elements_do_not_count", "head_and_tail --rows 7 --cols 1001", "[0-9]+ of 7007 elements wrong",
            ("common/rowwise/kernels/backward/head_and_tail.cuh", "    add_packs<Op>(sum, y_single, dy_single);\n => ")),
        wrong_result("the_sum_of_the_first_part", "flat_span --rows 40 --cols 129", "[0-9]+ of 5160 elements wrong",
            (SPAN_GRADIENT, "sums[part * rows_of_block + row]); => sums[row]);")),
        wrong_result("the_pair_of_the_first_row", "recomputed --rows 7 --cols 1000 --op recomputed_softmax_backward",
            "[0-9]+ of 7000 elements wrong. first at row 1, column",
            (RECOMPUTED, "(pairs[2 * row], => (pairs[0],")),
        wrong_result("every_block_has_the_same_sums", "two_kernels --rows 7 --cols 10000", "first at row 1, column 0",
            (SPLIT_GRADIENT, "sums[row * gridDim.x + i]); => sums[i]);")),
    ],
    "11_backward_2": [
        wrong_result("the_sum_of_dy_alone", "warp_registers --rows 7 --cols 100", "[0-9]+ of 700 elements wrong",
            (GRADIENT, "sum += y[i] * dy[i]; => sum += dy[i];")),
        fault("no_barrier_before_the_next_rows", "unaligned --rows 7 --cols 1001 --offset 1,2",
            "race: write of (4|16) bytes of shared memory",
            (UNALIGNED, "__syncthreads();  // the next rows are copied over these => // the next rows are"),
            at="copy_async(kept"),
        fault("no_barrier_before_the_gradients_leave", "flat_span --rows 64 --cols 33", "race: read of 16 bytes of shared memory",
            (SPAN_GRADIENT, "    __syncthreads();\n    copy_out => \n    copy_out"), at="copy_out(dx + first, span_of_dy"),
        wrong_result("the_tail_is_forgotten", "unaligned --rows 2 --cols 1001", "[0-9]+ of 2002 elements never written",
            (CUT, "tail = (count - head) % N; => tail = 0;")),
        fault("a_column_too_many", "block_registers --rows 1 --cols 1000",
            "read of 16 bytes of global memory at .*, which nobody has written yet",
            (IN_REGISTERS, "const auto exists = [&](int pack) { return col(pack) < shape.cols; }; => "
                           "const auto exists = [&](int pack) { return col(pack) <= shape.cols; };"),
            at="if (!exists(pack)) continue;\n      y_packs[pack] = load_pack<N>(y + first + col(pack));\n      dy_packs[pack] = load_pack<N>(dy + first + col(pack));\n    }\n\n    typename"),
    ],
    "12_cross_entropy_1": [
        fault("the_label_is_not_checked", "one_read --rows 3 --cols 10",
            "read of 4 bytes of global memory at .*, which nobody has written yet",
            (ROW_LOSS, "if (exists_) element_ = load_pack<1>(row + col); => element_ = load_pack<1>(row + col);"),
            at="element_ = load_pack<1>(row + col);"),
        wrong_result("the_logarithm_beside_the_maximum", "split_row --rows 7 --cols 1000 --input lowest",
            "6 of 7 elements wrong. first at row 0, column 0: got 0, expected 6.9",
            (ROW_LOSS, "log_of_sum(row.sum) + (row.max - x_label); => (log_of_sum(row.sum) + row.max) - x_label;")),
        fault("one_storage_for_all_rows", "drawn_rows --rows 7 --cols 1000", "race: (read|write) of 4 bytes of shared memory",
            (LOSS, "storage[parity]); => storage[0]);"), at="storage[0]);"),
        wrong_result("not_the_first_column_of_a_pack", "read_again --rows 7 --cols 1000 --op cross_entropy_gradient",
            "dx: [1-3] of 7000 elements wrong. first at row (0|1), column [0-9]+: got [0-9.e-]+, expected -0.99",
            (ROW_LOSS, "(label_ < col || => (label_ <= col ||")),
        fault("a_group_is_not_waited_for", "kept_row --rows 7 --cols 8192 --op cross_entropy_gradient",
            "read of 16 bytes of shared memory at .*on its way",
            (KEPT_ROW, "__pipeline_wait_prior(copy_groups - 1 - group); => __pipeline_wait_prior(copy_groups - group);"),
            at="unpack(load_pack<N>(kept_ + cut_.col_of_pack(pack)), values);"),
        fault("sent_before_the_others_have_started", "unaligned_cluster --rows 3 --cols 2048 --op cross_entropy_gradient", "which need not have started",
            (LOSS_OF_ANY_WIDTH, "  ptx::barrier_cluster_wait();\n => "), at="exchange.merge(own, 0)"),
        wrong_result("a_line_leaves_more_single_elements_than_threads", "cluster_registers --rows 7 --cols 1025", "elements wrong",
            (CLUSTER_LOSS, "blockDim.x < 96 ? 16 : line_bytes => line_bytes")),
    ],
    "12_cross_entropy_2": [
        wrong_result("an_ignored_row_is_multiplied_by_0", "narrow_rows --rows 7 --cols 10 --input one_pos_inf --op cross_entropy_gradient",
            "elements wrong", (NARROW_ROWS, "if (label == ignored_label) { => if (false) {")),
        fault("lanes_without_a_row_leave_the_others", "narrow_rows --rows 3 --cols 64 --op cross_entropy_gradient",
            "the mask of a shuffle names lanes 16-31, which have ended the kernel",
            (NARROW_ROWS, "- threadIdx.x % 32 / tile.group_width < rows; => - (tile.group_width == 16 ? 0 : threadIdx.x % 32 / tile.group_width) < rows;")),
        fault("the_next_row_begins_where_this_one_does", "drawn_rows --rows 7 --cols 1001", "misaligned read of 16 bytes",
            (LOSS, "        ahead_cut = cut_of(ahead_x, next);\n => "), at="ahead.fetch(ahead_x, ahead_cut, is_last"),
        wrong_result("nan_of_an_ignored_row", "read_again --rows 7 --cols 1000 --op cross_entropy_gradient --input one_nan",
            "dx: 1 of 7000 elements wrong. first at row 2, column [0-9]+: got -?nan, expected 0",
            (ROW_LOSS, "is_ignored_ ? 0 : __expf => is_ignored_ ? 0 * value : __expf")),
        wrong_result("shifts_are_rounded_however_large", "one_read --rows 7 --cols 1000 --input lowest", "6 of 7 elements wrong",
            ("common/kernel/running_pair.cuh", "return fabsf(max) < 0x1p30f; => return max > -1e38f;")),
        wrong_result("the_series_reaches_too_far", "one_read --rows 7 --cols 3",
            "[1-7] of 7 elements wrong. first at row [0-6], column 0: got [0-9.]+, expected [0-9.]+",
            (ROW_LOSS, "rest < 0x1p-5f ? => rest < 2 ?")),
        fault("no_barrier_before_the_next_row", "kept_row --rows 7 --cols 1001 --offset 1,2 --op cross_entropy_gradient",
            "race: write of (4|16) bytes of shared memory",
            (KEPT_ROW, "__syncthreads();  // the next row is copied over this one => // the next row is"),
            (FLIGHT, "= static_cast<float>(address[i]); => = float(address[i]);"),
            at="copy_async(kept", file=FLIGHT),
        fault("warps_of_all_blocks_send_to_one_place", "cluster_loss --rows 3 --cols 10000", "into which another one is on its way",
            (CLUSTER_LOSS, "&states[cluster.block_rank() * warps + warp] => &states[warp]"),
            at="ptx::st_async(cluster.map_shared_rank(place, 0)"),
        wrong_result("every_row_has_the_same_pairs", "split_row --rows 7 --cols 10000", "first at row 1, column 0",
            ("common/rowwise/kernels/loss/split_loss.cuh", "states[row * parts + i]); => states[i]);")),
        fault("a_block_behind_the_label_writes_the_loss", "unaligned_cluster --rows 3 --cols 1001 --op cross_entropy_gradient",
            "race: write of 4 bytes of global memory",
            (LOSS_OF_ANY_WIDTH, "0 <= label_here && label_here < cols : => label_here < cols :"),
            at="loss[row] = loss_of_row<Op>"),
        wrong_count("a_tile_is_left_out", "--variant narrow_rows --rows 3 --cols 100", "^narrow_rows: special_function_lanes: ",
            (NARROW_ROWS, "tile(1, 16), tile(1, 32), => tile(1, 16),")),
        wrong_count("each_warp_reads_the_label", "--variant one_read --rows 3 --cols 8192", "^one_read: passes: ",
            (LOSS, "if (threadIdx.x == 0) label = labels[row];  // used late => label = labels[row];  // used late")),
    ],
    "12_cross_entropy_3": [
        wrong_result("the_label_is_of_the_first_part", "flat_span --rows 40 --cols 129 --op cross_entropy_gradient", "of 40 elements never written",
            (SPAN_LOSS, "has_label = first_col <= label && label < min(first_col + most_cols, cols); => has_label = label < min(most_cols, cols) && first_col == 0 && label >= 0;")),
        fault("sent_before_there_is_a_barrier", "cluster_registers --rows 3 --cols 40000", "which need not have started",
            (CLUSTER_LOSS, "  ptx::barrier_cluster_wait();  // until => //"), at="ptx::st_async(cluster.map_shared_rank(place, 0)"),
        wrong_result("packs_that_are_left_over_are_not_added", "cluster_registers --rows 3 --cols 10000", "2 of 3 elements wrong",
            (CLUSTER_LOSS, "if constexpr (left_over > 0) => if constexpr (false)")),
        wrong_result("elements_after_the_packs_are_left_out", "narrow_rows --rows 7 --cols 1001", "elements wrong",
            (LANE_OF_ROW, "return has_row_ && col_of_single(i) < cols_; => return has_row_ && col_of_single(i) < first_of_packs_;")),
        wrong_result("half_of_the_lanes_are_merged", "narrow_rows --rows 7 --cols 10 --op cross_entropy_gradient", "elements wrong",
            (NARROW_ROWS, "sum = warp_all_reduce<SumOp, tile.group_width>(sum); => sum = warp_all_reduce<SumOp, (tile.group_width + 1) / 2>(sum);")),
    ],
    "12_cross_entropy_4": [
        fault("no_barrier_before_the_gradients_leave", "flat_span --rows 64 --cols 33 --op cross_entropy_gradient", "race: read of 16 bytes of shared memory",
            (SPAN_LOSS, "      __syncthreads();\n      copy_out => \n      copy_out"), at="copy_out(span_dx, place_in(buffer, span_dx)"),
        fault("rows_behind_the_last_one", "narrow_rows --rows 3 --cols 10", "read of 8 bytes of global memory",
            (LANE_OF_ROW, "return has_row_ && col(pack) < end_of_packs_; => return col(pack) < end_of_packs_;"),
            (NARROW_ROWS, "// Missing elements are -inf: they add => // Missing elements are -inf: they do not add"),
            at="packs[i] = exists(i) ? load_pack<N>(row_x + Lane::col(i))", file=NARROW_ROWS),
        wrong_result("below_the_maximum_of_a_thread", "in_registers --rows 7 --cols 1001 --op cross_entropy_gradient", "elements wrong",
            ("common/rowwise/kernels/loss/in_registers.cuh", "gradient(state, label, cols, shift); => gradient(state, label, cols);")),
    ],
    "13_masked_softmax_1": [
        wrong_result("a_row_that_sees_nothing_is_stored", "masked_in_a_warp --rows 7 --cols 100 --op padded_softmax",
            "softmax: 100 of 700 elements wrong. first at row 2, column 0: got nan, expected 0",
            (MASKED, "stored[i] = i < seen ? values[i] : 0; => stored[i] = values[i];")),
        wrong_result("drawn_by_column_alone", "masked_online --rows 7 --cols 100 --op causal_softmax",
            "y: [0-9]+ of 700 elements wrong. first at row [1-6]",
            (MASKED, "const auto index = static_cast<std::uint64_t>(row * cols + col); => const auto index = static_cast<std::uint64_t>(col);")),
        wrong_result("the_gradient_is_not_scaled", "masked_backward --rows 7 --cols 100 --op padded_softmax_backward",
            "[0-9]+ of 700 elements wrong",
            (MASKED_SOFTMAX, "Dropout::factor * attention_scale => Dropout::factor")),
    ],
    "13_masked_softmax_2": [
        wrong_result("a_pack_too_many", "masked_backward --rows 1 --cols 1000 --op causal_softmax_backward",
            "wrote 1 bytes past the output's end",
            (MASKED_SOFTMAX, "const int cols = static_cast<int>(shape.cols); => const int cols = static_cast<int>(shape.cols) + 4;")),
        wrong_result("does_not_see_itself", "masked_in_a_block --rows 7 --cols 100 --op causal_softmax",
            "softmax: [0-9]+ of 700 elements wrong. first at row 0, column 0: got 0, expected 1",
            (MASKED, "return static_cast<unsigned>(row) % static_cast<unsigned>(cols); => return static_cast<unsigned>(row) % static_cast<unsigned>(cols) - 1;")),
        wrong_result("words_of_a_pack_are_those_of_the_first", "masked_in_a_warp --rows 7 --cols 100 --op padded_softmax",
            "y: [0-9]+ of 700 elements wrong", (MASKED, "const int first = N == 8 ? 0 : static_cast<int>(index % 8); => const int first = 0;")),
        wrong_result("masked_after_the_softmax", "four_kernels --rows 7 --cols 100 --op causal_softmax", "softmax: [0-9]+ of 700 elements wrong",
            ("13_masked_softmax/separate_masked.cuh", "mask, -INFINITY}); => mask, 0});")),
    ],
    "13_masked_softmax_3": [
        wrong_count("what_nobody_sees_is_read", "--variant masked_in_a_block --op causal_softmax", "global loads .* bytes",
            (MASKED, "if (fetched.seen > 0) fetched.pack = => fetched.pack ="), at="fetched.pack = load_pack<N>(x"),
    ],
    "14_dispatch_1": [
        # The result is right: only what is counted shows that another kernel ran.
        wrong_count("rows_are_not_looked_at", "--variant dispatch", r"dispatch: .*, and not ",
            (CHOICE, "rows <= static_cast<double>(line.most_rows) && matrix.cols => matrix.cols")),
    ],
    "14_dispatch_2": [
        Mistake("half_a_workspace", "dispatch --rows 3 --cols 151936", "simulator: .*write of 8 bytes .* past the end of",
            ((DISPATCH, ".bytes = needed.workspace_bytes, => .bytes = needed.workspace_bytes / 2,"),), code=4),
    ],
    "14_dispatch_3": [
        Mistake("every_matrix_begins_at_a_pack", "dispatch --rows 40 --cols 8192 --offset 1", "simulator: .*misaligned",
            ((DISPATCH, "choose<Kernel>(matrix_of(problem), => choose<Kernel>([&] { Matrix matrix = matrix_of(problem); matrix.alignment = 16; return matrix; }(),"),), code=4),
    ],
    f"{SEVERAL_GPUS}_1": [
        wrong_result("sums_are_not_added_up", "two_all_reduces --rows 3 --cols 1000", "of 3000 elements wrong",
            ("15_several_gpus/two_all_reduces.cuh", "all_reduce(sums, is_loss<Op> ? 2 * rows : rows, ncclSum);\n => ")),
        wrong_result("pairs_of_the_first_rank_alone", "host_collectives --rows 3 --cols 1000", "of 3000 elements wrong",
            ("15_several_gpus/gathered_pairs.cuh", "messages[row_of_rank * pieces + i % pieces].pair => messages[row * pieces + i % pieces].pair")),
        wrong_result("what_others_say_is_not_read", "device_exchange --rows 3 --cols 4096", "of 12288 elements wrong",
            ("15_several_gpus/mailbox.cuh", "from == mail.rank ? own : mail.wait_for<Op>(from, row, number) => own")),
    ],
}  # fmt: skip


def changed_files(stage: str, mistakes: list[Mistake]) -> dict[str, str]:
    """The text of each file that the group changes."""
    stages = (stage, TAKES_FROM.get(stage, stage))
    changes = [change for change in COMMON if not change[0][0].isdigit() or change[0].startswith(stages)]
    changes += [change for mistake in mistakes for change in mistake.changes]
    texts: dict[str, str] = {}
    for file, change in changes:
        old, new = change.split(" => ")
        text = texts.get(file) or (SOURCE / file).read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise Failure(f"{file} has this text {text.count(old)} times, and not once as a mistake expects: {old!r}")
        texts[file] = text.replace(old, new)
    return texts


def is_up_to_date(executable: Path, *inputs: Path) -> bool:
    """What is built is newer than all that it may have been built from."""
    tops = (*(SOURCE / "common" / name for name in ("kernel", "harness", "rowwise")), *SOURCE.glob("[0-9][0-9]_*"))
    sources = [path for top in tops for path in top.rglob("*.[ch]*")]
    newest = max(path.stat().st_mtime for path in (*sources, *inputs))
    return executable.exists() and executable.stat().st_mtime > newest


def compile_with(command: list[object], folder: Path) -> None:
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise Failure(f"exit code {done.returncode}: {shlex.join(words)}\n{done.stdout}")


def build_executable(build: Path, name: str, stage: str) -> Path:
    folder = build / "mutants" / name
    changed = changed_files(stage, GROUPS[name])
    # What the mistakes of an earlier build changed is nobody's source any more.
    for path in (folder / "changed").rglob("*.*"):
        if path.relative_to(folder / "changed").as_posix() not in changed:
            path.unlink()
    for file, text in changed.items():
        path = folder / "changed" / file
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    main = SOURCE / stage / "main.cu"  # its quoted names are looked for in the changed files first
    # The library's objects are taken as they are built: no mistake is in them.
    objects = build / "CMakeFiles"
    library = build / "common/rowwise/CMakeFiles/rowwise_objects.dir/dispatch"
    dispatch = [path for path in sorted((SOURCE / CHOICE).parent.glob("*.c*")) if path.suffix in (".cu", ".cpp")]
    parts = [library / f"{path.name}.o" for path in dispatch] if stage == Path(DISPATCH).parent.name else []
    if stage == SEVERAL_GPUS:
        main, parts = main.with_name("variants.cu"), [objects / f"{stage}.dir" / stage / "main.cu.o", build / "simulator/libnccl.so"]
    database = build / "compile_commands.json"
    commands = json.loads(database.read_text(encoding="utf-8"))
    command = shlex.split(next(entry["command"] for entry in commands if Path(entry["file"]) == main))
    executable, object_file, harness = folder / stage, folder / "main.o", build / "libharness.a"
    if is_up_to_date(executable, harness, database, Path(__file__), *parts):
        return executable

    # The stage's own command, but for another output, PTX alone, no warning an error, and the changed files first.
    command = command[: command.index("-o")]
    command = [word for word in command if not re.match("--generate-code|-gencode|--Werror|-Xcompiler=-Werror$", word)]
    changed_main = folder / "changed" / stage / main.name
    command = [str(changed_main) if word == str(main) and changed_main.exists() else word for word in command]
    options = next(i for i, word in enumerate(command) if word.startswith("-"))
    command[options:options] = ["-I" + str(folder / "changed"), "--generate-code=arch=compute_90,code=compute_90"]
    executable.unlink(missing_ok=True)
    compile_with([*command, "-o", object_file], build)
    compiler = [*command[:options], *(word for word in command if word.startswith("-ccbin"))]
    compile_with([*compiler, "-cudart", "shared", object_file, *parts, harness, "-ldl", "-o", executable], build)
    return executable


def caught(mistake: Mistake, executable: Path) -> str:
    """The lines that name the mistake; raises Failure where the suite would not have seen it."""
    if mistake.counted:
        command = [sys.executable, str(SOURCE / "common/tests/counts.py"), str(executable), "--dtype", "f32"]
    else:
        command = [str(executable), "--device", "sim", "--verify-only", "--variant"]
    command += mistake.run.split()
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if mistake.counted and done.returncode == 3:  # another nvcc made what the recorded counts are of
        print(done.stdout)
        sys.exit(3)
    wanted = [mistake.says]
    if mistake.at:
        before, *others = (executable.parent / "changed" / mistake.file).read_text(encoding="utf-8").split(mistake.at)
        if len(others) != 1:
            raise Failure(f"{mistake.name}: {mistake.file} has the text of the place {len(others)} times, not once")
        place = f"(at|from) .*changed/{mistake.file}:{before.count(chr(10)) + 1}( |$)"
        wanted = [f"{mistake.says}.*{place}"] if mistake.counted else [mistake.says, place]
    lines = [next((line for line in done.stdout.splitlines() if re.search(regex, line)), None) for regex in wanted]
    if done.returncode != mistake.code or None in lines:
        raise Failure(f"{mistake.name}: exit code {done.returncode}, expected {mistake.code} and lines that match\n"
                      + "\n".join(wanted) + f"\n--- but printed was\n{done.stdout}---")  # fmt: skip
    return "; ".join(line.strip() for line in lines)


def check(build: Path, name: str) -> str:
    stage = re.sub(r"_\d$", "", name)
    executable = build_executable(build, name, stage)
    # As seen from here: the loader splits at colons, which the path of a checkout may have.
    if stage == SEVERAL_GPUS:
        os.environ["SIM_DEVICES"] = "2"
    os.environ["LD_LIBRARY_PATH"] = f"{os.path.relpath(build / 'simulator')}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    if not GROUPS[name]:
        options = "--device sim --verify-only --rows 1,2,7,100 --cols 1,31,128,1000,1025 --input normal,neg_inf_prefix"
        options += MORE_OPTIONS.get(stage, "")
        return f"{len(check_stage.verify([str(executable), *options.split(), '--format', 'csv'])[0])} verified"
    return "\n".join(f"{mistake.name}: {caught(mistake, executable)}" for mistake in GROUPS[name])


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print(*GROUPS, sep=";", end="")
    else:
        sys.exit(check_stage.print_or_fail(lambda: check(Path(sys.argv[1]).resolve(), sys.argv[2])))
