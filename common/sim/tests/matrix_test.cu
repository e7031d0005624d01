// Products of small matrices by the matrix units, compared with the host's. The entries are small whole numbers, so that
// every sum is exact, whatever the order and the precision in which it is made.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdint>
#include <cstdio>
#include <type_traits>
#include <vector>

#include "common/sim/tests/cuda_check.h"

namespace {

using namespace nvcuda;

bool failed = false;

/// From -4 to 4, or from 0 on where there is no sign.
template <class T>
std::vector<T> numbers(int count, int seed) {
  std::vector<T> values;
  constexpr bool has_sign = !std::is_same_v<T, std::uint8_t>;
  for (int i = 0; i < count; ++i) {
    values.push_back(T(static_cast<float>((i * 37 + seed * 11 + i / 7) % 9 - (has_sign ? 4 : 0))));
  }
  return values;
}

template <class T>
DeviceMemory on_device(const std::vector<T>& values) {
  DeviceMemory memory = allocate_device(values.size() * sizeof(T));
  CUDA_CHECK(cudaMemcpy(memory.get(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return memory;
}

/// D = A B + C for row-major m x k, k x n and m x n, by launch(a, b, c, d).
template <class In, class Out, class Launch>
void expect_product(const char* name, int m, int n, int k, Launch launch) {
  const auto a = numbers<In>(m * k, 1);
  const auto b = numbers<In>(k * n, 2);
  const auto c = numbers<Out>(m * n, 3);
  const DeviceMemory on_a = on_device(a);
  const DeviceMemory on_b = on_device(b);
  const DeviceMemory on_c = on_device(c);
  const DeviceMemory on_d = on_device(numbers<Out>(m * n, 4));
  launch(static_cast<const In*>(on_a.get()), static_cast<const In*>(on_b.get()),
         static_cast<const Out*>(on_c.get()), static_cast<Out*>(on_d.get()));
  CUDA_CHECK(cudaGetLastError());
  std::vector<Out> d(c.size());
  CUDA_CHECK(cudaMemcpy(d.data(), on_d.get(), d.size() * sizeof(Out), cudaMemcpyDeviceToHost));
  int wrong = 0;
  for (int row = 0; row < m; ++row) {
    for (int column = 0; column < n; ++column) {
      auto sum = static_cast<double>(static_cast<float>(c[row * n + column]));
      for (int i = 0; i < k; ++i) {
        sum += static_cast<double>(static_cast<float>(a[row * k + i])) *
               static_cast<double>(static_cast<float>(b[i * n + column]));
      }
      if (static_cast<double>(static_cast<float>(d[row * n + column])) != sum) ++wrong;
    }
  }
  std::printf("%-4s %s, %d x %d x %d: %d wrong\n", wrong == 0 ? "ok" : "FAIL", name, m, n, k, wrong);
  failed = failed || wrong != 0;
}

// ---- wmma: the fragments are the compiler's business. B comes from shared memory, transposed.

template <class Element, class In, class Out, int m, int n, int k, bool scaled>
__global__ void multiply(const In* a, const In* b, const Out* c, Out* d) {
  __shared__ __align__(32) In transposed[n * k];
  for (int i = threadIdx.x; i < n * k; i += 32) transposed[i % n * k + i / n] = b[i];
  __syncwarp();
  wmma::fragment<wmma::matrix_a, m, n, k, Element, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, m, n, k, Element, wmma::col_major> right;
  wmma::fragment<wmma::matrix_b, m, n, k, Element, wmma::row_major> right_again;
  wmma::fragment<wmma::accumulator, m, n, k, Out> sum;
  wmma::fragment<wmma::accumulator, m, n, k, Out> sum_again;
  wmma::load_matrix_sync(left, a, k);
  wmma::load_matrix_sync(right, transposed, k);
  wmma::load_matrix_sync(right_again, b, n);
  wmma::load_matrix_sync(sum, c, n, wmma::mem_row_major);
  if constexpr (scaled) {  // the same for every element: then the fragment's order does not matter
    for (int i = 0; i < left.num_elements; ++i) left.x[i] = left.x[i] * In(2.0F) * In(0.5F);
  }
  wmma::mma_sync(sum, left, right, sum);
  // The same once more, from the other layout, taken away again and added.
  wmma::fill_fragment(sum_again, Out(0.0F));
  wmma::mma_sync(sum_again, left, right_again, sum_again);
  for (int i = 0; i < sum.num_elements; ++i) {
    const Out difference = sum.x[i] - sum_again.x[i];
    sum.x[i] = difference + sum_again.x[i];
  }
  wmma::store_matrix_sync(d, sum, n, wmma::mem_row_major);
}

template <class Element, class In, class Out, int m, int n, int k>
void expect_wmma(const char* name) {
  expect_product<In, Out>(name, m, n, k, [](const In* a, const In* b, const Out* c, Out* d) {
    multiply<Element, In, Out, m, n, k, std::is_same_v<In, half> || std::is_same_v<In, float>>
        <<<1, 32>>>(a, b, c, d);
  });
}

// ---- mma.sync: each lane holds the elements that the PTX ISA gives it.

__device__ std::uint32_t pair(const void* from, int first, int second) {
  const auto* bits = static_cast<const std::uint16_t*>(from);
  return static_cast<std::uint32_t>(bits[second]) << 16U | bits[first];
}
__device__ std::uint32_t four(const void* from, int first, int step) {
  const auto* bytes = static_cast<const std::uint8_t*>(from);
  std::uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word |= static_cast<std::uint32_t>(bytes[first + i * step]) << (8 * i);
  return word;
}

/// m16n8k16 and m16n8k8 of half and bfloat16.
template <class In, int k>
__global__ void multiply_16_bits(const In* a, const In* b, const float* c, float* d) {
  const int group = static_cast<int>(threadIdx.x) / 4;
  const int member = static_cast<int>(threadIdx.x) % 4;
  const auto of_a = [&](int row, int column) { return pair(a, row * k + column, row * k + column + 1); };
  const auto of_b = [&](int row) { return pair(b, row * 8 + group, (row + 1) * 8 + group); };
  const int low = group * 8 + member * 2;
  const int high = (group + 8) * 8 + member * 2;
  float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
  const std::uint32_t a0 = of_a(group, member * 2);
  const std::uint32_t a1 = of_a(group + 8, member * 2);
  const std::uint32_t b0 = of_b(member * 2);
  if constexpr (k == 16) {
    const std::uint32_t a2 = of_a(group, member * 2 + 8);
    const std::uint32_t a3 = of_a(group + 8, member * 2 + 8);
    const std::uint32_t b1 = of_b(member * 2 + 8);
    if constexpr (std::is_same_v<In, half>) {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
          "{%10,%11,%12,%13};"
          : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3)
          : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(c[low]), "f"(c[low + 1]), "f"(c[high]),
            "f"(c[high + 1]));
    } else {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
          "{%10,%11,%12,%13};"
          : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3)
          : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(c[low]), "f"(c[low + 1]), "f"(c[high]),
            "f"(c[high + 1]));
    }
  } else if constexpr (std::is_same_v<In, half>) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
        : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3)
        : "r"(a0), "r"(a1), "r"(b0), "f"(c[low]), "f"(c[low + 1]), "f"(c[high]), "f"(c[high + 1]));
  } else {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
        : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3)
        : "r"(a0), "r"(a1), "r"(b0), "f"(c[low]), "f"(c[low + 1]), "f"(c[high]), "f"(c[high + 1]));
  }
  d[low] = d0;
  d[low + 1] = d1;
  d[high] = d2;
  d[high + 1] = d3;
}

