// Layer normalisation over the last axes: each row has its own mean and 1 / sqrt(variance +
// epsilon).
#include <math.h>

#include "proa/gen/attrs.h"
#include "proa/gen/kernels.h"
#include "proa/simd/rows.h"

namespace proa::PROA_ISA {
namespace {

Rows last_axes(const View& v, int64_t axes) {
  return Rows(v, static_cast<int>(v.rank - axes), v.rank);
}
Rows elements(const View& v) { return Rows(v, v.rank, v.rank); }

template <class C>
struct Moments {
  C mean, rstd;
};

template <class C>
Moments<C> moments_of(const Row& x, int64_t width, double epsilon) {
  const C mean =
      sum_row<C>(x, width, [](Vec<C> v, int64_t, int64_t) { return v; }) / static_cast<C>(width);
  const C square = sum_row<C>(x, width, [&](Vec<C> v, int64_t, int64_t some) {
    Vec<C> d = v - mean;
    if (some < kLanesOf<C>)
      for (int64_t i = some; i < kLanesOf<C>; ++i) d[i] = 0;
    return d * d;
  });
  const double variance = static_cast<double>(square) / static_cast<double>(width);
  return {mean, static_cast<C>(1.0 / ::sqrt(variance + epsilon))};
}

template <class C>
void normalise(const Call& c, int64_t axes, double epsilon) {
  const Rows x = last_axes(c.in[0], axes), y = last_axes(c.out[0], axes);
  const Rows scale = last_axes(c.in[1], axes), bias = last_axes(c.in[2], axes);
  const Rows mean = elements(c.out[1]), rstd = elements(c.out[2]);
  if (x.width == 0) return;
  parallel_for(c, x.count, row_grain(x.width), [&](int64_t begin, int64_t end) {
    const Row factors = scale.row(0), shifts = bias.row(0);
    for (int64_t r = begin; r < end; ++r) {
      const Row from = x.row(r);
      const Moments<C> m = moments_of<C>(from, x.width, epsilon);
      write_block(mean.row(r), 0, 1, &m.mean);
      write_block(rstd.row(r), 0, 1, &m.rstd);
      Beside<C> factor = {factors, x.width, {}}, shift = {shifts, x.width, {}};
      map_row<C>(from, y.row(r), x.width, [&](Vec<C> v, int64_t i, int64_t some) {
        return (v - m.mean) * m.rstd * factor(i, some) + shift(i, some);
      });
    }
  });
}

constexpr int64_t kPieces = 16;  // of the rows, for the sums over them

int64_t piece_rows(int64_t count) { return (count + kPieces - 1) / kPieces; }

/// Adds dy * xhat and dy of one row to `sums` (2 * width).
template <class C>
void add_row(const Row& dy, const Row& x, int64_t width, const Moments<C>& m, C* sums) {
  Beside<C> values = {x, width, {}};
  for_each_block<C>(dy, width, [&](const C* d, int64_t i, int64_t n) {
    for (int64_t k = 0; k < n; k += kLanesOf<C>) {
      const int64_t some = n - k < kLanesOf<C> ? n - k : kLanesOf<C>;
      const Vec<C> g = load_n(d + k, some), xhat = (values(i + k, some) - m.mean) * m.rstd;
      C *const first = sums + i + k, *const second = first + width;
      store_n(first, load_n(first, some) + g * xhat, some);
      store_n(second, load_n(second, some) + g, some);
    }
  });
}

// With g = dy * scale: dx = rstd * (g - mean(g) - xhat * mean(g * xhat)).
template <class C>
void input_gradient(const Row& dy, const Row& x, const Row& scale, const Row& dx, int64_t width,
                    const Moments<C>& m) {
  Beside<C> x1 = {x, width, {}}, x2 = {x, width, {}};
  Beside<C> s1 = {scale, width, {}}, s2 = {scale, width, {}}, s3 = {scale, width, {}};
  const C g =
      sum_row<C>(dy, width, [&](Vec<C> d, int64_t i, int64_t some) { return d * s1(i, some); }) /
      static_cast<C>(width);
  const C dot = sum_row<C>(dy, width,
                           [&](Vec<C> d, int64_t i, int64_t some) {
                             return d * s2(i, some) * ((x1(i, some) - m.mean) * m.rstd);
                           }) /
                static_cast<C>(width);
  map_row<C>(dy, dx, width, [&](Vec<C> d, int64_t i, int64_t some) {
    const Vec<C> xhat = (x2(i, some) - m.mean) * m.rstd;
    return (d * s3(i, some) - g - xhat * dot) * m.rstd;
  });
}

template <class C>
void gradient(const Call& c, int64_t axes, double epsilon) {
  const Rows dy = last_axes(c.in[0], axes), x = last_axes(c.in[1], axes);
  const Rows mean = elements(c.in[2]), rstd = elements(c.in[3]);
  const Rows scale = last_axes(c.in[4], axes), dx = last_axes(c.out[0], axes);
  C* const sums = static_cast<C*>(c.scratch);
  const int64_t rows = piece_rows(x.count), width = x.width;
  const int64_t pieces = rows == 0 ? 0 : (x.count + rows - 1) / rows;
  parallel_for(c, pieces, 1, [&](int64_t first, int64_t last) {
    const Row factors = scale.row(0);
    for (int64_t p = first; p < last; ++p) {
      C* const own = sums + p * 2 * width;
      for (int64_t i = 0; i < 2 * width; ++i) own[i] = 0;
      for (int64_t r = p * rows; r < (p + 1) * rows && r < x.count; ++r) {
        Moments<C> m;
        if (size_of(x.dtype) == 2) {  // stored statistics were rounded
          m = moments_of<C>(x.row(r), width, epsilon);
        } else {
          read_into(mean.row(r), &m.mean);
          read_into(rstd.row(r), &m.rstd);
        }
        add_row(dy.row(r), x.row(r), width, m, own);
        input_gradient(dy.row(r), x.row(r), factors, dx.row(r), width, m);
      }
    }
  });
  const Rows outputs[2] = {last_axes(c.out[1], axes), last_axes(c.out[2], axes)};
  for (int o = 0; o < 2; ++o)
    for (int64_t i = 0; i < width; ++i) {
      C sum = 0;
      for (int64_t p = 0; p < pieces; ++p) sum += sums[(2 * p + o) * width + i];
      write_block(outputs[o].row(0), i, 1, &sum);
    }
}

}  // namespace

Status layer_norm(const Call& c) {
  const auto& a = c.attr<LayerNormAttrs>();
  if (is_double(c.in[0].dtype))
    normalise<double>(c, a.axes, a.epsilon);
  else
    normalise<float>(c, a.axes, a.epsilon);
  return Status::kOk;
}

Status layer_norm_grad(const Call& c) {
  const auto& a = c.attr<LayerNormGradAttrs>();
  if (is_double(c.in[1].dtype))
    gradient<double>(c, a.axes, a.epsilon);
  else
    gradient<float>(c, a.axes, a.epsilon);
  return Status::kOk;
}

size_t layer_norm_grad_scratch(const Call& c) {
  const View& scale = c.in[4];
  return static_cast<size_t>(kPieces * 2 * scale.numel()) * 8;
}

}  // namespace proa::PROA_ISA
