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
C128 complex_sinh(C128 z) { return {::sinh(z.re) * ::cos(z.im), ::cosh(z.re) * ::sin(z.im)}; }
C128 complex_cosh(C128 z) { return {::cosh(z.re) * ::cos(z.im), ::sinh(z.re) * ::sin(z.im)}; }
C128 complex_tan(C128 z) {  // -i tanh(i z)
  const C128 t = tanh(C128{-z.im, z.re});
  return {t.im, -t.re};
}
C128 complex_expm1(C128 z) {
  const double half = ::sin(z.im / 2);
  return {::expm1(z.re) * ::cos(z.im) - 2 * half * half, ::exp(z.re) * ::sin(z.im)};
}
C128 complex_log1p(C128 z) {
  return {::log1p(z.re * (2 + z.re) + z.im * z.im) / 2, ::atan2(z.im, 1 + z.re)};
}
/// Logarithm to another base, 1 / log(base) given.
C128 complex_log_by(C128 z, double share) {
  const C128 y = complex_log(z);
  return {y.re * share, y.im * share};
}
C128 complex_cos(C128 z) { return {::cos(z.re) * ::cosh(z.im), -::sin(z.re) * ::sinh(z.im)}; }

// The inverse functions as Kahan has them ("Branch cuts for complex elementary functions", 1987):
// from roots of 1 - z and 1 + z, so that nothing cancels and signed zeros choose the side of a cut.
C128 complex_asin(C128 z) {
  const C128 s = complex_sqrt({1 - z.re, -z.im}), t = complex_sqrt({1 + z.re, z.im});
  return {::atan2(z.re, s.re * t.re - s.im * t.im), ::asinh(s.re * t.im - s.im * t.re)};
}
C128 complex_acos(C128 z) {
  const C128 s = complex_sqrt({1 - z.re, -z.im}), t = complex_sqrt({1 + z.re, z.im});
  return {2 * ::atan2(s.re, t.re), ::asinh(t.re * s.im - t.im * s.re)};
}
C128 complex_acosh(C128 z) {
  const C128 s = complex_sqrt({z.re - 1, z.im}), t = complex_sqrt({z.re + 1, z.im});
  return {::asinh(s.re * t.re + s.im * t.im), 2 * ::atan2(s.im, t.re)};
}
C128 complex_atanh(C128 z) {
  const double x = ::fabs(z.re), away = 1 - x, square = z.im * z.im;
  return {::copysign(::log1p(4 * x / (away * away + square)) / 4, z.re),
          ::atan2(2 * z.im, away * (1 + x) - square) / 2};
}
C128 complex_asinh(C128 z) {  // i asin(-i z)
  const C128 w = complex_asin({z.im, -z.re});
  return {-w.im, w.re};
}
C128 complex_atan(C128 z) {  // -i atanh(i z)
  const C128 w = complex_atanh({-z.im, z.re});
  return {w.im, -w.re};
}

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
// name, f(x) of doubles and of complex doubles
#define PROA_MATH_SLOW(name, expr, complex_expr)                                             \
  PROA_FUNCTOR_(name##_f, NoAttrs, (V x), expr)                                              \
  PROA_FUNCTOR_(name##_c, NoAttrs, (V x), complex_expr)                                      \
  PROA_KERNEL_(name, {nullptr, plain_unary_loop<double, double, name##_f>, nullptr, nullptr, \
                      plain_unary_loop<C128, C128, name##_c>})

PROA_MATH(exp, exp(x), complex_exp(x))
PROA_MATH(log, log(x), complex_log(x))
PROA_MATH(sqrt, sqrt(x), complex_sqrt(x))
PROA_MATH(reciprocal, constant<V>(1) / x, (C128{1, 0} / x))
PROA_MATH(sin, sin(x), complex_sin(x))
PROA_MATH(cos, cos(x), complex_cos(x))
PROA_MATH(expm1, expm1(x), complex_expm1(x))
PROA_MATH(log1p, log1p(x), complex_log1p(x))
PROA_MATH(rsqrt, constant<V>(1) / sqrt(x), (C128{1, 0} / complex_sqrt(x)))
PROA_MATH_REAL(erf, erf(x))
PROA_MATH_SLOW(log2, ::log2(x), complex_log_by(x, 1.4426950408889634))
PROA_MATH_SLOW(log10, ::log10(x), complex_log_by(x, 0.4342944819032518))
PROA_MATH_SLOW(tan, ::tan(x), complex_tan(x))
PROA_MATH_SLOW(asin, ::asin(x), complex_asin(x))
PROA_MATH_SLOW(acos, ::acos(x), complex_acos(x))
PROA_MATH_SLOW(atan, ::atan(x), complex_atan(x))
PROA_MATH_SLOW(sinh, ::sinh(x), complex_sinh(x))
PROA_MATH_SLOW(cosh, ::cosh(x), complex_cosh(x))
PROA_MATH_SLOW(asinh, ::asinh(x), complex_asinh(x))
PROA_MATH_SLOW(acosh, ::acosh(x), complex_acosh(x))
PROA_MATH_SLOW(atanh, ::atanh(x), complex_atanh(x))

}  // namespace proa::PROA_ISA