/// The same with an accumulator of halves.
__global__ void multiply_to_half(const half* a, const half* b, const half* c, half* d) {
  const int group = static_cast<int>(threadIdx.x) / 4;
  const int member = static_cast<int>(threadIdx.x) % 4;
  const auto of_a = [&](int row, int column) { return pair(a, row * 16 + column, row * 16 + column + 1); };
  const auto of_b = [&](int row) { return pair(b, row * 8 + group, (row + 1) * 8 + group); };
  const int low = group * 8 + member * 2;
  const int high = (group + 8) * 8 + member * 2;
  std::uint32_t d0 = 0, d1 = 0;
  asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%8,%9};"
      : "=r"(d0), "=r"(d1)
      : "r"(of_a(group, member * 2)), "r"(of_a(group + 8, member * 2)), "r"(of_a(group, member * 2 + 8)),
        "r"(of_a(group + 8, member * 2 + 8)), "r"(of_b(member * 2)), "r"(of_b(member * 2 + 8)),
        "r"(pair(c, low, low + 1)), "r"(pair(c, high, high + 1)));
  *reinterpret_cast<std::uint32_t*>(d + low) = d0;
  *reinterpret_cast<std::uint32_t*>(d + high) = d1;
}

__global__ void multiply_tf32(const float* a, const float* b, const float* c, float* d) {
  const int group = static_cast<int>(threadIdx.x) / 4;
  const int member = static_cast<int>(threadIdx.x) % 4;
  const auto bits = [](float value) { return __float_as_uint(value); };
  const int low = group * 8 + member * 2;
  const int high = (group + 8) * 8 + member * 2;
  float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%10,%11,%12,%13};"
      : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3)
      : "r"(bits(a[group * 8 + member])), "r"(bits(a[(group + 8) * 8 + member])),
        "r"(bits(a[group * 8 + member + 4])), "r"(bits(a[(group + 8) * 8 + member + 4])),
        "r"(bits(b[member * 8 + group])), "r"(bits(b[(member + 4) * 8 + group])), "f"(c[low]),
        "f"(c[low + 1]), "f"(c[high]), "f"(c[high + 1]));
  d[low] = d0;
  d[low + 1] = d1;
  d[high] = d2;
  d[high + 1] = d3;
}

