#include "proa/runtime/engine_memory.h"

#include <string.h>

#include <string>

#include "proa/model/compressed.h"
#include "proa/runtime/allocator.h"
#include "proa/runtime/engine.h"

namespace proa {

Buffer::Buffer(size_t size) : size_(size) {
  const size_t limit = memory_limit();
  if (size > limit) {
    throw EngineError(Status::kResourceExhausted,
                      "[Engine] out of memory: " + std::to_string(size) +
                          " bytes are needed for these input shapes, this machine has " +
                          std::to_string(limit));
  }
  const size_t rounded = (size + 63) / 64 * 64 + 64;
  data_.reset(allocate_pages(rounded));
  if (data_ == nullptr) {
    throw EngineError(Status::kResourceExhausted,
                      "[Engine] out of memory for a block of " + std::to_string(size) + " bytes");
  }
}

Bytes::Bytes(const void* data, size_t size) : copy_(size), size_(size) {
  if (size > 0) memcpy(copy_.data(), data, size);
}

void Bytes::expand() {
  if (!is_compressed_model(data(), size_)) return;
  const auto whole = static_cast<size_t>(expanded_model_size(data(), size_));
  Buffer model(whole);
  if (whole == 0 || expand_model(data(), size_, model.data()) != Status::kOk) {
    throw EngineError(Status::kBadModel,
                      "[Engine] not a valid model file: its compressed bytes are broken");
  }
  copy_ = std::move(model);
  size_ = whole;
}

}  // namespace proa
