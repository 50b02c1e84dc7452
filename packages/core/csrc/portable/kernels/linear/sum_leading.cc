// Sum over every axis but the last. A complex array is summed as two real ones.
#include "proa/simd/column_sums.h"

namespace proa::PROA_ISA {
namespace {

Columns columns_of(const View& x) {
  Columns c = {x.data,
               x.dtype,
               coalesce_axes(x, 0, x.rank - 1),
               1,
               x.shape[x.rank - 1],
               x.shape[x.rank - 1] == 1 ? 1 : x.stride[x.rank - 1]};
  for (int d = 0; d + 1 < x.rank; ++d) c.count *= x.shape[d];
  if (is_complex(x.dtype)) {
    c.dtype = x.dtype == DType::kC64 ? DType::kF32 : DType::kF64;
    for (int d = 0; d < c.rows.rank; ++d) c.rows.stride[d] *= 2;
    c.stride *= 2;
  }
  return c;
}

}  // namespace

Status sum_leading(const Call& c) {
  const View &x = c.in[0], &y = c.out[0];
  Columns columns = columns_of(x);
  const int64_t stride = y.stride[y.rank - 1];
  if (!is_complex(x.dtype)) {
    return column_sums(c, columns, c.scratch, y.data, stride);
  }
  for (int part = 0; part < 2; ++part) {
    const int64_t shift = part * static_cast<int64_t>(size_of(columns.dtype));
    columns.data = x.as<const uint8_t>() + shift;
    const Status done = column_sums(c, columns, c.scratch, y.as<uint8_t>() + shift, 2 * stride);
    if (done != Status::kOk) return done;
  }
  return Status::kOk;
}

size_t sum_leading_scratch(const Call& c) { return column_sums_scratch(columns_of(c.in[0])); }

}  // namespace proa::PROA_ISA
