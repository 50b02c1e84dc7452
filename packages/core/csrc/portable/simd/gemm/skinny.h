#pragma once
// Products of a few rows with a matrix that is read once, where it lies: the time is that of
// reading it.
#include "proa/simd/gemm/gemm.h"

namespace proa::PROA_ISA {

constexpr int64_t kSkinnyRows = 16;

/// The float matrix b: element (k, col) at k * step_k + col * step_n, one of which is 1.
struct SkinnyB {
  const float* data;
  int64_t step_k, step_n;
};
size_t skinny_scratch(int64_t k);
/// g's a, n, k, init, c, relu and finish say what and where to; m <= kSkinnyRows.
void multiply_skinny(const Call& call, const Gemm& g, const SkinnyB& b, void* scratch);

}  // namespace proa::PROA_ISA
