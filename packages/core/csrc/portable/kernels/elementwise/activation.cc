// Activation functions: one line each, over float vectors and doubles. `a` holds the attributes.
#include "proa/gen/attrs/activation.h"
#include "proa/kernels/elementwise/functions.h"

namespace proa::PROA_ISA {

#define PROA_ACTIVATION(name, Attrs, expr)    \
  PROA_FUNCTOR_(name##_f, Attrs, (V x), expr) \
  PROA_KERNEL_(name, {unary_loop<float, name##_f>, plain_unary_loop<double, double, name##_f>})

// Takes complex numbers too.
#define PROA_ACTIVATION_ALL(name, expr)                                                        \
  PROA_FUNCTOR_(name##_f, NoAttrs, (V x), expr)                                                \
  PROA_KERNEL_(name, {unary_loop<float, name##_f>, plain_unary_loop<double, double, name##_f>, \
                      nullptr, nullptr, plain_unary_loop<C128, C128, name##_f>})

namespace {

template <class V>
PROA_INLINE V limit(V x, double low, double high) {
  const V l = constant<V>(low), h = constant<V>(high);
  return x < l ? l : (x > h ? h : x);
}
/// log(1 + exp(x)) without overflow.
template <class V>
PROA_INLINE V soft_plus(V x) {
  return log1p(exp(-abs(x))) + (x > constant<V>(0) ? x : constant<V>(0));
}

/// tanh(log(1 + e)) of e = exp(x), and its derivative. With n = e * (e + 2) they are n / (n + 2)
/// and 4 * e * (1 + e) / (n + 2)**2; beyond 20 the first is 1 and the second below 1e-16.
template <class V>
struct SoftGate {
  V gate, slope;
};
template <class V>
PROA_INLINE SoftGate<V> soft_gate(V x) {
  const V one = constant<V>(1), two = constant<V>(2), top = constant<V>(20);
  const V e = exp(x > top ? top : x), n = e * (e + two), under = n + two;
  return {n / under, constant<V>(4) * e * (one + e) / (under * under)};
}
/// sigmoid(z), and what it lacks to 1, without cancellation.
template <class V>
struct SoftplusParts {
  V here, rest;
};
template <class V>
PROA_INLINE SoftplusParts<V> softplus_parts(V z) {
  const V one = constant<V>(1), e = exp(-abs(z)), large = one / (one + e), small = e * large;
  return {z < V{} ? small : large, z < V{} ? large : small};
}
/// dy times the derivative of gelu_tanh at x: with s = sigmoid(2 * z), 1 + tanh(z) is 2 * s and
/// 1 - tanh(z)**2 is 4 * s * (1 - s).
template <class V>
PROA_INLINE V gelu_tanh_slope(V dy, V x) {
  const V one = constant<V>(1), c = constant<V>(2 * 0.7978845608028654);
  const V square = x * x, z = x * (one + square * constant<V>(0.044715)) * c;
  const SoftplusParts<V> s = softplus_parts(z);
  return dy * (s.here * (one + s.rest * x * (one + square * constant<V>(3 * 0.044715)) * c));
}
/// dy times the derivative of x * sigmoid(beta * x), of z = beta * x.
template <class V>
PROA_INLINE V silu_slope(V dy, V z) {
  const SoftplusParts<V> s = softplus_parts(z);
  return dy * (s.here * (constant<V>(1) + z * s.rest));
}
}  // namespace

PROA_ACTIVATION(relu6, NoAttrs, limit(x, 0, 6))
PROA_ACTIVATION(leaky_relu, LeakyReluAttrs, x > constant<V>(0) ? x : x * T(a.negative_slope))
PROA_ACTIVATION(elu, EluAttrs, x > constant<V>(0) ? x : expm1(x) * T(a.alpha))
PROA_ACTIVATION_ALL(sigmoid, sigmoid(x))
PROA_ACTIVATION_ALL(tanh, tanh(x))
PROA_ACTIVATION(softplus, SoftplusAttrs,
                x* T(a.beta) > constant<V>(a.threshold) ? x : soft_plus(x * T(a.beta)) / T(a.beta))
PROA_ACTIVATION(silu, SiluAttrs, x* sigmoid(x* T(a.beta)))
PROA_ACTIVATION(mish, NoAttrs, x* soft_gate(x).gate)
PROA_ACTIVATION(gelu, NoAttrs, x* normal_cdf(x))
PROA_ACTIVATION(gelu_tanh, NoAttrs,
                x* T(0.5) * (tanh((x + x * x * x * T(0.044715)) * T(0.7978845608028654)) + T(1)))
PROA_ACTIVATION(hard_sigmoid, HardSigmoidAttrs, limit(x* T(a.slope) + T(a.offset), 0, 1))
PROA_ACTIVATION(hard_swish, NoAttrs, x* limit(x + T(3), 0, 6) * T(1.0 / 6))

// -- also for integers ---------------------------------------------------------------------------
PROA_FUNCTOR_(relu_f, NoAttrs, (V x), x < V{} ? V{} : x)  // NaN stays
/// Of BF16 by its bits: negative numbers, -infinity included, are 0x8001 to 0xff80.
PROA_FUNCTOR_(relu_bits, NoAttrs, (V x), x - constant<V>(0x8001) <= constant<V>(0x7f7f) ? V{} : x)
PROA_KERNEL_(relu, Loops{unary_loop<float, relu_f>, unary_loop<double, relu_f>,
                         unary_loop<int32_t, relu_f>, unary_loop<int64_t, relu_f>}
                       .with_bf16(unary_loop<uint16_t, relu_bits>))

// -- gradients: dy is x, and y the row's other array ----------------------------------------------
/// A binary loop of slow functions: memory is prefetched while they are computed.
template <class F>
void slope_loop(void* const* p, int64_t n, const void* attrs) {
  const F f(attrs);
  float* z = static_cast<float*>(p[0]);
  const float *x = static_cast<const float*>(p[1]), *y = static_cast<const float*>(p[2]);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    prefetch_ahead(x + i);
    prefetch_ahead(y + i);
    prefetch_ahead(z + i);
    store(z + i, f(load(x + i), load(y + i)));
  }
  if (i < n) store_n(z + i, f(load_n(x + i, n - i), load_n(y + i, n - i)), n - i);
}
#define PROA_SLOPE_WITH(name, Attrs, expr)         \
  PROA_FUNCTOR_(name##_f, Attrs, (V x, V y), expr) \
  PROA_KERNEL_(name, {slope_loop<name##_f>, plain_binary_loop<double, double, name##_f>})
#define PROA_SLOPE(name, expr) PROA_SLOPE_WITH(name, NoAttrs, expr)
PROA_FUNCTOR_(relu_grad_f, NoAttrs, (V x, V y), y > V{} ? x : V{})
/// Positive numbers, infinity included, are 1 to 0x7f80.
PROA_FUNCTOR_(relu_grad_bits, NoAttrs, (V x, V y),
              y - constant<V>(1) <= constant<V>(0x7f7f) ? x : V{})
PROA_KERNEL_(relu_grad,
             Loops{slope_loop<relu_grad_f>, plain_binary_loop<double, double, relu_grad_f>}
                 .with_bf16(binary_loop<uint16_t, relu_grad_bits>))
// Takes complex numbers too: the slope of a holomorphic function, conjugated.
PROA_INLINE C128 conj(C128 z) { return {z.re, -z.im}; }
#define PROA_SLOPE_ALL(name, expr, complex_expr)                                                 \
  PROA_FUNCTOR_(name##_f, NoAttrs, (V x, V y), expr)                                             \
  PROA_FUNCTOR_(name##_c, NoAttrs, (V x, V y), complex_expr)                                     \
  PROA_KERNEL_(name, {binary_loop<float, name##_f>, plain_binary_loop<double, double, name##_f>, \
                      nullptr, nullptr, plain_binary_loop<C128, C128, name##_c>})
PROA_SLOPE_ALL(sigmoid_grad, x * y * (T(1) - y), x* conj(y*(C128{1, 0} - y)))
PROA_SLOPE_ALL(tanh_grad, x*(T(1) - y * y), x* conj(C128{1, 0} - y * y))
PROA_SLOPE(gelu_grad, x*(normal_cdf(y) + y * exp(y * y * T(-0.5)) * T(0.3989422804014327)))

PROA_SLOPE(gelu_tanh_grad, gelu_tanh_slope(x, y))
PROA_SLOPE(mish_grad, x*(soft_gate(y).gate + y * soft_gate(y).slope))
PROA_SLOPE(relu6_grad, ((y > constant<V>(0)) & (y < constant<V>(6))) ? x : V{})
PROA_SLOPE_WITH(leaky_relu_grad, LeakyReluGradAttrs,
                y > constant<V>(0) ? x : x * T(a.negative_slope))
PROA_SLOPE_WITH(elu_grad, EluGradAttrs,
                y > constant<V>(0) ? x : x * (exp(limit(y, -1e4, 0)) * T(a.alpha)))
PROA_SLOPE_WITH(softplus_grad, SoftplusGradAttrs,
                y* T(a.beta) > constant<V>(a.threshold) ? x : x * sigmoid(y * T(a.beta)))
PROA_SLOPE_WITH(silu_grad, SiluGradAttrs, silu_slope(x, y* T(a.beta)))
PROA_SLOPE_WITH(hard_sigmoid_grad, HardSigmoidGradAttrs,
                ((y > constant<V>(0)) & (y < constant<V>(1))) ? x * T(a.slope) : V{})
PROA_SLOPE(hard_swish_grad,
           y <= constant<V>(-3) ? V{} : (y >= constant<V>(3) ? x : x * (y * T(1.0 / 3) + T(0.5))))

}  // namespace proa::PROA_ISA
