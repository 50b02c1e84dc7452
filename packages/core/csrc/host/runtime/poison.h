#pragma once
// Under AddressSanitizer: which bytes of a block of the allocator may be touched. Blocks are kept
// for reuse and are larger than what was requested, so the sanitizer alone sees neither a use after
// release nor one beyond the end.
#include <cstddef>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace proa {

#ifdef __SANITIZE_ADDRESS__
/// Lets bytes [0, valid) of a block be touched, and none from there to `capacity`.
inline void set_valid(void* block, size_t valid, size_t capacity) {
  __asan_unpoison_memory_region(block, valid);
  __asan_poison_memory_region(static_cast<char*>(block) + valid, capacity - valid);
}
#else
inline void set_valid(void* /*block*/, size_t /*valid*/, size_t /*capacity*/) {}
#endif

}  // namespace proa
