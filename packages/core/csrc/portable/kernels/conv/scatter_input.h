#pragma once
// The gradient of a convolution's input (a transposed convolution) where that has few channels.
#include "proa/base/call.h"
#include "proa/simd/conv/padded_input.h"

namespace proa::PROA_ISA {

/// True of kernels w (O, C, KH, KW) that it is for: C would fill little of a vector.
bool scatter_takes(const View& w, int64_t groups);

/// in[0] is dy, in[1] w, out[0] dx; the attributes are those of conv2d_grad_input. `bias` may be
/// nullptr. Scratch and packed kernels are those of the call.
size_t scatter_input_scratch(const Call& call);
void scatter_input(const Call& call, const View* bias);
size_t scatter_packed_size(const View& w);
void scatter_pack(const View& w, void* packed);

}  // namespace proa::PROA_ISA
