#include "proa/kernels/quant/int8_pair.h"

namespace proa::PROA_ISA {

void finish_int8_pair(const void* ctx, void* tile, int64_t ldt, int64_t row, int rows, int64_t col,
                      int cols) {
  const Int8PairEnd& pair = *static_cast<const Int8PairEnd*>(ctx);
  uint32_t* sums = static_cast<uint32_t*>(tile);
  for (int i = 0; i < rows; ++i, sums += ldt) {
    const auto term = static_cast<uint32_t>(pair.row_terms[row + i]);
    for (int j = 0; j < cols; ++j) sums[j] += term;
  }
  finish_int8(&pair.end, tile, ldt, row, rows, col, cols);
}

void begin_int8_pair(float scale, int64_t channels, const Int8Ending& ending, void* memory,
                     Int8PairEnd* end) {
  View multiplier;
  multiplier.data = &scale;
  multiplier.rank = 0;
  multiplier.dtype = DType::kF32;
  begin_int8_epilogue(&multiplier, nullptr, channels, ending, memory, &end->end);
}

void set_int8_pair_output(GemmOutput* out, Int8PairEnd* end) {
  if (end->row_terms == nullptr) return set_int8_output(out, &end->end, &end->ends);
  out->epilogue = finish_int8_pair;
  out->epilogue_ctx = end;
}

}  // namespace proa::PROA_ISA
