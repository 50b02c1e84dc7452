#pragma once
// A product of strided float matrices with bias, residual and activation, for the linear family.
#include "proa/simd/gemm/epilogue.h"

namespace proa::PROA_ISA {

struct Product {
  DType dtype = DType::kF32;  // of both operands; a complex one goes without the extras
  int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;  // element (i, p) at a_rows.at(i) + a_steps.at(p)
  Lines a_rows, a_steps;
  const void* b = nullptr;  // element (p, j) at b_steps.at(p) + j * b_stride
  Lines b_steps;
  int64_t b_stride = 1;
  const void* packed = nullptr;
  const View* bias = nullptr;  // n elements; nullptr or not given: none
  FloatEnd end;
  bool widened = false;  // 16-bit operands are multiplied as floats whatever the CPU can do
};

size_t product_scratch(const Product& p);
void multiply(const Call& call, const Product& p, void* scratch);

/// Bytes of, and the writing of, p.b prepacked (only dtype, n, k and b's fields are read).
size_t product_packed_size(const Product& p);
void pack_product(const Product& p, void* packed);

}  // namespace proa::PROA_ISA
