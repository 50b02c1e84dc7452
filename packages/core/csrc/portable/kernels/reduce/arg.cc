// Where an axis is greatest or least: the first of equals, or the first NaN.
#include "proa/base/expect.h"
#include "proa/base/task_size.h"
#include "proa/gen/attrs/reduce.h"
#include "proa/kernels/elementwise/functions.h"
#include "proa/kernels/reduce/reducer.h"

namespace proa::PROA_ISA {

namespace {

/// Looks for a better element in a run; `a is better than b` includes NaN over a number.
template <class T, bool kMax>
int64_t scan(const T* x, int64_t n, T* best) {
  int64_t found = -1;
  T b = *best;
  for (int64_t i = 0; i < n; ++i) {
    const bool better = kMax ? x[i] > b : x[i] < b;
    if (better | ((x[i] != x[i]) & (b == b))) b = x[i], found = i;
  }
  *best = b;
  return found;
}

/// The extremum of n floats, or NaN if there is one. Four chains hide the latency.
template <bool kMax>
PROA_INLINE float extremum(const float* x, int64_t n) {
  VF best[4];
  for (VF& b : best) b = splat(x[0]);
  VI nan = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const VF v = load(x + i + k * kLanes);
      prefetch_ahead(x + i + k * kLanes);
      nan |= v != v;
      best[k] = kMax ? max(v, best[k]) : min(v, best[k]);
    }
  float b = kMax ? max_lanes(max(max(best[0], best[1]), max(best[2], best[3])))
                 : min_lanes(min(min(best[0], best[1]), min(best[2], best[3])));
  if (any(nan)) return NAN;
  for (; i < n; ++i) b = ((kMax ? x[i] > b : x[i] < b) | (x[i] != x[i])) ? x[i] : b;
  return b;
}

/// The first of n floats that is `value`, which may be NaN; one of them is.
int64_t find_first(const float* x, int64_t n, float value) {
  const bool nan = value != value;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const VF v = load(x + i);
    if (any(nan ? v != v : v == value)) break;
  }
  while (nan ? x[i] == x[i] : x[i] != value) ++i;
  return i;
}

/// In blocks, whose extremum is found by vectors; its index is searched in the best block alone.
template <bool kMax>
int64_t scan_f32(const float* x, int64_t n, float* best) {
  constexpr int64_t kBlock = 1024;
  int64_t block = -1;
  for (int64_t i = 0; i < n && *best == *best; i += kBlock) {
    const float b = extremum<kMax>(x + i, n - i < kBlock ? n - i : kBlock);
    if ((kMax ? b > *best : b < *best) | (b != b)) *best = b, block = i;
  }
  if (block < 0) return -1;
  return block + find_first(x + block, n - block < kBlock ? n - block : kBlock, *best);
}

template <class T, bool kMax>
int64_t find(RunReader* reader) {
  const void* run;
  T best = {};
  int64_t index = 0, seen = 0;
  while (const int64_t n = reader->next(&run)) {
    const T* x = static_cast<const T*>(run);
    if (seen == 0) best = x[0];
    int64_t at;
    if constexpr (std::is_same_v<T, float>) {
      at = scan_f32<kMax>(x, n, &best);
    } else {
      at = scan<T, kMax>(x, n, &best);
    }
    if (at >= 0) index = seen + at;
    seen += n;
  }
  return index;
}

// -- lines side by side in memory -----------------------------------------------------------------
// Lines reduced together, a step at a time: a page. For parts of pages the hardware prefetcher
// would fetch the rest as well.
constexpr int64_t kStrip = 1024;

