#pragma once
// Winograd convolution with 3 x 3 kernels at stride 1, F(2 x 2, 3 x 3) of Lavin and Gray,
// "Fast algorithms for convolutional neural networks" (2016): 16 products yield 4 results that take
// 36 directly. All constants are 0, 1 and 1/2, so it rounds about as a direct sum does: the error
// is under 2e-6 of the sum of magnitudes (tests hold it).
#include "proa/simd/conv/convolution.h"
#include "proa/simd/gemm/gemm.h"

namespace proa::PROA_ISA {

/// True for weights for which it is faster. Does not depend on x, so that packed weights serve any
/// x and a result does not depend on the size of a batch.
bool winograd_takes(const Convolution& c);

size_t winograd_packed_size(const Convolution& c);
void winograd_pack(const Call& call, const Convolution& c, void* packed);

/// Bytes of scratch besides the input, the packed weights and the bias.
size_t winograd_scratch(const Convolution& c);
/// `input` is all of x, without padding; `bias` is padded with whole vectors or nullptr; `end`
/// describes the output.
void winograd(const Call& call, const Convolution& c, const PaddedInput& input, const void* packed,
              const float* bias, const GemmOutput& end, void* scratch);

}  // namespace proa::PROA_ISA
