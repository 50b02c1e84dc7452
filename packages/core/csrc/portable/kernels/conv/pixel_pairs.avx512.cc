#include "proa/kernels/conv/pixel_pairs.h"

#include <string.h>

#include "proa/base/arith.h"
#include "proa/simd/vec.h"
#include "proa/simd/vec_transpose.h"

namespace proa::PROA_ISA {
namespace {

__mmask16 first_lanes(int64_t n) { return static_cast<__mmask16>((1u << min(n, kLanes)) - 1); }

__m512i load_wide(const uint16_t* from, __mmask16 some) {
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, from));
}

/// Words i and i + 16 of a vector, or of two vectors from word `first` on, next to each other.
__m512i interleaving(int first, int second) {
  alignas(64) uint16_t words[2 * kLanes];
  for (int i = 0; i < kLanes; ++i) {
    words[2 * i] = static_cast<uint16_t>(first + i);
    words[2 * i + 1] = static_cast<uint16_t>(second + i);
  }
  return _mm512_load_si512(words);
}

/// n / 2 pairs of pixels, two vectors of elements each.
void put_two_vectors(const uint16_t* x, int64_t step, int64_t n, int64_t width, Bf16Pair* to) {
  const __m512i low = interleaving(0, 32), high = interleaving(16, 48);
  for (; n > 1; n -= 2, x += 2 * step, to += width) {
    const __m512i a = _mm512_loadu_si512(x), b = _mm512_loadu_si512(x + step);
    _mm512_storeu_si512(to, _mm512_permutex2var_epi16(a, low, b));
    _mm512_storeu_si512(to + kLanes, _mm512_permutex2var_epi16(a, high, b));
  }
}

/// The same of one vector, or a part of it.
void put_vector(const uint16_t* x, int64_t step, int64_t n, __mmask16 some, int64_t width,
                Bf16Pair* to) {
  const __m512i order = interleaving(0, 16);
  for (; n > 1; n -= 2, x += 2 * step, to += width) {
    const __m512i a = _mm512_castsi256_si512(_mm256_maskz_loadu_epi16(some, x));
    const __m512i both = _mm512_inserti64x4(a, _mm256_maskz_loadu_epi16(some, x + step), 1);
    _mm512_mask_storeu_epi32(to, some, _mm512_permutexvar_epi16(order, both));
  }
}

/// Elements i of [0, n) for the lanes i from `at` on; 0 where there are none.
__m512i load_some(const uint16_t* from, int64_t at, int64_t n) {
  const int64_t skip = at < 0 ? min(-at, kLanes) : 0, end = max(min(n - at, kLanes), skip);
  const auto some = static_cast<__mmask16>(((1u << end) - 1) & ~((1u << skip) - 1));
  return load_wide(from + at, some);
}

/// A row of a padded input; `from` is column 0 of x.
void pair_row(const View& x, const PaddedShape& s, int64_t step, const uint16_t* from,
              uint32_t* to) {
  const int64_t channels = x.shape[1], cs = x.stride[1], ws = x.stride[3];
  if ((cs == 1 || channels == 1) && ws == channels) {
    const int64_t n = x.shape[3] * channels, all = s.width * channels, skip = s.left * channels;
    for (int64_t i = 0; i < all; i += kLanes) {
      const __m512i upper = load_some(from, i + step * channels - skip, n);
      const __m512i unit =
          _mm512_or_si512(load_some(from, i - skip, n), _mm512_slli_epi32(upper, 16));
      _mm512_mask_storeu_epi32(to + i, first_lanes(all - i), unit);
    }
    return;
  }
  auto at = [&](int64_t w, int64_t c) {
    w -= s.left;
    return w < 0 || w >= x.shape[3] ? 0u : uint32_t{from[w * ws + c * cs]};
  };
  for (int64_t w = 0; w < s.width; ++w)
    for (int64_t c = 0; c < channels; ++c) *to++ = at(w, c) | at(w + step, c) << 16;
}

}  // namespace

void put_pixel_pairs(const uint16_t* from, int64_t step, int64_t count, int64_t at, int64_t n,
                     int64_t width, Bf16Pair* panel) {
  if (at % 2 != 0 && n > 0) {  // the upper half of a pair that is there
    for (int64_t v = 0; v < count; v += kLanes) {
      const __mmask16 some = first_lanes(count - v);
      Bf16Pair* const to = panel + at / 2 * width + v;
      const __m512i upper = _mm512_slli_epi32(load_wide(from + v, some), 16);
      const __m512i lower = _mm512_maskz_loadu_epi32(some, to);
      _mm512_mask_storeu_epi32(to, some, _mm512_or_si512(lower, upper));
    }
    from += step;
    --n;
    ++at;
  }
  Bf16Pair* const to = panel + at / 2 * width;
  int64_t v = 0;
  for (; v + 2 * kLanes <= count; v += 2 * kLanes)
    put_two_vectors(from + v, step, n, width, to + v);
  for (; v < count; v += kLanes)
    put_vector(from + v, step, n, first_lanes(count - v), width, to + v);
  if (n % 2 == 0) return;
  from += (n - 1) * step;
  for (v = 0; v < count; v += kLanes) {
    const __mmask16 some = first_lanes(count - v);
    _mm512_mask_storeu_epi32(to + n / 2 * width + v, some, load_wide(from + v, some));
  }
}

void clear_pixel_pairs(int64_t count, int64_t at, int64_t n, int64_t width, Bf16Pair* panel) {
  // The upper half of a pair whose lower one came alone is 0 as it is.
  for (int64_t u = (at + 1) / 2; 2 * u < at + n; ++u)
    for (int64_t v = 0; v < count; v += kLanes)
      _mm512_mask_storeu_epi32(panel + u * width + v, first_lanes(count - v),
                               _mm512_setzero_si512());
}

void put_pixel_rows(const uint16_t* from, int64_t step, int64_t count, int64_t n, int64_t pitch,
                    Bf16Pair* rows) {
  constexpr int64_t kElements = 2 * kLanes;  // at a time
  alignas(64) Bf16Pair pairs[kLanes][kElements] = {};
  const int32_t* lines[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) lines[i] = reinterpret_cast<const int32_t*>(pairs[i]);
  const auto width = static_cast<int>(pitch / 4);
  for (int64_t e = 0; e < count; e += kElements) {
    const int64_t some = min(count - e, kElements);
    put_pixel_pairs(from + e, step, some, 0, n, kElements, pairs[0]);
    for (int64_t v = 0; v < some; v += kLanes)
      transpose_block(lines, v, width, reinterpret_cast<int32_t*>(rows) + (e + v) * width);
  }
}

PaddedInput pair_columns(const Call& call, const View& x, const PaddedShape& s, int64_t step,
                         void* memory) {
  const int64_t channels = x.shape[1], line = s.width * channels;
  auto* const units = static_cast<uint32_t*>(memory);
  parallel_for(
      call, x.shape[0] * s.height, 1 + 65536 / (line + 1), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t n = i / s.height, h = i - n * s.height - s.top;
          uint32_t* const to = units + i * line;
          if (h < 0 || h >= x.shape[2])
            memset(to, 0, static_cast<size_t>(line) * sizeof *to);
          else
            pair_row(x, s, step, x.as<const uint16_t>() + n * x.stride[0] + h * x.stride[2], to);
        }
      });
  return {memory, s.height * line, line, channels};
}

}  // namespace proa::PROA_ISA
