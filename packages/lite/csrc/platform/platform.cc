// POSIX.
#include "platform.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace proa::platform {

void* allocate(size_t size) {
  void* memory = nullptr;
  return posix_memalign(&memory, 64, size > 0 ? size : 1) == 0 ? memory : nullptr;
}

void release(void* memory) { free(memory); }

File open_file(const char* path) {
  File file;
  const int handle = open(path, O_RDONLY | O_CLOEXEC);
  if (handle < 0) return file;
  struct stat about;
  if (fstat(handle, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0) {
    void* mapped =
        mmap(nullptr, static_cast<size_t>(about.st_size), PROT_READ, MAP_PRIVATE, handle, 0);
    if (mapped != MAP_FAILED) {
      file.data = mapped;
      file.size = static_cast<size_t>(about.st_size);
    }
  }
  close(handle);
  return file;
}

void close_file(const File& file) {
  if (file.data != nullptr) munmap(const_cast<void*>(file.data), file.size);
}

const char* setting(const char* name) { return getenv(name); }

}  // namespace proa::platform
