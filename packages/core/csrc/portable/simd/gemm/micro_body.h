#pragma once
// The loop nest shared by the micro-kernels, for an `Arith` that defines
//   Vector, Scalar (the unit of a), and multiply_add(acc, a, b).
#include "proa/simd/column_sums.h"
#include "proa/simd/gemm/micro.h"
#include "proa/simd/vec_row_units.h"

namespace proa::PROA_ISA {

/// True of what applies a Tile's `end`.
template <class Arith>
inline constexpr bool kTakesEnds = false;

/// True of what applies a Tile's `narrow`, by Arith::narrow(low, high): two vectors as one.
template <class Arith>
inline constexpr bool kNarrows = false;

/// The accumulators of a tile: initialization, one step, and the store.
template <class Arith, int kRows, int kVecs>
struct Accumulators {
  using V = typename Arith::Vector;
  using T = typename Arith::Scalar;
  static constexpr int kWidth = kVecBytes / static_cast<int>(sizeof(T));
  V acc[kRows][kVecs];

  PROA_INLINE void start(const Tile& t) {
    const T* init = static_cast<const T*>(t.init);
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) {
      const V first = init != nullptr ? load_as<V>(init + j * kWidth) : V{};
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) acc[i][j] = first;
    }
  }
  /// Prefetches c, which is read at the end.
  PROA_INLINE static const char* fetch_row(const char* c, int64_t pitch) {
    __builtin_prefetch(c, 1);
    if (kVecs * kVecBytes > 64) __builtin_prefetch(c + kVecs * kVecBytes - 1, 1);
    return c + pitch;
  }
  PROA_INLINE static int64_t pitch(const Tile& t) {
    return t.c.ld * static_cast<int64_t>(sizeof(T));
  }
  PROA_INLINE static void fetch(const Tile& t) {
    const char* c = static_cast<const char*>(t.c.data);
    const int64_t step = pitch(t);
    for (int i = 0; i < kRows; ++i) c = fetch_row(c, step);
  }
  /// One step of k; unit(i) is row i of a.
  template <class F>
  PROA_INLINE void step(const T* b, F unit) {
    V bv[kVecs];
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) bv[j] = load_as<V>(b + j * kWidth);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
      for (int j = 0; j < kVecs; ++j) acc[i][j] = Arith::multiply_add(acc[i][j], unit(i), bv[j]);
  }
  PROA_INLINE void finish(const Tile& t) {
    T* c = static_cast<T*>(t.c.data);
    const int64_t last = t.c.last;
    if (t.accumulate) {
      const T* from = c;
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        if (i >= kRows - 1 && i >= t.c.count) break;
#pragma GCC unroll 2
        for (int j = 0; j < kVecs; ++j, from += kWidth)
          acc[i][j] += j < kVecs - 1 || last == kWidth ? load_as<V>(from) : load_n(from, last);
        from += t.c.ld - kVecs * kWidth;
      }
    }
    if (t.epilogue.relu) {
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
        for (int j = 0; j < kVecs; ++j) acc[i][j] = Arith::relu(acc[i][j]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      if (i >= kRows - 1 && i >= t.c.count) return;
#pragma GCC unroll 2
      for (int j = 0; j < kVecs; ++j, c += kWidth) {
        if (j < kVecs - 1 || last == kWidth)
          __builtin_memcpy(c, &acc[i][j], sizeof(V));
        else
          store_n(c, acc[i][j], last);
      }
      c += t.c.ld - kVecs * kWidth;
    }
  }
};

/// Stores a tile of floats after its end.
template <class Tiled>
PROA_INLINE void finish_with(const Tiled& tile, const Tile& t, const TileEnd& end, int rows,
                             int vecs) {
  const VF low = splat(end.low), high = splat(end.high);
#pragma GCC unroll 2
  for (int j = 0; j < vecs; ++j) {
    const int64_t some = j < vecs - 1 ? kLanes : t.c.last, at = j * kLanes;
    auto take = [&](const float* p) {
      return some == kLanes ? load(p + at) : load_n(p + at, some);
    };
    const VF center = take(end.center), factor = take(end.factor), shift = take(end.shift);
    float* c = static_cast<float*>(t.c.data) + at;
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i, c += t.c.ld) {
      if (i >= rows - 1 && i >= t.c.count) break;
      const VF y = normalised<VF>(tile.acc[i][j], center, factor, shift);
      const VF done = min(high, max(low, y));
      if (some == kLanes)
        store(c, done);
      else
        store_n(c, done, some);
    }
  }
}

