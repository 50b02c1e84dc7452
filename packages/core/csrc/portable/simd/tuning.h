#pragma once
// What the speed of kernels is tuned by. Blocking sizes of matrix products and convolutions are in
// three tables: register tiles, one row per instruction set; blocks of sums, which results depend
// on and which are therefore the same everywhere; and blocks of data, one row per cache profile,
// which affect speed alone. Paths of products and prefetch distances are between them, task sizes
// in base/task_size.h.
//
// Each table names the benchmark that chose its values. To change one, run that before and after,
// interleaved; docs/speed.md says how figures are taken.
//
// "On a Zen 3" below is an EPYC of family 25, model 1 (AVX2, 512 KiB of L2, two cores), 29 November
// 2026: csrc/bench/tuning_bench.cc and conv_bench.cc's shapes in one process where the values were
// variables, each set in turn; the ratio of the minima of 7 to 16 rounds to those of the value
// here. Other programs ran on that machine: ratios within 5 % of 1, and all of calls that take more
// than a millisecond, show nothing.
#include <stdint.h>

#include "proa/base/settings.h"
#include "proa/base/task_size.h"
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

// -- blocks of sums ------------------------------------------------------------------------------
// A sum is rounded again for every block, and packed weights are laid out by blocks: a model
// computes the same bits on every CPU of an instruction set, so no profile changes these. Chosen by
// csrc/bench/gemm_bench.cc and conv_bench.cc on a Cascade Lake.
constexpr int64_t kFloatSteps = 384;            // k of a block of products (kc of BLIS): floats,
constexpr int64_t kDoubleSteps = 256;           // doubles,
constexpr int64_t kInt8Units = 256;             // and units of int8
constexpr int64_t kImplicitWeight = 768 << 10;  // bytes up to which convolution is implicit GEMM
constexpr int64_t kImplicitPairs = 1536 << 10;  // the same of pairs of BF16
constexpr int64_t kGradWeightPanel = 24 << 10;  // bytes of a panel of patches, on the stack, in L1
constexpr int64_t kGradTileBytes = 512 << 10;   // of transformed tiles in Winograd's gradient
constexpr int64_t kReduceRunBytes = 4096;       // a part of a row that is gathered or converted
constexpr int64_t kReduceColumnBytes = 4096;    // of accumulators of a block of columns
constexpr int64_t kReduceFewColumns = 8;        // fewer are reduced one after the other
constexpr int64_t kColumnChunkBytes = 128 << 10;  // rows that column_sums.cc sums at once,
constexpr int64_t kMaxColumnChunks = 256;         // unless these chunks would be more
constexpr int64_t kGroupNormBlock = 64 << 10;     // elements of a block of groups
constexpr int64_t kAttentionTile = 128;           // queries, and keys, of a tile of scores

