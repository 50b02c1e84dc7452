#include "proa/simd/gemm/swapped.h"

#include "proa/simd/vec_transpose.h"

namespace proa::PROA_ISA {
namespace {

/// Writes row i of a tile of floats to column i of `to`; rows are `ldt` and `ld` elements apart.
void transpose_tile(const float* tile, int64_t ldt, int rows, int cols, float* to, int64_t ld) {
  using T = int32_t;  // elements are only moved
  constexpr int kWidth = kLanesOf<T>;
  for (int r = 0; r < rows; r += kWidth)
    for (int c = 0; c < cols; c += kWidth) {
      const int high = rows - r < kWidth ? rows - r : kWidth;
      const int wide = cols - c < kWidth ? cols - c : kWidth;
      const T* const from = reinterpret_cast<const T*>(tile) + r * ldt + c;
      SquareBlock<T> block;
      for (int i = 0; i < kWidth; ++i)
        block.row[i] = i < high ? load_n(from + i * ldt, wide) : Vec<T>{};
      block.transpose();
      for (int j = 0; j < wide; ++j)
        store_n(reinterpret_cast<T*>(to) + (c + j) * ld + r, block.row[j], high);
    }
}

/// GemmOutput::epilogue; ctx is the MatrixRef of c.
void finish_swapped(const void* ctx, void* tile, int64_t ldt, int64_t row, int rows, int64_t col,
                    int cols) {
  const MatrixRef& out = *static_cast<const MatrixRef*>(ctx);
  const int64_t step = out.rows.step();
  transpose_tile(static_cast<const float*>(tile), ldt, rows, cols,
                 static_cast<float*>(out.data) + col * step + row, step);
}

}  // namespace

size_t swapped_scratch(const Product& p) {
  return gemm_scratch(kMicroF32, p.n, p.m, p.k, false, false);
}

void multiply_swapped(const Call& call, const Product& p, void* scratch) {
  MatrixOperand a, b;
  Gemm g = {&kMicroF32, p.n, p.m, p.k, {}, {}};
  g.a = matrix_operand(&a, p.b.data, p.dtype, b_columns(p), p.b.steps);
  g.b = matrix_operand(&b, p.a.data, p.dtype, p.a.rows, p.a.steps);
  g.out.epilogue = finish_swapped;
  g.out.epilogue_ctx = &p.end.out;
  gemm(call, g, scratch);
}

}  // namespace proa::PROA_ISA
