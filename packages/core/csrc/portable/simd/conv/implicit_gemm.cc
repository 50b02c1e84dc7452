// A task multiplies a chunk of tiles of patches, sized for the second-level cache, by a group of
// weight panels. Each strip of panels is used by all tiles of the chunk before the next is read.
// Tasks depend on the shapes alone, so results do not depend on the number of threads.
#include "proa/simd/conv/implicit_gemm.h"
#include "proa/base/arith.h"
#include "proa/base/task_size.h"
#include "proa/simd/gemm/epilogue.h"
#include "proa/simd/tuning.h"

namespace proa::PROA_ISA {
namespace {

constexpr int64_t kTasks = 8;

struct Tiling {
  int height;        // patches in a tile, of one line
  int lines;         // of patches in a tile: 2 where a register of AMX holds all of one
  int64_t per_line;  // tiles
  int64_t tiles, panels, width;
  int64_t chunk, chunks;            // tiles of a task
  int64_t group, groups;            // panels of a task
  int64_t panel_strip;              // panels used by a tile in sequence
  int64_t k;                        // of a window
  int64_t prefetch, prefetch_step;  // bytes per tile, and per step of k
  bool prefetches_c;                // prefetch the rows of c that the next tile writes,
  bool prefetches_b;                // or the next strip of panels
};

/// Chooses what to prefetch: the next rows of c if results are contiguous and more than the input
/// still to be read, since a tile would otherwise stall on them; else the input.
void set_prefetch(const PatchGemm& p, Tiling* c) {
  if (!kSmallBuild && c->prefetches_b) {
    c->prefetch = c->width * c->k * p.g.micro->size / min(c->chunk, c->tiles);
    c->prefetch_step = ceil_div(c->prefetch, max(c->k, 1));
    return;
  }
  const bool dense =
      p.g.out.c != nullptr && p.g.out.ldc == p.g.n && (p.lines == nullptr || p.lines->uniform());
  const bool in_order = c->panel_strip >= c->panels && c->groups == 1;
  const int64_t rows = c->height * c->lines;
  int64_t own = dense ? rows * p.g.n * p.g.micro->size : 0;
  if (p.dense_out != nullptr) own = rows * p.out_row;
  if (!in_order) own = 0;
  c->prefetches_c = !kSmallBuild && own > 0 && own >= p.prefetch.bytes / c->tiles;
  c->prefetch = c->prefetches_c ? own / c->panels : p.prefetch.bytes / (c->tiles * c->panels);
  c->prefetch_step = c->prefetch / max(c->k, 1);
}

/// True if a tile is two lines, which use a panel of weights as often as it is loaded for one.
bool joins_lines(const PatchGemm& p) {
  return !kSmallBuild && p.g.micro->takes_rows() && p.cols <= kAmxRows / 2 && p.rows > 1 &&
         (p.lines == nullptr || p.lines->uniform());
}

Tiling cut(const PatchGemm& p) {
  Tiling c;
  c.height = p.g.micro->height(ceil_div(p.cols, ceil_div(p.cols, p.g.micro->rows)));
  c.lines = joins_lines(p) ? 2 : 1;
  if (c.lines > 1) c.height = static_cast<int>(p.cols);
  c.per_line = ceil_div(p.cols, c.height);
  c.tiles = p.g.m / p.cols * c.per_line;
  if (c.lines > 1) c.tiles = p.g.m / (p.cols * p.rows) * ceil_div(p.rows, c.lines);
  c.width = kTileVecs * p.g.micro->lanes;
  c.panels = ceil_div(p.g.n, c.width);
  c.k = p.patches.taps_h * p.patches.taps_w * p.run;
  c.panel_strip = max(caches().panel_strip / max(c.k * c.width * 4, 1), 1);
  const int64_t work = max(c.height * c.lines * c.k * c.width, 1) * c.panels;  // of a tile
  const int64_t weight = c.panels * c.width * c.k * p.g.micro->size;
  const bool uncached =
      !kSmallBuild && weight > (p.is_whole && p.g.micro->takes_rows() ? caches().amx_weight
                                                                      : caches().uncached_weight);
  const int64_t bytes = max(c.height * p.patches.row * (p.patches.taps_h + c.lines - 1), 1);
  const int64_t fit = (uncached ? caches().uncached_chunk : caches().patch_chunk) / bytes;
  const int64_t even =
      uncached ? c.tiles : max(ceil_div(c.tiles, kTasks), ceil_div(kGemmTaskMacs, work));
  c.chunk = max(min(fit, even), 1);
  c.chunks = ceil_div(c.tiles, c.chunk);
  c.groups = c.chunks >= kTasks ? 1 : ceil_div(kTasks, c.chunks);
  c.groups = max(min(min(c.groups, c.panels), c.chunk * work / kGemmTaskMacs), 1);
  c.group = ceil_div(c.panels, c.groups);
  c.prefetches_b = !kSmallBuild && uncached && p.is_whole && p.g.micro->takes_rows();
  if (!kSmallBuild && c.prefetches_b)
    c.panel_strip = max(caches().amx_strip / max(c.k * c.width * p.g.micro->size, 1), 1);
  set_prefetch(p, &c);
  return c;
}

/// Merges output lines whose patches are evenly spaced too into one: fewer tiles.
void merge_lines(PatchGemm* p) {
  const bool even = p->lines == nullptr || p->lines->uniform();
  if (!even || p->line != p->cols * p->patches.row) return;
  p->cols *= p->rows;
  p->rows = 1;
  if (p->image == p->cols * p->patches.row) p->cols = p->g.m;
  p->line = p->image;
}

/// Patch j of line `i` of image n.
struct Position {
  int64_t n, i, j;
};

/// A tile that ends with estimates, and the rows that those do not suffice for.
void run_int8_tile(const Gemm& g, int height, int vecs, const Tile& t, const Patches& patches,
                   int64_t row, int64_t col, int cols) {
  Int8TileEnd end = {*g.out.int8, row, col};
  g.micro->ended.run(height, vecs, t, patches, &end);
  // A tile may have as many rows as `left` has bits.
  for (int i = 0; i < t.c.count && PROA_UNLIKELY(end.left >> i != 0); ++i)
    if ((end.left >> i & 1) != 0)
      g.out.epilogue(g.out.epilogue_ctx, static_cast<int32_t*>(t.c.data) + i * t.c.ld, t.c.ld,
                     row + i, 1, col, cols);
}

/// Which tile: its first row of the output, its number, and its panel.
struct Selected {
  int64_t row, tile, panel;
};

/// What is prefetched while the tile is computed.
PrefetchStream prefetch_of(const PatchGemm& p, const Tiling& cut, const Tile& t,
                           const Selected& s) {
  if (cut.prefetch == 0) return {};
  const int64_t size = p.g.micro->size, rows = cut.height * cut.lines;
  const int64_t skip = s.panel * cut.prefetch;
  const char* from = nullptr;
  if (!kSmallBuild && cut.prefetches_b) {
    const int64_t next = s.panel + cut.panel_strip;
    if (next >= cut.panels) return {};
    from = static_cast<const char*>(p.g.packed) + next * cut.width * cut.k * size +
           s.tile % cut.chunk * cut.prefetch;
  } else if (!kSmallBuild && cut.prefetches_c && p.dense_out != nullptr) {
    from = static_cast<const char*>(p.dense_out) + (s.row + rows) * p.out_row + skip;
  } else if (!kSmallBuild && cut.prefetches_c) {
    from = static_cast<const char*>(t.c.data) + (rows * p.g.out.ldc - s.panel * cut.width) * size +
           skip;
  } else {
    from = p.prefetch.at(s.tile * cut.panels * cut.prefetch + skip);
  }
  return {from, cut.prefetch_step};
}

/// Multiplies the patches of tile `tile`, which start at `at`, by panel `panel`.
void run_tile_at(const PatchGemm& p, const Tiling& cut, const Position& at, int64_t tile,
                 int64_t panel, AmxState* amx) {
  const Gemm& g = p.g;
  const int64_t size = g.micro->size, lanes = g.micro->lanes, col = panel * cut.width;
  const int64_t row = p.first + (at.n * p.rows + at.i) * p.cols + at.j;
  const int64_t lines = min(p.rows - at.i, cut.lines);
  const int count = static_cast<int>(min(p.cols - at.j, cut.height) * lines),
            height = g.micro->height(count);
  const int cols = static_cast<int>(min(g.n - col, cut.width));
  const int vecs = cols <= lanes ? 1 : kTileVecs;
  alignas(64) uint8_t spare[kTileBytes];
  Tile t = {};
  t.a.data =
      static_cast<const uint8_t*>(p.a) + at.n * p.image + at.i * p.line + at.j * p.patches.row;
  t.b = {static_cast<const uint8_t*>(g.packed) + col * cut.k * size, vecs * lanes};
  const int64_t to = p.lines == nullptr ? row * g.out.ldc : p.lines->at(row);
  t.c.data = g.out.c == nullptr ? spare : static_cast<uint8_t*>(g.out.c) + (to + col) * size;
  t.c.ld = g.out.c == nullptr ? t.b.ld : g.out.ldc;
  t.c.count = count;
  t.c.last = static_cast<int>(cols - (vecs - 1) * lanes);
  t.k = p.run;
  t.init = g.init == nullptr ? nullptr : static_cast<const uint8_t*>(g.init) + col * size;
  t.epilogue.relu = g.out.relu;
  t.amx = amx;
  t.prefetch = prefetch_of(p, cut, t, {row, tile, panel});
  Patches patches = p.patches;
  if (!kSmallBuild && lines > 1) {
    patches.top = cut.height;
    patches.bottom = p.line;
  }
  TileEnd end;
  const bool ends = !kSmallBuild && g.out.clamps && g.out.c != nullptr &&
                    g.micro->run_patches == kMicroF32.run_patches;
  if (ends) {
    end = tile_end(*static_cast<const FloatEpilogue*>(g.out.epilogue_ctx), col);
    t.epilogue.norm = &end;
  }
  if constexpr (kEstimates) {
    if (g.out.int8 != nullptr && g.micro->ended.takes(height))
      return run_int8_tile(g, height, vecs, t, patches, row, col, cols);
  }
  NarrowEnd narrow;
  if constexpr (kHasBf16Pairs) {
    if (g.micro->narrows && g.out.narrows &&
        narrow_end(*static_cast<const FloatEpilogue*>(g.out.epilogue_ctx), row, count, col,
                   &narrow))
      t.epilogue.narrow = &narrow;
  }
  g.micro->run_patches(height, vecs, t, patches);
  if (g.out.epilogue != nullptr && !ends && t.epilogue.narrow == nullptr)
    g.out.epilogue(g.out.epilogue_ctx, t.c.data, t.c.ld, row, count, col, cols);
}

}  // namespace

void implicit_gemm(const Call& call, const PatchGemm& product) {
  if (product.g.m == 0 || product.g.n == 0) return;
  PatchGemm p = product;
  if (!kSmallBuild) merge_lines(&p);
  const Tiling c = cut(p);
  parallel_for(call, c.chunks * c.groups, 1, [&](int64_t begin, int64_t end) {
    AmxState amx;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t chunk = task / c.groups, group = task - chunk * c.groups;
      const int64_t first = chunk * c.chunk, last = min(first + c.chunk, c.tiles);
      const int64_t per_image = ceil_div(p.rows, c.lines);
      const int64_t line = first / c.per_line, n = line / per_image;
      const Position start = {n, (line - n * per_image) * c.lines,
                              (first - line * c.per_line) * c.height};
      const int64_t stop = min((group + 1) * c.group, c.panels);
      for (int64_t panel = group * c.group; panel < stop; panel += c.panel_strip) {
        Position at = start;
        for (int64_t t = first; t < last; ++t) {
          for (int64_t k = panel; k < min(panel + c.panel_strip, stop); ++k)
            run_tile_at(p, c, at, t, k, &amx);
          at.j += c.height;
          if (at.j < p.cols) continue;
          at.j = 0;
          at.i += c.lines;
          if (at.i >= p.rows) at.i = 0, ++at.n;
        }
      }
    }
  });
}

}  // namespace proa::PROA_ISA
