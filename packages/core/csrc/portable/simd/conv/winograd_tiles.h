#pragma once
// The tiles of minimal filtering, F(2 x 2, 3 x 3) of Lavin and Gray (see winograd.h): 4 x 4
// elements of x, 2 apart, become 16 points each, [point][tile][channel].
#include "proa/base/arith.h"
#include "proa/simd/conv/padded_input.h"
#include "proa/simd/gemm/micro.h"

namespace proa::PROA_ISA {

constexpr int kOut = 2;                 // results along an edge of a tile
constexpr int kEdge = 4;                // elements of x along it
constexpr int kPoints = kEdge * kEdge;  // products of a tile

/// B^T d: four elements of x. A transform of a line is applied along both axes.
PROA_INLINE void transform_input(const VF* d, VF* to) {
  to[0] = d[0] - d[2];
  to[1] = d[1] + d[2];
  to[2] = d[2] - d[1];
  to[3] = d[1] - d[3];
}

/// How many tiles the results of some images take, each line by line.
struct TileGrid {
  int64_t images, down, across;

  TileGrid() = default;
  TileGrid(int64_t n, const Size2d& output)
      : images(n), down(ceil_div(output.height, kOut)), across(ceil_div(output.width, kOut)) {}
  int64_t count() const { return images * down * across; }
};

/// The tiles of an input.
struct Tiles {
  PaddedInput input;  // without padding
  Size2d input_size;
  int64_t pad_top, pad_left;
  int64_t channels;
  TileGrid grid;
};

/// The destination of points: strides of tiles and of points, in floats.
struct Points {
  float* data;
  int64_t tile, point;
};

/// Adjacent tiles of one line, of a vector of channels.
struct TileRun {
  const float* rows[kEdge];  // column 0 of rows of the input, or nullptr outside of it
  int64_t pixel, width;      // stride of columns, and their number
  int64_t left, count;       // first column, tiles
  int64_t lanes;
};

/// The first `count` elements of column w of these tiles.
PROA_INLINE void read_column(const TileRun& s, int64_t w, int count, VF* to) {
  const bool inside = w >= 0 && w < s.width;
  for (int i = 0; i < count; ++i) {
    const float* const row = s.rows[i];
    to[i] = !inside || row == nullptr ? VF{}
            : s.lanes == kLanes       ? load(row + w * s.pixel)
                                      : load_n(row + w * s.pixel, s.lanes);
  }
}

PROA_INLINE void transform_column(const TileRun& s, int64_t w, VF* to) {
  VF d[kEdge];
  read_column(s, w, kEdge, d);
  transform_input(d, to);
}

/// Adjacent tiles share two columns, which are transformed once.
inline void transform_x(const TileRun& s, const Points& p, float* to) {
  VF column[kEdge][kEdge];
  int64_t w = s.left;
  transform_column(s, w++, column[0]);
  transform_column(s, w++, column[1]);
  for (int64_t t = 0; t < s.count; ++t, to += p.tile) {
    transform_column(s, w++, column[2]);
    transform_column(s, w++, column[3]);
    float* at = to;
    for (int i = 0; i < kEdge; ++i) {
      VF d[kEdge], points[kEdge];
      for (int j = 0; j < kEdge; ++j) d[j] = column[j][i];
      transform_input(d, points);
      for (int j = 0; j < kEdge; ++j, at += p.point) store(at, points[j]);
    }
    for (int i = 0; i < kEdge; ++i) column[0][i] = column[2][i], column[1][i] = column[3][i];
  }
}

/// Tiles [first, end) become tiles `at` and following of `p`, by `transform`.
template <class Transform>
void transform_tiles(const Tiles& s, int64_t first, int64_t end, const Points& p, int64_t at,
                     Transform transform) {
  while (first < end) {
    const int64_t line = first / s.grid.across, j = first - line * s.grid.across,
                  n = line / s.grid.down;
    TileRun run = {};
    run.count = s.grid.across - j < end - first ? s.grid.across - j : end - first;
    run.pixel = s.input.pixel;
    run.width = s.input_size.width;
    run.left = j * kOut - s.pad_left;
    const float* const image = static_cast<const float*>(s.input.data) + n * s.input.image;
    for (int64_t k = 0; k < s.channels; k += kLanes) {
      run.lanes = s.channels - k < kLanes ? s.channels - k : kLanes;
      for (int i = 0; i < kEdge; ++i) {
        const int64_t h = (line - n * s.grid.down) * kOut - s.pad_top + i;
        run.rows[i] = h >= 0 && h < s.input_size.height ? image + h * s.input.row + k : nullptr;
      }
      transform(run, p, p.data + at * p.tile + k);
    }
    at += run.count;
    first += run.count;
  }
}

/// Memory to prefetch.
struct PrefetchRange {
  const char* from;
  int64_t bytes;
};

/// The rows that tiles up to `end` reach, `span` elements high, beyond those of tiles up to
/// `first`, if they are all of some memory.
inline PrefetchRange prefetch_range(const Tiles& s, int64_t first, int64_t end, int64_t span) {
  const PaddedInput& f = s.input;
  const bool dense = f.pixel == s.channels && f.row == f.pixel * s.input_size.width &&
                     f.image == f.row * s.input_size.height;
  if (!dense || f.data == nullptr) return {};
  auto reached = [&](int64_t tile) {
    if (tile == 0) return int64_t{0};
    const int64_t last = tile < s.grid.count() ? tile : s.grid.count(),
                  line = (last - 1) / s.grid.across;
    const int64_t n = line / s.grid.down, row = (line - n * s.grid.down) * kOut - s.pad_top + span;
    return n * f.image + (row < s.input_size.height ? row : s.input_size.height) * f.row;
  };
  const int64_t from = reached(first);
  return {reinterpret_cast<const char*>(static_cast<const float*>(f.data) + from),
          (reached(end) - from) * 4};
}

/// Prefetches chunk `number` of `chunks` of it into the second-level cache.
inline void prefetch_chunk(const PrefetchRange& a, int64_t number, int64_t chunks) {
  for (int64_t i = a.bytes * number / chunks & -64; i < a.bytes * (number + 1) / chunks; i += 64)
    __builtin_prefetch(a.from + i, 0, 2);
}

}  // namespace proa::PROA_ISA
