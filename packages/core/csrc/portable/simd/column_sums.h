#pragma once
// Sums down the columns of a matrix whose rows may run over several strided axes.
#include "proa/base/call.h"
#include "proa/simd/gemm/lines.h"

namespace proa::PROA_ISA {

/// Element (row, column) = data[rows.at(row) + column * stride] of a float dtype (complex ones
/// are pairs of columns). The rows are summed in pieces that depend on the shape alone.
struct Columns {
  const void* data;
  DType dtype;
  Lines rows;
  int64_t count;  // rows
  int64_t n;      // columns
  int64_t stride;
};
size_t column_sums_scratch(const Columns& x);
/// Writes n sums, `out_stride` apart, of the dtype of x.
void column_sums(const Call& call, const Columns& x, void* scratch, void* out, int64_t out_stride);

}  // namespace proa::PROA_ISA
