#pragma once
// Correlation of each channel with a kernel of its own: the channels are the vector.
#include "proa/base/settings.h"
#include "proa/simd/conv/correlate.h"
#include "proa/simd/gemm/gemm.h"

namespace proa::PROA_ISA {

inline bool depthwise_takes(const Correlation& c) {
  return kHasDepthwise && c.depth == 1 && c.outs == 1 && c.groups > 1;
}
/// Kernels as [tap][channel], the channels filled up to whole vectors; size is that of an element.
size_t depthwise_packed_size(const Correlation& c, int64_t size);
/// `lines` lines of the output from `first` on, those of all images being counted. `frame` is all
/// of x, without padding, or has what these lines read in its place; `bias` is padded with whole
/// vectors or nullptr; `end` says where results go (its c, ldc, relu and finish).
void depthwise(const Call& call, const Correlation& c, const Frame& frame, const void* packed,
               const void* bias, const Gemm& end, int64_t first, int64_t lines);

/// The same for lines [first, last), on the calling thread.
void depthwise_lines(const Correlation& c, const Frame& frame, const void* packed, const void* bias,
                     const Gemm& end, int64_t first, int64_t last);
/// Lines worth handing to another thread.
int64_t depthwise_grain(const Correlation& c);

/// Channels of a line of the packed kernels.
inline int64_t depthwise_width(const Correlation& c) {
  const int64_t lanes = is_double(c.kernels.dtype) ? kLanesOf<double> : kLanesOf<float>;
  return (c.groups + lanes - 1) / lanes * lanes;
}

}  // namespace proa::PROA_ISA
