#pragma once
// Exact products of two int8 arrays that are computed at run time, less their zero points:
//   sum((x - x_zero) * (y - y_zero)) = sum((x - x_zero) * y) - y_zero * sum(x - x_zero).
// The first term is that of a packed right side; the second is one number for each row of x.
#include "proa/kernels/quant/int8_product.h"

namespace proa::PROA_ISA {

/// What a row of x, as steps, adds to its products.
PROA_INLINE int32_t int8_row_term(const Int8Step* row, int64_t k, int32_t x_zero, int32_t y_zero) {
  int32_t sum = 0;
  for (int64_t p = 0; p < k; ++p) sum += row[p];
  // Without sign, as sums of more than 2^15 steps wrap around.
  const auto less = static_cast<uint32_t>(k) * static_cast<uint32_t>(kInt8Offset + x_zero);
  return static_cast<int32_t>((less - static_cast<uint32_t>(sum)) * static_cast<uint32_t>(y_zero));
}

/// The end of such a product: adds the terms of rows, if y_zero is not 0, and then finish_int8.
struct Int8PairEnd {
  Int8Epilogue end;
  Int8Ends ends;
  const int32_t* row_terms = nullptr;  // or nullptr
};
void finish_int8_pair(const void* ctx, void* tile, int64_t ldt, int64_t row, int rows, int64_t col,
                      int cols);

/// Sets the factors of `channels` columns, all of them `scale`; end.out has the results' dtype.
void begin_int8_pair(float scale, int64_t channels, const Int8Ending& ending, void* memory,
                     Int8PairEnd* end);
/// Makes `end` the end of a product; end->end.out is where results go.
void set_int8_pair_output(GemmOutput* out, Int8PairEnd* end);

}  // namespace proa::PROA_ISA
