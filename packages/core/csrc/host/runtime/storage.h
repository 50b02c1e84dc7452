#pragma once
// Memory that tensors share: counted, versioned, ours or borrowed.
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace proa {

/// A counted block of bytes. The header and the data are one allocation unless the data is foreign.
class Storage {
 public:
  using Deleter = void (*)(void* context);

  /// New memory, uninitialised, 64-byte aligned. The caller owns one reference.
  static Storage* create(size_t bytes);
  /// Borrows `data`; `deleter(context)` runs once, when the last reference goes.
  static Storage* borrow(void* data, size_t bytes, Deleter deleter, void* context);

  void retain() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void drop() {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy();
  }
  bool unique() const { return refs_.load(std::memory_order_acquire) == 1; }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  bool foreign() const { return deleter_ != nullptr; }

  /// Counts the in-place changes; saved tensors compare it.
  uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }

 private:
  Storage() = default;
  void destroy();

  std::atomic<int32_t> refs_{1};
  std::atomic<uint32_t> version_{0};
  void* data_ = nullptr;
  size_t bytes_ = 0;
  size_t capacity_ = 0;
  Deleter deleter_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace proa
