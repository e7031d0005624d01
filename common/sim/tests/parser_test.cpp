// Lexer, module and parser: PTX from nvcc, PTX written by hand, and text that is not PTX.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "common/sim/machine/memory.h"
#include "common/sim/machine/warp.h"
#include "common/sim/ptx/fatbinary.h"
#include "common/sim/ptx/lexer.h"
#include "common/sim/ptx/module.h"

namespace sim {
namespace {

constexpr const char* header = ".version 8.0\n.target sm_90\n.address_size 64\n";  // three lines

std::vector<std::string> words_of(const std::string& text) {
  Lexer lexer(text);
  std::vector<std::string> words;
  for (std::string_view word = lexer.next(); !word.empty(); word = lexer.next()) words.emplace_back(word);
  return words;
}

/// A module and the memory of its variables.
struct Parsed {
  explicit Parsed(std::string text) : module(std::move(text)) {}

  const Program& kernel(const std::string& name = "k") { return module.kernel(name, memory); }

  /// The first `T` of a variable.
  template <class T>
  T value_of(const std::string& variable, std::size_t index = 0) {
    T value{};
    const std::uint64_t address = module.variable_address(variable, memory);
    EXPECT_TRUE(memory.copy_out(&value, address + index * sizeof value, sizeof value)) << variable;
    return value;
  }

