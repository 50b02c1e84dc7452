#include "proa/simd/gemm/product.h"

#include "proa/simd/gemm/complex.h"
#include "proa/simd/gemm/small_m.h"
#include "proa/simd/gemm/swapped.h"
#include "proa/simd/gemm/unpacked.h"

namespace proa::PROA_ISA {
namespace {

int64_t bias_bytes(const Product& p) {
  if (p.bias == nullptr || !p.bias->given()) return 0;
  return (gemm_columns(micro_kernel(p.dtype), p.n) * micro_kernel(p.dtype).size + 63) &
         ~int64_t{63};
}

bool by_pairs(const Product& p) { return multiplies_bf16_pairs(p.dtype); }
const Micro& micro_for(const Product& p) { return product_micro_kernel(p.dtype, by_pairs(p)); }
int64_t units(const Product& p) { return by_pairs(p) ? (p.k + 1) / 2 : p.k; }
/// Steps of k that are summed at once.
int64_t block_of(const Product& p) {
  return gemm_k_block(micro_for(p), units(p)) * (by_pairs(p) ? 2 : 1);
}

PackOperand source_of(const Product& p, MatrixOperand* ctx, const void* data,
                      const CoalescedAxes& lanes, const CoalescedAxes& steps) {
  if constexpr (kHasBf16Pairs) {
    if (by_pairs(p)) return bf16_pair_operand(ctx, data, lanes, steps, p.k);
  }
  return matrix_operand(ctx, data, p.dtype, lanes, steps);
}

bool takes_complex(const Product& p) { return computes(DType::kC64) && is_complex(p.dtype); }

SumOrder sum_order(const Product& p) {
  if (!by_pairs(p)) return SumOrder::kSteps;
  return kHasAmx && settings().amx != Amx::kOff ? SumOrder::kTiles : SumOrder::kPairs;
}

/// A build without doubles is one for models, whose weights are prepacked: it leaves this out.
bool is_small_m(const Product& p) {
  return computes(DType::kF64) && p.b.packed == nullptr && p.m <= small_m_limit(p.dtype, p.n) &&
         p.n > 1 && p.b.stride == 1 && p.b.steps.uniform() && p.b.steps.step() != 1;
}

bool is_small_m_transposed(const Product& p) {
  return kHasAvx512 && computes(DType::kF64) && p.b.packed == nullptr &&
         p.m <= kSmallMTransposedRows && p.dtype != DType::kF64 &&
         sum_order(p) != SumOrder::kTiles && p.n >= kLanes && p.k >= kLanes &&
         p.b.steps.rank == 1 && p.b.steps.step() == 1;
}

/// True if computing the transposed result, b^T a^T, is faster: rows of b are then read in place
/// (unless they are a power of two apart and evict each other) and a is transposed. Pays if k is
/// large compared with the cost of transposing the result, and the result fits into the L2 cache.
bool is_swapped(const Product& p) {
  constexpr int64_t kMaxRows = 2 * kTileVecs * kLanes;  // two panels
  if (!kHasAvx512 || !computes(DType::kF64) || p.b.packed != nullptr || p.dtype != DType::kF32)
    return false;
  return p.m <= kMaxRows && p.n >= 2 * p.m && p.k >= 3 * p.m && p.m * p.n <= kSwappedSums &&
         p.b.steps.rank == 1 && p.b.steps.step() == 1 && p.b.stride * 4 % kAliasBytes != 0 &&
         bias_bytes(p) == 0 && p.end.plain() && takes_tiles(p.end.out);
}

/// How a product is computed. Every path produces the same bits.
enum class Path { kComplex, kUnpacked, kSmallMTransposed, kSwapped, kSmallM, kBlocked };

Path choose_path(const Product& p) {
  if (takes_complex(p)) return Path::kComplex;
  if (is_unpacked(p)) return Path::kUnpacked;
  if (is_small_m_transposed(p)) return Path::kSmallMTransposed;
  if (is_swapped(p)) return Path::kSwapped;
  return is_small_m(p) ? Path::kSmallM : Path::kBlocked;
}

}  // namespace

CoalescedAxes b_columns(const Product& p) {
  CoalescedAxes columns;
  columns.add(p.n, p.b.stride);
  return columns;
}

size_t product_scratch(const Product& p) {
  const auto bias = static_cast<size_t>(bias_bytes(p));
  switch (choose_path(p)) {
    case Path::kComplex:
      return complex_scratch(p);
    case Path::kUnpacked:
      return 0;
    case Path::kSmallMTransposed:
      if constexpr (kHasAvx512) return bias + small_m_transposed_scratch(p.m, p.k);
      break;
    case Path::kSwapped:
      if constexpr (kHasAvx512) return swapped_scratch(p);
      break;
    case Path::kSmallM:
      return bias + small_m_scratch(micro_kernel(p.dtype), p.m, p.k);
    case Path::kBlocked:
      break;
  }
  return bias + gemm_scratch(micro_for(p), p.m, p.n, units(p), takes_tiles(p.end.out),
                             p.b.packed != nullptr);
}

void multiply(const Call& call, const Product& p, void* scratch) {
  const Path path = choose_path(p);
  if (path == Path::kComplex) return multiply_complex(call, p, scratch);
  if (path == Path::kUnpacked) return multiply_unpacked(p.dtype, unpacked_gemm(p));
  if constexpr (kHasAvx512) {
    if (path == Path::kSwapped) return multiply_swapped(call, p, scratch);
  }
  MatrixOperand a, b;
  Gemm g = {&micro_kernel(p.dtype), p.m, p.n, p.k, {}, {}};
  uint8_t* rest = static_cast<uint8_t*>(scratch);
  if (const int64_t bytes = bias_bytes(p); bytes > 0) {
    widen(p.bias->data, p.bias->dtype, p.bias->stride[p.bias->rank - 1], p.n, rest);
    g.init = rest;
    rest += bytes;
  }
  set_output(&g.out, &p.end);
  g.a = matrix_operand(&a, p.a.data, p.dtype, p.a.rows, p.a.steps);
  RowMajorB lines = {p.dtype, p.b.data, p.b.stride, block_of(p), sum_order(p)};
  if constexpr (kHasAvx512) {
    if (path == Path::kSmallMTransposed) return multiply_small_m_transposed(call, g, lines, rest);
  }
  if (path == Path::kSmallM) {
    lines.step = p.b.steps.step();
    return multiply_small_m(call, g, lines, rest);
  }
  g.micro = &micro_for(p);
  g.k = units(p);
  g.a = source_of(p, &a, p.a.data, p.a.rows, p.a.steps);
  g.b = source_of(p, &b, p.b.data, b_columns(p), p.b.steps);
  g.packed = p.b.packed;
  gemm(call, g, rest);
}

size_t product_packed_size(const Product& p) {
  return gemm_packed_size(micro_for(p), p.n, units(p));
}

void pack_product(const Product& p, void* packed) {
  MatrixOperand b;
  const PackOperand s = source_of(p, &b, p.b.data, b_columns(p), p.b.steps);
  gemm_pack(micro_for(p), s, p.n, units(p), packed);
}

}  // namespace proa::PROA_ISA
