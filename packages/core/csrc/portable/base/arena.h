#pragma once
#include <stddef.h>
#include <stdint.h>

namespace proa {

/// Allocates aligned blocks of one caller-owned buffer, in order. Not thread-safe.
class Arena {
 public:
  Arena(void* buffer, size_t size) : base_(static_cast<uint8_t*>(buffer)), size_(size) {}
  /// Returns `size` bytes aligned to `align` (a power of two), or nullptr when exhausted.
  void* take(size_t size, size_t align = 64) {
    const uintptr_t at = reinterpret_cast<uintptr_t>(base_) + used_;
    const size_t pad = (align - (at & (align - 1))) & (align - 1);
    if (pad > size_ - used_ || size > size_ - used_ - pad) return nullptr;
    void* block = base_ + used_ + pad;
    used_ += pad + size;
    return block;
  }
  /// Makes the whole buffer free again; every block taken so far becomes invalid.
  void reset() { used_ = 0; }

 private:
  uint8_t* base_;
  size_t size_;
  size_t used_ = 0;
};

}  // namespace proa
