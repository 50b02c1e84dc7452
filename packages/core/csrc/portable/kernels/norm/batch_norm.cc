// Batch normalisation per channel (axis 1), in either memory order: one map over channels, with
// numbers from sums over the channels' elements.
#include <math.h>

#include "proa/base/dispatch.h"
#include "proa/gen/attrs/norm.h"
#include "proa/kernels/elementwise/loops.h"
#include "proa/kernels/norm/channel_map.h"
#include "proa/simd/gemm/pack.h"

namespace proa::PROA_ISA {
namespace {

void read(const View& v, int64_t n, void* to) { widen(v.data, v.dtype, v.stride[0], n, to); }
void write(const void* from, int64_t n, const View& v) {
  narrow(from, v.dtype, v.stride[0], n, v.data);
}

template <class T>
void infer(const Call& c, double epsilon) {
  using C = Compute<T>;
  const View& x = c.in[0];
  const Columns all = channels_of(x), to = channels_of(c.out[0]);
  // A few channels at a time: there is no scratch.
  constexpr int64_t kBlock = 256;
  C memory[(kFactors + 1) * kBlock];
  for (int64_t j = 0; j < all.n; j += kBlock) {
    const int64_t n = all.n - j < kBlock ? all.n - j : kBlock;
    const Factors<C> f(memory, kBlock);
    C* const variance = memory + kFactors * kBlock;
    C* const numbers[4] = {f.center, variance, f.a, f.k};
    for (int i = 0; i < 4; ++i) {
      const View& v = c.in[1 + i];
      widen(v.as<const uint8_t>() + j * v.stride[0] * static_cast<int64_t>(size_of(v.dtype)),
            v.dtype, v.stride[0], n, numbers[i]);
    }
    for (int64_t i = 0; i < n; ++i)
      f.a[i] /= static_cast<C>(::sqrt(static_cast<double>(variance[i]) + epsilon));
    Columns from = all, out = to;
    from.n = out.n = n;
    from.data = static_cast<const T*>(all.data) + j * all.stride;
    out.data = static_cast<const T*>(to.data) + j * to.stride;
    map_channels(c, from, nullptr, out, memory, kBlock);
  }
}

/// Moments and factors of x's channels, which go to two outputs.
template <class C>
void take_moments(const Call& c, const Columns& x, double epsilon, View* out, const Factors<C>& f) {
  C* const variance = f.b;
  column_moments(c, x, f.k + x.n, f.center, variance);
  read(c.in[1], x.n, f.a);
  write(f.center, x.n, out[0]);
  write(variance, x.n, out[1]);
  for (int64_t j = 0; j < x.n; ++j)
    f.a[j] /= static_cast<C>(::sqrt(static_cast<double>(variance[j]) + epsilon));
}

template <class T>
void moments(const Call& c, double epsilon) {
  const Columns x = channels_of(c.in[0]);
  const Factors<Compute<T>> f(c.scratch, x.n);
  take_moments(c, x, epsilon, c.out, f);
  write(f.a, x.n, c.out[2]);
}

template <class T>
void normalise(const Call& c, double epsilon) {
  const Columns x = channels_of(c.in[0]);
  const Factors<Compute<T>> f(c.scratch, x.n);
  take_moments(c, x, epsilon, c.out + 1, f);
  read(c.in[2], x.n, f.k);
  map_channels(c, x, nullptr, channels_of(c.out[0]), c.scratch, x.n);
}

// With s = sum(dy), d = sum(dy * (x - mean)), n elements and r = 1 / sqrt(variance + epsilon):
// dx = scale * r * (dy - s / n - (x - mean) * r**2 * d / n), dscale = d * r, dbias = s.
template <class T>
void gradient(const Call& c, double epsilon) {
  using C = Compute<T>;
  const Columns dy = channels_of(c.in[0]), x = channels_of(c.in[1]);
  const Factors<C> f(c.scratch, x.n);
  C* const dot = f.k + x.n;
  void* const rest = dot + x.n;
  // The statistics of 16-bit floats were rounded when they were stored.
  if (sizeof(T) == 2) {
    column_moments(c, x, rest, f.center, f.b);
  } else {
    read(c.in[2], x.n, f.center);
    read(c.in[3], x.n, f.b);
  }
  column_products(c, x, f.center, dy, rest, f.k, dot);
  read(c.in[4], x.n, f.a);
  write(f.k, x.n, c.out[2]);
  const C share = C{1} / static_cast<C>(x.count);
  for (int64_t j = 0; j < x.n; ++j) {
    const C r = static_cast<C>(1.0 / ::sqrt(static_cast<double>(f.b[j]) + epsilon));
    f.b[j] = f.a[j] * r;
    f.a[j] = -f.b[j] * r * r * dot[j] * share;
    f.k[j] = -f.b[j] * f.k[j] * share;
    dot[j] *= r;
  }
  write(dot, x.n, c.out[1]);
  map_channels(c, x, &dy, channels_of(c.out[0]), c.scratch, x.n);
}

size_t scratch_of(const View& x) {
  const int64_t numbers = (kFactors + 1) * x.shape[1] * (is_double(x.dtype) ? 8 : 4);
  return static_cast<size_t>(numbers) + column_sums_scratch(channels_of(x));
}

}  // namespace

Status batch_norm_infer(const Call& c) {
  const double epsilon = c.attr<BatchNormInferAttrs>().epsilon;
  PROA_FLOATING(c.in[0].dtype, T, infer<T>(c, epsilon));
  return Status::kOk;
}

Status batch_norm(const Call& c) {
  const double epsilon = c.attr<BatchNormAttrs>().epsilon;
  PROA_FLOATING(c.in[0].dtype, T, normalise<T>(c, epsilon));
  return Status::kOk;
}
size_t batch_norm_scratch(const Call& c) { return scratch_of(c.in[0]); }

Status channel_moments(const Call& c) {
  const double epsilon = c.attr<ChannelMomentsAttrs>().epsilon;
  PROA_WIDE_FLOAT(c.in[0].dtype, T, moments<T>(c, epsilon));
  return Status::kOk;
}
size_t channel_moments_scratch(const Call& c) { return scratch_of(c.in[0]); }

namespace {

template <class T>
void normalise_loop(void* const* p, int64_t n, const void*) {
  T* y = static_cast<T*>(p[0]);
  auto take = [&](int k, int64_t i) {
    const T* x = static_cast<const T*>(p[k]) + i;
    return n - i < kLanesOf<T> ? load_n(x, n - i) : load(x);
  };
  for (int64_t i = 0; i < n; i += kLanesOf<T>) {
    const Vec<T> v = normalised<Vec<T>>(take(1, i), take(2, i), take(3, i), take(4, i));
    if (n - i < kLanesOf<T>)
      store_n(y + i, v, n - i);
    else
      store(y + i, v);
  }
}

}  // namespace

Status normalise_by(const Call& c) {
  static constexpr Loops kLoops = {normalise_loop<float>, normalise_loop<double>};
  return elementwise(c, kLoops);
}

Status batch_norm_grad(const Call& c) {
  const double epsilon = c.attr<BatchNormGradAttrs>().epsilon;
  PROA_FLOATING(c.in[1].dtype, T, gradient<T>(c, epsilon));
  return Status::kOk;
}
size_t batch_norm_grad_scratch(const Call& c) { return scratch_of(c.in[1]); }

}  // namespace proa::PROA_ISA
