// SIM_COVERAGE=FOLDER: the parts of the kernels that ran, over all launches and all processes with the same
// folder. For each kernel there are two files, named by its code:
//
//   HASH.kernel   text: its name in the PTX; its name for people; a source place a line; after an empty line each instruction,
//                 as the number of its place, followed by a 'b' for a conditional branch
//   HASH.ran      a byte for each instruction: `executed`, `taken`, `passed`
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "common/sim/machine/registers.h"
#include "common/sim/runtime/runtime.h"

namespace sim {
namespace {

constexpr std::uint8_t executed = 1;
constexpr std::uint8_t taken = 2;
constexpr std::uint8_t passed = 4;

std::string describe(const Program& program) {
  std::ostringstream text;
  text << program.name << '\n' << program.demangled << '\n';
  for (const SourceLocation& location : program.locations) {
    const SourceLocation* at = &location;
    for (const char* before = "";; before = " from ") {
      const auto file = program.files.find(at->file);
      text << before << (file == program.files.end() ? "?" : file->second) << ':' << at->line;
      if (at->called_from == 0) break;
      at = &program.locations[at->called_from];
    }
    text << '\n';
  }
  text << '\n';
  for (std::size_t pc = 0; pc < program.code.size(); ++pc) {
    const bool is_conditional = program.code[pc].predicate != warp_slot::always;
    const bool is_branch = is_conditional && program.code[pc].control == Control::branch;
    text << program.location_of[pc] << (is_branch ? "b\n" : "\n");
  }
  return text.str();
}

/// The bytes of the kernel's .ran file, shared with all processes that have it open.
std::uint8_t* open_record(const std::filesystem::path& folder, const Program& program) {
  const std::string text = describe(program);
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3U;
  std::ostringstream name;
  name << std::hex << hash;
  const std::filesystem::path kernel = folder / (name.str() + ".kernel");
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!std::filesystem::exists(kernel,
                               error)) {  // moved there as a whole, in case another process does the same
    const std::filesystem::path unfinished = kernel.string() + std::to_string(getpid());
    std::ofstream(unfinished) << text;
    std::filesystem::rename(unfinished, kernel, error);
  }
  const int file = open((folder / (name.str() + ".ran")).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  void* bytes = MAP_FAILED;
  if (file >= 0 && ftruncate(file, static_cast<off_t>(program.code.size())) == 0)
    bytes = mmap(nullptr, program.code.size(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file >= 0) close(file);
  if (bytes == MAP_FAILED) {
    say("SIM_COVERAGE: cannot write to " + folder.string());
    std::exit(2);
  }
  return static_cast<std::uint8_t*>(bytes);
}

}  // namespace

void record_coverage(const Launch& done) {
  static const char* const folder = std::getenv("SIM_COVERAGE");
  if (folder == nullptr || *folder == '\0') return;
  static std::map<const Program*, std::uint8_t*> records;
  const auto [record, is_new] = records.try_emplace(&done.program);
  if (is_new) record->second = open_record(folder, done.program);
  for (std::size_t pc = 0; pc < done.counters.size(); ++pc) {
    const InstructionCounters& counted = done.counters[pc];
    const auto seen = static_cast<std::uint8_t>((done.executed[pc] > 0 ? executed : 0) |
                                                (counted.taken ? taken : 0) | (counted.passed ? passed : 0));
    std::atomic_ref<std::uint8_t> byte(record->second[pc]);
    if ((seen & ~byte.load()) != 0) byte |= seen;
  }
}

}  // namespace sim
