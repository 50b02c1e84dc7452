// Softmax, its logarithm and their gradients along one axis. The peak is subtracted first so that
// exp cannot overflow.
#include "proa/kernels/loss/softmax.h"

#include "proa/base/task_size.h"
#include "proa/gen/attrs/loss.h"

namespace proa::PROA_ISA {
namespace {

Rows along(const View& v, int64_t axis) {
  const int a = normalize_axis(axis, v.rank);
  return v.rank == 0 ? Rows(v, 0, 0) : Rows(v, a, a + 1);
}

/// Runs body(r) over the rows of x.
template <class F>
void for_each_row(const Call& c, const Rows& x, F body) {
  if (x.width == 0) return;
  parallel_for(c, x.count, row_grain(x.width), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) body(r);
  });
}

template <class C>
void softmax_rows(const Call& c, const Rows& x, const Rows& y) {
  for_each_row(c, x, [&](int64_t r) {
    const Row from = x.row(r), to = y.row(r);
    const C peak = peak_of<C>(from, x.width);
    const C total = sum_of_exp<C>(from, x.width, peak);
    const C scale = 1 / total;
    map_row<C>(from, to, x.width,
               [&](Vec<C> v, int64_t, int64_t) { return exp_below(v - peak) * scale; });
  });
}

/// exp is written out and scaled in place.
void softmax_floats(const Call& c, const Rows& x, const Rows& y) {
  for_each_row(c, x, [&](int64_t r) {
    float* out = floats(y, r);
    const float scale = 1 / write_exp(x, y, r, peak_of_floats(floats(x, r), x.width));
    each_vector(x.width,
                [&](int64_t i, int64_t some) { give(out, i, some, take(out, i, some) * scale); });
  });
}

void log_softmax_floats(const Call& c, const Rows& x, const Rows& y) {
  for_each_row(c, x, [&](int64_t r) {
    const float* const in = floats(x, r);
    float* out = floats(y, r);
    const float* const next_out = next_row<float>(y, r);
    const float peak = peak_of_floats(in, x.width);
    const float total = sum_of_exp_floats(x, r, peak, [&](int64_t i) { prefetch(next_out + i); });
    const float shift = static_cast<float>(::log(static_cast<double>(total)));
    each_vector(x.width, [&](int64_t i, int64_t some) {
      give(out, i, some, (take(in, i, some) - peak) - shift);
    });
  });
}

void softmax_grad_floats(const Call& c, const Rows& dy, const Rows& y, const Rows& dx,
                         bool logarithm) {
  for_each_row(c, dy, [&](int64_t r) {
    const float *d = floats(dy, r), *v = floats(y, r);
    const float *next_d = next_row<float>(dy, r), *next_v = next_row<float>(y, r);
    float* out = floats(dx, r);
    const float total = sum_vectors(dy.width, [&](int64_t i, int64_t some) {
      __builtin_prefetch(next_d + i, 0, 2);
      const VF t = take(d, i, some);
      return logarithm ? t : t * take(v, i, some);
    });
    each_vector(dy.width, [&](int64_t i, int64_t some) {
      __builtin_prefetch(next_v + i, 0, 2);
      const VF t = take(d, i, some), p = take(v, i, some);
      give(out, i, some, logarithm ? t - exp(p) * total : p * (t - total));
    });
  });
}

// -- rows side by side ---------------------------------------------------------------------------
// An axis that is not the innermost in memory: elements i of rows r, r + 1, .. are contiguous. A
// strip of rows that stays in cache is processed along the axis, whole vectors of rows at a time.

constexpr int64_t kWidest = 256;  // rows of a strip

/// True if float rows run side by side, `*run` of them.
bool side_by_side(const Rows& r, int64_t* run) {
  const int last = r.outer.rank - 1;
  if (r.dtype != DType::kF32 || !r.inner.uniform() || last < 0 || r.outer.stride[last] != 1)
    return false;
  const bool same = *run == 0 || *run == r.outer.shape[last];
  *run = r.outer.shape[last];
  return same && *run >= kLanes;
}

/// Calls body(first row, rows) over strips.
template <class F>
void for_strips(const Call& c, const Rows& x, int64_t run, F body) {
  const int64_t fit = 65536 / (x.width + 1) / kLanes * kLanes, smallest = 2 * kLanes;
  const int64_t strip = fit > kWidest ? kWidest : fit < smallest ? smallest : fit;
  const int64_t strips = (run + strip - 1) / strip;
  parallel_for(c, x.count / run * strips, 1 + kElementTask / (strip * x.width + 1),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t first = i % strips * strip, left = run - first;
                   body(i / strips * run + first, left < strip ? left : strip);
                 }
               });
}

