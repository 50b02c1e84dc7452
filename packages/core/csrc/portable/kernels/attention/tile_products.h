#pragma once
// Products of the tiles of attention, as two policies of one interface:
//   WidenedTiles<C>: every dtype, widened to C as it is copied;
//   PairTiles: BF16, multiplied by pairs (by AMX's tiles where they are in use), summed in float.
// A left operand is rows of `Unit`s along k. A right operand is panels of columns.
#include <string.h>

#include "proa/base/arith.h"
#include "proa/kernels/attention/tile.h"
#include "proa/kernels/conv/pixel_pairs.h"
#include "proa/simd/gemm/epilogue.h"
#include "proa/simd/gemm/pack.h"

namespace proa::PROA_ISA {

/// Element (i, p) of a left operand is data[i * pitch + p], or data[p * pitch + i] if `columns`.
template <class U>
struct Left {
  const U* data;
  int64_t pitch;
  bool columns = false;
};
/// A right operand in panels of columns, `panel` apart, each of rows `pitch` apart.
template <class U>
struct Right {
  const U* data;
  int64_t panel, pitch;
};

/// c (rows x columns) = a b, or c + a b, by micro-kernels that read rows in place. Rows of c have
/// capacity for whole panels; one row past the end of a may be read. k counts units.
template <class C, class U>
void multiply_rows(const Micro& micro, AmxState* amx, int64_t rows, int64_t columns, int64_t k,
                   const Left<U>& a, const Right<U>& b, C* c, int64_t pitch, bool accumulate) {
  const Patches in_place = {a.pitch * static_cast<int64_t>(sizeof(U)), 1, 1, 0, 0};
  Tile t = {};
  t.c.last = micro.lanes;
  t.k = k;
  t.b.ld = b.pitch;
  t.c.ld = pitch;
  t.accumulate = accumulate;
  t.amx = amx;
  for (int64_t r = 0; r < rows; r += micro.rows) {
    t.c.count = static_cast<int>(min(micro.rows, rows - r));
    t.a.data = a.data + r * a.pitch;
    for (int64_t j = 0; j * kPanel<C> < columns; ++j) {
      t.b.data = b.data + j * b.panel;
      t.c.data = c + r * pitch + j * kPanel<C>;
      micro.run_patches(micro.height(t.c.count), kTileVecs, t, in_place);
    }
  }
}

template <class C>
struct WidenedTiles {
  using Sum = C;
  using Unit = C;
  /// copy_rows writes what pack_steps does.
  static constexpr bool kRowsAreSteps = true;

  static const Micro& micro() {
    if constexpr (sizeof(C) == 8)
      return kMicroF64;
    else
      return kMicroF32;
  }
  /// Units between rows of a left operand of k elements.
  static int64_t pitch(int64_t k) { return pitch_of<C>(k); }

  /// Rows [first, first + count) of a head as a left operand, filled up with 0.
  static void copy_rows(const Head& h, int64_t first, int64_t count, int64_t width, C* to) {
    const int64_t step = pitch(width);
    for (int64_t r = 0; r < count; ++r, to += step) {
      widen(h.at(first + r), h.dtype, h.step, width, to);
      for (int64_t i = width; i < step; ++i) to[i] = 0;
    }
  }

  /// The same rows as the columns of a right operand: its size, and packing it.
  static int64_t columns_size(int64_t count, int64_t width) {
    return round_up(count, kPanel<C>) * width;
  }
  static void pack_columns(const Head& h, int64_t first, int64_t count, int64_t width, C* to) {
    CoalescedAxes lanes, steps;
    lanes.add(count, h.row);
    steps.add(width, h.step);
    MatrixOperand source;
    const PackOperand s = matrix_operand(&source, h.at(first), h.dtype, lanes, steps);
    for (int64_t c = 0; c < count; c += kPanel<C>, to += kPanel<C> * width)
      pack_panel(s, sizeof(C), c, static_cast<int>(min(kPanel<C>, count - c)),
                 static_cast<int>(kPanel<C>), 0, width, to);
  }
  /// What pack_columns wrote, from column `first` on, a multiple of a panel.
  static Right<C> by_columns(const C* packed, int64_t width, int64_t first) {
    return {packed + first * width, kPanel<C> * width, kPanel<C>};
  }

