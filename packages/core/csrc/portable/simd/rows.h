#pragma once
// Arrays seen as rows along some axes, for softmax, losses and normalisation. A row is processed
// in blocks, which are read in place or copied (and 16-bit floats widened) to a buffer.
#include "proa/base/dispatch.h"
#include "proa/base/task_size.h"
#include "proa/simd/gemm/pack.h"
#include "proa/simd/tuning.h"

namespace proa::PROA_ISA {

/// One row of an array of some float dtype.
struct Row {
  uint8_t* data;
  DType dtype;
  const CoalescedAxes* inner;

  uint8_t* at(int64_t i) const {
    return data + inner->at(i) * static_cast<int64_t>(size_of(dtype));
  }
};

/// The rows of v over axes [first, last); the other axes number them.
struct Rows {
  uint8_t* data = nullptr;
  DType dtype = DType::kF32;
  CoalescedAxes outer, inner;
  int64_t count = 1, width = 1;

  Rows() = default;
  Rows(const View& v, int first, int last) : data(v.as<uint8_t>()), dtype(v.dtype) {
    for (int d = 0; d < v.rank; ++d) {
      const bool in = d >= first && d < last;
      (in ? inner : outer).add(v.shape[d], v.stride[d]);
      (in ? width : count) *= v.shape[d];
    }
  }
  Row row(int64_t r) const {
    return {data + outer.at(r) * static_cast<int64_t>(size_of(dtype)), dtype, &inner};
  }
};

/// Elements [i, i + n) of a row, n <= kRowBlock, as C: in place if contiguous, else in `buffer`.
template <class C>
PROA_INLINE const C* read_block(const Row& r, int64_t i, int64_t n, C* buffer) {
  if (!r.inner->uniform()) {
    for (int64_t k = 0; k < n; ++k) widen(r.at(i + k), r.dtype, 1, 1, buffer + k);
    return buffer;
  }
  const int64_t step = r.inner->rank == 0 ? 1 : r.inner->step();
  const uint8_t* from = r.data + i * step * static_cast<int64_t>(size_of(r.dtype));
  if (step == 1 && size_of(r.dtype) == sizeof(C)) return reinterpret_cast<const C*>(from);
  widen(from, r.dtype, step, n, buffer);
  return buffer;
}

/// Writes n values to elements [i, i + n) of a row.
template <class C>
PROA_INLINE void write_block(const Row& r, int64_t i, int64_t n, const C* values) {
  if (!r.inner->uniform()) {
    for (int64_t k = 0; k < n; ++k) narrow(values + k, r.dtype, 1, 1, r.at(i + k));
    return;
  }
  const int64_t step = r.inner->rank == 0 ? 1 : r.inner->step();
  narrow(values, r.dtype, step, n, r.data + i * step * static_cast<int64_t>(size_of(r.dtype)));
}

/// Calls body(block, i, n) over a row; block points to n values.
template <class C, class F>
PROA_INLINE void for_each_block(const Row& r, int64_t width, F body) {
  alignas(64) C buffer[kRowBlock];
  for (int64_t i = 0; i < width; i += kRowBlock) {
    const int64_t n = width - i < kRowBlock ? width - i : kRowBlock;
    body(read_block(r, i, n, buffer), i, n);
  }
}

/// Sum of f(vector of the row, offset, its elements) over a row, in a fixed order: four
/// accumulators hide the latency of the addition.
template <class C, class F>
PROA_INLINE C sum_row(const Row& r, int64_t width, F f) {
  constexpr int kWidth = kLanesOf<C>;
  Vec<C> total[4] = {};
  for_each_block<C>(r, width, [&](const C* x, int64_t i, int64_t n) {
    int64_t k = 0;
    for (; k + 4 * kWidth <= n; k += 4 * kWidth)
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v)
        total[v] += f(load(x + k + v * kWidth), i + k + v * kWidth, int64_t{kWidth});
    for (; k < n; k += kWidth) {
      const int64_t some = n - k < kWidth ? n - k : kWidth;
      total[0] += f(load_n(x + k, some), i + k, some);
    }
  });
  return sum_lanes((total[0] + total[1]) + (total[2] + total[3]));
}

/// The address of elements [i, i + n) of a row if they can be written there as C, else nullptr.
template <class C>
PROA_INLINE C* dense_row(const Row& r, int64_t i) {
  const bool dense = r.inner->uniform() && (r.inner->rank == 0 || r.inner->step() == 1);
  return dense && size_of(r.dtype) == sizeof(C) ? reinterpret_cast<C*>(r.data) + i : nullptr;
}

