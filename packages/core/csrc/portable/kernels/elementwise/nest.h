#pragma once
// A loop nest over several strided arrays of one shape, made as shallow as their strides allow.
#include "proa/base/call.h"

namespace proa::PROA_ISA {

constexpr int kMaxOperands = 10;

/// stride[k][d] is the step of array k along dimension d; the last dimension is the innermost.
struct Nest {
  int arrays = 0;
  int rank = 0;
  int64_t shape[kMaxRank];
  int64_t stride[kMaxOperands][kMaxRank];

  /// Takes the dimensions of `v`; call first, then `add` the arrays.
  void set_shape(const View& v);
  /// Adds an array that is broadcast to the nest's shape, aligned at the last dimension.
  void add(const View& v);
  /// Adds an array with these strides, one for each dimension.
  void add_strides(const int64_t* strides);
  /// Orders dimensions so that array 0 has descending strides, drops those of size 1, and
  /// merges adjacent dimensions where every array's strides allow.
  void simplify();
  /// The same, but the order of dimensions is unchanged.
  void merge();
  int64_t size() const;
  /// The size of the innermost dimension; 1 if there is none.
  int64_t inner() const { return rank > 0 ? shape[rank - 1] : 1; }
  /// The innermost stride of array k; 1 if there is no dimension.
  int64_t inner_stride(int k) const { return rank > 0 ? stride[k][rank - 1] : 1; }
};

/// A position in a nest: the coordinates and the offset of every array, in elements.
struct Cursor {
  int64_t at[kMaxRank];
  int64_t offset[kMaxOperands];

  /// Goes to the element of that number, counted with the last dimension fastest.
  void seek(const Nest& nest, int64_t index);
  /// Goes `n` elements on, which must not cross the end of the innermost dimension by more than 0.
  void advance(const Nest& nest, int64_t n);
};

}  // namespace proa::PROA_ISA
