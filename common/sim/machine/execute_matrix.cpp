// Matrix units: mma, wmma, and the loads and stores of 8 x 8 tiles.
//
// Products are exact and sums are made in double, rounded once to the accumulator's type. The device keeps fewer bits and
// cuts them off, so that its last bits differ. Whole numbers are the same.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "common/sim/machine/access.h"
#include "common/sim/machine/block.h"
#include "common/sim/machine/faults.h"
#include "common/sim/machine/map.h"
#include "common/sim/machine/numbers.h"
#include "common/sim/ptx/opcodes.h"

namespace sim {
namespace {

/// In the order of element_names.
enum class Element : std::uint8_t { f16, bf16, tf32, f32, s8, u8, s32, f64 };
constexpr std::array<std::string_view, 8> element_names{"f16", "bf16", "tf32", "f32",
                                                        "s8",  "u8",   "s32",  "f64"};
constexpr std::array<std::uint8_t, 8> element_bytes{2, 2, 4, 4, 1, 1, 4, 8};

std::size_t bytes_of(Element element) {
  return element_bytes.at(static_cast<std::size_t>(element));
}
std::size_t per_register(Element element) {
  return element == Element::f64 ? 1 : sizeof(std::uint32_t) / bytes_of(element);
}
Type register_type(Element element) {
  return element == Element::f64 ? Type::b64 : Type::b32;
}

enum class Part : std::uint8_t { a, b, c };
struct Shape {
  std::uint8_t m = 0;
  std::uint8_t n = 0;
  std::uint8_t k = 0;
  friend bool operator==(const Shape&, const Shape&) = default;
};
struct Place {
  std::size_t row = 0;
  std::size_t column = 0;
};

std::size_t columns_of(const Shape& shape, Part part) {
  return part == Part::a ? shape.k : shape.n;
}
std::size_t rows_of(const Shape& shape, Part part) {
  return part == Part::b ? shape.k : shape.m;
}
/// The elements of one lane, each counted once: some fragments of wmma hold everything twice.
std::size_t elements_of(const Shape& shape, Part part) {
  return rows_of(shape, part) * columns_of(shape, part) / warp_size;
}

/// The place of an element of a fragment: `slot` counts the lane's elements. PTX ISA, "Matrix Fragments for
/// mma.m16n8k16" and its like: groups of four lanes hold a row of A or a column of B, each lane the elements
/// of one register of it. Larger tiles are several of these. (PTX does not specify it for wmma's fragments.)
Place place_of(const Shape& shape, Part part, std::size_t per, int lane, std::size_t slot) {
  const auto group = static_cast<std::size_t>(lane) / 4;
  const auto member = static_cast<std::size_t>(lane) % 4;
  if (part == Part::c) {
    const std::size_t column = 2 * member + slot % 2;
    if (shape.m == 8) return {group, column + 8 * (slot / 2)};
    const std::size_t tile = slot / 4;
    const std::size_t tiles_down = shape.m / 16U;
    return {group + 8 * (slot / 2 % 2) + 16 * (tile % tiles_down), column + 8 * (tile / tiles_down)};
  }
  const std::size_t in_register = member * per + slot % per;
  const std::size_t index = slot / per;  // of the register
  const std::size_t along = shape.k / (4 * per);
  if (part == Part::b) return {index % along * 4 * per + in_register, group + 8 * (index / along)};
  if (shape.m == 8) return {group, index * 4 * per + in_register};
  const std::size_t in_tile = index % (2 * along);
  return {group + 8 * (in_tile % 2) + 16 * (index / (2 * along)), in_tile / 2 * 4 * per + in_register};
}

double value_of(const Warp& warp, const Operand& from, Element element, int lane, std::size_t i) {
  if (element == Element::f64) return warp.lanes_of<double>(from)[lane];
  const std::uint32_t bits = warp.lanes_of<std::uint32_t>(from)[lane];
  const std::uint32_t part = bits >> (8 * bytes_of(element) * i);
  constexpr std::uint32_t tf32_bits = 0xffffe000;
  switch (element) {
    case Element::f16:
      return static_cast<double>(to_float(Half{static_cast<std::uint16_t>(part)}));
    case Element::bf16:
      return static_cast<double>(to_float(Bfloat16{static_cast<std::uint16_t>(part)}));
    case Element::tf32:
      return static_cast<double>(std::bit_cast<float>(bits & tf32_bits));
    case Element::f32:
      return static_cast<double>(std::bit_cast<float>(bits));
    case Element::s8:
      return static_cast<std::int8_t>(part);
    case Element::u8:
      return static_cast<std::uint8_t>(part);
    default:
      return static_cast<std::int32_t>(bits);
  }
}

void set_value(const Warp& warp, const Operand& to, Element element, int lane, std::size_t i, double value,
               bool saturates) {
  if (element == Element::f64) {
    warp.lanes_of<double>(to)[lane] = value;
    return;
  }
  std::uint32_t& word = warp.lanes_of<std::uint32_t>(to)[lane];
  if (element == Element::f16) {
    const auto shift = static_cast<unsigned>(16 * i);
    const std::uint32_t half = to_half(value, Rounding::nearest).bits;
    word = (word & ~(0xffffU << shift)) | half << shift;
  } else if (element == Element::s32) {
    auto whole = static_cast<std::int64_t>(value);
    if (saturates) whole = std::clamp<std::int64_t>(whole, INT32_MIN, INT32_MAX);
    word = static_cast<std::uint32_t>(whole);
  } else {
    word = std::bit_cast<std::uint32_t>(canonical(static_cast<float>(value)));
  }
}

// ---- Multiplication. Program::more_operands: the registers of D, A, B and C, without the second copies of a
// fragment's elements.

/// The shape and types of a multiplication; in more_immediates[0].
struct Product {
  Shape shape;
  Element d = Element::f32;
  Element a = Element::f16;
  Element b = Element::f16;
  Element c = Element::f32;
  bool saturates = false;
};

constexpr std::size_t most_elements = 512;
using Matrix = std::array<double, most_elements>;

void check_all_lanes(const Warp& warp, LaneMask lanes, const char* what) {
  if (lanes == all_lanes) return;
  fault(
      warp, first_lane(lanes), FaultKind::shuffle,
      std::string(what) + " needs all 32 lanes of the warp, and " + describe_lanes(~lanes) + " take no part");
}

std::size_t registers_of(const Shape& shape, Part part, Element element) {
  return elements_of(shape, part) / per_register(element);
}

/// Calls function(element of the row-major matrix, register, lane, which of the register's elements).
template <class Function>
void for_each_element(const Shape& shape, Part part, Element element, const Operand* registers,
                      Function function) {
  const std::size_t per = per_register(element);
  for (std::size_t slot = 0; slot < elements_of(shape, part); ++slot) {
    for (int lane = 0; lane < warp_size; ++lane) {
      const Place place = place_of(shape, part, per, lane, slot);
      function(place.row * columns_of(shape, part) + place.column, registers[slot / per], lane, slot % per);
    }
  }
}

void multiply(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  check_all_lanes(warp, lanes, "a matrix multiplication");
  const auto product = std::bit_cast<Product>(instruction.more_immediates[0]);
  const Shape& shape = product.shape;
  const Operand* d = &warp.program.more_operands.at(instruction.target);
  const Operand* a = d + registers_of(shape, Part::c, product.d);
  const Operand* b = a + registers_of(shape, Part::a, product.a);
  const Operand* c = b + registers_of(shape, Part::b, product.b);
  Matrix left{};
  Matrix right{};
  Matrix sums{};
  const auto gather = [&](Part part, Element element, const Operand* registers, Matrix& to) {
    for_each_element(shape, part, element, registers,
                     [&](std::size_t index, const Operand& from, int lane, std::size_t i) {
                       to.at(index) = value_of(warp, from, element, lane, i);
                     });
  };
  gather(Part::a, product.a, a, left);
  gather(Part::b, product.b, b, right);
  gather(Part::c, product.c, c, sums);
  for (std::size_t row = 0; row < shape.m; ++row) {
    for (std::size_t k = 0; k < shape.k; ++k) {
      for (std::size_t column = 0; column < shape.n; ++column) {
        double& sum = sums.at(row * shape.n + column);
        sum = std::fma(left.at(row * shape.k + k), right.at(k * shape.n + column), sum);
      }
    }
  }
  for_each_element(shape, Part::c, product.d, d,
                   [&](std::size_t index, const Operand& to, int lane, std::size_t i) {
                     set_value(warp, to, product.d, lane, i, sums.at(index), product.saturates);
                   });
}

void take_part_together(Assembler& a) {
  WrittenOperand all;
  all.kind = WrittenOperand::Kind::number;
  all.text = "0xffffffff";
  a.source_at(max_operands - 1, all, Type::b32);
  a.instruction.control = Control::warp_sync;
  a.refuse_if(!a.take("sync"));
  (void)a.take("aligned");
}

struct NamedShape {
  std::string_view name;
  Shape shape;
};
constexpr std::array shapes{
    NamedShape{"m16n8k16", {16, 8, 16}},   NamedShape{"m16n8k8", {16, 8, 8}},
    NamedShape{"m16n8k4", {16, 8, 4}},     NamedShape{"m16n8k32", {16, 8, 32}},
    NamedShape{"m8n8k16", {8, 8, 16}},     NamedShape{"m8n8k4", {8, 8, 4}},
    NamedShape{"m16n16k16", {16, 16, 16}}, NamedShape{"m32n8k16", {32, 8, 16}},
    NamedShape{"m8n32k16", {8, 32, 16}},   NamedShape{"m16n16k8", {16, 16, 8}},
};

Shape take_shape(Assembler& a) {
  for (const NamedShape& named : shapes) {
    if (a.take(named.name)) return named.shape;
  }
  throw Unsupported();
}

/// Which shapes there are for the elements of A and B.
struct KnownShape {
  Element element;
  bool wmma;
  Shape shape;
};
constexpr std::array known_shapes{
    KnownShape{Element::f16, false, {16, 8, 16}},  KnownShape{Element::f16, false, {16, 8, 8}},
    KnownShape{Element::bf16, false, {16, 8, 16}}, KnownShape{Element::bf16, false, {16, 8, 8}},
    KnownShape{Element::tf32, false, {16, 8, 8}},  KnownShape{Element::tf32, false, {16, 8, 4}},
    KnownShape{Element::s8, false, {16, 8, 32}},   KnownShape{Element::s8, false, {16, 8, 16}},
    KnownShape{Element::s8, false, {8, 8, 16}},    KnownShape{Element::f64, false, {8, 8, 4}},
    KnownShape{Element::f64, false, {16, 8, 4}},   KnownShape{Element::f64, false, {16, 8, 8}},
    KnownShape{Element::f64, false, {16, 8, 16}},  KnownShape{Element::f16, true, {16, 16, 16}},
    KnownShape{Element::f16, true, {32, 8, 16}},   KnownShape{Element::f16, true, {8, 32, 16}},
    KnownShape{Element::bf16, true, {16, 16, 16}}, KnownShape{Element::bf16, true, {32, 8, 16}},
    KnownShape{Element::bf16, true, {8, 32, 16}},  KnownShape{Element::s8, true, {16, 16, 16}},
    KnownShape{Element::s8, true, {32, 8, 16}},    KnownShape{Element::s8, true, {8, 32, 16}},
    KnownShape{Element::tf32, true, {16, 16, 8}},  KnownShape{Element::f64, true, {8, 8, 4}},
};

bool is_known(const Shape& shape, Element element, bool wmma) {
  if (element == Element::u8) element = Element::s8;
  return std::any_of(known_shapes.begin(), known_shapes.end(), [&](const KnownShape& known) {
    return known.element == element && known.wmma == wmma && known.shape == shape;
  });
}

Element accumulator_of(Element element) {
  switch (element) {
    case Element::s8:
    case Element::u8:
      return Element::s32;
    case Element::f64:
      return Element::f64;
    default:
      return Element::f32;
  }
}

Element take_element(Assembler& a) {
  const auto element = a.take_next_of(element_names);
  a.refuse_if(!element);
  return static_cast<Element>(*element);
}

/// The registers of a fragment. Those of wmma may hold all elements twice.
void keep_fragment(Assembler& a, const WrittenOperand& written, std::size_t registers, Element element,
                   bool is_result) {
  const bool is_vector = written.kind == WrittenOperand::Kind::vector;
  const std::size_t count = is_vector ? written.elements.size() : 1;
  a.refuse_if(count != registers && count != 2 * registers && count != 4 * registers);
  for (std::size_t i = 0; i < registers; ++i) {
    const WrittenOperand& one = is_vector ? written.elements[i] : written;
    if (is_result) {
      a.more_destination(one, register_type(element));
    } else {
      a.more_source(one, register_type(element));
    }
  }
}

/// mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 d, a, b, c; of wmma with halves only the types of D and C are named.
void assemble_product(Assembler& a, bool wmma) {
  take_part_together(a);
  Product product;
  product.shape = take_shape(a);
  product.d = take_element(a);
  product.a = take_element(a);
  if (wmma && !a.has_any_of(element_names)) {
    product.c = product.a;
    product.a = product.b = Element::f16;
  } else {
    product.b = take_element(a);
    product.c = take_element(a);
  }
  const bool whole = accumulator_of(product.a) == Element::s32;
  product.saturates = whole && a.take("satfinite");
  if (product.a == Element::f64) (void)a.take("rn");
  // In mma, A is in rows and B in columns; in wmma, the loads decided on that.
  const bool row = a.take("row");
  const bool column = a.take("col");
  a.refuse_if(!wmma && !(row && column));
  (void)a.take("row");
  (void)a.take("col");
  a.refuse_if(!is_known(product.shape, product.a, wmma) || a.operand_count() != 4);
  a.refuse_if(accumulator_of(product.a) != accumulator_of(product.b) || (product.a != product.b && !whole));
  for (const Element element : {product.c, product.d}) {
    a.refuse_if(element != accumulator_of(product.a) &&
                !(element == Element::f16 && product.a == Element::f16));
  }
  const auto keep = [&](std::size_t written, Part part, Element element) {
    keep_fragment(a, a.written(written), registers_of(product.shape, part, element), element, written == 0);
  };
  keep(0, Part::c, product.d);
  keep(1, Part::a, product.a);
  keep(2, Part::b, product.b);
  keep(3, Part::c, product.c);
  a.instruction.more_immediates[0] = std::bit_cast<std::int64_t>(product);
  a.instruction.handler = &multiply;
}

void assemble_mma(Assembler& a) {
  assemble_product(a, false);
}

// ---- wmma.load and wmma.store. Operands: 0 address, 1 elements from one row (or column) to the next, 2 addresses of one
// access. Program::more_operands: the fragment's registers.

/// The fragment that is loaded or stored; in more_immediates[0].
struct Fragment {
  Shape shape;
  Part part = Part::a;
  Element element = Element::f16;
  bool row_major = true;
  std::uint8_t registers = 0;
  bool loads = true;
};

void move_fragment(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  check_all_lanes(warp, lanes, "a load or store of a matrix");
  const auto fragment = std::bit_cast<Fragment>(instruction.more_immediates[0]);
  const Operand* registers = &warp.program.more_operands.at(instruction.target);
  const Operand& start = instruction.operands[0];
  const auto* strides = warp.lanes_of<std::uint32_t>(instruction.operands[1]);
  auto* addresses = warp.lanes_of<std::uint64_t>(instruction.operands[2]);
  const std::size_t element = bytes_of(fragment.element);
  const std::size_t per = per_register(fragment.element);
  // The elements of a register lie side by side in a row of A or C, or in a column of B.
  const bool whole_registers = fragment.row_major != (fragment.part == Part::b);
  const std::size_t step = whole_registers ? per : 1;
  const std::size_t count = elements_of(fragment.shape, fragment.part);
  Instruction one = instruction;
  one.immediate = 0;
  one.access_bytes = static_cast<std::uint8_t>(step * element);
  for (std::size_t slot = 0; slot < count; slot += step) {
    for (int lane = 0; lane < warp_size; ++lane) {
      const Place place = place_of(fragment.shape, fragment.part, per, lane, slot);
      const std::uint64_t begin = start.bytes == sizeof(std::uint32_t)
                                      ? warp.lanes_of<std::uint32_t>(start)[lane]
                                      : warp.lanes_of<std::uint64_t>(start)[lane];
      const std::size_t index = fragment.row_major ? place.row * strides[lane] + place.column
                                                   : place.column * strides[lane] + place.row;
      addresses[lane] = begin + static_cast<std::uint64_t>(instruction.immediate) + index * element;
    }
    const HostAccess access = access_memory(warp, one, lanes, instruction.operands[2],
                                            fragment.loads ? AccessKind::load : AccessKind::store);
    const Operand& held = registers[slot / per];
    for (int lane = 0; lane < warp_size; ++lane) {
      const auto l = static_cast<std::size_t>(lane);
      std::byte* memory = access.contiguous ? access.host[0] + l * one.access_bytes : access.host[l];
      std::byte* held_at = warp.lanes_of<std::byte>(held) + l * held.bytes + slot % per * element;
      std::memcpy(fragment.loads ? held_at : memory, fragment.loads ? memory : held_at, one.access_bytes);
    }
  }
  const std::size_t once = count / per;
  for (std::size_t i = once; once > 0 && i < fragment.registers;
       ++i) {  // only loads: the second copies of the fragment's elements
    std::memcpy(warp.lanes_of<std::byte>(registers[i]), warp.lanes_of<std::byte>(registers[i % once]),
                std::size_t{registers[i].bytes} * warp_size);
  }
}

void assemble_wmma(Assembler& a) {
  if (a.take("mma")) return assemble_product(a, true);
  Fragment fragment;
  fragment.loads = a.take("load");
  a.refuse_if(!fragment.loads && !a.take("store"));
  const auto part = a.take_one_of({"a", "b", "c", "d"});
  a.refuse_if(!part || fragment.loads != (*part < 3));
  fragment.part = static_cast<Part>(std::min<std::size_t>(*part, 2));
  take_part_together(a);
  fragment.row_major = a.take("row");
  a.refuse_if(!fragment.row_major && !a.take("col"));
  fragment.shape = take_shape(a);
  fragment.element = take_element(a);
  a.instruction.space = a.take("global")                            ? MemorySpace::global
                        : a.take("shared") || a.take("shared::cta") ? MemorySpace::shared
                                                                    : MemorySpace::generic;
  const bool accumulates = fragment.part == Part::c;
  const bool known = std::any_of(known_shapes.begin(), known_shapes.end(), [&](const KnownShape& any) {
    const bool halves = any.element == Element::f16 && fragment.element == Element::f16;
    return any.wmma && any.shape == fragment.shape &&
           (accumulates ? halves || accumulator_of(any.element) == fragment.element
                        : is_known(fragment.shape, fragment.element, true));
  });
  a.refuse_if(!known || a.operand_count() < 2 || a.operand_count() > 3);
  const WrittenOperand& values = a.written(fragment.loads ? 0 : 1);
  a.refuse_if(values.kind != WrittenOperand::Kind::vector);
  const std::size_t once = registers_of(fragment.shape, fragment.part, fragment.element);
  a.refuse_if(values.elements.size() % once != 0 || values.elements.size() > 4 * once);
  fragment.registers = static_cast<std::uint8_t>(values.elements.size());
  for (const WrittenOperand& one : values.elements) {
    if (fragment.loads) {
      a.more_destination(one, register_type(fragment.element));
    } else {
      a.more_source(one, register_type(fragment.element));
    }
  }
  a.address_at(0, a.written(fragment.loads ? 1 : 0));
  WrittenOperand packed;  // without a stride rows, or columns, follow each other
  packed.kind = WrittenOperand::Kind::number;
  const std::string stride = std::to_string(fragment.row_major ? columns_of(fragment.shape, fragment.part)
                                                               : rows_of(fragment.shape, fragment.part));
  packed.text = stride;
  a.source_at(1, a.operand_count() == 3 ? a.written(2) : packed, Type::b32);
  WrittenOperand nothing;
  nothing.kind = WrittenOperand::Kind::nothing;
  a.destination_at(2, nothing, Type::b64);
  a.instruction.more_immediates[0] = std::bit_cast<std::int64_t>(fragment);
  a.instruction.handler = &move_fragment;
}

// ---- ldmatrix, stmatrix, movmatrix: 8 x 8 tiles of 16 bits. Lane 8 j + r has the address of row r of tile j; of each
// tile a lane holds two neighbours: of row lane / 4, or of that column (.trans).

constexpr std::size_t tile_rows = 8;
constexpr std::size_t row_bytes = 16;
constexpr std::size_t tile_address_place = 4;
using TileRow = std::array<std::uint16_t, tile_rows>;
using Tile = std::array<TileRow, tile_rows>;

/// The element that a lane holds in the lower (0) or upper (1) half of its register.
std::uint16_t& element_of(Tile& tile, int lane, std::size_t half, bool transposed) {
  const auto line = static_cast<std::size_t>(lane) / 4;
  const std::size_t across = static_cast<std::size_t>(lane) % 4 * 2 + half;
  return transposed ? tile.at(across).at(line) : tile.at(line).at(across);
}
std::uint32_t held_by(Tile& tile, int lane, bool transposed) {
  return static_cast<std::uint32_t>(element_of(tile, lane, 1, transposed)) << 16U |
         element_of(tile, lane, 0, transposed);
}
void hold(Tile& tile, int lane, std::uint32_t value, bool transposed) {
  element_of(tile, lane, 0, transposed) = static_cast<std::uint16_t>(value);
  element_of(tile, lane, 1, transposed) = static_cast<std::uint16_t>(value >> 16U);
}

template <AccessKind kind>
void move_tiles(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  check_all_lanes(warp, lanes, "ldmatrix or stmatrix");
  const std::size_t tiles = instruction.vector;
  const bool transposed = instruction.option != 0;
  const LaneMask with_address = tiles == 4 ? all_lanes : (1U << (tile_rows * tiles)) - 1;
  const HostAccess access =
      access_memory(warp, instruction, with_address, instruction.operands[tile_address_place], kind);
  const auto row_at = [&](std::size_t lane) {
    return access.contiguous ? access.host[0] + lane * row_bytes : access.host[lane];
  };
  for (std::size_t j = 0; j < tiles; ++j) {
    Tile tile{};
    auto* registers = warp.lanes_of<std::uint32_t>(instruction.operands.at(j));
    if constexpr (kind == AccessKind::load) {
      for (std::size_t row = 0; row < tile_rows; ++row)
        std::memcpy(tile.at(row).data(), row_at(j * tile_rows + row), row_bytes);
      for (int lane = 0; lane < warp_size; ++lane) registers[lane] = held_by(tile, lane, transposed);
    } else {
      for (int lane = 0; lane < warp_size; ++lane) hold(tile, lane, registers[lane], transposed);
      for (std::size_t row = 0; row < tile_rows; ++row)
        std::memcpy(row_at(j * tile_rows + row), tile.at(row).data(), row_bytes);
    }
  }
}

void assemble_tiles(Assembler& a) {
  const bool loads = a.opcode() == "ldmatrix";
  take_part_together(a);
  const auto count = a.take_one_of({"x1", "x2", "x4"});
  a.refuse_if(!a.take("m8n8") || !count || a.take_type() != Type::b16 || a.operand_count() != 2);
  a.instruction.option = a.take("trans") ? 1 : 0;
  a.instruction.space = a.take_one_of({"shared", "shared::cta"}) ? MemorySpace::shared : MemorySpace::generic;
  const std::size_t tiles = std::size_t{1} << *count;
  const WrittenOperand& values = a.written(loads ? 0 : 1);
  const bool is_vector = values.kind == WrittenOperand::Kind::vector;
  a.refuse_if((is_vector ? values.elements.size() : 1) != tiles);
  for (std::size_t j = 0; j < tiles; ++j) {
    const WrittenOperand& value = is_vector ? values.elements[j] : values;
    if (loads) {
      a.destination_at(j, value, Type::b32);
    } else {
      a.source_at(j, value, Type::b32);
    }
  }
  a.address_at(tile_address_place, a.written(loads ? 1 : 0));
  a.instruction.vector = static_cast<std::uint8_t>(tiles);
  a.instruction.access_bytes = row_bytes;
  a.instruction.handler = loads ? &move_tiles<AccessKind::load> : &move_tiles<AccessKind::store>;
}

void transpose_tile(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  check_all_lanes(warp, lanes, "movmatrix");
  Tile tile{};
  const auto* from = warp.lanes_of<std::uint32_t>(instruction.operands[1]);
  for (int lane = 0; lane < warp_size; ++lane) hold(tile, lane, from[lane], false);
  auto* to = warp.lanes_of<std::uint32_t>(instruction.operands[0]);
  for (int lane = 0; lane < warp_size; ++lane) to[lane] = held_by(tile, lane, true);
}
void assemble_movmatrix(Assembler& a) {
  take_part_together(a);
  a.refuse_if(!a.take("m8n8") || !a.take("trans") || a.take_type() != Type::b16);
  a.operands({Type::b32, Type::b32});
  a.instruction.handler = &transpose_tile;
}

constexpr std::array table{
    OpcodeEntry{"mma", &assemble_mma},
    OpcodeEntry{"wmma", &assemble_wmma},
    OpcodeEntry{"ldmatrix", &assemble_tiles},
    OpcodeEntry{"stmatrix", &assemble_tiles},
    OpcodeEntry{"movmatrix", &assemble_movmatrix},
};

}  // namespace

OpcodeTable matrix_opcodes() {
  return {table.data(), table.data() + table.size()};
}

}  // namespace sim
