// Arithmetic and tests of one array, for every dtype.
#include "proa/kernels/elementwise/functions.h"
#include "proa/kernels/movement/copy.h"

namespace proa::PROA_ISA {

// name, an expression for vectors of floats and of unsigned integers and for complex doubles
#define PROA_ARITHMETIC(name, expr)                                                   \
  PROA_FUNCTOR_(name##_f, NoAttrs, (V x), expr)                                       \
  PROA_KERNEL_(name, {unary_loop<float, name##_f>, unary_loop<double, name##_f>,      \
                      unary_loop<uint32_t, name##_f>, unary_loop<uint64_t, name##_f>, \
                      plain_unary_loop<C128, C128, name##_f>})
PROA_ARITHMETIC(neg, -x)
PROA_ARITHMETIC(square, x* x)

// Rounding leaves integers as they are.
#define PROA_ROUND(name, function)                                                     \
  struct name##_f {                                                                    \
    explicit name##_f(const void*) {}                                                  \
    PROA_INLINE float operator()(float x) const { return __builtin_##function##f(x); } \
    PROA_INLINE double operator()(double x) const { return __builtin_##function(x); }  \
  };                                                                                   \
  Status name(const Call& c) {                                                         \
    static constexpr Loops kLoops = {plain_unary_loop<float, float, name##_f>,         \
                                     plain_unary_loop<double, double, name##_f>};      \
    if (!is_floating(c.in[0].dtype)) return copy(c, c.in[0], c.out[0]);                \
    return elementwise(c, kLoops);                                                     \
  }
PROA_ROUND(floor, floor)
PROA_ROUND(ceil, ceil)
PROA_ROUND(round, rint)
PROA_ROUND(trunc, trunc)

namespace {

C128 complex_sign(C128 x) {
  const double r = ::hypot(x.re, x.im);
  return r == 0 ? C128{0, 0} : C128{x.re / r, x.im / r};
}
/// The magnitude of integers, by unsigned arithmetic: that of the least one wraps to itself.
template <class V, class U>
PROA_INLINE V magnitude(V x) {
  const U negative = bit_cast<U>(x < V{});
  return bit_cast<V>((bit_cast<U>(x) ^ negative) - negative);
}
PROA_INLINE VI modulus(VI x) { return magnitude<VI, VU>(x); }
PROA_INLINE VL modulus(VL x) { return magnitude<VL, Vec<uint64_t>>(x); }
PROA_INLINE VF modulus(VF x) { return abs(x); }
PROA_INLINE VD modulus(VD x) { return bit_cast<VD>(bit_cast<VL>(x) & INT64_MAX); }

PROA_FUNCTOR_(sign_f, NoAttrs, (V x), x > V{} ? constant<V>(1) : (x < V{} ? constant<V>(-1) : x))
PROA_FUNCTOR_(sign_c, NoAttrs, (V x), complex_sign(x))
PROA_FUNCTOR_(abs_f, NoAttrs, (V x), modulus(x))
PROA_FUNCTOR_(abs_c, NoAttrs, (V x), ::hypot(x.re, x.im))

}  // namespace

PROA_KERNEL_(sign,
             {unary_loop<float, sign_f>, unary_loop<double, sign_f>, unary_loop<int32_t, sign_f>,
              unary_loop<int64_t, sign_f>, plain_unary_loop<C128, C128, sign_c>})
PROA_KERNEL_(abs, {unary_loop<float, abs_f>, unary_loop<double, abs_f>, unary_loop<int32_t, abs_f>,
                   unary_loop<int64_t, abs_f>, plain_unary_loop<C128, double, abs_c>, DType::kF64})

PROA_FUNCTOR_(conj_f, NoAttrs, (V x), (C128{x.re, -x.im}))
PROA_FUNCTOR_(real_f, NoAttrs, (V x), x.re)
PROA_FUNCTOR_(imag_f, NoAttrs, (V x), x.im)

Status conj(const Call& c) {
  static constexpr Loops kLoops = {nullptr, nullptr, nullptr, nullptr,
                                   plain_unary_loop<C128, C128, conj_f>};
  if (!is_complex(c.in[0].dtype)) return copy(c, c.in[0], c.out[0]);
  return elementwise(c, kLoops);
}
PROA_KERNEL_(real, {nullptr, nullptr, nullptr, nullptr, plain_unary_loop<C128, double, real_f>,
                    DType::kF64})
PROA_KERNEL_(imag, {nullptr, nullptr, nullptr, nullptr, plain_unary_loop<C128, double, imag_f>,
                    DType::kF64})

namespace {

template <class F>
constexpr Loops test_loops(DenseLoop of_complex = nullptr) {
  Loops loops = {test_loop<float, F>, test_loop<double, F>, test_loop<int32_t, F>,
                 test_loop<int64_t, F>, of_complex};
  loops.bool_out = true;
  return loops;
}

}  // namespace

// name, a test of numbers and one of complex numbers
#define PROA_TEST(name, expr, complex_expr)             \
  PROA_FUNCTOR_(name##_f, NoAttrs, (V x), expr)         \
  PROA_FUNCTOR_(name##_c, NoAttrs, (V x), complex_expr) \
  PROA_KERNEL_(name, test_loops<name##_f>(plain_unary_loop<C128, uint8_t, name##_c>))
PROA_TEST(isnan, x != x, x.re != x.re || x.im != x.im)
PROA_TEST(isinf, (x == x) & (x - x != x - x), __builtin_isinf(x.re) || __builtin_isinf(x.im))
PROA_TEST(isfinite, x - x == x - x, x.re - x.re == 0 && x.im - x.im == 0)

PROA_FUNCTOR_(logical_not_f, NoAttrs, (V x), x == V{})
PROA_FUNCTOR_(logical_not_c, NoAttrs, (V x), x.re == 0 && x.im == 0)
Status logical_not(const Call& c) {
  static constexpr Loops kLoops =
      test_loops<logical_not_f>(plain_unary_loop<C128, uint8_t, logical_not_c>);
  return elementwise(c, kLoops);
}

PROA_FUNCTOR_(bitwise_not_f, NoAttrs, (V x), ~x)
Status bitwise_not(const Call& c) {
  static constexpr Loops kLoops = {nullptr, nullptr, unary_loop<int32_t, bitwise_not_f>,
                                   unary_loop<int64_t, bitwise_not_f>};
  return c.in[0].dtype == DType::kBool ? logical_not(c) : elementwise(c, kLoops);
}

}  // namespace proa::PROA_ISA
