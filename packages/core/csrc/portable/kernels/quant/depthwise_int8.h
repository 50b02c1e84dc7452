#pragma once
// Depthwise int8 convolution by dot products of four rows of the window: AVX-512 alone.
#include "proa/kernels/quant/int8_epilogue.h"
#include "proa/simd/conv/padded_input.h"

namespace proa::PROA_ISA {

/// What packed weights depend on: the window, its strides and dilations.
struct DepthwiseWindow {
  int64_t taps_h, taps_w;
  int64_t step_h, step_w, tap_h, tap_w;
};

struct DepthwiseInt8 {
  int64_t channels, height, width;  // of x, whose padding is not stored
  PaddedInput x;                    // its pixels are contiguous
  DepthwiseWindow window;
  int64_t top, left;           // padding
  int64_t images, rows, cols;  // of the output
};

/// True of windows that the kernel takes; others are left to the general one.
bool takes_depthwise_int8(const DepthwiseWindow& w);
/// Weights of (channels, 1, taps_h, taps_w).
size_t depthwise_int8_packed_size(int64_t channels, const DepthwiseWindow& w);
void depthwise_int8_pack(const View& weights, const DepthwiseWindow& w, void* packed);
size_t depthwise_int8_scratch(int64_t channels);
void depthwise_int8(const Call& call, const DepthwiseInt8& d, const void* packed,
                    const Int8Epilogue& end, void* scratch);

}  // namespace proa::PROA_ISA
