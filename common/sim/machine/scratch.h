// Host memory that is taken and given back again and again without clearing: it has zeros, or the values left there.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace sim {

class Scratch {
 public:
  struct Piece {
    struct Free {
      void operator()(std::byte* data) const { std::free(data); }  // NOLINT: from calloc, whose pages cost
    };                                                             // nothing until they are touched
    using Data = std::unique_ptr<std::byte[], Free>;               // NOLINT(modernize-avoid-c-arrays)
    Data data;
    std::size_t bytes = 0;
  };

  Piece take(std::size_t bytes) {
    for (Piece& spare : spare_) {
      if (spare.bytes < bytes) continue;
      std::swap(spare, spare_.back());
      Piece piece = std::move(spare_.back());
      spare_.pop_back();
      spare_bytes_ -= piece.bytes;
      return piece;
    }
    Piece piece;
    piece.data.reset(static_cast<std::byte*>(std::calloc(bytes + 1, 1)));  // NOLINT
    if (piece.data == nullptr) throw std::bad_alloc();
    piece.bytes = bytes;
    return piece;
  }
  void give_back(Piece piece) {
    constexpr std::size_t most_spare_bytes = std::size_t{1} << 27;
    if (spare_bytes_ + piece.bytes > most_spare_bytes) return;
    spare_bytes_ += piece.bytes;
    spare_.push_back(std::move(piece));
  }

 private:
  std::vector<Piece> spare_;
  std::size_t spare_bytes_ = 0;
};

}  // namespace sim
