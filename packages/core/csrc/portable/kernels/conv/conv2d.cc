// conv2d, and the form that graph passes fuse bias, residual and activation into.
#include "proa/gen/attrs/conv.h"
#include "proa/kernels/conv/geometry.h"

namespace proa::PROA_ISA {
namespace {

template <class A>
Convolution make_convolution(const Call& c) {
  Convolution r = forward_convolution(c.in[0], c.in[1], c.out[0], c.attr<A>());
  r.kernels.packed = c.packed;
  r.strategy = c.strategy;
  if (c.n_in > 2 && c.in[2].given()) r.bias = &c.in[2];
  return r;
}

Convolution make_fused_convolution(const Call& c) {
  Convolution r = make_convolution<Conv2dActAttrs>(c);
  if (c.n_in > 3 && c.in[3].given())
    r.end.residual = pixel_matrix(c.in[3], 0, 0, 1, 1, r.output.height, r.output.width);
  r.end.act = static_cast<Act>(c.attr<Conv2dActAttrs>().act);
  return r;
}

Status run(const Call& c, const Convolution& r) {
  if (!is_floating(r.x.dtype)) return Status::kUnimplemented;
  convolve(c, r, c.scratch);
  return Status::kOk;
}

Status pack(const Call& c, const Convolution& r, void* packed) {
  convolve_pack(c, r, packed);
  return Status::kOk;
}

}  // namespace

Status conv2d(const Call& c) { return run(c, make_convolution<Conv2dAttrs>(c)); }
size_t conv2d_scratch(const Call& c) { return convolve_scratch(make_convolution<Conv2dAttrs>(c)); }
size_t conv2d_pack_size(const Call& c) {
  return convolve_packed_size(make_convolution<Conv2dAttrs>(c));
}
Status conv2d_pack(const Call& c, void* packed) {
  return pack(c, make_convolution<Conv2dAttrs>(c), packed);
}

Status conv2d_act(const Call& c) { return run(c, make_fused_convolution(c)); }
size_t conv2d_act_scratch(const Call& c) { return convolve_scratch(make_fused_convolution(c)); }
size_t conv2d_act_pack_size(const Call& c) {
  return convolve_packed_size(make_fused_convolution(c));
}
Status conv2d_act_pack(const Call& c, void* packed) {
  return pack(c, make_fused_convolution(c), packed);
}

}  // namespace proa::PROA_ISA
