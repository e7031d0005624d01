// From the stages warp_reduce and online: the choice at run time among tiles that are constants of a kernel.
#pragma once

#include <cuda/std/cstdint>
#include <stdexcept>
#include <string>

/// Calls launch.template operator()<tile>() with the first tile that fits rows of `cols` columns. Throws
/// std::invalid_argument if none does.
template <auto... tiles, class Launch>
void with_first_tile_that_fits(std::int64_t cols, Launch launch) {
  const bool launched = ((tiles.fits(cols) && (launch.template operator()<tiles>(), true)) || ...);
  if (!launched) throw std::invalid_argument("no tile holds a row of " + std::to_string(cols) + " columns");
}
