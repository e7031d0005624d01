// The fat binary that nvcc embeds in an executable: one entry per architecture and kind of code.
#pragma once

#include <cstdint>
#include <string>

namespace sim {

struct FatBinaryPtx {
  std::string ptx;  ///< empty when there is none that can be read
  std::uint32_t architecture = 0;
  std::string why_not;  ///< without PTX: the kind of code there is instead, and how to compile the kernels
};

/// PTX text begins with its version.
bool starts_like_ptx(const std::string& text);

/// The PTX of the newest architecture that is not newer than `newest` (121: compute_121). `wrapper`: the
/// argument of __cudaRegisterFatBinary.
FatBinaryPtx find_ptx(const void* wrapper, std::uint32_t newest);

}  // namespace sim
