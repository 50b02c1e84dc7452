#pragma once
// Scratch of a kernel in pieces: counted first, then taken.
#include <stddef.h>
#include <stdint.h>

namespace proa::PROA_ISA {

/// A piece of scratch for n values of C, counted in `bytes` and, if there is memory, taken from it.
class Pieces {
 public:
  explicit Pieces(void* memory) : memory_(static_cast<uint8_t*>(memory)) {}
  template <class C>
  C* take(int64_t n) {
    uint8_t* p = memory_ == nullptr ? nullptr : memory_ + bytes_;
    bytes_ += (static_cast<size_t>(n) * sizeof(C) + 127) & ~size_t{63};
    return reinterpret_cast<C*>(p);
  }
  size_t bytes() const { return bytes_; }

 private:
  uint8_t* memory_;
  size_t bytes_ = 0;
};

}  // namespace proa::PROA_ISA
