#include "13_dispatch/choice.h"

namespace rowwise {

namespace {

template <class Kernel>
std::span<const Choice<Kernel>> pick(const Matrix& matrix,
                                     std::span<const Choice<Kernel>> of_4_bytes_in_packs,
                                     std::span<const Choice<Kernel>> of_4_bytes,
                                     std::span<const Choice<Kernel>> of_2_bytes_in_packs,
                                     std::span<const Choice<Kernel>> of_2_bytes) {
  if (matrix.element_bytes == 4) return matrix.in_packs() ? of_4_bytes_in_packs : of_4_bytes;
  return matrix.in_packs() ? of_2_bytes_in_packs : of_2_bytes;
}

}  // namespace

template <>
std::span<const Choice<Forward>> choices_for<Forward>(const Matrix& matrix) {
  return pick<Forward>(matrix, forward_of_4_bytes_in_packs, forward_of_4_bytes, forward_of_2_bytes_in_packs,
                       forward_of_2_bytes);
}
template <>
std::span<const Choice<Backward>> choices_for<Backward>(const Matrix& matrix) {
  return pick<Backward>(matrix, backward_of_4_bytes_in_packs, backward_of_4_bytes,
                        backward_of_2_bytes_in_packs, backward_of_2_bytes);
}
template <>
std::span<const Choice<Loss>> choices_for<Loss>(const Matrix& matrix) {
  return pick<Loss>(matrix, loss_of_4_bytes_in_packs, loss_of_4_bytes, loss_of_2_bytes_in_packs,
                    loss_of_2_bytes);
}
template <>
std::span<const Choice<Gradient>> choices_for<Gradient>(const Matrix& matrix) {
  return pick<Gradient>(matrix, gradient_of_4_bytes_in_packs, gradient_of_4_bytes,
                        gradient_of_2_bytes_in_packs, gradient_of_2_bytes);
}

}  // namespace rowwise
