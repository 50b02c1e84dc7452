#pragma once
// Products of a few rows with a matrix that is read once, where it lies: the time is that of
// reading it.
#include "proa/simd/gemm/gemm.h"

namespace proa::PROA_ISA {

/// Rows of a, with n columns of b, up to which the time is less than gemm()'s.
inline int64_t skinny_rows(DType dtype, int64_t n) {
  if (dtype != DType::kF32) return 8;
#if defined(__AVX512F__)
  constexpr int64_t kFarApart = 960;  // rows of so many columns come slowly to tiles
  if (n < kFarApart) return 4;
#endif
  (void)n;
  return 16;
}

/// Lines of a matrix in memory, whose elements are neighbours.
struct RowsOf {
  DType dtype;
  const void* data;
  int64_t step;   // from a line to the next
  int64_t block;  // steps of k that are summed at once
  bool by_pairs;  // of BF16: as kMicroBF16 adds them
};

/// Meanwhile floats that are subnormal are read and written as 0, as kMicroBF16 does; or nothing.
template <bool kReally>
struct WithoutSubnormals {};
#if defined(__AVX512F__)
template <>
struct WithoutSubnormals<true> {
  static constexpr unsigned kFlush = 0x8000, kTakeAsZero = 0x40;
  const unsigned before = _mm_getcsr();
  WithoutSubnormals() { set(before | kFlush | kTakeAsZero); }
  ~WithoutSubnormals() { set(before); }
  WithoutSubnormals(const WithoutSubnormals&) = delete;
  WithoutSubnormals& operator=(const WithoutSubnormals&) = delete;
  static void set(unsigned state) {
    __asm__ volatile("" : : : "memory");  // sums are read and written between
    _mm_setcsr(state);
    __asm__ volatile("" : : : "memory");
  }
};
#endif

size_t skinny_scratch(const Micro& micro, int64_t m, int64_t k);
/// What gemm() does, to the last bit, for a b (instead of g.b) that lies by rows.
void multiply_skinny(const Call& call, const Gemm& g, const RowsOf& b, void* scratch);

// The same for a b that lies by columns, not of doubles, and m <= kTurnedRows.
#if defined(__AVX512F__)
constexpr int64_t kTurnedRows = 16;
size_t skinny_turned_scratch(int64_t m, int64_t k);
void multiply_skinny_turned(const Call& call, const Gemm& g, const RowsOf& b, void* scratch);
#endif

}  // namespace proa::PROA_ISA
