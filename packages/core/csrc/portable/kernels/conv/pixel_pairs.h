#pragma once
// Panels of pixels by pairs of BF16, for sums over pixels: unit (u, i) holds element i of pixels 2u
// and 2u + 1. Pixels come in order of rising number; where one comes alone, the other half is 0 or
// follows.
#include <stdint.h>

#include "proa/base/dispatch.h"
#include "proa/simd/conv/padded_input.h"
#include "proa/simd/vec.h"

namespace proa::PROA_ISA {

/// Two elements of BF16, the lower half first.
struct Bf16Pair {
  uint32_t bits;
};

/// Puts `count` contiguous elements of each of n pixels, `step` elements apart, as pixels
/// [at, at + n) into a panel whose rows are `width` units apart.
void put_pixel_pairs(const uint16_t* from, int64_t step, int64_t count, int64_t at, int64_t n,
                     int64_t width, Bf16Pair* panel);
/// The same of zeros.
void clear_pixel_pairs(int64_t count, int64_t at, int64_t n, int64_t width, Bf16Pair* panel);

/// Puts `count` contiguous elements of each of n pixels, `step` elements apart, into rows `pitch`
/// bytes apart: one for each element, of kPixelsOfRow pixels. Only what pairs of the n pixels hold
/// is defined; rows up to a multiple of kLanes are written.
constexpr int64_t kPixelsOfRow = 2 * kLanes;
void put_pixel_rows(const uint16_t* from, int64_t step, int64_t count, int64_t n, int64_t pitch,
                    Bf16Pair* rows);

/// As pad_input of BF16, in units that hold a column of x and, in the upper half, the column `step`
/// after it.
PaddedInput pair_columns(const Call& call, const View& x, const PaddedShape& s, int64_t step,
                         void* memory);

}  // namespace proa::PROA_ISA
