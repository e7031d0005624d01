// The numbers that an exercise fixes or bounds: each is a formula of the simulator's counts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/harness/problem.h"
#include "common/sim/counters.h"

enum class Counter {
  kernels,
  read_passes,      ///< bytes loaded / bytes of the matrix
  written_passes,   ///< bytes stored / bytes of the matrix
  load_bytes,       ///< bytes per load request of a warp: 128 if each of 32 lanes loads a float of its own
  store_bytes,      ///< the same for stores
  load_sectors,     ///< 32-byte sectors per load request
  store_sectors,    ///< the same for stores
  shared_accesses,  ///< requests to shared memory per row
  bank_conflicts,   ///< per row
  barriers,         ///< per row
  shuffles,         ///< per row
  exponentials,     ///< per element
  instructions,     ///< warp instructions per 32 elements
  copied_passes,    ///< of the passes of reading those by cp.async
};

/// "passes of reading", as in "3 passes of reading were counted"
const char* name(Counter counter);

/// A number as the messages print it: at most two decimals, none where it is whole.
std::string number(double value);

/// True for nvcc's own headers: shuffles and much of the arithmetic are inlined through them.
bool is_header_of_nvcc(const std::string& file);

/// True for a kernel's name, a path or a report that names a library which does the work: CUB, Thrust, and
/// the reductions of cooperative groups. The barriers, shuffles and addresses of cooperative groups are
/// allowed: they are CUDA's own under another name.
bool names_library(const std::string& text);

/// The counts of one run of a launcher.
struct Counts {
  /// A source line and its part.
  struct Line {
    std::string file;
    unsigned line = 0;
    SimCounters counters{};
    bool in_library = false;  ///< a library's, or inlined into one: see names_library()
  };

  Shape shape;
  std::vector<std::string> kernels;  ///< in the order of their launches, without template arguments
  unsigned block_size = 0;           ///< threads of a block, in the last launch
  SimCounters total{};
  std::vector<Line> lines;

  [[nodiscard]] double operator[](Counter counter) const;
  /// The lines that do most of it, at most `most` and none with less than 2 % of the first.
  [[nodiscard]] std::vector<Line> worst_lines(Counter counter, std::size_t most) const;
  [[nodiscard]] double of_line(Counter counter, const Line& line) const;
};

/// Runs `launch` under the simulator; a CudaError passes through.
Counts count(Shape shape, const std::function<void()>& launch);
