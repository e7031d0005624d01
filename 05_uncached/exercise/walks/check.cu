// Exercise 05.1: the requests of stage 05's kernel, the direction of its walk, and the end of a 32-bit index.
#include "05_uncached/uncached.cuh"
#include "common/exercise/exercise.h"
#include "common/harness/cuda_handles.h"

namespace {

constexpr Shape wide{4, 4096};
constexpr int pack_size = 4;

Counts count_kernel() {
  const std::size_t bytes = static_cast<std::size_t>(wide.elements()) * sizeof(float);
  const DeviceMemory x = allocate_device(bytes);
  const DeviceMemory y = allocate_device(bytes);
  CUDA_CHECK(cudaMemset(x.get(), 0, bytes));
  const DirectLoad<float> load{static_cast<const float*>(x.get()), wide.cols};
  const DirectStore<float> store{static_cast<float*>(y.get()), wide.cols};
  return count(wide, [&] {
    UncachedSoftmax<256, Direction::backward>::launch<Softmax>(load, store, wide, nullptr);
    CUDA_CHECK(cudaDeviceSynchronize());
  });
}

/// The walk of the kernel, which reports the first column that `thread` takes.
__global__ void first_column_backwards(DirectLoad<float> load, unsigned thread, double* result) {
  bool first = true;
  for_each_pack<pack_size, Direction::backward>(load, 0, wide.cols,
                                                [&](const float(&)[pack_size], std::int64_t col) {
                                                  if (first && threadIdx.x == thread)
                                                    *result = static_cast<double>(col);
                                                  first = false;
                                                });
}

/// The smallest row whose index is negative in 32 bits; -1 if there is none.
__global__ void first_negative_row(int cols, double* result) {
  *result = -1;
  for (int row = 0; row < 100000 && *result < 0; ++row) {
    const int index = static_cast<int>(static_cast<unsigned>(row) * static_cast<unsigned>(cols));
    if (index < 0) *result = row;
  }
}

template <class Launch>
double number_from(Launch launch) {
  const DeviceMemory result = allocate_device(sizeof(double));
  launch(static_cast<double*>(result.get()));
  CUDA_CHECK(cudaGetLastError());
  double number = 0;
  CUDA_CHECK(cudaMemcpy(&number, result.get(), sizeof number, cudaMemcpyDeviceToHost));
  return number;
}

double first_column_backwards_of(unsigned thread) {
  const std::size_t bytes = static_cast<std::size_t>(wide.cols) * sizeof(float);
  const DeviceMemory x = allocate_device(bytes);
  CUDA_CHECK(cudaMemset(x.get(), 0, bytes));
  return number_from([&](double* result) {
    first_column_backwards<<<1, 256>>>({static_cast<const float*>(x.get()), wide.cols}, thread, result);
  });
}

}  // namespace

int main(int argc, char** argv) {
  const Prediction prediction{
      {
          {"passes_of_reading",
           [] { return count_kernel()[Counter::read_passes]; },
           {{1, "The row is kept nowhere: what was read for the maximum must be read again for the sum."},
            {2,
             "That is what may come from DRAM when a cache helps, or what stage 06 needs. This kernel asks "
             "for more."},
            {4, "Four passes with the write; how many of them are reads?"}},
           "What is the row read for?"},
          {"passes_of_writing",
           [] { return count_kernel()[Counter::written_passes]; },
           {{2, "Only the result is written, and once."}},
           "How often is an element of y written?"},
          {"barriers_per_row",
           [] { return count_kernel()[Counter::barriers]; },
           {{2, "There are two block reductions. How many barriers does each of them have?"},
            {3, "The walks need no barrier. Count those inside the two block reductions."},
            {6,
             "The reduction of two levels needs no barrier behind its last read: before its result is "
             "written again, all "
             "threads pass the next first barrier."}},
           "Two block reductions of stage 02: see lesson 02 for the barriers of one."},
          {"first_column_backwards_thread_0",
           [] { return first_column_backwards_of(0); },
           {{4095, "That is the last column; a pack of 4 begins three columns before it."},
            {0, "That is where the forward walk begins."},
            {4096, "Columns are counted from 0: the last one is 4095."},
            {1023, "That is the number of the pack. Its first column is 4 times as large."}},
           "Which pack is the last of the row, and where does it begin?"},
          {"first_column_backwards_thread_1",
           [] { return first_column_backwards_of(1); },
           {{4091, "That is where the pack ends; where does it begin?"},
            {4096 - 8 + 4, "That is thread 0's pack."},
            {3068, "Neighbouring threads take neighbouring packs, also backwards."}},
           "Neighbouring threads take neighbouring packs, also backwards."},
          {"first_negative_row",
           [] { return number_from([](double* result) { first_negative_row<<<1, 1>>>(60000, result); }); },
           {{71583, "That is where an unsigned index would wrap: 2^32 / 60000."}},
           "The largest int is 2147483647. Which row is the first whose number times 60000 is larger?"},
      },
      "Nothing of a row is kept, so each of the three steps reads it again: 4 passes are requested, whatever "
      "a cache answers. "
      "Walking backwards begins with what was read last, and 64-bit indices are needed as soon as a matrix "
      "has 2^31 "
      "elements, long before a single row is too long."};
  return check_prediction(prediction, argc, argv);
}
