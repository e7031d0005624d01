// The table of instructions: how its lines read, and which results agree.
#include "common/sim/tests/instruction_table.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <fstream>
#include <set>
#include <stdexcept>

namespace {

std::vector<Instruction> table_of(const std::string& text) {
  const std::string path = testing::TempDir() + "instructions" + std::to_string(getpid()) + ".txt";
  std::ofstream(path) << text;
  std::vector<Instruction> instructions = read_instruction_table(path);
  std::remove(path.c_str());
  return instructions;
}

/// The result's type and its tolerance, of a line "x;  f32 = ulp 2".
Instruction with_result(const std::string& signature) {
  return table_of("x; " + signature + "\n").front();
}
bool agrees(const Instruction& instruction, std::uint64_t got, std::uint64_t recorded) {
  return agrees(*instruction.results[0], instruction.tolerance, got, recorded);
}
std::uint64_t bits(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

TEST(InstructionTable, SkipsCommentsAndEmptyLines) {
  EXPECT_EQ(table_of("# a comment\n\nadd.u32 %r, %a, %a;   u32 = u32  # another\n").size(), 1U);
}

TEST(InstructionTable, KeysNamePtxAndTypes) {
  const auto table = table_of("(add|sub).(u16|s32)  %r,  %a, %b;   $2 pred = $2 amount   ulp 2 nan\n");
  ASSERT_EQ(table.size(), 4U);
  EXPECT_EQ(table[0].key(), "add.u16 %r, %a, %b; u16 pred = u16 amount");
  EXPECT_EQ(table[3].key(), "sub.s32 %r, %a, %b; s32 pred = s32 amount");
  EXPECT_EQ(table[3].line, 1U);
  EXPECT_EQ(table[3].tolerance.ulp, 2);
  EXPECT_TRUE(table[3].tolerance.any_nan);
  EXPECT_NE(table[0].kernel, table[1].kernel);
}

TEST(InstructionTable, RefusesLinesThatDoNotRead) {
  for (const char* line : {"a;", "a; u32", "a; = u32", "a; nosuch = u32", "a u32 = u32", "a.(b|c; u32 = u32",
                           "a; u32 = u32 u32 u32 u32 u32", "a; f32 = f32 ulp", "a; f32 = f32 ulp x"}) {
    EXPECT_THROW(table_of(std::string(line) + "\n"), std::exception) << line;
  }
}

TEST(InstructionTable, ArgumentsAreEdgeValues) {
  const Instruction instruction = with_result("f32 = f32");
  std::set<std::uint64_t> values;
  for (int i = 0; i < case_count; ++i) values.insert(argument_value(*instruction.arguments[0], 0, 1, i));
  EXPECT_EQ(values.size(), static_cast<std::size_t>(case_count));
  for (const std::uint64_t value :
       {0x0U, 0x80000000U, 0x3f800000U, 0x7f800000U, 0xff800000U, 0x7f7fffffU, 0x1U, 0x7fffffU, 0x800000U,
        0x7fc00005U, 0x40200000U, 0x477ff000U, 0x4f000000U}) {
    EXPECT_TRUE(values.count(value) == 1) << std::hex << value;
  }
}

TEST(Agreement, IsExactWithoutATolerance) {
  const Instruction exact = with_result("f32 =");
  EXPECT_TRUE(agrees(exact, bits(1), bits(1)));
  EXPECT_FALSE(agrees(exact, bits(1) + 1, bits(1)));
  EXPECT_FALSE(agrees(exact, bits(-0.F), bits(0.F)));
  EXPECT_FALSE(agrees(exact, 0x7fc00000, 0x7fffffff));
  EXPECT_FALSE(agrees(with_result("u32 ="), 6, 7));
}
TEST(Agreement, InUnitsOfTheLastPlace) {
  const Instruction two = with_result("f32 = ulp 2");
  EXPECT_TRUE(agrees(two, bits(1) + 2, bits(1)));
  EXPECT_TRUE(agrees(two, bits(1) - 2, bits(1)));
  EXPECT_FALSE(agrees(two, bits(1) + 3, bits(1)));
  EXPECT_FALSE(agrees(two, bits(-1), bits(1)));
  EXPECT_TRUE(agrees(two, 0x7f7fffff, 0x7f800000));  // the largest and infinity
  EXPECT_FALSE(agrees(two, bits(-0.F), bits(0.F)));
  EXPECT_FALSE(agrees(two, 0x7fc00000, 0x7fffffff));
}
TEST(Agreement, RelativeAndAbsolute) {
  const Instruction relative = with_result("f32 = rel 2^-10");
  EXPECT_TRUE(agrees(relative, bits(1000.9F), bits(1000)));
  EXPECT_FALSE(agrees(relative, bits(1001.1F), bits(1000)));
  EXPECT_FALSE(agrees(relative, bits(1e-30F), bits(0)));
  const Instruction absolute = with_result("f32 = abs 0.5");
  EXPECT_TRUE(agrees(absolute, bits(-0.2F), bits(0.2F)));
  EXPECT_FALSE(agrees(absolute, bits(-0.3F), bits(0.3F)));
  EXPECT_FALSE(agrees(absolute, 0x7f800000, bits(1)));
}
TEST(Agreement, AnyNan) {
  const Instruction any = with_result("f32 = nan");
  EXPECT_TRUE(agrees(any, 0x7fc00001, 0xffffffff));
  EXPECT_FALSE(agrees(any, 0x7fc00001, 0x7f800000));
  EXPECT_FALSE(agrees(any, bits(1) + 1, bits(1)));
}
TEST(Agreement, OfPairsInBothHalves) {
  const Instruction pair = with_result("f16x2 = ulp 1 nan");
  EXPECT_TRUE(agrees(pair, 0x3c017e00, 0x3c007fff));
  EXPECT_FALSE(agrees(pair, 0x3c027e00, 0x3c007e00));
  EXPECT_FALSE(agrees(pair, 0x3c003c02, 0x3c003c00));
}

}  // namespace
