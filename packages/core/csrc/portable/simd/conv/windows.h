#pragma once
// Matrix products whose left rows are windows of a frame, read where they lie instead of packed.
#include "proa/simd/gemm/gemm.h"

namespace proa::PROA_ISA {

/// Memory that comes to the second-level cache while something else is computed.
struct Fetch {
  const void* from = nullptr;
  int64_t bytes = 0;
  // Of pieces that do not adjoin: bytes of one, how many stand in a line, and the distances.
  int64_t piece = 0, pieces = 0, pitch = 0, line = 0;

  /// Where byte `i` lies.
  const char* at(int64_t i) const {
    const char* const first = static_cast<const char*>(from);
    if (kSmallBuild || piece == 0) return first + i;
    const int64_t p = i / piece, down = p / pieces;
    return first + down * line + (p - down * pieces) * pitch + i - p * piece;
  }
};

struct WindowProduct {
  Gemm g;         // all but k, a and b: m windows meet g.packed
  const void* a;  // the first window
  // Bytes from an image, and from a line of windows, to the next; lines of an image, windows of a
  // line.
  int64_t image, line;
  int64_t rows, cols;
  Windows windows;
  int64_t run;         // units that are neighbours
  const Lines* lines;  // where the rows of g.c start, if not evenly; g.ldc holds within a line
  int64_t first = 0;   // number of the first window, for g.c, lines and g.finish
  Fetch fetch;
};

/// Bytes past the last window that may be read, for windows `row` bytes apart.
inline int64_t window_slack(int64_t row) { return row + 16; }
void multiply_windows(const Call& call, const WindowProduct& p);

}  // namespace proa::PROA_ISA
