#include "common/harness/refusal.h"

namespace {

/// The part of the GPU that would have to hold the row.
std::string_view holder(Why why) {
  switch (why) {
    case Why::threads_of_block:
      return "a thread per column";
    case Why::one_pack_of_lanes:
      return "one pack of 16 bytes for each of 32 lanes";
    case Why::two_packs_of_lanes:
      return "two packs of 16 bytes for each of 32 lanes";
    case Why::three_packs_of_lanes:
      return "three packs of 16 bytes for each of 32 lanes";
    case Why::registers_of_warp:
      return "the row must fit the registers of a warp";
    case Why::registers_of_warp_for_two:
      return "both rows must fit the registers of a warp";
    case Why::registers_of_block:
      return "the row must fit the registers of a block";
    case Why::registers_of_block_for_two:
      return "both rows must fit the registers of a block";
    case Why::registers_of_block_for_32:
      return "32 rows must fit the registers of a block";
    case Why::threads_of_block_for_32:
      return "32 rows must fit the threads of a block";
    case Why::registers_of_8_blocks:
      return "the row must fit the registers of 8 blocks";
    case Why::registers_of_16_blocks:
      return "sixteen blocks must hold the row in registers";
    case Why::registers_of_gpu:
      return "a row must fit the registers of the GPU";
    case Why::registers_of_gpu_for_two:
      return "both rows must fit the registers of the GPU";
    case Why::shared_memory_as_float:
      return "the row must fit a block's shared memory as float";
    case Why::shared_memory:
      return "a block's shared memory or registers must hold the row";
    case Why::shared_memory_for_two:
      return "a block's shared memory must hold both rows";
    case Why::shared_memory_of_cluster:
      return "a block's shared memory must hold its part of the row";
    case Why::shared_memory_of_cluster_for_two:
      return "a block's shared memory must hold its part of both rows";
    case Why::blocks_of_cluster:
      return "the blocks of a cluster must hold the row";
    default:
      return "a column must fit 32 bits";
  }
}

}  // namespace

std::string words(const Refusal& refusal) {
  const std::string number = std::to_string(refusal.number);
  switch (refusal.why) {
    case Why::none:
      return "";
    case Why::whole_packs:
      return "rows must begin at packs of " + number + " bytes and be made of them";
    case Why::odd_packs:
      return "rows must begin at packs of 8 or 4 bytes, or at elements, and be an odd number of them";
    case Why::other_places:
      return "inputs and outputs must lie equally far past a pack of 16 bytes";
    case Why::full_lanes:
      return "every lane must be full: 32 lanes times " +
             std::string(refusal.number == 4 ? "1, 2, 4 or 8" : "1, 2, 3 or 4") + " packs of " + number +
             " columns; padded_packs takes any";
    case Why::too_few_columns:
      return "a pack for each lane of a warp in each block: at least " + number + " columns";
    case Why::tickets:
      return "rows are drawn by 32 bits: at most " + number + " rows";
    case Why::row_index:
      return "a row must fit 32 bits: at most " + number + " rows";
    case Why::grid:
      return "a grid has no more than 2147483647 blocks: at most " + number + " rows";
    case Why::clusters:
      return "needs clusters (9.0)";
    case Why::bulk_copies:
      return "needs bulk copies (9.0)";
    case Why::cluster_size:
      return "the GPU holds no cluster of " + number + " such blocks";
    default:
      return std::string(holder(refusal.why)) + ": at most " + number + " columns";
  }
}
