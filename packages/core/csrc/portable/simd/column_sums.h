#pragma once
// Sums down the columns of a matrix whose rows may run over several strided axes.
#include "proa/base/call.h"
#include "proa/base/inline.h"
#include "proa/simd/coalesced_axes.h"

namespace proa::PROA_ISA {

/// Element (row, column) = data[rows.at(row) + column * stride] of a float dtype (complex ones
/// are pairs of columns). The rows are summed in chunks that depend on the shape alone.
struct Columns {
  const void* data;
  DType dtype;
  CoalescedAxes rows;
  int64_t count;  // rows
  int64_t n;      // columns
  int64_t stride;
};
size_t column_sums_scratch(const Columns& x);
/// Writes n sums, `out_stride` apart, of the dtype of x.
Status column_sums(const Call& call, const Columns& x, void* scratch, void* out,
                   int64_t out_stride);

/// Writes n contiguous means and variances (biased). Reads x from memory once: a chunk's moments
/// are computed while it is in cache, then merged as in Chan, Golub and LeVeque, "Algorithms for
/// computing the sample variance" (1983). Results, here and below, are float, or double if x is.
Status column_moments(const Call& call, const Columns& x, void* scratch, void* mean,
                      void* variance);

/// An element normalised with its column's statistics. Every normalisation uses it, so that results
/// are bit-equal.
template <class V>
PROA_INLINE V normalised(V x, V center, V a, V k) {
  return (x - center) * a + k;
}

/// The mask of a fused ReLU: keeps elements of y where x, normalised with these statistics of the
/// columns, is positive. Without statistics it keeps all.
struct Gate {
  const float *center = nullptr, *a = nullptr, *k = nullptr;
};
template <class V>
PROA_INLINE V passed(V x, V y, V center, V a, V k) {
  return normalised(x, center, a, k) > V{} ? y : V{};
}

/// Writes n contiguous sums of y, and of (x - center[column]) * y; y has the dtype of x.
Status column_products(const Call& call, const Columns& x, const void* center, const Columns& y,
                       void* scratch, void* sums, void* products);

/// The same of floats whose columns are contiguous, of the elements of y that the gate keeps.
void gated_column_products(const Call& call, const Columns& x, const Gate& gate, const Columns& y,
                           void* scratch, float* sums, float* products);

/// The channels (axis 1) of v as columns.
Columns channels_of(const View& v);

}  // namespace proa::PROA_ISA
