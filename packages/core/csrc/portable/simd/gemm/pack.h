#pragma once
// Packing: the operands of a matrix product are read through a `PackOperand`, so that strides,
// dtypes, and the patches of a convolution cost one copy into a panel instead of a temporary array.
#include "proa/base/dtype.h"
#include "proa/simd/coalesced_axes.h"
#include "proa/simd/gemm/micro.h"

namespace proa::PROA_ISA {

/// An operand as lanes (rows of a, columns of b) by units along k.
///
/// By lane: read(ctx, lane, k, count, buffer) returns `count` units of one lane from unit k on.
/// By step: read(ctx, k, lane, count, buffer) returns `count` lanes of one unit from `lane` on.
/// Either returns a pointer into the operand if the units are stored as the micro-kernel needs
/// them, or writes them to `buffer` and returns that.
struct PackOperand {
  const void* ctx;
  const void* (*read)(const void* ctx, int64_t line, int64_t begin, int64_t count, void* buffer);
  bool mn_major;
  // If lines are contiguous and evenly spaced, line i starts at `direct` + i * `step` units and
  // needs no call of read(). Else nullptr.
  const void* direct = nullptr;
  int64_t step = 0;
  /// A faster pack_panel for this operand, or nullptr; it does not write past the panel.
  void (*pack)(const void* ctx, int64_t lane, int lanes, int width, int64_t k0, int64_t k,
               void* panel) = nullptr;
};

/// Writes `lanes` lanes from `lane` on, k units from `k0` on, as [k][width]; missing lanes are 0.
/// May write up to kVecBytes past the end of the panel unless width is whole vectors.
void pack_panel(const PackOperand& s, int size, int64_t lane, int lanes, int width, int64_t k0,
                int64_t k, void* panel);

/// Writes up to kMaxTileRows lanes of 4-byte units that are read by step as rows `pitch` bytes
/// apart, k units from `k0` on. Rows are written in whole vectors, and as many as a vector has.
void pack_rows_of_steps(const PackOperand& s, int64_t lane, int lanes, int64_t k0, int64_t k,
                        int64_t pitch, void* rows);

/// A strided matrix of any float dtype, read as `compute` (kF32 or kF64).
struct MatrixOperand {
  const void* data;
  CoalescedAxes lines;  // starts of the lines that read() reads
  int64_t stride;       // between elements of a line
  int64_t steps;        // of k, for bf16_pair_operand
};
/// The operand of element (lane, k) = data[lanes.at(lane) + steps.at(k)]; one of the two must be
/// uniform. Fills `ctx`, which must outlive the operand.
PackOperand matrix_operand(MatrixOperand* ctx, const void* data, DType dtype,
                           const CoalescedAxes& lanes, const CoalescedAxes& steps);

/// The same of a BF16 matrix with k steps, for kMicroBF16 (kHasBf16Pairs alone): a unit is steps 2u
/// and 2u + 1, and the second is 0 where k is odd.
PackOperand bf16_pair_operand(MatrixOperand* ctx, const void* data, const CoalescedAxes& lanes,
                              const CoalescedAxes& steps, int64_t k);

/// Copies n elements of a dtype, `stride` apart, to float (or to double if dtype is kF64).
void widen(const void* from, DType dtype, int64_t stride, int64_t n, void* to);
/// The reverse: n floats (doubles if dtype is kF64) to elements of a dtype, `stride` apart.
void narrow(const void* from, DType dtype, int64_t stride, int64_t n, void* to);

}  // namespace proa::PROA_ISA
