// Constants in the definitions of the operations.
#pragma once

#include <cuda/std/cstdint>

inline constexpr std::int64_t ignored_label = -100;  ///< a row with this label has loss and gradient 0
/// The fraction of the target that is spread over all columns.
inline constexpr double label_smoothing = 0.1;

inline constexpr float attention_scale = 0.125F;    ///< 1 / sqrt(64), for heads of 64 columns
inline constexpr unsigned dropped_of_65536 = 6554;  ///< a tenth of the elements are dropped
