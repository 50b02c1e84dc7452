#pragma once
// The caching allocator: 64-byte aligned blocks in size classes that are kept for reuse.
#include <cstddef>
#include <cstdint>

namespace proa {

constexpr size_t kAlignment = 64;

struct MemoryStats {
  int64_t allocated;      // bytes in blocks that are in use
  int64_t peak;           // the maximum of `allocated` since the last reset
  int64_t cached;         // bytes kept for reuse
  int64_t reserved_peak;  // the maximum of allocated + cached bytes
};

/// The maximum size of a block in bytes: the memory of the machine, or of the process's control
/// group, and swap. A larger one would be granted by a kernel that overcommits, and its use would
/// end the process.
size_t memory_limit();

/// A block of the system, 64-byte aligned, to be given to std::free; nullptr where there is none.
/// Large blocks are in huge pages where the system has them: the first write to each of its pages
/// would cost more than what is written.
void* allocate_pages(size_t bytes);

/// A block of at least `bytes`, 64-byte aligned; `*capacity` is its real size, to be given to
/// release. Thread-safe. Throws Error(kResourceExhausted) when the system has no more, and at once
/// when `bytes` exceeds memory_limit().
void* allocate(size_t bytes, size_t* capacity);
/// Keeps the block for the next allocation of its size class.
void release(void* block, size_t capacity);
/// Returns every cached block of this thread and of the common cache to the system.
void empty_cache();
MemoryStats memory_stats();
/// Starts `peak` again from what is allocated now.
void reset_peak();
/// Starts `reserved_peak` again.
void reset_reserved_peak();

}  // namespace proa
