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

}  // namespace

size_t int8_epilogue_bytes(int64_t channels) {
  return (static_cast<size_t>(2 * (channels + kPadding)) * sizeof(float) + 63) & ~size_t{63};
}

void begin_int8_epilogue(const Call& c, int64_t channels, const Int8Ending& ending, void* memory,
                         Int8Epilogue* end) {
  float* const scale = static_cast<float*>(memory);
  float* const shift = scale + channels + kPadding;
  copy_channels(&c.in[2], channels, scale);
  copy_channels(c.n_in > 3 ? &c.in[3] : nullptr, channels, shift);
  end->scale = scale;
  end->shift = shift;
  end->residual_scale = static_cast<float>(ending.residual_scale);
  end->act = static_cast<Act>(ending.act);
  end->out_scale = static_cast<float>(ending.out_scale);
  end->inverse = inverse_of(end->out_scale);
}

void finish_int8(const void* ctx, void* tile, int64_t ldt, int64_t row, int rows, int64_t col,
                 int cols) {
  const Int8Epilogue& end = *static_cast<const Int8Epilogue*>(ctx);
  const int32_t* sums = static_cast<const int32_t*>(tile);
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

}  // namespace proa::PROA_ISA
