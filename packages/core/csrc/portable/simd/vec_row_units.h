#pragma once
// The rows of a matrix product's first operand, read in place: rows of an output's patches, or of a
// matrix that is not packed.
#include "proa/simd/vec.h"

namespace proa::PROA_ISA {

/// The same unit of kRows rows that are `row` bytes apart.
template <class Arith, int kRows, bool kSmall>
struct RowUnits {
  // Three rows share a pointer: their distances 0, 1 and 2 times `row` are addressing modes.
  static constexpr int kPointers = (kRows + 2) / 3;
  const int64_t row;
  const uint8_t* a[kPointers];

  PROA_INLINE explicit RowUnits(int64_t r) : row(r) {}
  PROA_INLINE void start(const void* first) {
    a[0] = static_cast<const uint8_t*>(first);
#pragma GCC unroll 8
    for (int i = 1; i < kPointers; ++i) a[i] = a[i - 1] + 3 * row;
  }
  /// Row i, `step` units further.
  PROA_INLINE typename Arith::Scalar at(int i, int step) const {
    using T = typename Arith::Scalar;
    return load_as<T>(a[i / 3] + i % 3 * row + step * static_cast<int>(sizeof(T)));
  }
  PROA_INLINE void advance(int bytes) {
#pragma GCC unroll 8
    for (int i = 0; i < kPointers; ++i) {
      a[i] += bytes;
      keep_in_register(a[i]);
    }
  }
};
// The "i" constraints below need constants that only the optimizer finds; sanitizers prevent it.
#if defined(__AVX2__) && defined(__OPTIMIZE__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// One pointer addresses all rows: the odd multiples of the row stride are in registers, and scaled
/// addressing modes produce the even ones. The compiler's own code for this spills registers.
template <class Arith, int kRows>
struct RowUnits<Arith, kRows, false> {
  using V = typename Arith::Vector;
  int64_t odd[(kRows + 1) / 2];
  const uint8_t* a;

  PROA_INLINE explicit RowUnits(int64_t row) {
#pragma GCC unroll 8
    for (int i = 0; i < (kRows + 1) / 2; ++i) {
      odd[i] = (2 * i + 1) * row;
      __asm__("" : "+r"(odd[i]));
    }
    __asm__ volatile("" : : : "memory");  // completes the stores that at() reads
  }
  PROA_INLINE void start(const void* first) { a = static_cast<const uint8_t*>(first); }
  /// Broadcast to all lanes.
  PROA_INLINE V at(int i, int step) const {
    static_assert(sizeof(typename Arith::Scalar) == 4);
    const int twice = i == 0 ? 1 : i & -i;
    V v;
    if (i == 0)
      __asm__("vbroadcastss %c2(%1), %0" : "=v"(v) : "r"(a), "i"(step * 4));
    else
      __asm__("vbroadcastss %c4(%1,%2,%c3), %0"
              : "=v"(v)
              : "r"(a), "r"(odd[i / twice / 2]), "i"(twice), "i"(step * 4));
    return v;
  }
  PROA_INLINE void advance(int bytes) {
    a += bytes;
    keep_in_register(a);
  }
};
#endif

}  // namespace proa::PROA_ISA
