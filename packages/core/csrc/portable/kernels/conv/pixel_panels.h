#pragma once
// Panels of pixels, for sums over pixels: unit (i, e) holds element e of pixel i, or of a pair of
// pixels (pixel_pairs.h).
#include <string.h>

#include "proa/base/arith.h"
#include "proa/kernels/conv/pixel_pairs.h"
#include "proa/simd/vec.h"

namespace proa::PROA_ISA {

/// Copies `count` contiguous elements of each of n pixels, `step` apart, to the start of rows that
/// are `width` apart. The rest of a row, `capacity` from the start on, may be overwritten; so may
/// the next row, if `alone`, as it comes later.
template <class T>
void copy_pixels(const T* from, int64_t step, int64_t count, int64_t n, int64_t width,
                 int64_t capacity, bool alone, T* to) {
  constexpr int64_t kWidth = kLanesOf<T>;
  if (count == 2 * kWidth) {
    for (int64_t i = 0; i < n; ++i, from += step, to += width) {
      store(to, load(from));
      store(to + kWidth, load(from + kWidth));
    }
    return;
  }
  for (int64_t v = 0; v < count; v += kWidth) {
    const int64_t some = min(count - v, kWidth);
    const T* x = from + v;
    T* y = to + v;
    int64_t i = 0, whole = 0;  // pixels whose vectors can be whole
    if (some == kWidth)
      whole = n;
    else if (step >= count && v + kWidth <= capacity)
      whole = n - ceil_div(kWidth - some, step);
    else if (step >= count && alone && v == 0)
      whole = n - max(ceil_div(kWidth - some, step), ceil_div(kWidth - some, width));
    for (; i < whole; ++i, x += step, y += width) store(y, load(x));
    for (; i < n; ++i, x += step, y += width) store_n(y, load_n(x, some), some);
  }
}

template <class T>
void clear_pixels(int64_t count, int64_t n, int64_t width, T* to) {
  for (int64_t i = 0; i < n; ++i, to += width)
    memset(to, 0, static_cast<size_t>(count) * sizeof(T));
}

/// What panels of T are made of.
template <class T>
struct ElementOf {
  using Type = T;
};
template <>
struct ElementOf<Bf16Pair> {
  using Type = uint16_t;
};
template <class T>
using Element = typename ElementOf<T>::Type;

/// Pixels [at, at + n) of a panel: elements as copy_pixels takes them, and zeros.
template <class T>
void put_pixels(const T* from, int64_t step, int64_t count, int64_t at, int64_t n, int64_t width,
                int64_t capacity, bool alone, T* panel) {
  copy_pixels(from, step, count, n, width, capacity, alone, panel + at * width);
}
template <class T>
void put_zeros(int64_t count, int64_t at, int64_t n, int64_t width, T* panel) {
  clear_pixels(count, n, width, panel + at * width);
}
inline void put_pixels(const uint16_t* from, int64_t step, int64_t count, int64_t at, int64_t n,
                       int64_t width, int64_t, bool, Bf16Pair* panel) {
  if constexpr (kHasBf16Pairs) put_pixel_pairs(from, step, count, at, n, width, panel);
}
inline void put_zeros(int64_t count, int64_t at, int64_t n, int64_t width, Bf16Pair* panel) {
  if constexpr (kHasBf16Pairs) clear_pixel_pairs(count, at, n, width, panel);
}

}  // namespace proa::PROA_ISA
