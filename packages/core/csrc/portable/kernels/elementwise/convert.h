#pragma once
// Conversion between any two dtypes, and moves between strided and dense elements.
#include "proa/base/call.h"

namespace proa::PROA_ISA {

/// to[i] = from[i] for n dense elements. Floats to integers truncate (saturating at int64, then
/// wrapping; NaN becomes 0), complex to real drops the imaginary part, to bool tests for non-zero.
/// `from` and `to` must not overlap unless the dtypes are equal in size and the pointers too.
void convert(DType from_type, const void* from, DType to_type, void* to, int64_t n);

/// Writes the number as one element of dtype t.
void write_scalar(const Scalar& s, DType t, void* value);

/// Dense to[i] = from[i * stride] of elements of `size` bytes.
void gather_row(size_t size, const void* from, int64_t stride, void* to, int64_t n);
/// to[i * stride] = dense from[i].
void scatter_row(size_t size, const void* from, void* to, int64_t stride, int64_t n);
/// to[i] = *value, dense.
void fill_row(size_t size, const void* value, void* to, int64_t n);

}  // namespace proa::PROA_ISA
