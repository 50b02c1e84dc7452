// Micro-kernel of int8: exact int32 sums of products. Units are as in simd/vec_int8.h.
#include "proa/simd/gemm/micro_body.h"

namespace proa::PROA_ISA {
namespace {

struct Int8Arith {
  using Scalar = int32_t;
  using Vector = VI;
  template <class A>  // int32_t, or with AVX2 that in all lanes
  PROA_INLINE static VI multiply_add(VI acc, A a, VI b) {
    return add_unit_products(acc, a, b);
  }
  PROA_INLINE static VI relu(VI x) { return x; }  // finish_int8 sees to it
};

}  // namespace

const Micro kMicroI8 = {4,          kLanes,  kInt8Steps,
                        kInt8Units, nullptr, run_any_patches<Int8Arith>,
                        nullptr,    nullptr, nullptr};

void arrange_int8(void* packed, size_t bytes) {
  if (!kSeparatesInt8Steps) return;
  uint8_t* const at = static_cast<uint8_t*>(packed);
  for (size_t i = 0; i + kVecBytes <= bytes; i += kVecBytes) separate_int8_steps(at + i);
}

}  // namespace proa::PROA_ISA
