#pragma once
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): a keyed
// bijection of 128-bit counters, so that element i of a stream needs no element before it.
#include <stdint.h>

#include "proa/base/inline.h"

namespace proa::PROA_ISA {

constexpr int kPhiloxWays = 16;  // counters at once, so that loops over them become vectors

/// word[j][k]: word j of counter k; in place.
struct PhiloxBlock {
  uint32_t word[4][kPhiloxWays];
};

PROA_INLINE void philox(PhiloxBlock* b, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    for (int k = 0; k < kPhiloxWays; ++k) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * b->word[0][k];
      const uint64_t p1 = uint64_t{0xCD9E8D57u} * b->word[2][k];
      const uint32_t c1 = b->word[1][k], c3 = b->word[3][k];
      b->word[0][k] = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ key0;
      b->word[1][k] = static_cast<uint32_t>(p1);
      b->word[2][k] = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ key1;
      b->word[3][k] = static_cast<uint32_t>(p0);
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

/// Words 4 * block .. of the stream of (seed, offset): counter {block, offset}, key seed.
PROA_INLINE void philox_words(int64_t seed, int64_t offset, int64_t block, uint32_t* words) {
  PhiloxBlock b;
  for (int k = 0; k < kPhiloxWays; ++k) {
    const uint64_t counter = static_cast<uint64_t>(block) + static_cast<uint64_t>(k);
    b.word[0][k] = static_cast<uint32_t>(counter);
    b.word[1][k] = static_cast<uint32_t>(counter >> 32);
    b.word[2][k] = static_cast<uint32_t>(static_cast<uint64_t>(offset));
    b.word[3][k] = static_cast<uint32_t>(static_cast<uint64_t>(offset) >> 32);
  }
  const uint64_t key = static_cast<uint64_t>(seed);
  philox(&b, static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32));
  for (int k = 0; k < kPhiloxWays; ++k) {
    for (int j = 0; j < 4; ++j) words[4 * k + j] = b.word[j][k];
  }
}

}  // namespace proa::PROA_ISA
