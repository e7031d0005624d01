// The smaller and the larger of two, as function objects, which the standard library does not have.
#pragma once

#include <algorithm>

namespace sim {

struct Least {
  template <class T>
  T operator()(T a, T b) const {
    return std::min(a, b);
  }
};
struct Most {
  template <class T>
  T operator()(T a, T b) const {
    return std::max(a, b);
  }
};

}  // namespace sim
