#include "proa/simd/gemm/product.h"

#include "proa/simd/gemm/complex.h"
#include "proa/simd/gemm/small_m.h"
#include "proa/simd/gemm/transpose_tile.h"
#include "proa/simd/gemm/unpacked.h"

namespace proa::PROA_ISA {
namespace {

CoalescedAxes columns(const Product& p) {
  CoalescedAxes lines;
  lines.add(p.n, p.b_stride);
  return lines;
}

int64_t bias_bytes(const Product& p) {
  if (p.bias == nullptr || !p.bias->given()) return 0;
  return (gemm_columns(micro_kernel(p.dtype), p.n) * micro_kernel(p.dtype).size + 63) &
         ~int64_t{63};
}

bool by_pairs(const Product& p) { return !p.widened && multiplies_bf16_pairs(p.dtype); }
const Micro& micro_for(const Product& p) { return micro_kernel(p.dtype, by_pairs(p)); }
int64_t units(const Product& p) { return by_pairs(p) ? (p.k + 1) / 2 : p.k; }
/// Steps of k that are summed at once.
int64_t block_of(const Product& p) {
  return gemm_k_block(micro_for(p), units(p)) * (by_pairs(p) ? 2 : 1);
}

PackOperand source_of(const Product& p, MatrixOperand* ctx, const void* data,
                      const CoalescedAxes& lanes, const CoalescedAxes& steps) {
#if defined(__AVX512F__)
  if (by_pairs(p)) return bf16_pair_operand(ctx, data, lanes, steps, p.k);
#endif
  return matrix_operand(ctx, data, p.dtype, lanes, steps);
}

bool takes_complex(const Product& p) { return computes(DType::kC64) && is_complex(p.dtype); }

/// A build without doubles is one for models, whose weights are prepacked: it leaves this out.
bool is_small_m(const Product& p) {
  return computes(DType::kF64) && p.packed == nullptr && p.m <= small_m_limit(p.dtype, p.n) &&
         p.n > 1 && p.b_stride == 1 && p.b_steps.uniform() && p.b_steps.step() != 1;
}

#if defined(__AVX512F__)
bool is_small_m_transposed(const Product& p) {
  return computes(DType::kF64) && p.packed == nullptr && p.m <= kSmallMTransposed &&
         p.dtype != DType::kF64 && p.n >= kLanes && p.k >= kLanes && p.b_steps.rank == 1 &&
         p.b_steps.step() == 1;
}

/// True if computing the transposed result, b^T a^T, is faster: rows of b are then read in place
/// (unless they are a power of two apart and evict each other) and a is transposed. Pays if k is
/// large compared with the cost of transposing the result, and the result fits into the L2 cache.
bool is_swapped(const Product& p) {
  constexpr int64_t kPanel = kTileVecs * kLanes, kMaxRows = 2 * kPanel, kSums = 200 * 1024;
  constexpr int64_t kConflict = 2048;
  if (!computes(DType::kF64) || p.packed != nullptr || p.dtype != DType::kF32) return false;
  return p.m <= kMaxRows && p.n >= 2 * p.m && p.k >= 3 * p.m && p.m * p.n <= kSums &&
         p.b_steps.rank == 1 && p.b_steps.step() == 1 && p.b_stride * 4 % kConflict != 0 &&
         bias_bytes(p) == 0 && p.end.plain() && takes_tiles(p.end.out);
}

void finish_swapped(const void* ctx, void* tile, int64_t ldt, int64_t row, int rows, int64_t col,
                    int cols) {
  const MatrixRef& out = *static_cast<const MatrixRef*>(ctx);
  const int64_t step = out.rows.step();
  transpose_tile(static_cast<const float*>(tile), ldt, rows, cols,
                 static_cast<float*>(out.data) + col * step + row, step);
}

void multiply_swapped(const Call& call, const Product& p, void* scratch) {
  MatrixOperand a, b;
  Gemm g = {&kMicroF32, p.n, p.m, p.k, {}, {}};
  g.a = matrix_operand(&a, p.b, p.dtype, columns(p), p.b_steps);
  g.b = matrix_operand(&b, p.a, p.dtype, p.a_rows, p.a_steps);
  g.epilogue = finish_swapped;
  g.epilogue_ctx = &p.end.out;
  gemm(call, g, scratch);
}
#endif

}  // namespace

size_t product_scratch(const Product& p) {
  if (takes_complex(p)) return complex_scratch(p);
  if (is_unpacked(p)) return 0;
#if defined(__AVX512F__)
  if (is_small_m_transposed(p))
    return static_cast<size_t>(bias_bytes(p)) + small_m_transposed_scratch(p.m, p.k);
  if (is_swapped(p)) return gemm_scratch(kMicroF32, p.n, p.m, p.k, false, false);
#endif
  if (is_small_m(p))
    return static_cast<size_t>(bias_bytes(p)) + small_m_scratch(micro_kernel(p.dtype), p.m, p.k);
  return static_cast<size_t>(bias_bytes(p)) + gemm_scratch(micro_for(p), p.m, p.n, units(p),
                                                           takes_tiles(p.end.out),
                                                           p.packed != nullptr);
}

void multiply(const Call& call, const Product& p, void* scratch) {
  if (takes_complex(p)) return multiply_complex(call, p, scratch);
  if (is_unpacked(p)) return multiply_unpacked(p.dtype, unpacked_gemm(p));
#if defined(__AVX512F__)
  if (!is_small_m_transposed(p) && is_swapped(p)) return multiply_swapped(call, p, scratch);
#endif
  MatrixOperand a, b;
  Gemm g = {&micro_kernel(p.dtype), p.m, p.n, p.k, {}, {}};
  uint8_t* rest = static_cast<uint8_t*>(scratch);
  if (const int64_t bytes = bias_bytes(p); bytes > 0) {
    widen(p.bias->data, p.bias->dtype, p.bias->stride[p.bias->rank - 1], p.n, rest);
    g.init = rest;
    rest += bytes;
  }
  set_output(&g, &p.end);
  g.a = matrix_operand(&a, p.a, p.dtype, p.a_rows, p.a_steps);
  RowMajorB lines = {p.dtype, p.b, p.b_stride, block_of(p), by_pairs(p)};
#if defined(__AVX512F__)
  if (is_small_m_transposed(p)) return multiply_small_m_transposed(call, g, lines, rest);
#endif
  if (is_small_m(p)) {
    lines.step = p.b_steps.step();
    return multiply_small_m(call, g, lines, rest);
  }
  g.micro = &micro_for(p);
  g.k = units(p);
  g.a = source_of(p, &a, p.a, p.a_rows, p.a_steps);
  g.b = source_of(p, &b, p.b, columns(p), p.b_steps);
  g.packed = p.packed;
  gemm(call, g, rest);
}

size_t product_packed_size(const Product& p) {
  return gemm_packed_size(micro_for(p), p.n, units(p));
}

void pack_product(const Product& p, void* packed) {
  MatrixOperand b;
  const PackOperand s = source_of(p, &b, p.b, columns(p), p.b_steps);
  gemm_pack(micro_for(p), s, p.n, units(p), packed);
}

}  // namespace proa::PROA_ISA
