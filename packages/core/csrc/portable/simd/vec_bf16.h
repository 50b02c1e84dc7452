#pragma once
// What the micro-kernels of pairs of bfloat16 have in common: how results are narrowed, and how
// the emulations of instructions treat subnormal numbers. AVX-512 alone.
#include "proa/simd/vec.h"

#if defined(__AVX512F__)

namespace proa::PROA_ISA {

/// Stores the first results of a row, as narrow() makes them of two vectors.
struct Bf16Results {
  /// Elements of a residual, `some` of them.
  PROA_INLINE static VF load_some(const BF16* from, int64_t some) {
    return some == kLanes ? load(from) : load_n(from, some);
  }
  PROA_INLINE static void store_some(uint16_t* to, uint32_t some, __m512i words) {
    if (some == 0xffffffffu)
      _mm512_storeu_si512(to, words);
    else
      _mm512_mask_storeu_epi16(to, some, words);
  }
};

struct NativeBf16 : Bf16Results {
  /// To nearest even. Sums have no subnormal numbers, which this instruction would read as 0.
  PROA_INLINE static __m512i narrow(VF low, VF high) {
    __m512i r;
    __asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(r) : "v"(low), "v"(high));
    return r;
  }
};

struct EmulatedBf16 : Bf16Results {
  PROA_INLINE static __m512i narrow(VF low, VF high) {
    return _mm512_inserti64x4(_mm512_castsi256_si512((__m256i)to_bf16(low)), (__m256i)to_bf16(high),
                              1);
  }
  PROA_INLINE static __m512 without_subnormals(__m512 x) {
    constexpr int kSubnormal = 0x20;
    return _mm512_mask_and_ps(x, _mm512_fpclass_ps_mask(x, kSubnormal), x, _mm512_set1_ps(-0.0f));
  }
  /// acc + a * b, rounded once.
  PROA_INLINE static __m512 add_product(__m512 acc, __m512i a, __m512i b) {
    const __m512 x = without_subnormals(_mm512_castsi512_ps(a));
    const __m512 y = without_subnormals(_mm512_castsi512_ps(b));
    return without_subnormals(_mm512_fmadd_ps(x, y, without_subnormals(acc)));
  }
  /// The upper elements of pairs as floats, and the lower ones.
  PROA_INLINE static __m512i upper(__m512i pairs) {
    return _mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000)));
  }
  PROA_INLINE static __m512i lower(__m512i pairs) { return _mm512_slli_epi32(pairs, 16); }
};

}  // namespace proa::PROA_ISA

#endif

namespace proa::PROA_ISA {

/// Stores v as BF16, if kNative by the instruction of AVX512_BF16, to which subnormal numbers are
/// 0; `some` elements of it, of which kLanes is known at compile time.
template <bool kNative>
PROA_INLINE void store_rounded(BF16* to, VF v, int64_t some) {
#if defined(__AVX512F__)
  if constexpr (kNative) {
    const __m256i words = _mm512_castsi512_si256(NativeBf16::narrow(v, v));
    const auto mask = static_cast<__mmask16>((1u << some) - 1);
    if (some == kLanes)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), words);
    else
      _mm256_mask_storeu_epi16(to, mask, words);
    return;
  }
#endif
  if (some == kLanes)
    store(to, v);
  else
    store_n(to, v, some);
}

}  // namespace proa::PROA_ISA
