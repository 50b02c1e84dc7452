#pragma once
// GEMM with small m: b is read once, in place, and its memory traffic sets the time.
#include "proa/simd/gemm/gemm.h"
#include "proa/simd/tuning.h"

namespace proa::PROA_ISA {

/// The largest m, for n columns of b, for which this path is faster than gemm().
inline int64_t small_m_limit(DType dtype, int64_t n) {
  if (dtype != DType::kF32) return 8;
  return n < kTiles.small_m_columns ? 4 : 16;
}

/// How products of BF16 are summed: one by one, as kMicroBF16 adds pairs, or as AMX adds a
/// register.
enum class SumOrder { kSteps, kPairs, kTiles };

/// A matrix b whose lines (rows, or columns for the transposed form) are contiguous.
struct RowMajorB {
  DType dtype;
  const void* data;
  int64_t step;   // elements between lines
  int64_t block;  // steps of k that are summed at once
  SumOrder order;
};

size_t small_m_scratch(const Micro& micro, int64_t m, int64_t k);
/// Equal to gemm() bit for bit, for a row-major b (instead of g.b).
void multiply_small_m(const Call& call, const Gemm& g, const RowMajorB& b, void* scratch);

// The same for a column-major b, not of doubles nor summed as tiles, and m <=
// kSmallMTransposedRows: AVX-512 alone.
size_t small_m_transposed_scratch(int64_t m, int64_t k);
void multiply_small_m_transposed(const Call& call, const Gemm& g, const RowMajorB& b,
                                 void* scratch);

}  // namespace proa::PROA_ISA
