// Allocator and storage: alignment, reuse, statistics, versions, borrowed memory, threads.
#include "proa/runtime/storage.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "proa/runtime/allocator.h"
#include "proa/runtime/error.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

using proa::Storage;

namespace {

void check(bool held, const char* what) {
  if (held) return;
  std::printf("FAIL %s\n", what);
  std::exit(1);
}

// The sanitizer must see the first byte beyond what was requested, and all of a released block.
void check_poison() {
#ifdef __SANITIZE_ADDRESS__
  for (const size_t bytes : {size_t{9}, size_t{100}, size_t{5000}, size_t{1} << 20}) {
    size_t capacity = 0;
    auto* block = static_cast<char*>(proa::allocate(bytes, &capacity));
    check(__asan_region_is_poisoned(block, bytes) == nullptr, "a block may be touched");
    check(capacity == bytes || __asan_address_is_poisoned(block + bytes), "its end may not");
    proa::release(block, capacity);
    check(__asan_address_is_poisoned(block + bytes - 1), "nor what is released");
  }
  proa::empty_cache();
#endif
}

/// Blocks are aligned, reused and counted.
void check_blocks() {
  const int64_t before = proa::memory_stats().allocated;
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{64}, size_t{65}, size_t{1000},
                             size_t{1025}, size_t{4097}, size_t{1} << 20, (size_t{8} << 20) + 3}) {
    size_t capacity = 0;
    void* block = proa::allocate(bytes, &capacity);
    check(reinterpret_cast<uintptr_t>(block) % 64 == 0, "alignment");
    check(capacity >= bytes && (bytes < 1024 || capacity <= bytes + bytes / 4 + 64), "capacity");
    std::memset(block, 1, bytes);
    proa::release(block, capacity);
    size_t again = 0;
    void* same = proa::allocate(bytes, &again);
    check(same == block && again == capacity, "reuse");
    proa::release(same, again);
  }
  check(proa::memory_stats().allocated == before, "what is freed is not counted");
  check(proa::memory_stats().peak >= before + (8 << 20), "peak");
  proa::empty_cache();
  check(proa::memory_stats().cached == 0, "empty_cache");
  proa::reset_peak();
  check(proa::memory_stats().peak == before, "reset_peak");
}

void check_storage() {
  Storage* storage = Storage::create(100);
  check(reinterpret_cast<uintptr_t>(storage->data()) % 64 == 0, "data alignment");
  check(storage->version() == 0 && storage->unique(), "a new storage");
  storage->bump_version();
  storage->retain();
  check(storage->version() == 1 && !storage->unique(), "version and count");
  storage->drop();
  storage->drop();

  static int freed = 0;
  char own[16];
  Storage* borrowed = Storage::borrow(own, sizeof own, [](void*) { ++freed; }, nullptr);
  check(borrowed->data() == own && borrowed->foreign(), "borrowed memory");
  borrowed->drop();
  check(freed == 1, "the deleter runs once");
}

void check_threads() {
  const int64_t before = proa::memory_stats().allocated;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      std::vector<Storage*> held;
      for (int i = 0; i < 20000; ++i) {
        held.push_back(Storage::create(static_cast<size_t>(i * 37 % 9000)));
        if (held.size() > 50) {
          held[static_cast<size_t>(i) % 50]->drop();
          held[static_cast<size_t>(i) % 50] = held.back();
          held.pop_back();
        }
      }
      for (Storage* s : held) s->drop();
    });
  }
  for (std::thread& thread : threads) thread.join();
  check(proa::memory_stats().allocated == before, "nothing lost by threads");
}

void check_refusal() {
  bool refused = false;
  try {
    size_t capacity = 0;
    proa::allocate(size_t{1} << 60, &capacity);
  } catch (const proa::Error& e) {
    refused = e.kind() == proa::ErrorKind::kResourceExhausted;
  }
  check(refused, "a size beyond memory is a typed error");
}

}  // namespace

int main() {
  check_poison();
  check_blocks();
  check_storage();
  check_threads();
  check_refusal();
  return 0;
}
