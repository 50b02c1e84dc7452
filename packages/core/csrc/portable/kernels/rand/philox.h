#pragma once
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): a keyed
// bijection of 128-bit counters, so that element i of a stream needs no element before it.
#include "proa/simd/vec.h"

namespace proa::PROA_ISA {

/// The four words of as many counters as a vector has 64-bit lanes. The upper halves of
/// the lanes are neither used nor cleared.
struct PhiloxState {
  VQ word[4];
};

/// Several states side by side: the rounds of one are a chain of long instructions.
template <int kStates>
PROA_INLINE void philox(PhiloxState* s, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 8
    for (int i = 0; i < kStates; ++i) {
      VQ* const c = s[i].word;
      const VQ p0 = multiply_low_halves(c[0], splat(uint64_t{0xD2511F53u}));
      const VQ p1 = multiply_low_halves(c[2], splat(uint64_t{0xCD9E8D57u}));
      c[0] = (p1 >> 32) ^ c[1] ^ splat(uint64_t{key0});
      c[1] = p1;
      c[2] = (p0 >> 32) ^ c[3] ^ splat(uint64_t{key1});
      c[3] = p0;
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

/// The top 24 bits of a word as a float in [0, 1).
PROA_INLINE float unit_float(uint32_t w) {
  return static_cast<float>(static_cast<int32_t>(w >> 8)) * 0x1p-24f;
}

constexpr int kPhiloxCounters = 16;  // of one call of philox_words

/// Four words of each of kCounters counters from word 4 * block on, of the stream of (seed,
/// offset): counter {block, offset}.
template <int kCounters = kPhiloxCounters>
PROA_INLINE void philox_words(int64_t seed, int64_t offset, int64_t block, uint32_t* words) {
  constexpr int w = kLanesOf<uint64_t>;
  constexpr int kStates = kCounters / w > 4 ? 4 : kCounters / w;
  static_assert(kCounters % (kStates * w) == 0);
  const uint64_t key = static_cast<uint64_t>(seed), stream = static_cast<uint64_t>(offset);
  VQ steps, low_pairs, high_pairs;  // the latter interleave the lanes of two vectors
  for (int k = 0; k < w; ++k) {
    steps[k] = static_cast<uint64_t>(k);
    low_pairs[k] = static_cast<uint64_t>(k / 2 + (k % 2) * w);
    high_pairs[k] = static_cast<uint64_t>(k / 2 + w / 2 + (k % 2) * w);
  }
  for (int at = 0; at < kCounters; at += kStates * w) {
    PhiloxState states[kStates];
#pragma GCC unroll 8
    for (int i = 0; i < kStates; ++i) {
      const VQ counter = splat(static_cast<uint64_t>(block + at + i * w)) + steps;
      states[i] = {{counter, counter >> 32, splat(stream), splat(stream >> 32)}};
    }
    philox<kStates>(states, static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32));
#pragma GCC unroll 8
    for (int i = 0; i < kStates; ++i) {
      const PhiloxState& s = states[i];
      uint32_t* const to = words + 4 * (at + i * w);
      const VQ first = (s.word[0] & 0xffffffffu) | (s.word[1] << 32);
      const VQ second = (s.word[2] & 0xffffffffu) | (s.word[3] << 32);
      const VQ pairs[2] = {shuffle(first, second, low_pairs), shuffle(first, second, high_pairs)};
      // Words 0 and 1 of a counter are the low and high half of a lane.
      if constexpr (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) {
        __builtin_memcpy(to, pairs, sizeof pairs);
      } else {
        for (int k = 0; k < 2 * w; ++k) {
          to[2 * k] = static_cast<uint32_t>(pairs[k / w][k % w]);
          to[2 * k + 1] = static_cast<uint32_t>(pairs[k / w][k % w] >> 32);
        }
      }
    }
  }
}

}  // namespace proa::PROA_ISA
