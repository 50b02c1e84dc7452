#pragma once
// Vectors of doubles that are read from floats and written to them, and sums along their lanes.
#include "proa/simd/vec.h"

namespace proa::PROA_ISA {

// (The compiler's own conversions of half vectors go through memory.)
typedef float FloatHalf __attribute__((vector_size(kVecBytes / 2)));
/// As many floats as a vector has doubles.
PROA_INLINE VD load_wide(const float* p) {
#if defined(__AVX512F__)
  return (VD)_mm512_cvtps_pd(_mm256_loadu_ps(p));
#elif defined(__AVX2__)
  return (VD)_mm256_cvtps_pd(_mm_loadu_ps(p));
#else
  FloatHalf v;
  __builtin_memcpy(&v, p, sizeof v);
  return __builtin_convertvector(v, VD);
#endif
}
PROA_INLINE void store_narrow(float* p, VD v) {
#if defined(__AVX512F__)
  _mm256_storeu_ps(p, _mm512_cvtpd_ps((__m512d)v));
#elif defined(__AVX2__)
  _mm_storeu_ps(p, _mm256_cvtpd_ps((__m256d)v));
#else
  const FloatHalf half = __builtin_convertvector(v, FloatHalf);
  __builtin_memcpy(p, &half, sizeof half);
#endif
}
/// The last lane, in every lane.
PROA_INLINE VD splat_last(VD v) {
#if defined(__AVX512F__)
  return (VD)_mm512_permutexvar_pd(_mm512_set1_epi64(7), (__m512d)v);
#else
  return splat(v[kLanesOf<double> - 1]);
#endif
}
/// The lanes shifted up by kShift places, with zeros below.
template <int kShift>
PROA_INLINE VD shift_up(VD v) {
#if defined(__AVX512F__)
  return (VD)_mm512_alignr_epi64((__m512i)v, _mm512_setzero_si512(), 8 - kShift);
#else
  constexpr int kWidth = kLanesOf<double>;
  VL from;  // lane i - kShift of v, or a zero
  for (int i = 0; i < kWidth; ++i) from[i] = i < kShift ? kWidth : i - kShift;
  return shuffle(v, VD{}, from);
#endif
}
/// Sums of the lanes up to each.
PROA_INLINE VD prefix_sums(VD v) {
  constexpr int kWidth = kLanesOf<double>;
  v += shift_up<1>(v);
  if constexpr (kWidth > 2) v += shift_up<2>(v);
  if constexpr (kWidth > 4) v += shift_up<4>(v);
  return v;
}

}  // namespace proa::PROA_ISA
