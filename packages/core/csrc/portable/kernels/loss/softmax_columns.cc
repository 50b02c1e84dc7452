// Softmax, its logarithm and their gradients over rows side by side that are too long to stay in
// the cache: sums first, results in a second pass over memory.
#include "proa/kernels/loss/columns.h"
#include "proa/kernels/loss/softmax.h"

namespace proa::PROA_ISA {
namespace {

/// Calls body(offset of the strip's first row, columns) over strips; rows are numbered as in x.
template <class F>
void each_strip(const Call& c, const Rows& x, int64_t run, F body) {
  const int64_t strips = (run + kStripWidth - 1) / kStripWidth;
  parallel_for(c, x.count / run * strips, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % strips * kStripWidth, left = run - first;
      body(i / strips * run + first, left < kStripWidth ? left : kStripWidth);
    }
  });
}

/// The prefetch distance in rows of a pass over `columns` of each.
int64_t rows_ahead(int64_t columns) { return kAheadBytes / (4 * columns) + 1; }

}  // namespace

void softmax_columns(const Call& c, const Rows& x, const Rows& y, int64_t run, bool logarithm) {
  const int64_t xs = x.inner.step(), ys = y.inner.step();
  each_strip(c, x, run, [&](int64_t first, int64_t columns) {
    const float* const from = floats(x, first);
    float* const to = floats(y, first);
    ColumnSums s;
    sum_columns_exp(from, xs, x.width, columns, &s);
    for (int64_t j = 0; j < kStripWidth; j += kLanes) {
      const VF peak = load(s.peak + j), total = load(s.total + j);
      const VF sum = peak == INFINITY ? splat(NAN) : total;
      store(s.peak + j, finite_peak(peak));
      store(s.total + j, logarithm ? log(sum) : 1.0f / sum);
    }
    const int64_t ahead = rows_ahead(columns);
    for (int64_t i = 0; i < x.width; ++i) {
      const int64_t later = i + ahead < x.width ? ahead : 0;
      const float* const in = from + i * xs;
      float* const out = to + i * ys;
      each_column(columns, [&](int64_t j, int64_t some) {
        prefetch(in + later * xs + j);
        prefetch(out + later * ys + j);
        const VF v = take(in, j, some) - load(s.peak + j), t = load(s.total + j);
        give(out, j, some, logarithm ? v - t : exp(v) * t);
      });
    }
  });
}

void softmax_grad_columns(const Call& c, const Rows& dy, const Rows& y, const Rows& dx, int64_t run,
                          bool logarithm) {
  const int64_t ds = dy.inner.step(), vs = y.inner.step(), os = dx.inner.step();
  each_strip(c, dy, run, [&](int64_t first, int64_t columns) {
    const float *const d = floats(dy, first), *const v = floats(y, first);
    float* const to = floats(dx, first);
    alignas(64) float total[kStripWidth] = {};
    for (int64_t i = 0; i < dy.width; i += kStep) {
      const int64_t rows = dy.width - i < kStep ? dy.width - i : kStep;
      const int64_t later = i + 2 * kStep <= dy.width ? kStep : 0;
      each_column(columns, [&](int64_t j, int64_t some) {
        VF sum = {};
        for (int64_t r = i; r < i + rows; ++r) {
          prefetch(d + (r + later) * ds + j);
          const VF t = take(d + r * ds, j, some);
          if (!logarithm) prefetch(v + (r + later) * vs + j);
          sum += logarithm ? t : t * take(v + r * vs, j, some);
        }
        store(total + j, load(total + j) + sum);
      });
    }
    const int64_t ahead = rows_ahead(columns);
    for (int64_t i = 0; i < dy.width; ++i) {
      const int64_t next = i + ahead < dy.width ? i + ahead : i;
      each_column(columns, [&](int64_t j, int64_t some) {
        prefetch(d + next * ds + j);
        prefetch(v + next * vs + j);
        prefetch(to + next * os + j);
        const VF a = take(d + i * ds, j, some), b = take(v + i * vs, j, some);
        const VF t = load(total + j);
        give(to + i * os, j, some, logarithm ? a - exp(b) * t : b * (a - t));
      });
    }
  });
}

}  // namespace proa::PROA_ISA
