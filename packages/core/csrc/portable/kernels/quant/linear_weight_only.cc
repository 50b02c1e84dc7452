// A product with a weight of 4 or 8 bits in groups. Blocks of the weight become floats as the
// matrix product packs them, so that no more than such a block is ever stored in float.
#include <string.h>

#include "proa/gen/attrs/quant.h"
#include "proa/kernels/quant/int8_product.h"
#include "proa/simd/workspace.h"

namespace proa::PROA_ISA {
namespace {

constexpr int64_t kPanel = 64;  // columns

/// The packed weight: panels of kPanel columns, each with its scales (groups of floats), its zeros
/// (groups of bytes, if there are any) and its bytes, a row of them for 1 or 2 steps of k.
struct PackedWeight {
  const uint8_t* data;
  int64_t k, n, groups, group;
  bool four_bits, has_zeros;

  int64_t rows() const { return four_bits ? (k + 1) / 2 : k; }
  int64_t scale_bytes() const { return groups * kPanel * 4; }
  int64_t zero_bytes() const { return has_zeros ? groups * kPanel : 0; }
  int64_t panel_bytes() const { return scale_bytes() + zero_bytes() + rows() * kPanel; }
  int64_t bytes() const { return (n + kPanel - 1) / kPanel * panel_bytes(); }
};

PackedWeight weight_of(const Call& c, const void* packed) {
  const auto& a = c.attr<LinearWeightOnlyAttrs>();
  const View &x = c.in[0], &scale = c.in[2];
  return {static_cast<const uint8_t*>(packed),
          x.shape[x.rank - 1],
          c.in[1].shape[0],
          scale.shape[1],
          a.group,
          a.bits == 4,
          c.n_in > 3 && c.in[3].given()};
}

/// Integer k of row o of the weight as it is given.
uint8_t integer_at(const View& w, int64_t o, int64_t k, bool four_bits) {
  const uint8_t* const row = w.as<const uint8_t>() + o * w.stride[0];
  if (!four_bits) return row[k * w.stride[1]];
  return (row[k / 2 * w.stride[1]] >> (k % 2 * 4)) & 15;
}

void pack_weight(const Call& c, void* packed) {
  const PackedWeight p = weight_of(c, packed);
  const View &w = c.in[1], &scale = c.in[2];
  memset(packed, 0, static_cast<size_t>(p.bytes()));
  parallel_for(c, (p.n + kPanel - 1) / kPanel, 1, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin * kPanel; o < p.n && o < end * kPanel; ++o) {
      uint8_t* const panel = static_cast<uint8_t*>(packed) + o / kPanel * p.panel_bytes();
      const int64_t j = o % kPanel;
      for (int64_t g = 0; g < p.groups; ++g) {
        float step = 0.0f;
        const int64_t at = (o * scale.stride[0] + g * scale.stride[1]) *
                           static_cast<int64_t>(size_of(scale.dtype));
        widen(scale.as<const uint8_t>() + at, scale.dtype, 1, 1, &step);
        memcpy(panel + (g * kPanel + j) * 4, &step, 4);
        if (!p.has_zeros) continue;
        const View& zero = c.in[3];
        panel[p.scale_bytes() + g * kPanel + j] =
            zero.as<const uint8_t>()[o * zero.stride[0] + g * zero.stride[1]];
      }
      uint8_t* const bytes = panel + p.scale_bytes() + p.zero_bytes() + j;
      for (int64_t k = 0; k < p.k; ++k) {
        const uint8_t q = integer_at(w, o, k, p.four_bits);
        if (p.four_bits)
          bytes[k / 2 * kPanel] |= static_cast<uint8_t>(q << (k % 2 * 4));
        else
          bytes[k * kPanel] = q;
      }
    }
  });
}

/// Bytes as numbers of 0 to 255.
PROA_INLINE VI load_bytes(const uint8_t* p) {
  return load_int8(reinterpret_cast<const int8_t*>(p)) & 255;
}

