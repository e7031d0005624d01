#include "common/sim/machine/byte_set.h"

#include <algorithm>

namespace sim {

void ByteSet::remove(std::size_t first, std::size_t count) {
  if (full_) {
    full_ = false;
    std::fill(words_.begin(), words_.end(), ~std::uint64_t{0});
  }
  piece_begin_ = piece_end_ = 0;
  for_words(first, count, [this](std::size_t word, std::uint64_t bits) {
    words_[word] &= ~bits;
    return true;
  });
}

void ByteSet::copy(std::size_t first, const ByteSet& from, std::size_t from_first, std::size_t count) {
  if (from.contains(from_first, count)) return add(first, count);
  if (&from == this) return copy(first, ByteSet(from), from_first, count);
  remove(first, count);
  for (std::size_t done = 0; done < count;) {
    std::size_t some = std::min(count - done, word_bits);
    if (!from.contains_any(from_first + done, some)) {
      done += some;
      continue;
    }
    if (!from.contains(from_first + done, some)) some = 1;
    if (from.contains(from_first + done, some)) add(first + done, some);
    done += some;
  }
}

void ByteSet::clear() {
  full_ = false;
  piece_begin_ = piece_end_ = 0;
  std::fill(words_.begin(), words_.end(), 0);
}

}  // namespace sim
