#include "proa/simd/conv/winograd.h"
#include "proa/base/arith.h"

#include <string.h>

#include "proa/base/settings.h"
#include "proa/base/task_size.h"
#include "proa/base/winograd.h"
#include "proa/simd/conv/winograd_tiles.h"
#include "proa/simd/gemm/epilogue.h"
#include "proa/simd/tuning.h"

namespace proa::PROA_ISA {
namespace {

// At least this many tiles are transformed and multiplied at a time; more for large kernels, all of
// which are read from memory for them.
constexpr int64_t kMinTiles = 3 * kTileRows, kMinWideTiles = 5 * kTileRows;
constexpr int64_t kWide = 256 * 256;        // kernels of one point that leave no room for much else
constexpr int64_t kTaps = 9, kDepths = 16;  // of kernels that are packed at once

// -- the transforms, one line of vectors each; a line is applied along both axes -----------------
/// G g: three taps.
PROA_INLINE void transform_kernel(const VF* g, VF* to) {
  const VF ends = 0.5f * (g[0] + g[2]), middle = 0.5f * g[1];
  to[0] = g[0];
  to[1] = ends + middle;
  to[2] = ends - middle;
  to[3] = g[2];
}

/// A^T m: four products make two results.
PROA_INLINE void transform_output(const VF* m, VF* to) {
  to[0] = m[0] + m[1] + m[2];
  to[1] = m[1] - m[2] - m[3];
}

/// Distance in floats between the packed kernels of two points; not a power of two, so that all
/// can be written side by side without evicting each other.
int64_t kernels_point(const Convolution& c) {
  return round_up(c.channels.out, kTileVecs * kLanes) * c.channels.in + kTileVecs * kLanes;
}

bool is_wide(const Convolution& c) { return c.channels.in * c.channels.out >= kWide; }

/// How the tiles of a convolution are split and laid out in scratch.
struct Layout {
  TileGrid grid;
  int64_t taken;                // tiles handled at once
  int64_t in, out;              // distance of tiles, of one point, in floats
  int64_t in_point, out_point;  // distance of points
};

Layout layout_of(const Convolution& c) {
  Layout l;
  l.grid = TileGrid(c.x.shape[0], c.output);
  const int64_t tiles = l.grid.count();
  // Rows whose distance is a power of two would evict each other.
  l.in = round_up(c.channels.in, kLanes) + kLanes;
  l.out = round_up(c.channels.out, kTileVecs * kLanes);
  const int64_t fit = caches().winograd_tiles / 4 / kPoints / (l.in + l.out);
  const int64_t few = is_wide(c) ? kMinWideTiles : kMinTiles;
  l.taken = min(tiles, round_up(fit > few ? fit : few, kTileRows));
  l.taken = ceil_div(tiles, ceil_div(tiles, l.taken));  // as many each time
  // The micro-kernel works on an even number of rows.
  l.in_point = (l.taken + 1) * l.in;
  l.out_point = (l.taken + 1) * l.out;
  return l;
}

struct Job {
  const Convolution& c;
  Layout l;
  PaddedInput input;
  const float* kernels;
  const float* bias;
  const GemmOutput& end;
  float* in;   // [point][tile][depth]
  float* out;  // [point][tile][outs]
};

Tiles tiles_of(const Convolution& c, const Layout& l, const PaddedInput& input) {
  const Window2d& w = c.window;
  return {input, image_size(c.x), w.pad_top, w.pad_left, c.channels.in, l.grid};
}

/// Multiplies rows [row, row + height) of one point by a panel of kernels.
void multiply_tile(const Job& s, int64_t point, int64_t row, int height, int64_t col,
                   const PrefetchStream& prefetch) {
  Tile t = {};
  t.a.data = s.in + point * s.l.in_point + row * s.l.in;
  t.b = {s.kernels + point * kernels_point(s.c) + col * s.c.channels.in, kTileVecs * kLanes};
  t.c = {s.out + point * s.l.out_point + row * s.l.out + col, s.l.out, tile_rows(height), kLanes};
  t.k = s.c.channels.in;
  t.prefetch = prefetch;
  kMicroF32.run_patches(t.c.count, kTileVecs, t, {s.l.in * 4, 1, 1, 0, 0});
}

/// The products of one point, for the first `tiles` tiles of a block. A row of tiles stays in the
/// first-level cache, or a panel of wide kernels in the second-level one while the next comes.
void multiply(const Job& s, int64_t point, int64_t tiles) {
  const int64_t panel = kTileVecs * kLanes, outs = s.c.channels.out, depth = s.c.channels.in;
  const int64_t pairs = ceil_div(tiles, 2), blocks = ceil_div(tiles, kTileRows);
  PrefetchStream prefetch;
  auto run = [&](int64_t block, int64_t col) {
    const int64_t row = block * pairs / blocks * 2, end = (block + 1) * pairs / blocks * 2;
    multiply_tile(s, point, row, static_cast<int>(min(end, tiles) - row), col, prefetch);
  };
  if (!is_wide(s.c)) {
    for (int64_t block = 0; block < blocks; ++block)
      for (int64_t col = 0; col < outs; col += panel) run(block, col);
    return;
  }
  prefetch.bytes = panel * 4 / blocks;
  const float* next = s.kernels + point * kernels_point(s.c) + panel * depth;
  for (int64_t col = 0; col < outs; col += panel, next += panel * depth)
    for (int64_t block = 0; block < blocks; ++block) {
      prefetch.from = next + block * prefetch.bytes * depth / 4;
      run(block, col);
    }
}

/// The results of tile `tile`, from the products of tile `at` of the block.
void give_out(const Job& s, int64_t tile, int64_t at) {
  const Convolution& c = s.c;
  const int64_t line = tile / s.l.grid.across, n = line / s.l.grid.down;
  const int64_t top = (line - n * s.l.grid.down) * kOut,
                left = (tile - line * s.l.grid.across) * kOut;
  const int count = static_cast<int>(min(c.output.width - left, kOut));
  for (int64_t col = 0; col < c.channels.out; col += kLanes) {
    const int64_t some = min(c.channels.out - col, kLanes);
    const VF bias = s.bias == nullptr ? VF{} : load(s.bias + col);
    VF half[kOut][kEdge];
    for (int j = 0; j < kEdge; ++j) {
      VF m[kEdge], t[kOut];
      const float* const from = s.out + j * s.l.out_point + at * s.l.out + col;
      for (int i = 0; i < kEdge; ++i) m[i] = load(from + i * kEdge * s.l.out_point);
      transform_output(m, t);
      for (int i = 0; i < kOut; ++i) half[i][j] = t[i];
    }
    for (int i = 0; i < kOut && top + i < c.output.height; ++i) {
      VF t[kOut];
      transform_output(half[i], t);
      const int64_t row = (n * c.output.height + top + i) * c.output.width + left;
      alignas(64) float spare[kOut * kLanes];
      float* out = spare;
      int64_t ld = kLanes;
      if (s.end.c != nullptr) {
        ld = s.end.ldc;
        out = static_cast<float*>(s.end.c) + row * ld + col;
      }
      for (int j = 0; j < count; ++j) {
        const VF y = t[j] + bias;
        store_n(out + j * ld, s.end.relu ? max(VF{}, y) : y, some);
      }
      if (s.end.epilogue != nullptr)
        s.end.epilogue(s.end.epilogue_ctx, out, ld, row, count, col, static_cast<int>(some));
    }
  }
}

// -- kernels ----------------------------------------------------------------------------------
/// ConvWeights in memory order, seen from one depth: lane `out`, element k.
struct TapRows {
  const float* data;
  int64_t out;
};
const void* read_row(const void* ctx, int64_t out, int64_t k, int64_t, void*) {
  const TapRows& rows = *static_cast<const TapRows*>(ctx);
  return rows.data + out * rows.out + k;
}

/// True if the taps of a kernel are contiguous, and if they are flipped.
bool taps_adjoin(const ConvWeights& w) {
  return (w.tap_h == 3 && w.tap_w == 1) || (w.tap_h == -3 && w.tap_w == -1);
}
bool transposed(const ConvWeights& w) { return w.tap_w < 0; }

/// Depths whose taps follow each other in memory.
int64_t depths_at_once(const ConvWeights& w) {
  return taps_adjoin(w) && !transposed(w) && w.depth == kTaps ? kDepths : 1;
}

/// The taps of a vector of outs, `count` depths from k on, as [depth][tap][lane].
void read_taps(const Convolution& c, int64_t col, int64_t k, int64_t count, float* to) {
  const ConvWeights& w = c.kernels;
  const auto size = static_cast<int64_t>(size_of(w.dtype));
  const auto* from = static_cast<const uint8_t*>(w.data) + (col * w.out + k * w.depth) * size;
  const int64_t lanes = min(c.channels.out - col, kLanes), taps = count * kTaps;
  if (lanes <= 0) {
    for (int64_t i = 0; i < taps; ++i) store(to + i * kLanes, VF{});
    return;
  }
  if (!taps_adjoin(w)) {
    memset(to, 0, static_cast<size_t>(kTaps * kLanes) * sizeof(float));
    for (int64_t t = 0; t < kTaps; ++t)
      widen(from + (t / 3 * w.tap_h + t % 3 * w.tap_w) * size, w.dtype, w.out, lanes,
            to + t * kLanes);
    return;
  }
  if (transposed(w)) from -= (kTaps - 1) * size;
  float wide[kLanes * kDepths * kTaps];
  TapRows rows = {wide, taps};
  if (w.dtype == DType::kF32)
    rows = {reinterpret_cast<const float*>(from), w.out};
  else if (w.out == taps)
    widen(from, w.dtype, 1, lanes * taps, wide);
  else
    for (int64_t o = 0; o < lanes; ++o)
      widen(from + o * w.out * size, w.dtype, 1, taps, wide + o * taps);
  pack_panel({&rows, read_row, false}, 4, 0, static_cast<int>(lanes), kLanes, 0, taps, to);
}

/// The points of one depth from its taps, which may be flipped.
PROA_INLINE void pack_taps(const float* taps, bool back, int64_t point, float* to) {
  const int64_t first = back ? (kTaps - 1) * kLanes : 0, step = back ? -kLanes : kLanes;
  VF half[kEdge][3];
  for (int q = 0; q < 3; ++q) {
    VF g[3], t[kEdge];
    for (int p = 0; p < 3; ++p) g[p] = load(taps + first + (p * 3 + q) * step);
    transform_kernel(g, t);
    for (int i = 0; i < kEdge; ++i) half[i][q] = t[i];
  }
  for (int i = 0; i < kEdge; ++i) {
    VF t[kEdge];
    transform_kernel(half[i], t);
    for (int j = 0; j < kEdge; ++j, to += point) store(to, t[j]);
  }
}

}  // namespace

bool winograd_takes(const Convolution& c) {
  // Dot products of pairs take half the time of products of floats, of which it saves less.
  if (c.strategy > Strategy::kWinograd) return false;
  return settings().winograd && !multiplies_bf16_pairs(c.kernels.dtype) &&
         suits_winograd({c.kernels.dtype,
                         {c.window.kernel_h, c.window.kernel_w},
                         {c.window.stride_h, c.window.stride_w},
                         {c.window.dilation_h, c.window.dilation_w},
                         c.channels.groups,
                         c.channels.in,
                         c.channels.out});
}

size_t winograd_packed_size(const Convolution& c) {
  return static_cast<size_t>(kPoints * kernels_point(c) * 4);
}

void winograd_pack(const Call& call, const Convolution& c, void* packed) {
  const int64_t panel = kTileVecs * kLanes, point = kernels_point(c);
  const int64_t work = c.channels.in * kPoints * kLanes * 8;
  const bool back = taps_adjoin(c.kernels) && transposed(c.kernels);
  parallel_for(call, round_up(c.channels.out, panel) / kLanes, 1 + kWinogradTaskMacs / work,
               [&](int64_t begin, int64_t end) {
                 alignas(64) float taps[kDepths * kTaps * kLanes];
                 for (int64_t col = begin * kLanes; col < end * kLanes; col += kLanes) {
                   // As gemm_pack lays a product's columns: panels of [k][panel].
                   float* to = static_cast<float*>(packed) + col / panel * panel * c.channels.in +
                               col % panel;
                   for (int64_t k = 0, count = 0; k < c.channels.in; k += count) {
                     count = min(c.channels.in - k, depths_at_once(c.kernels));
                     read_taps(c, col, k, count, taps);
                     for (int64_t i = 0; i < count; ++i, to += panel)
                       pack_taps(taps + i * kTaps * kLanes, back, point, to);
                   }
                 }
               });
}

size_t winograd_scratch(const Convolution& c) {
  const Layout l = layout_of(c);
  return static_cast<size_t>(kPoints * (l.in_point + l.out_point) * 4) + 128;
}

void winograd(const Call& call, const Convolution& c, const PaddedInput& input, const void* packed,
              const float* bias, const GemmOutput& end, void* scratch) {
  const Layout l = layout_of(c);
  float* const in = static_cast<float*>(scratch);
  const Job s = {c,    l,   input, static_cast<const float*>(packed),
                 bias, end, in,    in + round_up(kPoints * l.in_point, 16)};
  const Tiles tiles = tiles_of(c, l, input);
  const int64_t all = l.grid.count();
  for (int64_t first = 0; first < all; first += l.taken) {
    const int64_t count = min(all - first, l.taken);
    parallel_for(call, count, 1 + kWinogradTaskMacs / (kPoints * l.in),
                 [&](int64_t begin, int64_t stop) {
                   transform_tiles(tiles, first + begin, first + stop, {in, l.in, l.in_point},
                                   begin, transform_x);
                 });
    parallel_for(call, kPoints, 1, [&](int64_t begin, int64_t stop) {
      for (int64_t p = begin; p < stop; ++p) multiply(s, p, count);
    });
    parallel_for(call, count, 1 + kWinogradTaskMacs / (kPoints * l.out),
                 [&](int64_t begin, int64_t stop) {
                   for (int64_t t = begin; t < stop; ++t) give_out(s, first + t, t);
                 });
  }
}

}  // namespace proa::PROA_ISA