// -- paths of products ---------------------------------------------------------------------------
// Numbers of panels at which gemm.cc changes how operands are packed. The terms of a sum and their
// order are the same on every path.
//
// Measured with float32 products on a Zen 4 (EPYC, AVX-512, one thread, 24 November 2026), minima
// of two interleaved rounds, as times over those of the values here. kFewPanelsA of 2, 3, 5, 6 and
// 8, 15 shapes of 28 to 112 rows: 0.99 to 1.00, where shapes with prepacked b spread by 5 %.
// kFewPanelsB of 0, 2, 4 and 6, 512 rows and 32 to 192 columns: 1.02, 1.01, 1.00, 1.00.
// kInPlacePanelsB of 0, 4, 12 and 16, 128 to 512 columns: 1.02, 1.01, 1.00, 1.00. kPackRows of 4,
// 8, 32 and 64, squares of 512 and larger products: 1.01, 1.00, 1.00, 0.99 (one spreads by 7 %).
//
// On a Zen 3, half and twice each value. kUnpackedMacs: squares of 72 and 80 1.18 and 1.00, of 88
// and 96 1.00 and 1.13 to 1.30. kUnpackedBatchMacs: 16 squares of 80 to 96 1.18 to 1.31 and 0.98 to
// 1.01, of 104 1.00 and 1.52. kSplitMacs, two threads: batches of 2 and 3 squares of 112 to 256
// 0.77 to 1.57 and 0.75 to 1.92, without order; with AVX-512, 1 << 24 loses up to 1.31 for batches
// of 3. kColumnTasks, two threads: 0.80 to 1.03 and 0.93 to 1.11, in the mean 0.94 and 1.00; fewer
// tasks would leave cores of larger CPUs idle. kCallMacs, 512 squares of 4 to 24, two threads: 0.94
// to 1.03 and 0.96 to 1.04. kBatchSlots, the same: 0.97 to 1.03 and 0.97 to 1.01 but for one size.
// kSmallMChunks, 2 and 4 rows, one thread: 0.77 to 1.00 and 1.01 to 1.79; 2 chunks would be shared
// by two threads at most. kPackBlock: squares up to 128 of transposed b, 0.99 and 1.00 in the mean.
// kAliasBytes: 1.00 and 1.00 in the mean. kUnpackedTransposedSteps: squares of 72 and 80 1.15 and
// 1.19 with half.
//
// Of paths of AVX-512, chosen on a Cascade Lake by gemm_bench.cc; on an Emerald Rapids, 29 November
// 2026, minima of 3 rounds by turns: kSmallMTransposedRows, products of 12 and 16 rows, 1.13 in the
// mean with half; its kernel keeps the sums of 16 rows at most. kSwappedSums, 40 to 64 rows and
// 1000 to 6500 columns, 1.05 and 1.01 in the mean with half and twice.
constexpr int64_t kFewPanelsA = 4;      // up to which b is packed a panel at a time, if at all
constexpr int64_t kFewPanelsB = 3;      // up to which rows of a are copied, not transposed
constexpr int64_t kInPlacePanelsB = 8;  // up to which rows of a are read in place
constexpr int64_t kPackRows = 16;       // rows of b packed at a time
constexpr int64_t kColumnTasks = 16;    // of a product of few panels of a, if b is prepacked
// Multiply-adds up to which packing does not pay, of one product (a larger one may be split over
// threads) and of each in a batch; and from which on the products of a batch are split themselves.
constexpr int64_t kUnpackedMacs = 1 << 19, kUnpackedBatchMacs = 1 << 20, kSplitMacs = 1 << 21;
constexpr int64_t kCallMacs = 1 << 9;  // what the call of a product in a batch costs, in these
constexpr int64_t kBatchSlots = 8;     // chunks of a batch that run in parallel
constexpr int64_t kSmallMChunks = 4;   // of columns of b, if there are enough of them
constexpr int64_t kPackBlock = 256;    // units of a row of b that are transposed at a time
constexpr int64_t kAliasBytes = 2048;  // rows at this distance map to the same cache sets
/// Steps of k up to which a column-major b is transposed on the stack, without packing.
constexpr int64_t kUnpackedTransposedSteps = 128;
// AVX-512 alone: rows of a up to which a column-major b is read in place, and elements of a result
// that may be computed as its transpose, so that it fits L2.
constexpr int64_t kSmallMTransposedRows = 16;
constexpr int64_t kSwappedSums = 200 << 10;

// -- blocks of loops -----------------------------------------------------------------------------
// Results do not depend on them. On a Zen 3, with half and twice each value. kLoopBlockBytes:
// transposed operands of 256 to 512 rows 1.09 to 1.17 and 1.00. kLoopTileRows: the same 0.97 and
// 1.12 to 1.14. kLoopShortDenseRow in place of kLoopShortRow: rows of 8 to 44 elements with gaps
// between them take 0.32 to 0.58 of the time; of 16 the same but for those of 8 to 12.
// On an Emerald Rapids, 29 November 2026, minima of 3 rounds by turns: kLoopShortDenseRow, the same
// rows of 8 to 47 elements, float32 and bfloat16, 0.45 to 0.65 of the time with 48. kRowBlock with
// half and twice, softmax, layer norm and cross-entropy of bfloat16 and of strided rows of 128 to
// 4096: 0.96 and 0.98 in the mean, without order. On its two threads, kGroupNormBlocks: 0.76 and
// 1.04 in the mean, single shapes 0.4 to 1.8; kAttentionSlots: 0.96 and 1.01. Both are for CPUs of
// more cores. kLoopShortRow, every second element of rows of 12 to 96: 0.95 and 0.94, without
// order. kTransposeElements, convolutions of 64 to 512 channels that pack at each call: 0.96 and
// 0.95, those without noise 0.98 to 1.02.
constexpr int64_t kLoopBlockBytes = 4096;  // of an operand that is gathered or converted
constexpr int64_t kLoopShortRow = 48;      // elements; several shorter rows are gathered at once
constexpr int64_t kLoopShortDenseRow = kHasAvx2 ? 8 : 48;  // if all are read in place
constexpr int64_t kLoopTileRows = 32;                      // of a tile of transposed operands
constexpr int64_t kRowBlock = 256;                         // elements of a row of simd/rows.h
constexpr int64_t kGroupNormBlocks = 8;                    // from which on each is one thread's
constexpr int64_t kAttentionSlots = 8;       // chunks of the heads that run in parallel
constexpr int64_t kTransposeElements = 256;  // of a kernel transposed at once, for packing

