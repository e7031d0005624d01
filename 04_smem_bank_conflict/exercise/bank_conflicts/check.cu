// Exercise 04.1: wavefronts of one read of shared memory.
#include "common/exercise/exercise.h"
#include "common/kernel/cuda_check.h"

namespace {

constexpr int words = 512;

/// Word is float or float4: each lane reads one at word stride * lane + first. Volatile accesses are not
/// merged.
template <class Word>
__global__ void read_once(int stride, int first, float* result) {
  __shared__ __align__(16) float buffer[words];
  for (int i = static_cast<int>(threadIdx.x); i < words; i += 32) buffer[i] = 0;
  __syncwarp();
  const float* place = buffer + stride * static_cast<int>(threadIdx.x) + first;
  if constexpr (sizeof(Word) == sizeof(float)) {
    *result = *static_cast<const volatile float*>(place);
  } else {
    const Word word = *reinterpret_cast<const Word*>(place);
    *result = word.x + word.y + word.z + word.w;
  }
}

template <class Word>
double wavefronts(int stride, int first) {
  float* result = nullptr;
  CUDA_CHECK(cudaMalloc(&result, sizeof *result));
  const Counts counts = count({1, 32}, [&] {
    read_once<Word><<<1, 32>>>(stride, first, result);
    CUDA_CHECK(cudaGetLastError());
  });
  CUDA_CHECK(cudaFree(result));
  return static_cast<double>(counts.total.shared_loads.wavefronts);
}

Question question(const char* name, double (*wavefronts)(int, int), int stride, int first,
                  std::vector<Question::Mistake> mistakes, const char* advice) {
  return {name, [=] { return wavefronts(stride, first); }, std::move(mistakes), advice};
}

}  // namespace

int main(int argc, char** argv) {
  const Prediction prediction{
      {
          question("word_l", wavefronts<float>, 1, 0,
                   {{32, "The banks work at the same time: each serves one word per wavefront."},
                    {0, "An access without a conflict takes a wavefront, too."}},
                   "Lane l wants bank l. Does any bank have two words to serve?"),
          question("word_2l", wavefronts<float>, 2, 0,
                   {{1, "Lanes 0 and 16 want words 0 and 32: which banks are these?"},
                    {16, "16 is the number of banks in use. How many lanes meet in each?"}},
                   "Write down the banks of lanes 0, 1, 15, 16 and 17."),
          question(
              "word_8l", wavefronts<float>, 8, 0,
              {{4, "4 is the number of banks in use. How many lanes meet in each?"},
               {1,
                "nvcc would have to merge accesses for that, and one access of one float cannot be merged."}},
              "Which banks do the words 0, 8, 16, 24, 32, 40, ... lie in?"),
          question(
              "word_9l", wavefronts<float>, 9, 0,
              {{9,
                "The number of wavefronts is not the stride. Write down the banks: 0, 9, 18, 27, then 36 "
                "mod 32, ..."},
               {8, "With the gap, lane 4 wants word 36 instead of 32. Which bank is that?"}},
              "Write down the banks of the first lanes: does any come twice?"),
          question("word_5", wavefronts<float>, 0, 5,
                   {{32,
                     "Lanes wait for each other when they want different words of a bank. This is the same "
                     "word."}},
                   "All lanes want one word, not different words of one bank."),
          question("pack_at_4l", wavefronts<float4>, 4, 0,
                   {{1, "32 lanes want 16 bytes each, 512 bytes; the 32 banks serve 128 per wavefront."},
                    {16, "That is the number of bytes per lane. How many lanes does a wavefront serve?"}},
                   "How many bytes do all lanes want, and how many does a wavefront serve?"),
          question("pack_at_8l", wavefronts<float4>, 8, 0,
                   {{4, "That is the least for 512 bytes. But lanes 0 and 4 both want banks 0 to 3."},
                    {2, "Each quarter of the warp takes two wavefronts. How many quarters are there?"},
                    {32, "An access of 16 bytes is served 8 lanes at a time, not lane by lane."}},
                   "Take a quarter of the warp: which banks do lanes 0, 1, 2, 3 and 4 want?"),
      },
      "The number of wavefronts is the largest number of different words that one bank has to serve. Any odd "
      "stride spreads 32 "
      "lanes over 32 banks, an even one leaves banks idle, and an access of 16 bytes is served 8 lanes at a "
      "time."};
  return check_prediction(prediction, argc, argv);
}
