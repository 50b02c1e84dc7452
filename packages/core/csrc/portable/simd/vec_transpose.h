#pragma once
// Transposes in registers: as many lines as a vector has lanes, read along a vector at a time.
#include "proa/simd/vec.h"

namespace proa::PROA_ISA {

/// As many vectors as a vector has lanes.
template <class T>
struct SquareBlock {
  static constexpr int kWidth = kLanesOf<T>;
  Vec<T> row[kWidth];

  /// Swaps rows and lanes: in step b, bit b of the two indices is exchanged.
  template <int b>
  PROA_INLINE void exchange() {
    Vec<T> low, high;  // indices of the lanes selected from two rows
    for (int l = 0; l < kWidth; ++l) {
      low[l] = (l & b) == 0 ? static_cast<T>(l) : static_cast<T>(l - b + kWidth);
      high[l] = (l & b) == 0 ? static_cast<T>(l + b) : static_cast<T>(l + kWidth);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kWidth; ++i) {
      if ((i & b) != 0) continue;
      const Vec<T> x = row[i], y = row[i + b];
      row[i] = shuffle(x, y, low);
      row[i + b] = shuffle(x, y, high);
    }
  }
  PROA_INLINE void transpose() {
    if constexpr (kWidth > 8) exchange<8>();
    if constexpr (kWidth > 4) exchange<4>();
    if constexpr (kWidth > 2) exchange<2>();
    exchange<1>();
  }
};

/// The kWidth units from `at` on of kWidth lanes, one vector of lanes a unit.
template <class T>
PROA_INLINE void transpose_block(const T* const* from, int64_t at, int width, T* to) {
  constexpr int kWidth = kLanesOf<T>;
  SquareBlock<T> block;
#pragma GCC unroll 16
  for (int i = 0; i < kWidth; ++i) block.row[i] = load(from[i] + at);
  block.transpose();
#pragma GCC unroll 16
  for (int j = 0; j < kWidth; ++j) store(to + j * width, block.row[j]);
}
#if defined(__AVX512F__)
/// The same with half the work done by loading: quarter q of vector r is a quarter of lane r + 4q.
PROA_INLINE void transpose_block(const int32_t* const* from, int64_t at, int width, int32_t* to) {
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c, at += 4, to += 4 * width) {
    __m512i v[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      auto quarter_row = [&](int q) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from[r + 4 * q] + at));
      };
      v[r] = _mm512_castsi128_si512(quarter_row(0));
      v[r] = _mm512_mask_broadcast_i32x4(v[r], 0x00f0, quarter_row(1));
      v[r] = _mm512_mask_broadcast_i32x4(v[r], 0x0f00, quarter_row(2));
      v[r] = _mm512_mask_broadcast_i32x4(v[r], 0xf000, quarter_row(3));
    }
    const __m512i a = _mm512_unpacklo_epi32(v[0], v[1]), b = _mm512_unpackhi_epi32(v[0], v[1]);
    const __m512i d = _mm512_unpacklo_epi32(v[2], v[3]), e = _mm512_unpackhi_epi32(v[2], v[3]);
    _mm512_storeu_si512(to, _mm512_unpacklo_epi64(a, d));
    _mm512_storeu_si512(to + width, _mm512_unpackhi_epi64(a, d));
    _mm512_storeu_si512(to + 2 * width, _mm512_unpacklo_epi64(b, e));
    _mm512_storeu_si512(to + 3 * width, _mm512_unpackhi_epi64(b, e));
  }
}
#endif

}  // namespace proa::PROA_ISA
