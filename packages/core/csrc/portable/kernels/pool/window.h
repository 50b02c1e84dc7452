#pragma once
// The windows of a pooling: which rows and columns of x an output position covers.
#include "proa/base/call.h"
#include "proa/base/dispatch.h"
#include "proa/base/task_size.h"
#include "proa/simd/vec.h"

namespace proa::PROA_ISA {

struct Span {
  int64_t begin, end;
};

/// The windows along one axis of `size` elements, `count` of them.
struct Axis {
  int64_t size, count;
  int64_t kernel, stride, padding;  // kernel == 0: adaptive
  Span at(int64_t i) const {
    if (kernel == 0) return {i * size / count, ((i + 1) * size + count - 1) / count};
    const int64_t begin = i * stride - padding, end = begin + kernel;
    return {begin > 0 ? begin : 0, end < size ? end : size};
  }
  /// The windows that cover element x.
  Span over(int64_t x) const {
    int64_t first = 0, last = 0;  // the last one is included
    if (kernel == 0) {
      // Those with i * size / count <= x < ceil((i + 1) * size / count).
      first = x * count / size;
      last = ((x + 1) * count - 1) / size;
    } else {
      const int64_t at = x + padding;
      first = at < kernel ? 0 : (at - kernel) / stride + 1;
      last = at / stride;
    }
    return {first, last < count ? last + 1 : count};
  }
};

template <class A>
Axis axis_of(const A& a, int d, int64_t size, int64_t count) {
  return {size, count, a.kernel[d], a.stride[d], a.padding[2 * d]};
}

/// The windows of an adaptive pooling of x to y along axis d.
inline Axis adaptive_axis(int d, const View& x, const View& y) {
  return {x.shape[d], y.shape[d], 0, 0, 0};
}

/// Calls body(n, i) for every line of windows, some lines at a time on the pool.
template <class F>
void for_each_line(const Call& call, const View& y, int64_t work, F&& body) {
  const int64_t grain = 1 + kCopyTask / (work * y.shape[1] * y.shape[3] + 1);
  parallel_for(call, y.shape[0] * y.shape[2], grain, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) body(line / y.shape[2], line % y.shape[2]);
  });
}

inline bool channels_adjoin(const View& v) { return v.shape[1] == 1 || v.stride[1] == 1; }

}  // namespace proa::PROA_ISA
