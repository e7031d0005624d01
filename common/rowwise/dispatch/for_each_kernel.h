// Every kernel of the dispatch, for programs that go through all of them.
#pragma once

#include "common/rowwise/dispatch/kernels.h"

namespace rowwise {

/// Calls use(kernel, kind, name, idea) for each kernel, in which the last three are texts. `kind` is the name of the enumeration.
template <class Use>
void for_each_kernel(Use use) {
#define ROWWISE_USE_FORWARD(kernel, idea) use(Forward::kernel, "Forward", #kernel, idea);
#define ROWWISE_USE_BACKWARD(kernel, idea) use(Backward::kernel, "Backward", #kernel, idea);
#define ROWWISE_USE_LOSS(kernel, idea) use(Loss::kernel, "Loss", #kernel, idea);
#define ROWWISE_USE_GRADIENT(kernel, idea) use(Gradient::kernel, "Gradient", #kernel, idea);
  ROWWISE_FORWARD(ROWWISE_USE_FORWARD)
  ROWWISE_BACKWARD(ROWWISE_USE_BACKWARD)
  ROWWISE_LOSS(ROWWISE_USE_LOSS)
  ROWWISE_GRADIENT(ROWWISE_USE_GRADIENT)
#undef ROWWISE_USE_FORWARD
#undef ROWWISE_USE_BACKWARD
#undef ROWWISE_USE_LOSS
#undef ROWWISE_USE_GRADIENT
}

}  // namespace rowwise