/// n float lines side by side, element i of them at x + i * step: best[j] and index[j] of each.
template <bool kMax>
void find_columns(const float* x, int64_t step, int64_t length, int64_t n, float* best,
                  int32_t* index) {
  const int64_t later = kAheadBytes / (4 * n) + 1;
  for (int64_t j = 0; j < n; ++j) best[j] = x[j], index[j] = 0;
  for (int64_t i = 1; i < length; ++i) {
    const float* const row = x + i * step;
    const float* const next = row + (i + later < length ? later : 0) * step;
    const VI here = VI{} + static_cast<int32_t>(i);
    int64_t j = 0;
    for (; j + kLanes <= n; j += kLanes) {
      prefetch(next + j);
      const VF v = load(row + j), b = load(best + j);
      const VI better = ((kMax ? v > b : v < b) | (v != v)) & (b == b);
      store(best + j, select(better, v, b));
      store(index + j, select(better, here, load(index + j)));
    }
    for (; j < n; ++j) {
      const float v = row[j], b = best[j];
      if (((kMax ? v > b : v < b) | (v != v)) & (b == b))
        best[j] = v, index[j] = static_cast<int32_t>(i);
    }
  }
}

template <bool kMax>
void find_in_strips(const Call& c, const Split& s, const float* x, int64_t* out) {
  const int last = s.parallel.rank - 1;
  const int64_t run = s.parallel.shape[last], strips = (run + kStrip - 1) / kStrip;
  const int64_t length = s.reduced.size(), step = s.reduced.stride[0][0];
  const int64_t units = s.parallel.size() / run * strips;
  parallel_for(c, units, kElementTask / (length * kStrip) + 1, [&](int64_t begin, int64_t end) {
    alignas(64) float best[kStrip];
    alignas(64) int32_t index[kStrip];
    for (int64_t u = begin; u < end; ++u) {
      const int64_t first = u % strips * kStrip, left = run - first;
      const int64_t n = left < kStrip ? left : kStrip;
      Cursor at;
      at.seek(s.parallel, u / strips * run + first);
      find_columns<kMax>(x + at.offset[0], step, length, n, best, index);
      for (int64_t j = 0; j < n; ++j) out[at.offset[1] + j * s.parallel.stride[1][last]] = index[j];
    }
  });
}

template <bool kMax>
Status arg_extremum(const Call& c, int64_t axis) {
  const View &x = c.in[0], &out = c.out[0];
  if (out.numel() == 0) return Status::kOk;
  PROA_EXPECT(c, x.numel() > 0, "x with elements to choose from", shape_of(c, 0));
  if (is_complex(x.dtype)) return Status::kUnimplemented;
  const uint32_t mask = x.rank == 0 ? 0 : 1u << normalize_axis(axis, x.rank);
  Split s = split_axes(x, mask, out);
  s.parallel.simplify();
  const DType as = x.dtype == DType::kF64 ? x.dtype
                   : is_floating(x.dtype) ? DType::kF32
                                          : DType::kI64;
  const int64_t length = s.reduced.size();
  if (x.dtype == DType::kF32 && s.parallel.inner() >= kLanes && s.parallel.inner_stride(0) == 1 &&
      s.reduced.rank == 1 && length <= INT32_MAX) {
    find_in_strips<kMax>(c, s, x.as<float>(), out.as<int64_t>());
    return Status::kOk;
  }
  parallel_for(c, s.parallel.size(), kElementTask / length + 1, [&](int64_t begin, int64_t end) {
    Cursor at;
    at.seek(s.parallel, begin);
    for (int64_t o = begin; o < end; ++o, at.advance(s.parallel, 1)) {
      RunReader reader(s.reduced,
                       x.as<uint8_t>() + at.offset[0] * static_cast<int64_t>(size_of(x.dtype)),
                       x.dtype, as);
      reader.start(0, length);
      out.as<int64_t>()[at.offset[1]] = as == DType::kF32   ? find<float, kMax>(&reader)
                                        : as == DType::kF64 ? find<double, kMax>(&reader)
                                                            : find<int64_t, kMax>(&reader);
    }
  });
  return Status::kOk;
}

}  // namespace

Status argmax(const Call& c) { return arg_extremum<true>(c, c.attr<ArgmaxAttrs>().axis); }
Status argmin(const Call& c) { return arg_extremum<false>(c, c.attr<ArgminAttrs>().axis); }

}  // namespace proa::PROA_ISA
