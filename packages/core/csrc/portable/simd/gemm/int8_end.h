#pragma once
// The end of int8 products while their sums are in registers: integers by estimates.
#include "proa/simd/gemm/micro.h"
#include "proa/simd/vec_fraction.h"

namespace proa::PROA_ISA {

constexpr bool kEstimates = kHasFma && !kSmallBuild;

/// Results by one fused step, t = acc * scale + shift (+ residual * step), with the factors and
/// terms already divided by the result's scale. t differs from the quotient that the epilogue
/// defines by less than 1/2 - limit, so where t is not as near to a half as that, both round to
/// one integer: five instructions for a vector instead of a dozen. Elsewhere the epilogue is
/// computed as defined.
struct Int8Estimate {
  const float *scale = nullptr, *shift = nullptr;  // by channel
  float step = 0.0f;
  float limit = 0.0f;  // 0: estimates do not suffice
  int32_t low = 0, high = 0;
  // Of hard_swish, if not 0: with v = acc * scale + shift, rounded twice and not divided by
  // anything, t = v * min(6, max(0, v + 3)) * swish + zero.
  float swish = 0.0f, zero = 0.0f;

  template <bool kSwishes>
  PROA_INLINE VF at(VF sums, VF by_scale, VF by_shift) const {
    if constexpr (!kSwishes) return fma(sums, by_scale, by_shift);
    const VF v = sums * by_scale + by_shift;  // compiled without contraction
    const VF bounded = min(splat(6.0f), max(VF{}, v + 3.0f));
    return fma(v * bounded, splat(swish), splat(zero));
  }
};

/// Where estimates of a product go: rows of contiguous int8, and the same of a residual.
struct Int8Ends {
  Int8Estimate estimate;
  int8_t* out = nullptr;
  int64_t out_row = 0;
  const int8_t* residual = nullptr;  // or nullptr
  int64_t residual_row = 0;
};

/// The same of one tile.
struct Int8TileEnd {
  const Int8Ends& ends;
  int64_t row, col;
  uint32_t left = 0;  // rows that estimates do not suffice for; their sums are stored in Tile::c
};

/// What the rows of a tile have in common. Copies: stores of bytes may change anything else.
template <int kVecs>
struct Int8TileRows {
  const Int8Estimate e;
  const int64_t out_row, residual_row;
  const int64_t cols;
  VF scale[kVecs], shift[kVecs];

  PROA_INLINE Int8TileRows(const Tile& t, const Int8TileEnd& end)
      : e(end.ends.estimate),
        out_row(end.ends.out_row),
        residual_row(end.ends.residual_row),
        cols((kVecs - 1) * kLanes + t.c.last) {
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) {
      scale[j] = load(e.scale + end.col + j * kLanes);
      shift[j] = load(e.shift + end.col + j * kLanes);
    }
  }
  /// Two rows of estimates, the second one only if it is `both`; false if one is too near to a
  /// half.
  template <bool kAdds, bool kSwishes, class V>
  PROA_INLINE bool end_rows(const V (*acc)[kVecs], bool both, int8_t* to,
                            const int8_t* from) const {
    VI q[2][kVecs];
    VF worst = {};
#pragma GCC unroll 2
    for (int s = 0; s < 2; ++s) {
#pragma GCC unroll 2
      for (int j = 0; j < kVecs; ++j) {
        VF x = e.at<kSwishes>(to_float(acc[s][j]), scale[j], shift[j]);
        if constexpr (kAdds) {
          const int8_t* const p = from + (s > 0 && both ? residual_row : 0) + j * kLanes;
          const bool whole = j < kVecs - 1 || cols == kVecs * kLanes;
          x = fma(to_float(whole ? load_int8(p) : load_int8_n(p, cols - j * kLanes)), splat(e.step),
                  x);
        }
        worst = max_fraction(worst, x);
        q[s][j] = round_to_int(x);
      }
    }
    if (PROA_UNLIKELY(exceeds(worst, splat(e.limit)))) return false;
    store_int8_rows<kVecs>(q, e.low, e.high, cols, to, both ? to + out_row : nullptr);
    return true;
  }
};

/// Writes the integers of a tile. Rows that estimates do not suffice for are stored as sums.
template <bool kAdds, bool kSwishes, int kRows, int kVecs, class V>
PROA_INLINE void end_tile(const V (*acc)[kVecs], const Tile& t, Int8TileEnd* end) {
  const Int8TileRows<kVecs> rows(t, *end);
  int8_t* to = end->ends.out + end->row * rows.out_row + end->col;
  const int8_t* from = nullptr;
  if (kAdds) from = end->ends.residual + end->row * rows.residual_row + end->col;
  const bool last = t.c.count == kRows;
#pragma GCC unroll 8
  for (int i = 0; i < kRows; i += 2, to += 2 * rows.out_row) {
    const bool both = i + 2 < kRows || last;
    if (PROA_UNLIKELY(!(rows.template end_rows<kAdds, kSwishes>(acc + i, both, to, from)))) {
      end->left |= 3u << i;
      int32_t* const c = static_cast<int32_t*>(t.c.data) + i * t.c.ld;
#pragma GCC unroll 2
      for (int j = 0; j < kVecs; ++j) {
        __builtin_memcpy(c + j * kLanes, &acc[i][j], kVecBytes);
        __builtin_memcpy(c + t.c.ld + j * kLanes, &acc[i + 1][j], kVecBytes);
      }
    }
    if (kAdds) from += 2 * rows.residual_row;
  }
}

}  // namespace proa::PROA_ISA
