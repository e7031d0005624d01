// A block: its shared memory, its warps, its barriers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "common/sim/machine/byte_set.h"
#include "common/sim/machine/launch.h"
#include "common/sim/machine/warp.h"

namespace sim {

inline constexpr std::size_t block_barriers = 16;

class Cluster;

class Block {
 public:
  explicit Block(Launch& of);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { launch.memory.scratch.give_back(std::move(registers_)); }

  Launch& launch;
  std::uint64_t number = 0;  ///< in the grid
  std::uint64_t id = 0;      ///< the same, unlike that of any block of a launch on another device
  Dim3 index;
  const std::size_t shared_bytes;  ///< of the program, from 0 on
  /// The offset of the reserved bytes. If a program does not use them, it is beyond all of its shared memory.
  const std::size_t reserved_shared;
  std::vector<std::byte> shared;  ///< with them
  ByteSet shared_written;
  RaceShadow shared_shadow;
  std::byte* registers_of(const Warp& warp) const;
  std::deque<Warp> warps;             // which stay where they are
  std::uint32_t reduced_threads = 0;  ///< of the barrier.red that is being released: how many threads ...
  std::uint32_t reduced_true_threads = 0;  ///< ... and how many of them had a true predicate

  /// The values that change from block to block and from launch to launch (%ctaid and so on): Base::block.
  std::byte* area() { return area_.data(); }

  /// Begins anew as the block of that number.
  void start(std::uint64_t block_number, Cluster& of_cluster, std::uint32_t rank_in_cluster);
  /// Runs until all threads have returned (true), or all threads that have not are waiting for other blocks.
  bool run();
  /// Reports a block none of whose threads can ever go on, at the place of one of them.
  [[noreturn]] void report_endless(bool waits) const;

  /// Orders everything that the threads of the block have done before everything that they do from now on.
  void order();
  void forget_order();
  void begin_turn(Stamp now);

  // ---- Order, as the race shadows know it
  Stamp begin = 0;
  Stamp turn_begin = 0;
  Stamp first_turn_begin = 0;  ///< 0: there has been none
  Stamp last_barrier = 0;
  Stamps4 fence_times{};  ///< the last of its warps'
  Acquired acquired;

  // ---- Its cluster
  Cluster* cluster = nullptr;
  std::uint32_t rank = 0;       ///< in the cluster
  bool done = false;            ///< all threads have returned
  bool read_by_others = false;  ///< others of the cluster have had access to its shared memory
  /// The places of initialised mbarriers, and those of them that a fence.mbarrier_init followed: after the
  /// cluster's next barrier all threads know of these, even if they know nothing else.
  std::vector<std::size_t> initialised;
  std::vector<std::size_t> fenced;
  /// Those that a warp has initialised without a fence that bulk copies see.
  struct Initialised {
    std::size_t mbarrier = 0;
    const Warp* by = nullptr;
  };
  std::vector<Initialised> unseen_by_copies;

  // ---- Copies that are on their way
  ByteSet in_flight;   ///< of shared memory: the bytes that they will write
  ByteSet being_sent;  ///< and those that they read
  std::uint32_t flights = 0;
  std::vector<Arrival> arrivals;  ///< that mbarriers of this block wait for

  /// Threads that have arrived at a barrier without waiting there (bar.arrive).
  std::array<std::uint32_t, block_barriers> arrived{};

 private:
  bool take_turn();
  /// Lets those go on whose barrier everyone has reached. False when there are none.
  bool release_barriers();
  void release_barrier(std::uint32_t barrier);
  void pass_cluster_barrier();
  /// At its end: no other block of the cluster may still access its shared memory.
  void finish();
  [[noreturn]] void report_stuck_barrier() const;

  std::vector<std::byte> area_;
  Scratch::Piece registers_;  ///< of all warps
};

}  // namespace sim
