#pragma once
// Sums of exponentials along an axis that is not the innermost in memory, for axes so long that no
// strip of columns stays in the cache: the array is read once, some rows of a strip at a time.
#include <math.h>

#include "proa/simd/math.h"
#include "proa/simd/rows.h"

namespace proa::PROA_ISA {

// Columns of a strip: a page. For parts of pages the hardware prefetcher would fetch the rest as
// well.
constexpr int64_t kStripWidth = 1024;
constexpr int kStep = 8;  // rows taken at a time: their vectors stay in registers

/// What a strip knows of its columns: the sum of exp(x - base) is `total`, where base is the peak,
/// or 0 if that is infinite.
struct ColumnSums {
  alignas(64) float peak[kStripWidth], total[kStripWidth];
};

/// The peak, or 0 if that is infinite.
PROA_INLINE VF finite_peak(VF peak) { return abs(peak) == INFINITY ? VF{} : peak; }

/// Calls f(j, columns from j on) over the vectors of a strip.
template <class F>
PROA_INLINE void each_column(int64_t columns, F f) {
  int64_t j = 0;
  for (; j + kLanes <= columns; j += kLanes) f(j, int64_t{kLanes});
  if (j < columns) f(j, columns - j);
}

/// Takes kRows rows of one vector of columns into their sums. A NaN passes the peak by; it is the
/// sum that shows it.
template <int kRows>
PROA_INLINE void take_in(const float* x, int64_t step, int64_t some, float* peaks, float* totals) {
  VF row[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) row[r] = take(x + r * step, 0, some);
  const VF before = load(peaks);
  VF peak = before;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) peak = max(row[r], peak);
  const VF base = finite_peak(peak);
  VF sum = {};
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) sum += exp(row[r] - base);
  VF total = load(totals);
  // exp(0) is 1 exactly: a column depends on its own elements alone.
  if (any(peak != before)) total *= exp(before - base);
  store(peaks, peak);
  store(totals, total + sum);
}

/// Sums over `length` rows, `step` apart, of the first columns from x on.
PROA_INLINE void sum_columns_exp(const float* x, int64_t step, int64_t length, int64_t columns,
                                 ColumnSums* s) {
  for (int64_t j = 0; j < kStripWidth; ++j) s->peak[j] = -INFINITY, s->total[j] = 0;
  int64_t i = 0;
  for (; i + kStep <= length; i += kStep) {
    const int64_t later = i + 2 * kStep <= length ? kStep * step : 0;
    const float* const from = x + i * step;
    each_column(columns, [&](int64_t j, int64_t some) {
#pragma GCC unroll 8
      for (int r = 0; r < kStep; ++r) prefetch(from + r * step + j + later);
      take_in<kStep>(from + j, step, some, s->peak + j, s->total + j);
    });
  }
  for (; i < length; ++i) {
    each_column(columns, [&](int64_t j, int64_t some) {
      take_in<1>(x + i * step + j, step, some, s->peak + j, s->total + j);
    });
  }
}

}  // namespace proa::PROA_ISA
