// The places of the special registers, and the first free place after them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/sim/ptx/program.h"

namespace sim {

inline constexpr std::uint32_t register_align = 64;

/// Offsets among a warp's registers.
namespace warp_slot {
inline constexpr std::uint32_t always =
    0;  ///< LaneMask: all lanes, the predicate of an instruction without one
inline constexpr std::uint32_t carry = 4;  ///< LaneMask: the carry flag of add.cc and its like
inline constexpr std::uint32_t tid = 128;  ///< three arrays of u32
inline constexpr std::uint32_t laneid = 512;
inline constexpr std::uint32_t warpid = 640;
inline constexpr std::uint32_t lanemasks = 768;  ///< eq, lt, le, gt, ge
inline constexpr std::uint32_t first_register = 1408;
}  // namespace warp_slot

/// Offsets in the block's area.
namespace block_slot {
inline constexpr std::uint32_t ntid = 0;
inline constexpr std::uint32_t ctaid = 384;
inline constexpr std::uint32_t nctaid = 768;
inline constexpr std::uint32_t nwarpid = 1152;
inline constexpr std::uint32_t smid = 1280;
inline constexpr std::uint32_t nsmid = 1408;
inline constexpr std::uint32_t dynamic_shared = 1536;
inline constexpr std::uint32_t total_shared = 1664;
inline constexpr std::uint32_t grid_workspace =
    1792;  ///< two arrays of u32: the upper half of an address, the lower
inline constexpr std::uint32_t cluster =
    2048;  ///< %clusterid, %nclusterid, %cluster_ctaid, %cluster_nctaid: 3 each
inline constexpr std::uint32_t cluster_ctarank = 3584;
inline constexpr std::uint32_t cluster_nctarank = 3712;
inline constexpr std::uint32_t reserved_shared = 3840;
inline constexpr std::uint32_t bytes = 3968;
}  // namespace block_slot

/// The register with the offset of the shared memory that cooperative groups use for tiles of several warps.
inline constexpr std::string_view reserved_shared_register = "%reserved_smem_offset_1";

/// "%tid.x" -> its place.
std::optional<Operand> special_register(std::string_view name);

}  // namespace sim
