// Layer normalisation over the last axes: each row has its own mean and 1 / sqrt(variance +
// epsilon).
#include <math.h>
#include <string.h>

#include "proa/gen/attrs/norm.h"
#include "proa/simd/rows.h"

namespace proa::PROA_ISA {
namespace {

Rows last_axes(const View& v, int64_t axes) {
  return Rows(v, static_cast<int>(v.rank - axes), v.rank);
}
Rows numbers(const View& v) { return Rows(v, v.rank, v.rank); }

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

/// Contiguous rows of T, normalised by floats; the next one is prefetched meanwhile.
template <class T>
void normalise_rows(const Call& c, int64_t axes, double epsilon) {
  const Rows x = last_axes(c.in[0], axes), y = last_axes(c.out[0], axes);
  const Rows mean = numbers(c.out[1]), rstd = numbers(c.out[2]);
  const int64_t width = x.width;
  const float* const scale = floats(last_axes(c.in[1], axes), 0);
  const float* const bias = floats(last_axes(c.in[2], axes), 0);
  if (width == 0) return;
  parallel_for(c, x.count, row_grain(width), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T *in = elements<T>(x, r), *next = next_row<T>(x, r);
      T* const out = elements<T>(y, r);
      const T* const next_out = next_row<T>(y, r);
      const auto value = [&](int64_t i, int64_t some) { return take(in, i, some); };
      const float m = sum_vectors(width, value) / static_cast<float>(width);
      const float square = sum_vectors(width, [&](int64_t i, int64_t some) {
        __builtin_prefetch(next + i, 0, 2);
        prefetch(next_out + i);
        const VF d = first_lanes(take(in, i, some) - m, some);
        return d * d;
      });
      const double variance = static_cast<double>(square) / static_cast<double>(width);
      const float s = static_cast<float>(1.0 / ::sqrt(variance + epsilon));
      write_block(mean.row(r), 0, 1, &m);
      write_block(rstd.row(r), 0, 1, &s);
      each_vector(width, [&](int64_t i, int64_t some) {
        const VF v = (take(in, i, some) - m) * s;
        give(out, i, some, v * take(scale, i, some) + take(bias, i, some));
      });
    }
  });
}

template <class C>
void normalise(const Call& c, int64_t axes, double epsilon) {
  const Rows x = last_axes(c.in[0], axes), y = last_axes(c.out[0], axes);
  const Rows scale = last_axes(c.in[1], axes), bias = last_axes(c.in[2], axes);
  const Rows mean = numbers(c.out[1]), rstd = numbers(c.out[2]);
  if (x.width == 0) return;
  parallel_for(c, x.count, row_grain(x.width), [&](int64_t begin, int64_t end) {
    const Row factors = scale.row(0), shifts = bias.row(0);
    for (int64_t r = begin; r < end; ++r) {
      const Row from = x.row(r);
      const Moments<C> m = moments_of<C>(from, x.width, epsilon);
      write_block(mean.row(r), 0, 1, &m.mean);
      write_block(rstd.row(r), 0, 1, &m.rstd);
      PairedRow<C> factor = {factors, x.width, {}}, shift = {shifts, x.width, {}};
      map_row<C>(from, y.row(r), x.width, [&](Vec<C> v, int64_t i, int64_t some) {
        return (v - m.mean) * m.rstd * factor(i, some) + shift(i, some);
      });
    }
  });
}

constexpr int64_t kChunks = 16;  // of the rows, for the sums over them
constexpr int64_t kSumRows = 6;  // of each chunk: two of sums, four of copies

int64_t chunk_rows(int64_t count) { return (count + kChunks - 1) / kChunks; }

/// The row's values, contiguous: in place, or copied to `buffer`.
template <class C>
const C* dense(const Row& r, int64_t width, C* buffer) {
  if (const C* dense = dense_row<C>(r, 0)) return dense;
  for (int64_t i = 0; i < width; i += kRowBlock) {
    const int64_t n = width - i < kRowBlock ? width - i : kRowBlock;
    const C* from = read_block(r, i, n, buffer + i);
    if (from != buffer + i) memcpy(buffer + i, from, static_cast<size_t>(n) * sizeof(C));
  }
  return buffer;
}

