#pragma once
// The epilogue of float results while they are in a register.
#include "proa/simd/column_sums.h"
#include "proa/simd/gemm/epilogue.h"
#include "proa/simd/math.h"

namespace proa::PROA_ISA {

// hard_sigmoid has its default slope and offset.
PROA_INLINE VF activate(Act act, VF x) {
  const VF zero = {};
  switch (act) {
    case Act::kRelu:
      return max(zero, x);
    case Act::kRelu6:
      return min(splat(6.0f), max(zero, x));
    case Act::kHardSwish:
      return x * min(splat(6.0f), max(zero, x + 3.0f)) * (1.0f / 6.0f);
    case Act::kHardSigmoid:
      return min(splat(1.0f), max(zero, x * 0.1666667f + 0.5f));
    case Act::kSigmoid:
      return sigmoid(x);
    case Act::kTanh:
      return tanh(x);
    case Act::kGelu:
      return x * normal_cdf(x);
    case Act::kSilu:
      return x * sigmoid(x);
    default:
      return x;
  }
}

inline bool is_contiguous(const MatrixRef& m) { return m.dtype == DType::kF32 && m.stride == 1; }

/// True if VectorEnd does all that the epilogue does.
inline bool finishes_vectors(const FloatEpilogue& end) {
  return !kSmallBuild && is_contiguous(end.out) && end.act <= Act::kHardSigmoid &&
         (end.residual.data == nullptr || is_contiguous(end.residual));
}

template <Act kAct>
struct ActConstant {
  static constexpr Act value = kAct;
};
/// body(ActConstant<act>{}), for the activations that finishes_vectors() allows.
template <class F>
PROA_INLINE void with_act(Act act, F body) {
  switch (act) {
    case Act::kNone:
      return body(ActConstant<Act::kNone>{});
    case Act::kRelu:
      return body(ActConstant<Act::kRelu>{});
    case Act::kRelu6:
      return body(ActConstant<Act::kRelu6>{});
    case Act::kHardSwish:
      return body(ActConstant<Act::kHardSwish>{});
    default:
      return body(ActConstant<Act::kHardSigmoid>{});
  }
}

/// The end of `some` channels of rows, from `channel` on.
struct VectorEnd {
  const FloatEpilogue& end;
  int64_t channel, some;
  bool is_normed, adds, scales;
  VF center = {}, factor = {}, shift = {};

  PROA_INLINE VectorEnd(const FloatEpilogue& e, int64_t first, int64_t count)
      : end(e),
        channel(first),
        some(count),
        is_normed(e.by_channels()),
        adds(e.residual.data != nullptr),
        scales(e.is_scaled()) {
    if (!is_normed) return;
    center = read(static_cast<const float*>(e.norm->center) + channel);
    factor = read(static_cast<const float*>(e.norm->factor) + channel);
    shift = read(static_cast<const float*>(e.norm->shift) + channel);
  }
  PROA_INLINE VF read(const float* p) const { return some == kLanes ? load(p) : load_n(p, some); }
  /// The results of row `row` from its sums.
  template <Act kAct>
  PROA_INLINE VF finish(VF v, int64_t row) const {
    if (is_normed) v = normalised<VF>(v, center, factor, shift);
    if (adds)
      v += read(static_cast<const float*>(end.residual.data) + end.residual.rows.at(row) + channel);
    v = activate(kAct, v);
    return scales ? v * end.norm->scale + end.norm->offset : v;
  }
};

}  // namespace proa::PROA_ISA