  GlobalMemory memory{std::size_t{1} << 20U};
  Module module;
};

/// Kernel k, whose body begins on line 6.
std::string kernel_of(const std::string& body) {
  return std::string(header) + ".visible .entry k(.param .u64 x)\n{\n" + body + "\nret;\n}\n";
}
constexpr int first_body_line = 6;

/// The only thing that its parsing says.
std::string error_of(const std::string& text) {
  try {
    Parsed parsed(text);
    parsed.module.parse_all(parsed.memory);
  } catch (const PtxError& error) {
    return error.what();
  }
  return "no error";
}

/// Gives the first instruction of a body that needs registers of some types.
Instruction instruction_of(const std::string& statement) {
  Parsed parsed(
      kernel_of(".reg .pred %p<3>; .reg .b32 %r<5>; .reg .b64 %rd<3>; .reg .f32 %f<2>; .reg .f64 %fd<2>;\n" +
                statement));
  const Program& program = parsed.kernel();
  EXPECT_TRUE(program.unknown.empty()) << program.unknown.front();
  return program.code.front();
}

/// The constant that a statement's second operand is.
std::uint64_t constant_of(const std::string& statement) {
  Parsed parsed(
      kernel_of(".reg .b32 %r<5>; .reg .b64 %rd<3>; .reg .f32 %f<2>; .reg .f64 %fd<2>; .reg .b16 %rs<2>;\n" +
                statement));
  const Program& program = parsed.kernel();
  const Operand& source = program.code.at(0).operands[1];
  EXPECT_EQ(source.base, Base::constants) << statement;
  std::uint64_t value = 0;
  std::memcpy(&value, program.constants.data() + source.offset, source.bytes);
  return value;
}

// ---- Lexer

TEST(Lexer, CutsWords) {
  const std::vector<std::string> expected{"@", "!",   "%p1", "ld.global.nc.L1::no_allocate.v2.f32",
                                          "{", "%f1", ",",   "%f2",
                                          "}", ",",   "[",   "%rd1",
                                          "+", "-",   "8",   "]",
                                          ";"};
  EXPECT_EQ(words_of("@!%p1 ld.global.nc.L1::no_allocate.v2.f32 {%f1,%f2}, [%rd1+-8];"), expected);
}
TEST(Lexer, DirectivesNeedNoBlank) {
  EXPECT_EQ(words_of(".reg.b32 %r;"), (std::vector<std::string>{".reg", ".b32", "%r", ";"}));
}
TEST(Lexer, LabelsEndWithOneColon) {
  EXPECT_EQ(words_of("$L__BB0_1: ret;"), (std::vector<std::string>{"$L__BB0_1", ":", "ret", ";"}));
}
TEST(Lexer, SkipsComments) {
  EXPECT_EQ(words_of("a // b\nc /* d\n * e */ f /**/ g // h"),
            (std::vector<std::string>{"a", "c", "f", "g"}));
}
TEST(Lexer, KeepsStringsWhole) {
  EXPECT_EQ(words_of(".file 1 \"a b/c.cu\", 7"),
            (std::vector<std::string>{".file", "1", "\"a b/c.cu\"", ",", "7"}));
}
TEST(Lexer, NothingIsNoWord) {
  EXPECT_TRUE(words_of("").empty());
  EXPECT_TRUE(words_of(" \n\t// only a comment").empty());
}
TEST(Lexer, RefusesWhatIsNotClosed) {
  EXPECT_THROW(words_of("a /* b"), PtxError);
  EXPECT_THROW(words_of("a /*/"), PtxError);
  EXPECT_THROW(words_of("\"abc"), PtxError);
  EXPECT_THROW(words_of("\""), PtxError);
}

// ---- Numbers

TEST(Numbers, WholeOnes) {
  EXPECT_EQ(parse_number("0").bits, 0U);
  EXPECT_EQ(parse_number("42").bits, 42U);
  EXPECT_EQ(parse_number("42U").bits, 42U);
  EXPECT_EQ(parse_number("0x1fU").bits, 31U);
  EXPECT_EQ(parse_number("0XFFFFFFFFFFFFFFFF").bits, ~std::uint64_t{0});
  EXPECT_EQ(parse_number("017").bits, 15U);
  EXPECT_EQ(parse_number("0b101").bits, 5U);
  EXPECT_EQ(parse_number("18446744073709551615").bits, ~std::uint64_t{0});
}
TEST(Numbers, FloatingPointOnes) {
  const PtxNumber single = parse_number("0f3F800000");
  EXPECT_TRUE(single.is_float);
  EXPECT_EQ(single.bits, 0x3f800000U);
  const PtxNumber twice = parse_number("0dBFF0000000000000");
  EXPECT_TRUE(twice.is_double);
  EXPECT_EQ(twice.bits, 0xbff0000000000000U);
  EXPECT_EQ(std::bit_cast<double>(parse_number("2.5").bits), 2.5);
}
TEST(Numbers, RefusesOthers) {
  for (const char* text :
       {"", "0x", "12a", "08", "0b2", "0fXYZ", "1.5.2", "18446744073709551616", "-1", "x"}) {
    EXPECT_THROW(parse_number(text), PtxError) << text;
  }
  EXPECT_THROW(parse_unsigned("1.5"), PtxError);
}
TEST(Numbers, TakeTheTypeOfTheirUse) {
  EXPECT_EQ(constant_of("mov.u32 %r1, -1;"), 0xffffffffU);
  EXPECT_EQ(constant_of("mov.b16 %rs1, -2;"), 0xfffeU);
  EXPECT_EQ(constant_of("mov.b64 %rd1, -2;"), 0xfffffffffffffffeU);
  EXPECT_EQ(constant_of("mov.f32 %f1, 0f40490FDB;"), 0x40490fdbU);
  EXPECT_EQ(constant_of("mov.f32 %f1, -0f40490FDB;"), 0xc0490fdbU);
  EXPECT_EQ(constant_of("mov.f32 %f1, 0d3FF8000000000000;"), 0x3fc00000U);
  EXPECT_EQ(constant_of("mov.f32 %f1, 1.5;"), 0x3fc00000U);
  EXPECT_EQ(constant_of("mov.f32 %f1, 2;"), 0x40000000U);
  EXPECT_EQ(constant_of("mov.f64 %fd1, 0f3FC00000;"), 0x3ff8000000000000U);
  EXPECT_EQ(constant_of("mov.f64 %fd1, -1.5;"), 0xbff8000000000000U);
  EXPECT_EQ(constant_of("mov.b32 %r1, 0f3FC00000;"), 0x3fc00000U);
  EXPECT_EQ(constant_of("mov.u32 %r1, WARP_SZ;"), 32U);
}

// ---- Module

TEST(ModuleTest, FindsKernelsFunctionsAndVariables) {
  Parsed parsed(std::string(header) + R"(
    .file 1 "a/b.cu"
    .file 2 "c d.h", 1234, 99
    .extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
    .func (.param .b32 r) f(.param .b32 a) { .reg .b32 %r; ld.param.b32 %r, [a]; st.param.b32 [r], %r; ret; }
    .global .align 4 .u32 g = 7;
    .extern .shared .align 16 .b8 s[];
    .visible .entry k(.param .u64 x) .maxntid 128, 2, 1 .minnctapersm 1 { ret; }
    .section .debug_str { .b8 1,2 { } }
    .pragma "nounroll";
  )");
  EXPECT_TRUE(parsed.module.has_kernel("k"));
  EXPECT_FALSE(parsed.module.has_kernel("f"));
  EXPECT_FALSE(parsed.module.has_kernel("vprintf"));
  EXPECT_NE(parsed.module.function("f"), nullptr);
  EXPECT_EQ(parsed.module.function("vprintf"), nullptr);
  EXPECT_EQ(parsed.module.files().at(1), "a/b.cu");
  EXPECT_EQ(parsed.module.files().at(2), "c d.h");
  EXPECT_EQ(parsed.module.variable("s")->bytes, 0U);
  EXPECT_EQ(parsed.kernel().max_block_threads, 256U);
}
TEST(ModuleTest, InitialisesVariables) {
  Parsed parsed(std::string(header) + R"(
    .global .align 4 .u32 one = 7;
    .const .s16 some[4] = {1, -2};
    .global .f32 floats[3] = {0f3F800000, 1.5, -2};
    .global .f64 doubles[2] = {-0.25, 0d3FF0000000000000};
    .global .align 8 .b8 bytes[2][2] = {{1, 0x2}, {3, 255}};
    .global .b64 none;
  )");
  EXPECT_EQ(parsed.value_of<std::uint32_t>("one"), 7U);
  EXPECT_EQ(parsed.value_of<std::int16_t>("some", 1), -2);
  EXPECT_EQ(parsed.value_of<std::int16_t>("some", 3), 0);
  EXPECT_EQ(parsed.value_of<float>("floats", 0), 1.F);
  EXPECT_EQ(parsed.value_of<float>("floats", 1), 1.5F);
  EXPECT_EQ(parsed.value_of<float>("floats", 2), -2.F);
  EXPECT_EQ(parsed.value_of<double>("doubles", 0), -0.25);
  EXPECT_EQ(parsed.value_of<double>("doubles", 1), 1.);
  EXPECT_EQ(parsed.value_of<std::uint8_t>("bytes", 3), 255);
  EXPECT_EQ(parsed.value_of<std::uint64_t>("none"), 0U);
  EXPECT_EQ(parsed.module.variable_address("absent", parsed.memory), 0U);
}
TEST(ModuleTest, RefusesWrongVariables) {
  Parsed parsed(std::string(header) + ".global .b8 x[1] = {1, 2};\n.global .u64 y = x;\n");
  EXPECT_THROW(parsed.module.variable_address("x", parsed.memory), PtxError);
  try {
    parsed.module.variable_address("y", parsed.memory);
    ADD_FAILURE() << "the address of another was read as a number";
  } catch (const PtxError& error) {
    EXPECT_NE(std::string(error.what()).find("the address of x in an initialiser"), std::string::npos)
        << error.what();
  }
}

// ---- Kernels

TEST(Parser, PlacesParameters) {
  Parsed parsed(
      std::string(header) +
      ".entry k(.param .u8 a, .param .u64 .ptr .global .align 16 b, .param .align 4 .b8 c[12]) { ret; }");
  const Program& program = parsed.kernel();
  ASSERT_EQ(program.parameters.size(), 3U);
  EXPECT_EQ(program.parameters[0].offset, 0U);
  EXPECT_EQ(program.parameters[1].offset, 8U);
  EXPECT_EQ(program.parameters[2].offset, 16U);
  EXPECT_EQ(program.parameters[2].bytes, 12U);
  EXPECT_EQ(program.parameter_bytes, 28U);
}
TEST(Parser, Addresses) {
  EXPECT_EQ(instruction_of("ld.global.b32 %r1, [%rd1];").immediate, 0);
  EXPECT_EQ(instruction_of("ld.global.b32 %r1, [%rd1+12];").immediate, 12);
  EXPECT_EQ(instruction_of("ld.global.b32 %r1, [%rd1+-12];").immediate, -12);
  EXPECT_EQ(instruction_of("ld.global.b32 %r1, [%rd1-0x10];").immediate, -16);
  EXPECT_EQ(instruction_of("ld.shared.b32 %r1, [64];").immediate, 64);
  EXPECT_EQ(instruction_of("ld.shared.b32 %r1, [%r2+4];").immediate, 4);
}
TEST(Parser, Vectors) {
  const Instruction load = instruction_of("ld.global.v4.b32 {%r1, _, %r3, %r4}, [%rd1];");
  EXPECT_EQ(load.vector, 4);
  EXPECT_EQ(load.access_bytes, 16);
  EXPECT_NE(load.operands[1].offset, load.operands[0].offset);
  EXPECT_EQ(instruction_of("mov.b64 %rd1, {%r1, %r2};").operands[2].bytes, 4);
}
TEST(Parser, Predicates) {
  const Instruction plain = instruction_of("mov.b32 %r1, 0;");
  const Instruction when = instruction_of("@%p1 mov.b32 %r1, 0;");
  const Instruction unless = instruction_of("@!%p1 mov.b32 %r1, 0;");
  EXPECT_NE(plain.predicate, when.predicate);
  EXPECT_EQ(when.predicate, unless.predicate);
  EXPECT_EQ(when.negate, 0U);
  EXPECT_EQ(unless.negate, all_lanes);
}
TEST(Parser, LabelsAndBranches) {
  Parsed parsed(
      kernel_of(".reg .pred %p;\n$back: @%p bra $end;\nbra.uni $back;\n{ $inner: bra $inner; }\n$end:"));
  const Program& program = parsed.kernel();
  EXPECT_EQ(program.code.at(0).target, 3U);
  EXPECT_EQ(program.code.at(1).target, 0U);
  EXPECT_EQ(program.code.at(2).target, 2U);
}
TEST(Parser, NamesOfAnInnerScopeEndWithIt) {
  Parsed parsed(kernel_of(".reg .b32 %r1;\n{ .reg .b32 %r1, %t; mov.b32 %t, %r1; }\nmov.b32 %r1, 1;"));
  const Program& program = parsed.kernel();
  EXPECT_NE(program.code.at(0).operands[1].offset, program.code.at(1).operands[0].offset);
  EXPECT_EQ(Parsed(kernel_of("{ .reg .b32 %t; }\nmov.b32 %t, 1;")).kernel().unknown.size(), 1U);
}
TEST(Parser, Locations) {
  Parsed parsed(std::string(header) + R"(
    .file 1 "/x/a.cu"
    .file 2 "/x/b.h"
    .entry k()
    {
      .reg .b32 %r;
      .loc 1 10 3
      mov.b32 %r, 0;
      .loc 2 20 5, function_name $L__info_string0+4, inlined_at 1 11 7
      mov.b32 %r, 1;
      .loc 1 12 3
      mov.b32 %r, 2;
      .loc 1 0 3
      mov.b32 %r, 3;
      .loc 2 0 5, function_name $L__info_string0+4, inlined_at 1 13 7
      mov.b32 %r, 4;
      ret;
    })");
  const Program& program = parsed.kernel();
  EXPECT_EQ(program.describe_location(program.location_of.at(0)), "/x/a.cu:10");
  EXPECT_EQ(program.describe_location(program.location_of.at(1)), "/x/b.h:20\n    called from /x/a.cu:11");
  // Line 0 means no line: the previous one's is taken, or the call's.
  EXPECT_EQ(program.describe_location(program.location_of.at(3)), "/x/a.cu:12");
  EXPECT_EQ(program.describe_location(program.location_of.at(4)), "/x/a.cu:13");
}
TEST(Parser, CalledFunctionsStandBehindTheKernel) {
  Parsed parsed(std::string(header) + R"(
    .func (.param .b32 result) twice(.param .b32 value)
    {
      .reg .b32 %r;
      ld.param.b32 %r, [value];
      add.s32 %r, %r, %r;
      st.param.b32 [result], %r;
      ret;
    }
    .entry k()
    {
      .reg .pred %p;
      .reg .b32 %r;
      {
        .param .b32 in;
        .param .b32 out;
        st.param.b32 [in], %r;
        @%p call.uni (out), twice, (in);
        ld.param.b32 %r, [out];
      }
      ret;
    })");
  const Program& program = parsed.kernel();
  EXPECT_TRUE(program.unknown.empty());
  // st, call, ld, ret, and the end; ld, add, st, ret, and the end.
  ASSERT_EQ(program.code.size(), 10U);
  EXPECT_EQ(program.code[1].control, Control::call);
  EXPECT_EQ(program.code[1].target, 5U);
  EXPECT_EQ(program.code[8].control, Control::ret);
  ASSERT_EQ(program.calls.size(), 1U);
  EXPECT_EQ(program.calls[0].arguments.size(), 1U);
  EXPECT_EQ(program.calls[0].results.size(), 1U);
}
TEST(Parser, RecursionIsUnknown) {
  Parsed parsed(
      std::string(header) +
      ".func f() { call g; call g; ret; }\n.func g() { call f; call f; ret; }\n.entry k() { call f; ret; }");
  ASSERT_EQ(parsed.kernel().unknown.size(), 2U);
  EXPECT_EQ(parsed.kernel().unknown[0], "'call f': recursion is not simulated");
}
TEST(Parser, SharedMemory) {
  Parsed parsed(std::string(header) + R"(
    .extern .shared .align 16 .b8 dynamic[];
    .shared .b32 at_file_scope[2];
    .entry k()
    {
      .reg .b64 %a<4>;
      .shared .align 8 .b8 _ZZ1kIfEvPKT_E6values[12];
      mov.u64 %a0, _ZZ1kIfEvPKT_E6values;
      mov.u64 %a1, at_file_scope;
      mov.u64 %a2, dynamic;
      ret;
    })");
  const Program& program = parsed.kernel();
  EXPECT_EQ(program.static_shared_bytes, 20U);
  ASSERT_EQ(program.shared_variables.size(), 2U);
  EXPECT_EQ(program.shared_variables.at(0).name, "values");
  EXPECT_EQ(program.shared_variables.at(1).name, "at_file_scope");
  EXPECT_EQ(program.shared_variables.at(1).begin, 12U);
  EXPECT_EQ(program.shared_variables.at(1).bytes, 8U);
  std::array<std::uint64_t, 3> addresses{};
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    std::memcpy(&addresses.at(i), program.constants.data() + program.code.at(i).operands[1].offset,
                sizeof(std::uint64_t));
  }
  EXPECT_EQ(addresses, (std::array<std::uint64_t, 3>{0, 12, 32}));  // the dynamic part is aligned to 16
}
TEST(Parser, UnknownInstructionsAreKeptWithTheirLine) {
  for (const char* statement :
       {"frobnicate.u32 %r1, %r2;", "add.u32.strange %r1, %r2, %r1;", "add.u32 %r1, %r2;",
        "add.u32 %r1, %nosuch, %r1;", "call nosuch;", "mov.b32 %r1, [%r2];"}) {
    Parsed parsed(kernel_of(std::string(".reg .b32 %r<3>;\n") + statement));
    const Program& program = parsed.kernel();
    ASSERT_EQ(program.unknown.size(), 1U) << statement;
    EXPECT_NE(program.unknown[0].find("line " + std::to_string(first_body_line + 1) + " "), std::string::npos)
        << program.unknown[0];
  }
}

// ---- Text that is not PTX: an error that names the line

TEST(Errors, InABody) {
  const auto expect = [](const std::string& body, const std::string& part) {
    const std::string error = error_of(kernel_of(body));
    EXPECT_EQ(error.rfind("line " + std::to_string(first_body_line + 1) + ": ", 0), 0U)
        << body << ": " << error;
    EXPECT_NE(error.find(part), std::string::npos) << body << ": " << error;
  };
  expect("\nbra nowhere;", "no label nowhere");
  expect("\n@%q ret;", "no predicate %q");
  expect("\n.reg .strange %r;", "'.strange'");
  expect("\n.reg", "unknown type");
  expect("\n.reg .b32 %r<x>;", "not a number");
  expect("\n.reg .b32 %r<99999999999>;", "million");
  expect("\n.shared .align 0 .b8 s[4];", "alignment");
  expect("\n.shared .align 3 .b8 s[4];", "alignment");
  expect("\n.local .b8 s[99999999999];", "2 GiB");
  expect("\n.shared .b8 s[4;", "expected ']'");
  expect("\n.nosuch 3;", ".nosuch");
  expect("\np : .callprototype (.param .b32 _) _ (.param .b32 _);", "through a pointer");
  expect("\nmov.b32 %r1 %r2;", "expected ';'");
  expect("\nadd.u32 {%r1 %r2}, %r3;", "expected '}'");
  expect("\nld.global.b32 %r1, [%r2;", "expected ']'");
  expect("\n.loc 1 x 3", "not a number");
}
TEST(Errors, AtFileScope) {
  const auto expect = [](const std::string& text, const std::string& part) {
    const std::string error = error_of(std::string(header) + text);
    EXPECT_EQ(error.rfind("line 5: ", 0), 0U) << text << ": " << error;
    EXPECT_NE(error.find(part), std::string::npos) << text << ": " << error;
  };
  expect("\nhello, world", "'hello'");
  expect("\n.entry k() { ret;", "brace");
  expect("\n.entry k(.param .u64", "no body");
  expect("\n.entry k", "no body");
  expect("\n.func (.param .b32 r", "')' is missing");
  expect("\n.section .debug", "'{' is missing");
  expect("\n.file 1", "without a name");
  expect("\n.file x \"a\"", "not a number");
  expect("\n.global .u32 x = 7", "';' is missing");
  expect("\n.global .nosuch x;", "'.nosuch'");
  expect("\n.global", "declaration");
  expect("\n.entry k() { /* } ", "comment is not closed");
}

TEST(Errors, TextCutAnywhereIsRefusedOrRead) {
  const std::string text = std::string(header) + R"(
.file 1 "a.cu"
.global .align 4 .f32 g[2] = {0f3F800000, -1.5};
.func (.param .b32 r) f(.param .b32 a) { .reg .b32 %r; ld.param.b32 %r, [a]; st.param.b32 [r], %r; ret; }
.visible .entry k(.param .u64 .ptr .align 1 x, .param .align 8 .b8 y[16]) .maxntid 64 {
  .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<2>; // registers
  .shared .align 16 .b8 s[64];
  .loc 1 3 1, function_name $L+1, inlined_at 1 2 1
  ld.param.u64 %rd1, [x+0]; /* a comment */
  @!%p1 bra $done;
  { .param .b32 in; .param .b32 out; st.param.b32 [in], %r1; call.uni (out), f, (in); ld.param.b32 %r1, [out]; }
  ld.global.v2.b32 {%r1, %r2}, [%rd1+-8];
  shfl.sync.bfly.b32 %r3|%p1, %r1, 1, 31, -1;
$done: ret;
}
)";
  ASSERT_EQ(error_of(text), "no error");
  for (std::size_t size = 0; size < text.size(); ++size) {
    const std::string error = error_of(text.substr(0, size));  // must come back, whatever it says
    const bool in_the_kernel = size > text.find(" k(.param") && size <= text.find_last_of('}');
    EXPECT_FALSE(in_the_kernel && error == "no error") << text.substr(0, size);
  }
}
TEST(Errors, GarbageIsRefusedOrRead) {
  const std::string characters = "abr%.$0fx{}()[];:,@!|+-\"/* \n";
  std::uint64_t state = 1;
  for (int i = 0; i < 20000; ++i) {
    std::string body;
    for (int length = 0; length < 40; ++length) {
      state = state * 6364136223846793005U + 1442695040888963407U;  // Knuth's MMIX generator
      body += characters[(state >> 33U) % characters.size()];
    }
    (void)error_of(kernel_of(".reg .b32 %r<3>; " + body));
    (void)error_of(header + body);
  }
}

