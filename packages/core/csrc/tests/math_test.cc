// The vector functions of simd/math.h against the C library in double: the largest error in units
// in the last place over a sweep of all exponents, and the special values.
#include <stdio.h>
#include <string.h>

#include "proa/simd/exp_below.h"
#include "proa/simd/math.h"

using namespace proa::PROA_ISA;

namespace {

// Steps of a sweep; sanitizers, which look at memory, are slow and need not see all numbers.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kSteps = 1 << 17;
#else
constexpr int64_t kSteps = 1 << 21;
#endif

int failures = 0;

double ulp_error(float got, double want) {
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : 1e9;
  const float near = static_cast<float>(want);
  if (isinf(near) || isinf(got)) return near == got ? 0 : (fabs(want) > 3.4e38 ? 1 : 1e9);
  const float up = nextafterf(fabsf(near), INFINITY);
  const double ulp = static_cast<double>(up) - fabsf(near);
  return fabs(got - want) / ulp;
}

template <class F>
void check(const char* name, F f, double (*ref)(double), double low, double high, double bound) {
  double worst = 0;
  float where = 0;
  uint32_t bits = 0;
  // A stride coprime to 2**32 visits exponents and mantissas evenly.
  for (int64_t k = 0; k < kSteps; ++k) {
    float x[kLanes], y[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      bits += 2654435761u;
      float v = 0;
      memcpy(&v, &bits, 4);
      if (!(v >= low && v <= high) && !isnan(v))
        v = static_cast<float>(low + (high - low) * (bits * 0x1p-32));
      x[i] = v;
    }
    store(y, f(load(x)));
    for (int i = 0; i < kLanes; ++i) {
      const double e = ulp_error(y[i], ref(static_cast<double>(x[i])));
      if (e > worst) worst = e, where = x[i];
    }
  }
  const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1.0f, -1.0f};
  for (float s : special) {
    float y[kLanes];
    store(y, f(splat(s)));
    const double want = ref(s);
    if (ulp_error(y[0], want) > bound || (want == 0 && signbit(want) != signbit(y[0]))) {
      printf("FAIL %s(%g): got %g, want %g\n", name, s, y[0], want);
      ++failures;
    }
  }
  printf("%s %-8s %.2f ulp (at %.9g), bound %.1f\n", worst <= bound ? "ok  " : "FAIL", name, worst,
         where, bound);
  if (worst > bound) ++failures;
}

double sigmoid_ref(double x) { return 1 / (1 + ::exp(-x)); }
double exp_below_ref(double x) { return ::exp(x > 0 ? 0 : x); }

/// normal_cdf to within an absolute bound, and that it falls to 0.
void check_normal_cdf(double bound) {
  double worst = 0;
  for (int64_t k = 0; k <= (1 << 21); k += kLanes) {
    float x[kLanes], y[kLanes];
    for (int i = 0; i < kLanes; ++i) x[i] = static_cast<float>(k + i) * 0x1p-16f - 16.0f;
    store(y, normal_cdf(load(x)));
    for (int i = 0; i < kLanes; ++i) {
      const double want = 0.5 * ::erfc(static_cast<double>(x[i]) * -0.70710678118654752);
      worst = fmax(worst, fabs(static_cast<double>(y[i]) - want));
    }
  }
  const bool falls = normal_cdf(splat(-20.0f))[0] == 0 && normal_cdf(splat(-1e30f))[0] == 0 &&
                     normal_cdf(splat(-INFINITY))[0] == 0 && normal_cdf(splat(INFINITY))[0] == 1;
  const bool fine = worst <= bound && falls && isnan(normal_cdf(splat(NAN))[0]);
  printf("%s normal_cdf %.2e, bound %.2e\n", fine ? "ok  " : "FAIL", worst, bound);
  if (!fine) ++failures;
}

