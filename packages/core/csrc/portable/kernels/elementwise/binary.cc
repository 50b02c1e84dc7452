// Arithmetic of two arrays. Integers wrap around: they are added and multiplied as unsigned.
#include "proa/kernels/elementwise/functions.h"

namespace proa::PROA_ISA {

#define PROA_ARITHMETIC(name, expr)                                                          \
  PROA_FUNCTOR_(name##_f, NoAttrs, (V x, V y), expr)                                         \
  PROA_KERNEL_(name, Loops{binary_loop<float, name##_f>, binary_loop<double, name##_f>,      \
                           binary_loop<uint32_t, name##_f>, binary_loop<uint64_t, name##_f>, \
                           plain_binary_loop<C128, C128, name##_f>}                          \
                         .with_bf16(binary_loop<BF16, name##_f>))
PROA_ARITHMETIC(add, x + y)
PROA_ARITHMETIC(sub, x - y)
PROA_ARITHMETIC(mul, x* y)

PROA_FUNCTOR_(div_f, NoAttrs, (V x, V y), x / y)
PROA_KERNEL_(div, {binary_loop<float, div_f>, binary_loop<double, div_f>, nullptr, nullptr,
                   plain_binary_loop<C128, C128, div_f>})

// NaN wins: a comparison with it is false.
#define PROA_ORDER(name, expr)                                                     \
  PROA_FUNCTOR_(name##_f, NoAttrs, (V x, V y), expr)                               \
  PROA_KERNEL_(name, {binary_loop<float, name##_f>, binary_loop<double, name##_f>, \
                      binary_loop<int32_t, name##_f>, binary_loop<int64_t, name##_f>})
PROA_ORDER(maximum, ((x > y) | (x != x)) ? x : y)
PROA_ORDER(minimum, ((x < y) | (x != x)) ? x : y)

#define PROA_BITS(name, expr)                        \
  PROA_FUNCTOR_(name##_f, NoAttrs, (V x, V y), expr) \
  PROA_KERNEL_(name,                                 \
               {nullptr, nullptr, binary_loop<int32_t, name##_f>, binary_loop<int64_t, name##_f>})
PROA_BITS(bitwise_and, x& y)
PROA_BITS(bitwise_or, x | y)
PROA_BITS(bitwise_xor, x ^ y)

namespace {

int64_t integer_pow(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    return base == -1 ? (exponent & 1 ? -1 : 1) : 0;
  }
  uint64_t result = 1, square = static_cast<uint64_t>(base);
  for (; exponent > 0; exponent >>= 1, square *= square) {
    if (exponent & 1) result *= square;
  }
  return static_cast<int64_t>(result);
}

/// exp(y log x); whole powers by products, which are exact where x's parts are small integers.
C128 complex_pow(C128 x, C128 y) {
  const double whole = ::fabs(y.re);
  if (y.im == 0 && whole <= 64 && ::floor(whole) == whole) {
    C128 result = {1, 0}, square = x;
    for (int n = static_cast<int>(whole); n > 0; n >>= 1, square = square * square) {
      if (n & 1) result = result * square;
    }
    return y.re < 0 ? C128{1, 0} / result : result;
  }
  if (x.re == 0 && x.im == 0) return y.re > 0 ? C128{0, 0} : C128{NAN, NAN};
  const C128 power = y * C128{::log(::hypot(x.re, x.im)), ::atan2(x.im, x.re)};
  const double size = ::exp(power.re);
  return {size * ::cos(power.im), size * ::sin(power.im)};
}

struct Pow {
  explicit Pow(const void*) {}
  double operator()(double x, double y) const { return ::pow(x, y); }
  int64_t operator()(int64_t x, int64_t y) const { return integer_pow(x, y); }
  C128 operator()(C128 x, C128 y) const { return complex_pow(x, y); }
};
struct Mod {
  explicit Mod(const void*) {}
  double operator()(double x, double y) const {
    const double r = ::fmod(x, y);
    if (r == 0) return ::copysign(0.0, y);
    return (r < 0) != (y < 0) ? r + y : r;
  }
  int64_t operator()(int64_t x, int64_t y) const {
    if (y == 0 || y == -1) return 0;
    const int64_t r = x % y;
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
  }
};
struct FloorDiv {
  explicit FloorDiv(const void*) {}
  // From the exact remainder, so that a quotient rounded up to an integer is not taken for it.
  double operator()(double x, double y) const {
    if (y == 0) return x / y;
    const double r = ::fmod(x, y);
    double q = (x - r) / y;
    if (r != 0 && (r < 0) != (y < 0)) q -= 1;
    if (q == 0) return ::copysign(0.0, x / y);
    const double whole = ::floor(q);
    return q - whole > 0.5 ? whole + 1 : whole;
  }
  int64_t operator()(int64_t x, int64_t y) const {
    if (y == 0) return 0;
    if (y == -1) return static_cast<int64_t>(0u - static_cast<uint64_t>(x));
    const int64_t q = x / y;
    return x % y != 0 && (x < 0) != (y < 0) ? q - 1 : q;
  }
};
struct Atan2 {
  explicit Atan2(const void*) {}
  double operator()(double x, double y) const { return ::atan2(x, y); }
};

/// The value of a floating array of one element; NaN of any other.
double only_value(const View& v) {
  double value = NAN;
  if (v.numel() == 1 && is_floating(v.dtype)) convert(v.dtype, v.data, DType::kF64, &value, 1);
  return value;
}

}  // namespace

PROA_FUNCTOR_(pow_square_f, NoAttrs, (V x, V), x* x)

PROA_FUNCTOR_(pow_f, NoAttrs, (V x, V y), pow(x, y))

Status pow(const Call& c) {
  static constexpr Loops kLoops = {
      binary_loop<float, pow_f>, plain_binary_loop<double, double, Pow>, nullptr,
      plain_binary_loop<int64_t, int64_t, Pow>, plain_binary_loop<C128, C128, Pow>};
  static constexpr Loops kSquare = {binary_loop<float, pow_square_f>,
                                    binary_loop<double, pow_square_f>};
  return elementwise(c, only_value(c.in[1]) == 2 ? kSquare : kLoops);
}

#define PROA_RARE(name, F)                                                    \
  PROA_KERNEL_(name, {nullptr, plain_binary_loop<double, double, F>, nullptr, \
                      plain_binary_loop<int64_t, int64_t, F>})
PROA_RARE(mod, Mod)
PROA_RARE(floor_div, FloorDiv)
PROA_KERNEL_(atan2, {nullptr, plain_binary_loop<double, double, Atan2>})

namespace {

void make_complex_loop(void* const* p, int64_t n, const void*) {
  const double *x = static_cast<const double*>(p[1]), *y = static_cast<const double*>(p[2]);
  C128* z = static_cast<C128*>(p[0]);
  for (int64_t i = 0; i < n; ++i) z[i] = {x[i], y[i]};
}

}  // namespace

Status make_complex(const Call& c) {
  const Operand operands[] = {
      {c.out[0], DType::kC128}, {c.in[0], DType::kF64}, {c.in[1], DType::kF64}};
  return run_loop(c, make_complex_loop, operands, 3, 1, nullptr);
}

namespace {

template <class T>
void where_loop(void* const* p, int64_t n, const void*) {
  const uint8_t* condition = static_cast<const uint8_t*>(p[1]);
  const T *x = static_cast<const T*>(p[2]), *y = static_cast<const T*>(p[3]);
  T* z = static_cast<T*>(p[0]);
  for (int64_t i = 0; i < n; ++i) z[i] = condition[i] != 0 ? x[i] : y[i];
}

}  // namespace

Status where(const Call& c) {
  const DType t = c.in[1].dtype;
  const Operand operands[] = {{c.out[0], t}, {c.in[0], DType::kBool}, {c.in[1], t}, {c.in[2], t}};
  PROA_MOVED(size_of(t), T, return run_loop(c, where_loop<T>, operands, 4, 1, nullptr))
}

}  // namespace proa::PROA_ISA
