#pragma once
// Products so small that packing would take longer than it spares: everything is read where it
// lies, but for a b whose columns are lines of memory, which is turned a panel at a time.
#include "proa/simd/gemm/product.h"

namespace proa::PROA_ISA {

/// c (m x n) = init + a * b. Distances are in elements.
struct Small {
  int64_t m, n, k;
  const void* a;  // element (i, p) at i * a_row + p * a_step
  int64_t a_row, a_step;
  const void* b;  // element (p, j) at p * b_step + j * b_stride, one of which is 1
  int64_t b_step, b_stride;
  void* c;
  int64_t ldc;
  const void* init;  // n elements, or nullptr for 0
  bool relu;
  // What comes to the second-level cache meanwhile: from each, so many bytes a step.
  const void *ahead_a = nullptr, *ahead_b = nullptr;
  int64_t ahead_a_bytes = 0, ahead_b_bytes = 0;
};

// Multiply-adds up to which packing does not pay. A product alone may be shared out before that.
constexpr int64_t kSmallWork = 1 << 19, kSmallBatchWork = 1 << 20;

bool fits_small(const Product& p, int64_t work);
/// True if multiply_small() does that product, and sooner than gemm(). A build without doubles is
/// one for models, whose weights are prepacked: it goes without.
inline bool is_small(const Product& p, int64_t work = kSmallWork) {
  return computes(DType::kF64) && fits_small(p, work);
}
Small small_of(const Product& p);
/// Lets the operands of the next product come while this one runs, `a` and `b` bytes further on.
void look_ahead(DType dtype, int64_t a, int64_t b, Small* s);
/// What multiply() does, to the last bit, for floats or doubles.
void multiply_small(DType dtype, const Small& s);

}  // namespace proa::PROA_ISA
