// Taps that fall outside x are left out, so that x needs no input with a border.
#include "proa/simd/conv/depthwise.h"
#include "proa/base/arith.h"
#include "proa/base/task_size.h"
#include "proa/simd/conv/depthwise_blocks.h"
#include "proa/simd/gemm/epilogue_vector.h"

namespace proa::PROA_ISA {
namespace {

constexpr int64_t kTasks = 8;
constexpr int kPixels = 4, kVecs = 2;  // of a tile

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
  bool finishes;              // in registers
};

/// Adjacent pixels, and the taps that reach x.
struct Window {
  Taps p, q;                             // all of them, and of the pixels together
  int64_t w;                             // column of x of tap 0 of the first pixel
  bool whole;                            // every tap of every pixel is inside
  int64_t first[kPixels], end[kPixels];  // taps of each pixel
  int skip;                              // pixels that are there already
};

/// `count` pixels of `vecs` vectors of channels, which the compiler knows where it counts.
template <class T>
PROA_INLINE void sum_tile(const Job<T>& s, const T* line, const Window& at, int64_t channel,
                          int64_t last, int count, int vecs, bool whole, Vec<T> (*acc)[kVecs]) {
  constexpr int kWidth = kLanesOf<T>;
  const Convolution& c = s.c;
  const int64_t step = c.window.stride_w * s.input.pixel, tap = c.window.dilation_w * s.input.pixel;
  for (int64_t p = at.p.first; p < at.p.end; ++p) {
    const T* x = line + p * c.window.dilation_h * s.input.row + at.w * s.input.pixel +
                 at.q.first * tap + channel;
    const T* w = s.kernels + (p * c.window.kernel_w + at.q.first) * s.width + channel;
    for (int64_t q = at.q.first; q < at.q.end; ++q, x += tap, w += s.width)
#pragma GCC unroll 4
      for (int i = 0; i < count; ++i) {
        if (!whole && (q < at.first[i] || q >= at.end[i])) continue;
#pragma GCC unroll 2
        for (int v = 0; v < vecs; ++v) {
          const T* from = x + i * step + v * kWidth;
          acc[i][v] += (last == kWidth || v + 1 < vecs ? load(from) : load_n(from, last)) *
                       load(w + v * kWidth);
        }
      }
  }
}

template <class T>
PROA_INLINE void store_some(T* to, Vec<T> y, int64_t some) {
  if (some == kLanesOf<T>)
    store(to, y);
  else
    store_n(to, y, some);
}

/// Writes a tile through memory.
template <class T>
PROA_INLINE void write_tile(const Job<T>& s, int64_t row, int64_t j, int64_t channel, int64_t last,
                            int skip, int count, int vecs, Vec<T> (*acc)[kVecs]) {
  constexpr int kWidth = kLanesOf<T>;
  alignas(64) T spare[kPixels * kVecs * kWidth];
  T* to = spare;
  int64_t ld = kVecs * kWidth;
  if (s.out != nullptr) {
    to = s.out + s.rows.at(row) + j * s.pixel + channel;
    ld = s.pixel;
  }
#pragma GCC unroll 4
  for (int i = 0; i < count; ++i) {
    if (i < skip) continue;
#pragma GCC unroll 2
    for (int v = 0; v < vecs; ++v) {
      Vec<T> y = acc[i][v];
      if (s.end.relu) y = y < Vec<T>{} ? Vec<T>{} : y;  // NaN stays
      store_some(to + i * ld + v * kWidth, y, v + 1 < vecs ? kWidth : last);
    }
  }
  if (s.end.epilogue != nullptr)
    s.end.epilogue(s.end.epilogue_ctx, to + skip * ld, ld, row + j + skip, count - skip, channel,
                   static_cast<int>((vecs - 1) * kWidth + last));
}

/// Writes a tile of floats, finished in registers.
template <Act kAct>
PROA_INLINE void finish_tile(const Job<float>& s, float* to, int64_t row, int64_t channel,
                             int64_t last, int skip, int count, int vecs, VF (*acc)[kVecs]) {
#pragma GCC unroll 2
  for (int v = 0; v < vecs; ++v) {
    const int64_t some = v + 1 < vecs ? kLanes : last;
    const VectorEnd end(s.c.end, channel + v * kLanes, some);
#pragma GCC unroll 4
    for (int i = 0; i < count; ++i)
      if (i >= skip)
        store_some(to + i * s.pixel + v * kLanes, end.finish<kAct>(acc[i][v], row + i), some);
  }
}

/// `line` is where x has the first tap, `to` where the first pixel goes, for channel 0.
template <class T>
PROA_INLINE void run_tile(const Job<T>& s, const T* line, const Window& at, int64_t row, int64_t j,
                          int64_t channel, int64_t last, int count, int vecs) {
  constexpr int kWidth = kLanesOf<T>;
  Vec<T> acc[kPixels][kVecs];
#pragma GCC unroll 2
  for (int v = 0; v < vecs; ++v)
#pragma GCC unroll 4
    for (int i = 0; i < count; ++i)
      acc[i][v] = s.bias == nullptr ? Vec<T>{} : load(s.bias + channel + v * kWidth);
  if (at.whole)
    sum_tile(s, line, at, channel, last, count, vecs, true, acc);
  else
    sum_tile(s, line, at, channel, last, count, vecs, false, acc);
  if constexpr (sizeof(T) == sizeof(float)) {
    if (!kSmallBuild && s.finishes) {
      float* const to = s.out + s.rows.at(row) + j * s.pixel + channel;
      switch (s.c.end.act) {
        case Act::kNone:
          return finish_tile<Act::kNone>(s, to, row + j, channel, last, at.skip, count, vecs, acc);
        case Act::kRelu:
          return finish_tile<Act::kRelu>(s, to, row + j, channel, last, at.skip, count, vecs, acc);
        case Act::kRelu6:
          return finish_tile<Act::kRelu6>(s, to, row + j, channel, last, at.skip, count, vecs, acc);
        case Act::kHardSwish:
          return finish_tile<Act::kHardSwish>(s, to, row + j, channel, last, at.skip, count, vecs,
                                              acc);
        default:
          return finish_tile<Act::kHardSigmoid>(s, to, row + j, channel, last, at.skip, count, vecs,
                                                acc);
      }
    }
  }
  write_tile(s, row, j, channel, last, at.skip, count, vecs, acc);
}

/// `count` pixels from column j on, all channels; 1 or kPixels.
template <class T>
void run_pixels(const Job<T>& s, const T* line, const Window& at, int64_t row, int64_t j,
                int count) {
  constexpr int kWidth = kLanesOf<T>;
  const int64_t channels = s.c.channels.groups;
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

/// `count` pixels from column `j` on.
PROA_INLINE Window window_at(const Convolution& c, const Taps& p, int64_t j, int count) {
  Window at = {p, {c.window.kernel_w, 0}, c.window.column(j), true, {}, {}, 0};
  for (int i = 0; i < count; ++i) {
    const Taps q = taps_inside(at.w + i * c.window.stride_w, c.window.dilation_w, c.window.kernel_w,
                               c.x.shape[3]);
    at.first[i] = q.first, at.end[i] = q.end;
    at.whole = at.whole && q.first == 0 && q.end == c.window.kernel_w;
    at.q = {min(at.q.first, q.first), q.end > at.q.end ? q.end : at.q.end};
  }
  return at;
}

/// Line i of the output. The last tile of a line begins early enough to be a full one.
template <class T>
void run_line(const Job<T>& s, int64_t i) {
  const Convolution& c = s.c;
  const int64_t n = i / c.output.height, h = c.window.row(i - n * c.output.height);
  const T* line = static_cast<const T*>(s.input.data) + n * s.input.image + h * s.input.row;
  const Taps p = taps_inside(h, c.window.dilation_h, c.window.kernel_h, c.x.shape[2]);
  const int count = c.output.width >= kPixels ? kPixels : 1;
  for (int64_t j = 0; j < c.output.width; j += count) {
    const int64_t start = min(j, c.output.width - count);
    Window at = window_at(c, p, start, count);
    at.skip = static_cast<int>(j - start);
    run_pixels(s, line, at, i * c.output.width, start, count);
  }
}

template <class T>
void run_as(const Convolution& c, const PaddedInput& input, const void* packed, const void* bias,
            const GemmOutput& end, int64_t first, int64_t last) {
  const MatrixRef& out = c.end.out;
  const bool straight = out.stride == 1 && size_of(out.dtype) == sizeof(T) &&
                        (out.dtype == DType::kF32 || is_double(out.dtype));
  const int64_t pixel = c.output.width > 1 ? out.rows.at(1) - out.rows.at(0) : 0;
  T* const to = straight ? static_cast<T*>(out.data) : nullptr;
  const Job<T> s = {c,
                    input,
                    static_cast<const T*>(packed),
                    static_cast<const T*>(bias),
                    end,
                    depthwise_width(c),
                    out.rows,
                    to,
                    pixel,
                    sizeof(T) == sizeof(float) && straight && finishes_vectors(c.end)};
  for (int64_t i = first; i < last; ++i) run_line(s, i);
}

}  // namespace

int64_t depthwise_grain(const Convolution& c) {
  const int64_t work = c.output.width * c.channels.groups * (c.window.taps() + 2) / kLanes * 8;
  return 1 + kDepthwiseTaskMacs / (work + 1);
}

size_t depthwise_packed_size(const Convolution& c, int64_t size) {
  return static_cast<size_t>(c.window.taps() * depthwise_width(c) * size) + kVecBytes;
}

void depthwise_lines(const Convolution& c, const PaddedInput& input, const void* packed,
                     const void* bias, const GemmOutput& end, int64_t first, int64_t last) {
  GemmOutput plain = end;
  // Without a place of its own an output that is only copied needs no epilogue either.
  if (c.end.plain() && c.end.out.stride == 1 &&
      (c.end.out.dtype == DType::kF32 || is_double(c.end.out.dtype)))
    plain.epilogue = nullptr;
  if constexpr (kHasDepthwiseBlocks) {
    if (depthwise_blocks_take(c))
      return depthwise_blocks(c, input, static_cast<const float*>(packed),
                              static_cast<const float*>(bias), plain, first, last);
  }
  if (computes(DType::kF64) && is_double(c.kernels.dtype))
    run_as<double>(c, input, packed, bias, plain, first, last);
  else
    run_as<float>(c, input, packed, bias, plain, first, last);
}

void depthwise(const Call& call, const Convolution& c, const PaddedInput& input, const void* packed,
               const void* bias, const GemmOutput& end, int64_t first, int64_t lines) {
  // Few tasks, as each reads lines of x that its neighbours read too.
  const int64_t grain =
      kHasDepthwiseBlocks ? max(depthwise_grain(c), ceil_div(lines, kTasks)) : depthwise_grain(c);
  parallel_for(call, lines, grain + grain % 2, [&](int64_t begin, int64_t stop) {
    depthwise_lines(c, input, packed, bias, end, first + begin, first + stop);
  });
}

}  // namespace proa::PROA_ISA