/// Depthwise blocks by strips of columns, whose lines of x stay in the first-level cache. On a Zen
/// 3, conv_bench's mobilenet.dw without them: batches of 8 images of 32 channels at 112 take 0.54
/// of the time, of 1 the same; short runs of lines end the hardware's prefetching. Chosen on a Zen
/// 4 for AVX-512.
constexpr bool kDepthwiseStrips = kHasAvx512;

// -- prefetch distances --------------------------------------------------------------------------
// Measured on that Zen 4, with half and twice each value. kRowsAhead, kStepsAheadA and
// kStepsAheadB: products of 64 to 1024 rows, 0.98 to 1.02. kBlocksAhead, kLinesAhead: products of
// transposed b and of float16, 0.96 to 1.01. kAheadBytes: of 4096, batch norm of arrays out of
// cache 0.92, of arrays in cache 1.01 to 1.06, sums of long rows 0.99 to 1.10; of 1024, 1.04
// to 1.10, 0.97 to 0.99 and 1.01 to 1.12. kTableRowsAhead: look-ups of rows of 64, 256 and 512
// bytes, with 8 0.89, 1.08 and 1.02, with 32 1.07, 1.07 and 0.99.
constexpr int64_t kRowsAhead = 32;     // steps of k: rows of b that run_and_pack_b reads in place,
constexpr int64_t kStepsAheadA = 12;   // panels of a, mostly in the second-level cache,
constexpr int64_t kStepsAheadB = 8;    // and those of b
constexpr int64_t kBlocksAhead = 4;    // blocks of lanes that are transposed into a panel
constexpr int64_t kLinesAhead = 16;    // lines that are widened
constexpr int64_t kAheadBytes = 2048;  // of a loop over memory: bandwidth times latency
constexpr int64_t kTableRowsAhead = 16;  // rows of a table that indices name

// -- blocks of data ------------------------------------------------------------------------------
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
  int64_t patch_chunk;      // patches per chunk of implicit GEMM
  int64_t panel_strip;      // panels of weights per strip of implicit GEMM
  int64_t uncached_weight;  // weights that do not stay in L2 between chunks
  int64_t uncached_chunk;   // patches per chunk for those weights
  int64_t amx_weight;       // the same for tiles of AMX: prefetched a strip ahead
  int64_t amx_strip;        // and their panels per strip
  int64_t input_band;       // padded input per task
  int64_t depthwise_band;   // the same of depthwise convolution, whose bands share lines of x
  int64_t large_input;      // x from which on depthwise convolution splits it into bands
  int64_t winograd_tiles;   // transformed tiles and products at a time
  // Gradients of weights (kernels/conv).
  int64_t grad_weight_block;    // dy and x per block; as much again of L2 is for the next block
  int64_t depthwise_grad_band;  // dy and x per band
  // Attention (kernels/quant).
  int64_t int8_scores;  // scores of a block of queries
};

