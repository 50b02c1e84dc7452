// dx(h, w) gathers dy(i, j) over the taps with i * stride + tap * dilation - padding = h. The taps
// that fit depend on h modulo the stride only, so each residue ("phase") is a correlation of dy
// with some of the kernels' taps, flipped, at stride 1. conv2d_transpose is the same, with a
// bias where that has the shape of x; its attributes begin alike.
#include "proa/gen/attrs/conv.h"
#include "proa/kernels/conv/depthwise_doubled.h"
#include "proa/kernels/conv/geometry.h"
#include "proa/kernels/conv/scatter_input.h"
#include "proa/simd/conv/depthwise.h"

namespace proa::PROA_ISA {
namespace {

/// One axis of one phase: positions phase + stride * i for i in [0, count).
struct Phase {
  int64_t count;           // positions
  int64_t taps;            // kernel taps that fit
  int64_t first, step;     // of those taps, in the order of rising dy position
  int64_t start, spacing;  // dy position of the first tap at i = 0, and between taps
};

Phase phase_of(int64_t phase, int64_t size, int64_t kernel, int64_t stride, int64_t padding,
               int64_t dilation) {
  Phase p = {};
  p.count = phase < size ? (size - phase + stride - 1) / stride : 0;
  int64_t a = stride, b = dilation;
  while (b != 0) {
    const int64_t r = a % b;
    a = b;
    b = r;
  }
  const int64_t every = stride / a;
  p.spacing = dilation / a;
  int64_t tap = 0;
  while (tap < kernel && tap < every && (phase + padding - tap * dilation) % stride != 0) ++tap;
  if (tap >= kernel || tap >= every) return p;
  p.taps = (kernel - tap + every - 1) / every;
  p.first = tap + (p.taps - 1) * every;
  p.step = -every;
  // Exact: the remainder is 0 for either sign.
  p.start = (phase + padding - p.first * dilation) / stride;
  return p;
}

Convolution phase_correlation(const Call& c, int64_t ph, int64_t pw) {
  const auto& a = c.attr<Conv2dGradInputAttrs>();
  const View &dy = c.in[0], &w = c.in[1], &dx = c.out[0];
  const Phase h = phase_of(ph, dx.shape[2], w.shape[2], a.stride[0], a.padding[0], a.dilation[0]);
  const Phase v = phase_of(pw, dx.shape[3], w.shape[3], a.stride[1], a.padding[2], a.dilation[1]);
  Convolution r;
  r.x = dy;
  r.window.kernel_h = v.taps == 0 ? 0 : h.taps;
  r.window.kernel_w = h.taps == 0 ? 0 : v.taps;
  r.window.dilation_h = h.spacing;
  r.window.dilation_w = v.spacing;
  r.window.pad_top = -h.start;
  r.window.pad_left = -v.start;
  r.channels = {a.groups, w.shape[0] / a.groups, w.shape[1]};
  r.output = {h.count, v.count};
  r.kernels = {nullptr,
               w.dtype,
               r.channels.in * w.stride[0],
               w.stride[1],
               h.step * w.stride[2],
               v.step * w.stride[3],
               w.stride[0]};
  const int64_t skip = h.first * w.stride[2] + v.first * w.stride[3];
  r.kernels.data = w.as<const uint8_t>() + skip * static_cast<int64_t>(size_of(w.dtype));
  r.end.out = pixel_matrix(dx, ph, pw, a.stride[0], a.stride[1], r.output.height, r.output.width);
  return r;
}

template <class F>
void for_each_phase(const Call& c, const View* bias, F body) {
  const auto& a = c.attr<Conv2dGradInputAttrs>();
  size_t offset = 0;  // of the phase's prepacked kernels
  for (int64_t h = 0; h < a.stride[0]; ++h)
    for (int64_t w = 0; w < a.stride[1]; ++w) {
      Convolution r = phase_correlation(c, h, w);
      r.bias = bias;
      if (c.packed != nullptr) r.kernels.packed = static_cast<const uint8_t*>(c.packed) + offset;
      body(r, offset);
      offset += (convolve_packed_size(r) + 63) & ~size_t{63};
    }
}

/// The kernels decide alone: what is packed cannot depend on dy.
bool scatters(const Call& c) {
  return scatter_takes(c.in[1], c.attr<Conv2dGradInputAttrs>().groups);
}

size_t packed_size(const Call& c) {
  if (scatters(c)) return scatter_packed_size(c.in[1]);
  size_t end = 0;
  for_each_phase(c, nullptr, [&](const Convolution& r, size_t offset) {
    end = offset + convolve_packed_size(r) + 64;
  });
  return end;
}
void pack(const Call& c, void* packed) {
  if (scatters(c)) return scatter_pack(c.in[1], packed);
  for_each_phase(c, nullptr, [&](const Convolution& r, size_t offset) {
    convolve_pack(c, r, static_cast<uint8_t*>(packed) + offset);
  });
}

// -- depthwise: the phases of a line of dx one after the other, so that it is written in order --
struct FusedPhases {
  bool enabled;         // not if there are too many phases, or one alone
  bool in_place;        // dy is used in place
  size_t packed, bias;  // bytes of kernels, of the bias
};
constexpr int64_t kPhases = 9;

size_t align64(size_t n) { return (n + 63) & ~size_t{63}; }

FusedPhases plan_fused_phases(const Call& c, const View* bias) {
  const auto& a = c.attr<Conv2dGradInputAttrs>();
  const Convolution first = phase_correlation(c, 0, 0);
  const int64_t phases = a.stride[0] * a.stride[1];
  FusedPhases t = {};
  t.enabled = depthwise_takes(first) && phases > 1 && phases <= kPhases;
  t.in_place = is_usable_in_place(c.in[0], unpadded_shape(c.in[0]));
  if (c.packed == nullptr) t.packed = align64(packed_size(c));
  if (bias != nullptr) t.bias = align64(static_cast<size_t>(depthwise_width(first) * 8));
  return t;
}

void run_fused_phases(const Call& call, const View* bias, const FusedPhases& t) {
  const View &dy = call.in[0], &dx = call.out[0];
  const auto& a = call.attr<Conv2dGradInputAttrs>();
  uint8_t* rest = static_cast<uint8_t*>(call.scratch);
  Call c = call;
  if (c.packed == nullptr) {
    pack(call, rest);
    c.packed = rest;
    rest += t.packed;
  }
  uint8_t* const own = bias == nullptr ? nullptr : rest;
  if (bias != nullptr) widen(bias->data, bias->dtype, bias->stride[0], dx.shape[1], own);
  const PaddedInput input = pad_input(c, dy, unpadded_shape(dy), t.in_place, rest + t.bias);
  Convolution phases[kPhases];
  GemmOutput outputs[kPhases] = {};
  int count = 0;
  for_each_phase(c, bias, [&](const Convolution& r, size_t) {
    phases[count] = r;
    set_output(&outputs[count], &phases[count].end);
    ++count;
  });
  if (doubled_takes(phases, count, dx)) return depthwise_doubled(c, phases, input, own, dx);
  const int64_t rows = (dx.shape[2] + a.stride[0] - 1) / a.stride[0];
  parallel_for(c, dx.shape[0] * rows, depthwise_grain(phases[0]), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line)
      for (int i = 0; i < count; ++i) {
        const Convolution& r = phases[i];
        const int64_t n = line / rows, at = n * r.output.height + line - n * rows;
        if (line - n * rows < r.output.height)
          depthwise_lines(r, input, r.kernels.packed, own, outputs[i], at, at + 1);
      }
  });
}

