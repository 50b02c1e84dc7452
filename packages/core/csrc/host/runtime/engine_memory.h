#pragma once
// Memory that an engine owns: the bytes of its model, tables, arenas.
#include <cstdlib>
#include <memory>
#include <utility>

namespace proa {

/// 64-byte aligned memory of its own. Throws EngineError if there is not enough.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t size);
  void* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(void* p) const { free(p); }
  };
  std::unique_ptr<void, Free> data_;
  size_t size_ = 0;
};

/// The bytes of a model, a copy: later changes of the file or memory have no effect.
class Bytes {
 public:
  Bytes(const void* data, size_t size);
  /// The first part of a model of `whole` bytes, which size() returns.
  Bytes(const void* data, size_t size, size_t whole) : Bytes(data, size) { size_ = whole; }
  /// `memory` has `size` bytes or more.
  Bytes(Buffer memory, size_t size) : copy_(std::move(memory)), size_(size) {}
  /// Replaces a compressed model file by the model file in it. Throws EngineError if it is broken.
  void expand();
  const void* data() const { return copy_.data(); }
  size_t size() const { return size_; }

 private:
  Buffer copy_;
  size_t size_ = 0;
};

}  // namespace proa
