// A recurrent cell whose recurrent product is computed in int8. At each step the states are
// quantized, multiplied exactly with the packed weight, and the gates computed in float.
#include "proa/gen/attrs/recurrent.h"
#include "proa/kernels/quant/int8_product.h"
#include "proa/kernels/recurrent/step.h"

namespace proa::PROA_ISA {
namespace {

struct Work : StepWork<float> {
  uint8_t *packed, *ending, *rows;  // rows: states as the micro-kernel reads them
  size_t bytes;
};

/// w^T as the right side of h @ w^T.
Int8Kernels weights(const View& w) {
  return {w.as<const int8_t>(), w.stride[0], 0,          0, w.stride[1],
          w.shape[0],           1,           w.shape[1], 1, w.shape[1]};
}

CellSizes sizes_of(const Call& c) {
  CellSizes s = cell_sizes(c.attr<RecurrentInt8Attrs>().cell, c.in[0].shape[0], c.in[1], c.in[3]);
  s.reserved = 0;
  return s;
}

Work carve_workspace(const Call& c, const CellSizes& s, void* memory) {
  Workspace workspace(memory);
  Work w = {};
  take_steps(s, &workspace, &w);
  const size_t packed = c.packed != nullptr ? 0 : int8_packed_size(weights(c.in[1]));
  w.packed = workspace.take<uint8_t>(static_cast<int64_t>(packed));
  w.ending = workspace.take<uint8_t>(static_cast<int64_t>(int8_epilogue_bytes(s.gates)));
  w.rows = workspace.take<uint8_t>(static_cast<int64_t>(int8_rows_bytes(s.batch, s.hidden)));
  w.bytes = workspace.bytes();
  return w;
}

/// A state, quantized, as a row of the left matrix.
void round_state(const float* h, int64_t n, float scale, Int8Step* __restrict to) {
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t some = n - i < kLanes ? n - i : kLanes;
    alignas(64) float v[kLanes];
    const VF q = round_even(load_n(h + i, some) / splat(scale));
    store(v, min(splat(127.0f), max(splat(-127.0f), q)));
    for (int64_t k = 0; k < some; ++k) {
      to[i + k] = static_cast<Int8Step>(static_cast<int8_t>(v[k]) ^ kInt8Offset);
    }
  }
}

}  // namespace

Status recurrent_int8(const Call& c) {
  const auto& a = c.attr<RecurrentInt8Attrs>();
  const CellSizes s = sizes_of(c);
  const Work work = carve_workspace(c, s, c.scratch);
  const Int8Kernels w = weights(c.in[1]);
  const void* packed = c.packed;
  if (packed == nullptr) {
    int8_pack(w, work.packed);
    packed = work.packed;
  }
  read_states(c.in[3], s, work.h);
  if (s.cell == Cell::kLstm) read_states(c.in[4], s, work.c);
  Int8Epilogue end = {nullptr, nullptr, rows_in(work.gates, s.batch, s.gates)};
  end.out.stride = 1;
  begin_int8_epilogue(&c.in[2], optional_input(c, 5), s.gates, {0, 0.0, 1.0}, work.ending, &end);
  PatchGemm product = int8_rows_product(w, packed, work.rows, s.batch);
  product.g.out.epilogue = finish_int8;
  product.g.out.epilogue_ctx = &end;
  const float scale = static_cast<float>(a.h_scale);
  Int8Step* const rows = reinterpret_cast<Int8Step*>(work.rows);
  for (int64_t k = 0; k < s.time; ++k) {
    const int64_t t = a.reverse != 0 ? s.time - 1 - k : k;
    for (int64_t b = 0; b < s.batch; ++b) {
      round_state(work.h + b * s.hidden, s.hidden, scale, rows + b * int8_pitch(s.hidden));
    }
    if (s.batch > 0) implicit_gemm(c, product);
    parallel_for(c, s.batch, sample_grain(s), [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b) sample(c, s, optional_input(c, 6), work, t, b);
    });
  }
  write_states(c.out[1], s, work.h);
  if (s.cell == Cell::kLstm) write_states(c.out[2], s, work.c);
  return Status::kOk;
}

size_t recurrent_int8_scratch(const Call& c) {
  return carve_workspace(c, sizes_of(c), nullptr).bytes;
}

size_t recurrent_int8_pack_size(const Call& c) { return int8_packed_size(weights(c.in[1])); }
Status recurrent_int8_pack(const Call& c, void* packed) {
  int8_pack(weights(c.in[1]), packed);
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
