#pragma once
// Memory that an engine owns: the bytes of its model, tables, arenas.
#include <cstdlib>
#include <memory>
#include <string>

namespace proa {

/// 64-byte aligned memory of its own. Throws EngineError where there is none.
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

/// The bytes of a model: a mapped file or a copy.
class Bytes {
 public:
  Bytes(const void* data, size_t size);
  /// Throws EngineError if the file cannot be read.
  explicit Bytes(const std::string& path);
  ~Bytes();
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  const void* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  Buffer copy_;
  void* data_ = nullptr;
  size_t size_ = 0;
  bool mapped_ = false;
};

}  // namespace proa
