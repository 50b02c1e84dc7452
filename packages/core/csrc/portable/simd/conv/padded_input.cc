#include "proa/simd/conv/padded_input.h"

#include <string.h>

#include "proa/base/dispatch.h"
#include "proa/base/settings.h"
#include "proa/base/task_size.h"
#include "proa/simd/gemm/micro.h"

namespace proa::PROA_ISA {
namespace {

int64_t element_bytes(DType t) { return t == DType::kI8 ? 1 : is_double(t) ? 8 : 4; }

int64_t pitch(const View& x, const PaddedShape& s) { return s.pixel > 0 ? s.pixel : x.shape[1]; }

/// An element of the input; kFlip is the bits that int8 with an offset has inverted.
template <class T, int kFlip, class S>
PROA_INLINE T as_step(S x) {
  if constexpr (kFlip != 0)
    return static_cast<T>(x ^ kFlip);
  else
    return static_cast<T>(x);
}

template <class T, int kFlip>
void fill_with_zero(T* to, int64_t n) {
  if constexpr (kFlip != 0)
    memset(to, kFlip, static_cast<size_t>(n) * sizeof(T));
  else
    memset(to, 0, static_cast<size_t>(n) * sizeof(T));
}

/// n contiguous elements.
template <class S, class T, int kFlip>
PROA_INLINE void copy_run(const S* from, int64_t n, T* to) {
  int64_t i = 0;
  if constexpr (sizeof(S) == 2 && sizeof(T) == 4)  // 16-bit floats
    for (; i + kLanes <= n; i += kLanes) store(to + i, load(from + i));
  for (; i < n; ++i) to[i] = as_step<T, kFlip>(from[i]);
}

/// Three planes of 16 bits as pixels of four elements, the last of which is 0; returns how many
/// whole vectors of pixels were written.
[[maybe_unused]] int64_t interleave_planes(const uint16_t* from, int64_t count, int64_t plane,
                                           uint16_t* to) {
  VI low, high;
  for (int i = 0; i < kLanes; ++i) {
    low[i] = i / 2 + i % 2 * kLanes;
    high[i] = low[i] + kLanes / 2;
  }
  int64_t w = 0;
  for (; w + kLanes <= count; w += kLanes) {
    const auto channel = [&](int64_t c) {
      return __builtin_convertvector(load_as<VU16>(from + c * plane + w), VU);
    };
    const VU first = channel(0) | channel(1) << 16, last = channel(2);
    const VU pixels[2] = {shuffle(first, last, low), shuffle(first, last, high)};
    memcpy(to + 4 * w, pixels, sizeof pixels);
  }
  return w;
}

/// Pixels that are `ws` apart and have their channels `cs` apart.
template <class S, class T, int kFlip>
void copy_pixels(const S* from, int64_t count, int64_t channels, int64_t cs, int64_t ws,
                 int64_t pixel, T* to) {
  if (channels == 3) {
    int64_t w = 0;
    if constexpr (kHasBf16Pairs && sizeof(S) == 2 && sizeof(T) == 2)
      if (ws == 1 && pixel == 4) w = interleave_planes(from, count, cs, to);
    for (; w < count; ++w)
      for (int64_t c = 0; c < 3; ++c) to[w * pixel + c] = as_step<T, kFlip>(from[w * ws + c * cs]);
    return;
  }
  if (cs == 1) {
    for (int64_t w = 0; w < count; ++w)
      copy_run<S, T, kFlip>(from + w * ws, channels, to + w * pixel);
    return;
  }
  // A few channels at a time, so that both sides stay in the cache.
  for (int64_t c0 = 0; c0 < channels; c0 += 16) {
    const int64_t some = channels - c0 < 16 ? channels - c0 : 16;
    for (int64_t w = 0; w < count; ++w)
      for (int64_t c = c0; c < c0 + some; ++c)
        to[w * pixel + c] = as_step<T, kFlip>(from[w * ws + c * cs]);
  }
}

/// One row of the input from column `left` of x on; `from` is column 0 of channel 0.
template <class S, class T, int kFlip>
void fill_row(const View& x, const S* from, const PaddedShape& s, T* to) {
  const int64_t channels = x.shape[1], cs = x.stride[1], ws = x.stride[3], pixel = pitch(x, s);
  const int64_t skip = s.left < 0 ? -s.left : 0;  // columns of x left out
  const int64_t before = s.left > 0 ? (s.left < s.width ? s.left : s.width) : 0;
  int64_t count = x.shape[3] - skip;
  if (count > s.width - before) count = s.width - before;
  if (count < 0) count = 0;
  fill_with_zero<T, kFlip>(to, before * pixel);
  T* at = to + before * pixel;
  // Left between the pixels by pairs is what makes channels even.
  if constexpr (sizeof(S) == 2 && sizeof(T) == 2)
    if (pixel > channels) fill_with_zero<T, kFlip>(at, count * pixel);
  from += skip * ws;
  const bool packed =
      (channels == 1 || cs == 1) && (channels == 1 ? ws == 1 : ws == channels) && pixel == channels;
  if (packed && sizeof(S) == sizeof(T) && kFlip == 0) {
    memcpy(at, from, static_cast<size_t>(count * channels) * sizeof(T));
  } else if (packed) {
    copy_run<S, T, kFlip>(from, count * channels, at);
  } else {
    copy_pixels<S, T, kFlip>(from, count, channels, cs, ws, pixel, at);
  }
  fill_with_zero<T, kFlip>(at + count * pixel, (s.width - before - count) * pixel);
}

template <class S, class T = Compute<S>, int kFlip = 0>
void fill(const Call& call, const View& x, const PaddedShape& s, T* memory) {
  const int64_t line = s.width * pitch(x, s);
  const int64_t grain = 1 + kCopyTaskBytes / (line + 1);
  parallel_for(call, x.shape[0] * s.height, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / s.height, h = i - n * s.height - s.top;
      T* const to = memory + i * line;
      if (h < 0 || h >= x.shape[2])
        fill_with_zero<T, kFlip>(to, line);
      else
        fill_row<S, T, kFlip>(x, x.as<const S>() + n * x.stride[0] + h * x.stride[2], s, to);
    }
  });
}

