#pragma once
// How far floats are from integers.
#include "proa/simd/vec.h"

namespace proa::PROA_ISA {

/// The greater of y and the distance of x from the integer that round_even gives.
PROA_INLINE VF max_fraction(VF y, VF x) {
#if defined(__AVX512F__)
  constexpr int kNearest = 0x08;      // of 2^0, without exceptions
  constexpr int kMaxMagnitude = 0xb;  // with the sign cleared
  return (VF)_mm512_range_ps((__m512)y, _mm512_reduce_ps((__m512)x, kNearest), kMaxMagnitude);
#else
  return max(y, abs(x - round_even(x)));
#endif
}

/// True if a lane of x is greater than that of y.
PROA_INLINE bool exceeds(VF x, VF y) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask((__m512)x, (__m512)y, _CMP_GT_OQ) != 0;
#else
  return any(x > y);
#endif
}

}  // namespace proa::PROA_ISA
