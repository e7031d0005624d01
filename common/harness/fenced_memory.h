// Device memory between two fences, which reveal every write next to it.
#pragma once

#include <cstddef>
#include <string>

#include "common/harness/cuda_handles.h"

/// `bytes` of device memory, all of it poison at first. Its surroundings are poison as well: a read past the
/// end yields NaN, and a write past the end is seen.
class FencedMemory {
 public:
  /// The memory starts `offset_bytes` after an address aligned to 256 bytes.
  explicit FencedMemory(std::size_t bytes, std::size_t offset_bytes = 0, int device = 0);
  [[nodiscard]] void* data() const { return static_cast<char*>(memory_.get()) + front_bytes_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// Fills the memory and its fences with poison; returns when done.
  void poison();
  /// "", or a message saying which fence was written, and how far from the memory, which the message calls
  /// `what`. `used`: the fence at the end starts after this many bytes.
  [[nodiscard]] std::string broken_fence(const std::string& what, std::size_t used) const;
  [[nodiscard]] std::string broken_fence(const std::string& what) const { return broken_fence(what, bytes_); }
  /// Bytes of each of the two fences.
  static constexpr std::size_t fence_bytes = 4096;

 private:
  std::size_t front_bytes_;
  std::size_t bytes_;
  int device_;
  DeviceMemory memory_;
};
