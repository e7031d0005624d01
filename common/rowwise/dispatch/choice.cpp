#include "common/rowwise/dispatch/choice.h"

namespace rowwise {

namespace {

template <class Kernel>
Choices<Kernel> pick(const Matrix& matrix, Choices<Kernel> of_4_bytes_in_packs, Choices<Kernel> of_4_bytes,
                     Choices<Kernel> of_2_bytes_in_packs, Choices<Kernel> of_2_bytes) {
  if (matrix.element_bytes == 4) return matrix.in_packs() ? of_4_bytes_in_packs : of_4_bytes;
  return matrix.in_packs() ? of_2_bytes_in_packs : of_2_bytes;
}

}  // namespace

template <>
Choices<Forward> choices_for(const Matrix& matrix) {
  return pick<Forward>(matrix, {forward_of_4_bytes_in_packs, forward_of_4_bytes_in_packs_without_clusters},
                       {forward_of_4_bytes, forward_of_4_bytes_without_clusters},
                       {forward_of_2_bytes_in_packs, forward_of_2_bytes_in_packs_without_clusters},
                       {forward_of_2_bytes, forward_of_2_bytes_without_clusters});
}
template <>
Choices<Backward> choices_for(const Matrix& matrix) {
  return pick<Backward>(matrix, {backward_of_4_bytes_in_packs, backward_of_4_bytes_in_packs_without_clusters},
                        {backward_of_4_bytes, backward_of_4_bytes_without_clusters},
                        {backward_of_2_bytes_in_packs, backward_of_2_bytes_in_packs_without_clusters},
                        {backward_of_2_bytes, backward_of_2_bytes_without_clusters});
}
template <>
Choices<Loss> choices_for(const Matrix& matrix) {
  return pick<Loss>(matrix, {loss_of_4_bytes_in_packs, loss_of_4_bytes_in_packs_without_clusters},
                    {loss_of_4_bytes, loss_of_4_bytes_without_clusters},
                    {loss_of_2_bytes_in_packs, loss_of_2_bytes_in_packs_without_clusters},
                    {loss_of_2_bytes, loss_of_2_bytes_without_clusters});
}
template <>
Choices<Gradient> choices_for(const Matrix& matrix) {
  return pick<Gradient>(matrix, {gradient_of_4_bytes_in_packs, gradient_of_4_bytes_in_packs_without_clusters},
                        {gradient_of_4_bytes, gradient_of_4_bytes_without_clusters},
                        {gradient_of_2_bytes_in_packs, gradient_of_2_bytes_in_packs_without_clusters},
                        {gradient_of_2_bytes, gradient_of_2_bytes_without_clusters});
}

}  // namespace rowwise