/// kLanes columns from `lane` on, steps of k from k0 on, into rows `width` apart.
void expand(const PackedWeight& p, int64_t lane, int64_t k0, int64_t k, float* to, int64_t width) {
  const uint8_t* const panel = p.data + lane / kPanel * p.panel_bytes() + lane % kPanel * 4;
  const uint8_t* const zeros = p.data + lane / kPanel * p.panel_bytes() + p.scale_bytes();
  const uint8_t* const bytes = zeros + p.zero_bytes() + lane % kPanel;
  for (int64_t at = k0; at < k0 + k;) {
    const int64_t g = at / p.group, stop = (g + 1) * p.group, last = k0 + k;
    const int64_t end = stop < last ? stop : last;
    const VF scale = load_as<VF>(panel + g * kPanel * 4);
    const VI zero = p.has_zeros ? load_bytes(zeros + lane % kPanel + g * kPanel)
                                : splat<int32_t>(p.four_bits ? 8 : 128);
    if (!p.four_bits) {
      for (; at < end; ++at, to += width)
        store(to, to_float(load_bytes(bytes + at * kPanel) - zero) * scale);
      continue;
    }
    if (at % 2 != 0) {
      store(to, to_float((load_bytes(bytes + at / 2 * kPanel) >> 4) - zero) * scale);
      ++at, to += width;
    }
    for (; at + 2 <= end; at += 2, to += 2 * width) {
      const VI both = load_bytes(bytes + at / 2 * kPanel);
      store(to, to_float((both & 15) - zero) * scale);
      store(to + width, to_float((both >> 4) - zero) * scale);
    }
    if (at < end) {
      store(to, to_float((load_bytes(bytes + at / 2 * kPanel) & 15) - zero) * scale);
      ++at, to += width;
    }
  }
}

/// PackOperand::pack. A panel is whole vectors wide; columns past the last have scale 0.
void expand_panel(const void* ctx, int64_t lane, int lanes, int width, int64_t k0, int64_t k,
                  void* panel) {
  const PackedWeight& p = *static_cast<const PackedWeight*>(ctx);
  float* const to = static_cast<float*>(panel);
  for (int j = 0; j < width; j += kLanes) {
    if (j < lanes)
      expand(p, lane + j, k0, k, to + j, width);
    else
      for (int64_t i = 0; i < k; ++i) store(to + j + i * width, VF{});
  }
}

struct Work {
  float* bias;
  uint8_t* packed;
  uint8_t* product;
  size_t bytes;
};

MatrixRef output_of(const View& y) {
  return {y.data, y.dtype, coalesce_axes(y, 0, y.rank - 1), y.stride[y.rank - 1]};
}

int64_t rows_of(const View& x) {
  int64_t m = 1;
  for (int d = 0; d + 1 < x.rank; ++d) m *= x.shape[d];
  return m;
}

Work carve_workspace(const Call& c, void* memory) {
  const PackedWeight p = weight_of(c, nullptr);
  Workspace workspace(memory);
  Work work = {};
  work.bias = workspace.take<float>(gemm_columns(kMicroF32, p.n));
  work.packed = workspace.take<uint8_t>(c.packed == nullptr ? p.bytes() : 0);
  const size_t product =
      gemm_scratch(kMicroF32, rows_of(c.in[0]), p.n, p.k, takes_tiles(output_of(c.out[0])), false);
  work.product = workspace.take<uint8_t>(static_cast<int64_t>(product));
  work.bytes = workspace.bytes();
  return work;
}

}  // namespace

Status linear_weight_only(const Call& c) {
  const View &x = c.in[0], &y = c.out[0];
  if (!is_floating(x.dtype)) return Status::kUnimplemented;
  const Work work = carve_workspace(c, c.scratch);
  if (c.packed == nullptr) pack_weight(c, work.packed);
  const PackedWeight weight = weight_of(c, c.packed == nullptr ? work.packed : c.packed);
  FloatEpilogue end;
  end.out = output_of(y);
  end.act = static_cast<Act>(c.attr<LinearWeightOnlyAttrs>().act);
  MatrixOperand a;
  Gemm g = {&kMicroF32, rows_of(x), weight.n, weight.k, {}, {}};
  const View* const bias = c.n_in > 4 && c.in[4].given() ? &c.in[4] : nullptr;
  if (bias != nullptr) {
    widen(bias->data, bias->dtype, bias->stride[0], weight.n, work.bias);
    g.init = work.bias;
  }
  set_output(&g.out, &end);
  g.a = matrix_operand(&a, x.data, x.dtype, coalesce_axes(x, 0, x.rank - 1),
                       coalesce_axes(x, x.rank - 1, x.rank));
  g.b.ctx = &weight;
  g.b.pack = expand_panel;
  if (g.m > 0 && g.n > 0) gemm(c, g, work.product);
  return Status::kOk;
}

size_t linear_weight_only_scratch(const Call& c) { return carve_workspace(c, nullptr).bytes; }
size_t linear_weight_only_pack_size(const Call& c) {
  return static_cast<size_t>(weight_of(c, nullptr).bytes());
}
Status linear_weight_only_pack(const Call& c, void* packed) {
  pack_weight(c, packed);
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
