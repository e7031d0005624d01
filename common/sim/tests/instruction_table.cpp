#include "common/sim/tests/instruction_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>

namespace {

using Values = std::vector<std::uint64_t>;

std::uint64_t low_bits(std::uint64_t value, int bits) {
  return bits == 64 ? value : value & ((std::uint64_t{1} << bits) - 1);
}

/// A well mixed number (the finaliser of splitmix64, by Sebastiano Vigna).
std::uint64_t mixed(std::uint64_t n) {
  n = (n + 1) * 0x9e3779b97f4a7c15U;
  n = (n ^ (n >> 30U)) * 0xbf58476d1ce4e5b9U;
  n = (n ^ (n >> 27U)) * 0x94d049bb133111ebU;
  return n ^ (n >> 31U);
}

/// Each value once, in the order given, then mixed ones until there is one for each case.
Values filled(const Values& given, int bits) {
  Values values;
  for (const std::uint64_t value : given) {
    const std::uint64_t low = low_bits(value, bits);
    if (std::find(values.begin(), values.end(), low) == values.end()) values.push_back(low);
  }
  for (std::uint64_t i = 0; values.size() < case_count; ++i) values.push_back(low_bits(mixed(i), bits));
  return values;
}

/// The special ones first, then values around powers of two (and with them ties of a rounding to f32 or
/// bf16).
Values integers(int bits) {
  Values values{
      0, 1,  ~std::uint64_t{0}, std::uint64_t{1} << (bits - 1), (std::uint64_t{1} << (bits - 1)) - 1, 2,
      7, 100};
  for (const int power : {bits - 1, bits - 2}) {
    const std::uint64_t two = std::uint64_t{1} << power;
    for (const int mantissa : {7, 10, 23, 52}) {  // a tie, and one more
      if (mantissa + 1 >= power) continue;
      const std::uint64_t half = two >> (mantissa + 1);
      values.insert(values.end(), {two + half, two + half + 1});
    }
  }
  for (const int power : {7, 8, 15, 16, 24, 31, 32, 53, 63}) {
    if (power >= bits) continue;
    const std::uint64_t two = std::uint64_t{1} << power;
    values.insert(values.end(), {two, two - 1, ~two + 1, ~two});
  }
  return filled(values, bits);
}

/// `mantissa` bits after the leading one.
Values floats(int bits, int mantissa) {
  const int bias = (1 << (bits - 2 - mantissa)) - 1;
  const std::uint64_t sign = std::uint64_t{1} << (bits - 1);
  const std::uint64_t infinity = static_cast<std::uint64_t>(2 * bias + 1) << mantissa;
  const std::uint64_t quiet = std::uint64_t{1} << (mantissa - 1);
  const std::uint64_t smallest_normal = std::uint64_t{1} << mantissa;
  const auto power = [=](int exponent) {
    return exponent + bias < 1 ? std::uint64_t{0} : static_cast<std::uint64_t>(exponent + bias) << mantissa;
  };
  const std::uint64_t one = power(0);
  Values values{0,
                one,
                infinity,
                sign | one,
                sign,
                sign | infinity,
                infinity | quiet | 5,
                infinity - 1,
                smallest_normal,
                1,
                one - 1,
                sign | smallest_normal,
                one + 1,
                sign | (infinity - 1),
                infinity | 1,
                smallest_normal - 1,
                sign | 1,
                sign | infinity | quiet,
                smallest_normal + 1};
  for (const auto& [exponent, quarters] : {std::pair{-1, 0}, {0, 2}, {1, 0}, {1, 1}, {1, 3}}) {
    // 0.5, 1.5, 2, 2.5, 3.5: ties of a rounding to whole numbers
    const std::uint64_t value = power(exponent) | (static_cast<std::uint64_t>(quarters) << (mantissa - 2));
    values.insert(values.end(), {value, sign | value});
  }
  for (const int narrow : {23, 10, 7}) {  // ties of a rounding to f32, f16 and bf16
    if (narrow >= mantissa) continue;
    const std::uint64_t half = std::uint64_t{1} << (mantissa - narrow - 1);
    values.insert(values.end(), {one + half, one + 3 * half, sign | (one + half + 1)});
    const int narrow_bias = narrow == 10 ? 15 : 127;
    if (narrow_bias >= bias) continue;
    const std::uint64_t overflow = power(narrow_bias + 1) - half;  // half a unit above the largest
    const std::uint64_t underflow = power(-narrow_bias - narrow);  // half of the smallest denormal
    values.insert(values.end(),
                  {overflow, overflow - 1, underflow, underflow + 1, power(1 - narrow_bias) - half});
  }
  for (const int exponent : {31, 63, 15, 7}) {  // the ends of the ranges of whole numbers
    if (exponent + 1 > bias) continue;
    const std::uint64_t end = power(exponent);
    const std::uint64_t unsigned_end = power(exponent + 1);
    values.insert(values.end(), {end, end - 1, sign | end, sign | (end + 1), unsigned_end, unsigned_end - 1});
  }
  return filled(values, bits);
}

Values pairs(const Values& values) {
  Values both;
  for (std::size_t i = 0; i < values.size(); ++i)
    both.push_back(values[i] | values[(7 * i + 3) % values.size()] << 16U);
  return both;
}

Values angles() {
  Values values;
  for (const float value :
       {0.F, -0.F, 1.F, -1.F, 1e-40F, -1e-40F, 1e-10F, 0.5F, 1.5707964F, -1.5707964F, 3.1415927F, -3.1415927F,
        4.712389F, 6.2831855F, -6.2831855F, 6.F, -5.F, 2.F, std::numeric_limits<float>::infinity()}) {
    values.push_back(std::bit_cast<std::uint32_t>(value));
  }
  return values;
}

/// `values` without those that `excluded` names; another takes their place.
template <class Excluded>
Values without(Values values, std::uint64_t instead, Excluded excluded) {
  std::replace_if(values.begin(), values.end(), excluded, instead);
  return values;
}

std::vector<OperandType> make_types() {
  const Values i8 = integers(16);  // in a register of 16 bits: the upper 8 bits must not matter
  const Values f32 = floats(32, 23);
  std::vector<OperandType> types{
      {"u8", ".u16", 16, 0, i8},
      {"s8", ".s16", 16, 0, i8},
      {"f16", ".b16", 16, 10, floats(16, 10)},
      {"bf16", ".b16", 16, 7, floats(16, 7)},
      {"f16x2", ".b32", 16, 10, pairs(floats(16, 10))},
      {"bf16x2", ".b32", 16, 7, pairs(floats(16, 7))},
      {"f32", ".f32", 32, 23, f32},
      {"f64", ".f64", 64, 52, floats(64, 52)},
      {"pred", ".pred", 32, 0, {}},  // of the mixed numbers; see argument_value
      {"amount", ".u32", 32, 0, {0,  1,  5,  8,   15,  16,  17,  31,         32,         33,        48,
                                 63, 64, 65, 128, 255, 256, 257, 0x7fffffff, 0x80000000, 0xffffffff}},
      {"below32", ".u32", 32, 0, {0, 31, 1, 8, 15, 16, 17, 30, 3, 23}},
      {"offset",
       ".s32",
       32,
       0,
       {0, 1, 0xffffffff, 2, 0xfffffffe, 3, 0xfffffff8, 16, 0xfffffff0, 31, 32, 33, 0xffffffe0, 0x7fffffff,
        0x80000001}},  // of the lowest number the search has no direction: -x is x
      {"selector", ".b32", 32, 0, filled({0x3210, 0x7654, 0x0123, 0xba98, 0xfedc, 0x8888, 0xffff3210}, 32)},
      {"distance", ".u32", 32, 0, {0, 1, 2, 3, 5, 8, 16, 31, 30, 17, 32, 33, 0xffffffff}},
      {"clamp", ".u32", 32, 0, {0x1f, 0, 0x181f, 0x1c03, 0x1000, 0x100f, 0x1e1f, 0x0510, 0x1f1f}},
      {"angle", ".f32", 32, 23, angles()},
      {"divisor", ".f32", 32, 23,
       without(f32, 0x40400000,
               [](std::uint64_t v) { return (v & 0x7f800000U) == 0 && (v & 0x7fffffU) != 0; })},
  };
  for (const auto& [bits, names] : {std::pair{16, std::array{"b16", "u16", "s16", "u16!0", "s16!0"}},
                                    std::pair{32, std::array{"b32", "u32", "s32", "u32!0", "s32!0"}},
                                    std::pair{64, std::array{"b64", "u64", "s64", "u64!0", "s64!0"}}}) {
    const Values all = integers(bits);
    const Values not_zero = without(all, 3, [](std::uint64_t value) { return value == 0; });
    const std::array registers{".b16", ".b32", ".b64"};
    for (const char* name : names) {
      const bool may_be_zero = std::string_view(name).back() != '0';
      types.push_back(
          {name, registers.at(bits == 16 ? 0 : bits / 32), bits, 0, may_be_zero ? all : not_zero});
    }
  }
  return types;
}

const std::vector<OperandType>& types() {
  static const std::vector<OperandType> all = make_types();
  return all;
}

const OperandType& type_named(const std::string& name) {
  for (const OperandType& type : types()) {
    if (type.name == name) return type;
  }
  throw std::runtime_error("no type '" + name + "'");
}

/// %a, %b, ... or %r, %s, ...
std::string register_name(char first, std::size_t index) {
  return {'%', static_cast<char>(first + static_cast<char>(index))};
}

/// A predicate has no bytes: in memory it is a u32.
std::string memory_type(const OperandType& type) {
  return type.name == "pred" ? ".u32" : std::string(type.register_type);
}

// ---- Reading

/// All lines that (x|y) stands for.
void expand(const std::string& text, std::vector<std::string>& expanded) {
  const std::size_t open = text.find('(');
  const std::size_t close = text.find(')', open);
  if (open == std::string::npos) {
    expanded.push_back(text);
    return;
  }
  if (close == std::string::npos) throw std::runtime_error("'(' without ')'");
  const std::string before = text.substr(0, open);
  std::string after = text.substr(close + 1);
  std::istringstream choices(text.substr(open + 1, close - open - 1) + "|");
  for (std::string choice; std::getline(choices, choice, '|');) {
    // This is the first pair of parentheses left: $1 is its choice, and $2 is the $1 of the others.
    std::string rest;
    for (std::size_t i = 0; i < after.size(); ++i) {
      if (after[i] != '$' || i + 1 == after.size()) {
        rest += after[i];
      } else if (after[++i] == '1') {
        rest += choice;
      } else {
        rest += '$';
        rest += static_cast<char>(after[i] - 1);
      }
    }
    std::string whole = before;
    whole.append(choice).append(rest);
    expand(whole, expanded);
  }
}

std::string trimmed(const std::string& text) {
  std::istringstream words(text);
  std::string result;
  for (std::string word; words >> word;) result.append(result.empty() ? "" : " ").append(word);
  return result;
}

double number_of(const std::string& word) {
  if (word.rfind("2^", 0) == 0) return std::exp2(std::stod(word.substr(2)));
  return std::stod(word);
}

/// types = types  tolerances
void parse_signature(const std::string& text, Instruction& instruction) {
  std::istringstream words(text);
  std::string word;
  while (words >> word && word != "=") instruction.results.push_back(&type_named(word));
  if (word != "=" || instruction.results.empty()) throw std::runtime_error("no 'results = arguments'");
  Tolerance& tolerance = instruction.tolerance;
  while (words >> word) {
    if (word == "nan") {
      tolerance.any_nan = true;
    } else if (word == "ulp" || word == "rel" || word == "abs") {
      std::string number;
      words >> number;
      (word == "ulp"   ? tolerance.ulp
       : word == "rel" ? tolerance.relative
                       : tolerance.absolute) = number_of(number);
    } else {
      instruction.arguments.push_back(&type_named(word));
    }
  }
  if (instruction.results.size() > most_operands || instruction.arguments.size() > most_operands) {
    throw std::runtime_error("more than four results or arguments");
  }
}

// ---- Comparing

/// The bits of a floating-point number as a whole number, in the order of the numbers; one more is one unit
/// in the last place.
double in_order(std::uint64_t bits, int width) {
  const std::uint64_t sign = std::uint64_t{1} << (width - 1);
  const auto magnitude = static_cast<double>(bits & (sign - 1));
  return (bits & sign) != 0 ? -magnitude : magnitude;
}

double value_of(std::uint64_t bits, int width, int mantissa) {
  const int bias = (1 << (width - 2 - mantissa)) - 1;
  const std::uint64_t sign = std::uint64_t{1} << (width - 1);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << mantissa) - 1);
  const auto exponent = static_cast<int>((bits & (sign - 1)) >> mantissa);
  double value = std::ldexp(static_cast<double>(fraction) + (exponent != 0 ? std::exp2(mantissa) : 0),
                            std::max(exponent, 1) - bias - mantissa);
  if (exponent == 2 * bias + 1) {
    value =
        fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  return (bits & sign) != 0 ? -value : value;
}

