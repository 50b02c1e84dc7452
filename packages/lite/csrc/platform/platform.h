#pragma once
// What the runtime needs of the system. A port to another system replaces platform.cc.
#include <stddef.h>

namespace proa::platform {

/// Memory aligned to 64 bytes, or nullptr.
void* allocate(size_t size);
void release(void* memory);

enum class FileProblem : unsigned char { kNone, kNotReadable, kNoMemory, kChanged };

/// The bytes of a file in memory of allocate(), for release(); `data` is nullptr where there is a
/// problem. They are not mapped: a file that another program overwrites or truncates would
/// change or end this one.
struct File {
  void* data = nullptr;
  size_t size = 0;
  FileProblem problem = FileProblem::kNone;
};
/// Reads a regular file that is not empty.
File read_file(const char* path);

/// Lets the system keep AMX's tiles for the threads of this process; false if it does not.
bool request_amx();

/// A setting from outside, such as an environment variable; nullptr if it is not set.
const char* setting(const char* name);

}  // namespace proa::platform