// kLarge was chosen on a Cascade Lake by csrc/bench/gemm_bench.cc and conv_bench.cc. It holds on a
// Zen 5 (EPYC, 1 MiB of L2; AVX-512, one thread, 23 November 2026): `conv_bench resnet.1x1
// resnet.3x3 mobilenet.dw`, 3 interleaved rounds. With half or twice the patch_chunk, panel_strip,
// depthwise_band, winograd_tiles, grad_weight_block and depthwise_grad_band the median ratio to the
// rates of these values is 0.98 to 1.01, and 0.97 to 1.00 of these values to themselves.
//
// kSmall is kLarge scaled to 256 KiB of L2. It holds on a Zen 3 with 512 KiB, which therefore has
// no profile of its own: each field with half and twice its value and with that of kLarge, where it
// differs, batches of 1, geometric means over the shapes that it concerns. None is faster beyond
// the noise of the measurement, which is 5 % for the means: of calls of several milliseconds one
// ratio or another is off by half. A CPU with 256 KiB has not been measured.
//
//   packed_b             1.02  1.03  1.01    products of 16 to 600 rows, and of transposed b
//   whole_a              1.04  1.03  1.00
//   uncached_b           0.99  0.90  1.12    16 and 20 rows, b mostly out of cache
//   unpacked_b           1.02  1.00          squares of 40 to 96 and the like
//   small_m_sums         1.13  1.08          2 and 4 rows
//   patch_chunk          1.00  1.01          convolutions of ResNet-50 and MobileNet
//   panel_strip          0.99  0.97  0.99
//   uncached_weight      1.03  0.99  1.02
//   uncached_chunk             1.03  1.01
//   input_band           1.08  0.99  1.12
//   depthwise_band       1.00  0.98  0.97
//   large_input          1.03  1.00  1.01
//   winograd_tiles       1.02  1.03  1.00
//   grad_weight_block    0.95  1.12  1.04
//   depthwise_grad_band  1.03  0.97  0.97
//   int8_scores          1.00  0.96          lengths 64 to 512
// amx_weight and amx_strip were chosen on an Emerald Rapids (2 MiB of L2), 29 November 2026, by the
// steps of ResNet-50 in bfloat16, tenth percentiles of 115 interleaved runs of one thread: layers
// of 14 x 14 without prefetching 1.17, with strips of 256 KiB 1.0 to 1.17, with 576 KiB for
// amx_weight 1.07 (28 x 28) and 1.11 (pointwise).
constexpr CacheProfile kCacheProfiles[] = {
    // kSmall: the default where the sizes are unknown.
    {
        32 << 10,   // l1
        256 << 10,  // l2
        128 << 10,  // packed_b
        1 << 20,    // whole_a
        384 << 10,  // uncached_b
        40 << 10,   // unpacked_b
        16 << 10,   // small_m_sums
        64 << 10,   // patch_chunk
        96 << 10,   // panel_strip
        256 << 10,  // uncached_weight
        128 << 10,  // uncached_chunk
        64 << 10,   // amx_weight
        32 << 10,   // amx_strip
        64 << 10,   // input_band
        96 << 10,   // depthwise_band
        1 << 20,    // large_input
        128 << 10,  // winograd_tiles
        64 << 10,   // grad_weight_block
        96 << 10,   // depthwise_grad_band
        64 << 10,   // int8_scores
    },
    // kLarge: Cascade Lake, and Zen 4 and 5, which have as much L2.
    {
        32 << 10,    // l1
        1 << 20,     // l2
        512 << 10,   // packed_b
        4 << 20,     // whole_a
        1536 << 10,  // uncached_b
        80 << 10,    // unpacked_b
        16 << 10,    // small_m_sums
        128 << 10,   // patch_chunk
        256 << 10,   // panel_strip
        1 << 20,     // uncached_weight
        512 << 10,   // uncached_chunk
        256 << 10,   // amx_weight
        64 << 10,    // amx_strip
        96 << 10,    // input_band
        256 << 10,   // depthwise_band
        4 << 20,     // large_input
        384 << 10,   // winograd_tiles
        256 << 10,   // grad_weight_block
        384 << 10,   // depthwise_grad_band
        64 << 10,    // int8_scores
    },
};

constexpr int64_t max_of(int64_t CacheProfile::* field) {
  int64_t largest = 0;
  for (const CacheProfile& p : kCacheProfiles) largest = p.*field > largest ? p.*field : largest;
  return largest;
}
/// Arrays on the stack hold the sums of any profile.
constexpr int64_t kMaxSmallMSums = max_of(&CacheProfile::small_m_sums);

constexpr bool fit(const CacheProfile& p) {
  return p.packed_b <= p.l2 / 2 && p.small_m_sums <= p.l1 / 2 && kGradWeightPanel <= p.l1 &&
         p.grad_weight_block <= p.l2 / 4;
}
static_assert(fit(kCacheProfiles[0]) && fit(kCacheProfiles[1]));

/// The profile in use. A library for small devices has but one.
PROA_INLINE const CacheProfile& caches() {
  return kCacheProfiles[kHasLarge ? static_cast<int>(settings().caches) : 0];
}

}  // namespace proa::PROA_ISA
