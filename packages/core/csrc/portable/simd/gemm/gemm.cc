// Blocks: a piece of b, k_block x columns, stays in the second-level cache and meets all of a. It
// is packed there unless it lies so already. The rows of a come by panels of kTileRows, each of
// which meets all of the block's panels of columns while the first-level cache holds it; how a
// panel is had is told by `Rows`. Which way is taken is a matter of speed alone: every element of c
// is the sum of the same terms in the same order.
//
// Floats on one thread of a Cascade Lake whose roof of fused multiply-adds is 153 GFLOP/s: tiles
// make 97 % of it from panels in the first caches and 92 % where rows are read in place; squares
// of 128 and 256 make 86 %, of 512 88 %, of 1024 and 2048 80 %.
#include "proa/simd/gemm/gemm.h"
#include "proa/base/arith.h"

#include <string.h>

namespace proa::PROA_ISA {
namespace {

constexpr int64_t kBlockBytes = 512 * 1024;  // of packed b
constexpr int64_t kOnceBytes = 4 << 20;      // of a, packed for all blocks of columns
constexpr int64_t kFarBytes = 3 << 19;       // of b in place, for more than 2 panels of a
constexpr int64_t kGrainWork = 1 << 19;      // multiply-adds worth handing to another thread
constexpr int kPitchRoom = 64;               // keeps rows from being a power of two apart
constexpr int kStackPanel = kTileRows * ((computes(DType::kF64) ? 2048 : 1536) + kPitchRoom);
constexpr int64_t kSlab = 16;           // rows of b packed at once
constexpr int64_t kFewRows = 4;         // panels of a, for which a panel of b is not worth keeping
constexpr int64_t kFewColumns = 3;      // panels of b, for which rows are not worth transposing,
constexpr int64_t kInPlaceColumns = 8;  // nor copying
constexpr int64_t kConflict = 2048;     // rows so many bytes apart evict each other

/// A build without doubles is one for models, whose b is prepacked: it goes without the ways that
/// spare the packing.
constexpr bool kSparesPacking = computes(DType::kF64);

/// How a product is cut up.
struct Cut {
  int64_t width;    // of a full panel of b
  int64_t k_block;  // units of k at a time
  int64_t columns;  // of b at a time, whole panels
  int64_t height;   // rows of the first panels of a
  int64_t high;     // how many panels are of that height, the others having 2 rows less
  int64_t rows;     // panels of a

