// Resampling along one axis: every element is a sum of at most four, at places and with weights
// that depend on its index alone. A tap of weight 0 is not read, so that a NaN next to an element
// that is copied unchanged does not spread.
#include <math.h>

#include "proa/base/dispatch.h"
#include "proa/gen/attrs/sampling.h"
#include "proa/kernels/elementwise/nest.h"
#include "proa/kernels/movement/copy.h"
#include "proa/simd/vec.h"

namespace proa::PROA_ISA {
namespace {

constexpr int64_t kChunk = 1024;  // lines of a task

struct Taps {
  int64_t count;
  int64_t at[4];
  double weight[4];
  void add(int64_t index, int64_t size, double w) {
    if (w == 0) return;
    at[count] = index < 0 ? 0 : index < size ? index : size - 1;
    weight[count++] = w;
  }
};

/// Keys's kernel for a = -0.75 at a distance of at most 1, and from 1 to 2.
double inner_weight(double d) { return (1.25 * d - 2.25) * d * d + 1; }
double outer_weight(double d) { return ((-0.75 * d + 3.75) * d - 6) * d + 3; }

struct Resampling {
  int64_t size, count;  // elements of x and of y along the axis
  double ratio;
  int64_t mode;
  bool corners, half;

  Taps at(int64_t i) const {
    Taps t = {};
    const double index = static_cast<double>(i);
    if (mode == ResizeAxisAttrs::kModeNearest) {
      // In float, as in other frameworks, so that the choice between two elements is the same.
      const float nearest = static_cast<float>(ratio) * static_cast<float>(i);
      t.add(static_cast<int64_t>(corners ? nearest + 0.5 : nearest), size, 1);
      return t;
    }
    double from = !corners && (half || mode == ResizeAxisAttrs::kModeCubic)
                      ? ratio * (index + 0.5) - 0.5
                      : ratio * index;
    if (mode == ResizeAxisAttrs::kModeLinear && from < 0) from = 0;
    const double whole = ::floor(from), d = from - whole;
    const auto first = static_cast<int64_t>(whole);
    if (mode == ResizeAxisAttrs::kModeLinear) {
      if (first + 1 >= size) {
        t.add(size - 1, size, 1);
        return t;
      }
      t.add(first, size, 1 - d);
      t.add(first + 1, size, d);
      return t;
    }
    t.add(first - 1, size, outer_weight(d + 1));
    t.add(first, size, inner_weight(d));
    t.add(first + 1, size, inner_weight(1 - d));
    t.add(first + 2, size, outer_weight(2 - d));
    return t;
  }
};

template <class A>
Resampling resampling_of(const A& a, int64_t size, int64_t count) {
  Resampling r = {size, count, 0, a.mode, a.corners != 0, a.half != 0};
  if (count > 1) {
    r.ratio = static_cast<double>(size) / static_cast<double>(count);
    // Within what positions of a step may count; a larger one leaves the axis as well.
    if (a.scale > 0) r.ratio = a.scale < 1.0 / INT32_MAX ? INT32_MAX : 1 / a.scale;
    if (r.corners) r.ratio = static_cast<double>(size - 1) / static_cast<double>(count - 1);
  }
  return r;
}

template <class A>
int axis_of(const A& a, const View& v) {
  return static_cast<int>(a.axis < 0 ? a.axis + v.rank : a.axis);
}

/// A task: `n` adjacent lines along the axis of `to` and of `from`.
struct Part {
  int64_t to, from;               // offsets of the first line
  int64_t n, to_step, from_step;  // lines, and the strides between them
};

/// Calls body(Part) for all lines along `axis`.
template <class F>
void for_each_part(const Call& c, const View& to, const View& from, int axis, F body) {
  Nest nest;
  nest.set_shape(to);
  nest.add(to);
  nest.add(from);
  nest.shape[axis] = 1;
  nest.simplify();
  const int64_t inner = nest.inner(), chunks = (inner + kChunk - 1) / kChunk;
  if (nest.size() == 0) return;
  parallel_for(c, nest.size() / inner * chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t skip = task % chunks * kChunk, left = inner - skip;
      Cursor at;
      at.seek(nest, task / chunks * inner + skip);
      body(Part{at.offset[0], at.offset[1], left < kChunk ? left : kChunk, nest.inner_stride(0),
                nest.inner_stride(1)});
    }
  });
}

template <class T>
void take(const Call& c, const View& x, const View& y, int axis, const Taps* taps) {
  for_each_part(c, y, x, axis, [&](const Part& p) {
    for (int64_t i = 0; i < y.shape[axis]; ++i) {
      T* to = y.as<T>() + p.to + i * y.stride[axis];
      const T* from = x.as<const T>() + p.from + taps[i].at[0] * x.stride[axis];
      if (p.to_step == 1 && p.from_step == 1) {
        __builtin_memcpy(to, from, static_cast<size_t>(p.n) * sizeof(T));
      } else {
        for (int64_t k = 0; k < p.n; ++k) to[k * p.to_step] = from[k * p.from_step];
      }
    }
  });
}

