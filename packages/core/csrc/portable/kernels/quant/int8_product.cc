#include "proa/kernels/quant/int8_product.h"
#include "proa/base/arith.h"

#include <string.h>

namespace proa::PROA_ISA {
namespace {

constexpr int64_t kPadding = kTileVecs * kLanes;  // past the last channel

size_t head_bytes(int64_t n) {
  return (static_cast<size_t>(gemm_columns(kMicroI8, n)) * 4 + 63) & ~size_t{63};
}

/// The integers of vectors of floats.
struct Quantizer {
  VF scale, inverse, minus, lowest, highest;
  bool divides;

  PROA_INLINE explicit Quantizer(const Int8Epilogue& end)
      : scale(splat(end.out_scale)),
        inverse(splat(end.inverse)),
        minus(splat(-end.out_scale)),
        lowest(end.act == Act::kRelu ? VF{} : splat(-127.0f * end.out_scale)),
        highest(splat(127.0f * end.out_scale)),
        divides(end.inverse == 0.0f) {}

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
  PROA_INLINE VI8 operator()(VF v) const {
    return to_int8(round_to_int(quotient(min(highest, max(lowest, v)))));
  }
};

PROA_INLINE VF value_of(const Int8Epilogue& end, const int32_t* sums, int64_t channel) {
  return to_float(load(sums)) * load(end.scale + channel) + load(end.shift + channel);
}

/// A row to contiguous int8, without a further function: the usual case.
PROA_INLINE void quantize_row(const Int8Epilogue& end, const Quantizer& quantizer,
                              const int32_t* sums, int64_t channel, int cols, int8_t* to) {
  int j = 0;
  for (; j + kLanes <= cols; j += kLanes) {
    const VI8 q = quantizer(value_of(end, sums + j, channel + j));
    memcpy(to + j, &q, sizeof q);
  }
  if (j < cols) {
    store_n(to + j, quantizer(value_of(end, sums + j, channel + j)), cols - j);
  }
}

/// `some` contiguous channels, written in the dtype and layout of the output.
void finish_vector(const Int8Epilogue& end, const int32_t* sums, int64_t row, int64_t channel,
                   int some) {
  alignas(64) float v[kLanes];
  store(v, value_of(end, sums, channel));
  activate(end.act, v, kLanes);
  const int64_t at = end.out.rows.at(row) + channel * end.out.stride;
  if (end.out.dtype == DType::kF32) {
    float* const to = static_cast<float*>(end.out.data) + at;
    for (int j = 0; j < some; ++j) to[j * end.out.stride] = v[j];
    return;
  }
  const VI8 q = Quantizer(end)(load(v));
  int8_t lanes[sizeof q];
  memcpy(lanes, &q, sizeof q);
  int8_t* const to = static_cast<int8_t*>(end.out.data) + at;
  for (int j = 0; j < some; ++j) to[j * end.out.stride] = lanes[j];
}

/// The kernels' elements of one output, unit after unit.
const void* read_kernel(const void* ctx, int64_t out, int64_t unit, int64_t count, void* buffer) {
  const Int8Kernels& w = *static_cast<const Int8Kernels*>(ctx);
  typedef decltype(Int8Step{} - Int8Step{}) Wide;
  int8_t* bytes = static_cast<int8_t*>(buffer);
  if (count == 0) return buffer;
  const int64_t row = unit / w.run_units();
  int64_t p = row / w.runs, r = row - p * w.runs, s = (unit - row * w.run_units()) * kInt8Steps;
  int64_t q = (r * w.run + s) / w.depth, d = r * w.run + s - q * w.depth;
  for (int64_t u = 0; u < count; ++u) {
    const int8_t* from = w.data + out * w.out + p * w.tap_h;
    for (const int64_t end = s + kInt8Steps; s < end; ++s) {
      const Wide value = s < w.run ? from[q * w.tap_w + d * w.step] : 0;
      if (s < w.run && ++d == w.depth) {
        d = 0;
        ++q;
      }
      if constexpr (sizeof(Int8Step) == 1) {
        *bytes++ = static_cast<int8_t>(value);
      } else {
        const int16_t wide = static_cast<int16_t>(value);
        memcpy(bytes, &wide, 2);
        bytes += 2;
      }
    }
    if (s < w.run) continue;
    s = 0;
    if (++r == w.runs) {
      r = q = d = 0;  // runs divide a row of taps, so the next row begins with its first
      ++p;
    }
  }
  return buffer;
}

/// a / b, which mostly is 0: 64-bit division takes longer than the work on a unit.
PROA_INLINE int64_t quotient(int64_t a, int64_t b) { return a < b ? 0 : a / b; }

/// Where step `at` of a row of taps begins, of output 0.
const int8_t* step_of(const Int8Kernels& w, int64_t tap, int64_t at) {
  const int64_t q = quotient(at, w.depth);
  return w.data + tap * w.tap_h + q * w.tap_w + (at - q * w.depth) * w.step;
}

/// A unit of kLanes outputs, the first at from[i][0] in step i.
PROA_INLINE VI unit_of(const int8_t* const* from, int64_t at, int64_t steps) {
  constexpr uint32_t kBits = 8 * sizeof(Int8Step);
  VU unit = {};
  for (int64_t i = 0; i < steps; ++i) {
    unit |= (bit_cast<VU>(load_int8(from[i] + at)) & ((1u << kBits) - 1))
            << (kBits * static_cast<uint32_t>(i));
  }
  return bit_cast<VI>(unit);
}

/// One unit of outputs that are contiguous in memory.
const void* read_unit(const void* ctx, int64_t unit, int64_t out, int64_t count, void* buffer) {
  const Int8Kernels& w = *static_cast<const Int8Kernels*>(ctx);
  const int64_t row = quotient(unit, w.run_units()), tap = quotient(row, w.runs);
  const int64_t run = row - tap * w.runs;
  const int64_t s = (unit - row * w.run_units()) * kInt8Steps;
  const int64_t left = w.run - s < kInt8Steps ? w.run - s : kInt8Steps;
  const int8_t* from[kInt8Steps] = {};
  for (int64_t i = 0; i < left; ++i) from[i] = step_of(w, tap, run * w.run + s + i) + out;
  int32_t* const units = static_cast<int32_t*>(buffer);
  int64_t j = 0;
  if (left == kInt8Steps)
    for (; j + kLanes <= count; j += kLanes) store(units + j, unit_of(from, j, kInt8Steps));
  else
    for (; j + kLanes <= count; j += kLanes) store(units + j, unit_of(from, j, left));
  Int8Step* const to = static_cast<Int8Step*>(buffer);
  for (; j < count; ++j)
    for (int64_t i = 0; i < kInt8Steps; ++i)
      to[j * kInt8Steps + i] = i < left ? static_cast<Int8Step>(from[i][j]) : Int8Step{0};
  return buffer;
}

/// The sums of each output's elements, of outputs that are contiguous in memory.
void sum_outputs(const Int8Kernels& w, int32_t* sums) {
  for (int64_t tap = 0; tap < w.taps_h; ++tap)
    for (int64_t at = 0; at < w.runs * w.run; ++at) {
      const int8_t* from = step_of(w, tap, at);
      for (int64_t o = 0; o < w.outs; ++o) sums[o] += from[o];
    }
}

}  // namespace

size_t int8_epilogue_bytes(int64_t channels) {
  return (static_cast<size_t>(2 * (channels + kPadding)) * sizeof(float) + 63) & ~size_t{63};
}

Int8Epilogue make_int8_epilogue(const View& multiplier, const View* bias, int64_t channels,
                                const MatrixRef& out, int64_t act, double out_scale, void* memory) {
  float* const scale = static_cast<float*>(memory);
  float* const shift = scale + channels + kPadding;
  const int64_t step = multiplier.numel() == 1 ? 0 : multiplier.stride[multiplier.rank - 1];
  const bool shifted = bias != nullptr && bias->given();
  const int64_t other = !shifted || bias->numel() == 1 ? 0 : bias->stride[bias->rank - 1];
  for (int64_t i = 0; i < channels + kPadding; ++i) {
    scale[i] = i < channels ? multiplier.as<const float>()[i * step] : 0.0f;
    shift[i] = i < channels && shifted ? bias->as<const float>()[i * other] : 0.0f;
  }
  const float divisor = static_cast<float>(out_scale);
  // Outside this range the corrections of a quotient may lose bits.
  const bool usual = divisor > 0x1p-80f && divisor < 0x1p80f;
  return {scale, shift, out, static_cast<Act>(act), divisor, usual ? 1.0f / divisor : 0.0f};
}

void finish_int8(const void* ctx, void* tile, int64_t ldt, int64_t row, int rows, int64_t col,
                 int cols) {
  const Int8Epilogue& end = *static_cast<const Int8Epilogue*>(ctx);
  const int32_t* sums = static_cast<const int32_t*>(tile);
  if (end.out.dtype == DType::kI8 && end.out.stride == 1 && end.act <= Act::kRelu) {
    const Quantizer quantizer(end);
    int8_t* const to = static_cast<int8_t*>(end.out.data) + col;
    for (int i = 0; i < rows; ++i, sums += ldt)
      quantize_row(end, quantizer, sums, col, cols, to + end.out.rows.at(row + i));
    return;
  }
  for (int i = 0; i < rows; ++i, sums += ldt)
    for (int j = 0; j < cols; j += kLanes)
      finish_vector(end, sums + j, row + i, col + j, cols - j < kLanes ? cols - j : kLanes);
}

size_t int8_packed_size(const Int8Kernels& w) {
  return (head_bytes(w.outs) + gemm_packed_size(kMicroI8, w.outs, w.units()) + 63) & ~size_t{63};
}

void int8_pack(const Int8Kernels& w, void* packed) {
  int32_t* head = static_cast<int32_t*>(packed);
  memset(head, 0, head_bytes(w.outs));
  uint8_t* const panels = static_cast<uint8_t*>(packed) + head_bytes(w.outs);
  Micro micro = kMicroI8;
  micro.k_block = w.units() > 0 ? w.units() : 1;
  const bool contiguous_outs = !kSmallBuild && w.out == 1;
  gemm_pack(micro, {&w, contiguous_outs ? read_unit : read_kernel, contiguous_outs}, w.outs,
            w.units(), panels);
  if (kInt8Offset != 0 && contiguous_outs) {
    sum_outputs(w, head);
    for (int64_t o = 0; o < w.outs; ++o) head[o] *= -kInt8Offset;
  } else if (kInt8Offset != 0) {
    constexpr int64_t kUnits = 128;
    int8_t steps[kUnits * 4];
    for (int64_t o = 0; o < w.outs; ++o) {
      int32_t sum = 0;
      for (int64_t u = 0; u < w.units(); u += kUnits) {
        const int64_t some = w.units() - u < kUnits ? w.units() - u : kUnits;
        read_kernel(&w, o, u, some, steps);
        for (int64_t k = 0; k < some * 4; ++k) sum += steps[k];
      }
      head[o] = -kInt8Offset * sum;
    }
  }
  arrange_int8(panels, static_cast<size_t>(w.units() * gemm_columns(kMicroI8, w.outs)) * 4);
}

const void* int8_panels(const Int8Kernels& w, const void* packed) {
  return static_cast<const uint8_t*>(packed) + head_bytes(w.outs);
}

}  // namespace proa::PROA_ISA
