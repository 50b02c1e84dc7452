#pragma once
// Implicit GEMM: the rows of a are patches of the padded input, read in place instead of packed.
#include "proa/simd/gemm/gemm.h"

namespace proa::PROA_ISA {

/// Memory to prefetch into the second-level cache during a computation.
struct Prefetch {
  const void* from = nullptr;
  int64_t bytes = 0;
  // For strided memory: bytes of a contiguous part, parts per line, and their strides.
  int64_t part = 0, parts = 0, pitch = 0, line = 0;

  /// Address of byte `i`.
  const char* at(int64_t i) const {
    const char* const first = static_cast<const char*>(from);
    if (kSmallBuild || part == 0) return first + i;
    const int64_t p = i / part, down = p / parts;
    return first + down * line + (p - down * parts) * pitch + i - p * part;
  }
};

/// The rows of a: `cols` patches in each of `rows` lines of an image.
struct PatchRows {
  const void* data;     // the first patch
  int64_t image, line;  // byte strides of images and of lines of patches
  int64_t rows, cols;
  Patches patches;
  int64_t run;  // contiguous units
};

/// Where the rows of the results go, besides Gemm::out.
struct PatchOutput {
  const CoalescedAxes* lines = nullptr;  // offsets of the rows of g.out.c unless evenly spaced;
                                         // g.out.ldc is the stride within a line
  int64_t first = 0;                     // index of the first patch, for g.out and lines
  // Where the epilogue writes, if each row follows the one before: element (0, 0) and bytes of a
  // row. Else nullptr.
  void* dense = nullptr;
  int64_t dense_row = 0;
  bool evenly_spaced() const { return lines == nullptr || lines->uniform(); }
};

struct PatchGemm {
  Gemm g;  // all but k, a and b: m patches times g.packed
  PatchRows a;
  PatchOutput out;
  Prefetch prefetch;
  bool is_whole = false;  // no other product of the operation uses g.packed
};

/// Bytes past the last patch that may be read, for patches `row` bytes apart.
inline int64_t patch_overread(int64_t row) { return row + 16; }
void implicit_gemm(const Call& call, const PatchGemm& p);

}  // namespace proa::PROA_ISA
