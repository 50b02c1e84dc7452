#include "proa/kernels/conv/winograd_weight.h"
#include "proa/base/arith.h"

#include "proa/base/dispatch.h"
#include "proa/base/settings.h"
#include "proa/base/task_size.h"
#include "proa/simd/conv/winograd.h"
#include "proa/simd/conv/winograd_tiles.h"
#include "proa/simd/tuning.h"

namespace proa::PROA_ISA {
namespace {

// Transformed tiles at a time: at least this many where the sums leave no room for them in the L2
// cache, as all sums are read and written for them.
constexpr int64_t kMinWideTiles = 128;
constexpr int64_t kPixels = 128;  // with fewer, products that cancel would show
constexpr int64_t kTaps = 3;

/// Rows whose distance is a power of two would evict each other.
int64_t row_of(int64_t channels) { return ceil_div(channels, kLanes) * kLanes + kLanes; }

/// A y: two results make four points.
PROA_INLINE void transform_results(const VF* y, VF* to) {
  to[0] = y[0];
  to[1] = y[0] + y[1];
  to[2] = y[0] - y[1];
  to[3] = -y[1];
}

/// G^T m: four points make three taps.
PROA_INLINE void transform_sums(const VF* m, VF* to) {
  const VF both = 0.5f * (m[1] + m[2]);
  to[0] = m[0] + both;
  to[1] = 0.5f * (m[1] - m[2]);
  to[2] = both + m[3];
}

void transform_dy(const TileRun& s, const Points& p, float* to) {
  for (int64_t t = 0, w = 0; t < s.count; ++t, to += p.tile) {
    VF column[kOut][kEdge];
    for (int j = 0; j < kOut; ++j, ++w) {
      VF y[kOut];
      read_column(s, s.left + w, kOut, y);
      transform_results(y, column[j]);
    }
    float* at = to;
    for (int i = 0; i < kEdge; ++i) {
      VF y[kOut], points[kEdge];
      for (int j = 0; j < kOut; ++j) y[j] = column[j][i];
      transform_results(y, points);
      for (int j = 0; j < kEdge; ++j, at += p.point) store(at, points[j]);
    }
  }
}

struct Layout {
  TileGrid grid;
  int64_t taken;       // tiles at a time
  Points x, dy, sums;  // of `sums` a tile is the row of an out channel
};

Layout layout_of(const Convolution& c) {
  Layout l = {};
  l.grid = TileGrid(c.x.shape[0], c.output);
  const int64_t tiles = l.grid.count();
  l.x.tile = row_of(c.channels.in);
  l.dy.tile = row_of(c.channels.out);
  l.sums.tile = row_of(c.channels.in);
  l.sums.point = c.channels.out * l.sums.tile;
  const bool wide = kPoints * l.sums.point * 4 > kGradTileBytes;
  const int64_t fit = kGradTileBytes / 4 / kPoints / (l.x.tile + l.dy.tile);
  l.taken = max(min(tiles, wide ? max(fit, kMinWideTiles) : fit), 1);
  l.taken = ceil_div(tiles, ceil_div(tiles, l.taken));  // as many each time
  l.x.point = l.taken * l.x.tile;
  l.dy.point = l.taken * l.dy.tile;
  return l;
}

/// Adds the products of one point of `tiles` tiles to its sums. A panel of x stays in the cache;
/// `prefetch` is fetched meanwhile, each half by half of the points.
void multiply(const Convolution& c, const Layout& l, int64_t point, int64_t tiles, bool accumulate,
              const PrefetchRange* prefetch) {
  const int64_t panel = kTileVecs * kLanes, pairs = ceil_div(c.channels.out, 2);
  const int64_t blocks = ceil_div(c.channels.out, kTileRows);
  Tile t = {};
  t.a.ld = l.dy.tile;
  t.b.ld = l.x.tile;
  t.c.ld = l.sums.tile;
  t.k = tiles;
  t.accumulate = accumulate;
  t.c.last = kLanes;
  const int64_t of_point = blocks * ceil_div(c.channels.in, panel), chunks = of_point * kPoints / 2;
  int64_t chunk = point % (kPoints / 2) * of_point;
  for (int64_t col = 0; col < c.channels.in; col += panel) {
    t.b.data = l.x.data + point * l.x.point + col;
    const int vecs = c.channels.in - col <= kLanes ? 1 : kTileVecs;
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t row = block * pairs / blocks * 2, end = (block + 1) * pairs / blocks * 2;
      t.a.data = l.dy.data + point * l.dy.point + row;
      t.c.data = l.sums.data + point * l.sums.point + row * l.sums.tile + col;
      t.c.count = static_cast<int>(min(end, c.channels.out) - row);
      prefetch_chunk(prefetch[point * 2 / kPoints], chunk++, chunks);
      kMicroF32.run(tile_rows(t.c.count), vecs, t);
    }
  }
}

/// The taps of a vector of channels, [tap][lane], from its sums.
PROA_INLINE void read_taps(const float* sums, int64_t point, float* to) {
  VF half[kTaps][kEdge];
  for (int j = 0; j < kEdge; ++j) {
    VF m[kEdge], t[kTaps];
    for (int i = 0; i < kEdge; ++i) m[i] = load(sums + (i * kEdge + j) * point);
    transform_sums(m, t);
    for (int i = 0; i < kTaps; ++i) half[i][j] = t[i];
  }
  for (int i = 0; i < kTaps; ++i) {
    VF t[kTaps];
    transform_sums(half[i], t);
    for (int j = 0; j < kTaps; ++j, to += kLanes) store(to, t[j]);
  }
}

template <class S>
void write_kernels(const Call& call, const Convolution& c, const Layout& l, const View& dw) {
  parallel_for(call, c.channels.out, 1 + kWinogradTaskMacs / (c.channels.in * kPoints * 4),
               [&](int64_t begin, int64_t end) {
                 alignas(64) float taps[kTaps * kTaps * kLanes];
                 for (int64_t o = begin; o < end; ++o)
                   for (int64_t d = 0; d < c.channels.in; d += kLanes) {
                     read_taps(l.sums.data + o * l.sums.tile + d, l.sums.point, taps);
                     const int64_t some = min(c.channels.in - d, kLanes);
                     for (int64_t i = 0; i < some; ++i) {
                       S* to = dw.as<S>() + o * dw.stride[0] + (d + i) * dw.stride[1];
                       for (int64_t p = 0; p < kTaps; ++p)
                         for (int64_t q = 0; q < kTaps; ++q)
                           to[p * dw.stride[2] + q * dw.stride[3]] =
                               static_cast<S>(taps[(p * kTaps + q) * kLanes + i]);
                     }
                   }
               });
}

}  // namespace

