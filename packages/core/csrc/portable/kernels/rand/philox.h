#pragma once
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): a keyed
// bijection of 128-bit counters, so that element i of a stream needs no element before it.
#include "proa/simd/vec.h"

namespace proa::PROA_ISA {

using VQ = Vec<uint64_t>;

/// The products of the low halves of the lanes.
PROA_INLINE VQ multiply_low_halves(VQ a, VQ b) {
#if defined(__AVX512F__)
  return (VQ)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (VQ)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
  return (VQ)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
  return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

/// The four words of as many counters as a vector has 64-bit lanes. What stands in the upper
/// halves of the lanes is neither used nor cleared.
struct PhiloxState {
  VQ word[4];
};

PROA_INLINE void philox(PhiloxState* s, uint32_t key0, uint32_t key1) {
  VQ c0 = s->word[0], c1 = s->word[1], c2 = s->word[2], c3 = s->word[3];
  for (int round = 0; round < 10; ++round) {
    const VQ p0 = multiply_low_halves(c0, splat(uint64_t{0xD2511F53u}));
    const VQ p1 = multiply_low_halves(c2, splat(uint64_t{0xCD9E8D57u}));
    c0 = (p1 >> 32) ^ c1 ^ splat(uint64_t{key0});
    c1 = p1;
    c2 = (p0 >> 32) ^ c3 ^ splat(uint64_t{key1});
    c3 = p0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  s->word[0] = c0;
  s->word[1] = c1;
  s->word[2] = c2;
  s->word[3] = c3;
}

/// The top 24 bits of a word as a float in [0, 1).
PROA_INLINE float unit_float(uint32_t w) {
  return static_cast<float>(static_cast<int32_t>(w >> 8)) * 0x1p-24f;
}

constexpr int kPhiloxCounters = 16;  // of one call of philox_words

/// 64 words from word 4 * block on, of the stream of (seed, offset): counter {block, offset}.
PROA_INLINE void philox_words(int64_t seed, int64_t offset, int64_t block, uint32_t* words) {
  constexpr int w = kLanesOf<uint64_t>;
  const uint64_t key = static_cast<uint64_t>(seed), stream = static_cast<uint64_t>(offset);
  VQ steps, low_pairs, high_pairs;  // the latter interleave the lanes of two vectors
  for (int k = 0; k < w; ++k) {
    steps[k] = static_cast<uint64_t>(k);
    low_pairs[k] = static_cast<uint64_t>(k / 2 + (k % 2) * w);
    high_pairs[k] = static_cast<uint64_t>(k / 2 + w / 2 + (k % 2) * w);
  }
  for (int at = 0; at < kPhiloxCounters; at += w) {
    const VQ counter = splat(static_cast<uint64_t>(block + at)) + steps;
    PhiloxState s = {{counter, counter >> 32, splat(stream), splat(stream >> 32)}};
    philox(&s, static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32));
    const VQ first = (s.word[0] & 0xffffffffu) | (s.word[1] << 32);
    const VQ second = (s.word[2] & 0xffffffffu) | (s.word[3] << 32);
    const VQ pairs[2] = {shuffle(first, second, low_pairs), shuffle(first, second, high_pairs)};
    // Words 0 and 1 of a counter lie in the low and high half of a lane.
    if constexpr (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) {
      __builtin_memcpy(words + 4 * at, pairs, sizeof pairs);
    } else {
      for (int k = 0; k < 2 * w; ++k) {
        words[4 * at + 2 * k] = static_cast<uint32_t>(pairs[k / w][k % w]);
        words[4 * at + 2 * k + 1] = static_cast<uint32_t>(pairs[k / w][k % w] >> 32);
      }
    }
  }
}

}  // namespace proa::PROA_ISA
