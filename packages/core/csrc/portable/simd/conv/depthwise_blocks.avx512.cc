// Depthwise convolution of floats and of bfloat16, which AVX512_BF16 narrows.
#include "proa/simd/conv/depthwise_blocks.h"

#include "proa/simd/conv/depthwise_blocks_body.h"
#include "proa/simd/vec_bf16.h"

namespace proa::PROA_ISA {
namespace {

/// The same of BF16, two pixels at a time by the instruction of AVX512_BF16, to which subnormal
/// numbers are 0.
template <Act kAct>
void narrow_lines(const Job& s, const Block& at, int64_t channel, int64_t some, const Sums& sums) {
  const VectorEnd end(s.c.end, channel, some);
  const auto mask = static_cast<__mmask16>((1u << some) - 1);
  for (int l = 0; l < at.count; ++l) {
    BF16* const to = static_cast<BF16*>(s.c.end.out.data) + at.to[l] + channel;
#pragma GCC unroll 2
    for (int i = 0; i < kPixels; i += 2) {
      const __m512i both =
          NativeBf16::narrow(end.finish<kAct>(sums[l][i], 0), end.finish<kAct>(sums[l][i + 1], 0));
      if (i >= at.skip)
        _mm256_mask_storeu_epi16(to + i * s.pixel, mask, _mm512_castsi512_si256(both));
      if (i + 1 >= at.skip)
        _mm256_mask_storeu_epi16(to + (i + 1) * s.pixel, mask, _mm512_extracti64x4_epi64(both, 1));
    }
  }
}

/// The same of two vectors of channels.
template <class Results, Act kAct>
void narrow_parts(const Job& s, const Block& at, int64_t channel, const Sums& even,
                  const Sums& odd) {
  alignas(64) uint16_t order[2 * kLanes];
  for (int i = 0; i < 2 * kLanes; ++i) order[i] = static_cast<uint16_t>(i / 2 + i % 2 * kLanes);
  const __m512i interleaved = _mm512_load_si512(order);
  for (int l = 0; l < at.count; ++l) {
    BF16* const to = static_cast<BF16*>(s.c.end.out.data) + at.to[l] + channel;
#pragma GCC unroll 4
    for (int i = 0; i < kPixels; ++i) {
      if (i < at.skip) continue;
      const __m512i words = Results::narrow(activate(kAct, even[l][i]), activate(kAct, odd[l][i]));
      _mm512_storeu_si512(to + i * s.pixel, _mm512_permutexvar_epi16(interleaved, words));
    }
  }
}

}  // namespace

bool depthwise_reads_bf16(const Convolution& c) {
  return c.x.dtype == DType::kBF16 && c.x.stride[1] == 1 && depthwise_blocks_take(c);
}

void depthwise_blocks(const Convolution& c, const PaddedInput& input, const float* packed,
                      const float* bias, const GemmOutput& end, int64_t first, int64_t last) {
  Job s = float_job(c, input, packed, bias, end);
  with_act(c.end.act, [&](auto act) {
    if (finishes(c, DType::kF32)) s.finish = finish_lines<float, act.value>;
    if (!finishes(c, DType::kBF16)) return;
    const bool native = settings().bf16 == Bf16::kDots;
    s.finish = native ? narrow_lines<act.value> : finish_lines<BF16, act.value>;
    if (!c.end.by_channels())
      s.finish_parts =
          native ? narrow_parts<NativeBf16, act.value> : narrow_parts<EmulatedBf16, act.value>;
  });
  if (depthwise_reads_bf16(c))
    run<BF16>(s, first, last);
  else
    run<float>(s, first, last);
}

}  // namespace proa::PROA_ISA
