// dw(c, p, q) = sum over pixels of dy(pixel, c) * x(window of the pixel at tap p, q, c).
// Lines are divided into parts that depend on the shape alone; each has sums
// [tap][channel] of its own, which stay in the cache. Taps outside x are left out, so that x needs
// no input with a border.
#include "proa/kernels/conv/depthwise_weight.h"
#include "proa/base/arith.h"

#include <string.h>

#include "proa/base/dispatch.h"
#include "proa/simd/conv/depthwise.h"
#include "proa/simd/tuning.h"

namespace proa::PROA_ISA {
namespace {

constexpr int64_t kParts = 8;
constexpr int kVecs = 2, kTaps = 3;  // side by side

size_t align64(size_t n) { return (n + 63) & ~size_t{63}; }

struct Job {
  const Convolution& c;
  PaddedInput x, dy;
  int64_t width;  // sums of a tap
};

/// Columns [first, end) of the output whose tap falls into x.
struct Columns {
  int64_t first, end;
};
Columns columns_of(const Convolution& c, int64_t q) {
  const int64_t step = c.window.stride_w, cols = c.output.width;
  const int64_t offset = c.window.column(0, q), last = c.x.shape[3] - 1 - offset;
  const int64_t first = offset < 0 ? (-offset + step - 1) / step : 0;
  const int64_t end = last < 0 ? 0 : min(last / step + 1, cols);
  return {min(first, cols), max(end, min(first, cols))};
}

/// Adds columns [first, end) of a line to the sums of `taps` taps and `vecs` vectors.
template <class T>
PROA_INLINE void add_columns(const Job& j, const T* x, const T* dy, int64_t first, int64_t end,
                             int64_t last, int taps, int vecs, T* sums) {
  constexpr int kWidth = kLanesOf<T>;
  const int64_t tap = j.c.window.dilation_w * j.x.pixel, step = j.c.window.stride_w * j.x.pixel;
  Vec<T> acc[kTaps][kVecs];
#pragma GCC unroll 3
  for (int q = 0; q < taps; ++q)
#pragma GCC unroll 2
    for (int v = 0; v < vecs; ++v) acc[q][v] = load(sums + q * j.width + v * kWidth);
  x += first * step;
  dy += first * j.dy.pixel;
  for (int64_t i = first; i < end; ++i, x += step, dy += j.dy.pixel)
#pragma GCC unroll 2
    for (int v = 0; v < vecs; ++v) {
      const bool whole = last == kWidth || v + 1 < vecs;
      const Vec<T> d = whole ? load(dy + v * kWidth) : load_n(dy + v * kWidth, last);
#pragma GCC unroll 3
      for (int q = 0; q < taps; ++q) {
        const T* at = x + q * tap + v * kWidth;
        acc[q][v] += (whole ? load(at) : load_n(at, last)) * d;
      }
    }
#pragma GCC unroll 3
  for (int q = 0; q < taps; ++q)
#pragma GCC unroll 2
    for (int v = 0; v < vecs; ++v) store(sums + q * j.width + v * kWidth, acc[q][v]);
}

/// One row of taps of one line, for `vecs` vectors of channels.
template <class T>
PROA_INLINE void add_taps(const Job& j, const T* x, const T* dy, int64_t last, int vecs, T* sums) {
  const Convolution& c = j.c;
  const int64_t tap = c.window.dilation_w * j.x.pixel;
  for (int64_t q = 0; q < c.window.kernel_w;) {
    const int64_t taps = c.window.kernel_w - q >= kTaps ? kTaps : 1;
    Columns inner = columns_of(c, q);
    for (int64_t t = 1; t < taps; ++t) {
      const Columns other = columns_of(c, q + t);
      inner.first = max(inner.first, other.first);
      inner.end = min(inner.end, other.end);
    }
    inner.end = max(inner.end, inner.first);
    if (taps == kTaps)
      add_columns(j, x + q * tap, dy, inner.first, inner.end, last, kTaps, vecs,
                  sums + q * j.width);
    for (int64_t t = 0; t < taps; ++t, ++q) {
      const Columns own = columns_of(c, q);
      T* const to = sums + q * j.width;
      if (taps == 1) {
        add_columns(j, x + q * tap, dy, own.first, own.end, last, 1, vecs, to);
        continue;
      }
      if (own.first < inner.first)
        add_columns(j, x + q * tap, dy, own.first, min(inner.first, own.end), last, 1, vecs, to);
      if (max(inner.end, own.first) < own.end)
        add_columns(j, x + q * tap, dy, max(inner.end, own.first), own.end, last, 1, vecs, to);
    }
  }
}

/// One line, for the channels from `channel` on.
template <class T>
void add_line(const Job& j, int64_t line, int64_t channel, T* sums) {
  constexpr int kWidth = kLanesOf<T>;
  const Convolution& c = j.c;
  const int64_t n = line / c.output.height, i = line - n * c.output.height;
  const T* dy = static_cast<const T*>(j.dy.data) + n * j.dy.image + i * j.dy.row;
  for (int64_t p = 0; p < c.window.kernel_h; ++p) {
    const int64_t h = c.window.row(i, p);
    if (h < 0 || h >= c.x.shape[2]) continue;
    const T* x = static_cast<const T*>(j.x.data) + n * j.x.image + h * j.x.row -
                 c.window.pad_left * j.x.pixel;
    T* const to = sums + p * c.window.kernel_w * j.width;
    int64_t at = channel;
    for (; at + kVecs * kWidth <= c.channels.groups; at += kVecs * kWidth)
      add_taps(j, x + at, dy + at, kWidth, kVecs, to + at);
    for (; at < c.channels.groups; at += kWidth)
      add_taps(j, x + at, dy + at, min(c.channels.groups - at, kWidth), 1, to + at);
  }
}

// -- 3 x 3 taps: the sums of all nine stay in registers along the lines of a band ---------------

constexpr int kBandVecs = kVecRegisters / 16;  // times nine sums, which registers hold

/// True if only the first and the last position of an axis have a tap outside, and but one.
bool has_thin_edges(int64_t before, int64_t step, int64_t count, int64_t size) {
  const int64_t last = (count - 1) * step - before;
  return count > 1 && before <= 1 && last + 1 < size && last - step + 2 < size;
}
bool takes_bands(const Convolution& c) {
  const Window2d& w = c.window;
  return w.kernel_h == 3 && w.kernel_w == 3 && w.dilation_h == 1 && w.dilation_w == 1 &&
         w.pad_top >= 0 && w.pad_left >= 0 &&
         has_thin_edges(w.pad_top, w.stride_h, c.output.height, c.x.shape[2]) &&
         has_thin_edges(w.pad_left, w.stride_w, c.output.width, c.x.shape[3]);
}

template <class T>
struct Band {
  Vec<T> acc[3][3][kBandVecs];
  int64_t row, pixel;  // steps of x

