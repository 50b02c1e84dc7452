#pragma once
// The packed weights of exact int8 products.
#include "proa/kernels/quant/int8_epilogue.h"
#include "proa/simd/conv/implicit_gemm.h"

namespace proa::PROA_ISA {

/// Int8 kernels: element (out, tap_h, tap_w, depth) by strides from `data`. Rows of a window are
/// `runs` runs of `run` steps, each padded to whole units of kMicroI8.
struct Int8Kernels {
  const int8_t* data;
  int64_t out, tap_h, tap_w, step;  // strides
  int64_t outs, taps_h, depth;
  int64_t runs, run;
  int64_t run_units() const { return (run + kInt8Steps - 1) / kInt8Steps; }
  int64_t units() const { return taps_h * runs * run_units(); }
};
/// Steps between rows of a left side; rows a multiple of 2 KiB apart would evict each other.
inline int64_t int8_pitch(int64_t k) {
  const int64_t whole = (k + kInt8Steps - 1) / kInt8Steps * kInt8Steps;
  return whole * static_cast<int64_t>(sizeof(Int8Step)) % 2048 == 0 ? whole + 64 : whole;
}
/// Bytes of a left side of that many rows, as the micro-kernel reads them.
inline size_t int8_rows_bytes(int64_t rows, int64_t k) {
  const size_t whole = static_cast<size_t>(rows + kMaxTileRows);
  return (whole * static_cast<size_t>(int8_pitch(k)) * sizeof(Int8Step) + 127) & ~size_t{63};
}

/// The packed form begins with what each column's sums start from: those of a left side less
/// `zero`.
size_t int8_packed_size(const Int8Kernels& w);
void int8_pack(const Int8Kernels& w, void* packed, int32_t zero = 0);
/// The starts of the sums and the panels of what int8_pack wrote, for Gemm::init and packed.
const void* int8_panels(const Int8Kernels& w, const void* packed);

/// A matrix (in, out) as kernels of one tap.
Int8Kernels int8_matrix(const View& w);
/// A row of a left side, its k elements `stride` apart, as steps.
void copy_int8_row(const int8_t* from, int64_t stride, int64_t k, Int8Step* to);
/// m rows, int8_pitch(w.depth) steps apart, times what int8_pack wrote of a matrix; the caller sets
/// where results go.
PatchGemm int8_rows_product(const Int8Kernels& w, const void* packed, const void* rows, int64_t m);

}  // namespace proa::PROA_ISA