/// to[i] = f(x[i]) over a row, where f maps vectors to vectors.
template <class C, class F>
PROA_INLINE void map_row(const Row& from, const Row& to, int64_t width, F f) {
  constexpr int kWidth = kLanesOf<C>;
  for_each_block<C>(from, width, [&](const C* x, int64_t i, int64_t n) {
    alignas(64) C buffer[kRowBlock];
    C* const dense = dense_row<C>(to, i);
    C* const y = dense != nullptr ? dense : buffer;
    int64_t k = 0;
    for (; k + kWidth <= n; k += kWidth) store(y + k, f(load(x + k), i + k, int64_t{kWidth}));
    if (k < n) store_n(y + k, f(load_n(x + k, n - k), i + k, n - k), n - k);
    if (dense == nullptr) write_block(to, i, n, y);
  });
}

/// The address of row r + 1, to prefetch it while row r is processed: the hardware prefetcher stops
/// at the end of a page. For the last row, and rows that are not contiguous, that of row r.
template <class C>
PROA_INLINE const C* next_row(const Rows& x, int64_t r) {
  const Row next = x.row(r + 1 < x.count ? r + 1 : r);
  return reinterpret_cast<const C*>(next.data);
}

// -- contiguous rows of floats, or of 16-bit floats that are widened in registers ----------------
PROA_INLINE bool plain(const Rows& r, DType dtype = DType::kF32) {
  return r.dtype == dtype && r.inner.uniform() && (r.inner.rank == 0 || r.inner.step() == 1);
}
template <class T>
PROA_INLINE T* elements(const Rows& rows, int64_t r) {
  return reinterpret_cast<T*>(rows.row(r).data);
}
PROA_INLINE float* floats(const Rows& rows, int64_t r) { return elements<float>(rows, r); }
/// Elements [i, i + some) of a row, and writing them; some == kLanes is known at compile time.
template <class T>
PROA_INLINE VF take(const T* p, int64_t i, int64_t some) {
  return some == kLanes ? load(p + i) : load_n(p + i, some);
}
template <class T>
PROA_INLINE void give(T* p, int64_t i, int64_t some, VF v) {
  if (some == kLanes)
    store(p + i, v);
  else
    store_n(p + i, v, some);
}
/// v with 0 in all lanes but the first `some`.
PROA_INLINE VF first_lanes(VF v, int64_t some) {
  return some == kLanes ? v : (to_float(iota()) < static_cast<float>(some) ? v : VF{});
}
/// Calls f(i, some) over the vectors of a row.
template <class F>
PROA_INLINE void each_vector(int64_t width, F f) {
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) f(i, int64_t{kLanes});
  if (i < width) f(i, width - i);
}
/// Sum of f(i, some) over them, in four accumulators that hide the latency of the addition.
template <class F>
PROA_INLINE float sum_vectors(int64_t width, F f) {
  VF total[4] = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= width; i += 4 * kLanes)
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) total[v] += f(i + v * kLanes, int64_t{kLanes});
  for (; i < width; i += kLanes) total[0] += f(i, width - i < kLanes ? width - i : kLanes);
  return sum_lanes((total[0] + total[1]) + (total[2] + total[3]));
}

/// A second row read in step with the first: value(i, some) is its vector from element i on.
template <class C>
struct PairedRow {
  const Row& row;
  int64_t width;
  alignas(64) C buffer[kRowBlock + kLanesOf<C>];
  const C* block = nullptr;
  int64_t begin = -1;
  PROA_INLINE Vec<C> operator()(int64_t i, int64_t some) {
    const int64_t first = i / kRowBlock * kRowBlock;
    if (first != begin) {
      const int64_t n = width - first < kRowBlock ? width - first : kRowBlock;
      block = read_block(row, first, n, static_cast<C*>(buffer));
      begin = first;
    }
    return load_n(block + (i - first), some);
  }
};

/// The one element of a row of width 1.
template <class C>
PROA_INLINE void read_into(const Row& r, C* value) {
  widen(r.data, r.dtype, 1, 1, value);
}

/// The grain of rows for one task.
PROA_INLINE int64_t row_grain(int64_t width) { return 1 + kRowTask / (width + 1); }

}  // namespace proa::PROA_ISA