  /// Taps [p0, p1) x [q0, q1) of one pixel.
  template <int p0, int p1, int q0, int q1>
  PROA_INLINE void add_pixel(const T* x, const T* dy) {
    constexpr int kWidth = kLanesOf<T>;
    Vec<T> d[kBandVecs];
#pragma GCC unroll 2
    for (int v = 0; v < kBandVecs; ++v) d[v] = load(dy + v * kWidth);
#pragma GCC unroll 3
    for (int p = p0; p < p1; ++p)
#pragma GCC unroll 3
      for (int q = q0; q < q1; ++q)
#pragma GCC unroll 2
        for (int v = 0; v < kBandVecs; ++v)
          acc[p][q][v] += load(x + p * row + q * pixel + v * kWidth) * d[v];
  }
  /// Taps [p0, p1) of one line.
  template <int p0, int p1>
  PROA_INLINE void add_line(const T* x, const T* dy, int64_t step, int64_t dy_step, Columns inner,
                            int64_t count) {
    if (inner.first > 0) {
      add_pixel<p0, p1, 1, 3>(x, dy);
      x += step;
      dy += dy_step;
    }
    for (int64_t i = inner.first; i < inner.end; ++i, x += step, dy += dy_step)
      add_pixel<p0, p1, 0, 3>(x, dy);
    if (inner.end < count) add_pixel<p0, p1, 0, 2>(x, dy);
  }
};

/// Lines [first, last), for kBandVecs vectors of channels.
template <class T>
void add_band(const Job& j, int64_t first, int64_t last, int64_t channel, T* sums) {
  constexpr int kWidth = kLanesOf<T>;
  const Convolution& c = j.c;
  const Columns inner = {columns_of(c, 0).first, columns_of(c, 2).end};
  const int64_t step = c.window.stride_w * j.x.pixel;
  Band<T> b;
  b.row = j.x.row;
  b.pixel = j.x.pixel;
#pragma GCC unroll 9
  for (int t = 0; t < 9; ++t)
#pragma GCC unroll 2
    for (int v = 0; v < kBandVecs; ++v)
      b.acc[t / 3][t % 3][v] = load(sums + t * j.width + channel + v * kWidth);
  for (int64_t line = first; line < last; ++line) {
    const int64_t n = line / c.output.height, i = line - n * c.output.height, h = c.window.row(i);
    const T* dy = static_cast<const T*>(j.dy.data) + n * j.dy.image + i * j.dy.row + channel;
    const T* x = static_cast<const T*>(j.x.data) + n * j.x.image + h * j.x.row -
                 c.window.pad_left * j.x.pixel + channel;
    if (h < 0)
      b.template add_line<1, 3>(x, dy, step, j.dy.pixel, inner, c.output.width);
    else if (h + 2 < c.x.shape[2])
      b.template add_line<0, 3>(x, dy, step, j.dy.pixel, inner, c.output.width);
    else
      b.template add_line<0, 2>(x, dy, step, j.dy.pixel, inner, c.output.width);
  }
#pragma GCC unroll 9
  for (int t = 0; t < 9; ++t)
#pragma GCC unroll 2
    for (int v = 0; v < kBandVecs; ++v)
      store(sums + t * j.width + channel + v * kWidth, b.acc[t / 3][t % 3][v]);
}

/// Lines [first, last): bands that stay in the second-level cache while all channels are
/// processed.
template <class T>
void add_lines(const Job& j, int64_t first, int64_t last, T* sums) {
  constexpr int64_t kChannels = kBandVecs * kLanesOf<T>;
  const Convolution& c = j.c;
  const int64_t channels = takes_bands(c) ? c.channels.groups / kChannels * kChannels : 0;
  const int64_t line = (c.window.stride_h * j.x.row + j.dy.row) * static_cast<int64_t>(sizeof(T));
  const int64_t lines = max(caches().depthwise_grad_band / max(line, 1), 1);
  for (int64_t i = first; i < last && channels > 0; i += lines)
    for (int64_t channel = 0; channel < channels; channel += kChannels)
      add_band(j, i, min(i + lines, last), channel, sums);
  if (channels < c.channels.groups)
    for (int64_t i = first; i < last; ++i) add_line(j, i, channels, sums);
}

template <class S>
void run(const Call& call, const Job& j, void* memory) {
  using T = Compute<S>;
  const Convolution& c = j.c;
  const View& dw = call.out[0];
  const int64_t lines = c.lines(), part = c.window.taps() * j.width;
  T* const sums = static_cast<T*>(memory);
  memset(sums, 0, static_cast<size_t>(kParts * part) * sizeof(T));
  parallel_for(call, kParts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      add_lines(j, t * lines / kParts, (t + 1) * lines / kParts, sums + t * part);
  });
  for (int64_t tap = 0; tap < c.window.taps(); ++tap)
    for (int64_t g = 0; g < c.channels.groups; ++g) {
      T sum = 0;
      for (int64_t t = 0; t < kParts; ++t) sum += sums[t * part + tap * j.width + g];
      dw.as<S>()[g * dw.stride[0] + tap / c.window.kernel_w * dw.stride[2] +
                 tap % c.window.kernel_w * dw.stride[3]] = static_cast<S>(sum);
    }
}

size_t sum_bytes(const Convolution& c) {
  const int64_t size = is_double(c.kernels.dtype) ? 8 : 4;
  return align64(static_cast<size_t>(kParts * c.window.taps() * depthwise_width(c) * size));
}

}  // namespace

