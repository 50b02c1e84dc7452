#pragma once
// Products of a few rows with a matrix that is read once, where it lies: the time is that of
// reading it.
#include "proa/simd/gemm/gemm.h"

namespace proa::PROA_ISA {

// Tiles of gemm() that hold more rows read b as fast.
#if defined(__AVX512F__)
constexpr int64_t kSkinnyRows = 2;
#else
constexpr int64_t kSkinnyRows = 16;
#endif

size_t skinny_scratch(int64_t m, int64_t k);
/// What gemm() does, to the last bit, for m <= kSkinnyRows, floats, and a b of rows that lie
/// where g.b.direct says.
void multiply_skinny(const Call& call, const Gemm& g, void* scratch);

// The same for a b of columns that lie where g.b.direct says, and m <= kTurnedRows.
#if defined(__AVX512F__)
constexpr int64_t kTurnedRows = 8;
size_t skinny_turned_scratch(int64_t m, int64_t k);
void multiply_skinny_turned(const Call& call, const Gemm& g, void* scratch);
#endif

}  // namespace proa::PROA_ISA
