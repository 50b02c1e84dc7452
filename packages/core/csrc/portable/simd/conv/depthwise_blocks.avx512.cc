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

/// Two vectors of channels of a pixel, the even ones and the odd ones, as BF16.
struct Interleaved {
  __m512i order;

  PROA_INLINE Interleaved() {
    alignas(64) uint16_t at[2 * kLanes];
    for (int i = 0; i < 2 * kLanes; ++i) at[i] = static_cast<uint16_t>(i / 2 + i % 2 * kLanes);
    order = _mm512_load_si512(at);
  }
  PROA_INLINE void store(BF16* to, __m512i words) const {
    _mm512_storeu_si512(to, _mm512_permutexvar_epi16(order, words));
  }
};

/// The same of two vectors of channels.
template <class Results, Act kAct>
void narrow_parts(const Job& s, const Block& at, int64_t channel, const Sums& even,
                  const Sums& odd) {
  const Interleaved pixels;
  for (int l = 0; l < at.count; ++l) {
    BF16* const to = static_cast<BF16*>(s.c.end.out.data) + at.to[l] + channel;
#pragma GCC unroll 4
    for (int i = 0; i < kPixels; ++i)
      if (i >= at.skip)
        pixels.store(to + i * s.pixel,
                     Results::narrow(activate(kAct, even[l][i]), activate(kAct, odd[l][i])));
  }
}

template <>
PROA_INLINE void clamp_parts<BF16>(const Job& s, const Block& at, int64_t channel, const Sums& even,
                                   const Sums& odd) {
  const Interleaved pixels;
  const Bounds bounds(s);
#pragma GCC unroll 2
  for (int l = 0; l < kMaxLines; ++l) {
    if (l >= at.count) return;
    BF16* const to = static_cast<BF16*>(s.c.end.out.data) + at.to[l] + channel;
#pragma GCC unroll 4
    for (int i = 0; i < kPixels; ++i)
      if (i >= at.skip)
        pixels.store(to + i * s.pixel,
                     NativeBf16::narrow(bounds.clamp(even[l][i]), bounds.clamp(odd[l][i])));
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
    if (finishes(c, DType::kF32)) {
      s.finish = finish_lines<float, act.value>;
      s.clamps = act.value <= Act::kRelu6 && !c.end.is_scaled();
    }
    if (!finishes(c, DType::kBF16)) return;
    const bool native = settings().bf16 == Bf16::kDots;
    s.finish = native ? narrow_lines<act.value> : finish_lines<BF16, act.value>;
    if (c.end.by_channels()) return;
    s.finish_parts =
        native ? narrow_parts<NativeBf16, act.value> : narrow_parts<EmulatedBf16, act.value>;
    s.clamps = native && act.value <= Act::kRelu6 && depthwise_reads_bf16(c);
  });
  if (depthwise_reads_bf16(c))
    run<BF16>(s, first, last);
  else
    run<float>(s, first, last);
}

}  // namespace proa::PROA_ISA
