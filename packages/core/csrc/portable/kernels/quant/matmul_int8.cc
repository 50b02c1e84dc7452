// z = (x - x_zero) @ (y - y_zero) over the last two axes: both sides are packed as they come. Where
// y is one matrix the batch of x becomes rows.
#include "proa/base/task_size.h"
#include "proa/gen/attrs/quant.h"
#include "proa/kernels/linear/matrix_batch.h"
#include "proa/kernels/quant/int8_pair.h"
#include "proa/simd/workspace.h"

namespace proa::PROA_ISA {
namespace {

/// The matrices of one product of the batch.
struct Sizes {
  bool folded;  // the batch of x is rows
  int64_t m = 1, count, slots;
  CoalescedAxes x_rows, z_rows;
  Int8Kernels y;

  explicit Sizes(const Call& c) : folded(one_matrix(c.in[1])) {
    const View &x = c.in[0], &w = c.in[1], &z = c.out[0];
    const int first = folded ? 0 : x.rank - 2;
    for (int d = first; d + 1 < x.rank; ++d) m *= x.shape[d];
    x_rows = coalesce_axes(x, first, x.rank - 1);
    z_rows = coalesce_axes(z, folded ? 0 : z.rank - 2, z.rank - 1);
    y = {w.as<const int8_t>(),
         w.stride[w.rank - 1],
         0,
         0,
         w.stride[w.rank - 2],
         w.shape[w.rank - 1],
         1,
         w.shape[w.rank - 2],
         1,
         w.shape[w.rank - 2]};
    count = folded ? 1 : batch_of(c).count;
    slots = count < kBatchSlots ? 1 : kBatchSlots;
  }
};

/// What a slot works on.
struct Buffers {
  void* packed;
  Int8Step* rows;
  int32_t* row_terms;
  size_t bytes;
  Buffers(const Sizes& s, void* memory) {
    Workspace workspace(memory);
    packed = workspace.take<uint8_t>(static_cast<int64_t>(int8_packed_size(s.y)));
    rows = reinterpret_cast<Int8Step*>(
        workspace.take<uint8_t>(static_cast<int64_t>(int8_rows_bytes(s.m, s.y.depth))));
    row_terms = workspace.take<int32_t>(s.m);
    bytes = workspace.bytes();
  }
};

/// x, y and z at these offsets.
void multiply(const Call& c, const Sizes& s, const Int8PairEnd& shared, const int64_t* offset,
              const Buffers& w) {
  const auto& a = c.attr<MatmulInt8Attrs>();
  const auto x_zero = static_cast<int32_t>(a.x_zero), y_zero = static_cast<int32_t>(a.y_zero);
  Int8Kernels y = s.y;
  y.data += offset[1];
  int8_pack(y, w.packed, x_zero);
  const View &x = c.in[0], &z = c.out[0];
  const int64_t stride = x.stride[x.rank - 1], pitch = int8_pitch(y.depth);
  for (int64_t i = 0; i < s.m; ++i) {
    Int8Step* const to = w.rows + i * pitch;
    copy_int8_row(x.as<const int8_t>() + offset[0] + s.x_rows.at(i), stride, y.depth, to);
    if (y_zero != 0) w.row_terms[i] = int8_row_term(to, y.depth, x_zero, y_zero);
  }
  Int8PairEnd pair = shared;
  pair.row_terms = y_zero != 0 ? w.row_terms : nullptr;
  const auto size = static_cast<int64_t>(size_of(z.dtype));
  pair.end.out = {z.as<uint8_t>() + offset[2] * size, z.dtype, s.z_rows, z.stride[z.rank - 1]};
  PatchGemm p = int8_rows_product(y, w.packed, w.rows, s.m);
  set_int8_pair_output(&p.g.out, &pair);
  implicit_gemm(c, p);
}

}  // namespace

Status matmul_int8(const Call& c) {
  const auto& a = c.attr<MatmulInt8Attrs>();
  const View& z = c.out[0];
  if (z.dtype != DType::kF32 && z.dtype != DType::kI8) return Status::kUnimplemented;
  const Sizes s(c);
  if (s.m == 0 || s.y.outs == 0 || s.count == 0) return Status::kOk;
  uint8_t* const rest = static_cast<uint8_t*>(c.scratch) + int8_epilogue_bytes(s.y.outs);
  const size_t bytes = Buffers(s, nullptr).bytes;
  Int8PairEnd shared;
  shared.end.out = {z.data, z.dtype, {}, z.stride[z.rank - 1]};
  begin_int8_pair(static_cast<float>(a.scale), s.y.outs, {0, a.out_scale, 1.0, a.out_zero, a.low},
                  c.scratch, &shared);
  if (s.folded) {
    const int64_t offset[3] = {};
    multiply(c, s, shared, offset, Buffers(s, rest));
    return Status::kOk;
  }
  const Batch batch = batch_of(c);
  Call serial = c;
  if (s.slots > 1) serial.parallel = nullptr;
  const int64_t work = s.count * s.m * (s.y.outs * s.y.depth + 1);
  const int64_t grain = s.slots == 1 ? 1 : 1 + kGemmTaskMacs * s.slots / work;
  parallel_for(c, s.slots, grain, [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot) {
      const Buffers w(s, rest + static_cast<size_t>(slot) * bytes);
      const int64_t stop = (slot + 1) * s.count / s.slots;
      BatchIterator item(batch, slot * s.count / s.slots);
      for (int64_t i = slot * s.count / s.slots; i < stop; ++i, item.next())
        multiply(serial, s, shared, item.offset, w);
    }
  });
  return Status::kOk;
}

size_t matmul_int8_scratch(const Call& c) {
  const Sizes s(c);
  return int8_epilogue_bytes(s.y.outs) + static_cast<size_t>(s.slots) * Buffers(s, nullptr).bytes;
}

}  // namespace proa::PROA_ISA
