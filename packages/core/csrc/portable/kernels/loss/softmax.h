#pragma once
// The passes that softmax and cross entropy share.
#include <math.h>

#include "proa/base/call.h"
#include "proa/simd/math.h"
#include "proa/simd/rows.h"

namespace proa::PROA_ISA {

PROA_INLINE VF exp_of(VF x) { return exp(x); }
PROA_INLINE VD exp_of(VD x) {
  for (int i = 0; i < kLanesOf<double>; ++i) x[i] = ::exp(x[i]);
  return x;
}

/// The greatest element of a row; NaN if it has one.
template <class C>
PROA_INLINE C peak_of(const Row& r, int64_t width) {
  constexpr int kWidth = kLanesOf<C>;
  Vec<C> peak = splat(-static_cast<C>(INFINITY));
  for_each_block<C>(r, width, [&](const C* x, int64_t, int64_t n) {
    int64_t k = 0;
    for (; k + kWidth <= n; k += kWidth) {
      const Vec<C> v = load(x + k);
      peak = (v > peak) | (v != v) ? v : peak;
    }
    for (; k < n; ++k) peak[0] = x[k] > peak[0] || x[k] != x[k] ? x[k] : peak[0];
  });
  C best = peak[0];
  for (int i = 1; i < kWidth; ++i) best = peak[i] > best || peak[i] != peak[i] ? peak[i] : best;
  return best;
}

/// Sum of exp(x - peak) over a row.
template <class C>
PROA_INLINE C sum_of_exp(const Row& r, int64_t width, C peak) {
  return sum_row<C>(r, width, [&](Vec<C> v, int64_t, int64_t some) {
    Vec<C> e = exp_of(v - peak);
    if (some < kLanesOf<C>)
      for (int64_t i = some; i < kLanesOf<C>; ++i) e[i] = 0;
    return e;
  });
}

/// Rows side by side, `run` of them, that are too long for a strip of them to stay in the cache.
void softmax_columns(const Call& c, const Rows& x, const Rows& y, int64_t run, bool logarithm);
void softmax_grad_columns(const Call& c, const Rows& dy, const Rows& y, const Rows& dx, int64_t run,
                          bool logarithm);
/// True from what length on they are.
PROA_INLINE bool too_long(int64_t width) { return kHasLarge && width >= 1024; }

}  // namespace proa::PROA_ISA
