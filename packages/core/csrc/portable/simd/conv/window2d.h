#pragma once
// The geometry of a convolution: a window of taps that moves over an image.
#include <stdint.h>

#include "proa/base/dispatch.h"

namespace proa::PROA_ISA {

struct Size2d {
  int64_t height = 0, width = 0;
};

/// Tap (p, q) of output position (i, j) is at (row(i, p), column(j, q)) of the input, outside of
/// which there are zeros.
struct Window2d {
  int64_t kernel_h = 1, kernel_w = 1;
  int64_t stride_h = 1, stride_w = 1;
  int64_t dilation_h = 1, dilation_w = 1;
  int64_t pad_top = 0, pad_left = 0;

  int64_t taps() const { return kernel_h * kernel_w; }
  /// Rows and columns of the input, with its padding, that the windows of such an output cover.
  Size2d extent(Size2d output) const {
    return {extent(output.height, kernel_h, stride_h, dilation_h),
            extent(output.width, kernel_w, stride_w, dilation_w)};
  }
  /// Row of the input at tap row p of output row i, and the same of columns.
  int64_t row(int64_t i, int64_t p = 0) const { return i * stride_h - pad_top + p * dilation_h; }
  int64_t column(int64_t j, int64_t q = 0) const {
    return j * stride_w - pad_left + q * dilation_w;
  }

 private:
  static int64_t extent(int64_t count, int64_t kernel, int64_t stride, int64_t dilation) {
    return count <= 0 || kernel <= 0 ? 0 : (count - 1) * stride + (kernel - 1) * dilation + 1;
  }
};

}  // namespace proa::PROA_ISA
