#include "proa/runtime/checksum.h"

#include "proa/model/model_view.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace proa {

namespace {

#if defined(__x86_64__)

#define PROA_CLMUL __attribute__((target("pclmul,sse4.1")))

PROA_CLMUL inline __m128i load(const uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}

/// x moved up by as many bits as the two constants are for, plus y.
PROA_CLMUL inline __m128i fold(__m128i x, __m128i constants, __m128i y) {
  const __m128i low = _mm_clmulepi64_si128(x, constants, 0x00);
  const __m128i high = _mm_clmulepi64_si128(x, constants, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), y);
}

/// After Gopal et al., "Fast CRC computation for generic polynomials using PCLMULQDQ" (Intel,
/// 2009): 64 bytes at a time are folded onto the next by powers of x modulo the polynomial, and
/// what is left is reduced by Barrett's method. `size` is 64 or more and a multiple of 16.
PROA_CLMUL uint32_t fold_crc(uint32_t crc, const uint8_t* p, size_t size) {
  const __m128i by512 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
  const __m128i by128 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
  const __m128i by64 = _mm_set_epi64x(0, 0x0163cd6124);
  const __m128i barrett = _mm_set_epi64x(0x01f7011641, 0x01db710641);
  const __m128i low32 = _mm_setr_epi32(-1, 0, -1, 0);
  __m128i x[4];
  for (int k = 0; k < 4; ++k) x[k] = load(p + 16 * k);
  x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128(static_cast<int>(crc)));
  for (p += 64, size -= 64; size >= 64; p += 64, size -= 64) {
    for (int k = 0; k < 4; ++k) x[k] = fold(x[k], by512, load(p + 16 * k));
  }
  __m128i sum = x[0];
  for (int k = 1; k < 4; ++k) sum = fold(sum, by128, x[k]);
  for (; size >= 16; p += 16, size -= 16) sum = fold(sum, by128, load(p));
  __m128i part = _mm_clmulepi64_si128(sum, by128, 0x10);
  sum = _mm_xor_si128(_mm_srli_si128(sum, 8), part);
  part = _mm_srli_si128(sum, 4);
  sum = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(sum, low32), by64, 0x00), part);
  part = _mm_clmulepi64_si128(_mm_and_si128(sum, low32), barrett, 0x10);
  part = _mm_clmulepi64_si128(_mm_and_si128(part, low32), barrett, 0x00);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(sum, part), 1));
}

#define PROA_WIDE_CLMUL __attribute__((target("avx512f,vpclmulqdq")))

PROA_WIDE_CLMUL inline __m512i load_wide(const uint8_t* p) { return _mm512_loadu_si512(p); }

/// The same 256 bytes at a time; `size` is a multiple of that. What is left of them, 256 bytes that
/// have the same remainder, is a message for fold_crc.
PROA_WIDE_CLMUL uint32_t fold_crc_wide(uint32_t crc, const uint8_t* p, size_t size) {
  constexpr int64_t kHigh = 0x01322d1430, kLow = 0x011542778a;
  const __m512i by2048 = _mm512_set_epi64(kHigh, kLow, kHigh, kLow, kHigh, kLow, kHigh, kLow);
  __m512i x[4];
  for (int k = 0; k < 4; ++k) x[k] = load_wide(p + 64 * k);
  x[0] = _mm512_xor_si512(x[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(crc))));
  for (p += 256, size -= 256; size >= 256; p += 256, size -= 256) {
    for (int k = 0; k < 4; ++k) {
      const __m512i low = _mm512_clmulepi64_epi128(x[k], by2048, 0x00);
      const __m512i high = _mm512_clmulepi64_epi128(x[k], by2048, 0x11);
      x[k] = _mm512_xor_si512(_mm512_xor_si512(low, high), load_wide(p + 64 * k));
    }
  }
  alignas(64) uint8_t rest[256];
  for (int k = 0; k < 4; ++k) _mm512_store_si512(rest + 64 * k, x[k]);
  return fold_crc(0, rest, sizeof rest);
}

bool has_wide_clmul() {
  static const bool has = __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f");
  return has;
}

bool has_clmul() {
  static const bool has = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  return has;
}

#endif

}  // namespace

uint32_t crc32(uint32_t crc, const void* bytes, size_t size) {
  const auto* p = static_cast<const uint8_t*>(bytes);
  crc = ~crc;
#if defined(__x86_64__)
  if (size >= 512 && has_wide_clmul() && has_clmul()) {
    const size_t whole = size / 256 * 256;
    crc = fold_crc_wide(crc, p, whole);
    p += whole;
    size -= whole;
  }
  if (size >= 64 && has_clmul()) {
    const size_t whole = size / 16 * 16;
    crc = fold_crc(crc, p, whole);
    p += whole;
    size -= whole;
  }
#endif
  static const Crc32 tables;
  return ~tables.update(crc, p, size);
}

}  // namespace proa
