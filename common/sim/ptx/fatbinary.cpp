#include "common/sim/ptx/fatbinary.h"

#include <cstddef>
#include <cstring>

namespace sim {
namespace {

// The layout is not documented; this much of it has stayed the same from CUDA 4 to 13.
struct Wrapper {
  std::uint32_t magic;
  std::uint32_t version;
  const std::byte* data;
  const void* file;
};
struct Header {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t header_bytes;
  std::uint64_t entries_bytes;
};
struct Entry {
  std::uint16_t kind;
  std::uint16_t version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;
  std::uint32_t compressed_bytes;
  std::uint32_t options_offset;
  std::uint16_t minor_version;
  std::uint16_t major_version;
  std::uint32_t architecture;
};
constexpr std::uint32_t wrapper_magic = 0x466243b1;
constexpr std::uint32_t linked_version = 2;  // written by the device linker, with the places of its parts
constexpr std::uint32_t header_magic = 0xba55ed50;
constexpr std::uint16_t ptx_kind = 1;
constexpr std::size_t flags_offset = 40;
constexpr std::uint64_t compressed_flags = 0x2000 | 0x8000;  // LZ4, Zstandard

template <class T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace

bool starts_like_ptx(const std::string& text) {
  return text.find(".version") < text.find('{');
}

FatBinaryPtx find_ptx(const void* wrapper, std::uint32_t newest) {
  const auto wrapped = read<Wrapper>(static_cast<const std::byte*>(wrapper));
  FatBinaryPtx found;
  if (wrapped.magic != wrapper_magic) {
    found.why_not = "they are in a container that the simulator does not know";
    return found;
  }
  const auto header = read<Header>(wrapped.data);
  if (header.magic != header_magic) {
    found.why_not = "they are in a fat binary that the simulator does not know";
    return found;
  }
  if (wrapped.version == linked_version) {
    found.why_not =
        "they were linked on their own (-rdc=true), which is not simulated; compile them without it, from "
        "one "
        "file";
    return found;
  }
  bool has_compressed_ptx = false;
  bool has_newer_ptx = false;
  const std::byte* at = wrapped.data + header.header_bytes;
  std::uint64_t left = header.entries_bytes;
  constexpr std::size_t least_header = flags_offset + sizeof(std::uint64_t);
  while (left >= least_header) {
    const auto entry = read<Entry>(at);
    if (entry.header_bytes < least_header || entry.header_bytes > left ||
        entry.bytes > left - entry.header_bytes)
      break;
    const auto flags = read<std::uint64_t>(at + flags_offset);
    if (entry.kind == ptx_kind && (flags & compressed_flags) != 0) {
      has_compressed_ptx = true;
    } else if (entry.kind == ptx_kind && entry.architecture > newest) {
      has_newer_ptx = true;
    } else if (entry.kind == ptx_kind && entry.architecture >= found.architecture) {
      const auto* text = reinterpret_cast<const char*>(at + entry.header_bytes);
      std::string ptx(text, strnlen(text, entry.bytes));
      if (starts_like_ptx(ptx)) {
        found.ptx = std::move(ptx);
        found.architecture = entry.architecture;
      } else {
        has_compressed_ptx = true;
      }
    }
    at += entry.header_bytes + entry.bytes;
    left -= entry.header_bytes + entry.bytes;
  }
  if (found.ptx.empty()) {
    found.why_not = has_compressed_ptx ? "their PTX is compressed; compile with --no-compress"
                    : has_newer_ptx
                        ? "their PTX is for newer GPUs than SIM_COMPUTE_CAPABILITY says"
                        : "they are machine code without PTX; compile for a virtual architecture, too "
                          "(-arch=compute_90)";
  }
  return found;
}

}  // namespace sim
