// Micro-kernels of bfloat16, summed in float, by AVX512_BF16's dot product of pairs.
//
// For each lane the instruction adds first the product of the upper halves, then that of the lower
// ones: two fused multiply-adds, each rounded to nearest even, with subnormal numbers read and
// written as 0. The instruction set path of AVX-512 does not prefetch for it, so that it is written
// by name here and chosen at run time; see docs/decisions/0005-bf16-dot-products.md.
#include "proa/simd/gemm/micro_body.h"

namespace proa::PROA_ISA {
namespace {

/// A unit is a pair of bfloat16 in the place of a float.
struct PairArith {
  using Scalar = float;
  using Vector = VF;
  PROA_INLINE static VF all(float a) { return (VF)_mm512_set1_ps(a); }
  PROA_INLINE static VF all(VF a) { return a; }
  PROA_INLINE static void store_some(uint16_t* to, uint32_t some, __m512i words) {
    if (some == 0xffffffffu)
      _mm512_storeu_si512(to, words);
    else
      _mm512_mask_storeu_epi16(to, some, words);
  }
  PROA_INLINE static VF relu(VF x) { return max(VF{}, x); }  // NaN stays
};

struct DotArith : PairArith {
  /// To nearest even. Sums have no subnormal numbers, which this instruction would read as 0.
  PROA_INLINE static __m512i narrow(VF low, VF high) {
    __m512i r;
    __asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(r) : "v"(low), "v"(high));
    return r;
  }
  template <class A>  // a pair, or that in all lanes
  PROA_INLINE static VF multiply_add(VF acc, A a, VF b) {
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(all(a)), "v"(b));
    return acc;
  }
};

struct EmulatedArith : PairArith {
  PROA_INLINE static __m512i narrow(VF low, VF high) {
    return _mm512_inserti64x4(_mm512_castsi256_si512((__m256i)to_bf16(low)), (__m256i)to_bf16(high),
                              1);
  }
  PROA_INLINE static __m512 without_subnormals(__m512 x) {
    constexpr int kSubnormal = 0x20;
    return _mm512_mask_and_ps(x, _mm512_fpclass_ps_mask(x, kSubnormal), x, _mm512_set1_ps(-0.0f));
  }
  PROA_INLINE static __m512 add_product(__m512 acc, __m512i a, __m512i b) {
    const __m512 x = without_subnormals(_mm512_castsi512_ps(a));
    const __m512 y = without_subnormals(_mm512_castsi512_ps(b));
    return without_subnormals(_mm512_fmadd_ps(x, y, without_subnormals(acc)));
  }
  /// A call, not part of the loop: only its code size matters.
  __attribute__((noinline)) static VF dot(VF acc, VF a, VF b) {
    const __m512i x = (__m512i)a, y = (__m512i)b;
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000));
    const __m512 first =
        add_product((__m512)acc, _mm512_and_si512(x, upper), _mm512_and_si512(y, upper));
    return (VF)add_product(first, _mm512_slli_epi32(x, 16), _mm512_slli_epi32(y, 16));
  }
  template <class A>
  PROA_INLINE static VF multiply_add(VF acc, A a, VF b) {
    return dot(acc, all(a), b);
  }
};

}  // namespace

template <>
inline constexpr bool kNarrows<DotArith> = true;
template <>
inline constexpr bool kNarrows<EmulatedArith> = true;

namespace {

template <class Arith>
constexpr Micro micro() {
  return {4,
          kLanes,
          2,
          kFloatSteps,
          run_any<Arith>,
          run_any_patches<Arith>,
          nullptr,
          run_with_prefetch<Arith>,
          nullptr,
          nullptr,
          true};
}

}  // namespace

const Micro kMicroBF16 = micro<DotArith>();
const Micro kMicroBF16Emulated = computes(DType::kF64) ? micro<EmulatedArith>() : Micro{};

}  // namespace proa::PROA_ISA
