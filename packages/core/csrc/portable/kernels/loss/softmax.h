#pragma once
// The passes that softmax and cross entropy share.
#include <math.h>

#include "proa/base/call.h"
#include "proa/simd/exp_below.h"
#include "proa/simd/rows.h"

namespace proa::PROA_ISA {

PROA_INLINE VF exp_of(VF x) { return exp(x); }
PROA_INLINE VD exp_of(VD x) {
  for (int i = 0; i < kLanesOf<double>; ++i) x[i] = ::exp(x[i]);
  return x;
}
PROA_INLINE VD exp_below(VD x) { return exp_of(x); }

/// The greatest element of a row; NaN if it has one.
template <class C>
PROA_INLINE C peak_of(const Row& r, int64_t width) {
  constexpr int kWidth = kLanesOf<C>;
  Vec<C> peak = splat(-static_cast<C>(INFINITY));
  for_each_block<C>(r, width, [&](const C* x, int64_t, int64_t n) {
    int64_t k = 0;
    for (; k + kWidth <= n; k += kWidth) {
      const Vec<C> v = load(x + k);
      peak = ((v > peak) | (v != v)) ? v : peak;
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
    Vec<C> e = exp_below(v - peak);
    if (some < kLanesOf<C>)
      for (int64_t i = some; i < kLanesOf<C>; ++i) e[i] = 0;
    return e;
  });
}

/// The greatest element of a float row; NaN if it has one. also(i) is called every 4 vectors.
template <class F>
PROA_INLINE float peak_of_floats(const float* x, int64_t width, F also) {
  VF peak[4];
  VI nan = {};
  for (VF& p : peak) p = splat(-INFINITY);
  int64_t i = 0;
  auto look = [&](VF v, VF* p) {
    nan |= v != v;
    *p = max(v, *p);
  };
  for (; i + 4 * kLanes <= width; i += 4 * kLanes) {
    also(i);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) look(load(x + i + k * kLanes), &peak[k]);
  }
  for (; i + kLanes <= width; i += kLanes) look(load(x + i), &peak[0]);
  float best = max_lanes(max(max(peak[0], peak[1]), max(peak[2], peak[3])));
  if (any(nan)) best = NAN;
  for (; i < width; ++i) best = x[i] > best || x[i] != x[i] ? x[i] : best;
  return best;
}
PROA_INLINE float peak_of_floats(const float* x, int64_t width) {
  return peak_of_floats(x, width, [](int64_t) {});
}

/// log(sum(exp(x))) of float row r is peak + log(total). Both passes prefetch for the next row,
/// each for as much of it as it takes itself of the time: memory is never without work.
struct PeakAndTotal {
  float peak, total;
};
PROA_INLINE PeakAndTotal sum_up_floats(const Rows& x, int64_t r) {
  const float *in = floats(x, r), *next = next_row<float>(x, r), *rest = next + x.width / 4;
  const float peak = peak_of_floats(
      in, x.width, [&](int64_t i) { prefetch(next + static_cast<uint64_t>(i) / 4); });
  const float total = sum_vectors(x.width, [&](int64_t i, int64_t some) {
    prefetch(rest + static_cast<uint64_t>(i) * 3 / 4);
    return first_lanes(exp_below(take(in, i, some) - peak), some);
  });
  return {peak, total};
}

/// Sum of exp(x - peak) over float row r; prefetches the next and calls also(i) as well.
template <class F>
PROA_INLINE float sum_of_exp_floats(const Rows& x, int64_t r, float peak, F also) {
  const float *in = floats(x, r), *next = next_row<float>(x, r);
  return sum_vectors(x.width, [&](int64_t i, int64_t some) {
    __builtin_prefetch(next + i, 0, 2);
    also(i);
    return first_lanes(exp_below(take(in, i, some) - peak), some);
  });
}
/// The same, with exp(x - peak) written to row r of y.
PROA_INLINE float write_exp(const Rows& x, const Rows& y, int64_t r, float peak) {
  const float *in = floats(x, r), *next = next_row<float>(x, r), *next_out = next_row<float>(y, r);
  float* out = floats(y, r);
  return sum_vectors(x.width, [&](int64_t i, int64_t some) {
    __builtin_prefetch(next + i, 0, 2);
    prefetch(next_out + i);
    const VF e = exp_below(take(in, i, some) - peak);
    give(out, i, some, e);
    return first_lanes(e, some);
  });
}

/// Rows side by side, `run` of them, that are too long for a strip of them to stay in the cache.
void softmax_columns(const Call& c, const Rows& x, const Rows& y, int64_t run, bool logarithm);
void softmax_grad_columns(const Call& c, const Rows& dy, const Rows& y, const Rows& dx, int64_t run,
                          bool logarithm);
/// True from what length on they are.
PROA_INLINE bool too_long(int64_t width) { return width >= 1024; }

}  // namespace proa::PROA_ISA
