#pragma once
// Where the lines (rows) of a matrix start in memory when they run over several strided axes.
#include "proa/base/view.h"

namespace proa::PROA_ISA {

struct Lines {
  int rank = 0;
  int64_t shape[kMaxRank] = {};
  int64_t stride[kMaxRank] = {};

  /// Adds the next (faster) axis, merging it with the one before where the strides allow.
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
  /// True if consecutive lines are equally far apart.
  bool uniform() const { return rank <= 1; }
  int64_t step() const { return rank == 0 ? 0 : stride[rank - 1]; }
  /// Element offset of line i.
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

/// The lines over axes [begin, end) of a view.
inline Lines lines_of(const View& v, int begin, int end) {
  Lines lines;
  for (int d = begin; d < end; ++d) lines.add(v.shape[d], v.stride[d]);
  return lines;
}

}  // namespace proa::PROA_ISA
