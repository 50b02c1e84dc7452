#pragma once
// GEMM with small m: b is read once, in place, and its memory traffic sets the time.
#include "proa/simd/gemm/gemm.h"

namespace proa::PROA_ISA {

/// The largest m, for n columns of b, for which this path is faster than gemm().
inline int64_t small_m_limit(DType dtype, int64_t n) {
  if (dtype != DType::kF32) return 8;
#if defined(__AVX512F__)
  constexpr int64_t kWideRows = 960;  // rows of b this long defeat the hardware prefetcher in tiles
  if (n < kWideRows) return 4;
#endif
  (void)n;
  return 16;
}

/// A matrix b whose lines (rows, or columns for the transposed form) are contiguous.
struct RowMajorB {
  DType dtype;
  const void* data;
  int64_t step;   // elements between lines
  int64_t block;  // steps of k that are summed at once
  bool by_pairs;  // of BF16: as kMicroBF16 adds them
};

/// While it lives, subnormal floats are read and written as 0 (DAZ and FTZ), as kMicroBF16 does.
/// With kEnabled = false it does nothing.
template <bool kEnabled>
struct FlushSubnormals {};
#if defined(__AVX512F__)
template <>
struct FlushSubnormals<true> {
  static constexpr unsigned kFlush = 0x8000, kTakeAsZero = 0x40;
  const unsigned before = _mm_getcsr();
  FlushSubnormals() { set(before | kFlush | kTakeAsZero); }
  ~FlushSubnormals() { set(before); }
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;
  static void set(unsigned state) {
    __asm__ volatile("" : : : "memory");  // keeps the sums' loads and stores inside
    _mm_setcsr(state);
    __asm__ volatile("" : : : "memory");
  }
};
#endif

size_t small_m_scratch(const Micro& micro, int64_t m, int64_t k);
/// Equal to gemm() bit for bit, for a row-major b (instead of g.b).
void multiply_small_m(const Call& call, const Gemm& g, const RowMajorB& b, void* scratch);

// The same for a column-major b, not of doubles, and m <= kSmallMTransposed.
#if defined(__AVX512F__)
constexpr int64_t kSmallMTransposed = 16;
size_t small_m_transposed_scratch(int64_t m, int64_t k);
void multiply_small_m_transposed(const Call& call, const Gemm& g, const RowMajorB& b,
                                 void* scratch);
#endif

}  // namespace proa::PROA_ISA
