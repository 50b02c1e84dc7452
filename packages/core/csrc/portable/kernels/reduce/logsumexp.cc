// The logarithm of sums of exponentials, less their peak so that exp cannot overflow.
#include "proa/base/task_size.h"
#include "proa/gen/attrs/reduce.h"
#include "proa/kernels/elementwise/convert.h"
#include "proa/kernels/loss/columns.h"
#include "proa/kernels/reduce/reducer.h"
#include "proa/simd/exp_below.h"

namespace proa::PROA_ISA {

namespace {

const uint8_t* element(const View& x, int64_t offset) {
  return x.as<const uint8_t>() + offset * static_cast<int64_t>(size_of(x.dtype));
}

/// The greatest of n floats, at least `peak`; NaN if any is. Four chains hide the latency.
float greatest(const float* x, int64_t n, float peak) {
  VF peaks[4];
  for (VF& p : peaks) p = splat(peak);
  VI nan = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const VF v = load(x + i + k * kLanes);
      prefetch_ahead(x + i + k * kLanes);
      nan |= v != v;
      peaks[k] = max(v, peaks[k]);
    }
  for (; i < n; i += kLanes) {
    const int64_t some = n - i < kLanes ? n - i : kLanes;
    const VF v = load_n(x + i, some);
    nan |= v != v;
    peaks[0] = to_float(iota()) < static_cast<float>(some) ? max(v, peaks[0]) : peaks[0];
  }
  return any(nan) ? NAN : max_lanes(max(max(peaks[0], peaks[1]), max(peaks[2], peaks[3])));
}

/// Sum of exp(x - peak) over n floats, 64 vectors of them in float. Prefetches the n floats that
/// follow: memory would be idle meanwhile.
double sum_exp(const float* x, int64_t n, float peak) {
  double total = 0;
  for (int64_t i = 0; i < n; i += 64 * kLanes) {
    const int64_t stop = n - i < 64 * kLanes ? n : i + 64 * kLanes;
    VF sums[4] = {};
    int64_t k = i;
    for (; k + 4 * kLanes <= stop; k += 4 * kLanes)
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) {
        prefetch(x + n + k + v * kLanes);
        sums[v] += exp_below(load(x + k + v * kLanes) - splat(peak));
      }
    for (; k < stop; k += kLanes) {
      const int64_t some = stop - k < kLanes ? stop - k : kLanes;
      const VF tail = exp_below(load_n(x + k, some) - splat(peak));
      sums[0] += to_float(iota()) < static_cast<float>(some) ? tail : VF{};
    }
    total += static_cast<double>(sum_lanes((sums[0] + sums[1]) + (sums[2] + sums[3])));
  }
  return total;
}

/// In blocks that stay in L1; when a block has a larger maximum, the sum so far is rescaled.
double log_sum_exp_f32(RunReader* reader, int64_t length) {
  constexpr int64_t kBlock = 4096;
  const void* run;
  float peak = -INFINITY;
  double total = 0;
  reader->start(0, length);
  while (const int64_t count = reader->next(&run)) {
    for (int64_t i = 0; i < count; i += kBlock) {
      const float* x = static_cast<const float*>(run) + i;
      const int64_t n = count - i < kBlock ? count - i : kBlock;
      const float before = peak;
      peak = greatest(x, n, peak);
      if (peak != peak) return NAN;
      if (!(peak - peak == 0)) continue;  // infinite: the sum is, or is empty
      if (peak > before) total *= ::exp(static_cast<double>(before) - static_cast<double>(peak));
      total += sum_exp(x, n, peak);
    }
  }
  return peak - peak == 0 ? static_cast<double>(peak) + ::log(total) : static_cast<double>(peak);
}

double log_sum_exp_f64(RunReader* reader, int64_t length) {
  const void* run;
  double peak = -INFINITY, total = 0;
  reader->start(0, length);
  while (const int64_t n = reader->next(&run)) {
    const double* x = static_cast<const double*>(run);
    for (int64_t i = 0; i < n; ++i) peak = x[i] > peak || x[i] != x[i] ? x[i] : peak;
    if (peak != peak) return peak;
  }
  if (!(peak - peak == 0)) return peak;
  reader->start(0, length);
  while (const int64_t n = reader->next(&run)) {
    const double* x = static_cast<const double*>(run);
    for (int64_t i = 0; i < n; ++i) total += ::exp(x[i] - peak);
  }
  return peak + ::log(total);
}

/// Lines that are adjacent in memory, in strips.
void log_sum_exp_columns(const Call& c, const Split& s, const float* x, const View& out) {
  const int last = s.parallel.rank - 1;
  const int64_t run = s.parallel.shape[last], strips = (run + kStripWidth - 1) / kStripWidth;
  const int64_t length = s.reduced.size(), units = s.parallel.size() / run * strips;
  parallel_for(c, units, kLogSumExpTask / (length * kStripWidth) + 1,
               [&](int64_t begin, int64_t end) {
                 for (int64_t u = begin; u < end; ++u) {
                   const int64_t first = u % strips * kStripWidth, left = run - first;
                   const int64_t n = left < kStripWidth ? left : kStripWidth;
                   Cursor at;
                   at.seek(s.parallel, u / strips * run + first);
                   ColumnSums sums;
                   sum_columns_exp(x + at.offset[0], s.reduced.stride[0][0], length, n, &sums);
                   for (int64_t j = 0; j < n; j += kLanes) {
                     const VF y = finite_peak(load(sums.peak + j)) + log(load(sums.total + j));
                     store(sums.total + j, y);
                   }
                   scatter_row(sizeof(float), sums.total, out.as<float>() + at.offset[1],
                               s.parallel.stride[1][last], n);
                 }
               });
}

}  // namespace

Status logsumexp(const Call& c) {
  const View &x = c.in[0], &out = c.out[0];
  if (!is_floating(x.dtype)) return Status::kUnimplemented;
  Split s = split_axes(x, axes_of(c.attr<LogsumexpAttrs>().axis, x.rank), out);
  s.parallel.simplify();
  s.reduced.simplify();
  const int64_t length = s.reduced.size(), outputs = s.parallel.size();
  if (x.dtype == DType::kF32 && s.parallel.inner() >= kLanes && s.parallel.inner_stride(0) == 1 &&
      s.reduced.rank == 1) {
    log_sum_exp_columns(c, s, x.as<float>(), out);
    return Status::kOk;
  }
  const bool wide = x.dtype == DType::kF64;
  parallel_for(c, outputs, kLogSumExpTask / (length + 1) + 1, [&](int64_t begin, int64_t end) {
    Cursor at;
    at.seek(s.parallel, begin);
    for (int64_t o = begin; o < end; ++o, at.advance(s.parallel, 1)) {
      RunReader reader(s.reduced, element(x, at.offset[0]), x.dtype,
                       wide ? DType::kF64 : DType::kF32);
      const double y = wide ? log_sum_exp_f64(&reader, length) : log_sum_exp_f32(&reader, length);
      convert(DType::kF64, &y, out.dtype, const_cast<uint8_t*>(element(out, at.offset[1])), 1);
    }
  });
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
