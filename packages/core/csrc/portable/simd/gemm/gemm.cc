// The five loops around the micro-kernel, named as in BLIS (Van Zee and van de Geijn, 2015): blocks
// of nc columns and kc steps of b are packed into the second-level cache; panels of mr rows of a
// stream through the first-level cache; each is multiplied by all panels of nr columns of the
// block. Which operands are packed, and when, only affects speed: every element of c is the sum of
// the same terms in the same order on every path.
//
// float32 on one thread of a Cascade Lake with a measured FMA peak of 153 GFLOP/s: the micro-kernel
// reaches 97 % of peak on packed panels in cache and 92 % when it reads a in place; squares of 128
// and 256 reach 86 %, of 512 88 %, of 1024 and 2048 80 %.
#include "proa/simd/gemm/gemm.h"

#include <string.h>

#include "proa/base/arith.h"
#include "proa/base/task_size.h"
#include "proa/simd/gemm/epilogue.h"
#include "proa/simd/tuning.h"

namespace proa::PROA_ISA {
namespace {

constexpr int kRowPadding = 64;  // bytes; avoids row strides of a power of two
constexpr int kPanelBytes = kMaxTileRows * ((computes(DType::kF64) ? 2048 : 1536) + kRowPadding);

/// Without float64 the library only runs models, whose b is prepacked: the paths that avoid
/// packing b are left out.
constexpr bool kHasUnpackedPaths = computes(DType::kF64);

/// Sizes of blocks and panels.
struct Blocking {
  int64_t nr;  // columns of a full panel of b
  int64_t kc;  // units of k in a block
  int64_t nc;  // columns of a block, a multiple of nr
  int64_t mr;  // rows of the first `tall_panels` panels of a; the others have mr - 2
  int64_t tall_panels;
  int64_t panels;  // of a

