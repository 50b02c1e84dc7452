#include "proa/gen/attrs.h"
#include "proa/gen/kernels.h"
#include "proa/kernels/quant/int8_product.h"

namespace proa::PROA_ISA {
namespace {

struct Matrix {
  const int8_t* data;
  Lines rows;
  int64_t stride;
};

const void* read_matrix(const void* ctx, int64_t row, int64_t k, int64_t count, void* buffer) {
  const Matrix& a = *static_cast<const Matrix*>(ctx);
  const int8_t* from = a.data + a.rows.at(row) + k * a.stride;
  if (a.stride == 1) return from;
  int8_t* to = static_cast<int8_t*>(buffer);
  for (int64_t i = 0; i < count; ++i) to[i] = from[i * a.stride];
  return to;
}

Int8Columns weights(const Call& c) {
  const View& w = c.in[1];
  return {w.as<const int8_t>(), lines_of(w, 0, 1), w.stride[1]};
}

int64_t rows_of(const View& x) {
  int64_t m = 1;
  for (int d = 0; d + 1 < x.rank; ++d) m *= x.shape[d];
  return m;
}

}  // namespace

Status linear_int8(const Call& c) {
  const auto& a = c.attr<LinearInt8Attrs>();
  const View &x = c.in[0], &w = c.in[1], &y = c.out[0];
  const Matrix rows = {x.as<const int8_t>(), lines_of(x, 0, x.rank - 1), x.stride[x.rank - 1]};
  Int8Product p;
  p.m = rows_of(x);
  p.n = w.shape[1];
  p.k = w.shape[0];
  p.read = read_matrix;
  p.ctx = &rows;
  p.packed = c.packed;
  uint8_t* rest = static_cast<uint8_t*>(c.scratch);
  if (p.packed == nullptr) {
    int8_pack(weights(c), p.n, p.k, rest);
    p.packed = rest;
    rest += (int8_packed_size(p.n, p.k) + 63) & ~size_t{63};
  }
  p.multiplier = &c.in[2];
  if (c.n_in > 3) p.bias = &c.in[3];
  p.out = {y.data, y.dtype, lines_of(y, 0, y.rank - 1), y.stride[y.rank - 1]};
  p.act = static_cast<Act>(a.act);
  p.out_scale = static_cast<float>(a.out_scale);
  if (y.dtype != DType::kF32 && y.dtype != DType::kI8) return Status::kUnimplemented;
  int8_multiply(c, p, rest);
  return Status::kOk;
}

size_t linear_int8_scratch(const Call& c) {
  const View& w = c.in[1];
  size_t bytes = int8_scratch(rows_of(c.in[0]), w.shape[1], w.shape[0]);
  if (c.packed == nullptr) bytes += int8_packed_size(w.shape[1], w.shape[0]) + 64;
  return bytes;
}

size_t linear_int8_pack_size(const Call& c) {
  return int8_packed_size(c.in[1].shape[1], c.in[1].shape[0]);
}

Status linear_int8_pack(const Call& c, void* packed) {
  int8_pack(weights(c), c.in[1].shape[1], c.in[1].shape[0], packed);
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
