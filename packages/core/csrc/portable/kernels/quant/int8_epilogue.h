#pragma once
// The epilogue of conv2d_int8 and linear_int8:
// v = act(acc * multiplier + bias + residual), each product and sum rounded separately, then v
// itself or clamp(round(v / out_scale), -127, 127). This family is compiled without contraction.
#include "proa/base/call.h"
#include "proa/simd/gemm/epilogue.h"
#include "proa/simd/vec_int8.h"

namespace proa::PROA_ISA {

/// The attributes of an int8 product that its epilogue reads.
struct Int8Ending {
  int64_t act;
  double out_scale, residual_scale;
};

/// The epilogue, with the channels' factors and terms in arrays with room for whole vectors.
struct Int8Epilogue {
  const float* scale;
  const float* shift;
  MatrixRef out;       // kF32 or kI8
  MatrixRef residual;  // the same, or data == nullptr: none
  float residual_scale;
  Act act;
  float out_scale;
  float inverse;  // of out_scale, or 0 if quotients cannot be computed by it
};
size_t int8_epilogue_bytes(int64_t channels);
/// Sets all but `out` and `residual` of `end`.
void begin_int8_epilogue(const Call& c, int64_t channels, const Int8Ending& ending, void* memory,
                         Int8Epilogue* end);
/// GemmOutput::epilogue; ctx is an Int8Epilogue.
void finish_int8(const void* ctx, void* tile, int64_t ldt, int64_t row, int rows, int64_t col,
                 int cols);

/// True of activations that bound a value from below and above.
PROA_INLINE bool is_clamp(Act act) { return act <= Act::kRelu6; }

/// 1 / scale, or 0 if quotients cannot be computed by it: outside this range their corrections may
/// lose bits.
PROA_INLINE float inverse_of(float scale) {
  return scale > 0x1p-80f && scale < 0x1p80f ? 1.0f / scale : 0.0f;
}

/// The integers of vectors of floats; clamps are part of it.
struct Int8Rounding {
  VF scale, inverse, minus, lowest, highest;
  bool divides;

  /// By a scale alone.
  PROA_INLINE explicit Int8Rounding(double by)
      : scale(splat(static_cast<float>(by))),
        inverse(splat(inverse_of(static_cast<float>(by)))),
        minus(-scale),
        lowest(-127.0f * scale),
        highest(127.0f * scale),
        divides(inverse[0] == 0.0f) {}
  PROA_INLINE explicit Int8Rounding(const Int8Epilogue& end)
      : scale(splat(end.out_scale)),
        inverse(splat(end.inverse)),
        minus(-scale),
        lowest(-127.0f * scale),
        highest(127.0f * scale),
        divides(end.inverse == 0.0f) {
    if (end.act == Act::kRelu || end.act == Act::kRelu6) lowest = VF{};
    if (end.act == Act::kRelu6) highest = min(splat(6.0f), highest);
  }

  /// v / scale as the machine divides.
  PROA_INLINE VF quotient(VF v) const {
    // Two corrections of v * (1 / scale) give the correctly rounded quotient (Markstein, 1990).
    if (kHasFma && PROA_LIKELY(!divides)) {
      VF q = v * inverse;
      q = fma(fma(q, minus, v), inverse, q);
      return fma(fma(q, minus, v), inverse, q);
    }
    return v / scale;
  }
  /// v * min(6, max(0, v + 3)) / 6, but for subnormal results, which are 0 as integers.
  PROA_INLINE VF hard_swish(VF v) const {
    const VF six = splat(6.0f);
    VF t = v * min(six, max(VF{}, v + 3.0f));
    if (!kHasFma || divides) return t / six;
    t = min(splat(0x1p126f), t);  // infinity has no quotient
    VF q = t * (1.0f / 6.0f);
    q = fma(fma(q, -six, t), splat(1.0f / 6.0f), q);
    return fma(fma(q, -six, t), splat(1.0f / 6.0f), q);
  }
  PROA_INLINE VI operator()(VF v) const {
    return round_to_int(quotient(min(highest, max(lowest, v))));
  }
};

}  // namespace proa::PROA_ISA
