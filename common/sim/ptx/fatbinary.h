// What nvcc embeds in an executable: a fat binary, one entry per architecture and kind of code.
#pragma once

#include <cstdint>
#include <string>

namespace sim {

struct FatBinaryPtx {
  std::string ptx;  ///< empty when there is none that can be read
  std::uint32_t architecture = 0;
  std::string why_not;  ///< without PTX: what the kernels are instead, and how to compile them
};

/// PTX text begins with its version.
bool starts_like_ptx(const std::string& text);

/// Of several architectures the newest, and none newer than `newest` (121: compute_121). `wrapper`: what
/// __cudaRegisterFatBinary is given.
FatBinaryPtx find_ptx(const void* wrapper, std::uint32_t newest);

}  // namespace sim