  /// The same rows as the steps of k of a right operand: its size, and packing it.
  static int64_t steps_size(int64_t count, int64_t width) { return count * pitch(width); }
  static void pack_steps(const Head& h, int64_t first, int64_t count, int64_t width, C* to) {
    copy_rows(h, first, count, width, to);
  }
  /// What pack_steps wrote of `count` rows, from row `first` on.
  static Right<C> by_steps(const C* packed, int64_t, int64_t width, int64_t first) {
    return {packed + first * pitch(width), kPanel<C>, pitch(width)};
  }

  /// Sums in rows kTilePitch apart as a left operand, here in place. Others take kSpareSize units.
  static constexpr int64_t kSpareSize = 0;
  static Left<C> rows_of(const C* sums, int64_t, int64_t, C*) { return {sums, kTilePitch<C>}; }
  /// The transpose of what rows_of returned.
  static Left<C> transposed(const Left<C>& from, int64_t, int64_t, C*) {
    return {from.data, from.pitch, true};
  }

  /// Up to kTileRows rows of a product whose micro-kernel needs its left operand packed.
  static void multiply_packed(int height, Tile t, const Left<C>& a, int64_t row, int64_t k) {
    constexpr int64_t kSteps = 64;
    alignas(64) C panel[kTileRows * kSteps];
    const C* const b = static_cast<const C*>(t.b.data);
    for (int64_t p = 0; p == 0 || p < k; p += kSteps) {
      t.k = min(kSteps, k - p);
      for (int64_t s = 0; s < t.k; ++s)
        for (int i = 0; i < height; ++i)
          panel[s * height + i] = i < t.c.count ? a.data[(row + i) * a.pitch + p + s] : 0;
      t.a.data = panel;
      t.a.ld = height;
      t.b.data = b + p * t.b.ld;
      micro().run(height, kTileVecs, t);
      t.accumulate = true;
    }
  }

  /// c (rows x columns) = a b, or c + a b, for k elements; see multiply_rows.
  static void multiply(AmxState*, int64_t rows, int64_t columns, int64_t k, const Left<C>& a,
                       const Right<C>& b, C* c, int64_t pitch, bool accumulate) {
    if (!a.columns && micro().run_patches != nullptr)
      return multiply_rows(micro(), nullptr, rows, columns, k, a, b, c, pitch, accumulate);
    for (int64_t r = 0; r < rows; r += kTileRows) {
      Tile t = {};
      t.c.count = static_cast<int>(min(kTileRows, rows - r));
      t.c.last = micro().lanes;
      t.k = k;
      t.b.ld = b.pitch;
      t.c.ld = pitch;
      t.accumulate = accumulate;
      const int height = tile_rows(t.c.count);
      for (int64_t j = 0; j * kPanel<C> < columns; ++j) {
        t.b.data = b.data + j * b.panel;
        t.c.data = c + r * pitch + j * kPanel<C>;
        if (!a.columns) {
          multiply_packed(height, t, a, r, k);
          continue;
        }
        t.a.data = a.data + r;
        t.a.ld = a.pitch;
        micro().run(height, kTileVecs, t);
      }
    }
  }
};

struct PairTiles {
  using Sum = float;
  using Unit = Bf16Pair;
  static constexpr bool kRowsAreSteps = false;

  static const Micro& micro() { return product_micro_kernel(DType::kBF16, true); }
  static int64_t units(int64_t k) { return (k + 1) / 2; }
  static int64_t pitch(int64_t k) { return round_up(units(k), kLanes) + kLanes; }

  static void copy_rows(const Head& h, int64_t first, int64_t count, int64_t width, Bf16Pair* to) {
    const int64_t step = pitch(width);
    for (int64_t r = 0; r < count; ++r, to += step) {
      const auto* const from = reinterpret_cast<const uint16_t*>(h.at(first + r));
      auto* const words = reinterpret_cast<uint16_t*>(to);
      if (h.step == 1)
        memcpy(words, from, static_cast<size_t>(width) * sizeof *words);
      else
        for (int64_t i = 0; i < width; ++i) words[i] = from[i * h.step];
      if (width % 2 != 0) words[width] = 0;
    }
  }

