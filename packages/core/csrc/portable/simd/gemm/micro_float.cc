// Micro-kernels of float and double. 16-bit floats are packed to float first.
#include "proa/base/dispatch.h"
#include "proa/simd/gemm/micro_body.h"

namespace proa::PROA_ISA {
namespace {

template <class T>
struct FloatArith {
  using Scalar = T;
  using Vector = Vec<T>;
  PROA_INLINE static Vector multiply_add(Vector acc, Vector a, Vector b) {
    return add_product(acc, a, b);
  }
  PROA_INLINE static Vector multiply_add(Vector acc, T a, Vector b) {
    return add_product(acc, splat(a), b);
  }
  PROA_INLINE static Vector relu(Vector x) {  // NaN stays
    if constexpr (sizeof(T) == 4)
      return max(Vector{}, x);
    else
      return x < Vector{} ? Vector{} : x;
  }
};

}  // namespace

template <>
inline constexpr bool kTakesEnds<FloatArith<float>> = !kSmallBuild;

const Micro kMicroF32 = {4,
                         kLanesOf<float>,
                         1,
                         kFloatSteps,
                         run_any<FloatArith<float>>,
                         run_any_patches<FloatArith<float>>,
                         {computes(DType::kF64) ? run_and_pack_b<FloatArith<float>> : nullptr,
                          computes(DType::kF64) ? run_uncached<FloatArith<float>> : nullptr,
                          computes(DType::kF64) ? run_row<FloatArith<float>> : nullptr}};
const Micro kMicroF64 = {8,
                         kLanesOf<double>,
                         1,
                         kDoubleSteps,
                         run_any<FloatArith<double>>,
                         nullptr,
                         {run_and_pack_b<FloatArith<double>>}};

}  // namespace proa::PROA_ISA