bool number_agrees(const OperandType& type, const Tolerance& tolerance, std::uint64_t got,
                   std::uint64_t recorded) {
  if (got == recorded) return true;
  if (type.mantissa_bits == 0) return false;
  const double a = value_of(got, type.bits, type.mantissa_bits);
  const double b = value_of(recorded, type.bits, type.mantissa_bits);
  if (std::isnan(a) || std::isnan(b)) return tolerance.any_nan && std::isnan(a) && std::isnan(b);
  if (a == 0 && b == 0) return false;  // the sign differs
  const double ulps = std::fabs(in_order(got, type.bits) - in_order(recorded, type.bits));
  if (ulps <= tolerance.ulp) return true;
  // Both are rounded to the type: one unit of it on top.
  const double difference = std::fabs(a - b) * (1 - 1 / ulps);
  return (tolerance.relative > 0 && difference <= tolerance.relative * std::fabs(b)) ||
         (tolerance.absolute > 0 && difference <= tolerance.absolute);
}

}  // namespace

std::string Instruction::key() const {
  std::string text = ptx + " ";
  for (const OperandType* type : results) text.append(type->name).append(" ");
  text += "=";
  for (const OperandType* type : arguments) text.append(" ").append(type->name);
  return text;
}

std::vector<Instruction> read_instruction_table(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<Instruction> instructions;
  std::size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    line = line.substr(0, line.find('#'));
    if (trimmed(line).empty()) continue;
    try {
      std::vector<std::string> expanded;
      expand(line, expanded);
      for (const std::string& text : expanded) {
        const std::size_t end = text.find_last_of(";}");
        if (end == std::string::npos) throw std::runtime_error("no ';' after the PTX");
        Instruction instruction;
        instruction.line = number;
        instruction.ptx = trimmed(text.substr(0, end + 1));
        instruction.kernel = std::string("line").append(std::to_string(number)).append("_");
        instruction.kernel.append(std::to_string(instructions.size()));
        parse_signature(text.substr(end + 1), instruction);
        instructions.push_back(instruction);
      }
    } catch (const std::exception& error) {
      throw std::runtime_error(path + ":" + std::to_string(number) + ": " + error.what());
    }
  }
  return instructions;
}

