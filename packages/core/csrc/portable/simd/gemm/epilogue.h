#pragma once
// The epilogue of a finished tile: residual, activation, conversion, and any output strides.
#include "proa/base/dispatch.h"
#include "proa/base/settings.h"
#include "proa/simd/gemm/gemm.h"

namespace proa::PROA_ISA {

/// In the order of the schema's `act` choices.
enum class Act : int64_t {
  kNone,
  kRelu,
  kRelu6,
  kHardSwish,
  kHardSigmoid,
  kSigmoid,
  kTanh,
  kGelu,
  kSilu
};

/// y = act(y) for n floats.
void activate(Act act, float* y, int64_t n);
void activate(Act act, double* y, int64_t n);

/// A matrix in memory of some dtype: element (row, col) = data[rows.at(row) + col * stride].
struct MatrixRef {
  void* data = nullptr;
  DType dtype = DType::kF32;
  CoalescedAxes rows;
  int64_t stride = 1;
};
/// The first step of an epilogue, y = (y - center[c]) * factor[c] + shift[c]: floats, doubles if
/// the output is, from the channel of column 0 on.
struct ChannelNorm {
  const void *center = nullptr, *factor = nullptr, *shift = nullptr;
  float scale = 1.0f, offset = 0.0f;  // y * scale + offset, the last step of the epilogue
};
struct FloatEpilogue {
  MatrixRef out;
  MatrixRef residual;  // data == nullptr: none
  Act act = Act::kNone;
  const ChannelNorm* norm = nullptr;
  bool by_channels() const { return kHasChannelEpilogue && norm != nullptr; }
  bool is_scaled() const { return by_channels() && (norm->scale != 1.0f || norm->offset != 0.0f); }
  /// True if results are only written.
  bool plain() const { return residual.data == nullptr && act == Act::kNone && !by_channels(); }
};
/// GemmOutput::epilogue for float accumulators (double ones if out is kF64); ctx is a
/// FloatEpilogue.
void float_epilogue(const void* ctx, void* tile, int64_t ldt, int64_t row, int rows, int64_t col,
                    int cols);
/// The end of the tiles whose first column is `col`, if GemmOutput::clamps.
TileEnd tile_end(const FloatEpilogue& end, int64_t col);
/// Makes the end of a tile from (row, col) on, if GemmOutput::narrows; false if its rows are not
/// evenly spaced.
bool narrow_end(const FloatEpilogue& end, int64_t row, int64_t rows, int64_t col, NarrowEnd* to);
/// Sets the output to end->out, written directly or by float_epilogue.
void set_output(GemmOutput* out, const FloatEpilogue* end);
/// True if set_output makes products write directly to memory of that form.
bool takes_tiles(const MatrixRef& out);

/// The micro-kernel that computes a float dtype.
inline const Micro& micro_kernel(DType dtype) { return is_double(dtype) ? kMicroF64 : kMicroF32; }
/// True of elements that the micro-kernel reads without conversion, by pairs of steps.
inline bool multiplies_bf16_pairs(DType dtype) {
  return kHasBf16Pairs && computes(DType::kBF16) && dtype == DType::kBF16 &&
         settings().bf16 != Bf16::kWidened;
}
/// The micro-kernel for BF16 pairs if `by_pairs`, else as above.
inline const Micro& micro_kernel(DType dtype, bool by_pairs) {
  if constexpr (kHasBf16Pairs && computes(DType::kBF16)) {
    if (by_pairs) return settings().bf16 == Bf16::kDots ? kMicroBF16 : kMicroBF16Emulated;
  }
  return micro_kernel(dtype);
}

/// The same for products and implicit GEMM, which take tiles of AMX's height.
inline const Micro& product_micro_kernel(DType dtype, bool by_pairs) {
  if constexpr (kHasAmx && computes(DType::kBF16)) {
    if (by_pairs && settings().amx == Amx::kTiles) return kMicroAmxBF16;
    if (by_pairs && settings().amx == Amx::kEmulatedTiles) return kMicroAmxBF16Emulated;
  }
  return micro_kernel(dtype, by_pairs);
}
/// The micro-kernel of int8.
inline const Micro& int8_micro_kernel() {
  if constexpr (kHasAmx) {
    if (settings().amx == Amx::kTiles) return kMicroAmxI8;
    if (settings().amx == Amx::kEmulatedTiles) return kMicroAmxI8Emulated;
  }
  return kMicroI8;
}

}  // namespace proa::PROA_ISA
