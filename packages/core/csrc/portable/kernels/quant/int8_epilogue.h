#pragma once
// The epilogue of conv2d_int8 and linear_int8:
// v = act(acc * multiplier + bias + residual), each product and sum rounded separately, then v
// itself or clamp(round(v / out_scale), -127, 127). This family is compiled without contraction.
#include "proa/base/call.h"
#include "proa/simd/gemm/epilogue_vector.h"
#include "proa/simd/gemm/int8_end.h"

namespace proa::PROA_ISA {

/// The attributes of an int8 product that its epilogue reads.
struct Int8Ending {
  int64_t act;
  double out_scale, residual_scale;
  int64_t out_zero = 0, low = -127;
};

/// How v becomes an integer: clamp(round(v / scale) + zero, low, 127).
struct QuantParams {
  float scale = 0.0f;
  float inverse = 0.0f;  // of the scale, or 0 if quotients cannot be computed by it
  int32_t zero = 0, low = -127;
};

/// The epilogue, with the channels' factors and terms in arrays with room for whole vectors.
struct Int8Epilogue {
  const float* scale = nullptr;
  const float* shift = nullptr;
  MatrixRef out = {};       // kF32 or kI8
  MatrixRef residual = {};  // the same, or data == nullptr: none
  float residual_scale = 0.0f;
  Act act = Act::kNone;
  QuantParams quant = {};
  Int8Estimate estimate = {};
};
size_t int8_epilogue_bytes(int64_t channels);
/// Sets all but `out` and `residual` of `end`, of which it reads the dtype and whether there is
/// one. `multiplier` has one element or one for each channel; `bias` may be nullptr or not given.
void begin_int8_epilogue(const View* multiplier, const View* bias, int64_t channels,
                         const Int8Ending& ending, void* memory, Int8Epilogue* end);
/// GemmOutput::epilogue; ctx is an Int8Epilogue.
void finish_int8(const void* ctx, void* tile, int64_t ldt, int64_t row, int rows, int64_t col,
                 int cols);

/// Makes finish_int8 the end of a product, in registers where `ends`, which it sets, can say how.
void set_int8_output(GemmOutput* out, const Int8Epilogue* end, Int8Ends* ends);

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
  VI zero = {};
  bool divides, once;  // once: one correction of the quotient suffices

  /// By a scale alone.
  PROA_INLINE explicit Int8Rounding(double by)
      : scale(splat(static_cast<float>(by))),
        inverse(splat(inverse_of(static_cast<float>(by)))),
        minus(-scale),
        lowest(-127.0f * scale),
        highest(127.0f * scale),
        divides(inverse[0] == 0.0f),
        once(is_close(scale, inverse)) {}
  PROA_INLINE explicit Int8Rounding(const Int8Epilogue& end)
      : scale(splat(end.quant.scale)),
        inverse(splat(end.quant.inverse)),
        minus(-scale),
        lowest(static_cast<float>(end.quant.low - end.quant.zero) * scale),
        highest(static_cast<float>(127 - end.quant.zero) * scale),
        zero(splat<int32_t>(end.quant.zero)),
        divides(end.quant.inverse == 0.0f),
        once(is_close(scale, inverse)) {
    if (end.act == Act::kRelu || end.act == Act::kRelu6) lowest = max(VF{}, lowest);
    if (end.act == Act::kRelu6) highest = min(splat(6.0f), highest);
  }

  /// True if the rounded inverse is within 2^-25 of 1 / scale, relative.
  PROA_INLINE static bool is_close(VF scale, VF inverse) {
    return kHasFma && abs(fma(-scale, inverse, splat(1.0f)))[0] <= 0x1p-25f;
  }
  /// v / scale as the machine divides.
  PROA_INLINE VF quotient(VF v) const {
    // A correction by the rounded inverse makes a quotient within one unit in the last place the
    // correctly rounded one (Markstein, 1990). v * inverse is that close if the inverse is within
    // 2^-25, relative: half a unit of it and half of the product. Else another correction is.
    if (kHasFma && PROA_LIKELY(!divides)) {
      VF q = v * inverse;
      q = fma(fma(q, minus, v), inverse, q);
      return PROA_LIKELY(once) ? q : fma(fma(q, minus, v), inverse, q);
    }
    return v / scale;
  }
  /// As activate() of the other forms of results.
  PROA_INLINE static VF hard_swish(VF v) { return activate(Act::kHardSwish, v); }
  PROA_INLINE VI operator()(VF v) const {
    // Without sign, as the smallest integer, which NaN rounds to, wraps around.
    const VI whole = round_to_int(quotient(min(highest, max(lowest, v))));
    return bit_cast<VI>(bit_cast<VU>(whole) + bit_cast<VU>(zero));
  }
};

}  // namespace proa::PROA_ISA