/// Some rows of an array, element by element.
struct Strip {
  float* data;
  int64_t step;
  Strip(const Rows& r, int64_t first)
      : data(reinterpret_cast<float*>(r.row(first).data)), step(r.inner.step()) {}
  PROA_INLINE VF take(int64_t i, int64_t j, int64_t some) const {
    return PROA_ISA::take(data + i * step, j, some);
  }
  PROA_INLINE void give(int64_t i, int64_t j, int64_t some, VF v) const {
    PROA_ISA::give(data + i * step, j, some, v);
  }
};

/// Calls f(i, j, rows from j on) for every element i of the rows.
template <class F>
PROA_INLINE void for_each_vector(int64_t width, int64_t rows, F f) {
  for (int64_t i = 0; i < width; ++i)
    for (int64_t j = 0; j < rows; j += kLanes) f(i, j, rows - j < kLanes ? rows - j : kLanes);
}

void softmax_strips(const Call& c, const Rows& x, const Rows& y, int64_t run, bool logarithm) {
  if (too_long(x.width)) return softmax_columns(c, x, y, run, logarithm);
  for_strips(c, x, run, [&](int64_t first, int64_t rows) {
    const Strip from(x, first), to(y, first);
    alignas(64) float peak[kWidest], total[kWidest];
    for (int64_t j = 0; j < rows; ++j) peak[j] = -INFINITY, total[j] = 0;
    for_each_vector(x.width, rows, [&](int64_t i, int64_t j, int64_t some) {
      const VF v = from.take(i, j, some), p = load(peak + j);
      store(peak + j, select((v > p) | (v != v), v, p));
    });
    for_each_vector(x.width, rows, [&](int64_t i, int64_t j, int64_t some) {
      const VF e = exp_below(from.take(i, j, some) - load(peak + j));
      if (!logarithm) to.give(i, j, some, e);
      store(total + j, load(total + j) + e);
    });
    for (int64_t j = 0; j < rows; j += kLanes) {
      const VF t = load(total + j);
      store(total + j, logarithm ? log(t) : 1.0f / t);
    }
    for_each_vector(x.width, rows, [&](int64_t i, int64_t j, int64_t some) {
      const VF t = load(total + j);
      to.give(i, j, some,
              logarithm ? (from.take(i, j, some) - load(peak + j)) - t : to.take(i, j, some) * t);
    });
  });
}

void softmax_grad_strips(const Call& c, const Rows& dy, const Rows& y, const Rows& dx, int64_t run,
                         bool logarithm) {
  if (too_long(dy.width)) return softmax_grad_columns(c, dy, y, dx, run, logarithm);
  for_strips(c, dy, run, [&](int64_t first, int64_t rows) {
    const Strip from(dy, first), paired(y, first), to(dx, first);
    alignas(64) float total[kWidest] = {};
    for_each_vector(dy.width, rows, [&](int64_t i, int64_t j, int64_t some) {
      const VF d = from.take(i, j, some);
      store(total + j, load(total + j) + (logarithm ? d : d * paired.take(i, j, some)));
    });
    for_each_vector(dy.width, rows, [&](int64_t i, int64_t j, int64_t some) {
      const VF d = from.take(i, j, some), v = paired.take(i, j, some), t = load(total + j);
      to.give(i, j, some, logarithm ? d - exp(v) * t : v * (d - t));
    });
  });
}

template <class C>
void log_softmax_rows(const Call& c, const Rows& x, const Rows& y) {
  for_each_row(c, x, [&](int64_t r) {
    const Row from = x.row(r);
    const C peak = peak_of<C>(from, x.width);
    const C shift = static_cast<C>(::log(static_cast<double>(sum_of_exp<C>(from, x.width, peak))));
    map_row<C>(from, y.row(r), x.width,
               [&](Vec<C> v, int64_t, int64_t) { return (v - peak) - shift; });
  });
}

template <class C>
void softmax_grad_rows(const Call& c, const Rows& dy, const Rows& y, const Rows& dx) {
  for_each_row(c, dy, [&](int64_t r) {
    const Row from = dy.row(r), paired = y.row(r);
    PairedRow<C> first = {paired, dy.width, {}}, again = {paired, dy.width, {}};
    const C total = sum_row<C>(
        from, dy.width, [&](Vec<C> v, int64_t i, int64_t some) { return v * first(i, some); });
    map_row<C>(from, dx.row(r), dy.width,
               [&](Vec<C> v, int64_t i, int64_t some) { return again(i, some) * (v - total); });
  });
}

