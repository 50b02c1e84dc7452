#pragma once
// What both directions of attention share. Arrays (batch, length, heads, width) are taken one head
// at a time; its rows are copied side by side, so that strides and dtypes cost no more than that,
// and meet in products of tiles that stay in the caches.
#include <float.h>
#include <math.h>
#include <string.h>

#include "proa/base/arith.h"
#include "proa/kernels/loss/softmax.h"
#include "proa/kernels/rand/philox.h"
#include "proa/simd/workspace.h"

namespace proa::PROA_ISA {

constexpr int64_t kTileSide = 128;      // queries, and keys, of a tile of scores
constexpr int64_t kAttentionSlots = 8;  // chunks of the heads that run in parallel
constexpr double kMaskedScore = -1e9;   // of a key that a mask of bools excludes

template <class C>
const Micro& micro_for() {
  if constexpr (sizeof(C) == 8)
    return kMicroF64;
  else
    return kMicroF32;
}
/// Columns of a whole panel of the right operand.
template <class C>
constexpr int64_t kPanel = kTileVecs * kLanesOf<C>;
/// Elements between rows of `width`: whole panels, and never a power of two.
template <class C>
int64_t pitch_of(int64_t width) {
  return round_up(width, kPanel<C>) + kLanesOf<C>;
}
template <class C>
constexpr int64_t kTilePitch = kTileSide + kLanesOf<C>;

/// Lengths of the arrays of one call.
struct AttentionShape {
  int64_t batch, heads, queries, keys, width, value_width;
  AttentionShape(const View& q, const View& k, const View& v)
      : batch(q.shape[0]),
        heads(q.shape[2]),
        queries(q.shape[1]),
        keys(k.shape[1]),
        width(q.shape[3]),
        value_width(v.shape[3]) {}
  int64_t count() const { return batch * heads; }
};

/// Head i % heads of sample i / heads.
struct Head {
  uint8_t* data;
  DType dtype;
  int64_t row, step;  // elements between rows and within them
  Head(const View& v, int64_t i)
      : data(v.as<uint8_t>()), dtype(v.dtype), row(v.stride[1]), step(v.stride[3]) {
    const int64_t heads = v.shape[2];
    data += (i / heads * v.stride[0] + i % heads * v.stride[2]) *
            static_cast<int64_t>(size_of(v.dtype));
  }
  uint8_t* at(int64_t r) const { return data + r * row * static_cast<int64_t>(size_of(dtype)); }
};

/// Rows [first, first + count) of a head to rows `pitch` apart, filled up with 0.
template <class C>
void copy_rows_of(const Head& h, int64_t first, int64_t count, int64_t width, C* to,
                  int64_t pitch) {
  for (int64_t r = 0; r < count; ++r, to += pitch) {
    widen(h.at(first + r), h.dtype, h.step, width, to);
    for (int64_t i = width; i < pitch; ++i) to[i] = 0;
  }
}

/// Rows [first, first + count) of a head as the columns of a right operand, packed in panels.
template <class C>
void pack_rows_of(const Head& h, int64_t first, int64_t count, int64_t width, C* to) {
  CoalescedAxes lanes, steps;
  lanes.add(count, h.row);
  steps.add(width, h.step);
  MatrixOperand source;
  const PackOperand s = matrix_operand(&source, h.at(first), h.dtype, lanes, steps);
  for (int64_t c = 0; c < count; c += kPanel<C>, to += kPanel<C> * width)
    pack_panel(s, sizeof(C), c, static_cast<int>(min(kPanel<C>, count - c)),
               static_cast<int>(kPanel<C>), 0, width, to);
}

/// A left operand: element (i, p) at data[i * pitch + p], or at data[p * pitch + i] if `columns`.
template <class C>
struct Left {
  const C* data;
  int64_t pitch;
  bool columns;
};
/// A right operand in panels of columns, `panel` apart, each of rows `pitch` apart.
template <class C>
struct Right {
  const C* data;
  int64_t panel, pitch;
};
template <class C>
Right<C> rows_right(const C* data, int64_t pitch) {
  return {data, kPanel<C>, pitch};
}
template <class C>
Right<C> packed_right(const C* data, int64_t k) {
  return {data, kPanel<C> * k, kPanel<C>};
}

/// Up to kTileRows rows of a product whose micro-kernel needs its left operand packed.
template <class C>
void multiply_packed(int height, Tile t, const Left<C>& a, int64_t row, int64_t k) {
  constexpr int64_t kSteps = 64;
  alignas(64) C panel[kTileRows * kSteps];
  const C* const b = static_cast<const C*>(t.b);
  for (int64_t p = 0; p == 0 || p < k; p += kSteps) {
    t.k = min(kSteps, k - p);
    for (int64_t s = 0; s < t.k; ++s)
      for (int i = 0; i < height; ++i)
        panel[s * height + i] = i < t.count ? a.data[(row + i) * a.pitch + p + s] : 0;
    t.a = panel;
    t.lda = height;
    t.b = b + p * t.ldb;
    micro_for<C>().run(height, kTileVecs, t);
    t.accumulate = true;
  }
}

/// c (rows x columns) = a b, or c + a b. Rows of c have room for whole panels; one row past the end
/// of a may be read.
template <class C>
void multiply_tile(int64_t rows, int64_t columns, int64_t k, const Left<C>& a, const Right<C>& b,
                   C* c, int64_t pitch, bool accumulate) {
  const Micro& micro = micro_for<C>();
  for (int64_t r = 0; r < rows; r += kTileRows) {
    Tile t = {};
    t.count = static_cast<int>(min(kTileRows, rows - r));
    t.last = micro.lanes;
    t.k = k;
    t.ldb = b.pitch;
    t.ldc = pitch;
    t.accumulate = accumulate;
    const int height = tile_rows(t.count);
    for (int64_t j = 0; j * kPanel<C> < columns; ++j) {
      t.b = b.data + j * b.panel;
      t.c = c + r * pitch + j * kPanel<C>;
      if (a.columns) {
        t.a = a.data + r;
        t.lda = a.pitch;
        micro.run(height, kTileVecs, t);
      } else if (micro.run_patches != nullptr) {
        const Patches in_place = {a.pitch * static_cast<int64_t>(sizeof(C)), 1, 1, 0, 0};
        t.a = a.data + r * a.pitch;
        micro.run_patches(height, kTileVecs, t, in_place);
      } else {
        multiply_packed(height, t, a, r, k);
      }
    }
  }
}

/// Makes scores of products: scale, mask and causal limit.
template <class C>
struct Scoring {
  C scale;
  bool causal;
  const View* mask;  // broadcasts to (batch, heads, queries, keys); nullptr or not given: none
  int64_t heads;

