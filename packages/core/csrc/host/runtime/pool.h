#pragma once
// Threads that share the chunks of one loop at a time. Implements `Parallel` of proa/base/call.h.
#include <atomic>
#include <cstdint>
#include <memory>

#include "proa/base/call.h"

namespace proa {

/// A pool of `threads` including the caller. Chunks are claimed dynamically, so a thread that
/// is descheduled does not delay the others. Waiting is a bounded spin, then sleep. A call from
/// inside a body, or while another thread uses the pool, runs on the caller alone. Threads start at
/// first use, again so in a forked child.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Runs body over [0, n) in chunks of `grain`; returns when all are done. Bodies must not throw.
  void run(int64_t n, int64_t grain, Parallel::Body body, void* arg);
  int threads() const { return threads_.load(std::memory_order_relaxed); }
  /// Changes the number of threads; waits for a loop in progress.
  void set_threads(int threads);
  /// The handle that a Call carries.
  const Parallel* parallel() const { return &handle_; }

  /// The pool of eager mode.
  static ThreadPool& global();

 private:
  struct Workers;
  Workers* workers();
  void forget_threads();  // in a forked child
  friend struct PoolRegistry;

  std::atomic<int> threads_;
  std::atomic<Workers*> workers_{nullptr};
  std::atomic<bool> busy_{false};
  Parallel handle_;
};

/// Cores this process may use: affinity and the control group's quota, or PROA_NUM_THREADS.
int default_threads();

}  // namespace proa
