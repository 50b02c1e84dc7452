#pragma once
// Correlation with 3 x 3 kernels at step 1 by minimal filtering, F(2 x 2, 3 x 3) of Lavin and Gray,
// "Fast algorithms for convolutional neural networks" (2016): 16 products make 4 results that take
// 36 directly. All constants are 0, 1 and 1/2, so it rounds about as a direct sum does: the error
// is under 2e-6 of the sum of magnitudes (tests hold it).
#include "proa/simd/conv/correlate.h"
#include "proa/simd/gemm/gemm.h"

namespace proa::PROA_ISA {

/// True of kernels that are worth it. Asks nothing of x, so that packed kernels fit whatever comes
/// and a result does not depend on the size of a batch.
bool winograd_takes(const Correlation& c);

size_t winograd_packed_size(const Correlation& c);
void winograd_pack(const Call& call, const Correlation& c, void* packed);

/// Bytes of scratch beside the frame, the packed kernels and the bias.
size_t winograd_scratch(const Correlation& c);
/// `frame` is all of x, without padding; `bias` is padded with whole vectors or nullptr; `end` says
/// where results go (its c, ldc, relu and finish).
void winograd(const Call& call, const Correlation& c, const Frame& frame, const void* packed,
              const float* bias, const Gemm& end, void* scratch);

}  // namespace proa::PROA_ISA
