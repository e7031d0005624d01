// The operators of operators.cpp, for python.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

namespace rowwise {

// Each calls the operator through PyTorch's dispatcher.
at::Tensor softmax(const at::Tensor& x, std::int64_t dim);
at::Tensor log_softmax(const at::Tensor& x, std::int64_t dim);
at::Tensor cross_entropy(const at::Tensor& x, const at::Tensor& labels, std::string_view reduction);

}  // namespace rowwise