__global__ void multiply_s8(const std::int8_t* a, const std::int8_t* b, const int* c, int* d) {
  constexpr int k = 32;
  const int group = static_cast<int>(threadIdx.x) / 4;
  const int member = static_cast<int>(threadIdx.x) % 4;
  const auto of_a = [&](int row, int column) { return four(a, row * k + column, 1); };
  const int low = group * 8 + member * 2;
  const int high = (group + 8) * 8 + member * 2;
  int d0 = 0, d1 = 0, d2 = 0, d3 = 0;
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%10,%11,%12,%13};"
      : "=r"(d0), "=r"(d1), "=r"(d2), "=r"(d3)
      : "r"(of_a(group, member * 4)), "r"(of_a(group + 8, member * 4)), "r"(of_a(group, member * 4 + 16)),
        "r"(of_a(group + 8, member * 4 + 16)), "r"(four(b, member * 4 * 8 + group, 8)),
        "r"(four(b, (member * 4 + 16) * 8 + group, 8)), "r"(c[low]), "r"(c[low + 1]), "r"(c[high]),
        "r"(c[high + 1]));
  d[low] = d0;
  d[low + 1] = d1;
  d[high] = d2;
  d[high + 1] = d3;
}

__global__ void multiply_f64(const double* a, const double* b, const double* c, double* d) {
  const int group = static_cast<int>(threadIdx.x) / 4;
  const int member = static_cast<int>(threadIdx.x) % 4;
  const int place = group * 8 + member * 2;
  double d0 = 0, d1 = 0;
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%4,%5};"
      : "=d"(d0), "=d"(d1)
      : "d"(a[group * 4 + member]), "d"(b[member * 8 + group]), "d"(c[place]), "d"(c[place + 1]));
  d[place] = d0;
  d[place + 1] = d1;
}

// ---- ldmatrix and stmatrix: A by four tiles, B by two that are transposed on the way, or by one and one.

__device__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

