#include "proa/simd/gemm/skinny.h"

#include <string.h>

namespace proa::PROA_ISA {
namespace {

constexpr int kVecs = 4;  // columns of b read side by side
#if defined(__AVX512F__)
constexpr int kSums = 16;  // vectors of sums in registers
#else
constexpr int kSums = 8;
#endif
constexpr int64_t kChunk = 16 * kLanes;  // columns of a piece of work
constexpr int64_t kAhead = 8;            // rows of b that are fetched before their time
constexpr int64_t kGrainWork = 1 << 18;

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/// The rows of a, copied with a distance that does not make them evict each other.
struct Rows {
  const float* data;
  int64_t count, pitch;
  const float* at(int64_t r) const { return data + r * pitch; }
};
int64_t pitch_of(int64_t k) { return (k + 15) / 16 * 16 + 16; }

/// Sums over rows of b for kVecs vectors of columns, the last one of `last` columns.
template <int kRows, int kVecs>
void add_rows(const float* a, int64_t pitch, int64_t k, const SkinnyB& b, int64_t col, int64_t last,
              float* tile) {
  VF acc[kRows][kVecs] = {};
  const float* from = b.data + col;
  const int64_t ahead = kAhead * b.step_k;
  for (int64_t i = 0; i < k; ++i, from += b.step_k) {
#pragma GCC unroll 16
    for (int j = 0; j < kVecs; ++j) {
      const float* at = from + j * kLanes;
      if (i + kAhead < k) __builtin_prefetch(at + ahead);
      const VF v = last == kLanes ? load(at) : load_n(at, last);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) acc[r][j] = fma(splat(a[r * pitch + i]), v, acc[r][j]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
    for (int j = 0; j < kVecs; ++j) store(tile + r * kChunk + j * kLanes, acc[r][j]);
}

/// Where the columns of b are its lines: sums along four of them at a time.
template <int kRows>
void add_columns(const float* a, int64_t pitch, int64_t k, const SkinnyB& b, int64_t col,
                 int64_t cols, float* tile) {
  constexpr int kCols = 16 / kRows < 4 ? 16 / kRows : 4;
  for (int64_t j = 0; j < cols; j += kCols) {
    const float* from[kCols];
    for (int x = 0; x < kCols; ++x) from[x] = b.data + (col + least(j + x, cols - 1)) * b.step_n;
    VF acc[kRows][kCols] = {};
    int64_t i = 0;
    for (; i + kLanes <= k; i += kLanes)
#pragma GCC unroll 4
      for (int x = 0; x < kCols; ++x) {
        const VF v = load(from[x] + i);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) acc[r][x] = fma(load(a + r * pitch + i), v, acc[r][x]);
      }
    if (i < k) {
      for (int x = 0; x < kCols; ++x)
        for (int r = 0; r < kRows; ++r)
          acc[r][x] = fma(load_n(a + r * pitch + i, k - i), load_n(from[x] + i, k - i), acc[r][x]);
    }
    for (int x = 0; x < kCols && j + x < cols; ++x)
      for (int r = 0; r < kRows; ++r) tile[r * kChunk + j + x] = sum_lanes(acc[r][x]);
  }
}

/// Takes all rows that can be taken kRows at a time, from r on.
template <int kRows, int kWide>
void add_some(const Rows& a, int64_t k, const SkinnyB& b, int64_t col, int64_t last, int64_t* r,
              float* tile) {
  constexpr int kSome = kWide < kSums / kRows ? kWide : kSums / kRows;
  for (; *r + kRows <= a.count; *r += kRows)
    for (int j = 0; j < kWide; j += kSome)
      add_rows<kRows, kSome>(a.at(*r), a.pitch, k, b, col + j * kLanes, last,
                             tile + *r * kChunk + j * kLanes);
}

/// kWide vectors of columns with all rows; after the first few rows b is in the cache.
template <int kWide>
void add_all(const Rows& a, int64_t k, const SkinnyB& b, int64_t col, int64_t last, float* tile) {
  int64_t r = 0;
  add_some<8, kWide>(a, k, b, col, last, &r, tile);
  add_some<4, kWide>(a, k, b, col, last, &r, tile);
  add_some<2, kWide>(a, k, b, col, last, &r, tile);
  add_some<1, kWide>(a, k, b, col, last, &r, tile);
}

void add_chunk(const Rows& a, int64_t k, const SkinnyB& b, int64_t col, int64_t cols, float* tile) {
  if (b.step_n != 1) {
    int64_t r = 0;
    for (; r + 8 <= a.count; r += 8)
      add_columns<8>(a.at(r), a.pitch, k, b, col, cols, tile + r * kChunk);
    for (; r + 4 <= a.count; r += 4)
      add_columns<4>(a.at(r), a.pitch, k, b, col, cols, tile + r * kChunk);
    for (; r < a.count; ++r) add_columns<1>(a.at(r), a.pitch, k, b, col, cols, tile + r * kChunk);
    return;
  }
  int64_t j = 0;
  for (; j + kVecs * kLanes <= cols; j += kVecs * kLanes)
    add_all<kVecs>(a, k, b, col + j, kLanes, tile + j);
  for (; j < cols; j += kLanes) add_all<1>(a, k, b, col + j, least(cols - j, kLanes), tile + j);
}

/// Writes a chunk of sums as g wants them.
void write_chunk(const Gemm& g, int64_t col, int64_t cols, float* tile) {
  const float* init = static_cast<const float*>(g.init);
  for (int64_t r = 0; r < g.m; ++r)
    for (int64_t j = 0; j < cols; j += kLanes) {
      float* at = tile + r * kChunk + j;
      VF v = load(at);
      if (init != nullptr) v += load(init + col + j);
      if (g.relu) v = max(VF{}, v);
      store(at, v);
      if (g.c != nullptr)
        store_n(static_cast<float*>(g.c) + r * g.ldc + col + j, v, least(cols - j, kLanes));
    }
  if (g.finish == nullptr) return;
  constexpr int64_t kPiece = kTileVecs * kLanes;
  for (int64_t j = 0; j < cols; j += kPiece) {
    void* place = tile + j;
    if (g.c != nullptr) place = static_cast<float*>(g.c) + col + j;
    g.finish(g.finish_ctx, place, g.c != nullptr ? g.ldc : kChunk, 0, static_cast<int>(g.m),
             col + j, static_cast<int>(least(cols - j, kPiece)));
  }
}

}  // namespace

size_t skinny_scratch(int64_t k) {
  return static_cast<size_t>(kSkinnyRows * pitch_of(k)) * sizeof(float) + 2 * kVecBytes + 64;
}

void multiply_skinny(const Call& call, const Gemm& g, const SkinnyB& b, void* scratch) {
  float* const copy = static_cast<float*>(scratch);
  const Rows a = {copy, g.m, pitch_of(g.k)};
  for (int64_t r = 0; r < g.m; ++r) {
    float* const row = copy + r * a.pitch;
    if (g.a.by_step) {
      for (int64_t i = 0; i < g.k; ++i) {
        float x;
        memcpy(row + i, g.a.read(g.a.ctx, i, r, 1, &x), sizeof x);
      }
      continue;
    }
    const void* from = g.a.read(g.a.ctx, r, 0, g.k, row);
    if (from != row) memcpy(row, from, static_cast<size_t>(g.k) * sizeof(float));
  }
  const int64_t chunks = (g.n + kChunk - 1) / kChunk;
  const int64_t grain = 1 + kGrainWork / (kChunk * g.k + 1);
  parallel_for(call, chunks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      alignas(64) float tile[kSkinnyRows * kChunk];
      const int64_t col = i * kChunk, cols = least(g.n - col, kChunk);
      add_chunk(a, g.k, b, col, cols, tile);
      write_chunk(g, col, cols, tile);
    }
  });
}

}  // namespace proa::PROA_ISA
