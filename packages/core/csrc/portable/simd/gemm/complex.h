#pragma once
// Products of complex matrices, computed as real ones of twice the columns and steps.
#include "proa/simd/gemm/product.h"

namespace proa::PROA_ISA {

/// The micro-kernel and the output are those of the real type. Bias, residual and activation of p
/// are ignored, and so is a packed b.
size_t complex_scratch(const Product& p);
void multiply_complex(const Call& call, const Product& p, void* scratch);

}  // namespace proa::PROA_ISA
