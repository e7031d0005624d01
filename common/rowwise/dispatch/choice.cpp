#include "common/rowwise/dispatch/choice.h"

namespace rowwise {

// The lists of choices.inc begin with the kind of their kernels.
#define ROWWISE_LISTS(lists) \
  { lists, lists##_without_clusters }
#define ROWWISE_CHOICES(Kernel, kind)                                                            \
  template <>                                                                                    \
  Choices<Kernel> choices_for(const Matrix& matrix) {                                            \
    const bool in_packs = matrix.in_packs();                                                     \
    if (matrix.element_bytes == 4 && in_packs) return ROWWISE_LISTS(kind##_of_4_bytes_in_packs); \
    if (matrix.element_bytes == 4) return ROWWISE_LISTS(kind##_of_4_bytes);                      \
    if (in_packs) return ROWWISE_LISTS(kind##_of_2_bytes_in_packs);                              \
    return ROWWISE_LISTS(kind##_of_2_bytes);                                                     \
  }
ROWWISE_CHOICES(Forward, forward)
ROWWISE_CHOICES(Backward, backward)
ROWWISE_CHOICES(Loss, loss)
ROWWISE_CHOICES(Gradient, gradient)

}  // namespace rowwise
