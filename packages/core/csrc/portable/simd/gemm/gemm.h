#pragma once
// The matrix product: c = epilogue(init + a * b), blocked for the caches and split over threads.
// Chunks of work depend on the shapes alone, so results do not depend on the number of threads.
#include "proa/base/call.h"
#include "proa/simd/gemm/int8_end.h"
#include "proa/simd/gemm/pack.h"

namespace proa::PROA_ISA {

/// Where the results of a product or convolution go.
struct GemmOutput {
  void* c = nullptr;  // rows of n accumulators, `ldc` apart; nullptr: through scratch
  int64_t ldc = 0;
  bool relu = false;  // applied to c, before the epilogue
  /// Called for every finished tile (stored in c if c is given); must be given if c is not.
  void (*epilogue)(const void* ctx, void* tile, int64_t ldt, int64_t row, int rows, int64_t col,
                   int cols) = nullptr;
  const void* epilogue_ctx = nullptr;
  /// The epilogue is one that narrow_end() does too, for a micro-kernel that narrows.
  bool narrows = false;
  bool clamps = false;  // the epilogue is one of floats, of which tile_end() makes a TileEnd
  const Int8Ends* int8 = nullptr;  // what implicit_gemm does instead of the epilogue if it can
};

struct Gemm {
  const Micro* micro;
  int64_t m, n, k;  // k in units
  PackOperand a;
  PackOperand b;                 // read if b is not prepacked
  const void* packed = nullptr;  // b as written by gemm_pack
  const void* init = nullptr;    // accumulators that each row starts from, gemm_columns(n) of them
  GemmOutput out = {};
};

/// n rounded up to whole vectors of accumulators.
int64_t gemm_columns(const Micro& micro, int64_t n);
/// Units of k that are summed at once; the sums of later blocks are added to those of the first.
int64_t gemm_k_block(const Micro& micro, int64_t k);
/// Bytes of scratch for gemm(); `has_c` and `has_b` say whether c, and b packed, are given.
size_t gemm_scratch(const Micro& micro, int64_t m, int64_t n, int64_t k, bool has_c, bool has_b);
void gemm(const Call& call, const Gemm& g, void* scratch);

/// The size in bytes of a prepacked b, and the function that writes it.
size_t gemm_packed_size(const Micro& micro, int64_t n, int64_t k);
void gemm_pack(const Micro& micro, const PackOperand& b, int64_t n, int64_t k, void* packed);
/// Writes one step of a prepacked float b from its n elements, `stride` apart.
void gemm_pack_step(int64_t n, int64_t k, int64_t k_block, int64_t step, const float* from,
                    int64_t stride, float* packed);

}  // namespace proa::PROA_ISA
