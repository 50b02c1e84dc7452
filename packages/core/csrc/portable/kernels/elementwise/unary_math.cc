// Exponentials, logarithms, roots and trigonometry. Float is computed in vectors where the op
// matters for speed, otherwise in double.
#include "proa/kernels/elementwise/functions.h"

namespace proa::PROA_ISA {

namespace {

C128 complex_exp(C128 z) {
  const double r = ::exp(z.re);
  if (z.im == 0) return {r, z.im};
  return {r * ::cos(z.im), r * ::sin(z.im)};
}
C128 complex_log(C128 z) { return {::log(::hypot(z.re, z.im)), ::atan2(z.im, z.re)}; }
C128 complex_sqrt(C128 z) {
  if (z.re == 0 && z.im == 0) return {0, z.im};
  const double t = ::sqrt((::fabs(z.re) + ::hypot(z.re, z.im)) / 2);
  if (z.re >= 0) return {t, z.im / (2 * t)};
  return {::fabs(z.im) / (2 * t), ::copysign(t, z.im)};
}
C128 complex_sin(C128 z) { return {::sin(z.re) * ::cosh(z.im), ::cos(z.re) * ::sinh(z.im)}; }
C128 complex_cos(C128 z) { return {::cos(z.re) * ::cosh(z.im), -::sin(z.re) * ::sinh(z.im)}; }

}  // namespace

// name, f(x) of float vectors and doubles, f(x) of complex doubles
#define PROA_MATH(name, expr, complex_expr)                                                    \
  PROA_FUNCTOR_(name##_f, NoAttrs, (V x), expr)                                                \
  PROA_FUNCTOR_(name##_c, NoAttrs, (V x), complex_expr)                                        \
  PROA_KERNEL_(name, {unary_loop<float, name##_f>, plain_unary_loop<double, double, name##_f>, \
                      nullptr, nullptr, plain_unary_loop<C128, C128, name##_c>})
// name, f(x) of float vectors and doubles
#define PROA_MATH_REAL(name, expr)              \
  PROA_FUNCTOR_(name##_f, NoAttrs, (V x), expr) \
  PROA_KERNEL_(name, {unary_loop<float, name##_f>, plain_unary_loop<double, double, name##_f>})
// name, f(x) of doubles alone
#define PROA_MATH_DOUBLE(name, expr)            \
  PROA_FUNCTOR_(name##_f, NoAttrs, (V x), expr) \
  PROA_KERNEL_(name, {nullptr, plain_unary_loop<double, double, name##_f>})

PROA_MATH(exp, exp(x), complex_exp(x))
PROA_MATH(log, log(x), complex_log(x))
PROA_MATH(sqrt, sqrt(x), complex_sqrt(x))
PROA_MATH(reciprocal, constant<V>(1) / x, (C128{1, 0} / x))
PROA_MATH(sin, sin(x), complex_sin(x))
PROA_MATH(cos, cos(x), complex_cos(x))
PROA_MATH_REAL(expm1, expm1(x))
PROA_MATH_REAL(log1p, log1p(x))
PROA_MATH_REAL(rsqrt, constant<V>(1) / sqrt(x))
PROA_MATH_REAL(erf, erf(x))
PROA_MATH_DOUBLE(log2, ::log2(x))
PROA_MATH_DOUBLE(log10, ::log10(x))
PROA_MATH_DOUBLE(tan, ::tan(x))
PROA_MATH_DOUBLE(asin, ::asin(x))
PROA_MATH_DOUBLE(acos, ::acos(x))
PROA_MATH_DOUBLE(atan, ::atan(x))
PROA_MATH_DOUBLE(sinh, ::sinh(x))
PROA_MATH_DOUBLE(cosh, ::cosh(x))
PROA_MATH_DOUBLE(asinh, ::asinh(x))
PROA_MATH_DOUBLE(acosh, ::acosh(x))
PROA_MATH_DOUBLE(atanh, ::atanh(x))

}  // namespace proa::PROA_ISA
