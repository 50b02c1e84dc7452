#pragma once
// The four phases of a depthwise 3 x 3 convolution's gradient at stride 2, all at once.
#include "proa/simd/conv/convolution.h"

namespace proa::PROA_ISA {

/// True if the phases are those of 3 x 3 taps around every second pixel of a float or double dx.
bool doubled_takes(const Convolution* phases, int count, const View& dx);
/// `input` is all of dy, without padding; `bias` is padded with whole vectors or nullptr.
void depthwise_doubled(const Call& call, const Convolution* phases, const PaddedInput& input,
                       const void* bias, const View& dx);

}  // namespace proa::PROA_ISA
