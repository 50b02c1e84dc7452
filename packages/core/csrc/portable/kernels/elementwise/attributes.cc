// Elementwise ops with numbers as attributes: cast, clip, scale.
#include "proa/base/task_size.h"
#include "proa/gen/attrs/unary.h"
#include "proa/kernels/elementwise/functions.h"
#include "proa/kernels/movement/copy.h"

namespace proa::PROA_ISA {

namespace {

void copy_loop(void* const* p, int64_t n, const void* size) {
  gather_row(*static_cast<const size_t*>(size), p[1], 1, p[0], n);
}

Status convert_array(const Call& c) {
  const View &x = c.in[0], &y = c.out[0];
  if (x.dtype == y.dtype) return copy(c, x, y);
  if (x.contiguous() && y.contiguous()) {
    parallel_for(c, y.numel(), kElementTask, [&](int64_t begin, int64_t end) {
      convert(x.dtype, x.as<uint8_t>() + begin * static_cast<int64_t>(size_of(x.dtype)), y.dtype,
              y.as<uint8_t>() + begin * static_cast<int64_t>(size_of(y.dtype)), end - begin);
    });
    return Status::kOk;
  }
  const size_t size = size_of(y.dtype);
  const Operand operands[] = {{y, y.dtype}, {x, y.dtype}};
  return run_loop(c, copy_loop, operands, 2, 1, &size);
}

/// The bounds in every type that clip computes in.
struct Bounds {
  float low32, high32;
  double low64, high64;
  int64_t low, high;
};

struct Range {
  int64_t low, high;
};
Range range_of(DType t) {
  switch (t) {
    case DType::kU8:
      return {0, 255};
    case DType::kI8:
      return {-128, 127};
    case DType::kI16:
      return {-32768, 32767};
    case DType::kI32:
      return {INT32_MIN, INT32_MAX};
    default:
      return {INT64_MIN, INT64_MAX};
  }
}

/// A bound as an integer of the range: a fraction is rounded into the interval.
int64_t integer_bound(const Scalar& s, const Range& range, bool is_low) {
  if (s.is_int == 0) {
    const double f = is_low ? ::ceil(s.f) : ::floor(s.f);
    if (f != f) return is_low ? range.low : range.high;
    if (f <= static_cast<double>(range.low)) return range.low;
    if (f >= static_cast<double>(range.high)) return range.high;
    return static_cast<int64_t>(f);
  }
  return s.i < range.low ? range.low : s.i > range.high ? range.high : s.i;
}

Bounds bounds_of(const Scalar& min, const Scalar& max, DType t) {
  const Range range = range_of(t);
  const double low = min.to_double(), high = max.to_double();
  return {static_cast<float>(low),         static_cast<float>(high),        low, high,
          integer_bound(min, range, true), integer_bound(max, range, false)};
}

template <class V>
PROA_INLINE V low_of(const Bounds& b) {
  using T = std::remove_reference_t<decltype(V{}[0])>;
  if constexpr (std::is_same_v<T, float>)
    return splat(b.low32);
  else if constexpr (std::is_same_v<T, double>)
    return splat(b.low64);
  else
    return splat(static_cast<T>(b.low));
}
template <class V>
PROA_INLINE V high_of(const Bounds& b) {
  using T = std::remove_reference_t<decltype(V{}[0])>;
  if constexpr (std::is_same_v<T, float>)
    return splat(b.high32);
  else if constexpr (std::is_same_v<T, double>)
    return splat(b.high64);
  else
    return splat(static_cast<T>(b.high));
}
template <class V>
PROA_INLINE V clipped(V x, V low, V high) {
  const V y = x < low ? low : x;
  return y > high ? high : y;
}

PROA_FUNCTOR_(clip_f, Bounds, (V x), clipped(x, low_of<V>(a), high_of<V>(a)))
PROA_FUNCTOR_(clip_grad_f, Bounds, (V dy, V x),
              ((x >= low_of<V>(a)) & (x <= high_of<V>(a))) ? dy : V{})

/// scale and bias are integers that int64 holds.
bool is_integral(const ScaleAttrs& a) {
  const double limit = 9007199254740992.0;
  return a.scale == ::floor(a.scale) && a.bias == ::floor(a.bias) && ::fabs(a.scale) <= limit &&
         ::fabs(a.bias) <= limit;
}
struct Scaled {
  const ScaleAttrs& a;
  explicit Scaled(const void* attrs) : a(*static_cast<const ScaleAttrs*>(attrs)) {}
  PROA_INLINE VF operator()(VF x) const {
    return x * static_cast<float>(a.scale) + static_cast<float>(a.bias);
  }
  PROA_INLINE VD operator()(VD x) const { return x * a.scale + a.bias; }
  PROA_INLINE int64_t operator()(int64_t x) const {
    return static_cast<int64_t>(static_cast<uint64_t>(x) *
                                    static_cast<uint64_t>(static_cast<int64_t>(a.scale)) +
                                static_cast<uint64_t>(static_cast<int64_t>(a.bias)));
  }
  PROA_INLINE C128 operator()(C128 x) const { return {x.re * a.scale + a.bias, x.im * a.scale}; }
};

}  // namespace

Status cast(const Call& c) { return convert_array(c); }
Status cast_like(const Call& c) { return convert_array(c); }

Status clip(const Call& c) {
  static constexpr Loops kLoops = {unary_loop<float, clip_f>, unary_loop<double, clip_f>,
                                   unary_loop<int32_t, clip_f>, unary_loop<int64_t, clip_f>};
  const auto& a = c.attr<ClipAttrs>();
  const Bounds bounds = bounds_of(a.min, a.max, c.in[0].dtype);
  return elementwise(c, kLoops, &bounds);
}

Status clip_grad(const Call& c) {
  static constexpr Loops kLoops = {
      binary_loop<float, clip_grad_f>, binary_loop<double, clip_grad_f>,
      binary_loop<int32_t, clip_grad_f>, binary_loop<int64_t, clip_grad_f>};
  const auto& a = c.attr<ClipGradAttrs>();
  const Bounds bounds = bounds_of(a.min, a.max, c.in[0].dtype);
  return elementwise(c, kLoops, &bounds);
}

Status scale(const Call& c) {
  static constexpr Loops kLoops = {unary_loop<float, Scaled>, unary_loop<double, Scaled>, nullptr,
                                   plain_unary_loop<int64_t, int64_t, Scaled>,
                                   plain_unary_loop<C128, C128, Scaled>};
  const auto& a = c.attr<ScaleAttrs>();
  if (is_integer(c.in[0].dtype) && !is_integral(a)) {
    const Operand operands[] = {{c.out[0], DType::kF64}, {c.in[0], DType::kF64}};
    return run_loop(c, kLoops.f64, operands, 2, 1, c.attrs);
  }
  return elementwise(c, kLoops, c.attrs);
}

}  // namespace proa::PROA_ISA
