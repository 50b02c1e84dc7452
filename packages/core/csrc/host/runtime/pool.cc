#include "proa/runtime/pool.h"

#include <pthread.h>
#include <sched.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "proa/runtime/cpu_quota.h"
#include "proa/runtime/denormals.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__GLIBCXX__) && (defined(__x86_64__) || defined(__aarch64__))
// The version before GCC 12 made it noexcept; see glibc.cc.
__asm__(
    ".symver _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE, "
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
#endif

namespace proa {

namespace {

constexpr int kSpins = 2000;  // about 20 microseconds

thread_local bool t_inside = false;  // running a body of some pool

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void run_inline(int64_t n, int64_t grain, Parallel::Body body, void* arg) {
  for (int64_t b = 0; b < n; b += grain) body(arg, b, b + grain < n ? b + grain : n);
}

}  // namespace

// The loop in progress is one word: its number in the high half, the next unit to claim in the low
// half. A worker reads the word, then the loop's description, then claims by compare-exchange: if
// that succeeds, the loop was open all the while and the description is the loop's own.
struct ThreadPool::Workers {
  std::atomic<uint64_t> word{0};
  std::atomic<uint32_t> units{0};  // claimable units of the loop, each `batch` chunks
  std::atomic<int64_t> n{0}, grain{0}, batch{0};
  std::atomic<Parallel::Body> body{nullptr};
  std::atomic<void*> arg{nullptr};
  std::atomic<uint64_t> control{0};  // float_control() of the caller
  std::atomic<uint32_t> done{0};

  std::atomic<int> sleepers{0};
  std::atomic<bool> caller_sleeps{false};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::condition_variable wake, finished;
  std::vector<std::thread> threads;

  explicit Workers(int count) {
    threads.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) threads.emplace_back([this] { serve(); });
  }
  ~Workers() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      stop.store(true);
    }
    wake.notify_all();
    for (std::thread& worker : threads) worker.join();
  }

  // Works on the open loop until nothing is left to claim; returns its number.
  uint32_t work() {
    for (;;) {
      uint64_t seen = word.load(std::memory_order_acquire);
      const auto unit = static_cast<uint32_t>(seen);
      if (unit >= units.load(std::memory_order_relaxed)) return static_cast<uint32_t>(seen >> 32);
      const int64_t total = n.load(std::memory_order_relaxed);
      const int64_t g = grain.load(std::memory_order_relaxed);
      const int64_t width = g * batch.load(std::memory_order_relaxed);
      const Parallel::Body run = body.load(std::memory_order_relaxed);
      void* context = arg.load(std::memory_order_relaxed);
      const uint64_t floats = control.load(std::memory_order_relaxed);
      if (!word.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel)) continue;
      set_float_control(floats);
      const int64_t from = width * unit;
      const int64_t to = from + width < total ? from + width : total;
      for (int64_t b = from; b < to; b += g) run(context, b, b + g < to ? b + g : to);
      // The loop cannot end before this unit is counted, so `units` is still the loop's own.
      const uint32_t all = units.load(std::memory_order_relaxed);
      if (done.fetch_add(1, std::memory_order_seq_cst) + 1 == all &&
          caller_sleeps.load(std::memory_order_seq_cst)) {
        std::lock_guard<std::mutex> lock(mutex);
        finished.notify_one();
      }
    }
  }

  void serve() {
    t_inside = true;
    uint32_t last = 0;
    while (!stop.load(std::memory_order_relaxed)) {
      last = work();
      int spins = 0;
      while (static_cast<uint32_t>(word.load(std::memory_order_acquire) >> 32) == last &&
             ++spins < kSpins) {
        relax();
      }
      if (spins < kSpins) continue;
      std::unique_lock<std::mutex> lock(mutex);
      sleepers.fetch_add(1, std::memory_order_seq_cst);
      wake.wait(lock, [&] {
        return stop.load() ||
               static_cast<uint32_t>(word.load(std::memory_order_seq_cst) >> 32) != last;
      });
      sleepers.fetch_sub(1, std::memory_order_relaxed);
    }
  }

  void lead(int64_t total, int64_t g, Parallel::Body run, void* context) {
    const int64_t chunks = (total + g - 1) / g;
    const auto team = static_cast<int64_t>(threads.size() + 1);
    const int64_t size = chunks > team * 16 ? chunks / (team * 16) : 1;
    const auto count = static_cast<uint32_t>((chunks + size - 1) / size);
    const uint64_t number = (word.load(std::memory_order_relaxed) >> 32) + 1;
    // Close the old loop's word first: a late worker must not pair it with the new description.
    word.store((number - 1) << 32 | 0xffffffffu, std::memory_order_seq_cst);
    n.store(total, std::memory_order_relaxed);
    grain.store(g, std::memory_order_relaxed);
    batch.store(size, std::memory_order_relaxed);
    body.store(run, std::memory_order_relaxed);
    arg.store(context, std::memory_order_relaxed);
    control.store(float_control(), std::memory_order_relaxed);
    done.store(0, std::memory_order_relaxed);
    units.store(count, std::memory_order_relaxed);
    word.store((number & 0xffffffffu) << 32, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) > 0) {
      std::lock_guard<std::mutex> lock(mutex);
      wake.notify_all();
    }
    work();
    for (int spins = 0; done.load(std::memory_order_acquire) != count; ++spins) {
      relax();
      if (spins < kSpins) continue;
      std::unique_lock<std::mutex> lock(mutex);
      caller_sleeps.store(true, std::memory_order_seq_cst);
      finished.wait(lock, [&] { return done.load(std::memory_order_seq_cst) == count; });
      caller_sleeps.store(false, std::memory_order_relaxed);
    }
  }
};

