#pragma once
// Depthwise convolution of floats and bfloat16 by blocks of two lines of four pixels, whose sums
// stay in registers: every column of x is read once for all of them, and every kernel once or, with
// 16 registers, once for each line of x.
#include "proa/base/settings.h"
#include "proa/simd/conv/convolution.h"
#include "proa/simd/conv/depthwise.h"
#include "proa/simd/gemm/gemm.h"

namespace proa::PROA_ISA {

constexpr bool kHasDepthwiseBlocks = kHasAvx2 && !kSmallBuild;

constexpr int kBlockPixels = 4;

/// Depthwise convolutions with 3 x 3 windows of step 1 or 2 or 5 x 5 windows of step 1.
inline bool depthwise_blocks_take(const Convolution& c) {
  if (!depthwise_takes(c) || is_double(c.kernels.dtype)) return false;
  const Window2d& w = c.window;
  if (w.dilation_h != 1 || w.dilation_w != 1 || w.kernel_h != w.kernel_w ||
      w.stride_h != w.stride_w)
    return false;
  const bool fits =
      w.kernel_h == 3 ? w.stride_h == 1 || w.stride_h == 2 : w.kernel_h == 5 && w.stride_h == 1;
  return fits && c.output.width >= kBlockPixels;
}
/// Those that read bfloat16 where it is, instead of a copy in float.
bool depthwise_reads_bf16(const Convolution& c);
/// As depthwise_lines(), of a convolution that depthwise_blocks_take(); `packed` and `bias` are
/// floats. `input` is of the type of x if depthwise_reads_bf16(), else of floats.
void depthwise_blocks(const Convolution& c, const PaddedInput& input, const float* packed,
                      const float* bias, const GemmOutput& end, int64_t first, int64_t last);

}  // namespace proa::PROA_ISA
