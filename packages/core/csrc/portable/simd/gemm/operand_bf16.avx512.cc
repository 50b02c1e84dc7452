// Units of two consecutive steps of a bfloat16 matrix. If k is the contiguous axis, units are read
// in place; if the lanes are, two lines are interleaved.
#include <string.h>

#include "proa/base/arith.h"
#include "proa/simd/gemm/pack.h"

namespace proa::PROA_ISA {
namespace {

// Elements of a line of lanes between what is read and what is prefetched: panels of other lines
// are packed in between, and the CPU follows few lines by itself.
constexpr int64_t kAhead = 128;

const uint16_t* line_of(const MatrixOperand& m, int64_t line) {
  return static_cast<const uint16_t*>(m.data) + m.lines.at(line);
}

/// Units of one lane, read along k.
const void* read_lane(const void* ctx, int64_t lane, int64_t begin, int64_t count, void* buffer) {
  const MatrixOperand& m = *static_cast<const MatrixOperand*>(ctx);
  const uint16_t* from = line_of(m, lane) + 2 * begin * m.stride;
  const int64_t there = min(2 * count, m.steps - 2 * begin);
  if (m.stride == 1 && there == 2 * count) return from;
  uint16_t* const to = static_cast<uint16_t*>(buffer);
  for (int64_t i = 0; i < there; ++i) to[i] = from[i * m.stride];
  if (there < 2 * count) to[there] = 0;
  return buffer;
}

/// One unit of contiguous lanes, interleaved from two lines.
const void* read_step(const void* ctx, int64_t unit, int64_t begin, int64_t count, void* buffer) {
  const MatrixOperand& m = *static_cast<const MatrixOperand*>(ctx);
  const bool odd = 2 * unit + 1 == m.steps;
  const uint16_t* const first = line_of(m, 2 * unit) + begin * m.stride;
  const uint16_t* const second = odd ? first : line_of(m, 2 * unit + 1) + begin * m.stride;
  uint32_t* const to = static_cast<uint32_t*>(buffer);
  if (m.stride != 1) {
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t high = odd ? 0 : second[i * m.stride];
      to[i] = first[i * m.stride] | high << 16;
    }
    return buffer;
  }
  for (int64_t i = 0; i < count; i += kLanes) {
    const auto some = static_cast<__mmask16>((1u << min(count - i, kLanes)) - 1);
    const __mmask16 others = odd ? 0 : some;
    __builtin_prefetch(first + i + kAhead);
    __builtin_prefetch(second + i + kAhead);
    const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, first + i));
    const __m512i high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(others, second + i));
    _mm512_mask_storeu_epi32(to + i, some, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
  }
  return buffer;
}

}  // namespace

PackOperand bf16_pair_operand(MatrixOperand* ctx, const void* data, const CoalescedAxes& lanes,
                              const CoalescedAxes& steps, int64_t k) {
  PackOperand s = matrix_operand(ctx, data, DType::kBF16, lanes, steps);
  ctx->steps = k;
  s.read = s.mn_major ? read_step : read_lane;
  const int64_t line = ctx->lines.step();
  if (!s.mn_major && ctx->stride == 1 && ctx->lines.uniform() && k % 2 == 0 && line % 2 == 0) {
    s.direct = data;
    s.step = line / 2;
  }
  return s;
}

}  // namespace proa::PROA_ISA
