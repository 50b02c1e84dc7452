#pragma once
// The offsets of a matrix's rows (or columns) when they run over several strided axes of a tensor.
#include "proa/base/view.h"

namespace proa::PROA_ISA {

struct CoalescedAxes {
  int rank = 0;
  int64_t shape[kMaxRank] = {};
  int64_t stride[kMaxRank] = {};

  /// Appends the next (faster) axis, coalescing it with the previous one if the strides allow.
  void add(int64_t n, int64_t s) {
    if (n == 1) return;
    if (rank > 0 && stride[rank - 1] == s * n) {
      shape[rank - 1] *= n;
      stride[rank - 1] = s;
      return;
    }
    shape[rank] = n;
    stride[rank++] = s;
  }
  /// True if one stride describes all offsets.
  bool uniform() const { return rank <= 1; }
  int64_t step() const { return rank == 0 ? 0 : stride[rank - 1]; }
  /// How many indices of [begin, end) from `begin` on have offsets one step() apart.
  int64_t evenly_spaced(int64_t begin, int64_t end) const {
    if (uniform()) return end - begin;
    const int64_t run = shape[rank - 1], left = run - begin % run;
    return left < end - begin ? left : end - begin;
  }
  /// Element offset of index i.
  int64_t at(int64_t i) const {
    if (rank == 1) return i * stride[0];
    int64_t offset = 0;
    for (int d = rank - 1; d >= 0; --d) {
      const int64_t q = i / shape[d];
      offset += (i - q * shape[d]) * stride[d];
      i = q;
    }
    return offset;
  }
};

/// Axes [begin, end) of a view as one.
inline CoalescedAxes coalesce_axes(const View& v, int begin, int end) {
  CoalescedAxes lines;
  for (int d = begin; d < end; ++d) lines.add(v.shape[d], v.stride[d]);
  return lines;
}

}  // namespace proa::PROA_ISA
