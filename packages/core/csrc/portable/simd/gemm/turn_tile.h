#pragma once
// Writing a tile of results as columns. Defined beside the packing, which turns lines the same way.
#include <stdint.h>

#include "proa/base/settings.h"

namespace proa::PROA_ISA {

#if defined(__AVX512F__)
/// Writes row i of a tile of floats to column i of `to`; rows are `ldt` and `ld` elements apart.
void turn_tile(const float* tile, int64_t ldt, int rows, int cols, float* to, int64_t ld);
#endif

}  // namespace proa::PROA_ISA
