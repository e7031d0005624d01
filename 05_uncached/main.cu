#include "05_uncached/uncached.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/direct_launch.cuh"

namespace {

constexpr RowCosts two_reductions{.barriers = 4, .bank_conflicts = 0};

template <int block_size, Direction second_pass>
auto uncached() {
  return direct_launch([](auto op, auto load, auto store, Shape shape, cudaStream_t stream) {
    launch_uncached_softmax<op(), block_size, second_pass>(load, load, store, shape, stream);
  });
}

auto with_cache_hints() {
  return typed_launch([]<class T>(auto op, const T* x, T* y, Shape shape, cudaStream_t stream) {
    launch_uncached_softmax<op(), 1024, Direction::backward>(
        DirectLoad<T>{x, shape.cols}, StreamingLoad<T>{{x, shape.cols}}, StreamingStore<T>{{y, shape.cols}},
        shape, stream);
  });
}

}  // namespace

Stage stage() {
  return {"05_uncached",
          "rows of any width: read again instead of keeping",
          {
              {"small_block", "256 threads a row: many rows in flight", uncached<256, Direction::forward>(),
               whole_passes(3, 1, two_reductions)},
              {"large_block", "1024 threads a row: fewer rows in flight, more of them in the L2",
               uncached<1024, Direction::forward>(), whole_passes(3, 1, two_reductions)},
              {"reversed_second_pass", "large block, the sum walks backwards",
               uncached<1024, Direction::backward>(), whole_passes(3, 1, two_reductions)},
              {"cache_hints", "the same, last read and write marked as streaming", with_cache_hints(),
               whole_passes(3, 1, two_reductions)},
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
