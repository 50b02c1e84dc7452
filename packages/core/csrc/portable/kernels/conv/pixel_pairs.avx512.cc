#include "proa/kernels/conv/pixel_pairs.h"

#include "proa/base/arith.h"
#include "proa/simd/vec.h"

namespace proa::PROA_ISA {
namespace {

__mmask16 first_lanes(int64_t n) { return static_cast<__mmask16>((1u << min(n, kLanes)) - 1); }

__m512i load_wide(const uint16_t* from, __mmask16 some) {
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, from));
}

}  // namespace

void put_pixel_pairs(const uint16_t* from, int64_t step, int64_t count, int64_t at, int64_t n,
                     int64_t width, Bf16Pair* panel) {
  for (int64_t v = 0; v < count; v += kLanes) {
    const __mmask16 some = first_lanes(count - v);
    const uint16_t* x = from + v;
    Bf16Pair* to = panel + at / 2 * width + v;
    int64_t left = n;
    if (at % 2 != 0 && left > 0) {
      const __m512i upper = _mm512_slli_epi32(load_wide(x, some), 16);
      const __m512i lower = _mm512_maskz_loadu_epi32(some, to);
      _mm512_mask_storeu_epi32(to, some, _mm512_or_si512(lower, upper));
      x += step;
      to += width;
      --left;
    }
    for (; left > 1; left -= 2, x += 2 * step, to += width) {
      const __m512i upper = _mm512_slli_epi32(load_wide(x + step, some), 16);
      _mm512_mask_storeu_epi32(to, some, _mm512_or_si512(load_wide(x, some), upper));
    }
    if (left > 0) _mm512_mask_storeu_epi32(to, some, load_wide(x, some));
  }
}

void clear_pixel_pairs(int64_t count, int64_t at, int64_t n, int64_t width, Bf16Pair* panel) {
  // The upper half of a pair whose lower one came alone is 0 as it is.
  for (int64_t u = (at + 1) / 2; 2 * u < at + n; ++u)
    for (int64_t v = 0; v < count; v += kLanes)
      _mm512_mask_storeu_epi32(panel + u * width + v, first_lanes(count - v),
                               _mm512_setzero_si512());
}

}  // namespace proa::PROA_ISA
