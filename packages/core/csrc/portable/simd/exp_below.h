#pragma once
// The exponential of non-positive numbers, as softmax and its relatives need of elements minus
// their maximum. It has a shorter dependency chain than exp(), which determines their speed.
#include "proa/simd/math.h"

namespace proa::PROA_ISA {

/// e ** x for x <= 0 (and -infinity and NaN), 1.2 ulp.
PROA_INLINE VF exp_below(VF x) {
  constexpr float kWhole = 12582912.0f;  // added, it leaves no bits for a fraction
  const VF c = max(splat(-104.0f), x);   // NaN propagates
  const VF n = fma(c, splat(1.44269504088896341f), kWhole) - kWhole;
  VF r = fma(n, splat(-0.693359375f), c);
  r = fma(n, splat(2.12194440e-4f), r);
  return scale_by_power(
      polynomial(r, 1.0f, 1.0f, 5.000000083e-01f, 1.666666687e-01f, 4.166625400e-02f,
                 8.333261581e-03f, 1.394721197e-03f, 1.991992161e-04f),
      n);
}

}  // namespace proa::PROA_ISA
