// The set of bytes of a piece of memory that have been written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sim {

class ByteSet {
 public:
  explicit ByteSet(std::size_t bytes) : bytes_(bytes), words_(bytes / word_bits + 1) {}

  /// Adds `count` bytes from `first` on; they must lie within the set's size.
  void add(std::size_t first, std::size_t count) {
    if (full_ || holds_piece(first, count)) return;
    if (count == bytes_) {
      full_ = true;
      return;
    }
    extend_piece(first, count);
    for_words(first, count, [this](std::size_t word, std::uint64_t bits) {
      words_[word] |= bits;
      return true;
    });
  }
  [[nodiscard]] bool is_full() const { return full_; }
  void remove(std::size_t first, std::size_t count);
  /// Copies the membership of `count` bytes: bytes from `first` on become as those of `from` from
  /// `from_first` on.
  void copy(std::size_t first, const ByteSet& from, std::size_t from_first, std::size_t count);
  void clear();
  [[nodiscard]] bool contains_any(std::size_t first, std::size_t count) const {
    return full_ || !for_words(first, count, [this](std::size_t word, std::uint64_t bits) {
             return (words_[word] & bits) == 0;
           });
  }
  [[nodiscard]] bool contains(std::size_t first, std::size_t count) const {
    return full_ || holds_piece(first, count) ||
           for_words(first, count,
                     [this](std::size_t word, std::uint64_t bits) { return (words_[word] & bits) == bits; });
  }
  /// True: it contains them, as is known without looking at each. False says nothing.
  [[nodiscard]] bool holds_piece(std::size_t first, std::size_t count) const {
    return first >= piece_begin_ && first + count <= piece_end_;
  }

 private:
  static constexpr std::size_t word_bits = 64;

  void extend_piece(std::size_t first, std::size_t count) {
    const std::size_t end = first + count;
    if (end < piece_begin_ || first > piece_end_) {
      if (count < piece_end_ - piece_begin_) return;
      piece_begin_ = first;
      piece_end_ = end;
    } else {
      piece_begin_ = first < piece_begin_ ? first : piece_begin_;
      piece_end_ = end > piece_end_ ? end : piece_end_;
    }
  }

  /// Calls function(index of a word, the bits of it that belong to the range) until it returns false.
  template <class Function>
  static bool for_words(std::size_t first, std::size_t count, Function function) {
    while (count > 0) {
      const std::size_t bit = first % word_bits;
      const std::size_t bits = count < word_bits - bit ? count : word_bits - bit;
      const std::uint64_t ones = bits == word_bits ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
      if (!function(first / word_bits, ones << bit)) return false;
      first += bits;
      count -= bits;
    }
    return true;
  }

  std::size_t bytes_;
  bool full_ = false;
  // A large piece of which all bytes are in the set: most queries are inside it.
  std::size_t piece_begin_ = 0;
  std::size_t piece_end_ = 0;
  std::vector<std::uint64_t> words_;
};

}  // namespace sim
