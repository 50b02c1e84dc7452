#pragma once
// Times a kernel on the calling thread: the minimum processor time of many runs, so that other work
// on the machine disturbs little.
#include <stdlib.h>
#include <time.h>

#include "../tests/kernel_call.h"

namespace proa_bench {

/// Seconds of processor time of this thread.
inline double now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Seconds of the fastest of the runs that fit into `budget` seconds (at least 5).
template <class F>
double best_seconds(F run, double budget = 0.15) {
  double best = 1e30;
  const double start = now();
  for (int i = 0; i < 5 || now() - start < budget; ++i) {
    const double begin = now();
    run();
    const double t = now() - begin;
    best = t < best ? t : best;
  }
  return best;
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
  const double best = best_seconds([&] {
    if (kernel.run(c) != proa::Status::kOk) abort();
  });
  free(packed);
  free(scratch);
  return best;
}

}  // namespace proa_bench