  int64_t panel_row(int64_t panel) const {
    if (kSmallBuild) return panel * mr;
    return panel * mr - 2 * (panel > tall_panels ? panel - tall_panels : 0);
  }
  int64_t panel_height(int64_t panel) const {
    return kSmallBuild || panel < tall_panels ? mr : mr - 2;
  }
};

Blocking choose_blocking(const Micro& micro, int64_t m, int64_t n, int64_t k) {
  Blocking c;
  c.nr = kTileVecs * micro.lanes;
  c.kc = gemm_k_block(micro, k);
  c.panels = max(ceil_div(m, micro.rows), 1);
  c.mr = micro.height(max(ceil_div(m, c.panels), 1));
  if (kSmallBuild) c.panels = ceil_div(m, c.mr);
  c.tall_panels = m == 1 ? 1 : (m + 1) / 2 - (c.mr / 2 - 1) * c.panels;
  const int64_t all = round_up(n, c.nr), panel = micro.size * c.kc * c.nr;
  c.nc = min(max(caches().packed_b / panel * c.nr, c.nr), all);
  return c;
}

/// Bytes between the rows of a panel that are copied.
int64_t row_pitch(const Micro& micro, int64_t k) { return k * micro.size + kRowPadding; }
int64_t panel_bytes(const Micro& micro, const Blocking& c, int64_t k) {
  if (micro.takes_rows()) return round_up(c.mr, kLanes) * row_pitch(micro, k);
  return round_up(c.mr * k * micro.size, 64);
}
/// True if a is packed once for all blocks of columns rather than once for each.
bool packs_whole_a(const Micro& micro, const Blocking& c, int64_t n) {
  if (c.panels <= kFewPanelsA) return true;
  return n > c.nc && c.panels * panel_bytes(micro, c, c.kc) <= caches().whole_a;
}

/// How panels of a reach the micro-kernel.
enum class PackA {
  kWhole,   // all panels are packed into scratch before the blocks that use them
  kPanel,   // each panel is packed on the stack when it is needed
  kRows,    // the rows of a panel are copied to the stack, for run_patches
  kInPlace  // run_patches reads the rows from a itself
};
PackA choose_pack_a(const Gemm& g, const Blocking& c) {
  const Micro& micro = *g.micro;
  if (micro.takes_rows()) {
    const bool in_place = g.a.direct != nullptr && g.a.step * micro.size % kAliasBytes != 0;
    if (in_place) return PackA::kInPlace;
  } else if (!g.a.mn_major && micro.run_patches != nullptr) {
    if (g.n <= kInPlacePanelsB * c.nr && g.a.direct != nullptr &&
        g.a.step * micro.size % kAliasBytes != 0)
      return PackA::kInPlace;
    if (g.n <= kFewPanelsB * c.nr && c.panels > kFewPanelsA) return PackA::kRows;
  }
  return packs_whole_a(micro, c, g.n) ? PackA::kWhole : PackA::kPanel;
}

/// How panels of b reach the micro-kernel.
enum class PackB {
  kPrepacked,  // gemm_pack has packed all of b
  kBlock,      // a block is packed before it is used
  kFirstTile,  // a block is packed while the first panel of a is multiplied by it
  kPanel,      // each panel is packed for all of k right before it is used
  kInPlace,    // full panels are read from b itself,
  kUncached    // which is in no cache yet
};
PackB choose_pack_b(const Gemm& g, const Blocking& c) {
  if (g.packed != nullptr) return PackB::kPrepacked;
  if (!kHasUnpackedPaths) return PackB::kBlock;
  const bool few_a = c.panels <= kFewPanelsA;
  if (!g.b.mn_major) return few_a ? PackB::kPanel : PackB::kBlock;
  if (g.b.direct == nullptr) return PackB::kBlock;
  const int64_t step = g.b.step * g.micro->size, bytes = step * c.kc;
  // So few panels of a use b that packing would take longer than reading uncached memory.
  const bool uncached = g.micro->variants.run_uncached != nullptr;
  if (uncached && (c.panels <= 2 || (few_a && bytes <= caches().uncached_b)))
    return PackB::kUncached;
  // It fits into the second-level cache.
  if (bytes <= caches().packed_b && g.n <= c.nc && step % (kAliasBytes / 2) != 0)
    return uncached && few_a ? PackB::kUncached : PackB::kInPlace;
  const bool fused = !few_a && c.mr == kTileRows && g.micro->variants.run_and_pack_b != nullptr;
  return fused ? PackB::kFirstTile : PackB::kBlock;
}

/// How a product is computed.
struct Strategy {
  PackA a;
  PackB b;
  bool b_in_place() const { return b == PackB::kInPlace || b == PackB::kUncached; }
};

/// Scratch for the operands, and for sums that are not stored in c.
struct Buffers {
  uint8_t* packed_b;
  uint8_t* packed_a;  // panels of PackA::kWhole
  uint8_t* sums;      // or nullptr
  int64_t ld_sums;
};

/// What follows a block in its task: see set_prefetch.
struct NextPanels {
  int64_t end = 0;                  // the columns of the task end here,
  const uint8_t* panels = nullptr;  // and then it reads these panels, if any
};

/// One block of b, with what run_block needs to multiply it.
struct Block {
  const Gemm& g;
  const Blocking& blocking;
  Strategy strategy;
  Buffers buffers;
  const uint8_t* b;           // its packed panels: in buffers.packed_b or g.packed
  int64_t col = 0, cols = 0;  // columns of c
  int64_t k0 = 0, k = 0;      // units of k
  NextPanels next = {};       // set by run_columns

