// A few rows of b at a time are gone through along a chunk of columns, as they lie in memory, while
// the sums of the chunk stay in the first-level cache. Sums are begun anew where gemm() begins a
// block of k, so that both give the same bits.
#include "proa/simd/gemm/skinny.h"

#include <string.h>

namespace proa::PROA_ISA {
namespace {

constexpr int64_t kSteps = 8;    // rows of b taken together
constexpr int kWide = 4;         // vectors of columns side by side
constexpr int64_t kSums = 4096;  // of a chunk
constexpr int64_t kPieces = 4;   // at least, if there are columns enough
constexpr int64_t kGrainWork = 1 << 18;

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/// Some steps of all the rows, and the sums they are added to.
struct Group {
  const float* a;  // [steps][rows]
  int64_t rows, steps;
  const float* b;
  int64_t step;  // from a row of b to the next
  float* sums;
  int64_t pitch;
};

/// Adds to kRows rows of kVecs vectors of sums, the last vector of `last` columns.
template <int kRows, int kVecs>
PROA_INLINE void add_rows(const Group& g, int64_t row, int64_t col, int64_t last) {
  VF acc[kRows][kVecs];
  float* const sums = g.sums + row * g.pitch + col;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j) acc[r][j] = load(sums + r * g.pitch + j * kLanes);
  const float *a = g.a + row, *b = g.b + col;
  for (int64_t s = 0; s < g.steps; ++s, a += g.rows, b += g.step) {
    VF v[kVecs];
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j)
      v[j] = last == kLanes ? load(b + j * kLanes) : load_n(b + j * kLanes, last);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int j = 0; j < kVecs; ++j) acc[r][j] = fma(splat(a[r]), v[j], acc[r][j]);
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j) store(sums + r * g.pitch + j * kLanes, acc[r][j]);
}

/// All rows with kVecs vectors of columns.
template <int kVecs>
PROA_INLINE void add_columns(const Group& g, int64_t col, int64_t last) {
  constexpr int kPair = kVecs < 2 ? kVecs : 2;  // registers hold 8 rows of so many vectors
  int64_t r = 0;
  for (; r + 8 <= g.rows; r += 8)
    for (int j = 0; j < kVecs; j += kPair) add_rows<8, kPair>(g, r, col + j * kLanes, last);
  for (; r + 4 <= g.rows; r += 4)
    for (int j = 0; j < kVecs; j += kPair) add_rows<4, kPair>(g, r, col + j * kLanes, last);
  for (; r + 2 <= g.rows; r += 2) add_rows<2, kVecs>(g, r, col, last);
  for (; r < g.rows; ++r) add_rows<1, kVecs>(g, r, col, last);
}

void add_group(const Group& g, int64_t cols) {
  int64_t j = 0;
  for (; j + kWide * kLanes <= cols; j += kWide * kLanes) add_columns<kWide>(g, j, kLanes);
  for (; j < cols; j += kLanes) add_columns<1>(g, j, least(cols - j, kLanes));
}

/// Sums of one chunk of columns over one block of k.
struct Chunk {
  const Gemm& g;
  const float* a;  // [k][m]
  int64_t col, cols, pitch;
};

void add_block(const Chunk& c, int64_t k0, int64_t k, float* sums) {
  const Source& b = c.g.b;
  Group group = {c.a + k0 * c.g.m, c.g.m, 0,      static_cast<const float*>(b.direct) + c.col,
                 b.step,           sums,  c.pitch};
  group.b += k0 * b.step;
  for (int64_t i = 0; i < k; i += kSteps) {
    group.steps = least(k - i, kSteps);
    add_group(group, c.cols);
    group.a += kSteps * c.g.m;
    group.b += kSteps * b.step;
  }
}

/// Writes the sums of a chunk as g wants them.
void write_chunk(const Chunk& c, float* sums) {
  const Gemm& g = c.g;
  for (int64_t r = 0; r < g.m; ++r)
    for (int64_t j = 0; j < c.cols; j += kLanes) {
      float* const at = sums + r * c.pitch + j;
      VF v = load(at);
      if (g.relu) v = max(VF{}, v);
      store(at, v);
      if (g.c != nullptr)
        store_n(static_cast<float*>(g.c) + r * g.ldc + c.col + j, v, least(c.cols - j, kLanes));
    }
  if (g.finish == nullptr) return;
  constexpr int64_t kPiece = kTileVecs * kLanes;
  for (int64_t j = 0; j < c.cols; j += kPiece) {
    void* place = sums + j;
    if (g.c != nullptr) place = static_cast<float*>(g.c) + c.col + j;
    g.finish(g.finish_ctx, place, g.c != nullptr ? g.ldc : c.pitch, 0, static_cast<int>(g.m),
             c.col + j, static_cast<int>(least(c.cols - j, kPiece)));
  }
}

void run_chunk(const Chunk& c) {
  const Gemm& g = c.g;
  const int64_t block = gemm_k_block(*g.micro, g.k);
  alignas(64) float total[kSums + kLanes], part[kSums + kLanes];
  const float* init = static_cast<const float*>(g.init);
  for (int64_t r = 0; r < g.m; ++r)
    for (int64_t j = 0; j < c.cols; j += kLanes)
      store(total + r * c.pitch + j, init == nullptr ? VF{} : load(init + c.col + j));
  add_block(c, 0, least(g.k, block), total);
  for (int64_t k0 = block; k0 < g.k; k0 += block) {
    const int64_t count = g.m * c.pitch;
    memset(part, 0, static_cast<size_t>(count) * sizeof(float));
    add_block(c, k0, least(g.k - k0, block), part);
    for (int64_t i = 0; i < count; i += kLanes) store(total + i, load(total + i) + load(part + i));
  }
  write_chunk(c, total);
}

}  // namespace

size_t skinny_scratch(int64_t m, int64_t k) {
  return static_cast<size_t>(m * k) * sizeof(float) + 2 * kVecBytes;
}

void multiply_skinny(const Call& call, const Gemm& g, void* scratch) {
  if (g.m == 0 || g.n == 0) return;
  constexpr int64_t kUnit = kWide * kLanes;
  float* const a = static_cast<float*>(scratch);
  pack_panel(g.a, sizeof(float), 0, static_cast<int>(g.m), static_cast<int>(g.m), 0, g.k, a);
  const int64_t even = (g.n + kPieces - 1) / kPieces, fit = kSums / g.m / kUnit * kUnit;
  const int64_t pitch = least(fit, (even + kUnit - 1) / kUnit * kUnit);
  const int64_t grain = 1 + kGrainWork / (pitch * g.k * g.m + 1);
  parallel_for(call, (g.n + pitch - 1) / pitch, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t col = i * pitch;
      run_chunk({g, a, col, least(g.n - col, pitch), pitch});
    }
  });
}

}  // namespace proa::PROA_ISA