std::string module_header() {
  return ".version 8.4\n"
         ".target sm_90\n"
         ".address_size 64\n"
         ".const .align 16 .b32 constant_words[4] = {0x12345678, 2, -3, 0x80000001};\n"
         ".global .align 16 .f32 global_words[4] = {0f3F800000, 1.5, -2.25, 0f7F800000};\n";
}

std::string kernel_text(const Instruction& instruction) {
  std::ostringstream text;
  text << ".visible .entry " << instruction.kernel
       << "(.param .u64 arguments, .param .u64 results, .param .u64 scratch)\n{\n"
       << ".reg .u64 %in, %out, %global, %warp_global;\n.reg .u32 %thread, %lane, %shared, %warp_shared, "
          "%word, "
          "%warp;\n"
       << ".reg .pred %yes;\n"
       << "ld.param.u64 %in, [arguments];\nld.param.u64 %out, [results];\nld.param.u64 %global, [scratch];\n"
       << "mov.u32 %thread, %tid.x;\nand.b32 %lane, %thread, 31;\nshr.u32 %warp, %thread, 5;\n"
       << "mad.wide.u32 %in, %thread, 8, %in;\nmad.wide.u32 %out, %thread, 8, %out;\n"
       << "add.u32 %warp, %warp, " << case_count << ";\n"
       << "mad.wide.u32 %warp_global, %warp, " << place_bytes << ", %global;\n";
  if (instruction.ptx.find("shared") != std::string::npos) {  // a copy of the scratch memory
    text << ".shared .align 32 .b8 places[" << scratch_bytes << "];\n.reg .b32 %w<8>;\n"
         << "mov.u32 %shared, places;\nmad.lo.u32 %warp_shared, %warp, " << place_bytes << ", %shared;\n"
         << "mad.lo.u32 %shared, %thread, " << place_bytes << ", %shared;\n";
  }
  text << "mad.wide.u32 %global, %thread, " << place_bytes << ", %global;\n";
  if (instruction.ptx.find("shared") != std::string::npos) {
    const auto copy = [&text](const char* from, const char* to) {
      text << "ld.global.v4.b32 {%w0, %w1, %w2, %w3}, [" << from
           << "];\nld.global.v4.b32 {%w4, %w5, %w6, %w7}, [" << from << "+16];\nst.shared.v4.b32 [" << to
           << "], {%w0, %w1, %w2, %w3};\nst.shared.v4.b32 [" << to << "+16], {%w4, %w5, %w6, %w7};\n";
    };
    copy("%global", "%shared");
    text << "setp.ne.u32 %yes, %lane, 0;\n@%yes bra copied;\n";
    copy("%warp_global", "%warp_shared");
    text << "copied:\nbar.sync 0;\n";
  }
  const auto declare = [&text](const std::vector<const OperandType*>& operands, char first) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      text << ".reg " << operands[i]->register_type << " " << register_name(first, i) << ";\n";
    }
  };
  declare(instruction.results, 'r');
  declare(instruction.arguments, 'a');
  for (std::size_t i = 0; i < instruction.arguments.size(); ++i) {
    const OperandType& type = *instruction.arguments[i];
    const std::string name = register_name('a', i);
    const bool is_predicate = type.name == "pred";
    text << "ld.global" << memory_type(type) << " " << (is_predicate ? "%word" : name) << ", [%in+"
         << i * 8 * case_count << "];\n";
    if (is_predicate) text << "setp.ne.u32 " << name << ", %word, 0;\n";
  }
  text << instruction.ptx << "\n";
  for (std::size_t i = 0; i < instruction.results.size(); ++i) {
    const OperandType& type = *instruction.results[i];
    const std::string name = register_name('r', i);
    const bool is_predicate = type.name == "pred";
    if (is_predicate) text << "selp.u32 %word, 1, 0, " << name << ";\n";
    text << "st.global" << memory_type(type) << " [%out+" << i * 8 * case_count << "], "
         << (is_predicate ? "%word" : name) << ";\n";
  }
  text << "ret;\n}\n";
  return text.str();
}

