#pragma once
// Functions in headers that kernels of several instruction sets include must never become symbols
// that the linker merges: it might keep the AVX-512 copy for everyone. So they are always inlined.
#define PROA_INLINE inline __attribute__((always_inline))
#define PROA_NOINLINE __attribute__((noinline))
#define PROA_LIKELY(x) __builtin_expect(!!(x), 1)
#define PROA_UNLIKELY(x) __builtin_expect(!!(x), 0)
