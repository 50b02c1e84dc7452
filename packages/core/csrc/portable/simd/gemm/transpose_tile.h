#pragma once
// Writes a tile of results transposed. Defined in pack.cc, which transposes lines the same way.
#include <stdint.h>

#include "proa/base/settings.h"

namespace proa::PROA_ISA {

#if defined(__AVX512F__)
/// Writes row i of a tile of floats to column i of `to`; rows are `ldt` and `ld` elements apart.
void transpose_tile(const float* tile, int64_t ldt, int rows, int cols, float* to, int64_t ld);
#endif

}  // namespace proa::PROA_ISA
