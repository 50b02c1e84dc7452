#include "proa/runtime/engine_memory.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proa/runtime/engine.h"

namespace proa {

Buffer::Buffer(size_t size) : size_(size) {
  const size_t rounded = (size + 63) / 64 * 64 + 64;
  data_.reset(aligned_alloc(64, rounded));
  if (data_ == nullptr) {
    throw EngineError(Status::kResourceExhausted, "[Engine] memory must suffice, got no block of " +
                                                      std::to_string(size) + " bytes");
  }
}

Bytes::Bytes(const void* data, size_t size) : copy_(size), data_(copy_.data()), size_(size) {
  if (size > 0) memcpy(copy_.data(), data, size);
}

Bytes::Bytes(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    throw EngineError(Status::kInvalidArgument, "[Engine] the model file must be readable, got '" +
                                                    path + "': " + strerror(errno));
  }
  struct stat info;
  if (fstat(file, &info) == 0 && info.st_size > 0) {
    size_ = static_cast<size_t>(info.st_size);
    data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    mapped_ = data_ != MAP_FAILED;
  }
  close(file);
  if (!mapped_) {
    throw EngineError(Status::kBadModel,
                      "[Engine] the model file must not be empty, got '" + path + "'");
  }
}

Bytes::~Bytes() {
  if (mapped_) munmap(data_, size_);
}

}  // namespace proa
