#include "common/sim/machine/registers.h"

#include <array>

namespace sim {
namespace {

struct SpecialRegister {
  std::string_view name;
  Base base;
  std::uint32_t offset;
};

constexpr std::uint32_t one = warp_size * sizeof(std::uint32_t);

constexpr std::array<SpecialRegister, 42> special_registers{{
    {"%tid.x", Base::warp, warp_slot::tid},
    {"%tid.y", Base::warp, warp_slot::tid + one},
    {"%tid.z", Base::warp, warp_slot::tid + 2 * one},
    {"%laneid", Base::warp, warp_slot::laneid},
    {"%warpid", Base::warp, warp_slot::warpid},
    {"%lanemask_eq", Base::warp, warp_slot::lanemasks},
    {"%lanemask_lt", Base::warp, warp_slot::lanemasks + one},
    {"%lanemask_le", Base::warp, warp_slot::lanemasks + 2 * one},
    {"%lanemask_gt", Base::warp, warp_slot::lanemasks + 3 * one},
    {"%lanemask_ge", Base::warp, warp_slot::lanemasks + 4 * one},
    {"%ntid.x", Base::block, block_slot::ntid},
    {"%ntid.y", Base::block, block_slot::ntid + one},
    {"%ntid.z", Base::block, block_slot::ntid + 2 * one},
    {"%ctaid.x", Base::block, block_slot::ctaid},
    {"%ctaid.y", Base::block, block_slot::ctaid + one},
    {"%ctaid.z", Base::block, block_slot::ctaid + 2 * one},
    {"%nctaid.x", Base::block, block_slot::nctaid},
    {"%nctaid.y", Base::block, block_slot::nctaid + one},
    {"%nctaid.z", Base::block, block_slot::nctaid + 2 * one},
    {"%nwarpid", Base::block, block_slot::nwarpid},
    {"%smid", Base::block, block_slot::smid},
    {"%nsmid", Base::block, block_slot::nsmid},
    {"%dynamic_smem_size", Base::block, block_slot::dynamic_shared},
    {"%total_smem_size", Base::block, block_slot::total_shared},
    {"%aggr_smem_size", Base::block, block_slot::total_shared},
    {reserved_shared_register, Base::block, block_slot::reserved_shared},
    {"%clusterid.x", Base::block, block_slot::cluster + 0 * one},
    {"%clusterid.y", Base::block, block_slot::cluster + 1 * one},
    {"%clusterid.z", Base::block, block_slot::cluster + 2 * one},
    {"%nclusterid.x", Base::block, block_slot::cluster + 3 * one},
    {"%nclusterid.y", Base::block, block_slot::cluster + 4 * one},
    {"%nclusterid.z", Base::block, block_slot::cluster + 5 * one},
    {"%cluster_ctaid.x", Base::block, block_slot::cluster + 6 * one},
    {"%cluster_ctaid.y", Base::block, block_slot::cluster + 7 * one},
    {"%cluster_ctaid.z", Base::block, block_slot::cluster + 8 * one},
    {"%cluster_nctaid.x", Base::block, block_slot::cluster + 9 * one},
    {"%cluster_nctaid.y", Base::block, block_slot::cluster + 10 * one},
    {"%cluster_nctaid.z", Base::block, block_slot::cluster + 11 * one},
    {"%cluster_ctarank", Base::block, block_slot::cluster_ctarank},
    {"%cluster_nctarank", Base::block, block_slot::cluster_nctarank},
    {"%envreg1", Base::block, block_slot::grid_workspace},
    {"%envreg2", Base::block, block_slot::grid_workspace + one},
}};

}  // namespace

std::optional<Operand> special_register(std::string_view name) {
  for (const SpecialRegister& special : special_registers) {
    if (special.name == name) return Operand{special.offset, special.base, sizeof(std::uint32_t)};
  }
  return std::nullopt;
}

}  // namespace sim