Status depthwise_weight(const Call& call, const Convolution& c) {
  const View& dy = call.in[1];
  uint8_t* rest = static_cast<uint8_t*>(call.scratch) + sum_bytes(c);
  Job j = {c, {}, {}, depthwise_width(c)};
  const bool x_here = is_usable_in_place(c.x, unpadded_shape(c.x)),
             dy_here = is_usable_in_place(dy, unpadded_shape(dy));
  j.x = pad_input(call, c.x, unpadded_shape(c.x), x_here, rest);
  if (!x_here) rest += align64(padded_bytes(c.x, unpadded_shape(c.x)));
  j.dy = pad_input(call, dy, unpadded_shape(dy), dy_here, rest);
  PROA_FLOATING(call.out[0].dtype, S, run<S>(call, j, call.scratch));
  return Status::kOk;
}

size_t depthwise_weight_scratch(const Call& call, const Convolution& c) {
  const View& dy = call.in[1];
  size_t bytes = sum_bytes(c);
  if (!is_usable_in_place(c.x, unpadded_shape(c.x)))
    bytes += align64(padded_bytes(c.x, unpadded_shape(c.x)));
  if (!is_usable_in_place(dy, unpadded_shape(dy)))
    bytes += align64(padded_bytes(dy, unpadded_shape(dy)));
  return bytes;
}

}  // namespace proa::PROA_ISA
