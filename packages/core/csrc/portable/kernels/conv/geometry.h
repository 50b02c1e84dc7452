#pragma once
// The attributes of a convolution as a Convolution.
#include "proa/simd/conv/convolution.h"

namespace proa::PROA_ISA {

/// Rows of a channels place: pixel (n, i, j) of every step-th row and column from (h, w) on.
inline MatrixRef pixel_matrix(const View& v, int64_t h, int64_t w, int64_t step_h, int64_t step_w,
                              int64_t rows, int64_t cols) {
  MatrixRef p;
  const int64_t skip = h * v.stride[2] + w * v.stride[3];
  p.data = v.as<uint8_t>() + skip * static_cast<int64_t>(size_of(v.dtype));
  p.dtype = v.dtype;
  p.rows.add(v.shape[0], v.stride[0]);
  p.rows.add(rows, v.stride[2] * step_h);
  p.rows.add(cols, v.stride[3] * step_w);
  p.stride = v.shape[1] == 1 ? 1 : v.stride[1];
  return p;
}

/// What a pointwise kernel without padding steps over is left out of x, so that what is copied of
/// it, or fetched, is what is read, and its lines follow each other evenly.
inline void subsample_pointwise(Convolution* c) {
  if (kSmallBuild || c->taps_h * c->taps_w != 1 || c->top != 0 || c->left != 0) return;
  c->x.shape[2] = (c->x.shape[2] + c->step_h - 1) / c->step_h;
  c->x.shape[3] = (c->x.shape[3] + c->step_w - 1) / c->step_w;
  c->x.stride[2] *= c->step_h;
  c->x.stride[3] *= c->step_w;
  c->step_h = c->step_w = 1;
}

/// conv2d of x with w (O, C / groups, KH, KW) into y.
template <class A>
Convolution forward_convolution(const View& x, const View& w, const View& y, const A& a) {
  Convolution c;
  c.x = x;
  c.top = a.padding[0];
  c.left = a.padding[2];
  c.step_h = a.stride[0];
  c.step_w = a.stride[1];
  c.taps_h = w.shape[2];
  c.taps_w = w.shape[3];
  c.tap_h = a.dilation[0];
  c.tap_w = a.dilation[1];
  c.groups = a.groups;
  c.depth = w.shape[1];
  c.outs = w.shape[0] / a.groups;
  c.rows = y.shape[2];
  c.cols = y.shape[3];
  c.kernels = {w.data,      w.dtype,     w.stride[0] * c.outs, w.stride[0],
               w.stride[2], w.stride[3], w.stride[1]};
  c.end.out = pixel_matrix(y, 0, 0, 1, 1, c.rows, c.cols);
  subsample_pointwise(&c);
  return c;
}

}  // namespace proa::PROA_ISA
