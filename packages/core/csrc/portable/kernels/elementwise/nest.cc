#include "proa/kernels/elementwise/nest.h"

// Short loops over a few dimensions: unrolled they would only be large.
#pragma GCC optimize("Os")

namespace proa::PROA_ISA {

void Nest::set_shape(const View& v) {
  arrays = 0;
  rank = v.rank;
  for (int d = 0; d < rank; ++d) shape[d] = v.shape[d];
}

void Nest::add(const View& v) {
  const int lead = rank - v.rank;
  for (int d = 0; d < rank; ++d) {
    const bool steps = d >= lead && v.shape[d - lead] != 1;
    stride[arrays][d] = steps ? v.stride[d - lead] : 0;
  }
  ++arrays;
}

void Nest::add_strides(const int64_t* strides) {
  for (int d = 0; d < rank; ++d) stride[arrays][d] = strides[d];
  ++arrays;
}

int64_t Nest::size() const {
  int64_t n = 1;
  for (int d = 0; d < rank; ++d) n *= shape[d];
  return n;
}

namespace {

/// Rebuilds the nest from these of its dimensions, merged where all arrays allow.
void rebuild(Nest* nest, const int* order, int count) {
  const Nest old = *nest;
  nest->rank = 0;
  for (int i = 0; i < count; ++i) {
    const int d = order[i], last = nest->rank - 1;
    bool joins = last >= 0;
    for (int k = 0; k < nest->arrays && joins; ++k) {
      joins = nest->stride[k][last] == old.stride[k][d] * old.shape[d];
    }
    const int at = joins ? last : nest->rank++;
    nest->shape[at] = joins ? nest->shape[at] * old.shape[d] : old.shape[d];
    for (int k = 0; k < nest->arrays; ++k) nest->stride[k][at] = old.stride[k][d];
  }
}

}  // namespace

void Nest::merge() {
  int order[kMaxRank], count = 0;
  for (int d = 0; d < rank; ++d) {
    if (shape[d] != 1) order[count++] = d;
  }
  rebuild(this, order, count);
}

void Nest::simplify() {
  int order[kMaxRank], count = 0;
  auto magnitude = [&](int d) { return stride[0][d] < 0 ? -stride[0][d] : stride[0][d]; };
  for (int d = 0; d < rank; ++d) {
    if (shape[d] == 1) continue;
    int at = count++;
    while (at > 0 && magnitude(order[at - 1]) < magnitude(d)) {
      order[at] = order[at - 1];
      --at;
    }
    order[at] = d;
  }
  rebuild(this, order, count);
}

void Cursor::seek(const Nest& nest, int64_t index) {
  for (int k = 0; k < nest.arrays; ++k) offset[k] = 0;
  for (int d = nest.rank - 1; d >= 0; --d) {
    const int64_t size = nest.shape[d] > 0 ? nest.shape[d] : 1;
    at[d] = index % size;
    index /= size;
    for (int k = 0; k < nest.arrays; ++k) offset[k] += at[d] * nest.stride[k][d];
  }
}

void Cursor::advance(const Nest& nest, int64_t n) {
  int d = nest.rank - 1;
  if (d < 0) return;
  at[d] += n;
  for (int k = 0; k < nest.arrays; ++k) offset[k] += n * nest.stride[k][d];
  while (at[d] == nest.shape[d] && d > 0) {
    for (int k = 0; k < nest.arrays; ++k) {
      offset[k] += nest.stride[k][d - 1] - at[d] * nest.stride[k][d];
    }
    at[d--] = 0;
    ++at[d];
  }
}

}  // namespace proa::PROA_ISA
