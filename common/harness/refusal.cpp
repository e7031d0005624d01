#include "common/harness/refusal.h"

#include <algorithm>
#include <array>

namespace {

/// The part of the GPU that would have to hold the row.
struct Holder {
  Why why;
  const char* words;
};
constexpr std::array holders{
    Holder{Why::threads_of_block, "a thread per column"},
    Holder{Why::one_pack_of_lanes, "one pack of 16 bytes for each of 32 lanes"},
    Holder{Why::three_packs_of_lanes, "three packs of 16 bytes for each of 32 lanes"},
    Holder{Why::registers_of_warp, "the row must fit the registers of a warp"},
    Holder{Why::registers_of_warp_for_two, "both rows must fit the registers of a warp"},
    Holder{Why::registers_of_block, "the row must fit the registers of a block"},
    Holder{Why::registers_of_block_for_two, "both rows must fit the registers of a block"},
    Holder{Why::registers_of_block_for_32, "32 rows must fit the registers of a block"},
    Holder{Why::threads_of_block_for_32, "32 rows must fit the threads of a block"},
    Holder{Why::registers_of_8_blocks, "the row must fit the registers of 8 blocks"},
    Holder{Why::registers_of_16_blocks, "sixteen blocks must hold the row in registers"},
    Holder{Why::registers_of_gpu, "a row must fit the registers of the GPU"},
    Holder{Why::registers_of_gpu_for_two, "both rows must fit the registers of the GPU"},
    Holder{Why::shared_memory_as_float, "the row must fit a block's shared memory as float"},
    Holder{Why::shared_memory, "a block's shared memory or registers must hold the row"},
    Holder{Why::shared_memory_for_two, "a block's shared memory must hold both rows"},
    Holder{Why::shared_memory_of_cluster, "a block's shared memory must hold its part of the row"},
    Holder{Why::shared_memory_of_cluster_for_two, "a block's shared memory must hold its part of both rows"},
    Holder{Why::blocks_of_cluster, "the blocks of a cluster must hold the row"},
    Holder{Why::index, "a column must fit 32 bits"},
};
static_assert(holders.size() ==
                  static_cast<std::size_t>(Why::index) - static_cast<std::size_t>(Why::columns) + 1,
              "each limit of columns has its words");

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
    default: {
      const auto holds = [&](const Holder& holder) { return holder.why == refusal.why; };
      const auto* holder = std::find_if(holders.begin(), holders.end(), holds);
      return holder->words + (": at most " + number + " columns");
    }
  }
}
