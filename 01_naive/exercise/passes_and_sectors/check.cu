// Exercise 01.1: the requests of stage 01's kernels to memory.
#include "01_naive/naive.cuh"
#include "common/exercise/exercise.h"
#include "common/harness/cuda_handles.h"
#include "common/kernel/row_operation.cuh"

namespace {

/// Two matrices of zeros with a float to spare, and a value per row.
struct Matrices {
  explicit Matrices(Shape shape) {
    const std::size_t bytes = static_cast<std::size_t>(shape.elements() + 1) * sizeof(float);
    for (DeviceMemory* matrix : {&x, &y, &shifted, &exps, &row_max, &row_sum}) {
      *matrix = allocate_device(bytes);
      CUDA_CHECK(cudaMemset(matrix->get(), 0, bytes));
    }
  }
  DeviceMemory x, y, shifted, exps, row_max, row_sum;
};

float* floats(const DeviceMemory& memory) {
  return static_cast<float*>(memory.get());
}

double passes(const Counts& counts) {
  return counts[Counter::read_passes] + counts[Counter::written_passes];
}

constexpr Shape wide{64, 1024};

double passes_of_the_maximum() {
  const Matrices m(wide);
  return passes(count(wide, [&] {
    launch_reduce_rows<NaiveReduction::block_per_row, MaxOp>(floats(m.x), floats(m.row_max), wide, nullptr);
  }));
}

double passes_of_exponentiate() {
  const Matrices m(wide);
  return passes(count(wide, [&] {
    exponentiate<<<grid_for(wide.rows), naive_block_size>>>(floats(m.shifted), floats(m.exps), wide);
    CUDA_CHECK(cudaGetLastError());
  }));
}

double passes_of_all_five() {
  const Matrices m(wide);
  const DeviceMemory workspace = allocate_device(NaiveWorkspace::bytes(wide));
  return passes(count(wide, [&] {
    FiveKernels<NaiveReduction::block_per_row, Division::per_row>::launch<Softmax>(
        Tensors<float>{.x = floats(m.x), .y = floats(m.y), .workspace = workspace.get(), .shape = wide},
        nullptr);
  }));
}

template <NaiveReduction reduction>
double sectors(Shape shape, std::int64_t offset = 0) {
  const Matrices m(shape);
  const Counts counts = count(shape, [&] {
    launch_reduce_rows<reduction, MaxOp>(floats(m.x) + offset, floats(m.row_max), shape, nullptr);
  });
  return counts[Counter::load_sectors];
}

}  // namespace

int main(int argc, char** argv) {
  const Prediction prediction{
      {
          {"passes_of_the_maximum",
           passes_of_the_maximum,
           {{2, "That would be a kernel that also writes a matrix; this one writes a single float per row."}},
           "Which whole matrices does this kernel read, and which does it write?"},
          {"passes_of_exponentiate",
           passes_of_exponentiate,
           {{1, "It reads one matrix, and it writes another: both go through memory."}},
           "Which whole matrices does this kernel read, and which does it write?"},
          {"passes_of_all_five",
           passes_of_all_five,
           {{2,
             "That is what a single kernel would need that keeps the row. These five hand over whole "
             "matrices."},
            {5, "Five kernels, but most of them read a matrix and write one: that is two passes each."},
            {10, "Two of the five write only a float per row."}},
           "Add up the five kernels, one by one."},
          {"sectors_block_per_row",
           [] { return sectors<NaiveReduction::block_per_row>(wide); },
           {{1, "One sector has 32 bytes: that serves 8 lanes of 4 bytes."},
            {32, "That is one sector for each lane. Here neighbouring lanes read neighbouring floats."},
            {128, "That is the number of bytes. How many pieces of 32 bytes are these?"}},
           "32 lanes read 4 bytes each, without a gap. How many pieces of 32 bytes?"},
          {"sectors_thread_per_row",
           [] { return sectors<NaiveReduction::thread_per_row>(wide); },
           {{4,
             "That is so where neighbouring lanes read neighbouring floats. Here they are a whole row "
             "apart."},
            {1024, "A load of a warp is one column of 32 rows, not a whole row."}},
           "Neighbouring lanes read addresses 1024 floats apart. Can two of them share a sector?"},
          {"sectors_thread_per_row_2_columns",
           [] {
             return sectors<NaiveReduction::thread_per_row>({64, 2});
           },
           {{32, "With 1024 columns, yes. Here the next row begins only 8 bytes further on."},
            {4, "The lanes skip every second float: their 32 floats lie spread over 256 bytes, not 128."}},
           "Write down the byte addresses of lanes 0 to 7."},
          {"sectors_block_per_row_shifted",
           [] { return sectors<NaiveReduction::block_per_row>(wide, 1); },
           {{4,
             "So it is for an address that is a multiple of 32. Where do these 128 bytes begin, and where do "
             "they end?"},
            {8, "Only the two ends of the 128 bytes are cut by the shift."}},
           "The bytes 4 to 131: mark the multiples of 32 between them."},
      },
      "What a kernel moves is known before it runs: the passes follow from the matrices that it names, "
      "and the sectors from the addresses of 32 neighbouring lanes. A thread per row asks for 8 times the "
      "sectors for the same bytes. That need not take 8 times the time: the caches keep a sector until it "
      "is used up, and `./run profile 01` shows that DRAM delivers no more bytes."};
  return check_prediction(prediction, argc, argv);
}
