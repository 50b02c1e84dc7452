// A few rows of b at a time are read along a chunk of columns, in memory order, while the sums of
// the chunk stay in the first-level cache. 16-bit floats are widened in registers. Sums restart
// at each block of k of gemm(), and pairs are added in the order of the CPU's dot product or of its
// tiles, so both produce the same bits.
#include "proa/simd/gemm/small_m.h"
#include "proa/base/arith.h"

#include <string.h>

#include "proa/base/dispatch.h"
#include "proa/base/task_size.h"
#include "proa/simd/tuning.h"

namespace proa::PROA_ISA {
namespace {

constexpr int64_t kSteps = 8;  // rows of b processed together
constexpr int kWide = 4;       // vectors of columns side by side

/// Some steps of all the rows, and the sums they are added to.
template <class T>
struct Group {
  const Compute<T>* a;  // [steps][rows]
  int64_t rows, steps;
  const T* b;
  int64_t step;  // from a row of b to the next
  Compute<T>* sums;
  int64_t pitch;
  bool padded;  // fewer steps than a register of AMX has
};

/// Adds to kRows rows of kVecs vectors of sums, the last vector of `last` columns.
template <class T, SumOrder kOrder, int kRows, int kVecs>
PROA_INLINE void add_rows(const Group<T>& g, int64_t row, int64_t col, int64_t last) {
  constexpr int64_t kWidth = kLanesOf<T>;
  Vec<T> acc[kRows][kVecs];
  Compute<T>* const sums = g.sums + row * g.pitch + col;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j) acc[r][j] = load(sums + r * g.pitch + j * kWidth);
  const Compute<T>* a = g.a + row;
  const T* b = g.b + col;
  auto add = [&](const Compute<T>* as, const T* bs) {
    Vec<T> v[kVecs];
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j)
      v[j] = last == kWidth ? load(bs + j * kWidth) : load_n(bs + j * kWidth, last);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int j = 0; j < kVecs; ++j) acc[r][j] = acc[r][j] + as[r] * v[j];
  };
  int64_t left = g.steps;
  if (kOrder == SumOrder::kPairs)
    for (; left > 1; left -= 2, a += 2 * g.rows, b += 2 * g.step) {
      add(a + g.rows, b + g.step);
      add(a, b);
    }
  for (; left > 0; --left, a += g.rows, b += g.step) add(a, b);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j) store(sums + r * g.pitch + j * kWidth, acc[r][j]);
}

/// The same for the steps of a register of AMX: the lower elements of pairs are summed from 0, and
/// so are the upper ones.
template <int kRows, int kVecs>
PROA_INLINE void add_register_rows(const Group<BF16>& g, int64_t row, int64_t col, int64_t last) {
  constexpr int64_t kWidth = kLanesOf<BF16>, kAhead = 2 * kVecs * kWidth;
  VF acc[2][kRows][kVecs] = {};
  const float* a = g.a + row;
  const BF16* b = g.b + col;
  auto add = [&](VF(&part)[kRows][kVecs]) {
    VF v[kVecs];
    __builtin_prefetch(b + kAhead);
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j)
      v[j] = last == kWidth ? load(b + j * kWidth) : load_n(b + j * kWidth, last);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int j = 0; j < kVecs; ++j) part[r][j] = fma(splat(a[r]), v[j], part[r][j]);
    a += g.rows;
    b += g.step;
  };
  for (int64_t i = 0; i + 1 < g.steps; i += 2) {
    add(acc[0]);
    add(acc[1]);
  }
  if (g.steps % 2 != 0) add(acc[0]);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j) {
      float* const at = g.sums + (row + r) * g.pitch + col + j * kWidth;
      // The register's other elements are 0, and a sum of -0 and 0 is 0.
      if (g.padded) acc[0][r][j] += VF{}, acc[1][r][j] += VF{};
      store(at, load(at) + (acc[0][r][j] + acc[1][r][j]));
    }
}

