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

/// A tile: `height` patches of each of `lines` lines, by `width` columns.
struct TileSize {
  int height;
  int lines;  // 2 where a register of AMX holds all patches of one
  int64_t width;
};

/// Tasks: chunks of tiles by groups of panels.
struct Tasks {
  int64_t chunk, chunks;  // tiles of a task
  int64_t group, groups;  // panels of a task
};

/// What a tile prefetches: the input, the rows of c that the next tile writes, or the next strip of
/// panels.
enum class PrefetchSource { kInput, kOutput, kPanels };
struct PrefetchPlan {
  PrefetchSource source;
  int64_t bytes, step;  // of a tile, and of a step of k
};

struct Tiling {
  TileSize tile;
  int64_t per_line, tiles, panels;
  int64_t k;  // of a window
  Tasks tasks;
  int64_t panel_strip;  // panels used by a tile in sequence
  PrefetchPlan prefetch;
};

/// The next strip of panels, while the tiles of a task use this one.
PrefetchPlan prefetch_panels(const PatchGemm& p, const Tiling& c) {
  const int64_t bytes = c.tile.width * c.k * p.g.micro->size / min(c.tasks.chunk, c.tiles);
  return {PrefetchSource::kPanels, bytes, ceil_div(bytes, max(c.k, 1))};
}

/// The next rows of c if results are contiguous and more than the input still to be read, since a
/// tile would otherwise stall on them; else the input.
PrefetchPlan prefetch_rows(const PatchGemm& p, const Tiling& c) {
  const bool dense = p.g.out.c != nullptr && p.g.out.ldc == p.g.n && p.out.evenly_spaced();
  const bool in_order = c.panel_strip >= c.panels && c.tasks.groups == 1;
  const int64_t rows = c.tile.height * c.tile.lines;
  int64_t own = dense ? rows * p.g.n * p.g.micro->size : 0;
  if (p.out.dense != nullptr) own = rows * p.out.dense_row;
  if (!in_order) own = 0;
  const bool output = !kSmallBuild && own > 0 && own >= p.prefetch.bytes / c.tiles;
  const int64_t bytes = output ? own / c.panels : p.prefetch.bytes / (c.tiles * c.panels);
  return {output ? PrefetchSource::kOutput : PrefetchSource::kInput, bytes, bytes / max(c.k, 1)};
}

/// True if a tile is two lines, which use a panel of weights as often as it is loaded for one.
bool joins_lines(const PatchGemm& p) {
  return !kSmallBuild && p.g.micro->takes_rows() && p.a.cols <= kAmxRows / 2 && p.a.rows > 1 &&
         p.out.evenly_spaced();
}

TileSize tile_size(const PatchGemm& p) {
  const int64_t cols = p.a.cols, width = kTileVecs * p.g.micro->lanes;
  if (joins_lines(p)) return {static_cast<int>(cols), 2, width};
  return {p.g.micro->height(ceil_div(cols, ceil_div(cols, p.g.micro->rows))), 1, width};
}

Tiling cut(const PatchGemm& p) {
  Tiling c;
  const TileSize tile = c.tile = tile_size(p);
  c.per_line = ceil_div(p.a.cols, tile.height);
  c.tiles = p.g.m / p.a.cols * c.per_line;
  if (tile.lines > 1) c.tiles = p.g.m / (p.a.cols * p.a.rows) * ceil_div(p.a.rows, tile.lines);
  c.panels = ceil_div(p.g.n, tile.width);
  c.k = p.a.patches.taps_h * p.a.patches.taps_w * p.a.run;
  c.panel_strip = max(caches().panel_strip / max(c.k * tile.width * 4, 1), 1);
  const int64_t work = max(tile.height * tile.lines * c.k * tile.width, 1) * c.panels;  // of a tile
  const int64_t weight = c.panels * tile.width * c.k * p.g.micro->size;
  const bool is_whole = p.is_whole && p.g.micro->takes_rows();
  const bool uncached =
      !kSmallBuild && weight > (is_whole ? caches().amx_weight : caches().uncached_weight);
  const int64_t bytes =
      max(tile.height * p.a.patches.row * (p.a.patches.taps_h + tile.lines - 1), 1);
  const int64_t fit = (uncached ? caches().uncached_chunk : caches().patch_chunk) / bytes;
  const int64_t even =
      uncached ? c.tiles : max(ceil_div(c.tiles, kTasks), ceil_div(kGemmTaskMacs, work));
  Tasks& t = c.tasks;
  t.chunk = max(min(fit, even), 1);
  t.chunks = ceil_div(c.tiles, t.chunk);
  t.groups = t.chunks >= kTasks ? 1 : ceil_div(kTasks, t.chunks);
  t.groups = max(min(min(t.groups, c.panels), t.chunk * work / kGemmTaskMacs), 1);
  t.group = ceil_div(c.panels, t.groups);
  if (!kSmallBuild && uncached && is_whole) {
    c.panel_strip = max(caches().amx_strip / max(c.k * tile.width * p.g.micro->size, 1), 1);
    c.prefetch = prefetch_panels(p, c);
  } else {
    c.prefetch = prefetch_rows(p, c);
  }
  return c;
}

