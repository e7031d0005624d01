#include "common/sim/machine/cluster.h"

#include <bit>

#include "common/sim/machine/faults.h"
#include "common/sim/machine/lanes.h"

namespace sim {

Cluster::Cluster(Launch& launch) {
  for (std::uint64_t i = 0; i < launch.cluster_size().count(); ++i) blocks.emplace_back(launch);
}

void Cluster::start(std::uint64_t number) {
  phase_ = 1;
  arrived_ = 0;
  releases_ = true;
  const Launch& launch = blocks.front().launch;
  const Dim3& size = launch.cluster_size();
  const Dim3& grid = launch.configuration.grid;
  const Dim3 clusters{grid.x / size.x, grid.y / size.y, grid.z / size.z};
  const std::uint64_t x = number % clusters.x * size.x;
  const std::uint64_t y = number / clusters.x % clusters.y * size.y;
  const std::uint64_t z = number / clusters.x / clusters.y * size.z;
  std::uint32_t rank = 0;
  for (Block& block : blocks) {
    const std::uint64_t block_x = x + rank % size.x;
    const std::uint64_t block_y = y + rank / size.x % size.y;
    const std::uint64_t block_z = z + rank / size.x / size.y;
    block.start((block_z * grid.y + block_y) * grid.x + block_x, *this, rank++);
  }
}

void Cluster::arrive(Warp& warp, LaneMask lanes, bool releases) {
  if (warp.cluster_phase == phase_ && blocks.size() > 1 && std::popcount(lanes) == warp_size) {
    fault(warp, first_lane(lanes), FaultKind::barrier,
          "arrives twice at the cluster's barrier without waiting between");
  }
  warp.cluster_phase = phase_;
  releases_ = releases_ && releases;
  arrived_ += static_cast<std::uint64_t>(std::popcount(lanes));
  complete_barrier();
}

void Cluster::complete_barrier() {
  if (arrived_ == 0) return;
  std::uint64_t alive = 0;
  for (const Block& block : blocks) {
    for (const Warp& warp : block.warps) alive += count_lanes(warp.alive);
  }
  if (arrived_ < alive) return;
  ++phase_;
  arrived_ = 0;
  if (releases_) {
    for (Block& block : blocks) block.order();
  }
  for (Block& block : blocks) {
    for (const std::size_t mbarrier : block.fenced)
      block.shared_shadow.land(mbarrier, sizeof(std::uint64_t), 0);
    block.fenced.clear();
  }
  make_known(releases_);
  releases_ = true;
  ++blocks.front().launch.progress;
}

void Cluster::make_known(bool releases) {
  LaunchOrder& order = blocks.front().launch.order;
  std::vector<std::uint32_t> known;
  for (const Block& block : blocks) {
    const Stamp before = releases ? block.last_barrier : block.begin + 1;
    known.push_back(order.add(Knowledge::until(block.id, before, block.acquired.list())));
  }
  for (Block& block : blocks) {
    for (const std::uint32_t index : known) block.acquired.add(index);
  }
}

void Cluster::forget_order() {
  for (Block& block : blocks) block.forget_order();
  if (phase_ > 1) make_known(false);
}

void Cluster::report_endless() const {
  for (const Block& block : blocks) {
    if (!block.done) block.report_endless(true);
  }
  throw Fault{FaultKind::endless, "no block of the cluster can go on"};
}

}  // namespace sim
