// POSIX.
#include "platform.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/syscall.h>
#endif

namespace proa::platform {

void* allocate(size_t size) {
  void* memory = nullptr;
  return posix_memalign(&memory, 64, size > 0 ? size : 1) == 0 ? memory : nullptr;
}

void release(void* memory) { free(memory); }

bool request_amx() {
#if defined(__linux__) && defined(__x86_64__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

namespace {

/// Reads `size` bytes; false if the file has fewer or more.
bool read_all(int handle, void* memory, size_t size) {
  size_t at = 0;
  while (at < size) {
    const ssize_t count = read(handle, static_cast<char*>(memory) + at, size - at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += static_cast<size_t>(count);
  }
  struct stat about;
  return fstat(handle, &about) == 0 && static_cast<uint64_t>(about.st_size) == size;
}

}  // namespace

File read_file(const char* path) {
  File file;
  file.problem = FileProblem::kNotReadable;
  // A FIFO without a writer does not hold up an open that does not block.
  const int handle = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (handle < 0) return file;
  struct stat about;
  if (fstat(handle, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0) {
    const auto size = static_cast<uint64_t>(about.st_size);
    void* memory = size <= SIZE_MAX ? allocate(static_cast<size_t>(size)) : nullptr;
    file.problem = memory == nullptr ? FileProblem::kNoMemory : FileProblem::kChanged;
    if (memory != nullptr && read_all(handle, memory, static_cast<size_t>(size))) {
      file = {memory, static_cast<size_t>(size), FileProblem::kNone};
    } else {
      release(memory);
    }
  }
  close(handle);
  return file;
}

const char* setting(const char* name) { return getenv(name); }

}  // namespace proa::platform
