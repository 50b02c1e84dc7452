#include "proa/kernels/quant/int8_epilogue.h"

#include <string.h>

namespace proa::PROA_ISA {
namespace {

constexpr int64_t kPadding = kTileVecs * kLanes;  // past the last channel

PROA_INLINE VF value_of(const Int8Epilogue& end, const int32_t* sums, int64_t channel) {
  return to_float(load(sums)) * load(end.scale + channel) + load(end.shift + channel);
}

/// Adds `n` elements of the residual to v.
PROA_NOINLINE void add_residual(const Int8Epilogue& end, int64_t row, int64_t col, int n,
                                float* v) {
  const MatrixRef& r = end.residual;
  const int64_t at = r.rows.at(row) + col * r.stride;
  for (int j = 0; j < n; ++j) {
    const int64_t i = at + j * r.stride;
    v[j] += r.dtype == DType::kF32
                ? static_cast<const float*>(r.data)[i]
                : static_cast<float>(static_cast<const int8_t*>(r.data)[i]) * end.residual_scale;
  }
}

/// A row of contiguous int8 by estimates; false if one is too near to a half. The residual, if any,
/// is int8 and contiguous, too.
template <bool kAdds, bool kSwishes>
PROA_INLINE bool estimate_row(const Int8Estimate& e, const int32_t* sums, int64_t channel, int cols,
                              const int8_t* residual, int8_t* to) {
  const VI low = splat<int32_t>(e.low), high = splat<int32_t>(e.high);
  VF worst = {};
  for (int j = 0; j < cols; j += kLanes) {
    const int left = cols - j;
    VF t = e.at<kSwishes>(to_float(load(sums + j)), load(e.scale + channel + j),
                          load(e.shift + channel + j));
    if constexpr (kAdds) {
      const VI r = left >= kLanes ? load_int8(residual + j) : load_int8_n(residual + j, left);
      t = fma(to_float(r), splat(e.step), t);
    }
    worst = max_fraction(worst, t);
    VI q = round_to_int(t);
    q = q < low ? low : q;
    q = q > high ? high : q;
    const VI8 bytes = to_int8(q);
    if (left >= kLanes)
      memcpy(to + j, &bytes, sizeof bytes);
    else
      store_n(to + j, bytes, left);
  }
  return !exceeds(worst, splat(e.limit));
}

/// Whole and broken vectors of a row of contiguous int8, without a further function: the usual
/// case. The residual, if any, is int8 and contiguous, too.
template <bool kAdds, bool kSwishes>
PROA_INLINE void quantize_row(const Int8Epilogue& end, const Int8Rounding& rounding,
                              const int32_t* sums, int64_t channel, int cols,
                              const int8_t* residual, int8_t* to) {
  const VF step = splat(end.residual_scale);
  int j = 0;
  for (; j + kLanes <= cols; j += kLanes) {
    VF v = value_of(end, sums + j, channel + j);
    if constexpr (kAdds) v = v + to_float(load_int8(residual + j)) * step;
    if constexpr (kSwishes) v = rounding.hard_swish(v);
    const VI8 q = to_int8(rounding(v));
    memcpy(to + j, &q, sizeof q);
  }
  if (j == cols) return;
  VF v = value_of(end, sums + j, channel + j);
  if constexpr (kAdds) {
    v = v + to_float(load_int8_n(residual + j, cols - j)) * step;
  }
  if constexpr (kSwishes) v = rounding.hard_swish(v);
  store_n(to + j, to_int8(rounding(v)), cols - j);
}

/// Up to kTileVecs vectors of channels, written in the dtype and layout of the output.
PROA_NOINLINE void finish_part(const Int8Epilogue& end, const Int8Rounding& rounding,
                               const int32_t* sums, int64_t row, int64_t channel, int some) {
  alignas(64) float v[kTileVecs * kLanes];
  for (int j = 0; j < some; j += kLanes) store(v + j, value_of(end, sums + j, channel + j));
  if (end.residual.data != nullptr) add_residual(end, row, channel, some, v);
  if (end.act != Act::kNone) activate(end.act, v, some);
  const int64_t at = end.out.rows.at(row) + channel * end.out.stride;
  if (end.out.dtype == DType::kF32) {
    float* const to = static_cast<float*>(end.out.data) + at;
    if (!kSmallBuild && end.out.stride == 1) {
      memcpy(to, v, static_cast<size_t>(some) * sizeof(float));
    } else {
      for (int j = 0; j < some; ++j) to[j * end.out.stride] = v[j];
    }
    return;
  }
  int8_t lanes[kTileVecs * kLanes];
  for (int j = 0; j < some; j += kLanes) {
    const VI8 q = to_int8(rounding(load(v + j)));
    memcpy(lanes + j, &q, sizeof q);
  }
  int8_t* const to = static_cast<int8_t*>(end.out.data) + at;
  if (!kSmallBuild && end.out.stride == 1) {
    memcpy(to, lanes, static_cast<size_t>(some));
  } else {
    for (int j = 0; j < some; ++j) to[j * end.out.stride] = lanes[j];
  }
}

/// The elements of a vector over channels, then zeros; zeros alone if it is not given.
PROA_NOINLINE void copy_channels(const View* v, int64_t channels, float* to) {
  memset(to, 0, static_cast<size_t>(channels + kPadding) * sizeof(float));
  if (v == nullptr || !v->given()) return;
  const int64_t step = v->numel() == 1 ? 0 : v->stride[v->rank - 1];
#pragma GCC unroll 1
  for (int64_t i = 0; i < channels; ++i) to[i] = v->as<const float>()[i * step];
}

/// How far an estimate may be from the quotient that the epilogue defines, of results within 129
/// of 0. Each operation is within 2^-24 of what it computes, relative; `shift` bounds the shifts
/// and `residual` the residuals, both divided by the result's scale.
float error_of(float shift, float residual) {
  // The exact form has an error of at most 516 + B + 3 R of that and the estimate one of
  // 771 + 3 B + 3 R, where B bounds the shifts and R the residuals.
  return 0x1p-24f * (1400.0f + 8.0f * (shift + 128.0f) + 8.0f * residual);
}
/// The same of hard_swish: both forms compute the same v * min(6, max(0, v + 3)). Its factor,
/// 1 / 6 within half of 2^-24, and the division by the scale add 3 * 129 to the exact form; to the
/// estimate its factor adds 3 * 129 and the sum, with a zero point within 128, 257.
constexpr float kSwishError = 0x1p-24f * 1400.0f;
/// Sets end->estimate, if the results are int8 and bounds of its error are small.
void begin_estimate(int64_t channels, bool adds, float* memory, Int8Epilogue* end) {
  const bool swishes = end->act == Act::kHardSwish && !adds;
  if (end->out.dtype != DType::kI8 || end->quant.inverse == 0.0f) return;
  if (!is_clamp(end->act) && !swishes) return;
  float* const scale = memory;
  float* const shift = memory + channels + kPadding;
  const float zero = static_cast<float>(end->quant.zero);
  float largest = 0.0f, farthest = 0.0f;
  for (int64_t i = 0; i < channels + kPadding; ++i) {
    scale[i] = end->scale[i] / end->quant.scale;
    shift[i] = end->shift[i] / end->quant.scale + zero;
    const float a = scale[i] < 0 ? -scale[i] : scale[i], b = shift[i] < 0 ? -shift[i] : shift[i];
    largest = a <= largest ? largest : a;  // also NaN
    farthest = b <= farthest ? farthest : b;
  }
  Int8Estimate& e = end->estimate;
  e.scale = swishes ? end->scale : scale;
  e.shift = swishes ? end->shift : shift;
  e.step = adds ? end->residual_scale / end->quant.scale : 0.0f;
  const float residual = 128.0f * (e.step < 0 ? -e.step : e.step);
  const float error = swishes ? kSwishError : error_of(farthest, residual);
  if (!(largest < 0.25f) || !(error < 1.0f / 64.0f)) return;  // t is within int32
  e.limit = 0.5f - error;
  e.low = end->quant.low;
  e.high = 127;
  if (swishes) {
    e.swish = end->quant.inverse / 6.0f;
    e.zero = zero;
  }
  if (end->act == Act::kRelu || end->act == Act::kRelu6)
    e.low = max(end->quant.low, end->quant.zero);
  if (end->act != Act::kRelu6) return;
  const VI six = round_to_int(min(splat(1024.0f), splat(6.0f / end->quant.scale)));
  e.high = min(e.high, six[0] + end->quant.zero);
}

/// By the definition.
PROA_NOINLINE void finish_exactly(const Int8Epilogue& end, const int32_t* sums, int64_t ldt,
                                  int64_t row, int rows, int64_t col, int cols) {
  const Int8Rounding rounding(end);
  const MatrixRef& r = end.residual;
  const bool adds = r.data != nullptr;
  const bool swishes = !kSmallBuild && end.act == Act::kHardSwish && !adds;
  const bool straight =
      end.out.dtype == DType::kI8 && end.out.stride == 1 && (is_clamp(end.act) || swishes);
  if (straight && (!adds || (!kSmallBuild && r.dtype == DType::kI8 && r.stride == 1))) {
    int8_t* const to = static_cast<int8_t*>(end.out.data) + col;
    const int8_t* const from = static_cast<const int8_t*>(r.data) + col;
    for (int i = 0; i < rows; ++i, sums += ldt) {
      int8_t* const line = to + end.out.rows.at(row + i);
      if (!kSmallBuild && adds)
        quantize_row<true, false>(end, rounding, sums, col, cols, from + r.rows.at(row + i), line);
      else if (!kSmallBuild && swishes)
        quantize_row<false, true>(end, rounding, sums, col, cols, nullptr, line);
      else
        quantize_row<false, false>(end, rounding, sums, col, cols, nullptr, line);
    }
    return;
  }
  constexpr int kPart = kTileVecs * kLanes;
  for (int i = 0; i < rows; ++i, sums += ldt)
    for (int j = 0; j < cols; j += kPart)
      finish_part(end, rounding, sums + j, row + i, col + j, cols - j < kPart ? cols - j : kPart);
}

/// By estimates, and by the definition where they do not suffice. Residuals are int8.
template <bool kAdds, bool kSwishes>
void finish_estimated(const Int8Epilogue& end, const int32_t* sums, int64_t ldt, int64_t row,
                      int rows, int64_t col, int cols) {
  const Int8Estimate& e = end.estimate;
  int8_t* const to = static_cast<int8_t*>(end.out.data) + col;
  const int8_t* const from = static_cast<const int8_t*>(end.residual.data) + col;
  for (int i = 0; i < rows; ++i, sums += ldt) {
    int8_t* const line = to + end.out.rows.at(row + i);
    const int8_t* const residual = kAdds ? from + end.residual.rows.at(row + i) : nullptr;
    if (!PROA_LIKELY((estimate_row<kAdds, kSwishes>(e, sums, col, cols, residual, line))))
      finish_exactly(end, sums, ldt, row + i, 1, col, cols);
  }
}

/// True if results and the residual are contiguous int8, as estimates write and read them.
bool is_estimated(const Int8Epilogue& end) {
  const MatrixRef& r = end.residual;
  return end.estimate.limit > 0.0f && end.out.stride == 1 &&
         (r.data == nullptr || (r.dtype == DType::kI8 && r.stride == 1));
}

}  // namespace

size_t int8_epilogue_bytes(int64_t channels) {
  return (static_cast<size_t>((kEstimates ? 4 : 2) * (channels + kPadding)) * sizeof(float) + 63) &
         ~size_t{63};
}

void begin_int8_epilogue(const View* multiplier, const View* bias, int64_t channels,
                         const Int8Ending& ending, void* memory, Int8Epilogue* end) {
  float* const scale = static_cast<float*>(memory);
  float* const shift = scale + channels + kPadding;
  copy_channels(multiplier, channels, scale);
  copy_channels(bias, channels, shift);
  end->scale = scale;
  end->shift = shift;
  end->residual_scale = static_cast<float>(ending.residual_scale);
  end->act = static_cast<Act>(ending.act);
  end->quant.scale = static_cast<float>(ending.out_scale);
  end->quant.inverse = inverse_of(end->quant.scale);
  end->quant.zero = static_cast<int32_t>(ending.out_zero);
  end->quant.low = static_cast<int32_t>(ending.low);
  if constexpr (kEstimates)
    begin_estimate(channels, end->residual.data != nullptr, shift + channels + kPadding, end);
}

void finish_int8(const void* ctx, void* tile, int64_t ldt, int64_t row, int rows, int64_t col,
                 int cols) {
  const Int8Epilogue& end = *static_cast<const Int8Epilogue*>(ctx);
  const int32_t* const sums = static_cast<const int32_t*>(tile);
  if constexpr (kEstimates) {
    if (is_estimated(end)) {
      if (end.residual.data != nullptr)
        return finish_estimated<true, false>(end, sums, ldt, row, rows, col, cols);
      if (end.estimate.swish != 0.0f)
        return finish_estimated<false, true>(end, sums, ldt, row, rows, col, cols);
      return finish_estimated<false, false>(end, sums, ldt, row, rows, col, cols);
    }
  }
  finish_exactly(end, sums, ldt, row, rows, col, cols);
}

void set_int8_output(GemmOutput* out, const Int8Epilogue* end, Int8Ends* ends) {
  out->epilogue = finish_int8;
  out->epilogue_ctx = end;
  if constexpr (kEstimates) {
    const MatrixRef &y = end->out, &r = end->residual;
    if (!is_estimated(*end) || !y.rows.uniform() || !r.rows.uniform()) return;
    *ends = {end->estimate, static_cast<int8_t*>(y.data), y.rows.step(),
             static_cast<const int8_t*>(r.data), r.rows.step()};
    out->int8 = ends;
  }
}

}  // namespace proa::PROA_ISA