/// Stores a tile as its `narrow` says.
template <class Arith, bool kAdds, class Tiled>
PROA_INLINE void finish_narrow(const Tiled& tile, const Tile& t, int rows, int vecs) {
  const NarrowEnd& end = *t.epilogue.narrow;
  const VF low = splat(end.low), high = splat(end.high);
  const BF16* from = end.residual;
  uint16_t* to = end.out;
  const int64_t count = (vecs - 1) * kLanes + t.c.last;
  const auto some = static_cast<uint32_t>((uint64_t{1} << count) - 1);
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i, to += end.ld) {
    if (i >= rows - 1 && i >= t.c.count) return;
    VF first = tile.acc[i][0], second = vecs == 1 ? VF{} : tile.acc[i][vecs - 1];
    if (kAdds) {
      first += Arith::load_some(from, vecs > 1 ? kLanes : t.c.last);
      if (vecs > 1) second += Arith::load_some(from + kLanes, t.c.last);
      from += end.residual_ld;
    }
    first = min(high, max(low, first));
    if (vecs > 1) second = min(high, max(low, second));
    Arith::store_some(to, some, Arith::narrow(first, second));
  }
}

/// Stores a tile where it goes.
template <class Arith, class Tiled>
PROA_INLINE void finish_tile(Tiled* tile, const Tile& t, int rows, int vecs) {
  if constexpr (kNarrows<Arith>) {
    if (t.epilogue.narrow != nullptr) {
      if (t.epilogue.narrow->residual != nullptr)
        return finish_narrow<Arith, true>(*tile, t, rows, vecs);
      return finish_narrow<Arith, false>(*tile, t, rows, vecs);
    }
  }
  tile->finish(t);
}

// Rows of c are prefetched one per kStepsPerFetch steps of k, the last kStepsAfterFetch steps
// before the end: all at once would delay the panels, and rows a power of two apart evict each
// other.
constexpr int64_t kStepsPerFetch = 2, kStepsAfterFetch = 16;

/// A policy of run_packed_tile, as PrefetchStream is one.
struct NoPrefetch {
  PROA_INLINE void step() {}
};

template <class Arith, int kRows, int kVecs, class Prefetch>
PROA_INLINE void run_packed_tile(const Tile& t, Prefetch meanwhile) {
  using T = typename Arith::Scalar;
  constexpr bool kFetches = kRows * 2 > kTileRows;  // short tiles have no spare issue slots
  Accumulators<Arith, kRows, kVecs> tile;
  tile.start(t);
  const T* a = static_cast<const T*>(t.a.data);
  const T* b = static_cast<const T*>(t.b.data);
  const int64_t lda = t.a.ld, ldb = t.b.ld;
  if (kSmallBuild) {
    tile.fetch(t);
    for (int64_t k = t.k; k > 0; --k) {
      tile.step(b, [&](int i) { return a[i]; });
      a += lda;
      b += ldb;
    }
    return finish_tile<Arith>(&tile, t, kRows, kVecs);
  }
  const int64_t pitch = tile.pitch(t);
  const char* c = static_cast<const char*>(t.c.data);
  int rows = kRows;  // of c, still to be prefetched
  int64_t some = t.k - kStepsPerFetch * kRows - kStepsAfterFetch;
  if (some < 0) {
    tile.fetch(t);
    some = t.k;
    rows = -1;
  }
  for (;;) {
    for (; some > 0; --some) {
      if (kFetches) {
        __builtin_prefetch(b + kStepsAheadB *
                                   ldb);  // the adjacent-line prefetcher fetches the second half
        __builtin_prefetch(a + kStepsAheadA * lda);
      }
      meanwhile.step();
      tile.step(b, [&](int i) { return a[i]; });
      a += lda;
      b += ldb;
    }
    if (--rows < 0) {
      if (rows < -1) break;
      some = kStepsAfterFetch;
      continue;
    }
    c = tile.fetch_row(c, pitch);
    some = kStepsPerFetch;
  }
  finish_tile<Arith>(&tile, t, kRows, kVecs);
}