bool winograd_weight_takes(const Convolution& c) {
  return kHasWinograd && winograd_takes(c) && c.pixels() >= kPixels;
}

size_t winograd_weight_scratch(const Convolution& c) {
  const Layout l = layout_of(c);
  return static_cast<size_t>(kPoints * (l.x.point + l.dy.point + l.sums.point)) * 4 + 3 * 64;
}

Status winograd_weight(const Call& call, const Convolution& c, const PaddedInput& x,
                       const PaddedInput& dy, const View& dw, void* scratch) {
  Layout l = layout_of(c);
  l.x.data = static_cast<float*>(scratch);
  l.dy.data = l.x.data + kPoints * l.x.point;
  l.sums.data = l.dy.data + kPoints * l.dy.point;
  const Window2d& w = c.window;
  const Tiles of_x = {x, image_size(c.x), w.pad_top, w.pad_left, c.channels.in, l.grid};
  const Tiles of_dy = {dy, c.output, 0, 0, c.channels.out, l.grid};
  const int64_t all = l.grid.count();
  for (int64_t first = 0; first < all; first += l.taken) {
    const int64_t count = min(all - first, l.taken);
    parallel_for(call, count, 1 + kWinogradTaskMacs / (kPoints * (l.x.tile + l.dy.tile)),
                 [&](int64_t begin, int64_t end) {
                   transform_tiles(of_x, first + begin, first + end, l.x, begin, transform_x);
                   transform_tiles(of_dy, first + begin, first + end, l.dy, begin, transform_dy);
                 });
    const PrefetchRange prefetch[] = {
        prefetch_range(of_x, first + count, first + 2 * count, kEdge),
        prefetch_range(of_dy, first + count, first + 2 * count, kOut)};
    parallel_for(call, kPoints, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) multiply(c, l, p, count, first > 0, prefetch);
    });
  }
  PROA_FLOATING(dw.dtype, S, write_kernels<S>(call, c, l, dw));
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
