#pragma once
// Vectors of int8: conversions, and exact sums of products in int32.
#include "proa/simd/vec.h"

namespace proa::PROA_ISA {

// -- conversions ---------------------------------------------------------------------------------
/// kLanes contiguous elements as int32. (The compiler converts them byte by byte.)
PROA_INLINE VI load_int8(const int8_t* p) {
#if defined(__AVX512F__)
  return (VI)_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#elif defined(__AVX2__)
  return (VI)_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
#else
  VI8 x;
  __builtin_memcpy(&x, p, sizeof x);
  return __builtin_convertvector(x, VI);
#endif
}
/// The first n of them, 0 <= n <= kLanes; the others are 0.
PROA_INLINE VI load_int8_n(const int8_t* p, int64_t n) {
#if defined(__AVX512F__)
  const __mmask16 mask = static_cast<__mmask16>((1u << n) - 1);
  return (VI)_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask, p));
#else
  int8_t lanes[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) lanes[i] = p[i];
  return load_int8(lanes);
#endif
}
/// Lanes must be in the range of int8.
PROA_INLINE VI8 to_int8(VI x) {
#if defined(__AVX512F__)
  return bit_cast<VI8>(_mm512_cvtepi32_epi8((__m512i)x));
#elif defined(__AVX2__)
  const __m128i low = _mm256_castsi256_si128((__m256i)x);
  const __m128i half = _mm_packs_epi32(low, _mm256_extracti128_si256((__m256i)x, 1));
  const int64_t bytes = _mm_cvtsi128_si64(_mm_packs_epi16(half, half));
  return bit_cast<VI8>(bytes);
#else
  return __builtin_convertvector(x, VI8);
#endif
}
/// The first n lanes, 0 <= n < kLanes.
PROA_INLINE void store_n(int8_t* p, VI8 x, int64_t n) {
#if defined(__AVX512F__)
  _mm_mask_storeu_epi8(p, static_cast<__mmask16>((1u << n) - 1), bit_cast<__m128i>(x));
#else
  __builtin_memcpy(p, &x, static_cast<size_t>(n));
#endif
}

/// Two rows of kVecs vectors, bounded by `low` and `high`, which int8 has: the first `n` of each
/// row, n more than all but one vector has. `second` may be nullptr.
template <int kVecs>
PROA_INLINE void store_int8_rows(const VI (*q)[kVecs], int low, int high, int64_t n, int8_t* first,
                                 int8_t* second) {
#if defined(__AVX512F__)
  // Each part of 16 bytes has four columns of each vector, one vector after the other.
  __m512i x = _mm512_packs_epi32((__m512i)q[0][0], (__m512i)q[kVecs - 1 > 0 ? 0 : 1][kVecs - 1]);
  if constexpr (kVecs > 1) {
    const __m512i y = _mm512_packs_epi32((__m512i)q[1][0], (__m512i)q[1][1]);
    x = _mm512_packs_epi16(x, y);
  } else {
    x = _mm512_packs_epi16(x, x);
  }
  const __m512i order =
      kVecs > 1 ? _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)
                : _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 1, 5, 9, 13, 1, 5, 9, 13);
  x = _mm512_permutexvar_epi32(order, x);
  x = _mm512_max_epi8(x, _mm512_set1_epi8(static_cast<char>(low)));
  x = _mm512_min_epi8(x, _mm512_set1_epi8(static_cast<char>(high)));
  const __m256i a = _mm512_castsi512_si256(x), b = _mm512_extracti64x4_epi64(x, 1);
  if (n == kVecs * kLanes) {
    if constexpr (kVecs > 1) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(first), a);
      if (second != nullptr) _mm256_storeu_si256(reinterpret_cast<__m256i*>(second), b);
    } else {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(first), _mm256_castsi256_si128(a));
      if (second != nullptr)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(second), _mm256_castsi256_si128(b));
    }
    return;
  }
  const __mmask32 mask = (1u << n) - 1;
  _mm256_mask_storeu_epi8(first, mask, a);
  if (second != nullptr) _mm256_mask_storeu_epi8(second, mask, b);
#else
  const VI lower = splat<int32_t>(low), upper = splat<int32_t>(high);
  for (int s = 0; s < 2; ++s) {
    int8_t* const to = s == 0 ? first : second;
    if (to == nullptr) return;
    for (int j = 0; j < kVecs; ++j) {
      VI v = q[s][j];
      v = v < lower ? lower : v;
      v = v > upper ? upper : v;
      const VI8 bytes = to_int8(v);
      if (j < kVecs - 1 || n == kVecs * kLanes)
        __builtin_memcpy(to + j * kLanes, &bytes, sizeof bytes);
      else
        store_n(to + j * kLanes, bytes, n - j * kLanes);
    }
  }
