#pragma once
// The batch axes of a matrix product, broadcast: which matrices of x and y meet in which of z.
#include "proa/base/call.h"
#include "proa/simd/tuning.h"

namespace proa::PROA_ISA {

/// Batch axes of x, y and z, aligned to those of z; broadcast axes have stride 0.
struct Batch {
  int rank = 0;
  int64_t count = 1;
  int64_t shape[kMaxRank] = {};
  int64_t stride[3][kMaxRank] = {};  // of x, y, z
};

/// Goes through a batch from matrix `i` on.
struct BatchIterator {
  const Batch& batch;
  int64_t index[kMaxRank] = {};
  int64_t offset[3] = {};  // of the matrices of x, y and z

  BatchIterator(const Batch& b, int64_t i) : batch(b) {
    for (int d = b.rank - 1; d >= 0 && i != 0; --d) {
      const int64_t q = i / b.shape[d];
      index[d] = i - q * b.shape[d];
      i = q;
      for (int v = 0; v < 3; ++v) offset[v] += index[d] * b.stride[v][d];
    }
  }
  void next() {
    for (int d = batch.rank - 1; d >= 0; --d) {
      for (int v = 0; v < 3; ++v) offset[v] += batch.stride[v][d];
      if (++index[d] < batch.shape[d]) return;
      for (int v = 0; v < 3; ++v) offset[v] -= index[d] * batch.stride[v][d];
      index[d] = 0;
    }
  }
};

inline Batch batch_of(const Call& c) {
  const View* views[3] = {&c.in[0], &c.in[1], &c.out[0]};
  Batch b;
  b.rank = c.out[0].rank - 2;
  for (int d = 0; d < b.rank; ++d) {
    b.shape[d] = c.out[0].shape[d];
    b.count *= b.shape[d];
    for (int v = 0; v < 3; ++v) {
      const int e = d - b.rank + views[v]->rank - 2;
      if (e >= 0 && views[v]->shape[e] != 1) b.stride[v][d] = views[v]->stride[e];
    }
  }
  return b;
}

inline bool one_matrix(const View& v) {
  for (int d = 0; d + 2 < v.rank; ++d)
    if (v.shape[d] != 1) return false;
  return true;
}

}  // namespace proa::PROA_ISA
