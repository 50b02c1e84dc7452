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
  Window2d& w = c->window;
  if (kSmallBuild || w.taps() != 1 || w.pad_top != 0 || w.pad_left != 0) return;
  c->x.shape[2] = (c->x.shape[2] + w.stride_h - 1) / w.stride_h;
  c->x.shape[3] = (c->x.shape[3] + w.stride_w - 1) / w.stride_w;
  c->x.stride[2] *= w.stride_h;
  c->x.stride[3] *= w.stride_w;
  w.stride_h = w.stride_w = 1;
}

/// conv2d of x with w (O, C / groups, KH, KW) into y.
template <class A>
Convolution forward_convolution(const View& x, const View& w, const View& y, const A& a) {
  Convolution c;
  c.x = x;
  c.window = {w.shape[2],    w.shape[3],    a.stride[0],  a.stride[1],
              a.dilation[0], a.dilation[1], a.padding[0], a.padding[2]};
  c.channels = {a.groups, w.shape[1], w.shape[0] / a.groups};
  c.output = image_size(y);
  c.kernels = {w.data,      w.dtype,    w.stride[0] * c.channels.out, w.stride[0], w.stride[2],
               w.stride[3], w.stride[1]};
  c.end.out = pixel_matrix(y, 0, 0, 1, 1, c.output.height, c.output.width);
  subsample_pointwise(&c);
  return c;
}

}  // namespace proa::PROA_ISA
