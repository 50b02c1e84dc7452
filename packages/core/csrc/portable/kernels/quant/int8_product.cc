#include "proa/kernels/quant/int8_product.h"
#include "proa/base/arith.h"

#include <string.h>

namespace proa::PROA_ISA {
namespace {

size_t head_bytes(int64_t n) {
  return (static_cast<size_t>(gemm_columns(kMicroI8, n)) * 4 + 63) & ~size_t{63};
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

/// The same of a matrix whose columns are contiguous, by copies.
const void* read_column(const void* ctx, int64_t out, int64_t unit, int64_t count, void* buffer) {
  const Int8Kernels& w = *static_cast<const Int8Kernels*>(ctx);
  const int64_t first = unit * kInt8Steps, left = w.depth - first, whole = count * kInt8Steps;
  const int64_t some = left < whole ? left : whole;
  memcpy(buffer, w.data + out * w.out + first, static_cast<size_t>(some));
  memset(static_cast<int8_t*>(buffer) + some, 0, static_cast<size_t>(whole - some));
  return buffer;
}
bool has_contiguous_columns(const Int8Kernels& w) {
  return !kSmallBuild && sizeof(Int8Step) == 1 && w.step == 1 && w.taps_h * w.runs == 1 &&
         w.run == w.depth;
}
int32_t sum_column(const int8_t* from, int64_t n) {
  VI sum = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sum += load_int8(from + i);
  int32_t total = 0;
  for (int k = 0; k < kLanes; ++k) total += sum[k];
  for (; i < n; ++i) total += from[i];
  return total;
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

/// Adds each output's elements to its sum.
void sum_outputs(const Int8Kernels& w, int32_t* sums) {
  for (int64_t tap = 0; tap < w.taps_h; ++tap)
    for (int64_t at = 0; at < w.runs * w.run; ++at) {
      const int8_t* from = step_of(w, tap, at);
      if (w.out == 1)
        for (int64_t o = 0; o < w.outs; ++o) sums[o] += from[o];
      else
        for (int64_t o = 0; o < w.outs; ++o) sums[o] += from[o * w.out];
    }
}

}  // namespace

size_t int8_packed_size(const Int8Kernels& w) {
  return (head_bytes(w.outs) + gemm_packed_size(kMicroI8, w.outs, w.units()) + 63) & ~size_t{63};
}

void int8_pack(const Int8Kernels& w, void* packed, int32_t zero) {
  int32_t* head = static_cast<int32_t*>(packed);
  memset(head, 0, head_bytes(w.outs));
  uint8_t* const panels = static_cast<uint8_t*>(packed) + head_bytes(w.outs);
  Micro micro = kMicroI8;
  micro.k_block = w.units() > 0 ? w.units() : 1;
  const bool contiguous_outs = !kSmallBuild && w.out == 1, columns = has_contiguous_columns(w);
  gemm_pack(
      micro,
      {&w, contiguous_outs ? read_unit : (columns ? read_column : read_kernel), contiguous_outs},
      w.outs, w.units(), panels);
  const int32_t factor = -(kInt8Offset + zero);
  if (factor != 0) {
    if (columns) {
      for (int64_t o = 0; o < w.outs; ++o) head[o] = sum_column(w.data + o * w.out, w.depth);
    } else if (contiguous_outs || sizeof(Int8Step) != 1) {
      sum_outputs(w, head);
    } else {
      constexpr int64_t kUnits = 128;
      int8_t steps[kUnits * 4];
      for (int64_t o = 0; o < w.outs; ++o) {
        for (int64_t u = 0; u < w.units(); u += kUnits) {
          const int64_t some = w.units() - u < kUnits ? w.units() - u : kUnits;
          read_kernel(&w, o, u, some, steps);
          for (int64_t k = 0; k < some * 4; ++k) head[o] += steps[k];
        }
      }
    }
    // Without sign: of attention's keys there may be so many that this wraps around.
    for (int64_t o = 0; o < w.outs; ++o)
      head[o] =
          static_cast<int32_t>(static_cast<uint32_t>(head[o]) * static_cast<uint32_t>(factor));
  }
  arrange_int8(panels, static_cast<size_t>(w.units() * gemm_columns(kMicroI8, w.outs)) * 4);
}

const void* int8_panels(const Int8Kernels& w, const void* packed) {
  return static_cast<const uint8_t*>(packed) + head_bytes(w.outs);
}

Int8Kernels int8_matrix(const View& w) {
  return {w.as<const int8_t>(), w.stride[1], 0,          0, w.stride[0],
          w.shape[1],           1,           w.shape[0], 1, w.shape[0]};
}

// On its own, as bytes that are written may be anything else for the compiler.
void copy_int8_row(const int8_t* from, int64_t stride, int64_t k, Int8Step* __restrict to) {
  if (stride == 1)
    for (int64_t p = 0; p < k; ++p) to[p] = static_cast<Int8Step>(from[p] ^ kInt8Offset);
  else
    for (int64_t p = 0; p < k; ++p) to[p] = static_cast<Int8Step>(from[p * stride] ^ kInt8Offset);
}

PatchGemm int8_rows_product(const Int8Kernels& w, const void* packed, const void* rows, int64_t m) {
  PatchGemm p = {};
  p.g.micro = &int8_micro_kernel();
  p.g.m = m;
  p.g.n = w.outs;
  p.g.init = packed;
  p.g.packed = int8_panels(w, packed);
  p.a.data = rows;
  p.a.rows = 1;
  p.a.cols = m;
  p.a.patches = {int8_pitch(w.depth) * static_cast<int64_t>(sizeof(Int8Step)), 1, 1, 0, 0};
  p.a.run = w.run_units();
  return p;
}

}  // namespace proa::PROA_ISA
