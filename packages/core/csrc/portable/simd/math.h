#pragma once
// Elementary functions of float vectors. The bounds are the largest error found over all floats (in
// units in the last place of the true value), see csrc/tests/math_test.cc; results for NaN and
// the infinities are those of the C library. Polynomials are our own minimax fits.
#include <math.h>

#include "proa/simd/vec.h"

namespace proa::PROA_ISA {

/// c0 + c1 x + c2 x**2 + ...
PROA_INLINE VF polynomial(VF, float c0) { return splat(c0); }
template <class... C>
PROA_INLINE VF polynomial(VF x, float c0, C... c) {
  return fma(polynomial(x, c...), x, splat(c0));
}

struct Reduced {
  VF n, r;
};
/// x = n * log(2) + r with |r| <= log(2) / 2.
PROA_INLINE Reduced reduce_log2(VF x) {
  const VF n = round_even(x * 1.44269504088896341f);
  VF r = fma(n, splat(-0.693359375f), x);
  r = fma(n, splat(2.12194440e-4f), r);
  return {n, r};
}
/// exp(r) - 1 - r over r**2 for |r| <= log(2) / 2.
PROA_INLINE VF exp_tail(VF r) {
  return polynomial(r, 5.000000083e-01f, 1.666666687e-01f, 4.166625400e-02f, 8.333261581e-03f,
                    1.394721197e-03f, 1.991992161e-04f);
}

/// e ** x, 1.1 ulp.
PROA_INLINE VF exp(VF x) {
  const VF c = max(splat(-104.0f), min(splat(89.0f), x));  // NaN propagates
  const Reduced p = reduce_log2(c);
  const VF y = fma(exp_tail(p.r), p.r * p.r, p.r) + 1.0f;
  return scale_by_power(y, p.n);
}

/// e ** x - 1, 2 ulp.
PROA_INLINE VF expm1(VF x) {
  const VF c = x > 89.0f ? splat(89.0f) : (x < -30.0f ? splat(-30.0f) : x);
  const Reduced p = reduce_log2(c);
  const VF small = fma(exp_tail(p.r), p.r * p.r, p.r);  // exp(r) - 1
  // 2**n (small + 1) - 1 = 2**n small + (2**n - 1)
  const VF power = scale_by_power(splat(1.0f), p.n);
  const VF large = scale_by_power(small + 1.0f, p.n) - 1.0f;
  VF y = p.n == 0.0f ? small : fma(power, small, power - 1.0f);
  y = p.n > 24.0f ? large : y;
  return x == 0.0f ? x : y;
}

/// Natural logarithm, 1 ulp.
PROA_INLINE VF log(VF x) {
  const auto subnormal = x < 0x1p-126f;
  const VF y = subnormal ? x * 0x1p23f : x;
  // y = 2**e * (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2)
  const VI bits = bit_cast<VI>(bit_cast<VU>(y) - 0x3f3504f3u);  // wraps around for negative y
  const VI e = (bits >> 23) - (subnormal ? VI{} + 23 : VI{});
  const VF f = bit_cast<VF>((bits & 0x7fffff) + 0x3f3504f3) - 1.0f;
  const VF n = to_float(e), f2 = f * f;
  const VF q = polynomial(f, 3.333331260e-01f, -2.500000960e-01f, 2.000211866e-01f,
                          -1.666799584e-01f, 1.421955228e-01f, -1.240558906e-01f, 1.188816297e-01f,
                          -1.167565122e-01f, 6.746638272e-02f);
  VF r = fma(q, f2 * f, n * -2.12194440e-4f);
  r = fma(f2, splat(-0.5f), r);
  r = fma(n, splat(0.693359375f), r + f);
  r = x == 0.0f ? splat(-INFINITY) : r;
  r = x < 0.0f ? splat(NAN) : r;
  return x < INFINITY ? r : x;  // infinity and NaN propagate
}

/// log(1 + x), 2 ulp.
PROA_INLINE VF log1p(VF x) {
  const VF u = x + 1.0f;
  // The rounding error of 1 + x, relative to it, is the correction of log(u) (Kahan).
  const VF lost = x - (u - 1.0f);
  const VF y = log(u) + lost / u;
  const auto plain = (u == 1.0f) | (u == INFINITY);
  const VF edge = x == INFINITY ? x : log(u);
  return u == 1.0f ? x : ((plain | (u <= 0.0f)) ? edge : y);
}

/// Hyperbolic tangent, 2 ulp.
PROA_INLINE VF tanh(VF x) {
  const VF a = abs(x), s = x * x;
  const VF small = fma(polynomial(s, -3.333328393e-01f, 1.333149128e-01f, -5.374349792e-02f,
                                  2.065058679e-02f, -5.717044515e-03f),
                       s * x, x);
  const VF c = a > 10.0f ? splat(10.0f) : a;
  const VF large = 1.0f - 2.0f / (exp(c + c) + 1.0f);
  return x == x ? copysign(a < 0.625f ? small : large, x) : x;
}

/// 1 / (1 + exp(-x)), 3 ulp.
PROA_INLINE VF sigmoid(VF x) {
  const VF z = exp(-abs(x));
  return (x < 0.0f ? z : splat(1.0f)) / (z + 1.0f);
}

/// Error function, 2 ulp.
PROA_INLINE VF erf(VF x) {
  const VF a = abs(x), s = x * x;
  const VF small =
      fma(polynomial(s, 1.283791659e-01f, -3.761262714e-01f, 1.128360018e-01f, -2.685444456e-02f,
                     5.189535308e-03f, -8.020841129e-04f, 7.889119321e-05f),
          x, x);
  const VF t = a > 4.0f ? splat(4.0f) : a;
  const VF q =
      polynomial(t, -1.834433669e-04f, 1.129556826e+00f, 6.332626206e-01f, 1.083724688e-01f,
                 -2.517896108e-02f, 4.193608387e-03f, -4.391057836e-04f, 2.149605968e-05f);
  const VF large = copysign(1.0f - exp(-q), x);
  return a < 1.0f ? small : (x == x ? large : x);
}

/// The cumulative distribution function of the standard normal distribution, (1 + erf(x / sqrt(2)))
/// / 2, within 1e-7. The logarithm of its tail is a polynomial, so that it falls to 0 without
/// cancellation.
PROA_INLINE VF normal_cdf(VF x) {
  const VF a = abs(x);
  const VF q =
      polynomial(a, 7.978853276e-01f, 3.182988668e-01f, 3.638757800e-02f, -4.895989730e-03f,
                 9.491704505e-05f, 1.290503151e-04f, -2.729453701e-05f, 1.965011942e-06f);
  const VF tail = exp(-a * q) * 0.5f;
  return x < 0.0f ? tail : 1.0f - tail;
}

struct SinCos {
  VF sin, cos;
};
/// Sine and cosine, 2 ulp (absolute near the zeros beyond 2 pi) for |x| <= 8192; larger
/// arguments must be handled by the caller.
PROA_INLINE SinCos sincos_reduced(VF x) {
  const VF n = round_even(x * 0.636619772367581343f);
  VF r = fma(n, splat(-1.5703125f), x);
  r = fma(n, splat(-4.837512969970703125e-4f), r);
  r = fma(n, splat(-7.549789948768648e-8f), r);
  const VF s = r * r;
  const VF sine =
      fma(polynomial(s, -1.666666664e-01f, 8.333329144e-03f, -1.983925664e-04f, 2.717564510e-06f),
          s * r, r);
  const VF tail =
      polynomial(s, 4.166666662e-02f, -1.388888344e-03f, 2.479943642e-05f, -2.720330431e-07f);
  const VF cosine = fma(tail, s * s, fma(s, splat(-0.5f), splat(1.0f)));
  const VI q = round_to_int(n);
  const VI swap = (q & 1) == 1;
  const VI sin_sign = (q & 2) << 30, cos_sign = ((q + 1) & 2) << 30;
  const VF a = swap ? cosine : sine, b = swap ? sine : cosine;
  return {bit_cast<VF>(bit_cast<VI>(a) ^ sin_sign), bit_cast<VF>(bit_cast<VI>(b) ^ cos_sign)};
}
// Lanes outside that range, and no others, are computed one by one: no lane's result may depend on
// other lanes.
PROA_INLINE VF sin(VF x) {
  const VI inside = abs(x) <= 8192.0f;
  VF y = x == 0.0f ? x : sincos_reduced(inside ? x : VF{}).sin;
  if (PROA_UNLIKELY(any(~inside))) {
    for (int i = 0; i < kLanes; ++i) {
      if (inside[i] == 0) y[i] = ::sinf(x[i]);
    }
  }
  return y;
}
PROA_INLINE VF cos(VF x) {
  const VI inside = abs(x) <= 8192.0f;
  VF y = sincos_reduced(inside ? x : VF{}).cos;
  if (PROA_UNLIKELY(any(~inside))) {
    for (int i = 0; i < kLanes; ++i) {
      if (inside[i] == 0) y[i] = ::cosf(x[i]);
    }
  }
  return y;
}

PROA_INLINE VD polynomial(VD, double c0) { return c0 - VD{}; }
template <class... C>
PROA_INLINE VD polynomial(VD x, double c0, C... c) {
  return polynomial(x, c...) * x + c0;
}
/// x**y in double for positive normal x, with a relative error below float precision.
PROA_INLINE VD positive_power(VD x, VD y) {
  constexpr double kWhole = 6755399441055744.0;  // added, it leaves an integer in the low bits
  // x = 2**e * m with sqrt(1/2) <= m < sqrt(2); log(m) is the series of atanh((m - 1) / (m + 1)).
  const VL bits = bit_cast<VL>(x) - 0x3fe6a09e667f3bcd;
  const VL e = (bits >> 52) + bit_cast<int64_t>(kWhole);
  const VD m = bit_cast<VD>((bits & 0xfffffffffffff) + 0x3fe6a09e667f3bcd);
  const VD s = (m - 1.0) / (m + 1.0);
  const VD log2 =
      polynomial(s * s, 2.88539008177792677e+00, 9.61796693925975665e-01, 5.77078016355585310e-01,
                 4.12198583111132444e-01, 3.20598897975325203e-01, 2.62308189252538793e-01,
                 2.21953083213686703e-01) *
          s +
      (bit_cast<VD>(e) - kWhole);
  const VD t = y * log2, c = t > 200.0 ? VD{} + 200.0 : (t < -200.0 ? VD{} - 200.0 : t);
  const VD n = c + kWhole, r = c - (n - kWhole);
  const VD z =
      polynomial(r, 1.00000000000000000e+00, 6.93147180559945286e-01, 2.40226506959100694e-01,
                 5.55041086648215762e-02, 9.61812910762847688e-03, 1.33335581464284411e-03,
                 1.54035303933816061e-04, 1.52527338040598377e-05, 1.32154867901443053e-06);
  return bit_cast<VD>(bit_cast<VL>(z) + (bit_cast<VL>(n) << 52));
}
/// x ** y, 0.6 ulp.
PROA_INLINE VF pow(VF x, VF y) {
  const VI inside = (abs(x) > 0.0f) & (abs(x) < INFINITY) & (abs(y) < INFINITY);
  const VF a = inside ? abs(x) : splat(1.0f);
  typedef float Half __attribute__((vector_size(kVecBytes / 2)));
  Half base[2], exponent[2], power[2];
  __builtin_memcpy(base, &a, sizeof a);
  __builtin_memcpy(exponent, &y, sizeof y);
  for (int k = 0; k < 2; ++k) {
    const VD z = positive_power(__builtin_convertvector(base[k], VD),
                                __builtin_convertvector(exponent[k], VD));
    power[k] = __builtin_convertvector(z, Half);
  }
  VF z;
  __builtin_memcpy(&z, power, sizeof z);
  // A negative base has only integer powers; odd ones are negative.
  const VF half = y * 0.5f;
  const VF negative = y != round_even(y) ? splat(NAN) : (half != round_even(half) ? -z : z);
  VF result = x < 0.0f ? negative : z;
  if (PROA_UNLIKELY(any(~inside))) {
    for (int i = 0; i < kLanes; ++i) {
      if (inside[i] != 0) continue;
      result[i] = static_cast<float>(::pow(static_cast<double>(x[i]), static_cast<double>(y[i])));
    }
  }
  return result;
}

}  // namespace proa::PROA_ISA