  bool has_mask() const { return mask != nullptr && mask->given(); }
  bool has_bools() const { return has_mask() && mask->dtype == DType::kBool; }

  /// The mask of `query` from key `first` on, n <= kTileSide elements; of bools kMaskedScore where
  /// they leave out and else 0. In place, or in `buffer`.
  const C* mask_row(int64_t head, int64_t query, int64_t first, int64_t n, C* buffer) const {
    const int64_t at[4] = {head / heads, head % heads, query, first};
    int64_t offset = 0, step = 0;
    for (int i = 0; i < mask->rank; ++i) {
      if (mask->shape[i] == 1) continue;
      offset += at[4 - mask->rank + i] * mask->stride[i];
      if (i == mask->rank - 1) step = mask->stride[i];
    }
    if (mask->dtype == DType::kBool) {
      const uint8_t* keep = mask->as<uint8_t>() + offset;
      for (int64_t j = 0; j < n; ++j)
        buffer[j] = keep[j * step] != 0 ? C{0} : static_cast<C>(kMaskedScore);
      return buffer;
    }
    const int64_t size = static_cast<int64_t>(size_of(mask->dtype));
    const uint8_t* from = mask->as<uint8_t>() + offset * size;
    if (step == 1 && size == sizeof(C)) return reinterpret_cast<const C*>(from);
    widen(from, mask->dtype, step, n, buffer);
    return buffer;
  }

  /// How many of n keys from `first` on the query may see.
  int64_t seen(int64_t query, int64_t first, int64_t n) const {
    if (!causal) return n;
    const int64_t some = query - first + 1;
    return some < 0 ? 0 : min(some, n);
  }

  /// Turns the first `n` products of a row into scores.
  void finish(C* s, int64_t head, int64_t query, int64_t first, int64_t n) const {
    constexpr int w = kLanesOf<C>;
    C buffer[kTileSide];
    const C* const m = has_mask() ? mask_row(head, query, first, n, buffer) : nullptr;
    const bool bools = has_bools();
    for (int64_t j = 0; j < n; j += w) {
      const int64_t some = min(w, n - j);
      Vec<C> v = load_n(s + j, some) * scale;
      if (m != nullptr) {
        const Vec<C> extra = load_n(m + j, some);
        v = bools ? (extra != C{0} ? extra : v) : v + extra;
      }
      store_n(s + j, v, some);
    }
  }
};

/// Which weights are dropped: weight i, counted in row-major order over (batch, heads, queries,
/// keys), is dropped if word i of the stream, as a number in [0, 1), is below p. Like the row
/// `dropout`.
struct Dropout {
  double p;
  int64_t seed, offset;

  bool any() const { return p > 0; }
  double factor() const { return p < 1 ? 1 / (1 - p) : 0; }
  /// Factors of n weights from `first` on: 0 or factor().
  template <class C>
  void factors(int64_t first, int64_t n, C* to) const {
    constexpr int64_t kWords = 4 * kPhiloxCounters;
    alignas(64) uint32_t words[kWords];
    const float limit = static_cast<float>(p);
    const C kept = static_cast<C>(factor());
    for (int64_t i = 0; i < n;) {
      const int64_t begin = (first + i) / kWords * kWords, skip = first + i - begin;
      philox_words(seed, offset, begin / 4, words);
      const int64_t some = min(kWords - skip, n - i);
      for (int64_t k = 0; k < some; ++k)
        to[i + k] = unit_float(words[skip + k]) >= limit ? kept : C{0};
      i += some;
    }
  }
};

/// Spreads `tasks` over slots, each with `bytes` of the scratch: body(task, memory) in order within
/// a slot.
template <class F>
void for_each_task(const Call& c, int64_t tasks, int64_t slots, size_t bytes, F body) {
  parallel_for(c, slots, 1, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s)
      for (int64_t t = s * tasks / slots; t < (s + 1) * tasks / slots; ++t)
        body(t, static_cast<uint8_t*>(c.scratch) + static_cast<size_t>(s) * bytes);
  });
}

}  // namespace proa::PROA_ISA