/// pow of random and special pairs.
void check_pow(double bound) {
  const float special[] = {0.0f,      -0.0f, 1.0f,   -1.0f,   2.0f,       -2.0f,
                           0.5f,      -0.5f, 3.0f,   -3.0f,   1e38f,      INFINITY,
                           -INFINITY, NAN,   1e-40f, -1e-40f, 16777217.0f};
  double worst = 0;
  auto test = [&](float x, float y) {
    const float got = pow(splat(x), splat(y))[0];
    const double want = ::pow(static_cast<double>(x), static_cast<double>(y));
    const double e = want == 0 && signbit(want) != signbit(got) ? 1e9 : ulp_error(got, want);
    if (e > bound) printf("FAIL pow(%.9g, %.9g): got %.9g, want %.9g\n", x, y, got, want);
    worst = e > worst ? e : worst;
  };
  for (float x : special)
    for (float y : special) test(x, y);
  uint32_t bits = 1;
  for (int k = 0; k < (1 << 20); ++k) {
    bits = bits * 1664525u + 1013904223u;
    const float x = static_cast<float>(::exp((bits >> 8) * 0x1p-19 - 16));
    bits = bits * 1664525u + 1013904223u;
    const float y = static_cast<float>((bits >> 8) * 0x1p-20 - 8);
    test(x, y);
    if (k % 4 == 0) test(-x, rintf(y));
    if (k % 4 == 1) test(1.0f + y * 1e-3f, x);
  }
  printf("%s pow      %.2f ulp, bound %.1f\n", worst <= bound ? "ok  " : "FAIL", worst, bound);
  if (worst > bound) ++failures;
}

}  // namespace

int main() {
  const double inf = INFINITY;
  check("exp", [](VF x) { return exp(x); }, ::exp, -inf, inf, 1.5);
  check("exp+", [](VF x) { return exp(x); }, ::exp, -104, 89, 1.5);
  auto below = [](VF x) { return exp_below(min(splat(0.0f), x)); };
  check("below", below, exp_below_ref, -inf, inf, 1.5);
  check("below+", below, exp_below_ref, -104, 0, 1.5);
  check("expm1", [](VF x) { return expm1(x); }, ::expm1, -inf, inf, 2);
  check("expm1+", [](VF x) { return expm1(x); }, ::expm1, -20, 40, 2);
  check("log", [](VF x) { return log(x); }, ::log, -inf, inf, 1);
  check("log+", [](VF x) { return log(x); }, ::log, 0.3, 3, 1);
  check("log1p", [](VF x) { return log1p(x); }, ::log1p, -inf, inf, 2);
  check("log1p+", [](VF x) { return log1p(x); }, ::log1p, -1, 3, 2);
  check("tanh", [](VF x) { return tanh(x); }, ::tanh, -inf, inf, 2);
  check("tanh+", [](VF x) { return tanh(x); }, ::tanh, -11, 11, 2);
  check("sigmoid", [](VF x) { return sigmoid(x); }, sigmoid_ref, -inf, inf, 3);
  check("sigmoid+", [](VF x) { return sigmoid(x); }, sigmoid_ref, -90, 20, 3);
  check("erf", [](VF x) { return erf(x); }, ::erf, -inf, inf, 2);
  check("erf+", [](VF x) { return erf(x); }, ::erf, -4.5, 4.5, 2);
  check_normal_cdf(1e-7);
  check_pow(0.6);
  check("sin", [](VF x) { return sin(x); }, ::sin, -3.2, 3.2, 2);
  check("cos", [](VF x) { return cos(x); }, ::cos, -1.5, 1.5, 2);
  check("sin big", [](VF x) { return sin(x); }, ::sin, -inf, inf, 1e4);
  // The scalar forms of half.h and the vector forms agree on every 16-bit pattern.
  for (uint32_t h = 0; h < 65536; h += kLanes) {
    proa::F16 in[kLanes], back[kLanes];
    for (int i = 0; i < kLanes; ++i) in[i].bits = static_cast<uint16_t>(h + i);
    float f[kLanes];
    store(f, load(in));
    store(back, load(f));
    for (int i = 0; i < kLanes; ++i) {
      const float want = in[i];
      const bool same = isnan(want) ? isnan(f[i]) : memcmp(&want, &f[i], 4) == 0;
      if (!same || (!isnan(want) && back[i].bits != in[i].bits)) {
        printf("FAIL f16 %04x\n", in[i].bits);
        ++failures;
      }
    }
  }
  return failures != 0;
}
