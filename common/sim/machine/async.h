// Copies that run while the kernel goes on: cp.async in groups, and bulk copies that an mbarrier waits for.
//
// The bytes are read when the copy is issued and written when a thread has waited for it, as late as
// possible: a thread that reads them earlier makes a mistake, which is reported in every run.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/sim/machine/races.h"
#include "common/sim/ptx/program.h"

namespace sim {

class Block;
class Warp;

/// Bytes on their way into the shared memory of a block.
struct Flight {
  Block* to = nullptr;
  std::size_t offset = 0;
  std::vector<std::byte> data;
  /// red.async: combines the bytes in place with the data; null: the data replaces them.
  void (*combine)(std::byte* there, const std::byte* data) = nullptr;
};

/// An arrival that an mbarrier waits for: of bytes, or of the copies that a lane had issued before.
struct Arrival {
  std::size_t mbarrier = 0;  ///< offset in the shared memory of the block
  Flight flight;             ///< without data: none
  Warp* warp = nullptr;      ///< cp.async.mbarrier.arrive: whose copies, of which lane, up to which group
  int lane = 0;
  std::uint32_t group = 0;
  /// st.async, red.async: the accesses before it, which are known when the bytes have arrived.
  std::uint32_t sender = LaunchOrder::none;
};

/// cp.async of the lanes of a warp, and bulk copies out of shared memory, in groups.
struct AsyncCopies {
  struct Copy {
    Flight flight;
    int lane = 0;
    std::uint32_t group = 0;
  };
  std::vector<Copy> waiting;
  std::array<std::uint32_t, warp_size> groups{};  ///< committed, of each lane
  struct Sent {
    std::size_t offset = 0;
    std::size_t bytes = 0;
    int lane = 0;
    std::uint32_t group = 0;
  };
  std::vector<Sent> sent;
  std::array<std::uint32_t, warp_size> bulk_groups{};
};

/// Writes the bytes of a copy, as if this lane, which has waited for them, did it.
void land(const Flight& flight, const Warp& by, int lane);
/// Those whose group is below that of their lane.
void land_copies(Warp& warp, const std::array<std::uint32_t, warp_size>& groups);

/// The contents of an mbarrier in shared memory, in the simulator's own format, which programs do not look
/// into.
struct Mbarrier {
  bool phase = false;
  std::uint32_t expected = 0;  ///< arrivals of a phase
  std::uint32_t pending = 0;   ///< that are missing in this one
  std::int32_t bytes = 0;      ///< that are missing, too
  static Mbarrier load(const std::byte* from);
  void store(std::byte* to) const;
  /// After an arrival, or bytes: begins the next phase (true) if nothing is missing.
  bool settle();
};

}  // namespace sim
