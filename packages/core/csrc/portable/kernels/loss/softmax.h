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

/// to[i] = f(x[i]) over a row, where f takes and gives vectors.
template <class C, class F>
PROA_INLINE void map_row(const Row& from, const Row& to, int64_t width, F f) {
  constexpr int kWidth = kLanesOf<C>;
  for_each_block<C>(from, width, [&](const C* x, int64_t i, int64_t n) {
    alignas(64) C y[kRowBlock + kWidth];
    for (int64_t k = 0; k < n; k += kWidth) {
      const int64_t some = n - k < kWidth ? n - k : kWidth;
      store(y + k, f(load_n(x + k, some), i + k, some));
    }
    write_block(to, i, n, y);
  });
}

/// A second row read in step with the first: value(i, some) is its vector from element i on.
template <class C>
struct Beside {
  const Row& row;
  int64_t width;
  alignas(64) C buffer[kRowBlock + kLanesOf<C>];
  const C* block = nullptr;
  int64_t begin = -1;
  PROA_INLINE Vec<C> operator()(int64_t i, int64_t some) {
    const int64_t first = i / kRowBlock * kRowBlock;
    if (first != begin) {
      const int64_t n = width - first < kRowBlock ? width - first : kRowBlock;
      block = read_block(row, first, n, static_cast<C*>(buffer));
      begin = first;
    }
    return load_n(block + (i - first), some);
  }
};

}  // namespace proa::PROA_ISA