  int64_t panels() const { return ceil_div(cols, blocking.nr); }
};

int64_t tile_vecs(const Micro& micro, int64_t cols) { return cols <= micro.lanes ? 1 : kTileVecs; }

/// A panel of a: packed, or (pitch != 0) rows so many bytes apart.
struct Panel {
  const void* data;
  int64_t row, pitch;
  int rows;
};

/// Prefetches the tile's share of the panels of a prepacked b that are used next: the next panel,
/// if each is used by all panels of a in sequence, else those of the next block, which follow.
void set_prefetch(const Block& s, const Panel& panel, int64_t col, Tile* t) {
  const Blocking& c = s.blocking;
  const int64_t i = panel.row / c.mr, size = s.g.micro->size;
  const int64_t width = ceil_div(c.nr * size, c.panels), share = width * s.k;
  const uint8_t* from = s.b + (col + c.nr - s.col) * s.k * size;
  if (c.panels > kFewPanelsA) {
    if (s.k0 + s.k >= s.g.k && s.col + s.cols >= s.g.n) return;
    from = s.b + s.panels() * (c.nr * s.k * size + i * share) + (col - s.col) / c.nr * share;
  } else {
    if (col + c.nr >= s.next.end) from = s.next.panels;
    if (from == nullptr) return;
    from += i * share;
  }
  t->prefetch = {from, width};
}

/// The sums of a tile: where they are kept, unless that is scratch of the tile alone, what they
/// start from and how many steps they take.
void set_place(const Block& s, int64_t row, int64_t col, Tile* t) {
  const Gemm& g = s.g;
  const int64_t size = g.micro->size;
  if (g.out.c != nullptr) {
    t->c.data = static_cast<uint8_t*>(g.out.c) + (row * g.out.ldc + col) * size;
    t->c.ld = g.out.ldc;
  } else if (s.buffers.sums != nullptr) {
    t->c.data = s.buffers.sums + (row * s.buffers.ld_sums + col) * size;
    t->c.ld = s.buffers.ld_sums;
  }
  t->k = s.k;
  t->accumulate = s.k0 > 0;
  t->epilogue.relu = g.out.relu && s.k0 + s.k >= g.k;
  // Later blocks of k are added to what the first began with.
  if (g.init != nullptr && s.k0 == 0) t->init = static_cast<const uint8_t*>(g.init) + col * size;
}

/// Multiplies the only row of a by kRowPanels full panels of a prepacked b.
void run_row_at(const Block& s, const Panel& panel, int64_t col) {
  const Gemm& g = s.g;
  const int64_t nr = s.blocking.nr, size = g.micro->size;
  alignas(64) uint8_t spare[kRowPanels * kTileVecs * kVecBytes];
  Tile t = {};
  t.a.data = panel.data;
  t.b.data = s.b + (col - s.col) * s.k * size;
  t.c = {spare, 0, 1, g.micro->lanes};
  set_place(s, 0, col, &t);
  g.micro->variants.run_row(t, nr * s.k * size);
  if (g.out.epilogue == nullptr || s.k0 + s.k < g.k) return;
  for (int p = 0; p < kRowPanels; ++p)
    g.out.epilogue(g.out.epilogue_ctx, static_cast<uint8_t*>(t.c.data) + p * nr * size, t.c.ld, 0,
                   1, col + p * nr, static_cast<int>(nr));
}

/// Multiplies one tile. With `to`, b is read in place and also written there, packed.
void run_tile_at(const Block& s, const Panel& panel, int64_t col, AmxState* amx,
                 uint8_t* to = nullptr) {
  const Gemm& g = s.g;
  const Micro& micro = *g.micro;
  const int64_t size = micro.size, end = s.col + s.cols, row = panel.row;
  const int rows = panel.rows, height = micro.height(rows);
  const int cols = static_cast<int>(min(end - col, s.blocking.nr));
  const int vecs = static_cast<int>(tile_vecs(micro, cols)), width = vecs * micro.lanes;
  const bool done = s.k0 + s.k >= g.k;
  alignas(64) uint8_t spare[kTileBytes];
  Tile t = {};
  t.a = {panel.data, height};
  t.b = {s.b + (col - s.col) * s.k * size, width};
  const bool full = cols == s.blocking.nr;
  if (kHasUnpackedPaths && ((s.strategy.b_in_place() && full) || to != nullptr))
    t.b = {static_cast<const uint8_t*>(g.b.direct) + (s.k0 * g.b.step + col) * size, g.b.step};
  t.c = {spare, width, rows, cols - (vecs - 1) * micro.lanes};
  set_place(s, row, col, &t);
  t.amx = amx;
  NarrowEnd narrow;
  if constexpr (kHasBf16Pairs) {
    if (micro.narrows && g.out.narrows && done && !t.accumulate &&
        narrow_end(*static_cast<const FloatEpilogue*>(g.out.epilogue_ctx), row, rows, col, &narrow))
      t.epilogue.narrow = &narrow;
  }
  if (kHasUnpackedPaths && to != nullptr) {
    micro.variants.run_and_pack_b(t, to);
  } else if (kHasUnpackedPaths && panel.pitch == 0 && s.strategy.b == PackB::kUncached &&
             row == 0 && full) {
    micro.variants.run_uncached(height, t);
  } else if (panel.pitch == 0) {
    if (!kSmallBuild && s.strategy.b == PackB::kPrepacked) set_prefetch(s, panel, col, &t);
    micro.run(height, vecs, t);
  } else {
    if (micro.takes_rows() && s.strategy.b == PackB::kPrepacked) set_prefetch(s, panel, col, &t);
    micro.run_patches(height, vecs, t, {panel.pitch, 1, 1, 0, 0});
  }
  if (g.out.epilogue != nullptr && done && t.epilogue.narrow == nullptr)
    g.out.epilogue(g.out.epilogue_ctx, t.c.data, t.c.ld, row, rows, col, cols);
}

/// Copies the rows of a panel of a one after the other, the last one twice if their number is odd.
void copy_rows(const Block& s, const Panel& p, uint8_t* panel) {
  const PackOperand& a = s.g.a;
  if constexpr (kHasAmx) {
    if (a.mn_major) return pack_rows_of_steps(a, p.row, p.rows, s.k0, s.k, p.pitch, panel);
  }
  for (int i = 0; i < s.g.micro->height(p.rows); ++i, panel += p.pitch) {
    const void* from = a.read(a.ctx, p.row + (i < p.rows ? i : p.rows - 1), s.k0, s.k, panel);
    if (from != panel) memcpy(panel, from, static_cast<size_t>(s.k * s.g.micro->size));
  }
}

/// Panel `i` of a, in `buffer` if it has to be packed or copied.
Panel load_panel(const Block& s, int64_t i, uint8_t* buffer) {
  const Gemm& g = s.g;
  const int64_t size = g.micro->size, row = s.blocking.panel_row(i);
  const int rows = static_cast<int>(min(g.m - row, s.blocking.panel_height(i)));
  Panel p = {buffer, row, 0, rows};
  const bool by_rows = g.micro->takes_rows();
  if (s.strategy.a == PackA::kWhole) {
    p.data = s.buffers.packed_a + i * panel_bytes(*g.micro, s.blocking, s.k);
    if (by_rows) p.pitch = row_pitch(*g.micro, s.k);
  } else if (s.strategy.a == PackA::kInPlace && (by_rows || g.micro->height(rows) == rows)) {
    p.data = static_cast<const uint8_t*>(g.a.direct) + (row * g.a.step + s.k0) * size;
    p.pitch = g.a.step * size;
  } else if (s.strategy.a == PackA::kPanel && !by_rows) {
    pack_panel(g.a, g.micro->size, row, rows, tile_rows(rows), s.k0, s.k, buffer);
  } else {
    p.pitch = row_pitch(*g.micro, s.k);
    copy_rows(s, p, buffer);
  }
  return p;
}

/// Panels [first, last) of a against columns [begin, end) of the block.
void run_panels(const Block& s, int64_t first, int64_t last, int64_t begin, int64_t end) {
  alignas(64) uint8_t buffer[kPanelBytes + kVecBytes];
  AmxState amx;
  for (int64_t i = first; i < last; ++i) {
    const Panel p = load_panel(s, i, buffer);
    if (kHasUnpackedPaths && s.g.m == 1 && s.strategy.b == PackB::kPrepacked &&
        s.g.micro->variants.run_row != nullptr) {
      const int64_t group = kRowPanels * s.blocking.nr;
      for (; begin + group <= end; begin += group) run_row_at(s, p, begin);
    }
    for (int64_t col = begin; col < end; col += s.blocking.nr) run_tile_at(s, p, col, &amx);
  }
}

/// Packs the columns of b from `begin` on, up to `end`.
void pack_columns(const Micro& micro, const PackOperand& b, int64_t width, int64_t origin,
                  int64_t begin, int64_t end, int64_t k0, int64_t k, uint8_t* to) {
  // A few rows at a time along all columns: b is read in memory order.
  const int64_t slab = b.mn_major ? kPackRows : k;
  for (int64_t done = 0; done < k; done += slab) {
    const int64_t count = min(slab, k - done);
    for (int64_t col = begin; col < end; col += width) {
      const int cols = static_cast<int>(min(end - col, width));
      const int padded = static_cast<int>(tile_vecs(micro, cols) * micro.lanes);
      pack_panel(b, micro.size, col, cols, padded, k0 + done, count,
                 to + ((col - origin) * k + done * padded) * micro.size);
    }
  }
}

/// Packs panels [first, last) of the block, unless they are prepacked or read in place.
void pack_block(const Block& s, int64_t first, int64_t last) {
  if (s.strategy.b == PackB::kPrepacked) return;
  const int64_t width = s.blocking.nr, end = s.col + min(last * width, s.cols);
  int64_t begin = s.col + first * width;
  if (kHasUnpackedPaths && s.strategy.b_in_place())
    begin = max(begin, s.col + s.cols / width * width);  // only the narrow panel
  if (begin < end)
    pack_columns(*s.g.micro, s.g.b, width, s.col, begin, end, s.k0, s.k, s.buffers.packed_b);
}

/// Packs panels [first, last) of the block while multiplying the first panel of a by them.
void run_first(const Block& s, int64_t first, int64_t last) {
  const Micro& micro = *s.g.micro;
  alignas(64) uint8_t buffer[kPanelBytes + kVecBytes];
  Panel p = {s.buffers.packed_a, 0, 0, kTileRows};
  if (s.strategy.a != PackA::kWhole) {
    pack_panel(s.g.a, micro.size, 0, kTileRows, kTileRows, s.k0, s.k, buffer);
    p.data = buffer;
  }
  for (int64_t j = first; j < last; ++j) {
    const int64_t offset = j * s.blocking.nr;
    uint8_t* const to = s.buffers.packed_b + offset * s.k * micro.size;
    const bool full = s.cols - offset >= s.blocking.nr;
    if (!full) pack_block(s, j, j + 1);
    run_tile_at(s, p, s.col + offset, nullptr, full ? to : nullptr);
  }
}

void run_block(const Call& call, const Block& s) {
  const int64_t panels = ceil_div(s.cols, s.blocking.nr), rows = s.blocking.panels;
  const int64_t tile = max(s.blocking.mr * s.k * s.blocking.nr, 1);
  if (rows <= kFewPanelsA) {
    parallel_for(call, panels, ceil_div(kGemmTaskMacs, tile * rows),
                 [&](int64_t first, int64_t last) {
                   pack_block(s, first, last);
                   for (int64_t j = first; j < last; ++j)
                     run_panels(s, 0, rows, s.col + j * s.blocking.nr,
                                s.col + min((j + 1) * s.blocking.nr, s.cols));
                 });
    return;
  }
  const bool fused = kHasUnpackedPaths && s.strategy.b == PackB::kFirstTile;
  if (fused)
    parallel_for(call, panels, ceil_div(kGemmTaskMacs, tile),
                 [&](int64_t first, int64_t last) { run_first(s, first, last); });
  else if (s.strategy.b != PackB::kPrepacked)
    parallel_for(call, panels, ceil_div(kGemmTaskMacs / 16, max(s.k * s.blocking.nr, 1)),
                 [&](int64_t first, int64_t last) { pack_block(s, first, last); });
  // With few panels of a the columns are split into tasks too.
  const int64_t splits = rows < 8 ? min(ceil_div(8, rows), panels) : 1;
  const int64_t skip = fused ? 1 : 0;  // panels of a already multiplied
  const int64_t each = ceil_div(panels, splits), grain = ceil_div(kGemmTaskMacs, tile * each);
  parallel_for(call, (rows - skip) * splits, grain, [&](int64_t first, int64_t last) {
    // Splits of one panel that fall into this chunk run together: a is packed once.
    for (int64_t t = first; t < last;) {
      const int64_t i = t / splits, stop = min(last, (i + 1) * splits);
      const int64_t begin = s.col + (t - i * splits) * each * s.blocking.nr;
      const int64_t end = s.col + min((stop - i * splits) * each * s.blocking.nr, s.cols);
      if (begin < end) run_panels(s, i + skip, i + skip + 1, begin, end);
      t = stop;
    }
  });
}

/// Packs the panels of a for one block of k.
void pack_rows(const Call& call, const Block& s) {
  const Micro& micro = *s.g.micro;
  const int64_t bytes = panel_bytes(micro, s.blocking, s.k);
  const int64_t grain = ceil_div(kGemmTaskMacs / 16, max(s.blocking.mr * s.k, 1));
  parallel_for(call, s.blocking.panels, grain, [&](int64_t first, int64_t last) {
    alignas(64) uint8_t buffer[kPanelBytes + kVecBytes];
    for (int64_t i = first; i < last; ++i) {
      const int64_t row = s.blocking.panel_row(i);
      const int rows = static_cast<int>(min(s.g.m - row, s.blocking.panel_height(i)));
      if (micro.takes_rows()) {
        copy_rows(s, {nullptr, row, row_pitch(micro, s.k), rows}, s.buffers.packed_a + i * bytes);
        continue;
      }
      const int width = tile_rows(rows);
      // Through the stack: packing may write past the end.
      pack_panel(s.g.a, micro.size, row, rows, width, s.k0, s.k, buffer);
      memcpy(s.buffers.packed_a + i * bytes, buffer, static_cast<size_t>(width * s.k * micro.size));
    }
  });
}

/// Few panels of a and a prepacked b: each task multiplies them by its columns along all of k.
void run_columns(const Call& call, Block s) {
  const Blocking& c = s.blocking;
  const int64_t blocks = ceil_div(max(s.g.k, 1), c.kc), size = s.g.micro->size;
  const int64_t padded = gemm_columns(*s.g.micro, s.g.n), panels = ceil_div(s.g.n, c.nr);
  uint8_t* const panels_a = s.buffers.packed_a;
  s.cols = s.g.n;
  auto select = [&](Block* block, int64_t i) {
    block->k0 = i * c.kc;
    block->k = min(s.g.k - block->k0, c.kc);
    block->buffers.packed_a = panels_a + i * c.panels * panel_bytes(*s.g.micro, c, c.kc);
    block->b = static_cast<const uint8_t*>(s.g.packed) + block->k0 * padded * size;
  };
  for (int64_t i = 0; s.strategy.a == PackA::kWhole && i < blocks; ++i) {
    select(&s, i);
    pack_rows(call, s);
  }
  const int64_t macs = max(c.panels * c.mr * s.g.k * c.nr, 1);
  // A product of one row waits for memory.
  const int64_t grain = ceil_div(s.g.m == 1 ? kGemmTaskMacs / 4 : kGemmTaskMacs, macs);
  parallel_for(call, panels, max(grain, panels / kColumnTasks), [&](int64_t first, int64_t last) {
    for (int64_t i = 0; i < blocks; ++i) {
      Block block = s;
      select(&block, i);
      block.next.panels = i + 1 < blocks ? block.b + (padded * block.k + first * c.nr * c.kc) * size
                          : last < panels ? static_cast<const uint8_t*>(s.g.packed) +
                                                last * c.nr * min(c.kc, s.g.k) * size
                                          : nullptr;
      block.next.end = min(last * c.nr, s.g.n);
      if (s.g.m == 1) {
        run_panels(block, 0, 1, first * c.nr, block.next.end);
        continue;
      }
      for (int64_t j = first; j < last; ++j)
        run_panels(block, 0, c.panels, j * c.nr, min((j + 1) * c.nr, s.g.n));
    }
  });
}

/// PackB::kPanel: few panels of a, and a b that is contiguous along k.
void run_panels_of_b(const Call& call, Block s) {
  const Blocking& c = s.blocking;
  const int64_t blocks = ceil_div(max(s.g.k, 1), c.kc);
  uint8_t* const panels_a = s.buffers.packed_a;
  auto select = [&](Block* block, int64_t i) {
    block->k0 = i * c.kc;
    block->k = min(s.g.k - block->k0, c.kc);
    block->buffers.packed_a = panels_a + i * c.panels * panel_bytes(*s.g.micro, c, c.kc);
  };
  for (int64_t i = 0; i < blocks; ++i) {
    select(&s, i);
    if (s.strategy.a == PackA::kWhole) pack_rows(call, s);
  }
  const int64_t grain = ceil_div(kGemmTaskMacs, max(c.panels * c.mr * s.g.k * c.nr, 1));
  for (s.col = 0; s.col < s.g.n; s.col += c.nc) {
    s.cols = min(s.g.n - s.col, c.nc);
    parallel_for(call, ceil_div(s.cols, c.nr), grain, [&](int64_t first, int64_t last) {
      // Disjoint buffers per panel: blocks of k differ in size.
      for (int64_t j = first; j < last; ++j) {
        Block block = s;
        block.col = s.col + j * c.nr;
        block.cols = min(s.cols - j * c.nr, c.nr);
        block.buffers.packed_b = s.buffers.packed_b + j * c.nr * c.kc * s.g.micro->size;
        block.b = block.buffers.packed_b;
        for (int64_t i = 0; i < blocks; ++i) {
          select(&block, i);
          pack_block(block, 0, 1);
          run_panels(block, 0, c.panels, block.col, block.col + block.cols);
        }
      }
    });
  }
}

/// Byte counts of the parts of scratch, in this order.
struct ScratchSizes {
  int64_t packed_b, sums, packed_a;
};
ScratchSizes scratch_sizes(const Micro& micro, const Blocking& c, int64_t m, int64_t n, int64_t k,
                           bool has_c, bool has_b) {
  ScratchSizes sizes = {};
  if (!has_b) sizes.packed_b = round_up(c.kc * c.nc * micro.size, 64);
  if (!has_c && k > c.kc) sizes.sums = (m + kMaxTileRows) * gemm_columns(micro, n) * micro.size;
  if (packs_whole_a(micro, c, n)) sizes.packed_a = c.panels * panel_bytes(micro, c, c.kc);
  if (c.panels <= kFewPanelsA) sizes.packed_a *= ceil_div(max(k, 1), c.kc);
  return sizes;
}

}  // namespace

int64_t gemm_columns(const Micro& micro, int64_t n) { return round_up(n, kTileVecs * micro.lanes); }

int64_t gemm_k_block(const Micro& micro, int64_t k) {
  if (k <= micro.k_block) return max(k, 1);
  return round_up(ceil_div(k, ceil_div(k, micro.k_block)), micro.lanes);
}

size_t gemm_scratch(const Micro& micro, int64_t m, int64_t n, int64_t k, bool has_c, bool has_b) {
  const ScratchSizes sizes =
      scratch_sizes(micro, choose_blocking(micro, m, n, k), m, n, k, has_c, has_b);
  return static_cast<size_t>(sizes.packed_b + sizes.sums + sizes.packed_a) + 128;
}

void gemm(const Call& call, const Gemm& g, void* scratch) {
  const Micro& micro = *g.micro;
  if (g.m == 0 || g.n == 0) return;
  const Blocking c = choose_blocking(micro, g.m, g.n, g.k);
  const ScratchSizes sizes =
      scratch_sizes(micro, c, g.m, g.n, g.k, g.out.c != nullptr, g.packed != nullptr);
  const int64_t padded = gemm_columns(micro, g.n);
  uint8_t* const packed_b = static_cast<uint8_t*>(scratch);
  uint8_t* const sums = packed_b + sizes.packed_b;
  const Buffers buffers = {packed_b, sums + sizes.sums, sizes.sums > 0 ? sums : nullptr, padded};
  Block s = {g, c, {choose_pack_a(g, c), choose_pack_b(g, c)}, buffers, packed_b};
  if (kHasUnpackedPaths && s.strategy.b == PackB::kPanel) return run_panels_of_b(call, s);
  if (kHasUnpackedPaths && s.strategy.b == PackB::kPrepacked && c.panels <= kFewPanelsA)
    return run_columns(call, s);
  do {
    s.k = min(g.k - s.k0, c.kc);
    if (s.strategy.a == PackA::kWhole) pack_rows(call, s);
    for (s.col = 0; s.col < g.n; s.col += c.nc) {
      s.cols = min(g.n - s.col, c.nc);
      if (g.packed != nullptr)
        s.b = static_cast<const uint8_t*>(g.packed) + (s.k0 * padded + s.col * s.k) * micro.size;
      run_block(call, s);
    }
    s.k0 += s.k;
  } while (s.k0 < g.k);
}

size_t gemm_packed_size(const Micro& micro, int64_t n, int64_t k) {
  return static_cast<size_t>(gemm_columns(micro, n) * k * micro.size) + kVecBytes;
}

void gemm_pack(const Micro& micro, const PackOperand& b, int64_t n, int64_t k, void* packed) {
  const Blocking c = choose_blocking(micro, 1, n, k);
  const int64_t padded = gemm_columns(micro, n);
  for (int64_t k0 = 0; k0 < k; k0 += c.kc)
    pack_columns(micro, b, c.nr, 0, 0, n, k0, min(k - k0, c.kc),
                 static_cast<uint8_t*>(packed) + k0 * padded * micro.size);
}

void gemm_pack_step(int64_t n, int64_t k, int64_t k_block, int64_t step, const float* from,
                    int64_t stride, float* packed) {
  Micro micro = kMicroF32;
  micro.k_block = k_block;
  const Blocking c = choose_blocking(micro, 1, n, k);
  const int64_t k0 = step / c.kc * c.kc, rows = min(k - k0, c.kc);
  packed += k0 * gemm_columns(micro, n);
  for (int64_t col = 0; col < n; col += c.nr) {
    const int64_t cols = min(n - col, c.nr), width = tile_vecs(micro, cols) * micro.lanes;
    float* const to = packed + col * rows + (step - k0) * width;
    for (int64_t j = 0; j < cols; ++j) to[j] = from[(col + j) * stride];
    for (int64_t j = cols; j < width; ++j) to[j] = 0.0f;
  }
}

}  // namespace proa::PROA_ISA