struct PackedRows {};
template <class Arith, int kRows, int kVecs>
void run_tile(const Tile& t, const PackedRows&) {
  if constexpr (!kSmallBuild && kRows * 2 > kTileRows && kVecs == kTileVecs) {
    // Without anything to prefetch, the same line of b again and again.
    const void* from = t.prefetch.from != nullptr ? t.prefetch.from : t.b.data;
    run_packed_tile<Arith, kRows, kVecs>(t, PrefetchStream{from, t.prefetch.bytes});
  } else {
    run_packed_tile<Arith, kRows, kVecs>(t, NoPrefetch{});
  }
}

/// Prefetches the rows of b kRowsAhead steps before they are read.
struct UncachedRows {};
struct PrefetchRows {
  const char* from;
  int64_t pitch;
  PROA_INLINE void step() {
    __builtin_prefetch(from, 0, 2);
    if (kTileVecs * kVecBytes > 64) __builtin_prefetch(from + 64, 0, 2);
    from += pitch;
  }
};
template <class Arith, int kRows, int kVecs>
void run_tile(const Tile& t, const UncachedRows&) {
  const int64_t pitch = t.b.ld * static_cast<int64_t>(sizeof(typename Arith::Scalar));
  const PrefetchRows rows = {static_cast<const char*>(t.b.data) + kRowsAhead * pitch, pitch};
  run_packed_tile<Arith, kRows, kVecs>(t, rows);
}

template <class Arith>
void run_row(const Tile& t, int64_t panel) {
  using T = typename Arith::Scalar;
  constexpr int kWidth = kVecBytes / static_cast<int>(sizeof(T));
  Accumulators<Arith, 1, kTileVecs> sums[kRowPanels];
  Tile part = t;
#pragma GCC unroll 4
  for (int p = 0; p < kRowPanels; ++p) {
    sums[p].start(part);
    if (t.init != nullptr) part.init = static_cast<const T*>(part.init) + kTileVecs * kWidth;
  }
  const T* a = static_cast<const T*>(t.a.data);
  const T* b[kRowPanels];
#pragma GCC unroll 4
  for (int p = 0; p < kRowPanels; ++p)
    b[p] = reinterpret_cast<const T*>(static_cast<const uint8_t*>(t.b.data) + p * panel);
  for (int64_t k = 0; k < t.k; ++k)
#pragma GCC unroll 4
    for (int p = 0; p < kRowPanels; ++p)
      sums[p].step(b[p] + k * kTileVecs * kWidth, [&](int) { return a[k]; });
#pragma GCC unroll 4
  for (int p = 0; p < kRowPanels; ++p) {
    sums[p].finish(part);
    part.c.data = static_cast<T*>(part.c.data) + kTileVecs * kWidth;
  }
}

template <class Arith>
void run_and_pack_b(const Tile& t, void* packed) {
  using T = typename Arith::Scalar;
  using V = typename Arith::Vector;
  constexpr int kWidth = kVecBytes / static_cast<int>(sizeof(T));
  Accumulators<Arith, kTileRows, kTileVecs> tile;
  tile.start(t);
  tile.fetch(t);
  const T* a = static_cast<const T*>(t.a.data);
  const T* b = static_cast<const T*>(t.b.data);
  T* to = static_cast<T*>(packed);
  const int64_t lda = t.a.ld, ldb = t.b.ld, ahead = kRowsAhead * ldb;
  for (int64_t k = t.k; k > 0; --k) {
#pragma GCC unroll 2
    for (int j = 0; j < kTileVecs; ++j) {
      __builtin_prefetch(b + ahead + j * kWidth, 0, 2);
      const V v = load_as<V>(b + j * kWidth);
      __builtin_memcpy(to + j * kWidth, &v, sizeof v);
    }
    tile.step(b, [&](int i) { return a[i]; });
    a += lda;
    b += ldb;
    to += kTileVecs * kWidth;
  }
  tile.finish(t);
}