PaddedInput copied(const View& x, const PaddedShape& s, const void* memory) {
  const int64_t line = s.width * pitch(x, s);
  return {memory, s.height * line, line, pitch(x, s)};
}

size_t copy_bytes(const View& x, const PaddedShape& s, int64_t size) {
  const int64_t pixels = x.shape[0] * s.height * s.width;
  return static_cast<size_t>((pixels + 16) * pitch(x, s) * size) + 128;
}

}  // namespace

bool is_usable_in_place(const View& x, const PaddedShape& s, bool by_pairs) {
  bool native = x.dtype == DType::kF32 || is_double(x.dtype) || x.dtype == DType::kI8;
  if (by_pairs) native = (x.shape[1] | x.stride[0] | x.stride[2] | x.stride[3]) % 2 == 0;
  return native && (x.shape[1] == 1 || x.stride[1] == 1) && s.top <= 0 && s.left <= 0 &&
         s.height - s.top <= x.shape[2] && s.width - s.left <= x.shape[3];
}

size_t padded_bytes(const View& x, const PaddedShape& s, bool by_pairs) {
  return copy_bytes(x, s, by_pairs ? 2 : element_bytes(x.dtype));
}

size_t padded_int8_bytes(const View& x, const PaddedShape& s) {
  return copy_bytes(x, s, sizeof(Int8Step));
}

PaddedInput pad_int8_input(const Call& call, const View& x, const PaddedShape& s, void* memory) {
  fill<int8_t, Int8Step, kInt8Offset>(call, x, s, static_cast<Int8Step*>(memory));
  return copied(x, s, memory);
}

