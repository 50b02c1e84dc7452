#pragma once
// Exact int8 products with the epilogue of conv2d_int8 and linear_int8:
// v = act(acc * multiplier + bias), the product and the sum rounded separately, then v itself or
// clamp(round(v / out_scale), -127, 127). This family is compiled without contraction.
#include <string.h>

#include "proa/base/call.h"
#include "proa/simd/gemm/epilogue.h"

namespace proa::PROA_ISA {

/// The epilogue, with the channels' factors and terms in arrays with room for whole vectors.
struct Int8Epilogue {
  const float* scale;
  const float* shift;
  MatrixRef out;  // kF32 or kI8
  Act act;
  float out_scale;
  float inverse;  // of out_scale, or 0 if quotients cannot be computed by it
};
size_t int8_epilogue_bytes(int64_t channels);
Int8Epilogue make_int8_epilogue(const View& multiplier, const View* bias, int64_t channels,
                                const MatrixRef& out, int64_t act, double out_scale, void* memory);
/// GemmOutput::epilogue; ctx is an Int8Epilogue.
void finish_int8(const void* ctx, void* tile, int64_t ldt, int64_t row, int rows, int64_t col,
                 int cols);

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
/// The packed form begins with what each column's sums start from.
size_t int8_packed_size(const Int8Kernels& w);
void int8_pack(const Int8Kernels& w, void* packed);
/// The starts of the sums and the panels of what int8_pack wrote, for Gemm::init and packed.
const void* int8_panels(const Int8Kernels& w, const void* packed);

}  // namespace proa::PROA_ISA
