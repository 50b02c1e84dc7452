#pragma once
// Micro-kernels: the inner loop of every matrix product. One multiplies a panel of packed rows by
// a panel of columns into a tile of accumulators that lives in registers.
//
// Everything is counted in units along k: one float, one double, or 4 bytes that hold as many
// int8 steps as the instruction set multiplies at once (4 with VNNI, else 2 as int16).
#include <stddef.h>
#include <stdint.h>

#include "proa/simd/vec.h"

namespace proa::PROA_ISA {

#if defined(__AVX512F__)
constexpr int kTileRows = 14;
#elif defined(__AVX2__)
constexpr int kTileRows = 6;
#elif defined(__aarch64__)
constexpr int kTileRows = 8;
#else
constexpr int kTileRows = 4;
#endif
constexpr int kTileVecs = 2;  // vectors across a full tile
constexpr int kTileBytes = kTileRows * kTileVecs * kVecBytes;

/// One tile: c (rows x vecs vectors) = init or c, plus a * b over k units.
struct Tile {
  const void* a;  // [k][rows] units
  const void* b;  // k rows of vecs vectors, `ldb` units apart
  int64_t ldb;
  void* c;  // rows of accumulators, `ldc` apart
  int64_t ldc;
  int64_t k;
  const void* init;  // one row of accumulators to start from, or nullptr for 0
  bool accumulate;   // start from c instead
};

/// How one element type is multiplied.
struct Micro {
  int size;                                      // bytes of a unit and of an accumulator
  int lanes;                                     // accumulators in a vector
  int step;                                      // k steps in one unit
  int64_t k_block;                               // units of k handled at once
  void (*run)(int rows, int vecs, const Tile&);  // rows as from tile_rows, vecs 1 or 2
};

extern const Micro kMicroF32, kMicroF64, kMicroI8;

/// The height of the smallest micro-kernel that holds `rows` rows.
inline int tile_rows(int64_t rows) {
  return rows >= kTileRows ? kTileRows : rows == 1 ? 1 : static_cast<int>((rows + 1) & ~1);
}

}  // namespace proa::PROA_ISA
