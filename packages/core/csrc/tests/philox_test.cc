// The known answers that the authors of Philox publish with Random123 (kat_vectors, philox4x32 10).
#include <stdio.h>

#include "proa/kernels/rand/philox.h"

using namespace proa::PROA_ISA;

namespace {

struct Known {
  uint32_t counter[4], key[2], answer[4];
};
constexpr Known kKnown[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

}  // namespace

int main() {
  int failures = 0;
  for (const Known& known : kKnown) {
    PhiloxState state;
    for (int j = 0; j < 4; ++j) state.word[j] = splat(uint64_t{known.counter[j]});
    philox<1>(&state, known.key[0], known.key[1]);
    for (int j = 0; j < 4; ++j) {
      for (int k = 0; k < kLanesOf<uint64_t>; ++k) {
        const uint32_t got = static_cast<uint32_t>(state.word[j][k]);
        if (got == known.answer[j]) continue;
        printf("FAIL word %d: got %08x, want %08x\n", j, got, known.answer[j]);
        ++failures;
      }
    }
  }
  // Element i of a stream is word i, whichever block it is computed in.
  uint32_t all[8 * kPhiloxCounters], part[4 * kPhiloxCounters];
  philox_words(11, 13, 0, all);
  philox_words(11, 13, kPhiloxCounters, all + 4 * kPhiloxCounters);
  philox_words(11, 13, 5, part);
  for (int i = 0; i < 4 * kPhiloxCounters; ++i) failures += part[i] != all[i + 20];
  printf("%d failures\n", failures);
  return failures != 0;
}
