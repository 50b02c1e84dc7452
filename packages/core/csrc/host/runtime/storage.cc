#include "proa/runtime/storage.h"

#include <new>

#include "proa/runtime/allocator.h"

namespace proa {

namespace {
constexpr size_t kHeader = 64;
static_assert(sizeof(Storage) <= kHeader, "the data starts right after the header");
}  // namespace

Storage* Storage::create(size_t bytes) {
  size_t capacity = 0;
  void* block = allocate(kHeader + bytes, &capacity);
  auto* storage = new (block) Storage();
  storage->data_ = static_cast<char*>(block) + kHeader;
  storage->bytes_ = bytes;
  storage->capacity_ = capacity;
  return storage;
}

Storage* Storage::borrow(void* data, size_t bytes, Deleter deleter, void* context) {
  size_t capacity = 0;
  auto* storage = new (allocate(kHeader, &capacity)) Storage();
  storage->data_ = data;
  storage->bytes_ = bytes;
  storage->capacity_ = capacity;
  storage->deleter_ = deleter;
  storage->context_ = context;
  return storage;
}

void Storage::destroy() {
  if (deleter_ != nullptr) deleter_(context_);
  const size_t capacity = capacity_;
  this->~Storage();
  release(this, capacity);
}

}  // namespace proa
