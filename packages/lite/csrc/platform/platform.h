#pragma once
// What the runtime asks of the system. A port to another system replaces platform.cc.
#include <stddef.h>

namespace proa::platform {

/// Memory aligned to 64 bytes, or nullptr.
void* allocate(size_t size);
void release(void* memory);

/// A file mapped (or read) into memory aligned to 16 or more; `data` is nullptr if it cannot be
/// had.
struct File {
  const void* data = nullptr;
  size_t size = 0;
};
File open_file(const char* path);
void close_file(const File& file);

/// A setting from outside, such as an environment variable; nullptr if it is not set.
const char* setting(const char* name);

}  // namespace proa::platform
