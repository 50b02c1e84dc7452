#pragma once
// A frame is the input of a convolution as its inner loops want it: channels-last, of the type they
// compute in, with the padding in place, so that they need no tests at the borders.
#include "proa/base/call.h"

namespace proa::PROA_ISA {

struct Frame {
  const void* data = nullptr;
  int64_t image = 0, row = 0, pixel = 0;  // distances in units; channels are neighbours
};

/// The part of (N, C, H, W) view x from (-top, -left) on, height x width; what lies outside is 0.
struct FrameShape {
  int64_t top, left, height, width;
  int64_t pixel = 0;  // between the pixels of a copy, if not the number of channels
};
// A unit is an element, or, by pairs, two channels of BF16: the pixels of such a copy have an even
// number of them, the last of which may be 0.
/// True if x itself can serve as the frame.
bool frame_in_place(const View& x, const FrameShape& s, bool by_pairs = false);
/// Bytes of a frame that is copied; includes room to read one pixel past the end.
size_t frame_bytes(const View& x, const FrameShape& s, bool by_pairs = false);
/// The frame of x: x itself if `in_place`, else a copy in `memory`, with 16-bit floats widened but
/// by pairs.
Frame make_frame(const Call& call, const View& x, const FrameShape& s, bool in_place, void* memory,
                 bool by_pairs = false);

/// A copy of int8 x with its elements as Int8Step (see simd/gemm/micro.h), and its bytes.
size_t int8_frame_bytes(const View& x, const FrameShape& s);
Frame make_int8_frame(const Call& call, const View& x, const FrameShape& s, void* memory);

/// The windows of an array as rows of a matrix: row (n, i, j), columns (tap_h, tap_w, channel). The
/// frame has no border: what lies outside is 0.
struct WindowRows {
  Frame frame;
  int64_t height, width;  // of the frame
  int64_t top, left;      // of padding
  int64_t rows, cols;     // windows per image
  int64_t step_h, step_w, taps_w, tap_h, tap_w, depth;
  int64_t run;   // elements of a window that are neighbours: depth, or taps_w * depth
  int64_t size;  // bytes of an element
};
/// `count` elements of a window from k on; ctx is a WindowRows. See Source::read.
const void* read_window(const void* ctx, int64_t window, int64_t k, int64_t count, void* buffer);

}  // namespace proa::PROA_ISA
