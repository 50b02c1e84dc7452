#pragma once
// A bump allocator over a kernel's scratch memory: run without memory it counts the bytes.
#include <stddef.h>
#include <stdint.h>

namespace proa::PROA_ISA {

/// Takes arrays from `memory` in order, each 64-byte aligned if `memory` is. With nullptr it only
/// counts, so that one function serves both <op>_scratch and the kernel.
class Workspace {
 public:
  explicit Workspace(void* memory) : memory_(static_cast<uint8_t*>(memory)) {}
  /// An array of n values of T, uninitialized; nullptr when counting.
  template <class T>
  T* take(int64_t n) {
    uint8_t* p = memory_ == nullptr ? nullptr : memory_ + bytes_;
    bytes_ += (static_cast<size_t>(n) * sizeof(T) + 127) & ~size_t{63};
    return reinterpret_cast<T*>(p);
  }
  size_t bytes() const { return bytes_; }

 private:
  uint8_t* memory_;
  size_t bytes_ = 0;
};

}  // namespace proa::PROA_ISA
