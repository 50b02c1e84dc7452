// What squeeze-and-excitation does to an int8 image: means of channels, and their weights. Lanes
// are channels, which are contiguous in a channels-last image.
#include <string.h>

#include "proa/base/arith.h"
#include "proa/base/task_size.h"
#include "proa/gen/attrs/quant.h"
#include "proa/kernels/quant/int8_epilogue.h"

namespace proa::PROA_ISA {
namespace {

constexpr int kVecs = 4;  // of channels at a time

/// The first `some` of kLanes elements from p on; 0 if there are none.
PROA_INLINE VI load_some(const int8_t* p, int64_t stride, int64_t some) {
  if (PROA_LIKELY(stride == 1 && some >= kLanes)) return load_int8(p);
  some = max(min(some, int64_t{kLanes}), int64_t{0});
  if (stride == 1) return load_int8_n(p, some);
  int8_t lanes[kLanes] = {};
  for (int64_t i = 0; i < some; ++i) lanes[i] = p[i * stride];
  return load_int8(lanes);
}

PROA_INLINE VF load_some(const float* p, int64_t stride, int64_t some) {
  some = min(some, int64_t{kLanes});
  if (PROA_LIKELY(stride == 1)) return load_n(p, some);
  float lanes[kLanes] = {};
  for (int64_t i = 0; i < some; ++i) lanes[i] = p[i * stride];
  return load(lanes);
}

PROA_INLINE void store_some(int8_t* p, int64_t stride, int64_t some, VI8 v) {
  some = min(some, int64_t{kLanes});
  if (PROA_LIKELY(stride == 1)) return store_n(p, v, some);
  int8_t lanes[sizeof v];
  memcpy(lanes, &v, sizeof v);
  for (int64_t i = 0; i < some; ++i) p[i * stride] = lanes[i];
}

}  // namespace

Status gate_int8(const Call& c) {
  const auto& a = c.attr<GateInt8Attrs>();
  const View &x = c.in[0], &gate = c.in[1], &y = c.out[0];
  const int64_t channels = x.shape[1], rows = x.shape[2], cols = x.shape[3];
  const Int8Rounding rounding(a.out_scale);
  const VF step = splat(static_cast<float>(a.x_scale));
  parallel_for(
      c, x.shape[0] * rows, 1 + kCopyTask / (cols * channels + 1), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          const int64_t n = t / rows, h = t - n * rows;
          const int8_t* from = x.as<const int8_t>() + n * x.stride[0] + h * x.stride[2];
          const float* factors = gate.as<const float>() + n * gate.stride[0];
          int8_t* to = y.as<int8_t>() + n * y.stride[0] + h * y.stride[2];
          for (int64_t k = 0; k < channels; k += kLanes) {
            const int64_t some = channels - k;
            const VF factor = load_some(factors + k * gate.stride[1], gate.stride[1], some);
            for (int64_t w = 0; w < cols; ++w) {
              const VI q = load_some(from + k * x.stride[1] + w * x.stride[3], x.stride[1], some);
              store_some(to + k * y.stride[1] + w * y.stride[3], y.stride[1], some,
                         to_int8(rounding(to_float(q) * step * factor)));
            }
          }
        }
      });
  return Status::kOk;
}

Status mean_int8(const Call& c) {
  const View &x = c.in[0], &y = c.out[0];
  const int64_t channels = x.shape[1], rows = x.shape[2], cols = x.shape[3];
  const double scale = c.attr<MeanInt8Attrs>().scale;
  const VF factor = splat(static_cast<float>(scale / static_cast<double>(rows * cols)));
  constexpr int64_t kBlock = kVecs * kLanes;
  const int64_t blocks = ceil_div(channels, kBlock);
  parallel_for(c, x.shape[0] * blocks, 1 + kCopyTask / (rows * cols * kBlock + 1),
               [&](int64_t begin, int64_t end) {
                 for (int64_t t = begin; t < end; ++t) {
                   const int64_t n = t / blocks, k = (t - n * blocks) * kBlock;
                   const int8_t* from = x.as<const int8_t>() + n * x.stride[0] + k * x.stride[1];
                   VI sums[kVecs] = {};
                   for (int64_t h = 0; h < rows; ++h)
                     for (int64_t w = 0; w < cols; ++w) {
                       const int8_t* pixel = from + h * x.stride[2] + w * x.stride[3];
                       for (int v = 0; v < kVecs; ++v)
                         sums[v] += load_some(pixel + v * kLanes * x.stride[1], x.stride[1],
                                              channels - k - v * kLanes);
                     }
                   float lanes[kBlock];
                   for (int v = 0; v < kVecs; ++v)
                     store(lanes + v * kLanes, to_float(sums[v]) * factor);
                   float* const to = y.as<float>() + n * y.stride[0] + k * y.stride[1];
                   for (int64_t i = 0; i < min(channels - k, kBlock); ++i)
                     to[i * y.stride[1]] = lanes[i];
                 }
               });
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
