#pragma once
// Convolution (cross-correlation) with small kernels: conv2d, and conv2d's gradient with respect to
// its input, which is a convolution with flipped kernels.
#include "proa/simd/conv/padded_input.h"
#include "proa/simd/conv/window2d.h"
#include "proa/simd/gemm/epilogue.h"

namespace proa::PROA_ISA {

/// Channels of a convolution: the number of groups, and channels in and out of each.
struct GroupChannels {
  int64_t groups = 1, in = 1, out = 1;
};

/// The weights in memory: element (group, out, tap_h, tap_w, depth) by strides from `data`.
struct ConvWeights {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t group = 0, out = 0, tap_h = 0, tap_w = 0, depth = 0;
  const void* packed = nullptr;  // what convolve_pack wrote of them, or nullptr
};

/// out(n, i, j, g, o) = sum over p, q, c of
///   x(n, g * channels.in + c, window.row(i, p), window.column(j, q)) *
///   kernels(g, o, p, q, c), plus bias, residual and activation.
struct Convolution {
  View x;
  Window2d window;
  GroupChannels channels;
  Size2d output;
  ConvWeights kernels;
  Strategy strategy = Strategy::kByRule;
  const View* bias = nullptr;
  FloatEpilogue end;  // a row of `out` is one pixel (n, i, j)

  int64_t lines() const { return x.shape[0] * output.height; }
  int64_t pixels() const { return lines() * output.width; }
};

size_t convolve_scratch(const Convolution& c);
void convolve(const Call& call, const Convolution& c, void* scratch);
/// Prepacked weights; of x only shape[1] is read.
size_t convolve_packed_size(const Convolution& c);
void convolve_pack(const Call& call, const Convolution& c, void* packed);

/// The region of x that a convolution reads.
PaddedShape padded_shape(const Convolution& c);

}  // namespace proa::PROA_ISA
