#pragma once
// How the gradient of a convolution's kernels is computed: see conv2d_grad_weight.cc.
#include "proa/base/arith.h"
#include "proa/kernels/conv/geometry.h"

namespace proa::PROA_ISA {

constexpr int64_t kGradWeightTasks = 8;
constexpr int64_t kTakenOuts = 256;  // of dy, at a time

struct GradWeightJob {
  Convolution c;  // the forward geometry; x is its input
  View dy;
  PaddedShape x_shape, dy_shape;
  bool x_here, dy_here;  // used in place
  bool pairs;            // BF16 by pairs of pixels
  int64_t size;          // bytes of a sum, and of a unit of panels: an element, or a pair
  int64_t lanes;         // of a vector
  bool direct;           // the transpose, from rows of taps
  bool joined;           // few channels: rows of a window are contiguous in a padded copy of x
  int64_t window;        // taps and channels of a group
  int64_t run;           // direct, joined: of those, contiguous in memory
  int64_t height, rows;  // outs in a panel of dy, panels
  int64_t width, cols;   // elements in a panel of patches, panels
  int64_t steps;         // pixels of a block, at most
  int64_t taken;         // blocks at a time
  int64_t columns;       // sums in a row
  int64_t parts;         // of the pixels
  bool straight;         // sums are written to dw directly
  PaddedInput x, padded_dy;
  bool x_flat, dy_flat;  // pixels are evenly apart through all images
  bool dy_unpacked;      // few panels of patches: dy is read in place
  int64_t lines() const { return c.lines(); }
  int64_t first_line(int64_t part) const { return part * lines() / parts; }
  /// Units that so many pixels take.
  int64_t units(int64_t pixels) const { return pairs ? (pixels + 1) / 2 : pixels; }
  /// Units of one packed panel of dy, and of one block, of at most taken_panels() panels.
  int64_t panel() const {
    return by_rows() ? round_up(height, kLanes) * row_pitch() / size : height * units(steps);
  }
  int64_t block() const { return min(rows, taken_panels()) * panel(); }
  int64_t taken_panels() const { return ceil_div(kTakenOuts, micro().rows); }
  const Micro& micro() const {
    return direct ? micro_kernel(dy.dtype, pairs) : product_micro_kernel(dy.dtype, pairs);
  }
  /// True if panels of dy are rows of pixels, row_pitch() bytes apart.
  bool by_rows() const { return micro().takes_rows(); }
  int64_t row_pitch() const { return (ceil_div(units(steps), kLanes) | 1) * kVecBytes; }
};

/// True if the pixels of dy are evenly apart through all images.
inline bool is_flat(const GradWeightJob& j, const PaddedInput& f) {
  return f.row == f.pixel * j.c.output.width &&
         (f.image == f.row * j.c.output.height || j.c.x.shape[0] == 1);
}

GradWeightJob grad_weight_job(const Call& call);

}  // namespace proa::PROA_ISA
