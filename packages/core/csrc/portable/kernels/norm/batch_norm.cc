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

/// Writes dscale and dbias, and makes the map's factors: a holds scale, b the variance, k the s.
template <class C>
void finish_sums(const Call& c, const Columns& x, double epsilon, const Factors<C>& f, C* dot) {
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
}

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
  finish_sums(c, x, epsilon, f, dot);
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

namespace {

void gate_loop(void* const* p, int64_t n, const void*) {
  float* to = static_cast<float*>(p[0]);
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t some = n - i < kLanes ? n - i : kLanes;
    auto take = [&](int k) { return load_n(static_cast<const float*>(p[k]) + i, some); };
    store_n(to + i, passed<VF>(take(1), take(2), take(3), take(4), take(5)), some);
  }
}

/// n numbers as a view that broadcasts over the channels of x.
View over_channels(float* numbers, const View& x) {
  View v = x;
  v.data = numbers;
  v.rank = static_cast<int8_t>(x.rank - 1);
  v.shape[0] = x.shape[1];
  v.stride[0] = 1;
  for (int d = 1; d < v.rank; ++d) v.shape[d] = v.stride[d] = 1;
  return v;
}

/// As gradient, of dy masked by a ReLU that follows the norm.
Status gated_gradient(const Call& c, double epsilon) {
  const Columns dy = channels_of(c.in[0]), x = channels_of(c.in[1]), dx = channels_of(c.out[0]);
  const Factors<float> f(c.scratch, x.n);
  float* const dot = f.k + x.n;
  float *const gate_a = dot + x.n, *const gate_k = gate_a + x.n;
  void* const rest = gate_k + x.n;
  read(c.in[2], x.n, f.center);
  read(c.in[3], x.n, f.b);
  read(c.in[4], x.n, f.a);
  read(c.in[5], x.n, gate_k);
  for (int64_t j = 0; j < x.n; ++j)
    gate_a[j] = f.a[j] / static_cast<float>(::sqrt(static_cast<double>(f.b[j]) + epsilon));
  const Gate gate = {f.center, gate_a, gate_k};
  if (x.stride == 1 && dy.stride == 1 && dx.stride == 1) {
    gated_column_products(c, x, gate, dy, rest, f.k, dot);
    finish_sums(c, x, epsilon, f, dot);
    map_gated_channels(c, x, dy, dx, c.scratch, x.n, gate);
    return Status::kOk;
  }
  // Other orders: first what passes, in the place of the result.
  const View views[5] = {c.in[1], c.in[0], over_channels(f.center, c.in[1]),
                         over_channels(gate_a, c.in[1]), over_channels(gate_k, c.in[1])};
  static constexpr Loops kLoops = {gate_loop};
  Call gated = c;
  gated.n_out = 1;
  PROA_TRY(elementwise(gated, kLoops, views, 5));
  PROA_TRY(column_products(c, x, f.center, dx, rest, f.k, dot));
  finish_sums(c, x, epsilon, f, dot);
  return map_channels(c, x, &dx, dx, c.scratch, x.n);
}

}  // namespace

Status batch_norm_relu_grad(const Call& c) {
  for (int i = 0; i < c.n_in; ++i)
    if (c.in[i].dtype != DType::kF32) return Status::kUnimplemented;
  return gated_gradient(c, c.attr<BatchNormReluGradAttrs>().epsilon);
}
size_t batch_norm_relu_grad_scratch(const Call& c) {
  return scratch_of(c.in[1]) + 2 * sizeof(float) * static_cast<size_t>(c.in[1].shape[1]);
}

Status batch_norm_grad(const Call& c) {
  const double epsilon = c.attr<BatchNormGradAttrs>().epsilon;
  PROA_FLOATING(c.in[1].dtype, T, gradient<T>(c, epsilon));
  return Status::kOk;
}
size_t batch_norm_grad_scratch(const Call& c) { return scratch_of(c.in[1]); }

}  // namespace proa::PROA_ISA
