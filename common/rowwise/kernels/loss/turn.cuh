// From the stage cross_entropy: how a block walks over a row that is read once. In each iteration ("turn") a
// thread reads several packs.
#pragma once

#include "common/rowwise/kernels/forward/head_and_tail.cuh"
#include "common/rowwise/kernels/loss/packs_in_registers.cuh"

namespace rowwise {

/// A thread's loads of one iteration. All of them are in flight before the thread uses the first.
template <class T, int packs_per_turn>
class Turn {
 public:
  static constexpr int N = elements_per_16_bytes<T>;

  /// Loads the iteration of the block that begins with first_pack. In the first one, a thread also has one of
  /// the single elements.
  __device__ void fetch(const T* elements, const Cut<N>& cut, int first_pack) {
    const int pack = first_pack + first_pack_of_thread<packs_per_turn>();
    const T* const address = elements + cut.col_of_pack(pack);
#pragma unroll
    for (int i = 0; i < packs_per_turn; ++i) {
      if (pack + 32 * i < cut.num_packs) packs_[i] = load_pack<N>(address + 32 * i * N);
    }
    if (has_single(cut, first_pack)) {
      single_ = load_pack<1>(elements + cut.col_of_single(static_cast<int>(threadIdx.x)));
    }
  }

  /// Adds two packs at a time, so that the sum is rescaled once for both; the registers cannot hold more.
  template <class Op>
  __device__ void add_to(typename Op::Own& own, const Cut<N>& cut, int first_pack) const {
    const int pack = first_pack + first_pack_of_thread<packs_per_turn>();
#pragma unroll
    for (int i = 0; i < packs_per_turn; i += 2) {
      if (pack + 32 * (i + 1) < cut.num_packs) {
        add_packs<2>(own, packs_ + i);
      } else if (pack + 32 * i < cut.num_packs) {
        add_packs<1>(own, packs_ + i);
      }
    }
    if (!has_single(cut, first_pack)) return;
    float value[1];
    unpack(single_, value);
    own.add(value);
  }

  /// The packs of the block in one iteration.
  static __device__ int step() {
    return packs_per_turn * static_cast<int>(blockDim.x);
  }

 private:
  static __device__ bool has_single(const Cut<N>& cut, int first_pack) {
    return first_pack == 0 && static_cast<int>(threadIdx.x) < cut.num_singles();
  }

  Pack<T, N> packs_[packs_per_turn];
  Pack<T, 1> single_;
};

/// This thread's share of `count` elements, reduced.
template <class Op, int packs_per_turn, class T>
__device__ typename Op::Own reduce_elements(const T* elements, int count, unsigned boundary = line_bytes) {
  const Cut<elements_per_16_bytes<T>> cut(elements, count, boundary);
  typename Op::Own own;
  Turn<T, packs_per_turn> turn;
  int pack = 0;
  do {  // once even if there are no packs
    turn.fetch(elements, cut, pack);
    turn.template add_to<Op>(own, cut, pack);
    pack += turn.step();
  } while (pack < cut.num_packs);
  return own;
}

/// Threads for a row of `row_bytes` bytes: one pack per load of an iteration, and at least as many threads as
/// a row has single elements.
inline unsigned threads_of_turns(std::int64_t row_bytes, int packs_per_turn, std::int64_t most_threads) {
  const std::int64_t threads = round_up(divide_up(row_bytes, 16 * packs_per_turn), 32);
  return static_cast<unsigned>(min(max(threads, std::int64_t{128}), most_threads));
}

}  // namespace rowwise
