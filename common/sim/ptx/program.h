// A kernel as the interpreter runs it: every operand an offset, every branch target a number, every
// instruction a function. Nothing in here is looked up by name while a kernel runs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/sim/ptx/types.h"

namespace sim {

/// One bit per lane of a warp.
using LaneMask = std::uint32_t;
inline constexpr int warp_size = 32;
inline constexpr LaneMask all_lanes = 0xffffffff;

/// The words by which an instruction is counted; see counters.h for their units.
enum class InstructionClass : std::uint8_t {
  plain,
  shuffle,
  vote,
  barrier,
  warp_barrier,
  exp2,
  special_function,
  atomic,
  async_copy,  ///< cp.async: a load of global memory and a store to shared memory
  mbarrier,    ///< made, arrived at, asked: counted as plain, not as an access to shared memory
  // Counted as plain; a trace tells them apart.
  bulk_copy,
  async_store,      ///< st.async, red.async
  cluster_barrier,  ///< arriving there
};

/// The place of a value: an array of 32 lanes at an offset from one of these bases. A predicate is one
/// LaneMask.
enum class Base : std::uint8_t {
  warp,       ///< the warp's registers, and values that are constant for a warp's whole life (%tid)
  constants,  ///< immediate operands of the kernel
  block,      ///< values that change from block to block and from launch to launch (%ctaid, %nctaid, %ntid)
};
struct Operand {
  std::uint32_t offset = 0;
  Base base = Base::warp;
  std::uint8_t bytes = 0;  ///< of one lane
};

enum class MemorySpace : std::uint8_t { generic, global, shared, local, constant, parameter };

enum class Rounding : std::uint8_t { nearest, zero, down, up };

/// How the scheduler treats an instruction.
enum class Control : std::uint8_t {
  none,          ///< calls the handler and goes on
  branch,        ///< goes to `target`
  call,          ///< goes to `target`, the beginning of a function, with the arguments of calls[immediate]
  ret,           ///< goes on after the call, with its results
  exit,          ///< ends the lanes
  warp_sync,     ///< calls the handler when all lanes of the mask in operand `mask` have arrived
  barrier,       ///< waits for the block
  cluster_wait,  ///< waits for the cluster
};

class Warp;
struct Instruction;
using Handler = void (*)(Warp&, const Instruction&, LaneMask);

/// Bytes of a block's shared memory that are reserved in addition to the program's.
inline constexpr std::size_t reserved_shared_bytes = 1024;

inline constexpr std::size_t max_operands = 9;
/// In Instruction::results, of a matrix instruction: registers are written that are not among its operands.
inline constexpr std::uint16_t more_results = 1U << max_operands;

/// The threads that a strong access or a fence reaches: those of the block, of its cluster, of the device, or all.
enum class Scope : std::uint8_t { block, cluster, device, system };
inline constexpr std::size_t num_scopes = 4;

/// Two cache lines, of which most instructions need the first alone.
struct alignas(64) Instruction {
  Handler handler = nullptr;
  std::int64_t immediate = 0;  ///< byte offset of an address; table or truth value of lop3
  std::uint32_t predicate =
      0;                ///< offset of the LaneMask of the lanes that execute this, among the warp's registers
  LaneMask negate = 0;  ///< all ones for @!
  Control control = Control::none;
  InstructionClass counted_as = InstructionClass::plain;
  MemorySpace space = MemorySpace::generic;
  Rounding rounding = Rounding::nearest;
  std::uint8_t vector = 1;        ///< values of one lane in a memory access
  std::uint8_t access_bytes = 0;  ///< of one lane in a memory access, all values together
  std::uint8_t option = 0;        ///< meaning is the handler's
  Scope scope = Scope::device;    ///< of a strong access or a fence
  bool flush_to_zero : 1 = false;
  bool saturate : 1 = false;
  bool strong : 1 =
      false;  ///< volatile, relaxed, acquire, release: may meet others of its kind without a race
  bool acquires : 1 = false;  ///< acquires the knowledge released at the address that it reads
  bool releases : 1 = false;  ///< releases the accesses before it
  bool selects : 1 = false;   ///< operands[1] or, without operands[3], operands[2]
  std::array<Operand, max_operands> operands{};
  /// One bit per operand that is written, except for predicates; see more_results.
  std::uint16_t results = 0;
  std::uint32_t target = 0;  ///< of a branch; of a matrix instruction, its first in Program::more_operands
  std::array<std::int64_t, 2> more_immediates{};  ///< byte offsets of a second and a third address
};

/// A place in the source. Code that was inlined at two places has two locations, which differ in where it is
/// called from.
struct SourceLocation {
  std::uint32_t file = 0;
  std::uint32_t line = 0;  ///< 0: unknown
  std::uint32_t column = 0;
  std::uint32_t called_from = 0;  ///< index of the location at which this was inlined; 0: it was not
  // NOLINTNEXTLINE(modernize-use-nullptr): there is no pointer
  friend auto operator<=>(const SourceLocation&, const SourceLocation&) = default;
};

/// The copies of a call before a function begins and when it returns, within the lane's local memory.
struct Call {
  struct Copy {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::uint32_t bytes = 0;
  };
  std::vector<Copy> arguments;
  std::vector<Copy> results;
};

struct Parameter {
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
};

/// A __shared__ array or variable of a kernel; not the dynamic part, whose size a launch says.
struct SharedVariable {
  std::string name;  ///< as in the source
  std::uint32_t begin = 0;
  std::uint32_t bytes = 0;
};

struct Program {
  std::string name;       ///< as in the PTX
  std::string demangled;  ///< for people; without the parameter list
  std::vector<Instruction> code;
  std::vector<Operand> more_operands;      ///< of instructions that have more than max_operands
  std::vector<std::uint32_t> location_of;  ///< index into locations, one per instruction
  std::vector<SourceLocation> locations;   ///< the first is the unknown one
  std::map<std::uint32_t, std::string> files;
  std::vector<std::string> unknown;  ///< instructions that this does not know, with their lines
  std::vector<Call> calls;
  std::vector<Parameter> parameters;
  std::uint32_t parameter_bytes = 0;
  std::uint32_t register_bytes = 0;  ///< of one warp
  std::vector<std::byte> constants;
  std::uint32_t static_shared_bytes = 0;
  bool uses_reserved_shared = false;
  std::vector<SharedVariable> shared_variables;
  std::uint32_t local_bytes = 0;        ///< of one lane
  std::uint32_t max_block_threads = 0;  ///< .maxntid; 0: not declared
  /// Blocks may have to do with one another: atomics, flags, clusters, output, time. Also set when they turned out to.
  mutable bool blocks_meet = false;
  std::array<std::uint32_t, 3> cluster{};  ///< .reqnctapercluster; 0: not declared

  /// The text of an index into locations: "file:line", innermost first; after `separator`, the place of each
  /// inlined call; "" if unknown.
  [[nodiscard]] std::string describe_location(std::uint32_t location,
                                              const char* separator = "\n    called from ") const;
};

}  // namespace sim
