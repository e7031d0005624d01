// What nvcc embeds in an executable: a fat binary, one entry per architecture and kind of code.
#pragma once

#include <cstdint>
#include <string>

namespace sim {

struct FatBinaryPtx {
  std::string ptx;  ///< of the newest architecture; empty when there is none that can be read
  std::uint32_t architecture = 0;
  std::string why_not;  ///< without PTX: what the kernels are instead, and how to compile them
};

/// PTX text begins with its version.
bool starts_like_ptx(const std::string& text);

/// `wrapper`: what __cudaRegisterFatBinary is given.
FatBinaryPtx find_ptx(const void* wrapper);

}  // namespace sim