/// Sums of g = dy * scale and g * xhat over a row, whose dy * xhat and dy are added to `sums`. The
/// next row usually follows it in memory and is prefetched.
template <class C>
struct RowSums {
  C g, dot;
};
template <class C>
RowSums<C> take_row(const C* dy, const C* x, const C* scale, int64_t width, const Moments<C>& m,
                    C* sums) {
  constexpr int kWidth = kLanesOf<C>;
  Vec<C> g = {}, dot = {};
  auto step = [&](int64_t i, int64_t some) {
    prefetch(dy + width + i);
    prefetch(x + width + i);
    const Vec<C> d = load_n(dy + i, some), xhat = (load_n(x + i, some) - m.mean) * m.rstd;
    const Vec<C> scaled = d * load_n(scale + i, some), both = d * xhat;
    g += scaled;
    dot += scaled * xhat;
    store_n(sums + i, load_n(sums + i, some) + both, some);
    store_n(sums + width + i, load_n(sums + width + i, some) + d, some);
  };
  int64_t i = 0;
  for (; i + kWidth <= width; i += kWidth) step(i, kWidth);
  if (i < width) step(i, width - i);
  return {sum_lanes(g), sum_lanes(dot)};
}

// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)).
template <class C>
void give_row(const C* dy, const C* x, const C* scale, int64_t width, const Moments<C>& m,
              RowSums<C> s, C* dx) {
  constexpr int kWidth = kLanesOf<C>;
  const C g = s.g / static_cast<C>(width), dot = s.dot / static_cast<C>(width);
  auto step = [&](int64_t i, int64_t some) {
    prefetch(dx + width + i);
    const Vec<C> xhat = (load_n(x + i, some) - m.mean) * m.rstd;
    const Vec<C> d = load_n(dy + i, some) * load_n(scale + i, some);
    store_n(dx + i, (d - g - xhat * dot) * m.rstd, some);
  };
  int64_t i = 0;
  for (; i + kWidth <= width; i += kWidth) step(i, kWidth);
  if (i < width) step(i, width - i);
}

template <class C>
void gradient(const Call& c, int64_t axes, double epsilon) {
  const Rows dy = last_axes(c.in[0], axes), x = last_axes(c.in[1], axes);
  const Rows mean = numbers(c.in[2]), rstd = numbers(c.in[3]);
  const Rows scale = last_axes(c.in[4], axes), dx = last_axes(c.out[0], axes);
  C* const scratch = static_cast<C*>(c.scratch);
  const int64_t rows = chunk_rows(x.count), width = x.width;
  const int64_t chunks = rows == 0 ? 0 : (x.count + rows - 1) / rows;
  parallel_for(c, chunks, 1, [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p) {
      C* const own = scratch + p * kSumRows * width;
      C* const buffers = own + 2 * width;  // of dy, x, scale and dx
      for (int64_t i = 0; i < 2 * width; ++i) own[i] = 0;
      const C* const factors = dense(scale.row(0), width, buffers + 2 * width);
      for (int64_t r = p * rows; r < (p + 1) * rows && r < x.count; ++r) {
        Moments<C> m;
        if (size_of(x.dtype) == 2) {  // stored statistics were rounded
          m = moments_of<C>(x.row(r), width, epsilon);
        } else {
          read_into(mean.row(r), &m.mean);
          read_into(rstd.row(r), &m.rstd);
        }
        const C* const d = dense(dy.row(r), width, buffers);
        const C* const v = dense(x.row(r), width, buffers + width);
        const RowSums<C> s = take_row(d, v, factors, width, m, own);
        const Row out = dx.row(r);
        C* const dense = dense_row<C>(out, 0);
        C* const to = dense != nullptr ? dense : buffers + 3 * width;
        give_row(d, v, factors, width, m, s, to);
        if (dense == nullptr) write_block(out, 0, width, to);
      }
    }
  });
  const Rows outputs[2] = {last_axes(c.out[1], axes), last_axes(c.out[2], axes)};
  for (int o = 0; o < 2; ++o)
    for (int64_t i = 0; i < width; i += kRowBlock) {
      const int64_t n = width - i < kRowBlock ? width - i : kRowBlock;
      C sum[kRowBlock] = {};
      for (int64_t p = 0; p < chunks; ++p) {
        const C* const own = scratch + (kSumRows * p + o) * width + i;
        for (int64_t k = 0; k < n; ++k) sum[k] += own[k];
      }
      write_block(outputs[o].row(0), i, n, sum);
    }
}

}  // namespace

Status layer_norm(const Call& c) {
  const auto& a = c.attr<LayerNormAttrs>();
  const DType dtype = c.in[0].dtype;
  const auto rows = [&](const View& v) { return last_axes(v, a.axes); };
  const bool dense = plain(rows(c.in[0]), dtype) && plain(rows(c.out[0]), dtype) &&
                     plain(rows(c.in[1])) && plain(rows(c.in[2]));
  if (is_double(dtype))
    normalise<double>(c, a.axes, a.epsilon);
  else if (dense && dtype == DType::kF32)
    normalise_rows<float>(c, a.axes, a.epsilon);
  else if (computes(DType::kBF16) && dense && dtype == DType::kBF16)
    normalise_rows<BF16>(c, a.axes, a.epsilon);
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
  return static_cast<size_t>(kChunks * kSumRows * scale.numel()) * 8;
}

}  // namespace proa::PROA_ISA
