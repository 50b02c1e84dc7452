// A convolution whose results are normalised per channel before they leave the registers' reach:
// the same arithmetic as batch_norm_infer on what conv2d would have written, so the same bits.
#include "proa/gen/attrs/conv.h"
#include "proa/kernels/conv/geometry.h"
#include "proa/simd/gemm/pack.h"

namespace proa::PROA_ISA {
namespace {

// (x, w, center, factor, shift, bias, residual)
Convolution make_convolution(const Call& c) {
  const auto& a = c.attr<Conv2dNormAttrs>();
  Convolution r = forward_convolution(c.in[0], c.in[1], c.out[0], a);
  r.kernels.packed = c.packed;
  r.strategy = c.strategy;
  if (c.n_in > 5 && c.in[5].given()) r.bias = &c.in[5];
  if (c.n_in > 6 && c.in[6].given())
    r.end.residual = pixel_matrix(c.in[6], 0, 0, 1, 1, r.output.height, r.output.width);
  r.end.act = static_cast<Act>(a.act);
  return r;
}

size_t numbers_bytes(const Call& c) {
  const auto bytes = 3 * static_cast<size_t>(c.in[1].shape[0]) * size_of(c.in[1].dtype);
  return (bytes + 63) & ~size_t{63};
}

}  // namespace

Status conv2d_norm(const Call& c) {
  const DType type = c.in[0].dtype;
  const bool wide = is_double(type);
  if (!wide && type != DType::kF32) return Status::kUnimplemented;
  const int64_t channels = c.in[1].shape[0];
  auto* const numbers = static_cast<uint8_t*>(c.scratch);
  const int64_t each = channels * static_cast<int64_t>(size_of(type));
  for (int i = 0; i < 3; ++i)
    widen(c.in[2 + i].data, type, c.in[2 + i].stride[0], channels, numbers + i * each);
  Convolution r = make_convolution(c);
  const auto& a = c.attr<Conv2dNormAttrs>();
  const ChannelNorm norm = {numbers, numbers + each, numbers + 2 * each,
                            static_cast<float>(a.scale), static_cast<float>(a.offset)};
  r.end.norm = &norm;
  convolve(c, r, numbers + numbers_bytes(c));
  return Status::kOk;
}

size_t conv2d_norm_scratch(const Call& c) {
  Convolution r = make_convolution(c);
  const ChannelNorm norm;
  r.end.norm = &norm;
  return numbers_bytes(c) + convolve_scratch(r);
}
size_t conv2d_norm_pack_size(const Call& c) { return convolve_packed_size(make_convolution(c)); }
Status conv2d_norm_pack(const Call& c, void* packed) {
  convolve_pack(c, make_convolution(c), packed);
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
