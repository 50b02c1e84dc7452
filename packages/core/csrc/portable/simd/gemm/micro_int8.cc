// Micro-kernel of int8: exact int32 sums of products.
//
// With VNNI a unit is 4 steps: a holds them as x + 128 (uint8), b as int8; the caller starts the
// sums from -128 * (column sum of b). Elsewhere a unit is 2 steps as int16 and nothing is added.
#include "proa/simd/gemm/micro_body.h"

namespace proa::PROA_ISA {
namespace {

struct Int8Arith {
  using Scalar = int32_t;
  using Vector = VI;
  PROA_INLINE static VI multiply_add(VI acc, int32_t a, VI b) {
#if defined(__AVX512VNNI__)
    return (VI)_mm512_dpbusd_epi32((__m512i)acc, _mm512_set1_epi32(a), (__m512i)b);
#elif defined(__AVX2__)
    return acc + (VI)_mm256_madd_epi16(_mm256_set1_epi32(a), (__m256i)b);
#elif defined(__SSE2__)
    return acc + (VI)_mm_madd_epi16(_mm_set1_epi32(a), (__m128i)b);
#else
    const int32_t low = static_cast<int16_t>(a), high = a >> 16;
    return acc + ((b << 16) >> 16) * low + (b >> 16) * high;
#endif
  }
};

}  // namespace

#if defined(__AVX512VNNI__)
const Micro kMicroI8 = {4, kLanes, 4, 256, run_any<Int8Arith>};
#else
const Micro kMicroI8 = {4, kLanes, 2, 256, run_any<Int8Arith>};
#endif

}  // namespace proa::PROA_ISA
