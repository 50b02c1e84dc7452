// Micro-kernel of int8: exact int32 sums of products. Units are as in simd/vec_int8.h.
#include "proa/simd/gemm/int8_end.h"
#include "proa/simd/gemm/micro_body.h"

namespace proa::PROA_ISA {
namespace {

/// Tiles with more rows take ends: smaller ones are rare.
constexpr int kMinEnded = kTileRows / 2;

struct Int8Arith {
  using Scalar = int32_t;
  using Vector = VI;
  template <class A>  // int32_t, or with AVX2 that in all lanes
  PROA_INLINE static VI multiply_add(VI acc, A a, VI b) {
    return add_unit_products(acc, a, b);
  }
  PROA_INLINE static VI relu(VI x) { return x; }  // finish_int8 sees to it
};

/// Sums and their end. A function of its own for each end: the compiler keeps the sums of one that
/// has a choice of ends in memory.
template <bool kAdds, bool kSwishes, int kRows, int kVecs>
void run_ended(const Tile& t, const Patches& w, Int8TileEnd* end) {
  Accumulators<Int8Arith, kRows, kVecs> tile;
  sum_patches(t, w, &tile);
  end_tile<kAdds, kSwishes, kRows, kVecs>(tile.acc, t, end);
}

template <int kRows, int kVecs>
void run_height(const Tile& t, const Patches& w, Int8TileEnd* end) {
  if constexpr (kEstimates && kRows > kMinEnded) {
    if (end->ends.residual != nullptr) return run_ended<true, false, kRows, kVecs>(t, w, end);
    if (end->ends.estimate.swish != 0.0f) return run_ended<false, true, kRows, kVecs>(t, w, end);
    run_ended<false, false, kRows, kVecs>(t, w, end);
  }
}

template <int kVecs>
void run_rows(int rows, const Tile& t, const Patches& w, Int8TileEnd* end) {
  if constexpr (kTileRows >= 14) {
    if (rows == 8) return run_height<8, kVecs>(t, w, end);
    if (rows == 10) return run_height<10, kVecs>(t, w, end);
    if (rows == 12) return run_height<12, kVecs>(t, w, end);
    return run_height<14, kVecs>(t, w, end);
  } else {
    if (rows == 4) return run_height<4, kVecs>(t, w, end);
    if (rows == 6) return run_height<6, kVecs>(t, w, end);
    return run_height<8, kVecs>(t, w, end);
  }
}

void run_ended(int rows, int vecs, const Tile& t, const Patches& w, Int8TileEnd* end) {
  return vecs == 1 ? run_rows<1>(rows, t, w, end) : run_rows<2>(rows, t, w, end);
}

constexpr Micro int8_micro() {
  Micro m = {4, kLanes, kInt8Steps, kInt8Units, nullptr, run_any_patches<Int8Arith>};
  if (kEstimates) m.ended.run = run_ended;
  m.ended.min_rows = kMinEnded;
  return m;
}

}  // namespace

const Micro kMicroI8 = int8_micro();

void arrange_int8(void* packed, size_t bytes) {
  if (!kSeparatesInt8Steps) return;
  uint8_t* const at = static_cast<uint8_t*>(packed);
  for (size_t i = 0; i + kVecBytes <= bytes; i += kVecBytes) separate_int8_steps(at + i);
}

}  // namespace proa::PROA_ISA
