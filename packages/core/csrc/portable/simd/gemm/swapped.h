#pragma once
// The product c = a * b computed as its transpose b^T a^T, whose tiles are transposed as they are
// written: AVX-512 alone.
#include "proa/simd/gemm/product.h"

namespace proa::PROA_ISA {

size_t swapped_scratch(const Product& p);
/// Equal to multiply() bit for bit, for float32 without bias, residual or activation and with
/// contiguous rows of c.
void multiply_swapped(const Call& call, const Product& p, void* scratch);

}  // namespace proa::PROA_ISA
