// Opcodes that exist for whole numbers and for floating-point ones: the part for whole numbers.
#pragma once

namespace sim {

class Assembler;

/// add, sub, mul, mad, div, rem, min, max, neg, abs of an integer type. Throws Unsupported.
void assemble_integer_arithmetic(Assembler& assembler);

}  // namespace sim