template <bool one_by_one>
__global__ void multiply_by_tiles(const half* a, const half* b, const float* c, float* d) {
  constexpr int padded = 24;  // halves a row, so that eight rows lie in different banks
  __shared__ __align__(16) half left[16 * padded];
  __shared__ __align__(16) half right[16 * 8];
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 16 * 16; i += 32) left[i / 16 * padded + i % 16] = a[i];
  for (int i = lane; i < 16 * 8; i += 32) right[i] = b[i];
  __syncwarp();
  std::uint32_t a0 = 0, a1 = 0, a2 = 0, a3 = 0, b0 = 0, b1 = 0;
  // Tiles in the order of mma's registers: rows 0-7 and 8-15 of the left half of A, then of the right one.
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a0), "=r"(a1), "=r"(a2), "=r"(a3)
               : "r"(shared_address(left + lane % 16 * padded + lane / 16 * 8)));
  if constexpr (one_by_one) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(b0)
                 : "r"(shared_address(right + lane % 8 * 8)));
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(b1)
                 : "r"(shared_address(right + 64 + lane % 8 * 8)));
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(b1));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(b0), "=r"(b1)
                 : "r"(shared_address(right + lane % 16 * 8)));
  }
  const int group = lane / 4;
  const int low = group * 8 + lane % 4 * 2;
  const int high = low + 64;
  float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%10,%11,%12,%13};"
      : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3)
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(c[low]), "f"(c[low + 1]), "f"(c[high]),
        "f"(c[high + 1]));
  // The result as halves through shared memory, by tiles.
  __syncwarp();
  const auto halves = [](float first, float second) {
    const half2 both = __floats2half2_rn(first, second);
    return *reinterpret_cast<const std::uint32_t*>(&both);
  };
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(shared_address(right + lane % 16 * 8)),
      "r"(halves(d0, d1)), "r"(halves(d2, d3))
      : "memory");
  __syncwarp();
  for (int i = lane; i < 16 * 8; i += 32) d[i] = __half2float(right[i]);
}

}  // namespace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) {
    std::printf("neither a GPU nor the simulator\n");
    return 3;
  }
  expect_wmma<half, half, float, 16, 16, 16>("wmma, half to float");
  expect_wmma<half, half, float, 32, 8, 16>("wmma, half to float");
  expect_wmma<half, half, float, 8, 32, 16>("wmma, half to float");
  expect_wmma<half, half, half, 16, 16, 16>("wmma, half to half");
  expect_wmma<half, half, half, 32, 8, 16>("wmma, half to half");
  expect_wmma<half, half, half, 8, 32, 16>("wmma, half to half");
  expect_wmma<__nv_bfloat16, __nv_bfloat16, float, 16, 16, 16>("wmma, bfloat16 to float");
  expect_wmma<__nv_bfloat16, __nv_bfloat16, float, 32, 8, 16>("wmma, bfloat16 to float");
  expect_wmma<__nv_bfloat16, __nv_bfloat16, float, 8, 32, 16>("wmma, bfloat16 to float");
  expect_wmma<signed char, signed char, int, 16, 16, 16>("wmma, signed bytes");
  expect_wmma<signed char, signed char, int, 32, 8, 16>("wmma, signed bytes");
  expect_wmma<unsigned char, unsigned char, int, 8, 32, 16>("wmma, unsigned bytes");
  expect_wmma<wmma::precision::tf32, float, float, 16, 16, 8>("wmma, tf32");
  expect_wmma<double, double, double, 8, 8, 4>("wmma, double");

  const auto by = [](auto kernel) {
    return [kernel](const auto* a, const auto* b, const auto* c, auto* d) { kernel<<<1, 32>>>(a, b, c, d); };
  };
  expect_product<half, float>("mma, half", 16, 8, 16, by(multiply_16_bits<half, 16>));
  expect_product<half, float>("mma, half", 16, 8, 8, by(multiply_16_bits<half, 8>));
  expect_product<__nv_bfloat16, float>("mma, bfloat16", 16, 8, 16, by(multiply_16_bits<__nv_bfloat16, 16>));
  expect_product<__nv_bfloat16, float>("mma, bfloat16", 16, 8, 8, by(multiply_16_bits<__nv_bfloat16, 8>));
  expect_product<half, half>("mma, half to half", 16, 8, 16, by(multiply_to_half));
  expect_product<float, float>("mma, tf32", 16, 8, 8, by(multiply_tf32));
  expect_product<std::int8_t, int>("mma, signed bytes", 16, 8, 32, by(multiply_s8));
  expect_product<double, double>("mma, double", 8, 8, 4, by(multiply_f64));
  expect_product<half, float>("ldmatrix, stmatrix", 16, 8, 16, by(multiply_by_tiles<false>));
  expect_product<half, float>("ldmatrix one by one", 16, 8, 16, by(multiply_by_tiles<true>));
  return failed ? 1 : 0;
}
