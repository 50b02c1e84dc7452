#pragma once
// The loop nest shared by the micro-kernels, for an `Arith` that gives
//   Vector, Scalar (the unit of a), and multiply_add(acc, a, b).
#include "proa/simd/gemm/micro.h"

namespace proa::PROA_ISA {

template <class V, class T>
PROA_INLINE V load_as(const T* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

template <class Arith, int kRows, int kVecs>
void run_tile(const Tile& t) {
  using V = typename Arith::Vector;
  using T = typename Arith::Scalar;
  constexpr int kWidth = kVecBytes / static_cast<int>(sizeof(T));
  V acc[kRows][kVecs];
  T* const c = static_cast<T*>(t.c);
  const T* init = static_cast<const T*>(t.init);
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) {
      if (t.accumulate)
        acc[i][j] = load_as<V>(c + i * t.ldc + j * kWidth);
      else
        acc[i][j] = init != nullptr ? load_as<V>(init + j * kWidth) : V{};
    }
  const T* a = static_cast<const T*>(t.a);
  const T* b = static_cast<const T*>(t.b);
  const int64_t ldb = t.ldb;
  for (int64_t k = t.k; k > 0; --k) {
    V bv[kVecs];
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) bv[j] = load_as<V>(b + j * kWidth);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
      for (int j = 0; j < kVecs; ++j) acc[i][j] = Arith::multiply_add(acc[i][j], a[i], bv[j]);
    a += kRows;
    b += ldb;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j)
      __builtin_memcpy(c + i * t.ldc + j * kWidth, &acc[i][j], sizeof(V));
}

/// Calls run_tile for a height that is known only at run time.
template <class Arith, int kVecs>
void run_rows(int rows, const Tile& t) {
  switch (rows) {
    case 1:
      return run_tile<Arith, 1, kVecs>(t);
    case 2:
      return run_tile<Arith, 2, kVecs>(t);
    case 4:
      return run_tile<Arith, 4, kVecs>(t);
    default:
      break;
  }
#if defined(__AVX2__) || defined(__aarch64__)
  if (rows == 6) return run_tile<Arith, 6, kVecs>(t);
#endif
#if defined(__AVX512F__) || defined(__aarch64__)
  if (rows == 8) return run_tile<Arith, 8, kVecs>(t);
#endif
#if defined(__AVX512F__)
  if (rows == 10) return run_tile<Arith, 10, kVecs>(t);
  if (rows == 12) return run_tile<Arith, 12, kVecs>(t);
  return run_tile<Arith, 14, kVecs>(t);
#endif
}

template <class Arith>
void run_any(int rows, int vecs, const Tile& t) {
  return vecs == 1 ? run_rows<Arith, 1>(rows, t) : run_rows<Arith, 2>(rows, t);
}

}  // namespace proa::PROA_ISA
