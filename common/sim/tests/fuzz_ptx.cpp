// Fuzzes the reader of executables' kernels: whatever the bytes are, it says what is wrong with them and goes on.
//
//   build/common/sim/tests/fuzz_ptx -max_total_time=600 build/fuzz common/sim/tests/fuzz_corpus
//
// The first byte chooses: PTX text, or a fat binary, whose header and entries follow. New inputs go into the first folder.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "common/sim/machine/memory.h"
#include "common/sim/ptx/fatbinary.h"
#include "common/sim/ptx/lexer.h"
#include "common/sim/ptx/module.h"

namespace {

void parse(std::string text) {
  sim::GlobalMemory memory(std::size_t{1} << 24U);
  sim::Module module(std::move(text));
  try {
    module.parse_all(memory);
  } catch (const sim::PtxError&) {  // expected if the text is not PTX
  }
}

/// The wrapper's pointer leads to the bytes. A header that promises more bytes than there are cannot be told from a right
/// one, because nothing else says how many there are: it is made to promise at most these.
void read_fat_binary(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint32_t wrapper_magic = 0x466243b1;
  constexpr std::size_t header_bytes = 16;
  std::vector<std::uint8_t> bytes(data, data + size);
  if (bytes.size() < header_bytes) return;
  std::uint16_t to_entries = 0;
  std::uint64_t entries = 0;
  std::memcpy(&to_entries, bytes.data() + 6, sizeof to_entries);
  std::memcpy(&entries, bytes.data() + 8, sizeof entries);
  if (to_entries > bytes.size()) return;
  entries = std::min<std::uint64_t>(entries, bytes.size() - to_entries);
  std::memcpy(bytes.data() + 8, &entries, sizeof entries);
  struct Wrapper {
    std::uint32_t magic;
    std::uint32_t version;
    const void* data;
    const void* file;
  };
  const Wrapper wrapper{wrapper_magic, 1, bytes.data(), nullptr};
  const sim::FatBinaryPtx found = sim::find_ptx(&wrapper, 90);
  if (!found.ptx.empty()) parse(found.ptx);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  if (data[0] == 'F') {
    read_fat_binary(data + 1, size - 1);
  } else {
    parse(std::string(reinterpret_cast<const char*>(data), size));
  }
  return 0;
}
