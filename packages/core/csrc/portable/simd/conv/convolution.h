#pragma once
// Convolution (cross-correlation) with small kernels: conv2d, and conv2d's gradient with respect to
// its input, which is a convolution with flipped kernels.
#include "proa/simd/conv/padded_input.h"
#include "proa/simd/gemm/epilogue.h"

namespace proa::PROA_ISA {

/// The weights in memory: element (group, out, tap_h, tap_w, depth) by strides from `data`.
struct ConvWeights {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t group = 0, out = 0, tap_h = 0, tap_w = 0, depth = 0;
};

/// out(n, i, j, g, o) = sum over p, q, c of
///   x(n, g * depth + c, i * step_h - top + p * tap_h, j * step_w - left + q * tap_w) *
///   kernels(g, o, p, q, c), plus bias, residual and activation.
struct Convolution {
  View x;
  int64_t top = 0, left = 0, step_h = 1, step_w = 1, taps_h = 1, taps_w = 1, tap_h = 1, tap_w = 1;
  int64_t groups = 1, depth = 1, outs = 1;  // channels in and out of one group
  int64_t rows = 0, cols = 0;               // of the output
  ConvWeights kernels;
  const void* packed = nullptr;
  Strategy strategy = Strategy::kByRule;
  const View* bias = nullptr;
  FloatEpilogue end;  // a row of `out` is one pixel (n, i, j)
};

size_t convolve_scratch(const Convolution& c);
void convolve(const Call& call, const Convolution& c, void* scratch);
/// Prepacked weights; of x only shape[1] is read.
size_t convolve_packed_size(const Convolution& c);
void convolve_pack(const Call& call, const Convolution& c, void* packed);

/// The region of x that a convolution reads.
PaddedShape padded_shape(const Convolution& c);

}  // namespace proa::PROA_ISA
