// Mistakes of operators.py: each has a number, and the one whose number is in the PTX is switched on.
#pragma once

#include <cstdlib>

/// In an executable, PTX is text. There, operators.py replaces this number by 1000000000 and the mistake's number.
__device__ unsigned switched_on = 1000000000;

/// The number of the mistake that is switched on in code of the host, or 0.
inline unsigned switched_on_host() {
  const char* number = std::getenv("MISTAKE");
  return number != nullptr ? static_cast<unsigned>(std::atoi(number)) : 0;
}

template <unsigned number>
__host__ __device__ constexpr bool is_on() {
  if (__builtin_is_constant_evaluated()) return false;
#ifdef __CUDA_ARCH__
  return switched_on == 1000000000 + number;
#else
  return switched_on_host() == number;
#endif
}

/// `a < LESS(17) > b` is a < b, but a <= b if mistake 17 is switched on. It has the precedence of the operator.
template <unsigned number, bool or_equal>
struct Comparison {};
template <unsigned number, bool or_equal, class A>
struct LeftSide {
  A a;
};
template <unsigned number, bool or_equal, class A>
__host__ __device__ constexpr LeftSide<number, or_equal, A> operator<(A a,
                                                                      Comparison<number, or_equal> /*at*/) {
  return {a};
}
template <unsigned number, bool or_equal, class A, class B>
__host__ __device__ constexpr bool operator>(LeftSide<number, or_equal, A> left, B b) {
  return or_equal != is_on<number>() ? left.a <= b : left.a < b;
}
#define LESS(number) (Comparison<number, false>{})
#define LESS_OR_EQUAL(number) (Comparison<number, true>{})
