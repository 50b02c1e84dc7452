#pragma once
// What both directions of attention share. Arrays (batch, length, heads, width) are taken one head
// at a time; its rows are copied side by side, so that strides and dtypes cost no more than that,
// and meet in products of tiles (tile_products.h) that stay in the caches.
#include <float.h>
#include <math.h>
#include <string.h>

#include "proa/base/arith.h"
#include "proa/kernels/loss/softmax.h"
#include "proa/kernels/rand/philox.h"
#include "proa/simd/tuning.h"
#include "proa/simd/workspace.h"

namespace proa::PROA_ISA {

constexpr double kMaskedScore = -1e9;  // of a key that a mask of bools excludes

/// Columns of a whole panel of the right operand.
template <class C>
constexpr int64_t kPanel = kTileVecs * kLanesOf<C>;
/// Elements between rows of `width`: whole panels, and never a power of two.
template <class C>
int64_t pitch_of(int64_t width) {
  return round_up(width, kPanel<C>) + kLanesOf<C>;
}
template <class C>
constexpr int64_t kTilePitch = kAttentionTile + kLanesOf<C>;

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

/// Makes scores of products: scale, mask and causal limit.
template <class C>
struct Scoring {
  C scale;
  bool causal;
  const View* mask;  // broadcasts to (batch, heads, queries, keys); nullptr or not given: none
  int64_t heads;

  bool has_mask() const { return mask != nullptr && mask->given(); }
  bool has_bools() const { return has_mask() && mask->dtype == DType::kBool; }

  /// The mask of `query` from key `first` on, n <= kAttentionTile elements; of bools kMaskedScore
  /// where they leave out and else 0. In place, or in `buffer`.
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
    C buffer[kAttentionTile];
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
    const C scale = static_cast<C>(factor());
    for (int64_t i = 0; i < n;) {
      const int64_t begin = (first + i) / kWords * kWords, skip = first + i - begin;
      philox_words(seed, offset, begin / 4, words);
      const int64_t some = min(kWords - skip, n - i);
      for (int64_t k = 0; k < some; ++k)
        to[i + k] = unit_float(words[skip + k]) >= limit ? scale : C{0};
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