/// to[k] = sum of taps of from[k], for contiguous k.
template <class T>
void blend_run(const Taps& t, const T* from, int64_t step, int64_t n, T* to) {
  constexpr int kWidth = kLanesOf<T>;
  for (int64_t k = 0; k < n; k += kWidth) {
    const int64_t some = n - k < kWidth ? n - k : kWidth;
    Vec<T> sum = {};
    for (int64_t j = 0; j < t.count; ++j)
      sum += load_n(from + t.at[j] * step + k, some) * static_cast<Compute<T>>(t.weight[j]);
    store_n(to + k, sum, some);
  }
}

template <class T>
void blend(const Call& c, const View& x, const View& y, int axis, const Taps* taps) {
  const int64_t xs = x.stride[axis], ys = y.stride[axis];
  for_each_part(c, y, x, axis, [&](const Part& p) {
    T* to = y.as<T>() + p.to;
    const T* from = x.as<const T>() + p.from;
    if (p.to_step == 1 && p.from_step == 1) {
      for (int64_t i = 0; i < y.shape[axis]; ++i) blend_run(taps[i], from, xs, p.n, to + i * ys);
      return;
    }
    for (int64_t k = 0; k < p.n; ++k, to += p.to_step, from += p.from_step)
      for (int64_t i = 0; i < y.shape[axis]; ++i) {
        const Taps& t = taps[i];
        Compute<T> sum = 0;
        for (int64_t j = 0; j < t.count; ++j)
          sum += static_cast<Compute<T>>(from[t.at[j] * xs]) * static_cast<Compute<T>>(t.weight[j]);
        to[i * ys] = static_cast<T>(sum);
      }
  });
}

template <class T>
void spread(const Call& c, const View& dy, const View& dx, int axis, const Taps* taps) {
  const int64_t xs = dx.stride[axis], ys = dy.stride[axis];
  for_each_part(c, dx, dy, axis, [&](const Part& p) {
    for (int64_t i = 0; i < dy.shape[axis]; ++i) {
      const T* from = dy.as<const T>() + p.from + i * ys;
      for (int64_t j = 0; j < taps[i].count; ++j) {
        T* to = dx.as<T>() + p.to + taps[i].at[j] * xs;
        const auto w = static_cast<Compute<T>>(taps[i].weight[j]);
        for (int64_t k = 0; k < p.n; ++k) {
          T& d = to[k * p.to_step];
          d = static_cast<T>(static_cast<Compute<T>>(d) +
                             static_cast<Compute<T>>(from[k * p.from_step]) * w);
        }
      }
    }
  });
}

const Taps* taps_of(const Call& c, const Resampling& r) {
  Taps* taps = static_cast<Taps*>(c.scratch);
  for (int64_t i = 0; i < r.count; ++i) taps[i] = r.at(i);
  return taps;
}

}  // namespace

Status resize_axis(const Call& c) {
  const auto& a = c.attr<ResizeAxisAttrs>();
  const View &x = c.in[0], &y = c.out[0];
  const int axis = axis_of(a, x);
  if (a.mode != ResizeAxisAttrs::kModeNearest && !is_floating(x.dtype))
    return Status::kUnimplemented;
  const Taps* taps = taps_of(c, resampling_of(a, x.shape[axis], y.shape[axis]));
  if (a.mode == ResizeAxisAttrs::kModeNearest) {
    PROA_MOVED(size_of(x.dtype), T, take<T>(c, x, y, axis, taps));
    return Status::kOk;
  }
  PROA_FLOATING(x.dtype, T, blend<T>(c, x, y, axis, taps));
  return Status::kOk;
}

size_t resize_axis_scratch(const Call& c) {
  const int axis = axis_of(c.attr<ResizeAxisAttrs>(), c.out[0]);
  return static_cast<size_t>(c.out[0].shape[axis]) * sizeof(Taps);
}

Status resize_axis_grad(const Call& c) {
  const auto& a = c.attr<ResizeAxisGradAttrs>();
  const View &dy = c.in[0], &dx = c.out[0];
  const int axis = axis_of(a, dy);
  const Taps* taps = taps_of(c, resampling_of(a, dx.shape[axis], dy.shape[axis]));
  PROA_TRY(clear(c, dx));
  PROA_FLOATING(dy.dtype, T, spread<T>(c, dy, dx, axis, taps));
  return Status::kOk;
}

size_t resize_axis_grad_scratch(const Call& c) {
  const int axis = axis_of(c.attr<ResizeAxisGradAttrs>(), c.in[0]);
  return static_cast<size_t>(c.in[0].shape[axis]) * sizeof(Taps);
}

}  // namespace proa::PROA_ISA
