#include "common/sim/machine/byte_set.h"

#include <algorithm>

namespace sim {

void ByteSet::remove(std::size_t first, std::size_t count) {
  if (full_) {
    full_ = false;
    std::fill(words_.begin(), words_.end(), ~std::uint64_t{0});
  }
  for_words(first, count, [this](std::size_t word, std::uint64_t bits) {
    words_[word] &= ~bits;
    return true;
  });
}

void ByteSet::clear() {
  full_ = false;
  std::fill(words_.begin(), words_.end(), 0);
}

}  // namespace sim
