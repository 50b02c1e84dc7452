#pragma once
// The end of a gradient of kernels: sums, in float or double, become kernels.
#include "proa/simd/conv/convolution.h"

namespace proa::PROA_ISA {

/// Sum of element e of the window (taps, then channels) for out o:
/// sums[p * part + o * out + e * element], to be added over the parts p.
struct WeightSums {
  const void* sums;
  int64_t out, element;
  int64_t part, parts;
};

/// Writes the kernels of one group of a convolution of that geometry to dw.
Status write_weight_sums(const Call& call, const Convolution& c, const WeightSums& s, int64_t group,
                         const View& dw);

}  // namespace proa::PROA_ISA
