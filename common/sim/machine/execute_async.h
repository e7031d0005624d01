// Opcodes that exist for loads and stores at once and for those that go on by themselves: the part for the latter.
#pragma once

namespace sim {

class Assembler;

/// st.async and red.async. Throws Unsupported.
void assemble_async_send(Assembler& assembler);

}  // namespace sim
