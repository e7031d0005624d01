// Test inputs: each made by a formula of (seed, index), so that host and device make the same ones and any
// element can be made again. Constant inputs hide everything; these are chosen to show something.
#pragma once

#include <cstdint>
#include <vector>

#include "common/harness/problem.h"

enum class InputKind {
  normal,           // mean 0, deviation 1
  uniform,          // -4 to 4
  large_magnitude,  // normal x 1000: overflows without the subtraction of the maximum
  all_equal,        // every result is 1 / cols
  very_negative,    // around -200: a maximum that starts at 0 gives 0 / 0
  ascending,        // every element is a new maximum: the worst case of an online softmax
  one_outlier,      // one element per row 60 above the rest
  neg_inf_prefix,   // the first half of each row masked, every second row around -200 after that: a running
                    // maximum stays -inf for long, and is then far below 0
  all_neg_inf,      // every second row has only -inf: NaN
  one_pos_inf,      // every second row holds a +inf: NaN
  one_nan,          // every second row holds a NaN: NaN
  lowest,           // all -1e30 (f16: -60000): below a maximum that starts at any usual number
  near_one_hot,  // one element per row has the whole softmax except for a thousandth: its gradient is that rest
                 // of a difference
};

const char* name(InputKind kind);
std::vector<InputKind> all_inputs();  ///< what --input accepts

/// Writes shape.elements() elements of `dtype` to x. On the device it returns when they are written.
void fill_input(InputKind kind, std::uint64_t seed, DType dtype, Shape shape, void* x, Space space);
