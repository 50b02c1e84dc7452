#pragma once
// Packing of BF16 kernels by pairs of channels, in the layouts that tensors have: training packs
// the kernels at every call.
#include "proa/simd/conv/convolution.h"

namespace proa::PROA_ISA {

/// True if pack_kernel_pairs packs these kernels as stored: either the channels and taps of an out
/// are contiguous, the taps innermost, and the channels are even, or outs are a few elements apart
/// and their taps are stored between.
bool kernel_pairs_takes(const Convolution& c);

/// What gemm_pack writes of the kernels of a group, which start at `base`; `units` are a pixel's.
void pack_kernel_pairs(const Convolution& c, const Micro& micro, const uint16_t* base,
                       int64_t units, uint32_t* packed);

}  // namespace proa::PROA_ISA
