// The patches of a channels-last input are the rows of an int8 product, group by group; in a
// depthwise convolution the channels are the vector (with AVX-512 see depthwise_int8.avx512.cc).
#include <string.h>

#include "proa/base/arith.h"
#include "proa/base/settings.h"
#include "proa/base/task_size.h"
#include "proa/gen/attrs/quant.h"
#include "proa/kernels/quant/depthwise_int8.h"
#include "proa/kernels/quant/int8_product.h"
#include "proa/simd/conv/implicit_gemm.h"
#include "proa/simd/conv/padded_input.h"

namespace proa::PROA_ISA {
namespace {

/// The kernel of its own that AVX-512 has.
constexpr bool kHasDots = kHasAvx512 && kHasDepthwise;

size_t align64(size_t n) { return (n + 63) & ~size_t{63}; }

struct Geometry {
  int64_t groups;
  bool depthwise;
  bool dots;      // by depthwise_int8
  Int8Kernels w;  // of the first group
  PaddedShape shape;
};

Window2d window_of(const Call& c) {
  const auto& a = c.attr<Conv2dInt8Attrs>();
  const View& w = c.in[1];
  return {w.shape[2],    w.shape[3],    a.stride[0],  a.stride[1],
          a.dilation[0], a.dilation[1], a.padding[0], a.padding[2]};
}

Geometry geometry_of(const Call& c) {
  const auto& a = c.attr<Conv2dInt8Attrs>();
  const View& w = c.in[1];
  const int64_t depth = w.shape[1], channels = depth * a.groups, outs = w.shape[0] / a.groups;
  // Patches whose distance is a multiple of 2 KiB would evict each other from the cache.
  const int64_t distance = a.stride[1] * channels * static_cast<int64_t>(sizeof(Int8Step));
  const bool collides = distance % 2048 == 0;
  const bool joined = a.groups == 1 && a.dilation[1] == 1 && !collides;  // taps of a row
  const bool depthwise = kHasDepthwise && depth == 1 && outs == 1 && a.groups > 1;
  Geometry g = {a.groups, depthwise, false, {}, {}};
  if constexpr (kHasDots) g.dots = depthwise && takes_depthwise_int8(window_of(c));
  g.w = {w.as<const int8_t>(),
         w.stride[0],
         w.stride[2],
         w.stride[3],
         w.stride[1],
         outs,
         w.shape[2],
         depth,
         joined ? 1 : w.shape[3],
         joined ? w.shape[3] * depth : depth};
  const Size2d extent = window_of(c).extent(image_size(c.out[0]));
  g.shape = {a.padding[0], a.padding[2], extent.height, extent.width};
  if (collides && !g.depthwise) g.shape.pixel = channels + 64;
  return g;
}

PROA_NOINLINE MatrixRef pixel_matrix(const View& y) {
  MatrixRef p = {y.data, y.dtype, {}, y.stride[1]};
  p.rows.add(y.shape[0], y.stride[0]);
  p.rows.add(y.shape[2], y.stride[2]);
  p.rows.add(y.shape[3], y.stride[3]);
  if (y.shape[1] == 1) p.stride = 1;
  return p;
}

// -- depthwise -----------------------------------------------------------------------------------
int64_t padded(int64_t channels) { return (channels + kLanes - 1) / kLanes * kLanes; }

/// An input in place must not be read past its end.
bool depthwise_in_place(const Call& c, const Geometry& g) {
  return c.in[0].shape[1] % kLanes == 0 && is_usable_in_place(c.in[0], g.shape);
}

void pack_depthwise(const Call& c, int32_t* to) {
  const View& w = c.in[1];
  const int64_t channels = w.shape[0], width = padded(channels);
  for (int64_t p = 0; p < w.shape[2]; ++p)
    for (int64_t q = 0; q < w.shape[3]; ++q, to += width)
      for (int64_t i = 0; i < width; ++i) {
        const int64_t at = i * w.stride[0] + p * w.stride[2] + q * w.stride[3];
        to[i] = i < channels ? int8_factor(w.as<const int8_t>()[at]) : 0;
      }
}

constexpr int kPixels = 4, kVecs = 2;  // of a tile

/// Pixels [0, count) of a tile; with `count` and `vecs` constant the sums stay in registers.
PROA_INLINE void depthwise_tile(const Call& c, const PaddedInput& f, const int8_t* x,
                                const int32_t* w, int64_t width, int count, int vecs,
                                int32_t* tile) {
  const auto& a = c.attr<Conv2dInt8Attrs>();
  const int64_t step = a.stride[1] * f.pixel;
  VI acc[kPixels][kVecs] = {};
  for (int64_t p = 0; p < c.in[1].shape[2]; ++p) {
    const int8_t* from = x + p * a.dilation[0] * f.row;
    for (int64_t q = 0; q < c.in[1].shape[3]; ++q, w += width, from += a.dilation[1] * f.pixel)
#pragma GCC unroll 2
      for (int v = 0; v < vecs; ++v) {
        const VI factor = load(w + v * kLanes);
#pragma GCC unroll 4
        for (int i = 0; i < count; ++i)
          acc[i][v] = multiply_add_int8(acc[i][v], load_int8(from + i * step + v * kLanes), factor);
      }
  }
#pragma GCC unroll 4
  for (int i = 0; i < count; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < vecs; ++v) store(tile + (i * kVecs + v) * kLanes, acc[i][v]);
}

void run_depthwise(const Call& c, const PaddedInput& f, const int32_t* w, const Int8Epilogue& end) {
  const auto& a = c.attr<Conv2dInt8Attrs>();
  const View& y = c.out[0];
  const int64_t channels = y.shape[1], rows = y.shape[2], cols = y.shape[3];
  const int64_t taps = c.in[1].shape[2] * c.in[1].shape[3], width = padded(channels);
  const int64_t grain = 1 + kInt8DepthwiseTaskMacs / (cols * channels * taps + 1);
  parallel_for(c, y.shape[0] * rows, grain, [&](int64_t begin, int64_t stop) {
    for (int64_t line = begin; line < stop; ++line) {
      const int64_t n = line / rows, i = line - n * rows;
      const int8_t* x = static_cast<const int8_t*>(f.data) + n * f.image + i * a.stride[0] * f.row;
      for (int64_t j = 0; j < cols; j += kPixels) {
        const int count = static_cast<int>(min(cols - j, kPixels));
        const int8_t* from = x + j * a.stride[1] * f.pixel;
        for (int64_t channel = 0; channel < channels; channel += kVecs * kLanes) {
          alignas(64) int32_t tile[kPixels * kVecs * kLanes];
          const int some = static_cast<int>(min(channels - channel, kVecs * kLanes));
          if (count == kPixels && some > kLanes)
            depthwise_tile(c, f, from + channel, w + channel, width, kPixels, kVecs, tile);
          else
            depthwise_tile(c, f, from + channel, w + channel, width, count, some > kLanes ? 2 : 1,
                           tile);
          finish_int8(&end, tile, kVecs * kLanes, line * cols + j, count, channel, some);
        }
      }
    }
  });
}

void* at_channel(const MatrixRef& m, int64_t channel) {
  return static_cast<uint8_t*>(m.data) +
         channel * m.stride * static_cast<int64_t>(size_of(m.dtype));
}

/// x itself, or channels-last copied.
bool dots_in_place(const Call& c) {
  const View& x = c.in[0];
  return x.stride[3] == x.shape[1] && is_usable_in_place(x, unpadded_shape(x));
}

void run_dots(const Call& c, const void* packed, const Int8Epilogue& end, uint8_t* rest) {
  const View &x = c.in[0], &y = c.out[0];
  const size_t own = align64(depthwise_int8_scratch(y.shape[1]));
  const PaddedInput input = pad_input(c, x, unpadded_shape(x), dots_in_place(c), rest + own);
  const DepthwiseInt8 d = {x.shape[0],    x.shape[1],   input,
                           image_size(x), window_of(c), image_size(y)};
  depthwise_int8(c, d, packed, end, rest);
}

// -- any other -----------------------------------------------------------------------------------
void run_groups(const Call& c, const Geometry& g, const PaddedInput& f, const uint8_t* packed,
                const Int8Epilogue& end) {
  const auto& a = c.attr<Conv2dInt8Attrs>();
  const View& y = c.out[0];
  constexpr int64_t kSize = sizeof(Int8Step);
  PatchGemm p = {};
  p.g.micro = &int8_micro_kernel();
  p.g.m = y.shape[0] * y.shape[2] * y.shape[3];
  p.g.n = g.w.outs;
  p.a.image = f.image * kSize;
  p.a.line = a.stride[0] * f.row * kSize;
  p.a.rows = y.shape[2];
  p.a.cols = y.shape[3];
  p.a.patches = {a.stride[1] * f.pixel * kSize, g.w.taps_h, g.w.runs, a.dilation[0] * f.row * kSize,
                 a.dilation[1] * f.pixel * kSize};
  p.a.run = g.w.run_units();
  p.is_whole = true;
  for (int64_t i = 0; i < g.groups; ++i, packed += int8_packed_size(g.w)) {
    const int64_t first = i * g.w.outs;
    Int8Epilogue part = end;
    part.scale += first;
    part.shift += first;
    part.estimate.scale += first;
    part.estimate.shift += first;
    part.out.data = at_channel(end.out, first);
    if (end.residual.data != nullptr) part.residual.data = at_channel(end.residual, first);
    Int8Ends ends;
    p.g.out.int8 = nullptr;
    set_int8_output(&p.g.out, &part, &ends);
    if (p.g.out.int8 != nullptr && ends.out_row == p.g.n) {
      p.out.dense = ends.out;
      p.out.dense_row = ends.out_row;
    }
    p.g.init = packed;
    p.g.packed = int8_panels(g.w, packed);
    p.a.data = static_cast<const uint8_t*>(f.data) + i * g.w.depth * kSize;
    implicit_gemm(c, p);
  }
}

size_t packed_size(const Call& c, const Geometry& g) {
  const View& w = c.in[1];
  if constexpr (kHasDots)
    if (g.dots) return depthwise_int8_packed_size(w.shape[0], window_of(c));
  if (g.depthwise)
    return static_cast<size_t>(w.shape[2] * w.shape[3] * padded(w.shape[0])) * sizeof(int32_t);
  return int8_packed_size(g.w) * static_cast<size_t>(g.groups);
}

void pack(const Call& c, const Geometry& g, void* packed) {
  if constexpr (kHasDots)
    if (g.dots) return depthwise_int8_pack(c.in[1], window_of(c), packed);
  if (kHasDepthwise && g.depthwise) return pack_depthwise(c, static_cast<int32_t*>(packed));
  Int8Kernels w = g.w;
  for (int64_t i = 0; i < g.groups; ++i, w.data += w.outs * w.out)
    int8_pack(w, static_cast<uint8_t*>(packed) + static_cast<size_t>(i) * int8_packed_size(w));
}

size_t copied_bytes(const Call& c, const Geometry& g) {
  const View& x = c.in[0];
  if constexpr (kHasDots)
    if (g.dots)
      return align64(depthwise_int8_scratch(c.out[0].shape[1])) +
             (dots_in_place(c) ? 0 : align64(padded_bytes(x, unpadded_shape(x))));
  if (!g.depthwise) return align64(padded_int8_bytes(x, g.shape));
  return depthwise_in_place(c, g) ? 0 : align64(padded_bytes(c.in[0], g.shape));
}

}  // namespace

Status conv2d_int8(const Call& c) {
  const auto& a = c.attr<Conv2dInt8Attrs>();
  const View &x = c.in[0], &y = c.out[0];
  if (y.dtype != DType::kF32 && y.dtype != DType::kI8) return Status::kUnimplemented;
  if (y.numel() == 0) return Status::kOk;
  const Geometry g = geometry_of(c);
  uint8_t* rest = static_cast<uint8_t*>(c.scratch);
  const int64_t channels = y.shape[1];
  const bool adds = c.n_in > 4 && c.in[4].given();
  Int8Epilogue end = {nullptr, nullptr, pixel_matrix(y),
                      adds ? pixel_matrix(c.in[4]) : MatrixRef{}};
  begin_int8_epilogue(&c.in[2], c.n_in > 3 ? &c.in[3] : nullptr, channels,
                      {a.act, a.out_scale, a.residual_scale, a.out_zero, a.low}, rest, &end);
  rest += int8_epilogue_bytes(channels);
  const uint8_t* packed = static_cast<const uint8_t*>(c.packed);
  if (packed == nullptr) {
    pack(c, g, rest);
    packed = rest;
    rest += align64(packed_size(c, g));
  }
  if constexpr (kHasDots)
    if (g.dots) {
      run_dots(c, packed, end, rest);
      return Status::kOk;
    }
  if (!kHasDepthwise || !g.depthwise) {
    run_groups(c, g, pad_int8_input(c, x, g.shape, rest), packed, end);
    return Status::kOk;
  }
  const PaddedInput input = pad_input(c, x, g.shape, depthwise_in_place(c, g), rest);
  run_depthwise(c, input, reinterpret_cast<const int32_t*>(packed), end);
  return Status::kOk;
}

size_t conv2d_int8_scratch(const Call& c) {
  const Geometry g = geometry_of(c);
  size_t bytes = int8_epilogue_bytes(c.out[0].shape[1]) + copied_bytes(c, g) + 64;
  if (c.packed == nullptr) bytes += align64(packed_size(c, g));
  return bytes;
}

size_t conv2d_int8_pack_size(const Call& c) { return packed_size(c, geometry_of(c)); }

Status conv2d_int8_pack(const Call& c, void* packed) {
  pack(c, geometry_of(c), packed);
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
