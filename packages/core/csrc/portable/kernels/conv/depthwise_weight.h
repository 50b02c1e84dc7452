#pragma once
// The weight gradient of a depthwise convolution.
#include "proa/simd/conv/convolution.h"

namespace proa::PROA_ISA {

/// `c` is the forward geometry; in[1] is dy and out[0] dw.
Status depthwise_weight(const Call& call, const Convolution& c);
size_t depthwise_weight_scratch(const Call& call, const Convolution& c);

}  // namespace proa::PROA_ISA
