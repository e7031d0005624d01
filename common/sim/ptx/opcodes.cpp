#include "common/sim/ptx/opcodes.h"

#include <array>
#include <unordered_map>

namespace sim {
namespace {

using Index = std::unordered_map<std::string_view, const OpcodeEntry*>;

Index make_index() {
  Index index;
  for (const OpcodeTable& table :
       {integer_opcodes(), float_opcodes(), comparison_opcodes(), conversion_opcodes(), move_opcodes(),
        memory_opcodes(), atomic_opcodes(), warp_opcodes(), async_opcodes(), matrix_opcodes()}) {
    for (const OpcodeEntry* entry = table.begin; entry != table.end; ++entry) index[entry->name] = entry;
  }
  return index;
}

}  // namespace

const OpcodeEntry* find_opcode(std::string_view name) {
  static const Index index = make_index();
  const auto found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

}  // namespace sim
