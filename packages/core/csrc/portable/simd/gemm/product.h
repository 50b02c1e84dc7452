#pragma once
// A product of strided float matrices with bias, residual and activation, for the linear family.
#include "proa/simd/gemm/epilogue.h"

namespace proa::PROA_ISA {

struct Product {
  DType dtype = DType::kF32;  // of both operands; complex products have no bias, residual or act
  int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;  // element (i, p) at a_rows.at(i) + a_steps.at(p)
  CoalescedAxes a_rows, a_steps;
  const void* b = nullptr;  // element (p, j) at b_steps.at(p) + j * b_stride
  CoalescedAxes b_steps;
  int64_t b_stride = 1;
  const void* packed = nullptr;
  const View* bias = nullptr;  // n elements; nullptr or not given: none
  FloatEpilogue end;
};

/// The starts of b's columns.
CoalescedAxes b_columns(const Product& p);
size_t product_scratch(const Product& p);
void multiply(const Call& call, const Product& p, void* scratch);

/// Size in bytes and writing of p.b prepacked (only dtype, n, k and b's fields are read).
size_t product_packed_size(const Product& p);
void pack_product(const Product& p, void* packed);

}  // namespace proa::PROA_ISA
