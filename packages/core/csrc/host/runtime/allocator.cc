#include "proa/runtime/allocator.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include "proa/runtime/error.h"
#include "proa/runtime/poison.h"
#include "proa/runtime/thread_local.h"

namespace proa {

namespace {

// Classes: multiples of 64 up to 1 KiB, then four to each power of two. Blocks of up to 4 KiB
// also have a short list per thread, which needs no lock.
constexpr size_t kFine = 1024;
constexpr int kFineClasses = kFine / 64;
constexpr int kClasses = kFineClasses + 4 * 40;
constexpr int kSmallClasses = kFineClasses + 4 * 2;
constexpr int kThreadKeeps = 64;
constexpr size_t kHuge = size_t{4} << 20;

struct Block {
  Block* next;
};

struct SizeClass {
  int index;
  size_t bytes;
};

SizeClass class_of(size_t bytes) {
  if (bytes <= kFine) {
    const int index = bytes == 0 ? 0 : static_cast<int>((bytes - 1) / 64);
    return {index, static_cast<size_t>(index + 1) * 64};
  }
  const int log = 63 - __builtin_clzll(bytes - 1);  // 2^log <= bytes - 1 < 2^(log + 1)
  const size_t quarter = size_t{1} << (log - 2);
  const size_t step = (bytes - 1 - (size_t{1} << log)) / quarter;  // 0..3
  return {kFineClasses + 4 * (log - 10) + static_cast<int>(step),
          (size_t{1} << log) + (step + 1) * quarter};
}

struct Cache {
  std::mutex mutex;
  Block* lists[kClasses] = {};
  std::atomic<int64_t> allocated{0};
  std::atomic<int64_t> peak{0};
  std::atomic<int64_t> cached{0};  // in `lists`; what threads keep is not counted
  std::atomic<int64_t> reserved{0};
  std::atomic<int64_t> reserved_peak{0};
};

// Never destroyed: storages may outlive static destructors.
Cache& cache() {
  static Cache* instance = [] {
    auto* created = new Cache();
    pthread_atfork([] { cache().mutex.lock(); }, [] { cache().mutex.unlock(); },
                   [] { cache().mutex.unlock(); });
    return created;
  }();
  return *instance;
}

void raise_to(std::atomic<int64_t>* peak, int64_t now) {
  int64_t highest = peak->load(std::memory_order_relaxed);
  while (now > highest && !peak->compare_exchange_weak(highest, now, std::memory_order_relaxed)) {
  }
}

void to_system(Block* block, size_t bytes) {
  std::free(block);
  cache().reserved.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
}

size_t bytes_of_class(int index) {
  if (index < kFineClasses) return static_cast<size_t>(index + 1) * 64;
  const int log = 10 + (index - kFineClasses) / 4;
  const auto step = static_cast<size_t>((index - kFineClasses) % 4);
  return (size_t{1} << log) + (step + 1) * (size_t{1} << (log - 2));
}

// Small blocks of a thread. Without a destructor: one would cost each access a check whether the
// cache is constructed yet. `Sweeper` empties it.
struct ThreadCache {
  Block* lists[kSmallClasses] = {};
  int counts[kSmallClasses] = {};
  bool swept = false;   // when the thread ends
  bool closed = false;  // it ended

