// Small-m GEMM with a column-major b: sixteen columns at a time are read sequentially, transposed
// in registers and multiplied by all rows of a. Sums restart at each block of k of gemm(), so
// both produce the same bits.
#include "proa/base/arith.h"
#include "proa/base/task_size.h"
#include "proa/simd/gemm/small_m.h"

namespace proa::PROA_ISA {
namespace {

constexpr int64_t kPrefetch = 48;  // distance in floats along a line

/// kLanes floats of kLanes lines, copied together: the lines themselves may map to one cache set.
struct TransposeBlock {
  alignas(64) float at[kLanes][kLanes];

  /// v[i] = element `step + i` of every line.
  PROA_INLINE void transpose(int64_t step, VF v[4]) const {
    __m512 quarter[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      auto quarter_row = [&](int q) { return _mm_load_ps(at[r + 4 * q] + step); };
      quarter[r] = _mm512_castps128_ps512(quarter_row(0));
      quarter[r] = _mm512_mask_broadcast_f32x4(quarter[r], 0x00f0, quarter_row(1));
      quarter[r] = _mm512_mask_broadcast_f32x4(quarter[r], 0x0f00, quarter_row(2));
      quarter[r] = _mm512_mask_broadcast_f32x4(quarter[r], 0xf000, quarter_row(3));
    }
    auto pair = [](__m512 x, __m512 y, bool high) {
      return _mm512_castps_pd(high ? _mm512_unpackhi_ps(x, y) : _mm512_unpacklo_ps(x, y));
    };
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const __m512d x = pair(quarter[0], quarter[1], h != 0);
      const __m512d y = pair(quarter[2], quarter[3], h != 0);
      v[2 * h] = (VF)_mm512_unpacklo_pd(x, y);
      v[2 * h + 1] = (VF)_mm512_unpackhi_pd(x, y);
    }
  }
};

/// Adds k steps of kLanes lines from `b` on, `pitch` apart `lines` of which exist, to kRows
/// sums.
template <class T, bool kPairs, int kRows>
PROA_INLINE void add_lines(const float* a, const T* b, int64_t pitch, int64_t lines, int64_t k,
                           VF* sums) {
  [[maybe_unused]] const FlushSubnormals<kPairs> meanwhile;
  TransposeBlock block16;
  for (int64_t at = 0; at < k; at += kLanes, b += kLanes) {
    const int64_t some = min(k - at, kLanes);
    const T* line = b;
    for (int64_t i = 0; i < kLanes; ++i) {
      __builtin_prefetch(line + kPrefetch);
      store(block16.at[i], some == kLanes ? load(line) : load_n(line, some));
      if (i + 1 < lines) line += pitch;  // missing lines repeat the last one
    }
    for (int64_t step = 0; step < some; step += 4, a += 4 * kRows) {
      VF v[4];
      block16.transpose(step, v);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const int s = kPairs ? i ^ 1 : i;  // the upper half of a pair comes first
        if (step + s >= some) continue;
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) sums[r] = fma(splat(a[s * kRows + r]), v[s], sums[r]);
      }
    }
  }
}

template <class T, bool kPairs, int kRows>
void run_columns(const Gemm& g, const RowMajorB& rows, const float* a, int64_t col) {
  const int64_t block = rows.block, cols = min(g.n - col, kLanes);
  const T* const b = static_cast<const T*>(rows.data) + col * rows.step;
  const float* const init = static_cast<const float*>(g.init);
  VF total[kRows];
  for (int64_t k0 = 0; k0 == 0 || k0 < g.k; k0 += block) {
    VF part[kRows];
    for (VF& sum : part) sum = k0 > 0 || init == nullptr ? VF{} : load(init + col);
    add_lines<T, kPairs, kRows>(a + k0 * kRows, b + k0, rows.step, cols, min(g.k - k0, block),
                                part);
    for (int r = 0; r < kRows; ++r) total[r] = k0 == 0 ? part[r] : total[r] + part[r];
  }
  alignas(64) float tile[kRows][kLanes];
  for (int r = 0; r < kRows; ++r) {
    if (g.out.relu) total[r] = max(VF{}, total[r]);
    store(tile[r], total[r]);
    if (g.out.c != nullptr && r < g.m)
      store_n(static_cast<float*>(g.out.c) + r * g.out.ldc + col, total[r], cols);
  }
  if (g.out.epilogue == nullptr) return;
  void* const place = g.out.c != nullptr ? static_cast<float*>(g.out.c) + col : tile[0];
  g.out.epilogue(g.out.epilogue_ctx, place, g.out.c != nullptr ? g.out.ldc : int64_t{kLanes}, 0,
                 static_cast<int>(g.m), col, static_cast<int>(cols));
}

int64_t padded_rows(int64_t m) { return m <= 2 ? m : m <= 4 ? 4 : m <= 8 ? 8 : 16; }

template <class T, bool kPairs = false>
void run_all(const Call& call, const Gemm& g, const RowMajorB& b, void* scratch) {
  float* const a = static_cast<float*>(scratch);
  const int rows = static_cast<int>(padded_rows(g.m));
  pack_panel(g.a, sizeof(float), 0, static_cast<int>(g.m), rows, 0, g.k, a);
  const int64_t grain = 1 + kSmallMTaskMacs / (kLanes * g.k * rows + 1);
  auto run = rows == 1   ? run_columns<T, kPairs, 1>
             : rows == 2 ? run_columns<T, kPairs, 2>
             : rows == 4 ? run_columns<T, kPairs, 4>
             : rows == 8 ? run_columns<T, kPairs, 8>
                         : run_columns<T, kPairs, 16>;
  parallel_for(call, (g.n + kLanes - 1) / kLanes, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) run(g, b, a, i * kLanes);
  });
}

}  // namespace

size_t small_m_transposed_scratch(int64_t m, int64_t k) {
  return small_m_scratch(kMicroF32, padded_rows(m), k);
}

void multiply_small_m_transposed(const Call& call, const Gemm& g, const RowMajorB& b,
                                 void* scratch) {
  if (g.m == 0 || g.n == 0) return;
  if (b.dtype == DType::kF16) return run_all<F16>(call, g, b, scratch);
  if (b.dtype == DType::kBF16)
    return b.order == SumOrder::kPairs ? run_all<BF16, true>(call, g, b, scratch)
                                       : run_all<BF16>(call, g, b, scratch);
  run_all<float>(call, g, b, scratch);
}

}  // namespace proa::PROA_ISA
