#pragma once
// The input of a convolution in the layout of its inner loops: channels-last, of the type they
// compute in, with explicit zero padding, so that they need no tests at the borders.
#include "proa/base/call.h"
#include "proa/simd/conv/window2d.h"

namespace proa::PROA_ISA {

struct PaddedInput {
  const void* data = nullptr;
  int64_t image = 0, row = 0, pixel = 0;  // strides in units; channels are contiguous
};

/// The part of (N, C, H, W) view x from (-top, -left) on, height x width; zeros outside x.
struct PaddedShape {
  int64_t top, left, height, width;
  int64_t pixel = 0;  // between the pixels of a copy, if not the number of channels
};
inline Size2d image_size(const View& x) { return {x.shape[2], x.shape[3]}; }
/// All of x, without padding.
inline PaddedShape unpadded_shape(const View& x) { return {0, 0, x.shape[2], x.shape[3]}; }
// A unit is an element, or, by pairs, two channels of BF16: the pixels of such a copy have an even
// number of them, the last of which may be 0.
/// True if x itself has that form.
bool is_usable_in_place(const View& x, const PaddedShape& s, bool by_pairs = false);
/// Bytes of a padded copy; includes room to read one pixel past the end.
size_t padded_bytes(const View& x, const PaddedShape& s, bool by_pairs = false);
/// x itself if `in_place`, else a padded copy in `memory`, with 16-bit floats widened unless by
/// pairs.
PaddedInput pad_input(const Call& call, const View& x, const PaddedShape& s, bool in_place,
                      void* memory, bool by_pairs = false);

/// A copy of int8 x with its elements as Int8Step (see simd/gemm/micro.h), and its bytes.
size_t padded_int8_bytes(const View& x, const PaddedShape& s);
PaddedInput pad_int8_input(const Call& call, const View& x, const PaddedShape& s, void* memory);

/// The patches of an array as rows of a matrix (im2col): row (n, i, j), columns (p, q, channel)
/// of the window's taps. The input has no padding: reads outside return 0.
struct Im2colRows {
  PaddedInput input;
  Size2d input_size;
  Window2d window;
  Size2d output;  // patches per image
  int64_t depth;  // elements of a pixel
  int64_t run;    // contiguous elements of a patch: depth, or kernel_w * depth
  int64_t size;   // bytes of an element
};
/// `count` elements of a patch from k on; ctx is an Im2colRows. See PackOperand::read.
const void* read_patch(const void* ctx, int64_t window, int64_t k, int64_t count, void* buffer);

}  // namespace proa::PROA_ISA