/// Merges output lines whose patches are evenly spaced too into one: fewer tiles.
void merge_lines(PatchGemm* p) {
  if (!p->out.evenly_spaced() || p->a.line != p->a.cols * p->a.patches.row) return;
  p->a.cols *= p->a.rows;
  p->a.rows = 1;
  if (p->a.image == p->a.cols * p->a.patches.row) p->a.cols = p->g.m;
  p->a.line = p->a.image;
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
  if (cut.prefetch.bytes == 0) return {};
  const int64_t size = p.g.micro->size, rows = cut.tile.height * cut.tile.lines;
  const int64_t skip = s.panel * cut.prefetch.bytes;
  const char* from = nullptr;
  if (!kSmallBuild && cut.prefetch.source == PrefetchSource::kPanels) {
    const int64_t next = s.panel + cut.panel_strip;
    if (next >= cut.panels) return {};
    from = static_cast<const char*>(p.g.packed) + next * cut.tile.width * cut.k * size +
           s.tile % cut.tasks.chunk * cut.prefetch.bytes;
  } else if (!kSmallBuild && cut.prefetch.source == PrefetchSource::kOutput) {
    from = p.out.dense != nullptr
               ? static_cast<const char*>(p.out.dense) + (s.row + rows) * p.out.dense_row
               : static_cast<const char*>(t.c.data) +
                     (rows * p.g.out.ldc - s.panel * cut.tile.width) * size;
    from += skip;
  } else {
    from = p.prefetch.at(s.tile * cut.panels * cut.prefetch.bytes + skip);
  }
  return {from, cut.prefetch.step};
}

/// Multiplies the patches of tile `tile`, which start at `at`, by panel `panel`.
void run_tile_at(const PatchGemm& p, const Tiling& cut, const Position& at, int64_t tile,
                 int64_t panel, AmxState* amx) {
  const Gemm& g = p.g;
  const int64_t size = g.micro->size, lanes = g.micro->lanes, col = panel * cut.tile.width;
  const int64_t row = p.out.first + (at.n * p.a.rows + at.i) * p.a.cols + at.j;
  const int64_t lines = min(p.a.rows - at.i, cut.tile.lines);
  const int count = static_cast<int>(min(p.a.cols - at.j, cut.tile.height) * lines),
            height = g.micro->height(count);
  const int cols = static_cast<int>(min(g.n - col, cut.tile.width));
  const int vecs = cols <= lanes ? 1 : kTileVecs;
  alignas(64) uint8_t spare[kTileBytes];
  Tile t = {};
  t.a.data = static_cast<const uint8_t*>(p.a.data) + at.n * p.a.image + at.i * p.a.line +
             at.j * p.a.patches.row;
  t.b = {static_cast<const uint8_t*>(g.packed) + col * cut.k * size, vecs * lanes};
  const int64_t to = p.out.lines == nullptr ? row * g.out.ldc : p.out.lines->at(row);
  t.c.data = g.out.c == nullptr ? spare : static_cast<uint8_t*>(g.out.c) + (to + col) * size;
  t.c.ld = g.out.c == nullptr ? t.b.ld : g.out.ldc;
  t.c.count = count;
  t.c.last = static_cast<int>(cols - (vecs - 1) * lanes);
  t.k = p.a.run;
  t.init = g.init == nullptr ? nullptr : static_cast<const uint8_t*>(g.init) + col * size;
  t.epilogue.relu = g.out.relu;
  t.amx = amx;
  t.prefetch = prefetch_of(p, cut, t, {row, tile, panel});
  Patches patches = p.a.patches;
  if (!kSmallBuild && lines > 1) {
    patches.top = cut.tile.height;
    patches.bottom = p.a.line;
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
  parallel_for(call, c.tasks.chunks * c.tasks.groups, 1, [&](int64_t begin, int64_t end) {
    AmxState amx;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t chunk = task / c.tasks.groups, group = task - chunk * c.tasks.groups;
      const int64_t first = chunk * c.tasks.chunk, last = min(first + c.tasks.chunk, c.tiles);
      const int64_t per_image = ceil_div(p.a.rows, c.tile.lines);
      const int64_t line = first / c.per_line, n = line / per_image;
      const Position start = {n, (line - n * per_image) * c.tile.lines,
                              (first - line * c.per_line) * c.tile.height};
      const int64_t stop = min((group + 1) * c.tasks.group, c.panels);
      for (int64_t panel = group * c.tasks.group; panel < stop; panel += c.panel_strip) {
        Position at = start;
        for (int64_t t = first; t < last; ++t) {
          for (int64_t k = panel; k < min(panel + c.panel_strip, stop); ++k)
            run_tile_at(p, c, at, t, k, &amx);
          at.j += c.tile.height;
          if (at.j < p.a.cols) continue;
          at.j = 0;
          at.i += c.tile.lines;
          if (at.i >= p.a.rows) at.i = 0, ++at.n;
        }
      }
    }
  });
}

}  // namespace proa::PROA_ISA
