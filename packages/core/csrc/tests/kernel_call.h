#pragma once
// Calls a kernel by name on small arrays, once for every instruction set of this build.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <initializer_list>
#include <vector>

#include "proa/base/isa_table.h"
#include "proa/base/op_table.h"

namespace proa_test {

using proa::Call;
using proa::DType;
using proa::View;

inline int failures = 0;

/// An array that owns its elements.
template <class T>
struct Array {
  std::vector<T> data;
  View view;
  Array(std::initializer_list<int64_t> shape, DType dtype) {
    view.rank = 0;
    view.dtype = dtype;
    for (int64_t n : shape) view.shape[view.rank++] = n;
    view.set_contiguous();
    data.resize(static_cast<size_t>(view.numel()) + 1);
    view.data = data.data();
  }
  /// The same numbers on every machine: a linear congruence (Knuth), values in [-range, range].
  void fill(uint32_t seed, int range, double scale) {
    for (T& x : data) {
      seed = seed * 1664525u + 1013904223u;
      x = static_cast<T>((static_cast<int>((seed >> 8) % (2u * range + 1)) - range) * scale);
    }
  }
};

/// Runs the op on the caller's thread, with its constant input prepacked if requested.
inline void run(const char* name, std::initializer_list<View> in, View* out, const void* attrs,
                bool prepack) {
  const proa::OpInfo* op = proa::find_op(name);
  const proa::KernelEntry& kernel = proa::kernel_of(op->id);
  Call c;
  c.in = in.begin();
  c.n_in = static_cast<int>(in.size());
  c.out = out;
  c.n_out = 1;
  c.attrs = attrs;
  auto memory = [](size_t size) { return aligned_alloc(64, (size + 127) & ~size_t{63}); };
  void* packed = nullptr;
  if (prepack && kernel.pack_size != nullptr) {
    packed = memory(kernel.pack_size(c));
    kernel.pack(c, packed);
    c.packed = packed;
  }
  void* scratch = kernel.scratch != nullptr ? memory(kernel.scratch(c)) : nullptr;
  c.scratch = scratch;
  const proa::Status status = kernel.run(c);
  if (status != proa::Status::kOk) {
    printf("FAIL %s: status %d\n", name, static_cast<int>(status));
    ++failures;
  }
  free(packed);
  free(scratch);
}

/// Calls body() with each instruction set that this build and machine have.
template <class F>
void for_each_isa(F body) {
  for (int i = 0; i < proa::kIsaTableCount; ++i) {
    const proa::Isa isa = proa::kIsaTables[i].isa;
#if defined(__x86_64__)
    if (isa == proa::Isa::kAvx2 && !__builtin_cpu_supports("avx2")) continue;
    if (isa == proa::Isa::kAvx512 && !__builtin_cpu_supports("avx512vnni")) continue;
#endif
    proa::select_isa(isa);
    body(static_cast<int>(isa));
  }
}

/// Reports the largest difference of two arrays relative to the largest value.
template <class A, class B>
void expect_near(const char* what, const A* got, const B* want, size_t n, double tolerance) {
  double worst = 0, peak = 1e-30;
  for (size_t i = 0; i < n; ++i) {
    const double w = static_cast<double>(want[i]), d = static_cast<double>(got[i]) - w;
    if (!(d == d)) worst = 1e30;
    worst = d > worst ? d : -d > worst ? -d : worst;
    peak = w > peak ? w : -w > peak ? -w : peak;
  }
  if (worst > tolerance * peak) {
    printf("FAIL %s: off by %g of %g\n", what, worst, peak);
    ++failures;
  }
}

inline int report() {
  printf(failures == 0 ? "ok\n" : "%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace proa_test
