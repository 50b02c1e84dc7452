#pragma once
// The one driver of reductions. A reducer knows how to accumulate dense elements of the type it
// computes in; the driver handles any strides and axes, converts, splits the work over threads and
// combines partial results in an order that depends on shapes alone.
#include "proa/base/call.h"
#include "proa/kernels/elementwise/nest.h"
#include "proa/simd/tuning.h"

namespace proa::PROA_ISA {

struct Reducer {
  DType in, out;        // dtype that elements are converted to, and that finish writes
  int64_t accumulator;  // bytes, at most 16
  void (*init)(void* acc, int64_t n);
  /// Reduces n elements into acc[0].
  void (*row)(void* acc, const void* x, int64_t n);
  /// Reduces x[r * stride + j] into acc[j] for all rows r < rows; j < n.
  void (*columns)(void* acc, const void* x, int64_t stride, int64_t rows, int64_t n);
  void (*merge)(void* acc, const void* other, int64_t n);
  /// Writes n results; count is the number of elements in each.
  void (*finish)(const void* acc, void* out, int64_t n, double count);
};

/// An op's reducers by the type computed in; null where there is none. Small floats use f32,
/// bool and integers i64.
struct Reducers {
  const Reducer *f32, *f64, *i64, *c128;
  constexpr Reducers(const Reducer* f32_, const Reducer* f64_, const Reducer* i64_ = nullptr,
                     const Reducer* c128_ = nullptr)
      : f32(f32_),
        f64(computes(DType::kF64) ? f64_ : nullptr),
        i64(i64_),
        c128(computes(DType::kC64) || computes(DType::kC128) ? c128_ : nullptr) {}
  const Reducer* of(DType t) const;
};

/// The axes that a list names (all if it is empty), as a bit set.
uint32_t axes_of(const Ints& axes, int rank);

/// Reduces x over the axes of `mask` into `out`, which has x's axes without those of the mask,
/// or with them at size 1.
Status reduce(const Call& c, const Reducer* reducer, const View& x, uint32_t mask, const View& out);

/// The dimensions of x in and out of a mask. Array 0 of `parallel` is x, array 1 the output.
struct Split {
  Nest parallel, reduced;
};
Split split_axes(const View& x, uint32_t mask, const View& out);

/// Hands out the elements of a nest's array 0 (based at `x`) as dense runs of dtype `as`: the
/// memory itself where it is so already, else copies in `buffer` (kReduceRunBytes each of two).
struct RunReader {
  const Nest& nest;
  const uint8_t* x;
  DType stored, as;
  alignas(64) uint8_t buffer[2][kReduceRunBytes];
  Cursor at;
  int64_t position = 0, end = 0;

  RunReader(const Nest& nest_, const void* x_, DType stored_, DType as_)
      : nest(nest_), x(static_cast<const uint8_t*>(x_)), stored(stored_), as(as_) {}
  void start(int64_t begin, int64_t end_);
  /// The next run and its length; 0 at the end.
  int64_t next(const void** run);
};

}  // namespace proa::PROA_ISA