  void flush() {
    for (int i = 0; i < kSmallClasses; ++i) {
      while (lists[i] != nullptr) {
        Block* block = lists[i];
        lists[i] = block->next;
        to_system(block, bytes_of_class(i));
      }
      counts[i] = 0;
    }
  }
};

thread_local ThreadCache t_cache;

struct Sweeper {
  ThreadCache* cache = nullptr;
  ~Sweeper() {
    if (cache == nullptr) return;
    cache->flush();
    cache->closed = true;
  }
};

thread_local Sweeper t_sweeper;

void sweep_at_end(ThreadCache* blocks) {
  t_sweeper.cache = blocks;
  blocks->swept = true;
}

void count(int64_t bytes) {
  Cache& c = cache();
  const int64_t now = c.allocated.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  raise_to(&c.peak, now);
}

void* from_system(size_t bytes) {
  void* block = allocate_pages(bytes);
  if (block == nullptr) return nullptr;
  Cache& c = cache();
  const auto size = static_cast<int64_t>(bytes);
  raise_to(&c.reserved_peak, c.reserved.fetch_add(size, std::memory_order_relaxed) + size);
  return block;
}

// Cached bytes stay below the bytes in use plus this.
constexpr int64_t kKeep = int64_t{512} << 20;

// The limit of the process's control group (version 2); SIZE_MAX if there is none.
size_t control_group_limit() {
  std::FILE* file = std::fopen("/sys/fs/cgroup/memory.max", "r");
  if (file == nullptr) return SIZE_MAX;
  unsigned long long bytes = 0;  // "max" where there is no limit
  const bool limited = std::fscanf(file, "%llu", &bytes) == 1;
  std::fclose(file);
  return limited ? static_cast<size_t>(bytes) : SIZE_MAX;
}

}  // namespace

size_t memory_limit() {
  static const size_t limit = [] {
    struct sysinfo machine;
    if (sysinfo(&machine) != 0) return size_t{1} << 47;  // of addresses
    const size_t ram = machine.totalram * machine.mem_unit, group = control_group_limit();
    return (ram < group ? ram : group) + machine.totalswap * machine.mem_unit;
  }();
  return limit;
}

void* allocate_pages(size_t bytes) {
  void* block = nullptr;
  if (posix_memalign(&block, bytes >= kHuge ? size_t{2} << 20 : kAlignment, bytes) != 0) {
    return nullptr;
  }
#ifdef MADV_HUGEPAGE
  if (bytes >= kHuge) madvise(block, bytes, MADV_HUGEPAGE);
#endif
  return block;
}

namespace {

// A block of at least `bytes`.
void* block_of_class(size_t bytes, const SizeClass& size) {
  if (bytes >= kHuge && bytes > memory_limit()) {
    throw Error(ErrorKind::kResourceExhausted, "[allocate] expected a size that fits in memory (" +
                                                   std::to_string(memory_limit()) +
                                                   " bytes), got " + std::to_string(bytes) +
                                                   " bytes");
  }
  count(static_cast<int64_t>(size.bytes));
  if (size.index < kSmallClasses) {
    ThreadCache& blocks = of_this_thread(t_cache);
    if (Block* block = blocks.lists[size.index]) {
      blocks.lists[size.index] = block->next;
      --blocks.counts[size.index];
      return block;
    }
  }
  Cache& c = cache();
  {
    std::lock_guard<std::mutex> lock(c.mutex);
    if (Block* block = c.lists[size.index]) {
      c.lists[size.index] = block->next;
      c.cached.fetch_sub(static_cast<int64_t>(size.bytes), std::memory_order_relaxed);
      return block;
    }
  }
  void* block = from_system(size.bytes);
  if (block == nullptr) {
    empty_cache();
    block = from_system(size.bytes);
  }
  if (block == nullptr) {
    count(-static_cast<int64_t>(size.bytes));
    throw Error(ErrorKind::kResourceExhausted, "[allocate] expected free memory for " +
                                                   std::to_string(size.bytes) + " bytes, got none");
  }
  return block;
}

}  // namespace

void* allocate(size_t bytes, size_t* capacity) {
  const SizeClass size = class_of(bytes);
  void* block = block_of_class(bytes, size);
  *capacity = size.bytes;
  set_valid(block, bytes, size.bytes);
  return block;
}

void release(void* memory, size_t capacity) {
  auto* block = static_cast<Block*>(memory);
  set_valid(block, sizeof(Block), capacity);
  const SizeClass size = class_of(capacity);
  Cache& c = cache();
  const int64_t live =
      c.allocated.fetch_sub(static_cast<int64_t>(capacity), std::memory_order_relaxed);
  if (size.index < kSmallClasses) {
    ThreadCache& blocks = of_this_thread(t_cache);
    if (!blocks.closed && blocks.counts[size.index] < kThreadKeeps) {
      if (!blocks.swept) sweep_at_end(&blocks);
      block->next = blocks.lists[size.index];
      blocks.lists[size.index] = block;
      ++blocks.counts[size.index];
      return;
    }
  }
  const auto bytes = static_cast<int64_t>(capacity);
  if (c.cached.load(std::memory_order_relaxed) + bytes > kKeep + live) {
    to_system(block, capacity);
    return;
  }
  std::lock_guard<std::mutex> lock(c.mutex);
  block->next = c.lists[size.index];
  c.lists[size.index] = block;
  c.cached.fetch_add(bytes, std::memory_order_relaxed);
}

void empty_cache() {
  if (!t_cache.closed) t_cache.flush();
  Cache& c = cache();
  std::lock_guard<std::mutex> lock(c.mutex);
  for (int i = 0; i < kClasses; ++i) {
    while (c.lists[i] != nullptr) {
      Block* block = c.lists[i];
      c.lists[i] = block->next;
      to_system(block, bytes_of_class(i));
    }
  }
  c.cached.store(0, std::memory_order_relaxed);
}

MemoryStats memory_stats() {
  Cache& c = cache();
  const int64_t allocated = c.allocated.load(std::memory_order_relaxed);
  return {allocated, c.peak.load(std::memory_order_relaxed),
          c.reserved.load(std::memory_order_relaxed) - allocated,
          c.reserved_peak.load(std::memory_order_relaxed)};
}

void reset_peak() {
  Cache& c = cache();
  c.peak.store(c.allocated.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

void reset_reserved_peak() {
  Cache& c = cache();
  c.reserved_peak.store(c.reserved.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

}  // namespace proa
