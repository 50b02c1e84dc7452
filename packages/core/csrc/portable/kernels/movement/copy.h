#pragma once
// The one routine that moves elements from any strides to any strides.
#include "proa/base/call.h"

namespace proa::PROA_ISA {

/// Copies `from`, broadcast to the shape of `to`, whose dtype has the same size. They must not
/// overlap unless they are the same memory with the same strides.
Status copy(const Call& c, const View& from, const View& to);

/// Copies n bytes and prefetches the n at next_x and next_y, where copies will continue.
void copy_prefetching(const uint8_t* x, uint8_t* y, int64_t n, const uint8_t* next_x,
                      const uint8_t* next_y);

/// y[i * ys + j] = x[i + j * xs] for i < rows and j < columns, elements of `size` bytes; best for
/// some dozens of each.
void transpose_tile(size_t size, const void* x, int64_t xs, void* y, int64_t ys, int64_t rows,
                    int64_t columns);

/// Sets every element of `to` to zero.
Status clear(const Call& c, const View& to);
/// Sets every element of `to` to the element at `value`, which has its dtype.
Status fill(const Call& c, const View& to, const void* value);

/// The part of `x` that begins at index `start` of `axis` and has `size` elements there.
View narrow(const View& x, int axis, int64_t start, int64_t size);

}  // namespace proa::PROA_ISA
