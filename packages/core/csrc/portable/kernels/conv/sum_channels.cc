// Sum over every axis but axis 1: the channels are the columns.
#include "proa/simd/column_sums.h"

namespace proa::PROA_ISA {

Status sum_channels(const Call& c) {
  return column_sums(c, channels_of(c.in[0]), c.scratch, c.out[0].data, c.out[0].stride[0]);
}

size_t sum_channels_scratch(const Call& c) { return column_sums_scratch(channels_of(c.in[0])); }

}  // namespace proa::PROA_ISA
