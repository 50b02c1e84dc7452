// Blocks: a piece of b, k_block x columns, is packed to stay in the second-level cache; a panel of
// kTileRows rows of a is packed or copied to the stack, stays in the first-level cache and meets
// all of it.
#include "proa/simd/gemm/gemm.h"

#include <string.h>

namespace proa::PROA_ISA {
namespace {

constexpr int64_t kBlockBytes = 512 * 1024;  // of packed b
constexpr int64_t kGrainWork = 1 << 19;      // multiply-adds worth handing to another thread
constexpr int kPitchRoom = 64;               // keeps rows from being a power of two apart
constexpr int kStackPanel = kTileRows * (384 * 4 + kPitchRoom);
constexpr int64_t kSlab = 16;  // rows of b packed at once

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
int64_t pieces(int64_t n, int64_t size) { return (n + size - 1) / size; }

/// How a product is cut up.
struct Cut {
  int64_t width;    // of a full panel of b
  int64_t k_block;  // units of k at a time
  int64_t columns;  // of b at a time, whole panels
  int64_t height;   // rows of a panel of a
  int64_t rows;     // panels of a
};

Cut cut(const Micro& micro, int64_t m, int64_t n, int64_t k) {
  Cut c;
  c.width = kTileVecs * micro.lanes;
  c.k_block =
      k <= micro.k_block ? most(k, 1) : round_up(pieces(k, pieces(k, micro.k_block)), micro.lanes);
  c.rows = most(pieces(m, kTileRows), 1);
  c.height = tile_rows(most(pieces(m, c.rows), 1));
  c.rows = pieces(m, c.height);
  const int64_t fit = kBlockBytes / micro.size / c.k_block / c.width * c.width;
  c.columns = least(most(fit, c.width), round_up(n, c.width));
  return c;
}

/// One block of b, as run_block sees it.
struct Block {
  const Gemm& g;
  const Cut& cut;
  int64_t col, cols;  // columns of c in this block
  int64_t k0, k;
  const uint8_t* b;  // packed panels
  uint8_t* acc;      // accumulators of all of c, if it does not take them itself
  int64_t ld_acc;
  int64_t pitch;  // bytes between the rows of a copied panel of a, or 0 if it is packed
};

int64_t tile_vecs(const Micro& micro, int64_t cols) { return cols <= micro.lanes ? 1 : kTileVecs; }

void run_tile_at(const Block& s, const void* panel, int64_t row, int64_t col) {
  const Gemm& g = s.g;
  const Micro& micro = *g.micro;
  const int64_t size = micro.size, end = s.col + s.cols;
  const int rows = static_cast<int>(least(g.m - row, s.cut.height)), height = tile_rows(rows);
  const int cols = static_cast<int>(least(end - col, s.cut.width));
  const int vecs = static_cast<int>(tile_vecs(micro, cols)), width = vecs * micro.lanes;
  const bool done = s.k0 + s.k >= g.k;
  alignas(64) uint8_t spare[kTileBytes];
  Tile t = {};
  t.a = panel;
  t.lda = height;
  t.b = s.b + (col - s.col) * s.k * size;
  t.ldb = width;
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
  if (s.pitch == 0) {
    micro.run(height, vecs, t);
  } else {
    const Windows rows_of_a = {s.pitch, 1, 1, 0, 0};
    micro.run_windows(height, vecs, t, rows_of_a);
  }
  if (g.finish != nullptr && done) g.finish(g.finish_ctx, t.c, t.ldc, row, rows, col, cols);
}

/// Copies the rows of a panel of a side by side, the last one twice if their number is odd.
void copy_rows(const Block& s, int64_t row, int rows, uint8_t* panel) {
  const Source& a = s.g.a;
  for (int i = 0; i < tile_rows(rows); ++i, panel += s.pitch) {
    const void* from = a.read(a.ctx, row + (i < rows ? i : rows - 1), s.k0, s.k, panel);
    if (from != panel) memcpy(panel, from, static_cast<size_t>(s.k * s.g.micro->size));
  }
}

/// Panel `i` of a against columns [begin, end) of the block.
void run_panel(const Block& s, int64_t i, int64_t begin, int64_t end) {
  alignas(64) uint8_t panel[kStackPanel + kVecBytes];
  const int64_t row = i * s.cut.height;
  const int rows = static_cast<int>(least(s.g.m - row, s.cut.height));
  if (s.pitch != 0)
    copy_rows(s, row, rows, panel);
  else
    pack_panel(s.g.a, s.g.micro->size, row, rows, tile_rows(rows), s.k0, s.k, panel);
  for (int64_t col = begin; col < end; col += s.cut.width) run_tile_at(s, panel, row, col);
}

/// Packs the columns of b from `begin` on, up to `end`.
void pack_columns(const Micro& micro, const Source& b, int64_t width, int64_t origin, int64_t begin,
                  int64_t end, int64_t k0, int64_t k, uint8_t* to) {
  // A few rows at a time along all the columns, as they lie in memory.
  const int64_t slab = b.by_step ? kSlab : k;
  for (int64_t done = 0; done < k; done += slab) {
    const int64_t some = least(slab, k - done);
    for (int64_t col = begin; col < end; col += width) {
      const int cols = static_cast<int>(least(end - col, width));
      const int padded = static_cast<int>(tile_vecs(micro, cols) * micro.lanes);
      pack_panel(b, micro.size, col, cols, padded, k0 + done, some,
                 to + ((col - origin) * k + done * padded) * micro.size);
    }
  }
}

void run_block(const Call& call, const Block& s) {
  const int64_t panels = pieces(s.cols, s.cut.width);
  // Where there are few rows, the columns are shared out too.
  int64_t splits = 1;
  if (s.cut.rows < 8) splits = least(pieces(8, s.cut.rows), panels);
  const int64_t each = pieces(panels, splits);
  const int64_t work = most(s.cut.height * s.k * least(each * s.cut.width, s.cols), 1);
  const int64_t grain = pieces(kGrainWork, work);
  parallel_for(call, s.cut.rows * splits, grain, [&](int64_t first, int64_t last) {
    // Splits of one panel that fall into this piece are run together: a is packed once.
    for (int64_t t = first; t < last;) {
      const int64_t i = t / splits, stop = least(last, (i + 1) * splits);
      const int64_t begin = s.col + (t - i * splits) * each * s.cut.width;
      const int64_t end = s.col + least((stop - i * splits) * each * s.cut.width, s.cols);
      if (begin < end) run_panel(s, i, begin, end);
      t = stop;
    }
  });
}

}  // namespace

int64_t gemm_columns(const Micro& micro, int64_t n) { return round_up(n, kTileVecs * micro.lanes); }

size_t gemm_scratch(const Micro& micro, int64_t m, int64_t n, int64_t k, bool has_c, bool has_b) {
  const Cut c = cut(micro, m, n, k);
  int64_t bytes = 0;
  if (!has_b) bytes += c.k_block * c.columns * micro.size;
  if (!has_c && k > c.k_block) bytes += (m + kTileRows) * gemm_columns(micro, n) * micro.size;
  return static_cast<size_t>(bytes) + 128;
}

void gemm(const Call& call, const Gemm& g, void* scratch) {
  const Micro& micro = *g.micro;
  if (g.m == 0 || g.n == 0) return;
  const Cut c = cut(micro, g.m, g.n, g.k);
  uint8_t* const buffer = static_cast<uint8_t*>(scratch);
  uint8_t* acc = nullptr;
  if (g.c == nullptr && g.k > c.k_block)
    acc = buffer + (g.packed != nullptr ? 0 : round_up(c.k_block * c.columns * micro.size, 64));
  const int64_t padded = gemm_columns(micro, g.n);
  for (int64_t col = 0; col < g.n; col += c.columns) {
    const int64_t cols = least(g.n - col, c.columns);
    int64_t k0 = 0;
    do {
      const int64_t k = least(g.k - k0, c.k_block);
      // Rows of neighbours in k had better be copied than transposed.
      const bool copies = !g.a.by_step && micro.run_windows != nullptr;
      const int64_t pitch = copies ? k * micro.size + kPitchRoom : 0;
      Block s = {g, c, col, cols, k0, k, buffer, acc, padded, pitch};
      if (g.packed != nullptr) {
        s.b = static_cast<const uint8_t*>(g.packed) + (k0 * padded + col * k) * micro.size;
      } else {
        const int64_t work = most(k * c.width, 1), grain = pieces(kGrainWork / 16, work);
        parallel_for(call, pieces(cols, c.width), grain, [&](int64_t first, int64_t last) {
          pack_columns(micro, g.b, c.width, col, col + first * c.width,
                       least(col + last * c.width, col + cols), k0, k, buffer);
        });
      }
      run_block(call, s);
      k0 += k;
    } while (k0 < g.k);
  }
}

size_t gemm_packed_size(const Micro& micro, int64_t n, int64_t k) {
  return static_cast<size_t>(gemm_columns(micro, n) * k * micro.size) + kVecBytes;
}

void gemm_pack(const Micro& micro, const Source& b, int64_t n, int64_t k, void* packed) {
  const Cut c = cut(micro, 1, n, k);
  const int64_t padded = gemm_columns(micro, n);
  for (int64_t k0 = 0; k0 < k; k0 += c.k_block)
    pack_columns(micro, b, c.width, 0, 0, n, k0, least(k - k0, c.k_block),
                 static_cast<uint8_t*>(packed) + k0 * padded * micro.size);
}

void gemm_pack_step(int64_t n, int64_t k, int64_t k_block, int64_t step, const float* from,
                    int64_t stride, float* packed) {
  Micro micro = kMicroF32;
  micro.k_block = k_block;
  const Cut c = cut(micro, 1, n, k);
  const int64_t k0 = step / c.k_block * c.k_block, rows = least(k - k0, c.k_block);
  packed += k0 * gemm_columns(micro, n);
  for (int64_t col = 0; col < n; col += c.width) {
    const int64_t cols = least(n - col, c.width), width = tile_vecs(micro, cols) * micro.lanes;
    float* const to = packed + col * rows + (step - k0) * width;
    for (int64_t j = 0; j < cols; ++j) to[j] = from[(col + j) * stride];
    for (int64_t j = cols; j < width; ++j) to[j] = 0.0f;
  }
}

}  // namespace proa::PROA_ISA
