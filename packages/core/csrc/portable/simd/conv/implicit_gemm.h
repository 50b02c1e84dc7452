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

struct PatchGemm {
  Gemm g;         // all but k, a and b: m patches times g.packed
  const void* a;  // the first patch
  // Byte strides of images and of lines of patches; lines per image, patches per line.
  int64_t image, line;
  int64_t rows, cols;
  Patches patches;
  int64_t run;                 // contiguous units
  const CoalescedAxes* lines;  // offsets of the rows of g.out.c unless evenly spaced; g.out.ldc is
                               // the stride within a line
  int64_t first = 0;           // index of the first patch, for g.out and lines
  Prefetch prefetch;
  bool is_whole = false;  // no other product of the operation uses g.packed
  // Where the epilogue writes, if each row follows the one before: element (0, 0) and bytes of a
  // row. Else nullptr.
  void* dense_out = nullptr;
  int64_t out_row = 0;
};

/// Bytes past the last patch that may be read, for patches `row` bytes apart.
inline int64_t patch_overread(int64_t row) { return row + 16; }
void implicit_gemm(const Call& call, const PatchGemm& p);

}  // namespace proa::PROA_ISA
