#pragma once
// Streaming (non-temporal) stores: a 64-byte cache line that they write completely is not fetched
// first, which saves a third to a half of a copy's memory traffic.
#include "proa/simd/vec.h"

namespace proa::PROA_ISA {

constexpr int64_t kLineBytes = 64;

/// Elements from p to the next cache line.
template <class T>
PROA_INLINE int64_t before_line(const T* p) {
  return static_cast<int64_t>(-reinterpret_cast<uintptr_t>(p) % kLineBytes / sizeof(T));
}

/// Stores v at p, a multiple of a vector's bytes. Only lines that are written completely at
/// about the same time gain. Other threads see it after `end_streams`.
template <class T>
PROA_INLINE void stream(T* p, Vec<T> v) {
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(p), bit_cast<__m512i>(v));
#elif defined(__AVX2__)
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), bit_cast<__m256i>(v));
#elif defined(__SSE2__)
  _mm_stream_si128(reinterpret_cast<__m128i*>(p), bit_cast<__m128i>(v));
#else
  store(p, v);
#endif
}

/// Orders all streaming stores before later stores of this thread (a store fence).
PROA_INLINE void end_streams() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace proa::PROA_ISA
