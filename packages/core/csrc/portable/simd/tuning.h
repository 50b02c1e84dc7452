#pragma once
// Blocking sizes of matrix products and convolutions: register tiles of an instruction set, and one
// CacheProfile per kind of CPU, chosen when this is compiled. The benchmarks of a change are
// csrc/bench/gemm_bench.cc and conv_bench.cc, before and after; docs/speed.md says how figures are
// taken.
#include <stdint.h>

#include "proa/simd/vec_isa.h"

namespace proa::PROA_ISA {

// -- register tiles: as many sums as the vector registers hold -----------------------------------
// Chosen by csrc/bench/gemm_bench.cc.
struct RegisterTiles {
  int rows;                // of a micro-kernel, two vectors wide (mr of BLIS)
  int unpacked_rows;       // the same of products that are not packed,
  int unpacked_high_rows;  // and of as many of their tiles as divide the rows well
  /// Rows of b from this length on defeat the hardware prefetcher if read in tiles; below, products
  /// of up to 4 rows of a read them in place, else of up to 16.
  int64_t small_m_columns;
};
constexpr RegisterTiles kAvx512Tiles = {14, 8, 14, 960};
constexpr RegisterTiles kAvx2Tiles = {6, 4, 4, 0};
constexpr RegisterTiles kArm64Tiles = {8, 8, 8, 0};
constexpr RegisterTiles kVec128Tiles = {4, 4, 4, 0};
constexpr RegisterTiles kTiles = kHasAvx512 ? kAvx512Tiles
                                 : kHasAvx2 ? kAvx2Tiles
                                 : kIsArm64 ? kArm64Tiles
                                            : kVec128Tiles;

/// Sizes in bytes.
struct CacheProfile {
  int64_t l1, l2;  // the data caches of one core
  // Matrix products (simd/gemm).
  int64_t packed_b;      // a block of packed b; panels of a share L2 with it
  int64_t whole_a;       // a up to which it is packed once for all blocks of columns
  int64_t uncached_b;    // b up to which 3 or 4 panels of a read it in place
  int64_t unpacked_b;    // rows of b, gaps included, up to which b is not packed
  int64_t small_m_sums;  // the sums of a chunk of columns, in L1
  // Convolution (simd/conv).
  int64_t implicit_weight;  // weights up to which the algorithm is implicit GEMM
  int64_t patch_chunk;      // patches per chunk of implicit GEMM
  int64_t panel_strip;      // panels of weights per strip of implicit GEMM
  int64_t uncached_weight;  // weights that do not stay in L2 between chunks
  int64_t uncached_chunk;   // patches per chunk for those weights
  int64_t input_band;       // padded input per task
  int64_t depthwise_band;   // the same of depthwise convolution, whose bands share lines of x
  int64_t large_input;      // x from which on depthwise convolution splits it into bands
  int64_t winograd_tiles;   // transformed tiles and products at a time
  // Gradients of weights (kernels/conv).
  int64_t grad_weight_panel;    // a panel of patches, on the stack, in L1
  int64_t grad_weight_block;    // dy and x per block; as much again of L2 is for the next block
  int64_t winograd_grad_tiles;  // transformed tiles at a time
  int64_t depthwise_grad_band;  // dy and x per band
};

/// Cascade Lake: 32 KiB of L1 data cache and 1 MiB of L2 per core.
constexpr CacheProfile kCascadeLake = {
    32 << 10,    // l1
    1 << 20,     // l2
    512 << 10,   // packed_b
    4 << 20,     // whole_a
    1536 << 10,  // uncached_b
    80 << 10,    // unpacked_b
    16 << 10,    // small_m_sums
    768 << 10,   // implicit_weight
    128 << 10,   // patch_chunk
    256 << 10,   // panel_strip
    1 << 20,     // uncached_weight
    512 << 10,   // uncached_chunk
    96 << 10,    // input_band
    256 << 10,   // depthwise_band
    4 << 20,     // large_input
    384 << 10,   // winograd_tiles
    24 << 10,    // grad_weight_panel
    256 << 10,   // grad_weight_block
    512 << 10,   // winograd_grad_tiles
    384 << 10,   // depthwise_grad_band
};

/// The profile of every instruction set so far: no other CPU has been measured.
constexpr CacheProfile kCaches = kCascadeLake;
static_assert(kCaches.packed_b <= kCaches.l2 / 2 && kCaches.small_m_sums <= kCaches.l1 / 2 &&
              kCaches.grad_weight_panel <= kCaches.l1 &&
              kCaches.grad_weight_block <= kCaches.l2 / 4);

}  // namespace proa::PROA_ISA
