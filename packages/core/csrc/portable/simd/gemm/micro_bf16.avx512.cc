// Micro-kernels of bfloat16, summed in float, by AVX512_BF16's dot product of pairs.
//
// For each lane the instruction adds first the product of the upper halves, then that of the lower
// ones: two fused multiply-adds, each rounded to nearest even, with subnormal numbers read and
// written as 0. The instruction set path of AVX-512 does not prefetch for it, so that it is written
// by name here and chosen at run time; see docs/decisions/0005-bf16-dot-products.md.
#include "proa/simd/gemm/micro_body.h"
#include "proa/simd/vec_bf16.h"

namespace proa::PROA_ISA {
namespace {

/// A unit is a pair of bfloat16 in the place of a float.
template <class Bf16>
struct PairArith : Bf16 {
  using Scalar = float;
  using Vector = VF;
  PROA_INLINE static VF all(float a) { return (VF)_mm512_set1_ps(a); }
  PROA_INLINE static VF all(VF a) { return a; }
  PROA_INLINE static VF relu(VF x) { return max(VF{}, x); }  // NaN stays
};

struct DotArith : PairArith<NativeBf16> {
  template <class A>  // a pair, or that in all lanes
  PROA_INLINE static VF multiply_add(VF acc, A a, VF b) {
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(all(a)), "v"(b));
    return acc;
  }
};

struct EmulatedArith : PairArith<EmulatedBf16> {
  /// A call, not part of the loop: only its code size matters.
  __attribute__((noinline)) static VF dot(VF acc, VF a, VF b) {
    const __m512i x = (__m512i)a, y = (__m512i)b;
    const __m512 first = add_product((__m512)acc, upper(x), upper(y));
    return (VF)add_product(first, lower(x), lower(y));
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
  return {4, kLanes, 2, kFloatSteps, run_any<Arith>, run_any_patches<Arith>, {}, {}, true};
}

}  // namespace

const Micro kMicroBF16 = micro<DotArith>();
const Micro kMicroBF16Emulated = computes(DType::kF64) ? micro<EmulatedArith>() : Micro{};

}  // namespace proa::PROA_ISA
