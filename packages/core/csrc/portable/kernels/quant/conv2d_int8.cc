// The windows of a channels-last frame are the rows of an int8 product, group by group.
#include "proa/gen/attrs.h"
#include "proa/gen/kernels.h"
#include "proa/kernels/quant/int8_product.h"
#include "proa/simd/conv/frame.h"

namespace proa::PROA_ISA {
namespace {

struct Geometry {
  int64_t groups, outs, k;  // of one group
  FrameShape shape;
  bool here;
};

Geometry geometry_of(const Call& c) {
  const auto& a = c.attr<Conv2dInt8Attrs>();
  const View &w = c.in[1], &y = c.out[0];
  Geometry g = {a.groups, w.shape[0] / a.groups, w.shape[1] * w.shape[2] * w.shape[3], {}, false};
  auto extent = [&](int d) {
    if (y.shape[2 + d] <= 0) return int64_t{0};
    return (y.shape[2 + d] - 1) * a.stride[d] + (w.shape[2 + d] - 1) * a.dilation[d] + 1;
  };
  g.shape = {a.padding[0], a.padding[2], extent(0), extent(1)};
  g.here = frame_in_place(c.in[0], g.shape);
  return g;
}

size_t group_bytes(const Geometry& g) { return (int8_packed_size(g.outs, g.k) + 63) & ~size_t{63}; }

void pack(const Call& c, const Geometry& g, uint8_t* packed) {
  const View& w = c.in[1];
  for (int64_t i = 0; i < g.groups; ++i) {
    Int8Columns b = {w.as<const int8_t>() + i * g.outs * w.stride[0], {}, w.stride[0]};
    b.steps.add(w.shape[2], w.stride[2]);
    b.steps.add(w.shape[3], w.stride[3]);
    b.steps.add(w.shape[1], w.stride[1]);
    int8_pack(b, g.outs, g.k, packed + static_cast<size_t>(i) * group_bytes(g));
  }
}

Int8Product product_of(const Call& c, const Geometry& g) {
  const auto& a = c.attr<Conv2dInt8Attrs>();
  const View& y = c.out[0];
  Int8Product p;
  p.m = y.shape[0] * y.shape[2] * y.shape[3];
  p.n = g.outs;
  p.k = g.k;
  p.read = read_window;
  p.multiplier = &c.in[2];
  if (c.n_in > 3) p.bias = &c.in[3];
  p.out.data = y.data;
  p.out.dtype = y.dtype;
  p.out.rows.add(y.shape[0], y.stride[0]);
  p.out.rows.add(y.shape[2], y.stride[2]);
  p.out.rows.add(y.shape[3], y.stride[3]);
  p.out.stride = y.stride[1];
  p.act = static_cast<Act>(a.act);
  p.out_scale = static_cast<float>(a.out_scale);
  return p;
}

}  // namespace

Status conv2d_int8(const Call& c) {
  const auto& a = c.attr<Conv2dInt8Attrs>();
  const View &x = c.in[0], &w = c.in[1], &y = c.out[0];
  if (y.dtype != DType::kF32 && y.dtype != DType::kI8) return Status::kUnimplemented;
  if (y.numel() == 0) return Status::kOk;
  const Geometry g = geometry_of(c);
  uint8_t* rest = static_cast<uint8_t*>(c.scratch);
  const uint8_t* packed = static_cast<const uint8_t*>(c.packed);
  if (packed == nullptr) {
    pack(c, g, rest);
    packed = rest;
    rest += group_bytes(g) * static_cast<size_t>(g.groups);
  }
  const Frame frame = make_frame(c, x, g.shape, g.here, rest);
  if (!g.here) rest += (frame_bytes(x, g.shape) + 63) & ~size_t{63};
  const int64_t depth = w.shape[1];
  const bool joined = a.dilation[1] == 1 && frame.pixel == depth;
  WindowRows windows = {
      frame,      y.shape[2],    y.shape[3],    a.stride[0], a.stride[1],
      w.shape[3], a.dilation[0], a.dilation[1], depth,       joined ? w.shape[3] * depth : depth,
      1};
  Int8Product p = product_of(c, g);
  p.ctx = &windows;
  for (int64_t i = 0; i < g.groups; ++i) {
    p.packed = packed + static_cast<size_t>(i) * group_bytes(g);
    p.first = i * g.outs;
    p.out.data = y.as<uint8_t>() + p.first * y.stride[1] * static_cast<int64_t>(size_of(y.dtype));
    windows.frame.data = static_cast<const uint8_t*>(frame.data) + i * depth;
    int8_multiply(c, p, rest);
  }
  return Status::kOk;
}

size_t conv2d_int8_scratch(const Call& c) {
  const Geometry g = geometry_of(c);
  const View& y = c.out[0];
  size_t bytes = int8_scratch(y.shape[0] * y.shape[2] * y.shape[3], g.outs, g.k) + 128;
  if (c.packed == nullptr) bytes += group_bytes(g) * static_cast<size_t>(g.groups);
  if (!g.here) bytes += frame_bytes(c.in[0], g.shape);
  return bytes;
}

size_t conv2d_int8_pack_size(const Call& c) {
  const Geometry g = geometry_of(c);
  return group_bytes(g) * static_cast<size_t>(g.groups);
}

Status conv2d_int8_pack(const Call& c, void* packed) {
  pack(c, geometry_of(c), static_cast<uint8_t*>(packed));
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