Status run(const Call& c, const View* bias) {
  if (!is_floating(c.in[0].dtype)) return Status::kUnimplemented;
  if (c.out[0].numel() == 0) return Status::kOk;
  if (scatters(c)) {
    scatter_input(c, bias);
    return Status::kOk;
  }
  const FusedPhases t = plan_fused_phases(c, bias);
  if (t.enabled) {
    run_fused_phases(c, bias, t);
    return Status::kOk;
  }
  for_each_phase(c, bias, [&](const Convolution& r, size_t) { convolve(c, r, c.scratch); });
  return Status::kOk;
}

size_t scratch(const Call& c, const View* bias) {
  if (scatters(c)) return scatter_input_scratch(c);
  const FusedPhases t = plan_fused_phases(c, bias);
  if (t.enabled)
    return t.packed + t.bias +
           (t.in_place ? 0 : align64(padded_bytes(c.in[0], unpadded_shape(c.in[0]))));
  size_t largest = 0;
  for_each_phase(c, bias, [&](const Convolution& r, size_t) {
    const size_t bytes = convolve_scratch(r);
    largest = bytes > largest ? bytes : largest;
  });
  return largest;
}

const View* bias_of(const Call& c) { return c.n_in > 2 && c.in[2].given() ? &c.in[2] : nullptr; }

}  // namespace

Status conv2d_grad_input(const Call& c) { return run(c, nullptr); }
size_t conv2d_grad_input_scratch(const Call& c) { return scratch(c, nullptr); }
size_t conv2d_grad_input_pack_size(const Call& c) { return packed_size(c); }
Status conv2d_grad_input_pack(const Call& c, void* packed) {
  pack(c, packed);
  return Status::kOk;
}

Status conv2d_transpose(const Call& c) { return run(c, bias_of(c)); }
size_t conv2d_transpose_scratch(const Call& c) { return scratch(c, bias_of(c)); }
size_t conv2d_transpose_pack_size(const Call& c) { return packed_size(c); }
Status conv2d_transpose_pack(const Call& c, void* packed) {
  pack(c, packed);
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
