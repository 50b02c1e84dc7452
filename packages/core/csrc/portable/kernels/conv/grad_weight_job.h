#pragma once
// How the gradient of a convolution's kernels is computed: see conv2d_grad_weight.cc.
#include "proa/base/arith.h"
#include "proa/kernels/conv/geometry.h"

namespace proa::PROA_ISA {

constexpr int64_t kGradWeightTasks = 8;
constexpr int64_t kTakenOuts = 256;  // of dy, at a time

/// What pixels are read from: x, or dy.
struct PixelSource {
  View view;
  PaddedShape shape;
  bool in_place;  // else a copy
  bool flat;      // pixels are evenly apart through all images
  PaddedInput input;
};

/// A unit of panels: an element, or a pair of BF16 of two pixels.
struct PanelUnit {
  bool pairs;
  int64_t size;   // bytes of it, and of a sum
  int64_t lanes;  // of a vector
  /// Units that so many pixels take.
  int64_t count(int64_t pixels) const { return pairs ? (pixels + 1) / 2 : pixels; }
};

/// A patch of x: the taps and channels of a group.
struct PatchLayout {
  bool direct;   // the transpose, from rows of taps
  bool joined;   // few channels: rows of a window are contiguous in a padded copy of x
  int64_t size;  // elements
  int64_t run;   // direct, joined: of those, contiguous in memory
};

/// Panels of dy times panels of patches, in blocks of pixels.
struct PixelBlocks {
  int64_t height, rows;  // outs in a panel of dy, panels
  int64_t width, cols;   // elements in a panel of patches, panels
  int64_t steps;         // pixels of a block, at most
  int64_t taken;         // blocks at a time
  int64_t parts;         // of the pixels
};

/// The sums of a part.
struct SumLayout {
  int64_t columns;  // in a row
  bool straight;    // written to dw directly
};

struct GradWeightJob {
  Convolution c;  // the forward geometry; x is its input
  PixelSource x, dy;
  PanelUnit unit;
  PatchLayout patch;
  PixelBlocks blocks;
  SumLayout sums;
  bool dy_unpacked;  // few panels of patches: dy is read in place

  int64_t first_line(int64_t part) const { return part * c.lines() / blocks.parts; }
  /// Units of one packed panel of dy, and of one block, of at most taken_panels() panels.
  int64_t panel() const {
    return by_rows() ? round_up(blocks.height, kLanes) * row_pitch() / unit.size
                     : blocks.height * unit.count(blocks.steps);
  }
  int64_t block() const { return min(blocks.rows, taken_panels()) * panel(); }
  int64_t taken_panels() const { return ceil_div(kTakenOuts, micro().rows); }
  const Micro& micro() const {
    return patch.direct ? micro_kernel(dy.view.dtype, unit.pairs)
                        : product_micro_kernel(dy.view.dtype, unit.pairs);
  }
  /// True if panels of dy are rows of pixels, row_pitch() bytes apart.
  bool by_rows() const { return micro().takes_rows(); }
  int64_t row_pitch() const { return (ceil_div(unit.count(blocks.steps), kLanes) | 1) * kVecBytes; }
};

/// True if the pixels of dy are evenly apart through all images.
inline bool is_flat(const GradWeightJob& j, const PaddedInput& f) {
  return f.row == f.pixel * j.c.output.width &&
         (f.image == f.row * j.c.output.height || j.c.x.shape[0] == 1);
}

/// All but what depends on where inputs are: PixelSource::input and flat, and dy_unpacked.
GradWeightJob grad_weight_job(const Call& call);

}  // namespace proa::PROA_ISA
