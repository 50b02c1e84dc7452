#pragma once
// The instruction set (ISA) that this file is compiled for. The headers simd/vec*.h are the only
// code that tests the compiler's macros for it and uses its intrinsics; everything else tests these
// constants, or is in a file <name>.<isa>.cc.
#if defined(__SSE2__) && !defined(__AVX2__)
#include <emmintrin.h>
#elif defined(__SSE2__)
// GCC 12 warns of its own "undefined" placeholders in these headers (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#include "proa/base/inline.h"

namespace proa::PROA_ISA {

/// F, BW, DQ, VL and VNNI: the build has no AVX-512 without them.
#if defined(__AVX512F__)
constexpr bool kHasAvx512 = true;
#else
constexpr bool kHasAvx512 = false;
#endif
/// With FMA, F16C and BMI2; AVX-512 includes it.
#if defined(__AVX2__)
constexpr bool kHasAvx2 = true;
#else
constexpr bool kHasAvx2 = false;
#endif
#if defined(__aarch64__)
constexpr bool kIsArm64 = true;
#else
constexpr bool kIsArm64 = false;
#endif

/// fma() rounds once.
constexpr bool kHasFma = kHasAvx2 || kIsArm64;
/// load_n takes as long as load.
constexpr bool kHasMaskedLoads = kHasAvx2;
/// store_n takes as long as store: AVX2's masked stores take 12 cycles and more on CPUs of AMD.
constexpr bool kHasMaskedStores = kHasAvx512;
/// There are micro-kernels of pairs of bfloat16; see simd/gemm/micro_bf16.avx512.cc.
constexpr bool kHasBf16Pairs = kHasAvx512;

/// There are micro-kernels of AMX's tiles; see simd/gemm/micro_amx.avx512.cc.
#if defined(__AVX512F__) && __has_include(<amxtileintrin.h>)
constexpr bool kHasAmx = true;
#else
constexpr bool kHasAmx = false;
#endif

/// Bytes of a vector, and vectors that registers hold.
constexpr int kVecBytes = kHasAvx512 ? 64 : kHasAvx2 ? 32 : 16;
constexpr int kVecRegisters = kHasAvx512 || kIsArm64 ? 32 : 16;

/// Keeps the compiler from deriving p from other pointers: each would take a register. (x86 has
/// half as many as ARM.)
template <class T>
PROA_INLINE void keep_in_register(T*& p) {
#if defined(__x86_64__)
  __asm__("" : "+r"(p));
#else
  (void)p;
#endif
}

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

}  // namespace proa::PROA_ISA
