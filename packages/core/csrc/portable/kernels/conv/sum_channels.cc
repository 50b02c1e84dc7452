// Sum over every axis but axis 1: the channels are the columns.
#include "proa/gen/kernels.h"
#include "proa/simd/column_sums.h"

namespace proa::PROA_ISA {
namespace {

Columns columns_of(const View& x) {
  Columns c = {x.data, x.dtype, {}, 1, x.shape[1], x.shape[1] == 1 ? 1 : x.stride[1]};
  for (int d = 0; d < x.rank; ++d) {
    if (d == 1) continue;
    c.rows.add(x.shape[d], x.stride[d]);
    c.count *= x.shape[d];
  }
  return c;
}

}  // namespace

Status sum_channels(const Call& c) {
  column_sums(c, columns_of(c.in[0]), c.scratch, c.out[0].data, c.out[0].stride[0]);
  return Status::kOk;
}

size_t sum_channels_scratch(const Call& c) { return column_sums_scratch(columns_of(c.in[0])); }

}  // namespace proa::PROA_ISA
