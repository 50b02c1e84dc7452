// Micro-kernel of int8: exact int32 sums of products.
//
// With VNNI a unit is 4 steps: a holds them as x + 128 (uint8), b as int8; the caller starts the
// sums from -128 * (column sum of b). With NEON's dot product both are int8. Elsewhere a unit is 2
// steps as int16. On NEON the first steps of the columns of a vector of b precede their second
// steps; see arrange_int8.
#include "proa/simd/gemm/micro_body.h"

namespace proa::PROA_ISA {
namespace {

struct Int8Arith {
  using Scalar = int32_t;
  using Vector = VI;
#if defined(__AVX2__)
  template <class A>  // int32_t, or that in all lanes
  PROA_INLINE static VI multiply_add(VI acc, A a, VI b) {
    const VI all = a - VI{};
#if defined(__AVX512VNNI__)
    return (VI)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)all, (__m512i)b);
#else
    return acc + (VI)_mm256_madd_epi16((__m256i)all, (__m256i)b);
#endif
  }
#else
  PROA_INLINE static VI multiply_add(VI acc, int32_t a, VI b) {
#if defined(__SSE2__)
    return acc + (VI)_mm_madd_epi16(_mm_set1_epi32(a), (__m128i)b);
#elif defined(__ARM_FEATURE_DOTPROD)
    return (VI)vdotq_s32((int32x4_t)acc, (int8x16_t)b, vreinterpretq_s8_s32(vdupq_n_s32(a)));
#elif defined(__ARM_NEON)
    const int16x4_t steps = vreinterpret_s16_s32(vdup_n_s32(a));
    const int16x8_t two = (int16x8_t)b;
    const int32x4_t first = vmlal_lane_s16((int32x4_t)acc, vget_low_s16(two), steps, 0);
    return (VI)vmlal_lane_s16(first, vget_high_s16(two), steps, 1);
#else
    const int32_t low = static_cast<int16_t>(a), high = a >> 16;
    return acc + ((b << 16) >> 16) * low + (b >> 16) * high;
#endif
  }
#endif
  PROA_INLINE static VI relu(VI x) { return x; }  // finish_int8 sees to it
};

}  // namespace

const Micro kMicroI8 = {4,       kLanes,  kInt8Steps, 256, nullptr, run_any_patches<Int8Arith>,
                        nullptr, nullptr, nullptr};

void arrange_int8(void* packed, size_t bytes) {
#if defined(__ARM_NEON) && !defined(__ARM_FEATURE_DOTPROD)
  int16_t* at = static_cast<int16_t*>(packed);
  for (size_t i = 0; i + 16 <= bytes; i += 16, at += 8) {
    const int16x8_t b = vld1q_s16(at);
    const int16x4x2_t two = vuzp_s16(vget_low_s16(b), vget_high_s16(b));
    vst1q_s16(at, vcombine_s16(two.val[0], two.val[1]));
  }
#else
  (void)packed;
  (void)bytes;
#endif
}

}  // namespace proa::PROA_ISA
