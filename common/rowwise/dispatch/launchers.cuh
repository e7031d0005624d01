// The functions of kernels.h and launch.cuh, made from the launcher of each kernel. A source file declares the launchers of a kind,
//   OneRead launcher_of(Is<Loss::one_read>);
// and compiles the functions for that kind.
#pragma once

#include <stdexcept>
#include <type_traits>

#include "common/rowwise/dispatch/launch.cuh"

namespace rowwise {

template <auto kernel>
using Is = std::integral_constant<decltype(kernel), kernel>;

/// Calls use() with the launcher of the kernel.
template <class Kernel, class Use>
auto with_launcher(Kernel kernel, Use use) {
#define ROWWISE_CASE(name, idea) \
  case Kernel::name:             \
    return use(decltype(launcher_of(Is<Kernel::name>{})){});
  if constexpr (std::is_same_v<Kernel, Forward>) {
    switch (kernel) { ROWWISE_FORWARD(ROWWISE_CASE) }
  } else if constexpr (std::is_same_v<Kernel, Backward>) {
    switch (kernel) { ROWWISE_BACKWARD(ROWWISE_CASE) }
  } else if constexpr (std::is_same_v<Kernel, Loss>) {
    switch (kernel) { ROWWISE_LOSS(ROWWISE_CASE) }
  } else {
    switch (kernel) { ROWWISE_GRADIENT(ROWWISE_CASE) }
  }
#undef ROWWISE_CASE
  throw std::logic_error("a kernel that is none");
}

template <class Kernel>
Refusal refusal(Kernel kernel, const Matrix& matrix, const Gpu& gpu) {
  const auto of_first = [&]<class Op, class... Others>(OpList<Op, Others...>) {
    return with_launcher(kernel,
                         [&](auto launcher) { return refusal_of<decltype(launcher), Op>(matrix, gpu); });
  };
  return of_first(OperationsOf<Kernel>{});
}

template <class Kernel>
Need need(Kernel kernel, const Matrix& matrix) {
  return with_launcher(kernel, [&](auto launcher) { return need_of<decltype(launcher)>(matrix); });
}

template <class Op, class Kernel, class T>
void launch(Kernel kernel, const Tensors<T>& tensors, cudaStream_t stream) {
  with_launcher(kernel, [&](auto launcher) { decltype(launcher)::template launch<Op>(tensors, stream); });
}

#define ROWWISE_COMPILE(Kernel)                                           \
  template Refusal refusal(Kernel, const Matrix& matrix, const Gpu& gpu); \
  template Need need(Kernel, const Matrix& matrix);
/// Op: one of the kind's operations.
#define ROWWISE_COMPILE_LAUNCH(Kernel, Op)                                \
  template void launch<Op>(Kernel, const Tensors<float>&, cudaStream_t);  \
  template void launch<Op>(Kernel, const Tensors<__half>&, cudaStream_t); \
  template void launch<Op>(Kernel, const Tensors<__nv_bfloat16>&, cudaStream_t);

}  // namespace rowwise
