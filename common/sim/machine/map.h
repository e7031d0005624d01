// Applies a function of one lane's values to all lanes of a warp, as most handlers do.
//
// The loops run over plain arrays, so that compilers turn them into vector instructions. A destination may be
// the same register as a source, which is fine lane by lane: hence the pragma that promises it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "common/sim/machine/lanes.h"
#include "common/sim/machine/warp.h"

#if defined(__clang__)
#define SIM_INDEPENDENT_LANES _Pragma("clang loop vectorize(assume_safety)")
#else
#define SIM_INDEPENDENT_LANES _Pragma("GCC ivdep")
#endif

namespace sim {

/// to[lane] = function(lane) for each lane of the mask. Function may be called for the others, too.
template <class To, class Function>
inline void for_lanes(To* to, LaneMask lanes, Function function) {
  constexpr int few = 4;
  if (lanes == all_lanes) {
    SIM_INDEPENDENT_LANES
    for (int lane = 0; lane < warp_size; ++lane) to[lane] = function(lane);
  } else if (std::popcount(lanes) <= few) {
    for_each_lane(lanes, [&](int lane) { to[lane] = function(lane); });
  } else {
    SIM_INDEPENDENT_LANES
    for (int lane = 0; lane < warp_size; ++lane) {
      const To value = function(lane);
      to[lane] = (lanes >> static_cast<unsigned>(lane) & 1U) != 0 ? value : to[lane];
    }
  }
}

/// operands[0] = function(operands[1], ...), with one source for each type of `From`.
template <class To, class... From, class Function>
inline void map(Warp& warp, const Instruction& instruction, LaneMask lanes, Function function) {
  const auto with = [&]<std::size_t... index>(std::index_sequence<index...>) {
    const auto run = [&](const From*... from) {
      for_lanes(warp.lanes_of<To>(instruction.operands[0]), lanes,
                [=](int lane) { return static_cast<To>(function(from[lane]...)); });
    };
    run(warp.lanes_of<From>(instruction.operands[index + 1])...);
  };
  with(std::index_sequence_for<From...>());
}

/// Handlers made of a function object type, here from values of other types than the result has ...
template <class Function, class To, class... From>
[[gnu::flatten]] void mapped(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  map<To, From...>(warp, instruction, lanes, Function{});
}
/// ... and here Function{}(T, ...) -> T, with as many sources as it takes.
template <class Function, class T>
[[gnu::flatten]] void unary(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  map<T, T>(warp, instruction, lanes, Function{});
}
template <class Function, class T>
[[gnu::flatten]] void binary(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  map<T, T, T>(warp, instruction, lanes, Function{});
}
template <class Function, class T>
[[gnu::flatten]] void ternary(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  map<T, T, T, T>(warp, instruction, lanes, Function{});
}

}  // namespace sim
