#pragma once
// A product of strided float matrices with bias, residual and activation, for the linear family.
#include "proa/simd/gemm/epilogue.h"

namespace proa::PROA_ISA {

/// The left operand: element (i, p) is data[rows.at(i) + steps.at(p)].
struct OperandA {
  const void* data = nullptr;
  CoalescedAxes rows, steps;
};
/// The right operand: element (p, j) is data[steps.at(p) + j * stride].
struct OperandB {
  const void* data = nullptr;
  CoalescedAxes steps;
  int64_t stride = 1;
  const void* packed = nullptr;  // what pack_product wrote of it, or nullptr
};

struct Product {
  DType dtype = DType::kF32;  // of both operands; complex products have no bias, residual or act
  int64_t m = 0, n = 0, k = 0;
  OperandA a;
  OperandB b;
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
