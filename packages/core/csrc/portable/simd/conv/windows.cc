// A piece of work is a range of tiles of windows, as much as the second-level cache holds, against
// some panels of the right side. Each panel meets all the tiles before the next one is read. Pieces
// depend on the shapes alone, so results do not depend on the number of threads.
#include "proa/simd/conv/windows.h"
#include "proa/base/arith.h"

namespace proa::PROA_ISA {
namespace {

constexpr int64_t kChunkBytes = 128 * 1024;  // of windows
constexpr int64_t kStripBytes = 256 * 1024;  // of panels
// Panels of so many bytes come from beyond the second-level cache every time: for more windows.
constexpr int64_t kFarBytes = 1 << 20, kFarChunkBytes = 512 * 1024;
constexpr int64_t kGrainWork = 1 << 19;  // multiply-adds worth handing to another thread
constexpr int64_t kTasks = 8;

struct Cut {
  int height;        // windows in a tile
  int64_t per_line;  // tiles
  int64_t tiles, panels, width;
  int64_t chunk, chunks;      // tiles of a piece
  int64_t group, groups;      // panels of a piece
  int64_t strip;              // panels that meet a tile one after the other
  int64_t k;                  // of a window
  int64_t fetch, fetch_step;  // bytes fetched by a tile, and for each step of k
  bool fetches_c;             // they are those of c that the next tile's rows take
};

/// Sets what is fetched: where results lie one after the other and are more than what is to come,
/// the place of the next ones, for else a tile starts by waiting for its own.
void set_fetch(const WindowProduct& p, Cut* c) {
  const bool dense = p.g.c != nullptr && p.g.ldc == p.g.n && c->strip >= c->panels &&
                     c->groups == 1 && (p.lines == nullptr || p.lines->uniform());
  const int64_t own = dense ? c->height * p.g.n * p.g.micro->size : 0;
  c->fetches_c = !kSmallBuild && own > 0 && own >= p.fetch.bytes / c->tiles;
  c->fetch = c->fetches_c ? own / c->panels : p.fetch.bytes / (c->tiles * c->panels);
  c->fetch_step = c->fetch / max(c->k, 1);
}

Cut cut(const WindowProduct& p) {
  Cut c;
  c.height = tile_rows(ceil_div(p.cols, ceil_div(p.cols, kTileRows)));
  c.per_line = ceil_div(p.cols, c.height);
  c.tiles = p.g.m / p.cols * c.per_line;
  c.width = kTileVecs * p.g.micro->lanes;
  c.panels = ceil_div(p.g.n, c.width);
  c.k = p.windows.taps_h * p.windows.taps_w * p.run;
  c.strip = max(kStripBytes / max(c.k * c.width * 4, 1), 1);
  const int64_t work = max(c.height * c.k * c.width, 1) * c.panels;  // of a tile
  const bool far = !kSmallBuild && c.panels * c.width * c.k * p.g.micro->size > kFarBytes;
  const int64_t bytes = max(c.height * p.windows.row * p.windows.taps_h, 1);
  const int64_t fit = (far ? kFarChunkBytes : kChunkBytes) / bytes;
  const int64_t even = far ? c.tiles : max(ceil_div(c.tiles, kTasks), ceil_div(kGrainWork, work));
  c.chunk = max(min(fit, even), 1);
  c.chunks = ceil_div(c.tiles, c.chunk);
  c.groups = c.chunks >= kTasks ? 1 : ceil_div(kTasks, c.chunks);
  c.groups = max(min(min(c.groups, c.panels), c.chunk * work / kGrainWork), 1);
  c.group = ceil_div(c.panels, c.groups);
  set_fetch(p, &c);
  return c;
}

/// Lines that follow each other as their windows do are one line, which needs fewer tiles.
void join_lines(WindowProduct* p) {
  const bool even = p->lines == nullptr || p->lines->uniform();
  if (!even || p->line != p->cols * p->windows.row) return;
  p->cols *= p->rows;
  p->rows = 1;
  if (p->image == p->cols * p->windows.row) p->cols = p->g.m;
  p->line = p->image;
}

/// Window j of line `i` of image n.
struct Position {
  int64_t n, i, j;
};

/// Panel `panel` meets the windows of tile `tile`, which start at `at`.
void run_tile_at(const WindowProduct& p, const Cut& cut, const Position& at, int64_t tile,
                 int64_t panel) {
  const Gemm& g = p.g;
  const int64_t size = g.micro->size, lanes = g.micro->lanes, col = panel * cut.width;
  const int64_t row = p.first + (at.n * p.rows + at.i) * p.cols + at.j;
  const int count = static_cast<int>(min(p.cols - at.j, cut.height)), height = tile_rows(count);
  const int cols = static_cast<int>(min(g.n - col, cut.width));
  const int vecs = cols <= lanes ? 1 : kTileVecs;
  alignas(64) uint8_t spare[kTileBytes];
  Tile t = {};
  t.a = static_cast<const uint8_t*>(p.a) + at.n * p.image + at.i * p.line + at.j * p.windows.row;
  t.b = static_cast<const uint8_t*>(g.packed) + col * cut.k * size;
  t.ldb = vecs * lanes;
  const int64_t to = p.lines == nullptr ? row * g.ldc : p.lines->at(row);
  t.c = g.c == nullptr ? spare : static_cast<uint8_t*>(g.c) + (to + col) * size;
  t.ldc = g.c == nullptr ? t.ldb : g.ldc;
  t.k = p.run;
  t.init = g.init == nullptr ? nullptr : static_cast<const uint8_t*>(g.init) + col * size;
  t.relu = g.relu;
  t.count = count;
  t.last = static_cast<int>(cols - (vecs - 1) * lanes);
  Windows windows = p.windows;
  if (cut.fetch > 0) {
    const int64_t next = (cut.height * g.ldc - col) * size + panel * cut.fetch;
    windows.fetch_step = cut.fetch_step;
    windows.fetch = p.fetch.at((tile * cut.panels + panel) * cut.fetch);
    if (cut.fetches_c) windows.fetch = static_cast<const char*>(t.c) + next;
  }
  g.micro->run_windows(height, vecs, t, windows);
  if (g.finish != nullptr) g.finish(g.finish_ctx, t.c, t.ldc, row, count, col, cols);
}

}  // namespace

void multiply_windows(const Call& call, const WindowProduct& product) {
  if (product.g.m == 0 || product.g.n == 0) return;
  WindowProduct p = product;
  if (!kSmallBuild) join_lines(&p);
  const Cut c = cut(p);
  parallel_for(call, c.chunks * c.groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t chunk = task / c.groups, group = task - chunk * c.groups;
      const int64_t first = chunk * c.chunk, last = min(first + c.chunk, c.tiles);
      const int64_t line = first / c.per_line, n = line / p.rows;
      const Position start = {n, line - n * p.rows, (first - line * c.per_line) * c.height};
      const int64_t stop = min((group + 1) * c.group, c.panels);
      for (int64_t panel = group * c.group; panel < stop; panel += c.strip) {
        Position at = start;
        for (int64_t t = first; t < last; ++t) {
          for (int64_t k = panel; k < min(panel + c.strip, stop); ++k) run_tile_at(p, c, at, t, k);
          at.j += c.height;
          if (at.j < p.cols) continue;
          at.j = 0;
          if (++at.i == p.rows) at.i = 0, ++at.n;
        }
      }
    }
  });
}

}  // namespace proa::PROA_ISA
