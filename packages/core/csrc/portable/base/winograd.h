#pragma once
// Which convolutions are computed by Winograd's algorithm. The kernels follow this rule, and so
// does the selection of kernels for a library (docs/decisions/0001-winograd-by-kernel-shape.md).
#include "proa/base/dtype.h"

namespace proa {

/// The weights of a convolution and how they are applied, by (height, width).
struct ConvWeightShape {
  DType dtype;
  int64_t taps[2], stride[2], dilation[2];
  int64_t groups, depth, outs;  // channels in and out of one group
};

PROA_INLINE constexpr bool suits_winograd(const ConvWeightShape& w) {
  const bool is_type = w.dtype == DType::kF32 || w.dtype == DType::kF16 || w.dtype == DType::kBF16;
  return is_type && w.taps[0] == 3 && w.taps[1] == 3 && w.dilation[0] == 1 && w.dilation[1] == 1 &&
         w.stride[0] == 1 && w.stride[1] == 1 && w.groups == 1 && w.depth >= 24 && w.outs >= 24 &&
         w.depth * w.outs <= 512 * 512;
}

}  // namespace proa