/// As pad_input, by pairs.
PaddedInput pad_pairs(const Call& call, const View& x, const PaddedShape& s, bool in_place,
                      void* memory) {
  PaddedInput f;
  if (in_place) {
    const int64_t skip = -s.top * x.stride[2] - s.left * x.stride[3];
    f = {x.as<const uint16_t>() + skip, x.stride[0], x.stride[2], x.stride[3]};
  } else {
    fill<uint16_t, uint16_t>(call, x, s, static_cast<uint16_t*>(memory));
    f = copied(x, s, memory);
  }
  return {f.data, f.image / 2, f.row / 2, f.pixel / 2};
}

PaddedInput pad_input(const Call& call, const View& x, const PaddedShape& s, bool in_place,
                      void* memory, bool by_pairs) {
  if (computes(DType::kBF16) && by_pairs) return pad_pairs(call, x, s, in_place, memory);
  if (in_place) {
    const int64_t skip = -s.top * x.stride[2] - s.left * x.stride[3];
    return {x.as<const uint8_t>() + skip * static_cast<int64_t>(size_of(x.dtype)), x.stride[0],
            x.stride[2], x.stride[3]};
  }
  switch (x.dtype) {
    case DType::kF16:
      if constexpr (computes(DType::kF16)) fill<F16>(call, x, s, static_cast<float*>(memory));
      break;
    case DType::kBF16:
      if constexpr (computes(DType::kBF16)) fill<BF16>(call, x, s, static_cast<float*>(memory));
      break;
    case DType::kF64:
      if constexpr (computes(DType::kF64)) fill<double>(call, x, s, static_cast<double*>(memory));
      break;
    case DType::kI8:
      if constexpr (kHasDepthwise)  // the others use pad_int8_input
        fill<int8_t>(call, x, s, static_cast<int8_t*>(memory));
      break;
    default:
      fill<float>(call, x, s, static_cast<float*>(memory));
      break;
  }
  return copied(x, s, memory);
}

const void* read_patch(const void* ctx, int64_t window, int64_t k, int64_t count, void* buffer) {
  const Im2colRows& s = *static_cast<const Im2colRows*>(ctx);
  // 32-bit divisions take half the time.
  auto divide = [](int64_t a, int64_t b) {
    return int64_t{static_cast<uint32_t>(a) / static_cast<uint32_t>(b)};
  };
  const int64_t line = divide(window, s.output.width), n = divide(line, s.output.height);
  const int64_t top = s.window.row(line - n * s.output.height);
  const int64_t left = s.window.column(window - line * s.output.width);
  const int64_t runs_w = s.run == s.depth ? s.window.kernel_w : 1;  // runs in one row of the window
  const int64_t r = divide(k, s.run);
  int64_t at = k - r * s.run, p = divide(r, runs_w), q = r - p * runs_w;
  uint8_t* to = static_cast<uint8_t*>(buffer);
  for (;;) {
    const int64_t h = top + p * s.window.dilation_h, w = left + q * s.window.dilation_w;
    const int64_t some = s.run - at < count ? s.run - at : count;
    // Elements [first, last) of those from `at` on are there.
    int64_t first = -w * s.depth - at, last = (s.input_size.width - w) * s.depth - at;
    if (first < 0) first = 0;
    if (last > some) last = some;
    if (static_cast<uint64_t>(h) >= static_cast<uint64_t>(s.input_size.height) || last < first)
      first = last = 0;
    const uint8_t* from =
        static_cast<const uint8_t*>(s.input.data) +
        (n * s.input.image + h * s.input.row + w * s.input.pixel + at + first) * s.size;
    if (last - first == some) {
      if (to == buffer && some == count) return from;
    } else {
      memset(to, 0, static_cast<size_t>(some * s.size));
    }
    memcpy(to + first * s.size, from, static_cast<size_t>((last - first) * s.size));
    to += some * s.size;
    count -= some;
    if (count <= 0) return buffer;
    at = 0;
    if (++q == runs_w) q = 0, ++p;
  }
}

}  // namespace proa::PROA_ISA