/// The sums of a tile whose a is read as patches.
template <class Arith, int kRows, int kVecs>
PROA_INLINE void sum_patches(const Tile& t, const Patches& w,
                             Accumulators<Arith, kRows, kVecs>* tile) {
  using T = typename Arith::Scalar;
  tile->start(t);
  const T* b = static_cast<const T*>(t.b.data);
  const int64_t ldb = t.b.ld;
  const char* ahead =
      static_cast<const char*>(t.prefetch.from != nullptr ? t.prefetch.from : t.a.data);
  RowUnits<Arith, kRows, kSmallBuild> rows(w.row);
  // Tall tiles are unrolled by two steps, which frees issue slots for the multiply-adds.
  constexpr int kSteps = !kSmallBuild && kRows * 2 > kTileRows && kVecs == kTileVecs ? 2 : 1;
  for (int64_t p = 0; p < w.taps_h; ++p)
    for (int64_t q = 0; q < w.taps_w; ++q) {
      rows.start(static_cast<const uint8_t*>(t.a.data) + p * w.tap_h + q * w.tap_w);
      int64_t k = t.k;
      if (k % kSteps != 0) {
        tile->step(b, [&](int i) { return rows.at(i, 0); });
        rows.advance(sizeof(T));
        b += ldb;
        --k;
      }
      for (; k > 0; k -= kSteps) {
#pragma GCC unroll 2
        for (int s = 0; s < kSteps; ++s) {
          __builtin_prefetch(ahead, 0, 2);
          ahead += t.prefetch.bytes;
          tile->step(b, [&](int i) { return rows.at(i, s); });
          b += ldb;
        }
        rows.advance(kSteps * static_cast<int>(sizeof(T)));
      }
    }
}

template <class Arith, int kRows, int kVecs>
void run_tile(const Tile& t, const Patches& w) {
  Accumulators<Arith, kRows, kVecs> tile;
  tile.fetch(t);
  sum_patches(t, w, &tile);
  if constexpr (kTakesEnds<Arith>) {
    if (t.epilogue.norm != nullptr) return finish_with(tile, t, *t.epilogue.norm, kRows, kVecs);
  }
  finish_tile<Arith>(&tile, t, kRows, kVecs);
}

/// Calls run_tile for a height that is known only at run time.
template <class Arith, int kVecs, class A>
void run_rows(int rows, const Tile& t, const A& a) {
  switch (rows) {
    case 1:
      return run_tile<Arith, 1, kVecs>(t, a);
    case 2:
      return run_tile<Arith, 2, kVecs>(t, a);
    case 4:
      return run_tile<Arith, 4, kVecs>(t, a);
    default:
      break;
  }
  if constexpr (kTileRows >= 6) {
    if (rows == 6) return run_tile<Arith, 6, kVecs>(t, a);
  }
  if constexpr (kTileRows >= 8) {
    if (rows == 8) return run_tile<Arith, 8, kVecs>(t, a);
  }
  if constexpr (kTileRows >= 14) {
    if (rows == 10) return run_tile<Arith, 10, kVecs>(t, a);
    if (rows == 12) return run_tile<Arith, 12, kVecs>(t, a);
    return run_tile<Arith, 14, kVecs>(t, a);
  }
}

template <class Arith>
void run_any(int rows, int vecs, const Tile& t) {
  const PackedRows packed;
  return vecs == 1 ? run_rows<Arith, 1>(rows, t, packed) : run_rows<Arith, 2>(rows, t, packed);
}

template <class Arith>
void run_uncached(int rows, const Tile& t) {
  run_rows<Arith, kTileVecs>(rows, t, UncachedRows{});
}

template <class Arith>
void run_any_patches(int rows, int vecs, const Tile& t, const Patches& w) {
  return vecs == 1 ? run_rows<Arith, 1>(rows, t, w) : run_rows<Arith, 2>(rows, t, w);
}

}  // namespace proa::PROA_ISA