#endif
}

// -- products of lanes, for depthwise convolution ------------------------------------------------
// On x86 the factors are the low halves of int32, so that one instruction multiplies and adds.
PROA_INLINE int32_t int8_factor(int8_t w) {
#if defined(__SSE2__)
  return static_cast<uint16_t>(w);
#else
  return w;
#endif
}
/// acc + x * w for x as from load_int8 and w as from int8_factor.
PROA_INLINE VI multiply_add_int8(VI acc, VI x, VI w) {
#if defined(__AVX512F__)
  return (VI)_mm512_dpwssd_epi32((__m512i)acc, (__m512i)x, (__m512i)w);
#elif defined(__AVX2__)
  return acc + (VI)_mm256_madd_epi16((__m256i)x, (__m256i)w);
#elif defined(__SSE2__)
  return acc + (VI)_mm_madd_epi16((__m128i)x, (__m128i)w);
#else
  return acc + x * w;
#endif
}

// -- products of units: 4 bytes that hold as many steps as are multiplied at once ----------------
// With VNNI 4 steps: a holds them as x + 128 (uint8), b as int8; the caller starts the sums from
// -128 * (column sum of b). With NEON's dot product both are int8. Elsewhere 2 steps as int16.
#if defined(__AVX512F__)
typedef uint8_t Int8Step;         // x + 128
constexpr int kInt8Offset = 128;  // so the sums must start from -128 * (column sum of b)
#elif defined(__ARM_FEATURE_DOTPROD)
typedef int8_t Int8Step;
constexpr int kInt8Offset = 0;
#else
typedef int16_t Int8Step;
constexpr int kInt8Offset = 0;
#endif
constexpr int kInt8Steps = 4 / static_cast<int>(sizeof(Int8Step));  // in a unit

/// Adds the products of unit `a` (int32_t, or with AVX2 that in all lanes) and the units of b.
#if defined(__AVX2__)
template <class A>
PROA_INLINE VI add_unit_products(VI acc, A a, VI b) {
  const VI all = a - VI{};
#if defined(__AVX512F__)
  // As an intrinsic the compiler schedules it further from its operands, and spills sums of tiles.
  __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(all), "v"(b));
  return acc;
#else
  // The sums of a micro-kernel and its operands take 15 of 16 registers: the compiler would
  // multiply for several sums ahead, and spill.
  VI products;
  __asm__("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0"
          : "+x"(acc), "=x"(products)
          : "x"(all), "x"(b));
  return acc;
#endif
}
#else
PROA_INLINE VI add_unit_products(VI acc, int32_t a, VI b) {
#if defined(__SSE2__)
  return acc + (VI)_mm_madd_epi16(_mm_set1_epi32(a), (__m128i)b);
#elif defined(__ARM_FEATURE_DOTPROD)
  return (VI)vdotq_s32((int32x4_t)acc, (int8x16_t)b, vreinterpretq_s8_s32(vdupq_n_s32(a)));
#elif defined(__ARM_NEON)
  const int16x4_t steps = vreinterpret_s16_s32(vdup_n_s32(a));
  const int16x8_t two = (int16x8_t)b;
  const int32x4_t first = vmlal_lane_s16((int32x4_t)acc, vget_low_s16(two), steps, 0);
  return (VI)vmlal_lane_s16(first, vget_high_s16(two), steps, 1);
#else
  const int32_t low = static_cast<int16_t>(a), high = a >> 16;
  return acc + ((b << 16) >> 16) * low + (b >> 16) * high;
#endif
}
#endif

/// On NEON without the dot product the first steps of a vector's units precede their second steps:
/// puts the units at p into that order. Elsewhere they stay as they are.
#if defined(__ARM_NEON) && !defined(__ARM_FEATURE_DOTPROD)
constexpr bool kSeparatesInt8Steps = true;
PROA_INLINE void separate_int8_steps(uint8_t* p) {
  int16_t* const at = reinterpret_cast<int16_t*>(p);
  const int16x8_t b = vld1q_s16(at);
  const int16x4x2_t two = vuzp_s16(vget_low_s16(b), vget_high_s16(b));
  vst1q_s16(at, vcombine_s16(two.val[0], two.val[1]));
}
#else
constexpr bool kSeparatesInt8Steps = false;
PROA_INLINE void separate_int8_steps(uint8_t*) {}
#endif

}  // namespace proa::PROA_ISA
