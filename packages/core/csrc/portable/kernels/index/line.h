#pragma once
// Reading and adding along one dimension where every element has an index of its own.
#include "proa/simd/vec.h"

namespace proa::PROA_ISA {

/// One axis of the big array that is indexed.
struct Coordinate {
  int64_t size;    // of the axis
  int64_t stride;  // of the big array along it
  int64_t at;      // of the index within its array, in elements
};

/// True if n indices that follow each other name elements of an axis.
template <class I>
PROA_INLINE bool inside_axis(const I* index, int64_t n, int64_t size) {
  const Vec<I> low = splat(static_cast<I>(-size)), high = splat(static_cast<I>(size));
  auto bad = Vec<I>{} != Vec<I>{};
  for (int64_t j = 0; j < n; j += kLanesOf<I>) {
    const Vec<I> v = n - j < kLanesOf<I> ? load_n(index + j, n - j) : load(index + j);
    bad |= (v < low) | (v >= high);
  }
  return !any(bad);
}

/// small[j] = big[j, index[j]], all along one dimension. Indices are checked some at a time, just
/// before they are used; false if one names no element.
template <class I, class T>
PROA_INLINE bool read_line(const I* index, int64_t is, const T* big, int64_t bs,
                           const Coordinate& q, T* small, int64_t ss, int64_t n) {
  constexpr int64_t kChecked = 512;
  const bool plain = is == 1 && bs == 0 && q.stride == 1 && ss == 1;
  const bool vectors = is == 1 && q.size <= INT32_MAX;
  for (int64_t begin = 0; begin < n; begin += kChecked) {
    const int64_t end = n - begin < kChecked ? n : begin + kChecked;
    bool good = !vectors || inside_axis(index + begin, end - begin, q.size);
    for (int64_t j = begin; j < end && !vectors; ++j)
      good &= index[j * is] >= -q.size && index[j * is] < q.size;
    if (!good) return false;
    for (int64_t j = begin; j < end && plain; ++j) {
      const int64_t v = index[j];
      small[j] = big[v + ((v >> 63) & q.size)];
    }
    for (int64_t j = begin; j < end && !plain; ++j) {
      const int64_t v = index[j * is];
      small[j * ss] = big[j * bs + (v < 0 ? v + q.size : v) * q.stride];
    }
  }
  return true;
}
/// big[j, index[j]] += small[j] where the index is in [low, high).
template <class I>
PROA_INLINE void add_line(const I* index, int64_t is, float* big, int64_t bs, const Coordinate& q,
                          const float* small, int64_t ss, int64_t n, int64_t low, int64_t high) {
  for (int64_t j = 0; j < n; ++j) {
    int64_t v = index[j * is];
    v = v < 0 ? v + q.size : v;
    if (v >= low && v < high) big[j * bs + v * q.stride] += small[j * ss];
  }
}

}  // namespace proa::PROA_ISA
