// Batch normalisation per channel (axis 1), in either memory order. Everything is one map,
//   out = (x - center[c]) * a[c] + other * b[c] + k[c],
// with per-channel numbers from sums over the channels' elements.
#include <math.h>

#include "proa/base/dispatch.h"
#include "proa/gen/attrs/norm.h"
#include "proa/simd/column_sums.h"
#include "proa/simd/gemm/pack.h"
#include "proa/simd/vec.h"

namespace proa::PROA_ISA {
namespace {

/// Per-channel numbers of the map.
template <class C>
struct Factors {
  C *center, *a, *b, *k;
  Factors(void* memory, int64_t n)
      : center(static_cast<C*>(memory)), a(center + n), b(a + n), k(b + n) {}
};
constexpr int64_t kFactors = 4;

int64_t run_of(const Lines& lines, int64_t r, int64_t end) {
  if (lines.rank <= 1) return end - r;
  const int64_t run = lines.shape[lines.rank - 1], left = run - r % run;
  return left < end - r ? left : end - r;
}

/// Some neighbouring channels of one element; kWhole of them if that is a whole vector.
template <bool kWhole, class T>
PROA_INLINE void map_vector(const T* x, const T* beside, T* to, const Factors<Compute<T>>& f,
                            int64_t j, int64_t some) {
  auto take = [&](const auto* p) { return kWhole ? load(p + j) : load_n(p + j, some); };
  Vec<T> v = (take(x) - take(f.center)) * take(f.a) + take(f.k);
  if (beside != nullptr) v += take(beside) * take(f.b);
  if constexpr (kWhole)
    store(to + j, v);
  else
    store_n(to + j, v, some);
}

/// Channels are neighbours in all arrays.
template <class T>
void map_across(const Columns& x, const Columns* other, const Columns& out,
                const Factors<Compute<T>>& f, int64_t begin, int64_t end) {
  constexpr int kWidth = kLanesOf<T>;
  for (int64_t r = begin; r < end; ++r) {
    const T* from = static_cast<const T*>(x.data) + x.rows.at(r);
    const T* beside = other ? static_cast<const T*>(other->data) + other->rows.at(r) : nullptr;
    T* to = static_cast<T*>(const_cast<void*>(out.data)) + out.rows.at(r);
    int64_t j = 0;
    for (; j + kWidth <= x.n; j += kWidth) map_vector<true>(from, beside, to, f, j, kWidth);
    if (j < x.n) map_vector<false>(from, beside, to, f, j, x.n - j);
  }
}

/// Any strides: channel by channel, in runs of elements at equal distances.
template <class T>
void map_down(const Columns& x, const Columns* other, const Columns& out,
              const Factors<Compute<T>>& f, int64_t begin, int64_t end) {
  using C = Compute<T>;
  constexpr int kWidth = kLanesOf<T>;
  const Columns& y = other != nullptr ? *other : x;
  const int64_t xs = x.rows.step(), ys = y.rows.step(), os = out.rows.step();
  for (int64_t j = 0; j < x.n; ++j) {
    const C center = f.center[j], a = f.a[j], b = f.b[j], k = f.k[j];
    for (int64_t r = begin; r < end;) {
      int64_t n = run_of(x.rows, r, end);
      const int64_t two = run_of(y.rows, r, end), three = run_of(out.rows, r, end);
      n = two < n ? two : n;
      n = three < n ? three : n;
      const T* from = static_cast<const T*>(x.data) + j * x.stride + x.rows.at(r);
      const T* beside = static_cast<const T*>(y.data) + j * y.stride + y.rows.at(r);
      T* to = static_cast<T*>(const_cast<void*>(out.data)) + j * out.stride + out.rows.at(r);
      int64_t i = 0;
      if (xs == 1 && ys == 1 && os == 1)
        for (; i + kWidth <= n; i += kWidth) {
          __builtin_prefetch(from + x.stride + i);  // the next channel
          __builtin_prefetch(beside + y.stride + i);
          store(to + i, (load(from + i) - center) * a +
                            (other == nullptr ? Vec<T>{} + k : load(beside + i) * b + k));
        }
      for (; i < n; ++i)
        to[i * os] =
            static_cast<T>((static_cast<C>(from[i * xs]) - center) * a +
                           (other == nullptr ? k : static_cast<C>(beside[i * ys]) * b + k));
      r += n;
    }
  }
}

template <class T>
void map(const Call& call, const Columns& x, const Columns* other, const Columns& out,
         const Factors<Compute<T>>& f) {
  const bool across = x.stride == 1 && out.stride == 1 && (other == nullptr || other->stride == 1);
  parallel_for(call, x.count, 1 + (across ? 16384 : 131072) / (x.n + 1),
               [&](int64_t begin, int64_t end) {
                 if (across)
                   map_across<T>(x, other, out, f, begin, end);
                 else
                   map_down<T>(x, other, out, f, begin, end);
               });
}

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
    map<T>(c, from, nullptr, out, f);
  }
}

template <class T>
void normalise(const Call& c, double epsilon) {
  using C = Compute<T>;
  const Columns x = channels_of(c.in[0]);
  const Factors<C> f(c.scratch, x.n);
  C* const variance = f.b;
  void* const rest = f.k + x.n;
  column_moments(c, x, rest, f.center, variance);
  read(c.in[1], x.n, f.a);
  read(c.in[2], x.n, f.k);
  write(f.center, x.n, c.out[1]);
  write(variance, x.n, c.out[2]);
  for (int64_t j = 0; j < x.n; ++j)
    f.a[j] /= static_cast<C>(::sqrt(static_cast<double>(variance[j]) + epsilon));
  map<T>(c, x, nullptr, channels_of(c.out[0]), f);
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
  map<T>(c, x, &dy, channels_of(c.out[0]), f);
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

Status batch_norm_grad(const Call& c) {
  const double epsilon = c.attr<BatchNormGradAttrs>().epsilon;
  PROA_FLOATING(c.in[1].dtype, T, gradient<T>(c, epsilon));
  return Status::kOk;
}
size_t batch_norm_grad_scratch(const Call& c) { return scratch_of(c.in[1]); }

}  // namespace proa::PROA_ISA
