#pragma once
// The weight gradient of 3 x 3 kernels at step 1 by minimal filtering (simd/conv/winograd.h): with
// the transforms of F(2 x 2, 3 x 3), y = A^T ((G w G^T) * (B^T x B)) A, the gradient is
// dw = G^T (sum over tiles of (A dy A^T) * (B^T x B)) G: 16 products of 36.
#include "proa/simd/conv/convolution.h"

namespace proa::PROA_ISA {

/// `c` is the forward geometry.
bool winograd_weight_takes(const Convolution& c);
size_t winograd_weight_scratch(const Convolution& c);
/// `x` and `dy` are all of the arrays, without padding; dw is (O, C, 3, 3).
Status winograd_weight(const Call& call, const Convolution& c, const PaddedInput& x,
                       const PaddedInput& dy, const View& dw, void* scratch);

}  // namespace proa::PROA_ISA