// Every living pool, so that a forked child can forget threads it does not have.
struct PoolRegistry {
  std::mutex mutex;
  std::vector<ThreadPool*> pools;

  static PoolRegistry& get() {
    static PoolRegistry* instance = [] {
      auto* created = new PoolRegistry();
      pthread_atfork([] { get().mutex.lock(); }, [] { get().mutex.unlock(); },
                     [] {
                       t_inside = false;
                       for (ThreadPool* pool : get().pools) pool->forget_threads();
                       get().mutex.unlock();
                     });
      return created;
    }();
    return *instance;
  }
};

ThreadPool::ThreadPool(int threads) : threads_(threads < 1 ? 1 : threads) {
  handle_.run = [](void* pool, int64_t n, int64_t grain, Parallel::Body body, void* arg) {
    static_cast<ThreadPool*>(pool)->run(n, grain, body, arg);
  };
  handle_.pool = this;
  PoolRegistry& registry = PoolRegistry::get();
  std::lock_guard<std::mutex> lock(registry.mutex);
  registry.pools.push_back(this);
}

ThreadPool::~ThreadPool() {
  PoolRegistry& registry = PoolRegistry::get();
  {
    std::lock_guard<std::mutex> lock(registry.mutex);
    for (size_t i = 0; i < registry.pools.size(); ++i) {
      if (registry.pools[i] != this) continue;
      registry.pools.erase(registry.pools.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
  }
  delete workers_.load();
}

void ThreadPool::forget_threads() {
  // The old workers do not exist here and their mutex may be locked: leak them.
  workers_.store(nullptr);
  busy_.store(false);
}

ThreadPool::Workers* ThreadPool::workers() {
  Workers* current = workers_.load(std::memory_order_acquire);
  if (current == nullptr) {
    current = new Workers(threads() - 1);
    workers_.store(current, std::memory_order_release);
  }
  return current;
}

void ThreadPool::run(int64_t n, int64_t grain, Parallel::Body body, void* arg) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  bool idle = false;
  if (n <= grain || threads() <= 1 || t_inside ||
      !busy_.compare_exchange_strong(idle, true, std::memory_order_acquire)) {
    run_inline(n, grain, body, arg);
    return;
  }
  t_inside = true;
  workers()->lead(n, grain, body, arg);
  t_inside = false;
  busy_.store(false, std::memory_order_release);
}

void ThreadPool::set_threads(int threads) {
  if (threads < 1) threads = 1;
  bool idle = false;
  while (!busy_.compare_exchange_weak(idle, true, std::memory_order_acquire)) {
    idle = false;
    std::this_thread::yield();
  }
  if (threads != this->threads()) {
    delete workers_.exchange(nullptr);
    threads_.store(threads);
  }
  busy_.store(false, std::memory_order_release);
}

ThreadPool& ThreadPool::global() {
  static ThreadPool* pool = new ThreadPool(default_threads());
  return *pool;
}

int default_threads() {
  if (const char* text = std::getenv("PROA_NUM_THREADS")) {
    const long wanted = std::strtol(text, nullptr, 10);
    if (wanted > 0) return wanted < 1024 ? static_cast<int>(wanted) : 1024;
  }
  cpu_set_t set;
  int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  const int quota = cpu_quota();
  if (quota > 0 && quota < count) count = quota;
  return count < 1 ? 1 : count;
}

}  // namespace proa
