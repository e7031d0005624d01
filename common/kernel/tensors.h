// The argument of a launcher: launch<Op>(const Tensors<T>&, cudaStream_t).
#pragma once

#include "common/kernel/limits.h"
#include "common/kernel/shape.h"

/// Device memory, row-major. An operation uses the tensors that its definition names; the others are nullptr.
template <class T>
struct Tensors {
  const T* x = nullptr;          ///< rows x cols: softmax and the loss read it
  T* y = nullptr;                ///< rows x cols: softmax writes it, and its gradient reads it
  const float* pairs = nullptr;  ///< rows x 2: the maximum of each row of x, and the sum of exp(x - maximum)
  const T* dy = nullptr;         ///< rows x cols
  T* dx = nullptr;               ///< rows x cols
  const std::int64_t* labels = nullptr;  ///< rows
  float* loss = nullptr;                 ///< rows
  T* softmax = nullptr;  ///< rows x cols: masked softmax writes it and y, and its gradient reads it
  const std::int64_t* lengths = nullptr;  ///< rows: how many columns each row sees
  std::uint64_t seed = 0;                 ///< for random numbers
  void* workspace = nullptr;              ///< as the launcher's needs() describes it
  Shape shape;
  [[nodiscard]] std::int64_t row_bytes() const { return shape.cols * std::int64_t{sizeof(T)}; }
};