template <class C>
void log_softmax_grad_rows(const Call& c, const Rows& dy, const Rows& y, const Rows& dx) {
  for_each_row(c, dy, [&](int64_t r) {
    const Row from = dy.row(r), paired = y.row(r);
    const C total = sum_row<C>(from, dy.width, [](Vec<C> v, int64_t, int64_t) { return v; });
    PairedRow<C> values = {paired, dy.width, {}};
    map_row<C>(from, dx.row(r), dy.width, [&](Vec<C> v, int64_t i, int64_t some) {
      return v - exp_of(values(i, some)) * total;
    });
  });
}

}  // namespace

Status softmax(const Call& c) {
  const int64_t axis = c.attr<SoftmaxAttrs>().axis;
  const Rows x = along(c.in[0], axis), y = along(c.out[0], axis);
  int64_t run = 0;
  if (is_double(x.dtype))
    softmax_rows<double>(c, x, y);
  else if (side_by_side(x, &run) && side_by_side(y, &run))
    softmax_strips(c, x, y, run, false);
  else if (plain(x) && plain(y))
    softmax_floats(c, x, y);
  else
    softmax_rows<float>(c, x, y);
  return Status::kOk;
}
size_t softmax_scratch(const Call&) { return 0; }

Status log_softmax(const Call& c) {
  const int64_t axis = c.attr<LogSoftmaxAttrs>().axis;
  const Rows x = along(c.in[0], axis), y = along(c.out[0], axis);
  int64_t run = 0;
  if (is_double(x.dtype))
    log_softmax_rows<double>(c, x, y);
  else if (side_by_side(x, &run) && side_by_side(y, &run))
    softmax_strips(c, x, y, run, true);
  else if (plain(x) && plain(y))
    log_softmax_floats(c, x, y);
  else
    log_softmax_rows<float>(c, x, y);
  return Status::kOk;
}
size_t log_softmax_scratch(const Call&) { return 0; }

Status softmax_grad(const Call& c) {
  const int64_t axis = c.attr<SoftmaxGradAttrs>().axis;
  const Rows dy = along(c.in[0], axis), y = along(c.in[1], axis), dx = along(c.out[0], axis);
  int64_t run = 0;
  if (is_double(dy.dtype))
    softmax_grad_rows<double>(c, dy, y, dx);
  else if (side_by_side(dy, &run) && side_by_side(y, &run) && side_by_side(dx, &run))
    softmax_grad_strips(c, dy, y, dx, run, false);
  else if (plain(dy) && plain(y) && plain(dx))
    softmax_grad_floats(c, dy, y, dx, false);
  else
    softmax_grad_rows<float>(c, dy, y, dx);
  return Status::kOk;
}
size_t softmax_grad_scratch(const Call&) { return 0; }

Status log_softmax_grad(const Call& c) {
  const int64_t axis = c.attr<LogSoftmaxGradAttrs>().axis;
  const Rows dy = along(c.in[0], axis), y = along(c.in[1], axis), dx = along(c.out[0], axis);
  int64_t run = 0;
  if (is_double(dy.dtype))
    log_softmax_grad_rows<double>(c, dy, y, dx);
  else if (side_by_side(dy, &run) && side_by_side(y, &run) && side_by_side(dx, &run))
    softmax_grad_strips(c, dy, y, dx, run, true);
  else if (plain(dy) && plain(y) && plain(dx))
    softmax_grad_floats(c, dy, y, dx, true);
  else
    log_softmax_grad_rows<float>(c, dy, y, dx);
  return Status::kOk;
}
size_t log_softmax_grad_scratch(const Call&) { return 0; }

namespace {

template <class C>
void sum_rows(const Call& c, const Rows& x, const View& y, int axis) {
  const Rows to(y, axis, axis + 1);
  parallel_for(c, x.count, row_grain(x.width), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const C sum = sum_row<C>(x.row(r), x.width, [](Vec<C> v, int64_t, int64_t) { return v; });
      write_block(to.row(r), 0, 1, &sum);
    }
  });
}

}  // namespace

Status sum_axis(const Call& c) {
  const int axis = normalize_axis(c.attr<SumAxisAttrs>().axis, c.in[0].rank);
  const Rows x = along(c.in[0], axis);
  if (is_double(x.dtype))
    sum_rows<double>(c, x, c.out[0], axis);
  else
    sum_rows<float>(c, x, c.out[0], axis);
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
