#pragma once
// The packed weights of exact int8 products.
#include "proa/kernels/quant/int8_epilogue.h"
#include "proa/simd/gemm/gemm.h"

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
/// The packed form begins with what each column's sums start from.
size_t int8_packed_size(const Int8Kernels& w);
void int8_pack(const Int8Kernels& w, void* packed);
/// The starts of the sums and the panels of what int8_pack wrote, for Gemm::init and packed.
const void* int8_panels(const Int8Kernels& w, const void* packed);

}  // namespace proa::PROA_ISA