  static int64_t columns_size(int64_t count, int64_t width) {
    return round_up(count, kPanel<float>) * units(width);
  }
  static void pack_columns(const Head& h, int64_t first, int64_t count, int64_t width,
                           Bf16Pair* to) {
    pack(h.at(first), count, h.row, width, h.step, to);
  }
  static Right<Bf16Pair> by_columns(const Bf16Pair* packed, int64_t width, int64_t first) {
    return {packed + first * units(width), kPanel<float> * units(width), kPanel<float>};
  }

  static int64_t steps_size(int64_t count, int64_t width) {
    return round_up(width, kPanel<float>) * units(count);
  }
  static void pack_steps(const Head& h, int64_t first, int64_t count, int64_t width, Bf16Pair* to) {
    pack(h.at(first), width, h.step, count, h.row, to);
  }
  /// `first` is even.
  static Right<Bf16Pair> by_steps(const Bf16Pair* packed, int64_t count, int64_t, int64_t first) {
    return {packed + first / 2 * kPanel<float>, kPanel<float> * units(count), kPanel<float>};
  }

  static constexpr int64_t kSparePitch = kAttentionTile / 2 + kLanes;
  static constexpr int64_t kSpareSize = (kAttentionTile + 1) * kSparePitch;
  /// n sums of each row, rounded to BF16.
  static Left<Bf16Pair> rows_of(const float* sums, int64_t rows, int64_t n, Bf16Pair* spare) {
    for (int64_t r = 0; r < rows; ++r) {
      auto* const words = reinterpret_cast<uint16_t*>(spare + r * kSparePitch);
      narrow(sums + r * kTilePitch<float>, DType::kBF16, 1, n, words);
      if (n % 2 != 0) words[n] = 0;
    }
    return {spare, kSparePitch};
  }
  /// The transpose of what rows_of wrote.
  static Left<Bf16Pair> transposed(const Left<Bf16Pair>& from, int64_t rows, int64_t n,
                                   Bf16Pair* spare) {
    const auto* const words = reinterpret_cast<const uint16_t*>(from.data);
    for (int64_t r = 0; r < rows; r += kPixelsOfRow)
      put_pixel_rows(words + 2 * r * from.pitch, 2 * from.pitch, n, min(kPixelsOfRow, rows - r),
                     kSparePitch * static_cast<int64_t>(sizeof *spare), spare + r / 2);
    return {spare, kSparePitch};
  }

  static void multiply(AmxState* amx, int64_t rows, int64_t columns, int64_t k,
                       const Left<Bf16Pair>& a, const Right<Bf16Pair>& b, float* c, int64_t pitch,
                       bool accumulate) {
    multiply_rows(micro(), amx, rows, columns, units(k), a, b, c, pitch, accumulate);
  }

 private:
  /// Columns, `column` elements apart, by k steps, `step` elements apart, in panels.
  static void pack(const void* from, int64_t columns, int64_t column, int64_t k, int64_t step,
                   Bf16Pair* to) {
    CoalescedAxes lanes, steps;
    lanes.add(columns, column);
    steps.add(k, step);
    MatrixOperand source;
    const PackOperand s = bf16_pair_operand(&source, from, lanes, steps, k);
    for (int64_t c = 0; c < columns; c += kPanel<float>, to += kPanel<float> * units(k))
      pack_panel(s, sizeof *to, c, static_cast<int>(min(kPanel<float>, columns - c)),
                 static_cast<int>(kPanel<float>), 0, units(k), to);
  }
};

/// Calls body with the policy for q, k and v of that dtype.
template <class F>
void with_tiles(DType dtype, F body) {
  if constexpr (kHasBf16Pairs) {
    if (multiplies_bf16_pairs(dtype)) return body(PairTiles{});
  }
  if (is_double(dtype)) return body(WidenedTiles<double>{});
  body(WidenedTiles<float>{});
}

}  // namespace proa::PROA_ISA