std::uint64_t argument_value(const OperandType& type, int index, int count, int case_index) {
  const auto lane = static_cast<std::uint64_t>(case_index);
  const auto place = static_cast<std::uint64_t>(index);
  if (type.name == "pred") return lane >= 32 && index == 0 ? 1 : mixed(lane * most_operands + place) & 1U;
  const Values& values = type.values;
  if (count == 1 || values.size() < 8) return values[lane % values.size()];
  // The special values, which come first, meet each other in the first warp: half of the pairs of eight.
  if (lane < 32) {
    const std::array<std::uint64_t, most_operands> special{lane % 8, lane / 4, (5 * lane + lane / 8) % 8,
                                                           (3 * lane + 1) % 8};
    return values[special.at(static_cast<std::size_t>(index)) % values.size()];
  }
  const auto one_of = [&](std::size_t first, std::size_t second, std::size_t third, std::size_t fourth) {
    const std::array<std::size_t, 4> chosen{first, second, third, fourth};
    return values[chosen.at(static_cast<std::size_t>(index)) % values.size()];
  };
  if (lane < 48) {  // zero, the smallest numbers of both signs and the smallest normal one: all pairs
    constexpr std::array<std::size_t, 4> small{0, 9, 16, 8};
    return one_of(small.at(lane % 4), small.at(lane / 4 % 4), small.at(lane / 2 % 4), small.at(lane % 3));
  }
  if (lane < 56) {  // normal numbers whose sum, difference or product is denormal, or just not
    constexpr std::array<std::size_t, 4> others{18, 10, 19, 8};
    return one_of(lane % 2 == 0 ? 8 : 11, others.at(lane / 2 % 4), lane % 4 == 0 ? 16 : 0, 1);
  }
  constexpr std::array<std::uint64_t, most_operands> steps{1, 7, 11, 13};
  return values[(lane * steps.at(static_cast<std::size_t>(index)) + place) % values.size()];
}

std::uint64_t checksum_of_values() {
  std::uint64_t sum = 0;
  for (const OperandType& type : types()) {
    for (int count = 1; count <= 2; ++count) {
      for (int index = 0; index < most_operands; ++index) {
        for (int i = 0; i < case_count; ++i) sum = mixed(sum ^ argument_value(type, index, count, i));
      }
    }
  }
  return sum;
}

bool agrees(const OperandType& type, const Tolerance& tolerance, std::uint64_t got, std::uint64_t recorded) {
  const bool is_pair = type.name == "f16x2" || type.name == "bf16x2";
  if (!is_pair) return number_agrees(type, tolerance, got, recorded);
  return number_agrees(type, tolerance, got & 0xffffU, recorded & 0xffffU) &&
         number_agrees(type, tolerance, got >> 16U, recorded >> 16U);
}
