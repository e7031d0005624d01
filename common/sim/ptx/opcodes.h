// The tables of opcodes: how each is turned into an Instruction. A file execute_*.cpp holds the entries and
// the functions for one group.
#pragma once

#include <string_view>

#include "common/sim/ptx/assembler.h"

namespace sim {

struct OpcodeEntry {
  std::string_view name;
  /// Chooses the handler and places the operands; throws Unsupported for a form that it does not know.
  void (*assemble)(Assembler&);
};

struct OpcodeTable {
  const OpcodeEntry* begin = nullptr;
  const OpcodeEntry* end = nullptr;
};
OpcodeTable integer_opcodes();
OpcodeTable float_opcodes();
OpcodeTable comparison_opcodes();
OpcodeTable conversion_opcodes();
OpcodeTable move_opcodes();
OpcodeTable memory_opcodes();
OpcodeTable atomic_opcodes();
OpcodeTable warp_opcodes();
OpcodeTable async_opcodes();
OpcodeTable matrix_opcodes();

/// Null for an opcode that is in no table.
const OpcodeEntry* find_opcode(std::string_view name);

/// `call` of a function that the device's runtime library provides (vprintf, __assertfail); null when there
/// is no such function. Operands: the local offsets of the parameters as constants, then that of the result.
Handler find_builtin(std::string_view name);

}  // namespace sim
