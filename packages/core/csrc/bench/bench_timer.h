#pragma once
// Times a kernel on the calling thread: the lower quartile of many runs, so that other work on the
// machine disturbs little. (The minimum, and processor time, have outliers on virtual machines.)
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <vector>

#include "../tests/kernel_call.h"
#include "proa/base/cpu.h"
#include "proa/base/settings.h"
#include "proa/runtime/cache_size.h"

namespace proa_bench {

/// Blocks for the caches of this CPU, or for those that PROA_CACHES names.
inline void choose_caches() {
  proa::Caches* const caches = &proa::settings().caches;
  if (!proa::choose_caches(getenv("PROA_CACHES"), proa::l2_cache_bytes(), caches)) abort();
  printf("caches %s\n", proa::caches_name(*caches));
}

inline double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Seconds that a quarter of the runs that fit into `budget` seconds (at least 5) take at most.
template <class F>
double quartile_seconds(F run, double budget = 0.15) {
  std::vector<double> times;
  const double start = now();
  while (times.size() < 5 || now() - start < budget) {
    const double begin = now();
    run();
    times.push_back(now() - begin);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 4];
}

/// Seconds of one run of an op, its constant input prepacked if requested.
inline double seconds_of(const char* name, const proa::View* in, int n_in, proa::View* out,
                         const void* attrs, bool prepack) {
  const proa::KernelEntry& kernel = proa::kernel_of(proa::find_op(name)->id);
  proa::Call c;
  c.in = in;
  c.n_in = n_in;
  c.out = out;
  c.n_out = 1;
  c.attrs = attrs;
  auto memory = [](size_t size) { return aligned_alloc(64, (size + 127) & ~size_t{63}); };
  void* packed = prepack ? memory(kernel.pack_size(c)) : nullptr;
  if (prepack) kernel.pack(c, packed);
  c.packed = packed;
  void* scratch = kernel.scratch == nullptr ? nullptr : memory(kernel.scratch(c));
  c.scratch = scratch;
  const double seconds = quartile_seconds([&] {
    if (kernel.run(c) != proa::Status::kOk) abort();
  });
  free(packed);
  free(scratch);
  return seconds;
}

}  // namespace proa_bench
