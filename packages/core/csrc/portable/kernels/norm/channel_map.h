#pragma once
// The one pass that normalisations over channels make, in either memory order:
//   out = (x - center[c]) * a[c] + other * b[c] + k[c].
#include "proa/simd/column_sums.h"

namespace proa::PROA_ISA {

/// Per-channel numbers of the map, kFactors * n of them in `memory`.
constexpr int64_t kFactors = 4;
template <class C>
struct Factors {
  C *center, *a, *b, *k;
  Factors(void* memory, int64_t n)
      : center(static_cast<C*>(memory)), a(center + n), b(a + n), k(b + n) {}
};

/// The map of one array. Convolutions that normalise use it too: results must be the same.
template <class V>
PROA_INLINE V normalised(V x, V center, V a, V k) {
  return (x - center) * a + k;
}

/// Runs the map with the Factors<C>(factors, apart): C is double for double arrays, else float.
/// Without `other`, b is not read.
Status map_channels(const Call& call, const Columns& x, const Columns* other, const Columns& out,
                    void* factors, int64_t apart);

}  // namespace proa::PROA_ISA
