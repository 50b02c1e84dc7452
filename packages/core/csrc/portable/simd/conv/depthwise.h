#pragma once
// Depthwise convolution, vectorized over the channels.
#include "proa/base/settings.h"
#include "proa/simd/conv/convolution.h"
#include "proa/simd/gemm/gemm.h"

namespace proa::PROA_ISA {

inline bool depthwise_takes(const Convolution& c) {
  return kHasDepthwise && c.channels.in == 1 && c.channels.out == 1 && c.channels.groups > 1;
}
/// ConvWeights as [tap][channel], the channels filled up to whole vectors; size is that of an
/// element.
size_t depthwise_packed_size(const Convolution& c, int64_t size);
/// `lines` lines of the output from `first` on, counted over all images. `input` is all
/// of x, without padding, or the region that these lines read; `bias` is padded with whole
/// vectors or nullptr; `end` describes the output.
void depthwise(const Call& call, const Convolution& c, const PaddedInput& input, const void* packed,
               const void* bias, const GemmOutput& end, int64_t first, int64_t lines);

/// The same for lines [first, last), on the calling thread.
void depthwise_lines(const Convolution& c, const PaddedInput& input, const void* packed,
                     const void* bias, const GemmOutput& end, int64_t first, int64_t last);
/// Minimum lines of one task.
int64_t depthwise_grain(const Convolution& c);

/// Taps [first, end) of a window.
struct Taps {
  int64_t first, end;
};
/// Those of `taps` at `at`, at + step, ... that fall into [0, size).
PROA_INLINE Taps taps_inside(int64_t at, int64_t step, int64_t taps, int64_t size) {
  Taps t = {0, taps};
  while (t.first < t.end && at + t.first * step < 0) ++t.first;
  while (t.first < t.end && at + (t.end - 1) * step >= size) --t.end;
  return t;
}

/// Channels of a line of the packed kernels.
inline int64_t depthwise_width(const Convolution& c) {
  const int64_t lanes = is_double(c.kernels.dtype) ? kLanesOf<double> : kLanesOf<float>;
  return (c.channels.groups + lanes - 1) / lanes * lanes;
}

}  // namespace proa::PROA_ISA
