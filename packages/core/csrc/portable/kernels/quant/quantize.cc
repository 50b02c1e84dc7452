// Elementwise int8 quantization: symmetric, q = clamp(round(x / scale), -127, 127), and affine,
// with a zero point; dequantization, fake quantization, and sums and products of int8.
#include "proa/base/task_size.h"
#include "proa/gen/attrs/quant.h"
#include "proa/simd/vec.h"

namespace proa::PROA_ISA {
namespace {

constexpr int kArrays = 4;  // out, x, scale, dy

/// Loops over several arrays of one shape in the memory order of the first.
struct ScaleAxes {
  int rank = 0;
  int64_t shape[kMaxRank];
  int64_t stride[kArrays][kMaxRank];

  void add(int64_t n, const int64_t s[kArrays]) {
    if (n == 1) return;
    bool joins = rank > 0;
    for (int v = 0; v < kArrays && joins; ++v) joins = stride[v][rank - 1] == s[v] * n;
    if (!joins) ++rank;
    shape[rank - 1] = joins ? shape[rank - 1] * n : n;
    for (int v = 0; v < kArrays; ++v) stride[v][rank - 1] = s[v];
  }
};

int64_t distance(int64_t s) { return s < 0 ? -s : s; }

PROA_NOINLINE ScaleAxes make_scale_axes(const View& out, const View& x, const View& scale,
                                        int64_t axis, const View* dy) {
  int order[kMaxRank];
  for (int d = 0; d < out.rank; ++d) {
    int at = d;
    for (; at > 0 && distance(out.stride[order[at - 1]]) < distance(out.stride[d]); --at)
      order[at] = order[at - 1];
    order[at] = d;
  }
  const int64_t channels = axis < 0 ? axis + x.rank : axis;
  ScaleAxes w;
  for (int i = 0; i < out.rank; ++i) {
    const int d = order[i];
    const bool per_channel = scale.numel() != 1 && d == channels;
    const int64_t s[kArrays] = {out.stride[d], x.stride[d],
                                per_channel ? scale.stride[scale.rank - 1] : 0,
                                dy == nullptr ? 0 : dy->stride[d]};
    w.add(out.shape[d], s);
  }
  return w;
}

/// Calls body(offsets, strides, n) for each innermost line.
template <class F>
void for_each_line(const Call& c, const ScaleAxes& w, int64_t numel, F body) {
  if (numel == 0) return;
  const int64_t n = w.rank == 0 ? 1 : w.shape[w.rank - 1], lines = numel / n;
  // One long line is split; of many, each is one task's.
  const int64_t cut = lines == 1 ? 32768 : n, per_line = (n + cut - 1) / cut;
  parallel_for(c, lines * per_line, 1 + kCopyTask / (cut + 1), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      int64_t line = t / per_line, offset[kArrays] = {}, inner[kArrays] = {};
      for (int d = w.rank - 2; d >= 0; --d) {
        const int64_t i = line % w.shape[d];
        line /= w.shape[d];
        for (int v = 0; v < kArrays; ++v) offset[v] += i * w.stride[v][d];
      }
      const int64_t first = t % per_line * cut;
      for (int v = 0; v < kArrays && w.rank > 0; ++v) {
        inner[v] = w.stride[v][w.rank - 1];
        offset[v] += first * inner[v];
      }
      body(offset, inner, n - first < cut ? n - first : cut);
    }
  });
}

PROA_INLINE VF quantized(VF x, VF scale) {
  return min(splat(127.0f), max(splat(-127.0f), round_even(x / scale)));
}

constexpr int64_t kBlock = 256;

/// n elements, `step` apart, to float; and back.
template <class T>
PROA_NOINLINE void gather(const T* from, int64_t step, int64_t n, float* to) {
  if (step == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]);
  } else {
#pragma GCC unroll 1
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i * step]);
  }
}
template <class T>
PROA_NOINLINE void scatter(const float* from, int64_t step, int64_t n, T* to) {
  if (step == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(from[i]);
  } else {
#pragma GCC unroll 1
    for (int64_t i = 0; i < n; ++i) to[i * step] = static_cast<T>(from[i]);
  }
}

