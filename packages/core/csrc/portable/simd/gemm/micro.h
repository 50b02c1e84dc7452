#pragma once
// Micro-kernels: the inner loop of every matrix product. One multiplies a panel of packed rows by
// a panel of columns into a tile of accumulators in registers.
//
// Everything is counted in units along k: one float, one double, a pair of bfloat16, or 4 bytes
// that hold as many int8 steps as the instruction set multiplies at once (4 with a dot product,
// else 2 as int16).
#include <stddef.h>
#include <stdint.h>

#include "proa/base/dispatch.h"
#include "proa/simd/tuning.h"
#include "proa/simd/vec_int8.h"

namespace proa::PROA_ISA {

constexpr int kTileRows = kTiles.rows;
/// A build without doubles is for small devices: it has no unrolled variants, which saves space.
constexpr bool kSmallBuild = !computes(DType::kF64);
constexpr int kTileVecs = 2;   // vectors across a full tile
constexpr int kRowPanels = 4;  // panels of b that run_row reads side by side
/// AMX: two registers of 16 rows high.
constexpr int kAmxRows = 32;
constexpr int kMaxTileRows = kHasAmx ? kAmxRows : kTileRows;
constexpr int kTileBytes = kMaxTileRows * kTileVecs * kVecBytes;

/// The height of the smallest tile that holds `rows` rows, of a micro-kernel with up to `largest`.
inline int tile_rows(int64_t rows, int largest = kTileRows) {
  return rows >= largest ? largest : rows == 1 ? 1 : static_cast<int>((rows + 1) & ~1);
}

/// Memory that is prefetched into the second-level cache meanwhile, some bytes at each step of k.
struct PrefetchStream {
  const void* from = nullptr;
  int64_t bytes = 0;  // of a step
  PROA_INLINE void step() {
    __builtin_prefetch(from, 0, 2);
    from = static_cast<const uint8_t*>(from) + bytes;
  }
};

/// The patches of a convolution, read in place (implicit GEMM): row i, unit k of tap (p, q) is at
/// byte i * row + p * tap_h + q * tap_w + k * (bytes of a unit) of a, with no alignment; the steps
/// of b are in the order of the taps.
struct Patches {
  int64_t row;
  int64_t taps_h, taps_w;
  int64_t tap_h, tap_w;
  /// Micro-kernels that take rows alone: unless 0, the rows from `top` on (at most kAmxRows / 2, as
  /// those before) start `bottom` bytes after the first, as those of another line of patches do.
  int top = 0;
  int64_t bottom = 0;
};

/// The end of a tile of floats, in registers: y = min(max((y - center) * factor + shift, low),
/// high), by column.
struct TileEnd {
  const float *center, *factor, *shift;
  float low, high;
};

/// The end of a tile whose results are BF16: rows `ld` elements apart, to which those of a residual
/// are added if there is one, clamped to [low, high].
struct NarrowEnd {
  uint16_t* out;
  int64_t ld;
  float low, high;
  const BF16* residual;  // or nullptr; may be `out`
  int64_t residual_ld;
};

/// What a thread has made of AMX's registers. The system saves them with the thread's others until
/// they are released, at the end of a task.
struct AmxState {
  uint32_t shape = 0;  // of the registers, as micro_amx.avx512.cc numbers them; 0: released
  ~AmxState() {
    if constexpr (kHasAmx) {
      if (shape != 0) release_amx();
    }
  }
  static void release_amx();
};

/// Units of k in a register, for a run of so many: as many as divide the run, if that takes no more
/// registers. Their products are summed before they are added to what came before.
inline int64_t amx_step_units(int64_t run) {
  constexpr int64_t kUnits = 16;
  const int64_t steps = run > kUnits ? (run + kUnits - 1) / kUnits : 1;
  if (run % steps != 0) return kUnits;
  return run > steps ? run / steps : 1;
}

struct Int8TileEnd;

/// What a micro-kernel reads for each step of k, `ld` units after what it reads for the last one.
struct TileOperand {
  const void* data;
  int64_t ld;
};
/// Where a micro-kernel stores: rows of accumulators, `ld` apart.
struct TileOutput {
  void* data;
  int64_t ld;
  int count, last;  // valid rows, and valid columns of the last vector
};
/// What it does to the sums before: one of these, or none.
struct TileEpilogue {
  bool relu = false;              // max(c, 0)
  const TileEnd* norm = nullptr;  // run_patches of floats alone
  /// Results go there instead of to c, which is not added to; where Micro::narrows.
  const NarrowEnd* narrow = nullptr;
};

/// One tile: c (rows x vecs vectors) = init or c, plus a * b over k units.
struct Tile {
  TileOperand a;  // k steps of `rows` contiguous units
  TileOperand b;  // k rows of vecs vectors
  TileOutput c;
  int64_t k;
  const void* init;  // one row of accumulators to start from, or nullptr for 0
  bool accumulate;   // start from c instead
  TileEpilogue epilogue;
  PrefetchStream prefetch;  // by tall tiles of run(), and by run_patches()
  AmxState* amx = nullptr;  // of kMicroAmx*
};

/// Other forms of Micro::run(), each nullptr if there is no such kernel.
struct MicroVariants {
  /// For a full tile, with b read in place and also written to `packed`, its rows contiguous.
  void (*run_and_pack_b)(const Tile&, void* packed) = nullptr;
  /// Two vectors wide, for rows of b in different pages and not in cache.
  void (*run_uncached)(int rows, const Tile&) = nullptr;
  /// For one row and kRowPanels full panels of b, `panel` bytes apart: more sums at a time than a
  /// tile of one row has, which waits for each addition.
  void (*run_row)(const Tile&, int64_t panel) = nullptr;
};

/// As Micro::run_patches(), and ends the tile (int8_end.h), of more than `min_rows` rows; nullptr
/// if there is no such kernel.
struct MicroEnded {
  void (*run)(int rows, int vecs, const Tile&, const Patches&, Int8TileEnd*) = nullptr;
  int min_rows = 0;
  bool takes(int height) const { return run != nullptr && height > min_rows; }
};

/// The micro-kernels of one element type.
struct Micro {
  int size;                                      // bytes of a unit and of an accumulator
  int lanes;                                     // accumulators in a vector
  int step;                                      // k steps in one unit
  int64_t k_block;                               // units of k per block
  void (*run)(int rows, int vecs, const Tile&);  // rows as from height, vecs 1 or 2
  /// The same with a read as patches. Either is nullptr if there is no such kernel.
  void (*run_patches)(int rows, int vecs, const Tile&, const Patches&);
  MicroVariants variants = {};
  MicroEnded ended = {};
  bool narrows = false;  // run and run_patches take TileEpilogue::narrow
  int rows = kTileRows;  // of a full tile

  int height(int64_t count) const { return tile_rows(count, rows); }
  /// True if a is taken as rows, one after the other, and not by steps of k: run_patches alone.
  bool takes_rows() const { return kHasAmx && rows == kAmxRows; }
};

extern const Micro kMicroF32, kMicroF64;
/// Units as in simd/vec_int8.h.
extern const Micro kMicroI8;
/// Pairs of bfloat16 (kHasBf16Pairs alone), see micro_bf16.avx512.cc: by the instruction, and the
/// same without it. (The latter is for tests: builds for models leave it out.)
extern const Micro kMicroBF16, kMicroBF16Emulated;

/// The same of AMX (kHasAmx alone), see micro_amx.avx512.cc. Their tiles are up to kAmxRows high,
/// and a is read in place: run_patches is the only one. Panels are those of the micro-kernels
/// above.
extern const Micro kMicroAmxBF16, kMicroAmxBF16Emulated, kMicroAmxI8, kMicroAmxI8Emulated;

/// Puts whole vectors of b, packed with the steps of a unit adjacent, into kMicroI8's order.
void arrange_int8(void* packed, size_t bytes);

}  // namespace proa::PROA_ISA
