// The pool: every element once, nested and concurrent calls, resizing, and a forked child.
#include "proa/runtime/pool.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

using proa::ThreadPool;

namespace {

void check(bool held, const char* what) {
  if (held) return;
  std::printf("FAIL %s\n", what);
  std::_Exit(1);
}

template <class F>
void run(ThreadPool& pool, int64_t n, int64_t grain, F&& body) {
  pool.run(n, grain, [](void* arg, int64_t b, int64_t e) { (*static_cast<F*>(arg))(b, e); }, &body);
}

bool covers(ThreadPool& pool, int64_t n, int64_t grain) {
  std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
  std::atomic<bool> aligned{true};
  run(pool, n, grain, [&](int64_t b, int64_t e) {
    if (b % grain != 0 || (e - b != grain && e != n)) aligned = false;
    for (int64_t i = b; i < e; ++i) ++seen[static_cast<size_t>(i)];
  });
  for (const auto& count : seen) {
    if (count != 1) return false;
  }
  return aligned;
}

}  // namespace

int main() {
  ThreadPool pool(4);
  for (const int64_t n : {0, 1, 7, 100, 4096, 100001}) {
    for (const int64_t grain : {1, 3, 64, 100000}) check(covers(pool, n, grain), "coverage");
  }
  for (int i = 0; i < 20000; ++i) {  // short loops one after the other
    std::atomic<int> sum{0};
    run(pool, 8, 1, [&](int64_t b, int64_t e) { sum += static_cast<int>(e - b); });
    check(sum == 8, "short loops");
  }
  std::atomic<int> nested{0};
  run(pool, 16, 1, [&](int64_t, int64_t) {
    run(pool, 10, 1, [&](int64_t b, int64_t e) { nested += static_cast<int>(e - b); });
  });
  check(nested == 160, "nested");

  std::vector<std::thread> callers;
  std::atomic<int64_t> total{0};
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        run(pool, 64, 4, [&](int64_t b, int64_t e) { total += e - b; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  check(total == 4 * 2000 * 64, "several callers");

  pool.set_threads(2);
  check(covers(pool, 1000, 10) && pool.threads() == 2, "fewer threads");
  pool.set_threads(6);
  check(covers(pool, 1000, 10), "more threads");

  const pid_t child = fork();
  if (child == 0) std::_Exit(covers(pool, 5000, 7) ? 0 : 1);
  int status = 1;
  waitpid(child, &status, 0);
  check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "in a forked child");
  check(covers(pool, 5000, 7), "in the parent after a fork");
  return 0;
}
