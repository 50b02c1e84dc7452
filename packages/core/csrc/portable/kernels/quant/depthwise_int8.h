#pragma once
// Depthwise int8 convolution by dot products of four rows of the window: AVX-512 alone.
#include "proa/kernels/quant/int8_epilogue.h"
#include "proa/simd/conv/padded_input.h"

namespace proa::PROA_ISA {

struct DepthwiseInt8 {
  int64_t images, channels;
  PaddedInput x;  // without padding; its pixels are contiguous
  Size2d input_size;
  Window2d window;
  Size2d output;
};

/// True of windows that the kernel takes; others are left to the general one.
bool takes_depthwise_int8(const Window2d& w);
/// Weights of (channels, 1, kernel_h, kernel_w). Packed, they depend on the window but its padding.
size_t depthwise_int8_packed_size(int64_t channels, const Window2d& w);
void depthwise_int8_pack(const View& weights, const Window2d& w, void* packed);
size_t depthwise_int8_scratch(int64_t channels);
void depthwise_int8(const Call& call, const DepthwiseInt8& d, const void* packed,
                    const Int8Epilogue& end, void* scratch);

}  // namespace proa::PROA_ISA
