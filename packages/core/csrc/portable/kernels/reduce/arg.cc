// Where an axis is greatest or least: the first of equals, or the first NaN.
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

/// In blocks, whose extremum is found by vectors first; most blocks hold none.
template <bool kMax>
int64_t scan_f32(const float* x, int64_t n, float* best) {
  int64_t found = -1, i = 0;
  constexpr int64_t kBlock = 4 * kLanes;
  for (; i + kBlock <= n; i += kBlock) {
    const VF b = splat(*best);
    VI hit = {};
    for (int k = 0; k < 4; ++k) {
      const VF v = load(x + i + k * kLanes);
      hit |= (kMax ? v > b : v < b) | (v != v);
    }
    if (!any(hit)) continue;
    const int64_t at = scan<float, kMax>(x + i, kBlock, best);
    if (at >= 0) found = i + at;
    if (*best != *best) return found;
  }
  const int64_t at = scan<float, kMax>(x + i, n - i, best);
  return at >= 0 ? i + at : found;
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

template <bool kMax>
Status arg_extremum(const Call& c, int64_t axis) {
  const View &x = c.in[0], &out = c.out[0];
  if (out.numel() == 0) return Status::kOk;
  if (x.numel() == 0) return Status::kInvalidArgument;
  if (is_complex(x.dtype)) return Status::kUnimplemented;
  const uint32_t mask = x.rank == 0 ? 0 : 1u << axis_of(axis, x.rank);
  Split s = split_axes(x, mask, out);
  s.kept.simplify();
  const DType as = x.dtype == DType::kF64 ? x.dtype
                   : is_floating(x.dtype) ? DType::kF32
                                          : DType::kI64;
  const int64_t length = s.reduced.size();
  parallel_for(c, s.kept.size(), 16384 / length + 1, [&](int64_t begin, int64_t end) {
    Cursor at;
    at.seek(s.kept, begin);
    for (int64_t o = begin; o < end; ++o, at.advance(s.kept, 1)) {
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