/// kRows rows with kAll vectors of columns, of which kVecs at once fit the registers.
template <class T, SumOrder kOrder, int kRows, int kVecs, int kAll>
PROA_INLINE void add_strip(const Group<T>& g, int64_t row, int64_t col, int64_t last) {
  for (int j = 0; j < kAll; j += kVecs, col += kVecs * kLanesOf<T>) {
    if constexpr (kOrder == SumOrder::kTiles)
      add_register_rows<kRows, kVecs>(g, row, col, last);
    else
      add_rows<T, kOrder, kRows, kVecs>(g, row, col, last);
  }
}

/// All rows with kVecs vectors of columns.
template <class T, SumOrder kOrder, int kVecs>
PROA_INLINE void add_columns(const Group<T>& g, int64_t col, int64_t last) {
  constexpr int kTwo = kVecs < 2 ? kVecs : 2;
  constexpr int kFew = kOrder == SumOrder::kTiles ? 1 : kTwo;
  int64_t r = 0;
  for (; r + 8 <= g.rows; r += 8) add_strip<T, kOrder, 8, kFew, kVecs>(g, r, col, last);
  for (; r + 4 <= g.rows; r += 4) add_strip<T, kOrder, 4, kTwo, kVecs>(g, r, col, last);
  for (; r + 2 <= g.rows; r += 2) add_strip<T, kOrder, 2, kVecs, kVecs>(g, r, col, last);
  for (; r < g.rows; ++r) add_strip<T, kOrder, 1, kVecs, kVecs>(g, r, col, last);
}

template <class T, SumOrder kOrder>
void add_group(const Group<T>& g, int64_t cols) {
  constexpr int64_t kWidth = kLanesOf<T>;
  int64_t j = 0;
  for (; j + kWide * kWidth <= cols; j += kWide * kWidth)
    add_columns<T, kOrder, kWide>(g, j, kWidth);
  for (; j < cols; j += kWidth) add_columns<T, kOrder, 1>(g, j, min(cols - j, kWidth));
}

/// Sums of one chunk of columns over one block of k.
template <class T>
struct Chunk {
  const Gemm& g;
  const Compute<T>* a;  // [k][m]
  const T* b;
  int64_t step, block;
  int64_t col, cols, pitch;
};

template <class T, SumOrder kOrder>
void add_block(const Chunk<T>& c, int64_t k0, int64_t k, Compute<T>* sums) {
  [[maybe_unused]] const FlushSubnormals<kOrder != SumOrder::kSteps> meanwhile;
  Group<T> group = {c.a + k0 * c.g.m, c.g.m, 0,       c.b + c.col + k0 * c.step,
                    c.step,           sums,  c.pitch, false};
  const int64_t steps = kOrder == SumOrder::kTiles ? 2 * amx_step_units((k + 1) / 2) : kSteps;
  for (int64_t i = 0; i < k; i += steps) {
    group.steps = min(k - i, steps);
    group.padded = group.steps < steps;
    add_group<T, kOrder>(group, c.cols);
    group.a += steps * c.g.m;
    group.b += steps * c.step;
  }
}

/// Writes the sums of a chunk to g's output.
template <class T>
void write_chunk(const Chunk<T>& c, Compute<T>* sums) {
  using C = Compute<T>;
  constexpr int64_t kWidth = kLanesOf<C>;
  const Gemm& g = c.g;
  for (int64_t r = 0; r < g.m; ++r)
    for (int64_t j = 0; j < c.cols; j += kWidth) {
      C* const at = sums + r * c.pitch + j;
      Vec<C> v = load(at);
      if (g.out.relu) v = Vec<C>{} > v ? Vec<C>{} : v;  // NaN stays
      store(at, v);
      if (g.out.c != nullptr)
        store_n(static_cast<C*>(g.out.c) + r * g.out.ldc + c.col + j, v, min(c.cols - j, kWidth));
    }
  if (g.out.epilogue == nullptr) return;
  constexpr int64_t kTileCols = kTileVecs * kWidth;
  for (int64_t j = 0; j < c.cols; j += kTileCols) {
    void* place = sums + j;
    if (g.out.c != nullptr) place = static_cast<C*>(g.out.c) + c.col + j;
    g.out.epilogue(g.out.epilogue_ctx, place, g.out.c != nullptr ? g.out.ldc : c.pitch, 0,
                   static_cast<int>(g.m), c.col + j, static_cast<int>(min(c.cols - j, kTileCols)));
  }
}

