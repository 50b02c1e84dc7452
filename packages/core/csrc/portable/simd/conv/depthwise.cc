// Taps that fall outside x are left out, so that x needs no input with a border.
#include "proa/simd/conv/depthwise.h"
#include "proa/base/arith.h"

namespace proa::PROA_ISA {
namespace {

constexpr int64_t kGrainMacs = 1 << 16;
constexpr int kPixels = 4, kVecs = 2;  // of a tile

/// Taps [first, end) of those at `at`, at + step, ... that fall into [0, size).
struct Taps {
  int64_t first, end;
};
PROA_INLINE Taps inside(int64_t at, int64_t step, int64_t taps, int64_t size) {
  Taps t = {0, taps};
  while (t.first < t.end && at + t.first * step < 0) ++t.first;
  while (t.first < t.end && at + (t.end - 1) * step >= size) --t.end;
  return t;
}

template <class T>
struct Job {
  const Convolution& c;
  const PaddedInput& input;
  const T* kernels;
  const T* bias;
  const GemmOutput& end;
  int64_t width;              // of a line of kernels
  const CoalescedAxes& rows;  // of the output
  T* out;                     // or nullptr: through end.epilogue
  int64_t pixel;              // between pixels of a line of the output
};

/// The taps of one or more adjacent pixels.
struct Window {
  Taps p, q;
  int64_t w;  // column of x of tap 0
};

/// `count` pixels of `vecs` vectors of channels, which the compiler knows where it counts.
template <class T>
PROA_INLINE void sum_tile(const Job<T>& s, const T* line, const Window& at, int64_t channel,
                          int64_t last, int count, int vecs, Vec<T> (*acc)[kVecs]) {
  constexpr int kWidth = kLanesOf<T>;
  const Convolution& c = s.c;
  const int64_t step = c.step_w * s.input.pixel, tap = c.tap_w * s.input.pixel;
#pragma GCC unroll 2
  for (int v = 0; v < vecs; ++v)
#pragma GCC unroll 4
    for (int i = 0; i < count; ++i)
      acc[i][v] = s.bias == nullptr ? Vec<T>{} : load(s.bias + channel + v * kWidth);
  for (int64_t p = at.p.first; p < at.p.end; ++p) {
    const T* x =
        line + p * c.tap_h * s.input.row + at.w * s.input.pixel + at.q.first * tap + channel;
    const T* w = s.kernels + (p * c.taps_w + at.q.first) * s.width + channel;
    for (int64_t q = at.q.first; q < at.q.end; ++q, x += tap, w += s.width)
#pragma GCC unroll 2
      for (int v = 0; v < vecs; ++v) {
        const Vec<T> factor = load(w + v * kWidth);
#pragma GCC unroll 4
        for (int i = 0; i < count; ++i) {
          const T* from = x + i * step + v * kWidth;
          acc[i][v] += (last == kWidth || v + 1 < vecs ? load(from) : load_n(from, last)) * factor;
        }
      }
  }
}

template <class T>
PROA_INLINE void write_tile(const Job<T>& s, int64_t row, int64_t j, int64_t channel, int64_t last,
                            int count, int vecs, Vec<T> (*acc)[kVecs]) {
  constexpr int kWidth = kLanesOf<T>;
  alignas(64) T spare[kPixels * kVecs * kWidth];
  T* to = spare;
  int64_t ld = kVecs * kWidth;
  if (s.out != nullptr) {
    to = s.out + s.rows.at(row) + j * s.pixel + channel;
    ld = s.pixel;
  }
#pragma GCC unroll 4
  for (int i = 0; i < count; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < vecs; ++v) {
      Vec<T> y = acc[i][v];
      if (s.end.relu) y = y < Vec<T>{} ? Vec<T>{} : y;  // NaN stays
      if (last == kWidth || v + 1 < vecs)
        store(to + i * ld + v * kWidth, y);
      else
        store_n(to + i * ld + v * kWidth, y, last);
    }
  if (s.end.epilogue != nullptr)
    s.end.epilogue(s.end.epilogue_ctx, to, ld, row + j, count, channel,
                   static_cast<int>((vecs - 1) * kWidth + last));
}

template <class T>
PROA_INLINE void run_tile(const Job<T>& s, const T* line, const Window& at, int64_t row, int64_t j,
                          int64_t channel, int64_t last, int count, int vecs) {
  Vec<T> acc[kPixels][kVecs];
  sum_tile(s, line, at, channel, last, count, vecs, acc);
  write_tile(s, row, j, channel, last, count, vecs, acc);
}

/// `count` pixels from column j on, all channels; 1 or kPixels.
template <class T>
void run_pixels(const Job<T>& s, const T* line, const Window& at, int64_t row, int64_t j,
                int count) {
  constexpr int kWidth = kLanesOf<T>;
  const int64_t channels = s.c.groups;
  int64_t channel = 0;
  for (; channel + kVecs * kWidth <= channels; channel += kVecs * kWidth) {
    if (count == kPixels)
      run_tile(s, line, at, row, j, channel, kWidth, kPixels, kVecs);
    else
      run_tile(s, line, at, row, j, channel, kWidth, 1, kVecs);
  }
  for (; channel < channels; channel += kWidth) {
    const int64_t last = min(channels - channel, kWidth);
    if (count == kPixels)
      run_tile(s, line, at, row, j, channel, last, kPixels, 1);
    else
      run_tile(s, line, at, row, j, channel, last, 1, 1);
  }
}

/// Line i of the output.
template <class T>
void run_line(const Job<T>& s, int64_t i) {
  const Convolution& c = s.c;
  const int64_t n = i / c.rows, h = (i - n * c.rows) * c.step_h - c.top;
  const T* line = static_cast<const T*>(s.input.data) + n * s.input.image + h * s.input.row;
  const Taps p = inside(h, c.tap_h, c.taps_h, c.x.shape[2]);
  for (int64_t j = 0; j < c.cols;) {
    const int64_t w = j * c.step_w - c.left;
    const int64_t right = w + (kPixels - 1) * c.step_w + (c.taps_w - 1) * c.tap_w;
    const bool whole = w >= 0 && right < c.x.shape[3] && j + kPixels <= c.cols;
    const Taps q = whole ? Taps{0, c.taps_w} : inside(w, c.tap_w, c.taps_w, c.x.shape[3]);
    const int count = whole ? kPixels : 1;
    run_pixels(s, line, {p, q, w}, i * c.cols, j, count);
    j += count;
  }
}

template <class T>
void run_as(const Convolution& c, const PaddedInput& input, const void* packed, const void* bias,
            const GemmOutput& end, int64_t first, int64_t last) {
  const MatrixRef& out = c.end.out;
  const bool straight = out.stride == 1 && size_of(out.dtype) == sizeof(T) &&
                        (out.dtype == DType::kF32 || is_double(out.dtype));
  const int64_t pixel = c.cols > 1 ? out.rows.at(1) - out.rows.at(0) : 0;
  T* const to = straight ? static_cast<T*>(out.data) : nullptr;
  const Job<T> s = {c,
                    input,
                    static_cast<const T*>(packed),
                    static_cast<const T*>(bias),
                    end,
                    depthwise_width(c),
                    out.rows,
                    to,
                    pixel};
  for (int64_t i = first; i < last; ++i) run_line(s, i);
}

}  // namespace

int64_t depthwise_grain(const Convolution& c) {
  const int64_t work = c.cols * c.groups * (c.taps_h * c.taps_w + 2) / kLanes * 8;
  return 1 + kGrainMacs / (work + 1);
}

size_t depthwise_packed_size(const Convolution& c, int64_t size) {
  return static_cast<size_t>(c.taps_h * c.taps_w * depthwise_width(c) * size) + kVecBytes;
}

void depthwise_lines(const Convolution& c, const PaddedInput& input, const void* packed,
                     const void* bias, const GemmOutput& end, int64_t first, int64_t last) {
  GemmOutput plain = end;
  // Without a place of its own an output that is only copied needs no epilogue either.
  if (c.end.plain() && c.end.out.stride == 1 &&
      (c.end.out.dtype == DType::kF32 || is_double(c.end.out.dtype)))
    plain.epilogue = nullptr;
  if (computes(DType::kF64) && is_double(c.kernels.dtype))
    run_as<double>(c, input, packed, bias, plain, first, last);
  else
    run_as<float>(c, input, packed, bias, plain, first, last);
}

void depthwise(const Call& call, const Convolution& c, const PaddedInput& input, const void* packed,
               const void* bias, const GemmOutput& end, int64_t first, int64_t lines) {
  parallel_for(call, lines, depthwise_grain(c), [&](int64_t begin, int64_t stop) {
    depthwise_lines(c, input, packed, bias, end, first + begin, first + stop);
  });
}

}  // namespace proa::PROA_ISA