/// out = f(x, scale, dy), a block at a time; `dy` is a second array of x's shape, or null.
template <class Out, class In, class Other = float, class F>
void map(const Call& c, const View& x, const View& scale, int64_t axis, const View* dy, F f) {
  const View& out = c.out[0];
  const ScaleAxes w = make_scale_axes(out, x, scale, axis, dy);
  for_each_line(c, w, out.numel(), [&](const int64_t* at, const int64_t* step, int64_t n) {
    alignas(64) float v[kBlock] = {}, s[kBlock], d[kBlock] = {};
    for (int64_t k = 0; k < kBlock; ++k) s[k] = scale.as<const float>()[at[2]];
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t some = n - i < kBlock ? n - i : kBlock;
      gather(x.as<const In>() + at[1] + i * step[1], step[1], some, v);
      if (step[2] != 0) gather(scale.as<const float>() + at[2] + i * step[2], step[2], some, s);
      if (dy != nullptr) gather(dy->as<const Other>() + at[3] + i * step[3], step[3], some, d);
      for (int64_t k = 0; k < some; k += kLanes)
        store(v + k, f(load(v + k), load(s + k), load(d + k)));
      scatter(v, step[0], some, out.as<Out>() + at[0] + i * step[0]);
    }
  });
}

/// clamp(round(x / scale) + zero, low, 127).
PROA_INLINE VF shifted(VF x, VF scale, VF zero, VF low) {
  return min(splat(127.0f), max(low, round_even(x / scale) + zero));
}

PROA_INLINE VF splat_number(double v) { return splat(static_cast<float>(v)); }

/// Quantized f(a, b), with a and b the dequantized x and y.
template <class Attrs, class F>
Status binary_int8(const Call& c, F f) {
  const auto& a = c.attr<Attrs>();
  const VF x_zero = splat_number(static_cast<double>(a.x_zero)), x_scale = splat_number(a.x_scale);
  const VF y_zero = splat_number(static_cast<double>(a.y_zero)), y_scale = splat_number(a.y_scale);
  const VF zero = splat_number(static_cast<double>(a.out_zero));
  const VF low = splat_number(static_cast<double>(a.low));
  float step = static_cast<float>(a.out_scale);
  View scale;
  scale.data = &step;
  scale.dtype = DType::kF32;
  scale.rank = 0;
  map<int8_t, int8_t, int8_t>(c, c.in[0], scale, -1, &c.in[1], [=](VF x, VF s, VF y) {
    return shifted(f((x - x_zero) * x_scale, (y - y_zero) * y_scale), s, zero, low);
  });
  return Status::kOk;
}

}  // namespace

Status quantize_affine(const Call& c) {
  const auto& a = c.attr<QuantizeAffineAttrs>();
  const VF zero = splat_number(static_cast<double>(a.zero_point));
  const VF low = splat_number(static_cast<double>(a.low));
  map<int8_t, float>(c, c.in[0], c.in[1], -1, nullptr,
                     [=](VF x, VF s, VF) { return shifted(x, s, zero, low); });
  return Status::kOk;
}

Status add_int8(const Call& c) {
  return binary_int8<AddInt8Attrs>(c, [](VF a, VF b) { return a + b; });
}

Status mul_int8(const Call& c) {
  return binary_int8<MulInt8Attrs>(c, [](VF a, VF b) { return a * b; });
}

Status quantize(const Call& c) {
  map<int8_t, float>(c, c.in[0], c.in[1], c.attr<QuantizeAttrs>().axis, nullptr,
                     [](VF x, VF s, VF) { return quantized(x, s); });
  return Status::kOk;
}

Status dequantize(const Call& c) {
  const int64_t axis = c.attr<DequantizeAttrs>().axis;
  auto scaled = [](VF x, VF s, VF) { return x * s; };
  if (c.in[0].dtype == DType::kI8)
    map<float, int8_t>(c, c.in[0], c.in[1], axis, nullptr, scaled);
  else
    map<float, int32_t>(c, c.in[0], c.in[1], axis, nullptr, scaled);
  return Status::kOk;
}

Status fake_quant(const Call& c) {
  map<float, float>(c, c.in[0], c.in[1], c.attr<FakeQuantAttrs>().axis, nullptr,
                    [](VF x, VF s, VF) { return quantized(x, s) * s; });
  return Status::kOk;
}

Status fake_quant_grad(const Call& c) {
  map<float, float>(c, c.in[1], c.in[2], c.attr<FakeQuantGradAttrs>().axis, &c.in[0],
                    [](VF x, VF s, VF dy) { return abs(x) <= s * 127.0f ? dy : VF{}; });
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
