#include "proa/runtime/engine_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

namespace {

/// A file that is open for reading, closed at the end.
class File {
 public:
  explicit File(const std::string& path)
      // A FIFO without a writer does not hold up an open that does not block.
      : path_(path), handle_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (handle_ >= 0) return;
    throw EngineError(Status::kInvalidArgument,
                      "[Engine] cannot open the model file '" + path + "': " + strerror(errno));
  }
  ~File() { ::close(handle_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  struct stat status() const {
    struct stat s;
    if (fstat(handle_, &s) != 0) fail(strerror(errno));
    if (!S_ISREG(s.st_mode)) fail("which is not a regular file");
    if (s.st_size == 0) fail("which is empty");
    return s;
  }

  /// Bytes read, fewer than `size` where the file ends.
  size_t read(void* to, size_t size) const {
    size_t at = 0;
    while (at < size) {
      const ssize_t count = ::read(handle_, static_cast<char*>(to) + at, size - at);
      if (count < 0 && errno != EINTR) fail(strerror(errno));
      if (count == 0) break;
      if (count > 0) at += static_cast<size_t>(count);
    }
    return at;
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw EngineError(Status::kBadModel,
                      "[Engine] expected a readable model file, got '" + path_ + "', " + why);
  }

 private:
  const std::string& path_;
  const int handle_;
};

bool same_version(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

}  // namespace

Bytes::Bytes(const std::string& path) {
  const File file(path);
  const struct stat before = file.status();
  copy_ = Buffer(static_cast<size_t>(before.st_size));
  const size_t count = file.read(copy_.data(), copy_.size());
  if (count != copy_.size() || !same_version(before, file.status())) {
    file.fail("which another program changed while it was read");
  }
  size_ = count;
}

}  // namespace proa
