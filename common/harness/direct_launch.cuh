// The harness's launch function of a kernel that takes Load and Store functors: plain reads and writes.
#pragma once

#include "common/harness/variant.h"
#include "common/kernel/load_store.cuh"

/// A Variant::launch from launcher(op, load, store, shape, stream); `op` can be used as a template argument.
template <class Launcher>
auto direct_launch(Launcher launcher) {
  return typed_launch([launcher]<class T>(auto op, const T* x, T* y, Shape shape, cudaStream_t stream) {
    launcher(op, DirectLoad<T>{x, shape.cols}, DirectStore<T>{y, shape.cols}, shape, stream);
  });
}
