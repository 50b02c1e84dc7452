#pragma once
// Sorting by unsigned keys that carry where they came from.
#include "proa/base/call.h"

namespace proa::PROA_ISA {

struct Keyed {
  uint64_t key;
  int64_t index;
};

/// Sorts by key, stably, using `spare` of the same size; returns which of the two holds the result.
Keyed* sort_keys(Keyed* items, Keyed* spare, int64_t n);

}  // namespace proa::PROA_ISA
