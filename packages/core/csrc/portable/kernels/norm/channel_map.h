#pragma once
// The one pass that normalisations over channels make, in either memory order:
//   out = (x - center[c]) * a[c] + other * b[c] + k[c].
// With a gate, other counts where it passes.
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

/// Runs the map with the Factors<C>(factors, apart): C is double for double arrays, else float.
/// Without `other`, b is not read.
Status map_channels(const Call& call, const Columns& x, const Columns* other, const Columns& out,
                    void* factors, int64_t apart);
/// The same of floats whose channels are contiguous in all arrays, with a gate.
void map_gated_channels(const Call& call, const Columns& x, const Columns& other,
                        const Columns& out, void* factors, int64_t apart, const Gate& gate);

}  // namespace proa::PROA_ISA