  int64_t row_of(int64_t panel) const {
    if (kSmallBuild) return panel * height;
    return panel * height - 2 * (panel > high ? panel - high : 0);
  }
  int64_t height_of(int64_t panel) const {
    return kSmallBuild || panel < high ? height : height - 2;
  }
};

Cut cut(const Micro& micro, int64_t m, int64_t n, int64_t k) {
  Cut c;
  c.width = kTileVecs * micro.lanes;
  c.k_block = gemm_k_block(micro, k);
  c.rows = max(ceil_div(m, kTileRows), 1);
  c.height = tile_rows(max(ceil_div(m, c.rows), 1));
  if (kSmallBuild) c.rows = ceil_div(m, c.height);
  c.high = m == 1 ? 1 : (m + 1) / 2 - (c.height / 2 - 1) * c.rows;
  const int64_t all = round_up(n, c.width), panel = micro.size * c.k_block * c.width;
  c.columns = min(max(kBlockBytes / panel * c.width, c.width), all);
  return c;
}

int64_t panel_bytes(const Micro& micro, const Cut& c, int64_t k) {
  return round_up(c.height * k * micro.size, 64);
}
/// True if a had better be packed once than for every block of columns.
bool packs_once(const Micro& micro, const Cut& c, int64_t n) {
  if (c.rows <= kFewRows) return true;
  return n > c.columns && c.rows * panel_bytes(micro, c, c.k_block) <= kOnceBytes;
}

/// Where the panels of a come from.
enum class Rows {
  kOnce,    // packed before the block
  kPacked,  // on the stack, one after the other
  kCopied,  // side by side on the stack, for run_windows
  kInPlace  // as kCopied, but where they lie
};
Rows rows_of(const Gemm& g, const Cut& c) {
  const Micro& micro = *g.micro;
  if (!g.a.by_step && micro.run_windows != nullptr) {
    if (g.n <= kInPlaceColumns * c.width && g.a.direct != nullptr &&
        g.a.step * micro.size % kConflict != 0)
      return Rows::kInPlace;
    if (g.n <= kFewColumns * c.width && c.rows > kFewRows) return Rows::kCopied;
  }
  return packs_once(micro, c, g.n) ? Rows::kOnce : Rows::kPacked;
}

/// True if full panels of b are read where they lie: all of it fits into the second-level cache,
/// or so few panels of a meet it that packing would take longer than fetching it from afar.
bool reads_in_place(const Gemm& g, const Cut& c) {
  if (!kSparesPacking || g.packed != nullptr || !g.b.by_step || g.b.direct == nullptr) return false;
  const int64_t step = g.b.step * g.micro->size, bytes = step * c.k_block;
  if (g.micro->run_far != nullptr && (c.rows <= 2 || (c.rows <= kFewRows && bytes <= kFarBytes)))
    return true;
  return bytes <= kBlockBytes && g.n <= c.columns && step % (kConflict / 2) != 0;
}

/// One block of b, as run_block sees it.
struct Block {
  const Gemm& g;
  const Cut& cut;
  Rows way;
  bool in_place;      // full panels of b are read where they lie,
  bool far;           // which may be far away
  int64_t col, cols;  // columns of c in this block
  int64_t k0, k;
  uint8_t* buffer;   // for packed panels
  const uint8_t* b;  // packed panels
  uint8_t* acc;      // accumulators of all of c, if it does not take them itself
  int64_t ld_acc;
  uint8_t* a;  // panels packed once
};

int64_t tile_vecs(const Micro& micro, int64_t cols) { return cols <= micro.lanes ? 1 : kTileVecs; }

/// A panel of a: packed, or (pitch != 0) rows so many bytes apart.
struct Panel {
  const void* data;
  int64_t row, pitch;
  int rows;
};

/// With `to`, b is read where it lies and packed there.
void run_tile_at(const Block& s, const Panel& panel, int64_t col, uint8_t* to = nullptr) {
  const Gemm& g = s.g;
  const Micro& micro = *g.micro;
  const int64_t size = micro.size, end = s.col + s.cols, row = panel.row;
  const int rows = panel.rows, height = tile_rows(rows);
  const int cols = static_cast<int>(min(end - col, s.cut.width));
  const int vecs = static_cast<int>(tile_vecs(micro, cols)), width = vecs * micro.lanes;
  const bool done = s.k0 + s.k >= g.k;
  alignas(64) uint8_t spare[kTileBytes];
  Tile t = {};
  t.a = panel.data;
  t.lda = height;
  t.b = s.b + (col - s.col) * s.k * size;
  t.ldb = width;
  if (kSparesPacking && ((s.in_place && cols == s.cut.width) || to != nullptr)) {
    t.b = static_cast<const uint8_t*>(g.b.direct) + (s.k0 * g.b.step + col) * size;
    t.ldb = g.b.step;
  }
  t.c = spare;
  t.ldc = width;
  if (g.c != nullptr) {
    t.c = static_cast<uint8_t*>(g.c) + (row * g.ldc + col) * size;
    t.ldc = g.ldc;
  } else if (s.acc != nullptr) {
    t.c = s.acc + (row * s.ld_acc + col) * size;
    t.ldc = s.ld_acc;
  }
  t.k = s.k;
  t.accumulate = s.k0 > 0;
  t.relu = g.relu && done;
  t.count = rows;
  t.last = cols - (vecs - 1) * micro.lanes;
  // Later blocks of k are added to what the first began with.
  if (g.init != nullptr && s.k0 == 0) t.init = static_cast<const uint8_t*>(g.init) + col * size;
  if (kSparesPacking && to != nullptr) {
    micro.run_packing(t, to);
  } else if (kSparesPacking && panel.pitch == 0 && s.far && row == 0 && cols == s.cut.width) {
    micro.run_far(height, t);
  } else if (panel.pitch == 0) {
    micro.run(height, vecs, t);
  } else {
    const Windows rows_of_a = {panel.pitch, 1, 1, 0, 0};
    micro.run_windows(height, vecs, t, rows_of_a);
  }
  if (g.finish != nullptr && done) g.finish(g.finish_ctx, t.c, t.ldc, row, rows, col, cols);
}

/// Copies the rows of a panel of a side by side, the last one twice if their number is odd.
void copy_rows(const Block& s, const Panel& p, int rows, uint8_t* panel) {
  const Source& a = s.g.a;
  for (int i = 0; i < tile_rows(rows); ++i, panel += p.pitch) {
    const void* from = a.read(a.ctx, p.row + (i < rows ? i : rows - 1), s.k0, s.k, panel);
    if (from != panel) memcpy(panel, from, static_cast<size_t>(s.k * s.g.micro->size));
  }
}

/// Panel `i` of a; `room` takes it if it does not lie ready.
Panel panel_of(const Block& s, int64_t i, uint8_t* room) {
  const Gemm& g = s.g;
  const int64_t size = g.micro->size, row = s.cut.row_of(i);
  const int rows = static_cast<int>(min(g.m - row, s.cut.height_of(i)));
  Panel p = {room, row, 0, rows};
  if (s.way == Rows::kOnce) {
    p.data = s.a + i * panel_bytes(*g.micro, s.cut, s.k);
  } else if (s.way == Rows::kInPlace && tile_rows(rows) == rows) {
    p.data = static_cast<const uint8_t*>(g.a.direct) + (row * g.a.step + s.k0) * size;
    p.pitch = g.a.step * size;
  } else if (s.way == Rows::kPacked) {
    pack_panel(g.a, g.micro->size, row, rows, tile_rows(rows), s.k0, s.k, room);
  } else {
    p.pitch = s.k * size + kPitchRoom;
    copy_rows(s, p, rows, room);
  }
  return p;
}

/// Panels [first, last) of a against columns [begin, end) of the block.
void run_panels(const Block& s, int64_t first, int64_t last, int64_t begin, int64_t end) {
  alignas(64) uint8_t room[kStackPanel + kVecBytes];
  for (int64_t i = first; i < last; ++i) {
    const Panel p = panel_of(s, i, room);
    for (int64_t col = begin; col < end; col += s.cut.width) run_tile_at(s, p, col);
  }
}

/// Packs the columns of b from `begin` on, up to `end`.
void pack_columns(const Micro& micro, const Source& b, int64_t width, int64_t origin, int64_t begin,
                  int64_t end, int64_t k0, int64_t k, uint8_t* to) {
  // A few rows at a time along all the columns, as they lie in memory.
  const int64_t slab = b.by_step ? kSlab : k;
  for (int64_t done = 0; done < k; done += slab) {
    const int64_t some = min(slab, k - done);
    for (int64_t col = begin; col < end; col += width) {
      const int cols = static_cast<int>(min(end - col, width));
      const int padded = static_cast<int>(tile_vecs(micro, cols) * micro.lanes);
      pack_panel(b, micro.size, col, cols, padded, k0 + done, some,
                 to + ((col - origin) * k + done * padded) * micro.size);
    }
  }
}

/// Packs what is to be packed of panels [first, last) of the block.
void pack_block(const Block& s, int64_t first, int64_t last) {
  if (s.g.packed != nullptr) return;
  const int64_t width = s.cut.width, end = s.col + min(last * width, s.cols);
  int64_t begin = s.col + first * width;
  if (kSparesPacking && s.in_place)
    begin = max(begin, s.col + s.cols / width * width);  // the narrow one
  if (begin < end) pack_columns(*s.g.micro, s.g.b, width, s.col, begin, end, s.k0, s.k, s.buffer);
}

/// Packs panels [first, last) of the block while the first panel of a meets them.
void run_first(const Block& s, int64_t first, int64_t last) {
  const Micro& micro = *s.g.micro;
  alignas(64) uint8_t room[kStackPanel + kVecBytes];
  Panel p = {s.a, 0, 0, kTileRows};
  if (s.way != Rows::kOnce) {
    pack_panel(s.g.a, micro.size, 0, kTileRows, kTileRows, s.k0, s.k, room);
    p.data = room;
  }
  for (int64_t j = first; j < last; ++j) {
    const int64_t at = j * s.cut.width;
    uint8_t* const to = s.buffer + at * s.k * micro.size;
    const bool full = s.cols - at >= s.cut.width;
    if (!full) pack_block(s, j, j + 1);
    run_tile_at(s, p, s.col + at, full ? to : nullptr);
  }
}

void run_block(const Call& call, const Block& s) {
  const int64_t panels = ceil_div(s.cols, s.cut.width), rows = s.cut.rows;
  const int64_t tile = max(s.cut.height * s.k * s.cut.width, 1);
  if (rows <= kFewRows) {
    parallel_for(call, panels, ceil_div(kGrainWork, tile * rows), [&](int64_t first, int64_t last) {
      pack_block(s, first, last);
      for (int64_t j = first; j < last; ++j)
        run_panels(s, 0, rows, s.col + j * s.cut.width, s.col + min((j + 1) * s.cut.width, s.cols));
    });
    return;
  }
  const bool fused = kSparesPacking && s.g.packed == nullptr && !s.in_place && s.g.b.by_step &&
                     s.g.b.direct != nullptr && s.cut.height == kTileRows &&
                     s.g.micro->run_packing != nullptr;
  if (fused)
    parallel_for(call, panels, ceil_div(kGrainWork, tile),
                 [&](int64_t first, int64_t last) { run_first(s, first, last); });
  else if (s.g.packed == nullptr)
    parallel_for(call, panels, ceil_div(kGrainWork / 16, max(s.k * s.cut.width, 1)),
                 [&](int64_t first, int64_t last) { pack_block(s, first, last); });
  // Where there are few rows, the columns are shared out too.
  const int64_t splits = rows < 8 ? min(ceil_div(8, rows), panels) : 1;
  const int64_t skip = fused ? 1 : 0;  // panels of a that are done with
  const int64_t each = ceil_div(panels, splits), grain = ceil_div(kGrainWork, tile * each);
  parallel_for(call, (rows - skip) * splits, grain, [&](int64_t first, int64_t last) {
    // Splits of one panel that fall into this piece are run together: a is packed once.
    for (int64_t t = first; t < last;) {
      const int64_t i = t / splits, stop = min(last, (i + 1) * splits);
      const int64_t begin = s.col + (t - i * splits) * each * s.cut.width;
      const int64_t end = s.col + min((stop - i * splits) * each * s.cut.width, s.cols);
      if (begin < end) run_panels(s, i + skip, i + skip + 1, begin, end);
      t = stop;
    }
  });
}

/// Packs the panels of a for one block of k.
void pack_rows(const Call& call, const Block& s) {
  const Micro& micro = *s.g.micro;
  const int64_t bytes = panel_bytes(micro, s.cut, s.k);
  const int64_t grain = ceil_div(kGrainWork / 16, max(s.cut.height * s.k, 1));
  parallel_for(call, s.cut.rows, grain, [&](int64_t first, int64_t last) {
    alignas(64) uint8_t room[kStackPanel + kVecBytes];
    for (int64_t i = first; i < last; ++i) {
      const int64_t row = s.cut.row_of(i);
      const int rows = static_cast<int>(min(s.g.m - row, s.cut.height_of(i)));
      const int width = tile_rows(rows);
      // By way of the stack: packing may write past the end.
      pack_panel(s.g.a, micro.size, row, rows, width, s.k0, s.k, room);
      memcpy(s.a + i * bytes, room, static_cast<size_t>(width * s.k * micro.size));
    }
  });
}

/// Few rows and columns that are lines of memory: these are read from end to end.
void run_few(const Call& call, Block s) {
  const Cut& c = s.cut;
  const int64_t blocks = ceil_div(max(s.g.k, 1), c.k_block);
  uint8_t* const rows = s.a;
  auto select = [&](Block* block, int64_t i) {
    block->k0 = i * c.k_block;
    block->k = min(s.g.k - block->k0, c.k_block);
    block->a = rows + i * c.rows * panel_bytes(*s.g.micro, c, c.k_block);
  };
  for (int64_t i = 0; i < blocks; ++i) {
    select(&s, i);
    if (s.way == Rows::kOnce) pack_rows(call, s);
  }
  const int64_t grain = ceil_div(kGrainWork, max(c.rows * c.height * s.g.k * c.width, 1));
  for (s.col = 0; s.col < s.g.n; s.col += c.columns) {
    s.cols = min(s.g.n - s.col, c.columns);
    parallel_for(call, ceil_div(s.cols, c.width), grain, [&](int64_t first, int64_t last) {
      // Each panel has a place that no other one's block of another size reaches into.
      for (int64_t j = first; j < last; ++j) {
        Block block = s;
        block.col = s.col + j * c.width;
        block.cols = min(s.cols - j * c.width, c.width);
        block.buffer = s.buffer + j * c.width * c.k_block * s.g.micro->size;
        block.b = block.buffer;
        for (int64_t i = 0; i < blocks; ++i) {
          select(&block, i);
          pack_block(block, 0, 1);
          run_panels(block, 0, c.rows, block.col, block.col + block.cols);
        }
      }
    });
  }
}

/// Bytes of the pieces of scratch.
struct Room {
  int64_t b, acc, a;
};
Room room_of(const Micro& micro, const Cut& c, int64_t m, int64_t n, int64_t k, bool has_c,
             bool has_b) {
  Room room = {};
  if (!has_b) room.b = round_up(c.k_block * c.columns * micro.size, 64);
  if (!has_c && k > c.k_block) room.acc = (m + kTileRows) * gemm_columns(micro, n) * micro.size;
  if (packs_once(micro, c, n)) room.a = c.rows * panel_bytes(micro, c, c.k_block);
  if (c.rows <= kFewRows) room.a *= ceil_div(max(k, 1), c.k_block);
  return room;
}

}  // namespace

int64_t gemm_columns(const Micro& micro, int64_t n) { return round_up(n, kTileVecs * micro.lanes); }

int64_t gemm_k_block(const Micro& micro, int64_t k) {
  if (k <= micro.k_block) return max(k, 1);
  return round_up(ceil_div(k, ceil_div(k, micro.k_block)), micro.lanes);
}

size_t gemm_scratch(const Micro& micro, int64_t m, int64_t n, int64_t k, bool has_c, bool has_b) {
  const Room room = room_of(micro, cut(micro, m, n, k), m, n, k, has_c, has_b);
  return static_cast<size_t>(room.b + room.acc + room.a) + 128;
}

void gemm(const Call& call, const Gemm& g, void* scratch) {
  const Micro& micro = *g.micro;
  if (g.m == 0 || g.n == 0) return;
  const Cut c = cut(micro, g.m, g.n, g.k);
  const Room room = room_of(micro, c, g.m, g.n, g.k, g.c != nullptr, g.packed != nullptr);
  uint8_t* const buffer = static_cast<uint8_t*>(scratch);
  const int64_t padded = gemm_columns(micro, g.n);
  const bool in_place = reads_in_place(g, c);
  Block s = {g,
             c,
             rows_of(g, c),
             in_place,
             in_place && c.rows <= kFewRows && micro.run_far != nullptr,
             0,
             0,
             0,
             0,
             buffer,
             buffer,
             nullptr,
             padded,
             nullptr};
  if (room.acc > 0) s.acc = buffer + room.b;
  s.a = buffer + room.b + room.acc;
  if (kSparesPacking && c.rows <= kFewRows && g.packed == nullptr && !g.b.by_step)
    return run_few(call, s);
  do {
    s.k = min(g.k - s.k0, c.k_block);
    if (s.way == Rows::kOnce) pack_rows(call, s);
    for (s.col = 0; s.col < g.n; s.col += c.columns) {
      s.cols = min(g.n - s.col, c.columns);
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

void gemm_pack(const Micro& micro, const Source& b, int64_t n, int64_t k, void* packed) {
  const Cut c = cut(micro, 1, n, k);
  const int64_t padded = gemm_columns(micro, n);
  for (int64_t k0 = 0; k0 < k; k0 += c.k_block)
    pack_columns(micro, b, c.width, 0, 0, n, k0, min(k - k0, c.k_block),
                 static_cast<uint8_t*>(packed) + k0 * padded * micro.size);
}

void gemm_pack_step(int64_t n, int64_t k, int64_t k_block, int64_t step, const float* from,
                    int64_t stride, float* packed) {
  Micro micro = kMicroF32;
  micro.k_block = k_block;
  const Cut c = cut(micro, 1, n, k);
  const int64_t k0 = step / c.k_block * c.k_block, rows = min(k - k0, c.k_block);
  packed += k0 * gemm_columns(micro, n);
  for (int64_t col = 0; col < n; col += c.width) {
    const int64_t cols = min(n - col, c.width), width = tile_vecs(micro, cols) * micro.lanes;
    float* const to = packed + col * rows + (step - k0) * width;
    for (int64_t j = 0; j < cols; ++j) to[j] = from[(col + j) * stride];
    for (int64_t j = cols; j < width; ++j) to[j] = 0.0f;
  }
}

}  // namespace proa::PROA_ISA
