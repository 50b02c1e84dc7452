// A pixel of dy and those to the right and below determine 2 x 2 pixels of dx: the nine taps,
// of kernels that stay in registers along a line. Every sum has the terms of its phase in their
// order, so the bits are the same as by phases.
#include "proa/kernels/conv/depthwise_doubled.h"

#include "proa/base/dispatch.h"
#include "proa/simd/conv/depthwise.h"

namespace proa::PROA_ISA {
namespace {

template <class T>
struct Job {
  const Convolution* phases;
  const PaddedInput& dy;
  const T* bias;
  const View& dx;
  int64_t width;  // of a line of kernels
};

/// ConvWeights of the taps of each phase, and the lines of dx.
template <class T>
struct Line {
  Vec<T> middle, along[2], down[2], across[4], start;
  T* even;
  T* odd;  // or nullptr: below the last line
};

/// Column j of a line. `a` and `b` are dy there and below it; `right` returns those to the right.
template <bool kBelow, bool kRight, class T>
PROA_INLINE void write_pixels(const Line<T>& s, const T* dy, int64_t below, int64_t pixel,
                              Vec<T>* a, Vec<T>* b, int64_t to, int64_t step, bool odd_column) {
  const Vec<T> here = *a, under = *b;
  if (kRight) {
    *a = load(dy + pixel);
    if (kBelow) *b = load(dy + pixel + below);
  }
  store(s.even + to, s.start + here * s.middle);
  if (odd_column) {
    Vec<T> y = s.start + here * s.along[0];
    if (kRight) y += *a * s.along[1];
    store(s.even + to + step, y);
  }
  if (s.odd == nullptr) return;
  Vec<T> y = s.start + here * s.down[0];
  if (kBelow) y += under * s.down[1];
  store(s.odd + to, y);
  if (!odd_column) return;
  y = s.start + here * s.across[0];
  if (kRight) y += *a * s.across[1];
  if (kBelow) y += under * s.across[2];
  if (kBelow && kRight) y += *b * s.across[3];
  store(s.odd + to + step, y);
}

template <bool kBelow, class T>
PROA_INLINE void run_columns(const Job<T>& s, const Line<T>& line, const T* dy) {
  Vec<T> a = load(dy), b = kBelow ? load(dy + s.dy.row) : Vec<T>{};
  const int64_t cols = s.phases[0].output.width, step = s.dx.stride[3];
  int64_t to = 0;
  for (int64_t i = 0; i + 1 < cols; ++i, dy += s.dy.pixel, to += 2 * step)
    write_pixels<kBelow, true>(line, dy, s.dy.row, s.dy.pixel, &a, &b, to, step, true);
  write_pixels<kBelow, false>(line, dy, s.dy.row, s.dy.pixel, &a, &b, to, step,
                              2 * cols <= s.dx.shape[3]);
}

/// One line of dy, for one vector of channels.
template <class T>
void run_channels(const Job<T>& s, int64_t n, int64_t i, int64_t channel) {
  auto kernel = [&](int phase, int tap) {
    return load(static_cast<const T*>(s.phases[phase].kernels.packed) + tap * s.width + channel);
  };
  Line<T> line;
  line.middle = kernel(0, 0);
  for (int t = 0; t < 2; ++t) line.along[t] = kernel(1, t), line.down[t] = kernel(2, t);
  for (int t = 0; t < 4; ++t) line.across[t] = kernel(3, t);
  line.start = s.bias == nullptr ? Vec<T>{} : load(s.bias + channel);
  line.even = s.dx.template as<T>() + n * s.dx.stride[0] + 2 * i * s.dx.stride[2] + channel;
  line.odd = 2 * i + 1 < s.dx.shape[2] ? line.even + s.dx.stride[2] : nullptr;
  const T* const dy = static_cast<const T*>(s.dy.data) + n * s.dy.image + i * s.dy.row + channel;
  if (i + 1 < s.phases[0].output.height)
    run_columns<true>(s, line, dy);
  else
    run_columns<false>(s, line, dy);
}

template <class T>
void run(const Call& call, const Job<T>& s) {
  const Convolution& c = s.phases[0];
  parallel_for(call, c.lines(), depthwise_grain(c), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const int64_t n = line / c.output.height;
      for (int64_t channel = 0; channel < c.channels.groups; channel += kLanesOf<T>)
        run_channels(s, n, line - n * c.output.height, channel);
    }
  });
}

bool is_phase(const Convolution& c, int64_t taps_h, int64_t taps_w) {
  const Window2d& w = c.window;
  return w.kernel_h == taps_h && w.kernel_w == taps_w && w.pad_top == 0 && w.pad_left == 0 &&
         (taps_h == 1 || w.dilation_h == 1) && (taps_w == 1 || w.dilation_w == 1);
}

template <class T>
bool takes_channels(const Convolution& c, const View& dx) {
  return c.channels.groups % kLanesOf<T> == 0 && dx.stride[1] == 1;
}

}  // namespace

bool doubled_takes(const Convolution* phases, int count, const View& dx) {
  const Convolution& c = phases[0];
  if (count != 4 || c.output.height != c.x.shape[2] || c.output.width != c.x.shape[3]) return false;
  for (int i = 0; i < 4; ++i)
    if (!is_phase(phases[i], 1 + i / 2, 1 + i % 2)) return false;
  if (dx.dtype == DType::kF32) return takes_channels<float>(c, dx);
  return is_double(dx.dtype) && takes_channels<double>(c, dx);
}

void depthwise_doubled(const Call& call, const Convolution* phases, const PaddedInput& input,
                       const void* bias, const View& dx) {
  const int64_t width = depthwise_width(phases[0]);
  if (computes(DType::kF64) && is_double(dx.dtype))
    run<double>(call, {phases, input, static_cast<const double*>(bias), dx, width});
  else
    run<float>(call, {phases, input, static_cast<const float*>(bias), dx, width});
}

}  // namespace proa::PROA_ISA
