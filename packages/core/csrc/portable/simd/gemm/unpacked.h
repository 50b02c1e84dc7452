#pragma once
// GEMM without packing, for products so small that packing costs more than it saves: operands are
// read in place, except a column-major b, which is transposed a panel at a time.
#include "proa/simd/gemm/product.h"
#include "proa/simd/tuning.h"

namespace proa::PROA_ISA {

/// An operand read in place: unit p of k of line i (a row of a, a column of b) is element
/// i * line + p * step.
struct UnpackedOperand {
  const void* data;
  int64_t line, step;
  PrefetchStream next;  // the same operand of the next product
};
/// c (m x n) = init + a * b. Distances are in elements.
struct UnpackedGemm {
  int64_t m, n, k;
  UnpackedOperand a, b;  // of b line or step is 1
  void* c;
  int64_t ldc;
  const void* init;  // n elements, or nullptr for 0
  bool relu;
};

bool fits_unpacked(const Product& p, int64_t work);
/// True if multiply_unpacked() supports that product and is faster than gemm(). A build without
/// doubles is for models, whose weights are prepacked: it does not use this path.
inline bool is_unpacked(const Product& p, int64_t work = kUnpackedMacs) {
  return computes(DType::kF64) && fits_unpacked(p, work);
}
UnpackedGemm unpacked_gemm(const Product& p);
/// Prefetches the operands of the next product, `a` and `b` bytes further on, during this one.
void prefetch_next(DType dtype, int64_t a, int64_t b, UnpackedGemm* s);
/// Equal to multiply() bit for bit, for floats or doubles.
void multiply_unpacked(DType dtype, const UnpackedGemm& s);

}  // namespace proa::PROA_ISA