template <class T, SumOrder kOrder>
void run_chunk(const Chunk<T>& c) {
  using C = Compute<T>;
  constexpr int64_t kWidth = kLanesOf<C>, kSums = kMaxSmallMSums / static_cast<int64_t>(sizeof(C));
  const Gemm& g = c.g;
  const int64_t block = c.block;
  alignas(64) C total[kSums + kWidth], part[kSums + kWidth];
  const C* init = static_cast<const C*>(g.init);
  for (int64_t r = 0; r < g.m; ++r)
    for (int64_t j = 0; j < c.cols; j += kWidth)
      store(total + r * c.pitch + j, init == nullptr ? Vec<C>{} : load(init + c.col + j));
  add_block<T, kOrder>(c, 0, min(g.k, block), total);
  for (int64_t k0 = block; k0 < g.k; k0 += block) {
    if constexpr (kOrder == SumOrder::kTiles) {  // each register is added to what came before
      add_block<T, kOrder>(c, k0, min(g.k - k0, block), total);
      continue;
    }
    const int64_t count = g.m * c.pitch;
    memset(part, 0, static_cast<size_t>(count) * sizeof(C));
    add_block<T, kOrder>(c, k0, min(g.k - k0, block), part);
    for (int64_t i = 0; i < count; i += kWidth) store(total + i, load(total + i) + load(part + i));
  }
  write_chunk(c, total);
}

template <class T, SumOrder kOrder = SumOrder::kSteps>
void run(const Call& call, const Gemm& g, const RowMajorB& rows, void* scratch) {
  using C = Compute<T>;
  constexpr int64_t kUnit = kWide * kLanesOf<C>;
  const int64_t sums = caches().small_m_sums / static_cast<int64_t>(sizeof(C));
  C* const a = static_cast<C*>(scratch);
  pack_panel(g.a, sizeof(C), 0, static_cast<int>(g.m), static_cast<int>(g.m), 0, g.k, a);
  const int64_t even = (g.n + kSmallMChunks - 1) / kSmallMChunks, fit = sums / g.m / kUnit * kUnit;
  const int64_t pitch = min(fit, (even + kUnit - 1) / kUnit * kUnit);
  const int64_t grain = 1 + kSmallMTaskMacs / (pitch * g.k * g.m + 1);
  parallel_for(call, (g.n + pitch - 1) / pitch, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t col = i * pitch;
      run_chunk<T, kOrder>({g, a, static_cast<const T*>(rows.data), rows.step, rows.block, col,
                            min(g.n - col, pitch), pitch});
    }
  });
}

}  // namespace

size_t small_m_scratch(const Micro& micro, int64_t m, int64_t k) {
  return static_cast<size_t>(m * k * micro.size) + 2 * kVecBytes;
}

void multiply_small_m(const Call& call, const Gemm& g, const RowMajorB& b, void* scratch) {
  if (g.m == 0 || g.n == 0) return;
  switch (b.dtype) {
    case DType::kF16:
      return run<F16>(call, g, b, scratch);
    case DType::kBF16:
      if constexpr (kHasBf16Pairs) {
        if (b.order == SumOrder::kPairs) return run<BF16, SumOrder::kPairs>(call, g, b, scratch);
        if (b.order == SumOrder::kTiles) return run<BF16, SumOrder::kTiles>(call, g, b, scratch);
      }
      return run<BF16>(call, g, b, scratch);
    case DType::kF64:
      return run<double>(call, g, b, scratch);
    default:
      return run<float>(call, g, b, scratch);
  }
}

}  // namespace proa::PROA_ISA
