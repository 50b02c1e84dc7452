// Means of windows, and their gradient: each dy divided by the size of its window, added to all of
// it.
#include "proa/gen/attrs/pool.h"
#include "proa/kernels/pool/window.h"

namespace proa::PROA_ISA {
namespace {

struct Pooling {
  Axis down, along;
  int64_t area;  // what sums are divided by; 0: the elements that the window covers
  double share(Span h, Span w) const {
    return 1.0 / static_cast<double>(area > 0 ? area : (h.end - h.begin) * (w.end - w.begin));
  }
};

template <class A>
Pooling pooling_of(const A& a, const View& x, const View& y) {
  return {axis_of(a, 0, x.shape[2], y.shape[2]), axis_of(a, 1, x.shape[3], y.shape[3]),
          a.exclusive ? 0 : a.kernel[0] * a.kernel[1]};
}
Pooling adaptive_of(const View& x, const View& y) {
  return {adaptive_axis(2, x, y), adaptive_axis(3, x, y), 0};
}

/// The mean of one window for `some` channels from `from` on.
template <class T>
void mean_across(const View& x, const T* from, Span h, Span w, int64_t channels, Compute<T> share,
                 T* to) {
  constexpr int kWidth = kLanesOf<T>;
  for (int64_t c = 0; c < channels; c += kWidth) {
    const int64_t some = channels - c < kWidth ? channels - c : kWidth;
    Vec<T> sum = {};
    for (int64_t p = h.begin; p < h.end; ++p)
      for (int64_t q = w.begin; q < w.end; ++q)
        sum += load_n(from + p * x.stride[2] + q * x.stride[3] + c, some);
    store_n(to + c, sum * share, some);
  }
}

template <class T>
Compute<T> window_sum(const View& x, const T* plane, Span h, Span w) {
  Compute<T> sum = 0;
  for (int64_t p = h.begin; p < h.end; ++p)
    for (int64_t q = w.begin; q < w.end; ++q)
      sum += static_cast<Compute<T>>(plane[p * x.stride[2] + q * x.stride[3]]);
  return sum;
}

template <class T>
void pool(const Call& call, const Pooling& s) {
  const View &x = call.in[0], &y = call.out[0];
  const bool across = channels_adjoin(x) && channels_adjoin(y);
  for_each_line(call, y, 4, [&](int64_t n, int64_t i) {
    const Span h = s.down.at(i);
    const T* from = x.as<const T>() + n * x.stride[0];
    T* to = y.as<T>() + n * y.stride[0] + i * y.stride[2];
    for (int64_t j = 0; j < s.along.count; ++j, to += y.stride[3]) {
      const Span w = s.along.at(j);
      const auto share = static_cast<Compute<T>>(s.share(h, w));
      if (across) {
        mean_across<T>(x, from, h, w, x.shape[1], share, to);
      } else {
        for (int64_t c = 0; c < x.shape[1]; ++c)
          to[c * y.stride[1]] = static_cast<T>(window_sum(x, from + c * x.stride[1], h, w) * share);
      }
    }
  });
}

/// Adds factor * from to `to`, or sets it if it is the first.
template <class T>
void add_scaled(const T* from, int64_t channels, Compute<T> factor, bool first, T* to) {
  constexpr int kWidth = kLanesOf<T>;
  for (int64_t c = 0; c < channels; c += kWidth) {
    const int64_t some = channels - c < kWidth ? channels - c : kWidth;
    const Vec<T> v = load_n(from + c, some) * factor;
    store_n(to + c, first ? v : load_n(to + c, some) + v, some);
  }
}

/// The shares of dy in one line of dx, for channels that are contiguous.
template <class T>
void spread_across(const View& dy, const View& dx, int64_t n, int64_t p, const Pooling& s) {
  const Span lines = s.down.over(p);
  const T* const from = dy.as<const T>() + n * dy.stride[0];
  T* to = dx.as<T>() + n * dx.stride[0] + p * dx.stride[2];
  for (int64_t q = 0; q < dx.shape[3]; ++q, to += dx.stride[3]) {
    const Span columns = s.along.over(q);
    bool first = true;
    for (int64_t i = lines.begin; i < lines.end; ++i)
      for (int64_t j = columns.begin; j < columns.end; ++j, first = false) {
        const auto share = static_cast<Compute<T>>(s.share(s.down.at(i), s.along.at(j)));
        add_scaled(from + i * dy.stride[2] + j * dy.stride[3], dx.shape[1], share, first, to);
      }
    for (int64_t c = 0; first && c < dx.shape[1]; ++c) to[c] = static_cast<T>(0);
  }
}

/// The same for any strides.
template <class T>
void spread_down(const View& dy, const View& dx, int64_t n, int64_t p, const Pooling& s) {
  const Span lines = s.down.over(p);
  for (int64_t c = 0; c < dx.shape[1]; ++c) {
    T* const to = dx.as<T>() + n * dx.stride[0] + c * dx.stride[1] + p * dx.stride[2];
    for (int64_t q = 0; q < dx.shape[3]; ++q) to[q * dx.stride[3]] = static_cast<T>(0);
    for (int64_t i = lines.begin; i < lines.end; ++i) {
      const Span h = s.down.at(i);
      const T* from = dy.as<const T>() + n * dy.stride[0] + c * dy.stride[1] + i * dy.stride[2];
      for (int64_t j = 0; j < s.along.count; ++j, from += dy.stride[3]) {
        const Span w = s.along.at(j);
        const auto share = static_cast<Compute<T>>(*from) * static_cast<Compute<T>>(s.share(h, w));
        for (int64_t q = w.begin; q < w.end; ++q) {
          T& d = to[q * dx.stride[3]];
          d = static_cast<T>(static_cast<Compute<T>>(d) + share);
        }
      }
    }
  }
}

template <class T>
void spread(const Call& call, const Pooling& s) {
  const View &dy = call.in[0], &dx = call.out[0];
  const bool across = channels_adjoin(dy) && channels_adjoin(dx);
  for_each_line(call, dx, 4, [&](int64_t n, int64_t p) {
    if (across)
      spread_across<T>(dy, dx, n, p, s);
    else
      spread_down<T>(dy, dx, n, p, s);
  });
}

}  // namespace

Status avg_pool2d(const Call& c) {
  const Pooling s = pooling_of(c.attr<AvgPool2dAttrs>(), c.in[0], c.out[0]);
  PROA_FLOATING(c.in[0].dtype, T, pool<T>(c, s));
  return Status::kOk;
}

Status avg_pool2d_grad(const Call& c) {
  const Pooling s = pooling_of(c.attr<AvgPool2dGradAttrs>(), c.out[0], c.in[0]);
  PROA_FLOATING(c.in[0].dtype, T, spread<T>(c, s));
  return Status::kOk;
}

Status adaptive_avg_pool2d(const Call& c) {
  const Pooling s = adaptive_of(c.in[0], c.out[0]);
  PROA_FLOATING(c.in[0].dtype, T, pool<T>(c, s));
  return Status::kOk;
}

Status adaptive_avg_pool2d_grad(const Call& c) {
  const Pooling s = adaptive_of(c.out[0], c.in[0]);
  PROA_FLOATING(c.in[0].dtype, T, spread<T>(c, s));
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
