#include "common/harness/fenced_memory.h"

#include <vector>

#include "common/harness/simulator.h"
#include "common/harness/streams.h"
#include "common/harness/verify.h"

FencedMemory::FencedMemory(std::size_t bytes, std::size_t offset_bytes, int device)
    : front_bytes_(fence_bytes + offset_bytes), bytes_(bytes), device_(device) {
  const CurrentDevice current(device);
  memory_ = allocate_device(front_bytes_ + bytes + fence_bytes);
  poison();
}

void FencedMemory::poison() {
  const CurrentDevice current(device_);
  const std::size_t bytes = front_bytes_ + bytes_ + fence_bytes;
  CUDA_CHECK(cudaMemset(memory_.get(), poison_byte, bytes));
  CUDA_CHECK(cudaDeviceSynchronize());
  if (simulator() != nullptr) simulator()->forget(memory_.get(), bytes);  // reading poison is then a fault
}

std::string FencedMemory::broken_fence(const std::string& what, std::size_t used) const {
  const auto intact_bytes = [](const void* fence, std::size_t bytes, bool backwards) {
    std::vector<unsigned char> copy(bytes);
    CUDA_CHECK(cudaMemcpy(copy.data(), fence, bytes, cudaMemcpyDeviceToHost));
    // Compared as a whole: byte by byte it took a quarter of the time of a simulated run of small shapes.
    if (copy == std::vector<unsigned char>(bytes, poison_byte)) return bytes;
    std::size_t intact = 0;
    while (intact < bytes && copy[backwards ? bytes - 1 - intact : intact] == poison_byte) ++intact;
    return intact;
  };
  const std::size_t before = intact_bytes(memory_.get(), front_bytes_, true);
  if (before < front_bytes_) {
    return "wrote " + std::to_string(before + 1) + " bytes before the " + what + "'s start";
  }
  const std::size_t after = intact_bytes(static_cast<char*>(data()) + used, fence_bytes, false);
  if (after < fence_bytes) return "wrote " + std::to_string(after + 1) + " bytes past the " + what + "'s end";
  return "";
}
