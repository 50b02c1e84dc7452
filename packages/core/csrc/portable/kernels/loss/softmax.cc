// Softmax, its logarithm and their gradients along one axis. The peak is subtracted first so that
// exp cannot overflow.
#include "proa/kernels/loss/softmax.h"

#include "proa/gen/attrs/loss.h"

namespace proa::PROA_ISA {
namespace {

int axis_of(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

Rows along(const View& v, int64_t axis) {
  const int a = axis_of(axis, v.rank);
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
               [&](Vec<C> v, int64_t, int64_t) { return exp_of(v - peak) * scale; });
  });
}

/// float rows that lie in memory as they are: exp is written out and scaled in place.
void softmax_floats(const Call& c, const Rows& x, const Rows& y) {
  for_each_row(c, x, [&](int64_t r) {
    const Row from = x.row(r), to = y.row(r);
    const float peak = peak_of<float>(from, x.width);
    const float* in = reinterpret_cast<const float*>(from.data);
    float* out = reinterpret_cast<float*>(to.data);
    VF sum = {};
    int64_t i = 0;
    for (; i + kLanes <= x.width; i += kLanes) {
      const VF e = exp(load(in + i) - peak);
      store(out + i, e);
      sum += e;
    }
    if (i < x.width) {
      const int64_t some = x.width - i;
      store_n(out + i, exp(load_n(in + i, some) - peak), some);
      sum += load_n(out + i, some);
    }
    const float scale = 1 / sum_lanes(sum);
    for (i = 0; i < x.width; i += kLanes) {
      const int64_t some = x.width - i < kLanes ? x.width - i : kLanes;
      store_n(out + i, load_n(out + i, some) * scale, some);
    }
  });
}

bool plain(const Rows& r) {
  return r.dtype == DType::kF32 && r.inner.uniform() && (r.inner.rank == 0 || r.inner.step() == 1);
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
    const Row from = dy.row(r), beside = y.row(r);
    Beside<C> first = {beside, dy.width, {}}, again = {beside, dy.width, {}};
    const C total = sum_row<C>(
        from, dy.width, [&](Vec<C> v, int64_t i, int64_t some) { return v * first(i, some); });
    map_row<C>(from, dx.row(r), dy.width,
               [&](Vec<C> v, int64_t i, int64_t some) { return again(i, some) * (v - total); });
  });
}

template <class C>
void log_softmax_grad_rows(const Call& c, const Rows& dy, const Rows& y, const Rows& dx) {
  for_each_row(c, dy, [&](int64_t r) {
    const Row from = dy.row(r), beside = y.row(r);
    const C total = sum_row<C>(from, dy.width, [](Vec<C> v, int64_t, int64_t) { return v; });
    Beside<C> values = {beside, dy.width, {}};
    map_row<C>(from, dx.row(r), dy.width, [&](Vec<C> v, int64_t i, int64_t some) {
      return v - exp_of(values(i, some)) * total;
    });
  });
}

}  // namespace

Status softmax(const Call& c) {
  const int64_t axis = c.attr<SoftmaxAttrs>().axis;
  const Rows x = along(c.in[0], axis), y = along(c.out[0], axis);
  if (is_double(x.dtype))
    softmax_rows<double>(c, x, y);
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
  if (is_double(x.dtype))
    log_softmax_rows<double>(c, x, y);
  else
    log_softmax_rows<float>(c, x, y);
  return Status::kOk;
}
size_t log_softmax_scratch(const Call&) { return 0; }

Status softmax_grad(const Call& c) {
  const int64_t axis = c.attr<SoftmaxGradAttrs>().axis;
  const Rows dy = along(c.in[0], axis), y = along(c.in[1], axis), dx = along(c.out[0], axis);
  if (is_double(dy.dtype))
    softmax_grad_rows<double>(c, dy, y, dx);
  else
    softmax_grad_rows<float>(c, dy, y, dx);
  return Status::kOk;
}
size_t softmax_grad_scratch(const Call&) { return 0; }

Status log_softmax_grad(const Call& c) {
  const int64_t axis = c.attr<LogSoftmaxGradAttrs>().axis;
  const Rows dy = along(c.in[0], axis), y = along(c.in[1], axis), dx = along(c.out[0], axis);
  if (is_double(dy.dtype))
    log_softmax_grad_rows<double>(c, dy, y, dx);
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
  const int axis = axis_of(c.attr<SumAxisAttrs>().axis, c.in[0].rank);
  const Rows x = along(c.in[0], axis);
  if (is_double(x.dtype))
    sum_rows<double>(c, x, c.out[0], axis);
  else
    sum_rows<float>(c, x, c.out[0], axis);
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
