#pragma once
// What functor lines are written with: the lane type of a vector, constants, elementary functions
// of doubles in addition to those of simd/math.h, arithmetic of complex numbers, and the macros
// that make a kernel of a line.
#include "proa/base/dispatch.h"
#include "proa/kernels/elementwise/loops.h"
#include "proa/simd/math.h"

namespace proa::PROA_ISA {

template <class V>
struct LaneOf {
  using type = V;
};
template <>
struct LaneOf<VF> {
  using type = float;
};
template <>
struct LaneOf<VD> {
  using type = double;
};
template <>
struct LaneOf<VI> {
  using type = int32_t;
};
template <>
struct LaneOf<VL> {
  using type = int64_t;
};
template <>
struct LaneOf<Vec<uint16_t>> {
  using type = uint16_t;
};
template <class V>
using Lane = typename LaneOf<V>::type;

/// The constant c as a V.
template <class V>
PROA_INLINE V constant(double c) {
  return static_cast<Lane<V>>(c) - V{};
}

PROA_INLINE double exp(double x) { return ::exp(x); }
PROA_INLINE double expm1(double x) { return ::expm1(x); }
PROA_INLINE double log(double x) { return ::log(x); }
PROA_INLINE double log1p(double x) { return ::log1p(x); }
PROA_INLINE double tanh(double x) { return ::tanh(x); }
PROA_INLINE double erf(double x) { return ::erf(x); }
PROA_INLINE double normal_cdf(double x) { return ::erfc(x * -0.7071067811865476) * 0.5; }
PROA_INLINE double sin(double x) { return ::sin(x); }
PROA_INLINE double cos(double x) { return ::cos(x); }
PROA_INLINE double sqrt(double x) { return ::sqrt(x); }
PROA_INLINE double abs(double x) { return ::fabs(x); }
PROA_INLINE double sigmoid(double x) {
  const double z = ::exp(-::fabs(x));
  return (x < 0 ? z : 1.0) / (1.0 + z);
}

PROA_INLINE C128 operator+(C128 a, C128 b) { return {a.re + b.re, a.im + b.im}; }
PROA_INLINE C128 operator-(C128 a, C128 b) { return {a.re - b.re, a.im - b.im}; }
PROA_INLINE C128 operator-(C128 a) { return {-a.re, -a.im}; }
PROA_INLINE C128 operator*(C128 a, C128 b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
/// Smith's division: no overflow where the quotient has none.
PROA_INLINE C128 operator/(C128 a, C128 b) {
  if (::fabs(b.re) >= ::fabs(b.im)) {
    if (b.re == 0 && b.im == 0) return {a.re / 0.0, a.im / 0.0};
    const double r = b.im / b.re, d = b.re + b.im * r;
    return {(a.re + a.im * r) / d, (a.im - a.re * r) / d};
  }
  const double r = b.re / b.im, d = b.re * r + b.im;
  return {(a.re * r + a.im) / d, (a.im * r - a.re) / d};
}
/// Hyperbolic tangent after Kahan (1987): from the tangent of the imaginary part, so that nothing
/// cancels near a pole; beyond 20 only the sign of the real part is left of it.
PROA_INLINE C128 tanh(C128 z) {
  if (::fabs(z.re) > 20) {
    return {::copysign(1.0, z.re), 2 * ::sin(2 * z.im) * ::exp(-2 * ::fabs(z.re))};
  }
  const double t = ::tan(z.im), s = ::sinh(z.re);
  const double slope = 1 + t * t, under = 1 + slope * s * s;
  return {slope * ::sqrt(1 + s * s) * s / under, t / under};
}
PROA_INLINE C128 sigmoid(C128 z) {  // exp(-z) where it is at most 1, exp(z) elsewhere
  const double r = ::exp(-::fabs(z.re)), side = z.re < 0 ? 1 : -1;
  const C128 e{r * ::cos(z.im), side * r * ::sin(z.im)};
  return (z.re < 0 ? e : C128{1, 0}) / (C128{1, 0} + e);
}
PROA_INLINE bool operator==(C128 a, C128 b) { return a.re == b.re && a.im == b.im; }
PROA_INLINE bool operator!=(C128 a, C128 b) { return !(a == b); }

/// Dense loops of functions whose result is a comparison's: the output is bool.
template <class T, class F>
void test_loop(void* const* p, int64_t n, const void*) {
  const F f(nullptr);
  constexpr int64_t w = kLanesOf<T>;
  uint8_t* z = static_cast<uint8_t*>(p[0]);
  const T* x = static_cast<const T*>(p[1]);
  uint8_t rest[w];
  for (int64_t i = 0; i < n; i += w) {
    const bool whole = n - i >= w;
    store_bools<T>(whole ? z + i : rest, f(whole ? load(x + i) : load_n(x + i, n - i)));
    if (!whole) {
      for (int64_t k = 0; i + k < n; ++k) z[i + k] = rest[k];
    }
  }
}
template <class T, class F>
void compare_loop(void* const* p, int64_t n, const void*) {
  const F f(nullptr);
  constexpr int64_t w = kLanesOf<T>;
  uint8_t* z = static_cast<uint8_t*>(p[0]);
  const T *x = static_cast<const T*>(p[1]), *y = static_cast<const T*>(p[2]);
  int64_t i = 0;
  for (; i + w <= n; i += w) store_bools<T>(z + i, f(load(x + i), load(y + i)));
  if (i < n) {
    uint8_t rest[w];
    store_bools<T>(rest, f(load_n(x + i, n - i), load_n(y + i, n - i)));
    for (int64_t k = 0; i + k < n; ++k) z[i + k] = rest[k];
  }
}

struct NoAttrs {};
inline constexpr NoAttrs kNoAttrs;

/// The op's attributes; those of an op that has none may be nullptr.
template <class Attrs>
PROA_INLINE const Attrs& attrs_of(const void* attrs) {
  return *static_cast<const Attrs*>(attrs);
}
template <>
PROA_INLINE const NoAttrs& attrs_of<NoAttrs>(const void*) {
  return kNoAttrs;
}

/// A functor of one (two) arguments from an expression in x (and y); V is the argument's type and
/// `a` the op's attributes.
#define PROA_FUNCTOR_(type, Attrs, params, expr)                    \
  struct type {                                                     \
    const Attrs& a;                                                 \
    explicit type(const void* attrs) : a(attrs_of<Attrs>(attrs)) {} \
    template <class V>                                              \
    PROA_INLINE auto operator() params const {                      \
      using T [[maybe_unused]] = Lane<V>;                           \
      return expr;                                                  \
    }                                                               \
  };

#define PROA_KERNEL_(name, ...)                  \
  Status name(const Call& c) {                   \
    static constexpr Loops kLoops = __VA_ARGS__; \
    return elementwise(c, kLoops, c.attrs);      \
  }

}  // namespace proa::PROA_ISA
