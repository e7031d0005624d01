// From the problem's dtype to the C++ type.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>

#include "common/harness/problem.h"

/// Calls function.template operator()<T>() with the C++ type of a matrix of this dtype.
template <class Function>
auto dispatch_dtype(DType dtype, Function&& function) {
  if (dtype == DType::f16) return function.template operator()<__half>();
  if (dtype == DType::bf16) return function.template operator()<__nv_bfloat16>();
  if (dtype != DType::f32) throw std::logic_error("no matrix has this dtype");
  return function.template operator()<float>();
}
