// The rows of x, copied as the micro-kernel reads them, are the patches of one line.
#include <string.h>

#include "proa/base/task_size.h"
#include "proa/gen/attrs/quant.h"
#include "proa/kernels/quant/int8_product.h"

namespace proa::PROA_ISA {
namespace {

Int8Kernels weights(const Call& c) { return int8_matrix(c.in[1]); }

PROA_NOINLINE MatrixRef row_matrix(const View& v) {
  return {v.data, v.dtype, coalesce_axes(v, 0, v.rank - 1), v.stride[v.rank - 1]};
}

int64_t rows_of(const View& x) {
  int64_t m = 1;
  for (int d = 0; d + 1 < x.rank; ++d) m *= x.shape[d];
  return m;
}

void copy_rows(const Call& c, int64_t k, Int8Step* to) {
  const View& x = c.in[0];
  const MatrixRef whole = row_matrix(x);
  const int64_t stride = x.stride[x.rank - 1], pitch = int8_pitch(k);
  parallel_for(c, rows_of(x), 1 + kCopyTaskBytes / (k + 1), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      copy_int8_row(x.as<const int8_t>() + whole.rows.at(i), stride, k, to + i * pitch);
  });
}

}  // namespace

Status linear_int8(const Call& c) {
  const auto& a = c.attr<LinearInt8Attrs>();
  const View& y = c.out[0];
  if (y.dtype != DType::kF32 && y.dtype != DType::kI8) return Status::kUnimplemented;
  const Int8Kernels w = weights(c);
  uint8_t* rest = static_cast<uint8_t*>(c.scratch);
  const void* packed = c.packed;
  if (packed == nullptr) {
    int8_pack(w, rest);
    packed = rest;
    rest += int8_packed_size(w);
  }
  const bool adds = c.n_in > 4 && c.in[4].given();
  Int8Epilogue end = {nullptr, nullptr, row_matrix(y), adds ? row_matrix(c.in[4]) : MatrixRef{}};
  begin_int8_epilogue(&c.in[2], c.n_in > 3 ? &c.in[3] : nullptr, w.outs,
                      {a.act, a.out_scale, a.residual_scale, a.out_zero, a.low}, rest, &end);
  rest += int8_epilogue_bytes(w.outs);
  copy_rows(c, w.depth, reinterpret_cast<Int8Step*>(rest));
  PatchGemm p = int8_rows_product(w, packed, rest, rows_of(c.in[0]));
  Int8Ends ends;
  set_int8_output(&p.g.out, &end, &ends);
  implicit_gemm(c, p);
  return Status::kOk;
}

size_t linear_int8_scratch(const Call& c) {
  const Int8Kernels w = weights(c);
  size_t bytes = int8_epilogue_bytes(w.outs) + int8_rows_bytes(rows_of(c.in[0]), w.depth);
  if (c.packed == nullptr) bytes += int8_packed_size(w);
  return bytes;
}

size_t linear_int8_pack_size(const Call& c) { return int8_packed_size(weights(c)); }

Status linear_int8_pack(const Call& c, void* packed) {
  int8_pack(weights(c), packed);
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