TEST(Parser, WhatIsWrongWithAnInstructionIsSaid) {
  EXPECT_EQ(error_of(kernel_of("cp.async.wait_group 99999999999999999999;")),
            "line 6: '99999999999999999999' is not a number");
  EXPECT_EQ(error_of(kernel_of(".param .b64 p;\ncall.uni vprintf, (p, p, p, p, p, p, p, p, p, p);")),
            "line 7: a call of vprintf with too much");
}

/// Reads a fat binary of one entry of PTX, which claims this length (0: its true one).
FatBinaryPtx read_entry_of(std::uint64_t bytes) {
  const std::string text = kernel_of("");
  constexpr std::size_t to_entries = 16;
  constexpr std::size_t entry_header = 64;
  std::vector<std::byte> binary(to_entries + entry_header + text.size());
  const auto put = [&binary](std::size_t at, auto value) {
    std::memcpy(binary.data() + at, &value, sizeof value);
  };
  put(0, std::uint32_t{0xba55ed50});
  put(6, static_cast<std::uint16_t>(to_entries));
  put(8, std::uint64_t{entry_header + text.size()});
  put(to_entries, std::uint16_t{1});
  put(to_entries + 4, static_cast<std::uint32_t>(entry_header));
  put(to_entries + 8, bytes == 0 ? std::uint64_t{text.size()} : bytes);
  put(to_entries + 28, std::uint32_t{90});
  std::memcpy(binary.data() + to_entries + entry_header, text.data(), text.size());
  struct {
    std::uint32_t magic = 0x466243b1;
    std::uint32_t version = 1;
    const std::byte* data = nullptr;
    const void* file = nullptr;
  } wrapper;
  wrapper.data = binary.data();
  return find_ptx(&wrapper, 90);
}
TEST(FatBinaryParser, EntriesEndWhereTheBinaryDoes) {
  EXPECT_EQ(read_entry_of(0).ptx, kernel_of(""));
  for (const std::uint64_t bytes : {std::uint64_t{100'000}, ~std::uint64_t{0}, ~std::uint64_t{63}}) {
    EXPECT_EQ(read_entry_of(bytes).ptx, "") << bytes;
  }
}

}  // namespace
}  // namespace sim
