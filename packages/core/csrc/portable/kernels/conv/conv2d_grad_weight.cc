// dw(o, c, p, q) = sum over pixels of dy(pixel, o) * x(patch of the pixel at tap p, q, channel c):
// a matrix product whose k runs over the pixels of all images, outs x pixels x (taps, channels).
// The pixels are taken in blocks. Some blocks of dy are packed to stay in the second-level cache;
// a panel of the patches of one block is copied to the stack, where the first-level cache holds
// it, and multiplied by all of those. With too few panels for the threads, the pixels are split.
// For an x with few channels the transpose is computed: rows of taps, read in place from a padded
// input, by vectors of dy; k runs along a line of pixels.
// BF16 is multiplied by pairs of pixels, by AMX where it is in use: panels of dy are then rows of
// pixels, and few channels are no reason to transpose, as whole rows of a window are copied from a
// padded input. The transpose takes pairs along a line, and widens BF16 if lines have an odd number
// of pixels.
#include <string.h>

#include "proa/base/arith.h"
#include "proa/base/dispatch.h"
#include "proa/base/task_size.h"
#include "proa/kernels/conv/depthwise_weight.h"
#include "proa/kernels/conv/grad_weight_job.h"
#include "proa/kernels/conv/pixel_panels.h"
#include "proa/kernels/conv/weight_sums.h"
#include "proa/kernels/conv/winograd_weight.h"
#include "proa/simd/conv/depthwise.h"
#include "proa/simd/gemm/gemm.h"
#include "proa/simd/tuning.h"

namespace proa::PROA_ISA {
namespace {

constexpr int64_t kMaxPixelStride = 512;  // bytes between pixels of dy that do not evict each other

size_t align64(size_t n) { return (n + 63) & ~size_t{63}; }

/// Elements between the sums of an out channel, and of an element of the patches.
struct Strides {
  int64_t out, element;
};
Strides strides_of(const GradWeightJob& j) {
  return j.patch.direct ? Strides{1, j.sums.columns} : Strides{j.sums.columns, 1};
}
/// Rows of sums of one part.
int64_t sum_rows(const GradWeightJob& j) {
  return j.patch.direct ? j.patch.size : j.c.channels.out;
}

size_t sum_bytes(const GradWeightJob& j) {
  if (j.sums.straight) return 0;
  return align64(static_cast<size_t>(j.blocks.parts * sum_rows(j) * j.sums.columns * j.unit.size));
}
/// Bytes of a line of dy by pairs of pixels.
int64_t line_bytes(const GradWeightJob& j) {
  return gemm_columns(j.micro(), j.c.channels.out) * j.unit.count(j.c.output.width) * j.unit.size;
}
/// Bytes of the blocks of dy of one part; with capacity for a vector past the end.
size_t taken_bytes(const GradWeightJob& j) {
  if (j.patch.direct) return j.unit.pairs ? align64(static_cast<size_t>(line_bytes(j))) : 0;
  return align64(static_cast<size_t>(j.blocks.taken * j.block() * j.unit.size) + kVecBytes);
}

/// The position of pixel `pixel` of a part.
struct Position {
  int64_t n, h, w;
};
Position position(const GradWeightJob& j, int64_t first_line, int64_t pixel) {
  const int64_t line = first_line + pixel / j.c.output.width, n = line / j.c.output.height;
  return {n, line - n * j.c.output.height, pixel % j.c.output.width};
}

/// Part of the pixels of one group.
struct Part {
  const GradWeightJob& j;
  int64_t group, first;  // line
  int64_t pixels, blocks;
  int64_t begin(int64_t block) const { return block * j.blocks.steps; }
  int64_t steps(int64_t block) const { return min(j.blocks.steps, pixels - begin(block)); }
};

/// A block of dy that is not packed.
template <class T>
const Element<T>* outs_of(const Part& s, int64_t block) {
  const PaddedInput& f = s.j.dy.input;
  return static_cast<const Element<T>*>(f.data) +
         (s.first * s.j.c.output.width + s.begin(block)) * f.pixel + s.group * s.j.c.channels.out;
}

/// As pack_outs, each panel as [outs][pixel].
[[maybe_unused]] void pack_rows(const Part& s, int64_t row, int64_t rows, int64_t block,
                                Bf16Pair* to) {
  if constexpr (kHasAmx) {
    const GradWeightJob& j = s.j;
    const int64_t pixel = j.dy.input.pixel;
    for (int64_t i = 0, k = s.steps(block); i < k; i += kPixelsOfRow)
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t o = (row + r) * j.blocks.height;
        put_pixel_rows(outs_of<Bf16Pair>(s, block) + i * pixel + o, pixel,
                       min(j.c.channels.out - o, j.blocks.height), min(k - i, kPixelsOfRow),
                       j.row_pitch(), to + r * j.panel() + i / 2);
      }
  }
}

/// `rows` panels of dy from `row` on in one block, each as [pixel][outs]. A few pixels at a time
/// go to all panels, so that dy is read in memory order.
template <class T>
void pack_outs(const Part& s, int64_t row, int64_t rows, int64_t block, T* to) {
  if constexpr (sizeof(T) != sizeof(Element<T>)) {
    if (s.j.by_rows()) return pack_rows(s, row, rows, block, to);
  }
  constexpr int64_t kSome = 24;
  const GradWeightJob& j = s.j;
  const PaddedInput& f = j.dy.input;
  for (int64_t i = 0, k = s.steps(block); i < k;) {
    const Position at = position(j, s.first, s.begin(block) + i);
    const int64_t some = min(j.dy.flat ? k - i : min(j.c.output.width - at.w, k - i), kSome);
    const auto* from = static_cast<const Element<T>*>(f.data) + at.n * f.image + at.h * f.row +
                       at.w * f.pixel + s.group * j.c.channels.out;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t o = (row + r) * j.blocks.height,
                    count = min(j.c.channels.out - o, j.blocks.height);
      const int64_t width = tile_rows(count);
      put_pixels(from + o, f.pixel, count, i, some, width, width, true, to + r * j.panel());
    }
    i += some;
  }
}

/// Has memory come to the second-level cache in order, which is faster than as tiles prefetch for
/// it.
void fetch(const void* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64)
    __builtin_prefetch(static_cast<const char*>(from) + i, 0, 2);
}

/// What the first panel of pointwise patches needs of a block, and the next ones after it.
template <class T>
void fetch_block(const Part& s, int64_t block) {
  const GradWeightJob& j = s.j;
  const int64_t size = sizeof(Element<T>), k = s.steps(block);
  if (j.dy_unpacked) fetch(outs_of<T>(s, block), k * j.dy.input.pixel * size);
  for (int64_t i = 0; i < k; ++i) {
    const Position at = position(j, s.first, s.begin(block) + i);
    const int64_t offset = at.n * j.x.input.image + at.h * j.c.window.stride_h * j.x.input.row +
                           at.w * j.c.window.stride_w * j.x.input.pixel + s.group * j.c.channels.in;
    fetch(static_cast<const Element<T>*>(j.x.input.data) + offset, j.c.channels.in * size);
  }
}

/// Columns [first, end) of `n` patches from column w on whose tap q is in x.
struct Columns {
  int64_t first, end;
};
Columns columns_of(const GradWeightJob& j, int64_t w, int64_t n, int64_t q) {
  const int64_t step = j.c.window.stride_w, offset = j.c.window.column(0, q),
                size = j.x.shape.width;
  const int64_t first = offset < 0 ? ceil_div(-offset, step) : 0;
  const int64_t end = offset >= size ? 0 : (size - 1 - offset) / step + 1;
  const int64_t begin = min(max(first - w, 0), n);
  return {begin, max(min(end - w, n), begin)};
}

/// `count` elements from `element` of tap (p, q) on, of every pixel of a block.
template <class T>
void pack_tap(const Part& s, int64_t block, int64_t p, int64_t q, int64_t element, int64_t count,
              int64_t width, int64_t capacity, T* to) {
  const GradWeightJob& j = s.j;
  const Convolution& c = j.c;
  const int64_t step = c.window.stride_w * j.x.input.pixel, k = s.steps(block);
  for (int64_t i = 0; i < k;) {
    const Position at = position(j, s.first, s.begin(block) + i);
    const int64_t some = j.x.flat ? k : min(c.output.width - at.w, k - i);
    const int64_t h = c.window.row(at.h, p) + (j.patch.joined ? c.window.pad_top : 0);
    const int64_t w = c.window.column(at.w, q) + (j.patch.joined ? c.window.pad_left : 0);
    const auto* from = static_cast<const Element<T>*>(j.x.input.data) + at.n * j.x.input.image +
                       h * j.x.input.row + w * j.x.input.pixel + s.group * c.channels.in + element;
    Columns in = {0, some};
    if (!j.x.flat && !j.patch.joined) in = columns_of(j, at.w, some, q);
    if (h < 0 || h >= j.x.shape.height) in = {some, some};
    if (in.first > 0) put_zeros(count, i, in.first, width, to);
    if (in.first < in.end)
      put_pixels(from + in.first * step, step, count, i + in.first, in.end - in.first, width,
                 capacity, false, to);
    if (in.end < some) put_zeros(count, i + in.end, some - in.end, width, to);
    i += some;
  }
}

/// Panel `col` of the patches of one block, as [pixel][width].
template <class T>
void pack_patches(const Part& s, int64_t col, int64_t block, int64_t width, T* panel) {
  const GradWeightJob& j = s.j;
  const int64_t lane = col * j.blocks.width, lanes = min(j.patch.size - lane, width);
  // What is contiguous: a tap, or a row of them.
  const int64_t depth = j.patch.joined ? j.patch.run : j.c.channels.in,
                taps_w = j.patch.joined ? 1 : j.c.window.kernel_w;
  if (lanes < width)
    memset(static_cast<void*>(panel), 0,
           static_cast<size_t>(j.unit.count(s.steps(block)) * width) * sizeof(T));
  // From left to right: what a part writes too much, the next one mends.
  for (int64_t x = 0; x < lanes;) {
    const int64_t tap = (lane + x) / depth, e = lane + x - tap * depth, p = tap / taps_w;
    const int64_t count = min(depth - e, lanes - x);
    pack_tap(s, block, p, tap - p * taps_w, e, count, width, width - x, panel + x);
    x += count;
  }
}

/// The transpose: panels of the rows of taps by vectors of dy, along one line. By pairs, each
/// vector's part of the line is packed in `scratch` first.
void add_line(const Part& s, int64_t line, uint8_t* sums, uint8_t* scratch) {
  const GradWeightJob& j = s.j;
  const Convolution& c = j.c;
  const Micro& micro = j.micro();
  const Position at = position(j, line, 0);
  const auto element = j.unit.pairs ? static_cast<int64_t>(sizeof(uint16_t)) : j.unit.size;
  const uint8_t* dy =
      static_cast<const uint8_t*>(j.dy.input.data) +
      (at.n * j.dy.input.image + at.h * j.dy.input.row + s.group * c.channels.out) * element;
  const uint8_t* x = static_cast<const uint8_t*>(j.x.input.data) +
                     (at.n * j.x.input.image + at.h * c.window.stride_h * j.x.input.row +
                      s.group * c.channels.in) *
                         j.unit.size;
  const int64_t height = tile_rows(ceil_div(j.patch.run, ceil_div(j.patch.run, kTileRows)));
  const int64_t runs_w = c.window.kernel_w * c.channels.in / j.patch.run;
  Tile t = {};
  t.a.ld = c.window.stride_w * j.x.input.pixel * (j.unit.pairs ? 2 : 1);
  t.b.ld = j.dy.input.pixel;
  t.c.ld = j.sums.columns;
  t.k = j.unit.count(c.output.width);
  t.accumulate = line != s.first;
  t.c.last = static_cast<int>(j.unit.lanes);
  for (int64_t o = 0; o < c.channels.out; o += j.blocks.width) {
    const int vecs = c.channels.out - o <= j.unit.lanes ? 1 : kTileVecs;
    t.b.data = dy + o * element;
    if constexpr (kHasBf16Pairs) {
      if (j.unit.pairs) {
        t.b.ld = vecs * j.unit.lanes;
        auto* const panel = reinterpret_cast<Bf16Pair*>(scratch);
        put_pixel_pairs(static_cast<const uint16_t*>(t.b.data), j.dy.input.pixel,
                        min(c.channels.out - o, j.blocks.width), 0, c.output.width, t.b.ld, panel);
        t.b.data = panel;
      }
    }
    for (int64_t r = 0; r < c.window.kernel_h * runs_w; ++r) {
      const int64_t p = r / runs_w, q = r - p * runs_w;
      for (int64_t e = 0; e < j.patch.run; e += height) {
        t.a.data = x + (p * c.window.dilation_h * j.x.input.row +
                        q * c.window.dilation_w * j.x.input.pixel + e) *
                           j.unit.size;
        t.c.data = sums + ((r * j.patch.run + e) * j.sums.columns + o) * j.unit.size;
        t.c.count = static_cast<int>(min(j.patch.run - e, height));
        micro.run(tile_rows(t.c.count), vecs, t);
      }
    }
  }
}

/// Memory to prefetch, in two blocks.
struct PrefetchRanges {
  const char* from[2];
  int64_t bytes[2];
};

/// Panels of dy and of patches that are multiplied, over some blocks.
struct BlockPair {
  int64_t block, blocks;  // first, number
  int64_t row, rows;      // panels of dy
  int64_t splits;         // of those, where there are few panels of patches
  PrefetchRanges prefetch;
  int64_t each() const { return ceil_div(rows, splits); }
};

/// What the meeting of the blocks from `block` on reads of dy and x, if that is all of some memory.
template <class T>
PrefetchRanges prefetch_ranges(const Part& s, int64_t block, int64_t blocks) {
  const GradWeightJob& j = s.j;
  const Convolution& c = j.c;
  constexpr int64_t kSize = sizeof(Element<T>);
  PrefetchRanges next = {};
  const int64_t begin = s.begin(block), end = min(s.begin(block + blocks), s.pixels);
  if (c.channels.groups > 1 || begin >= end) return next;
  if (j.dy.flat && j.blocks.rows <= j.taken_panels()) {
    next.from[0] = reinterpret_cast<const char*>(outs_of<T>(s, 0) + begin * j.dy.input.pixel);
    next.bytes[0] = (end - begin) * j.dy.input.pixel * kSize;
  }
  const bool dense = !j.patch.joined && j.x.input.row == j.x.input.pixel * j.x.shape.width &&
                     j.x.input.image == j.x.input.row * j.x.shape.height;
  if (dense && c.window.stride_h <= c.window.kernel_h) {
    auto offset = [&](int64_t pixel) {
      const Position at = position(j, s.first, pixel);
      const int64_t row = c.window.row(at.h, c.window.kernel_h - 1);
      return at.n * j.x.input.image + row * j.x.input.row +
             at.w * c.window.stride_w * j.x.input.pixel;
    };
    const int64_t first = offset(begin);
    next.from[1] =
        reinterpret_cast<const char*>(static_cast<const Element<T>*>(j.x.input.data) + first);
    next.bytes[1] = (offset(end) - first) * kSize;
  }
  return next;
}

/// The share of tile `number` of `tiles`, over k steps.
PrefetchStream prefetch_share(const PrefetchRanges& next, int64_t number, int64_t tiles,
                              int64_t k) {
  const int64_t share = (next.bytes[0] + next.bytes[1]) / tiles;
  const int64_t skip = number * share, part = skip < next.bytes[0] ? 0 : 1;
  return {next.from[part] + (part == 0 ? skip : skip - next.bytes[0]), share / k};
}

/// Multiplies panel `col` of patches by part `split` of the panels of dy; `panel` is capacity for
/// one.
template <class T>
void multiply(const Part& s, const BlockPair& m, int64_t col, int64_t split, bool fetches,
              const T* taken, T* panel, uint8_t* sums, int64_t ld) {
  const GradWeightJob& j = s.j;
  const Micro& micro = j.micro();
  const int64_t left = j.patch.size - col * j.blocks.width,
                vecs = left <= j.unit.lanes ? 1 : kTileVecs;
  AmxState amx;
  Tile t = {};
  t.amx = &amx;
  t.b.data = panel;
  t.b.ld = vecs * j.unit.lanes;
  t.c.ld = ld;
  t.c.last = static_cast<int>(min(left - (vecs - 1) * j.unit.lanes, j.unit.lanes));
  // Pointwise patches as wide as a panel are one in place.
  const bool in_place =
      j.x.flat && j.x.input.pixel == t.b.ld && j.patch.size == t.b.ld && !j.unit.pairs;
  const bool spreads = m.prefetch.bytes[0] + m.prefetch.bytes[1] > 0;
  const int64_t tiles = j.blocks.cols * m.blocks * m.rows;
  for (int64_t b = 0; b < m.blocks; ++b) {
    const int64_t block = m.block + b;
    t.k = j.unit.count(s.steps(block));
    t.accumulate = block > 0;
    if (fetches) fetch_block<T>(s, block);
    if (in_place)
      t.b.data = static_cast<const T*>(j.x.input.data) +
                 (s.first * j.c.output.width + s.begin(block)) * j.x.input.pixel;
    else
      pack_patches(s, col, block, t.b.ld, panel);
    for (int64_t r = split * m.each(); r < min((split + 1) * m.each(), m.rows); ++r) {
      const int64_t o = (m.row + r) * j.blocks.height;
      t.c.count = static_cast<int>(min(j.c.channels.out - o, j.blocks.height));
      const int height = tile_rows(t.c.count);
      t.a.data = taken + b * j.block() + r * j.panel();
      if (j.dy_unpacked) t.a.data = outs_of<T>(s, block) + o;
      t.a.ld = j.dy_unpacked ? j.dy.input.pixel : height;
      t.c.data = sums + (o * ld + col * j.blocks.width) * j.unit.size;
      t.prefetch = {};
      if (spreads && (j.by_rows() || (height == kTileRows && vecs == kTileVecs)))
        t.prefetch = prefetch_share(m.prefetch, (col * m.blocks + b) * m.rows + r, tiles, t.k);
      if (j.by_rows())
        micro.run_patches(t.c.count, static_cast<int>(vecs), t, {j.row_pitch(), 1, 1, 0, 0});
      else
        micro.run(height, static_cast<int>(vecs), t);
    }
  }
}

template <class T>
void add_part(const Call& call, const Part& s, uint8_t* sums, int64_t ld, T* taken) {
  const GradWeightJob& j = s.j;
  const bool pointwise =
      j.c.window.taps() == 1 && j.c.window.pad_top == 0 && j.c.window.pad_left == 0;
  const int64_t at_once = j.taken_panels();
  for (int64_t row = 0; row < j.blocks.rows; row += at_once)
    for (int64_t block = 0; block < s.blocks; block += j.blocks.taken) {
      BlockPair m = {block, min(s.blocks - block, j.blocks.taken),
                     row,   min(j.blocks.rows - row, at_once),
                     1,     {}};
      m.prefetch = prefetch_ranges<T>(s, block + j.blocks.taken, j.blocks.taken);
      if (j.blocks.cols < kGradWeightTasks)
        m.splits = min(ceil_div(kGradWeightTasks, j.blocks.cols), m.rows);
      parallel_for(call, j.dy_unpacked ? 0 : m.blocks, 1, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b)
          pack_outs(s, row, m.rows, block + b, taken + b * j.block());
      });
      const int64_t work = m.blocks * m.each() * j.blocks.height * j.blocks.steps * j.blocks.width;
      parallel_for(call, j.blocks.cols * m.splits, 1 + kGemmTaskMacs / work,
                   [&](int64_t begin, int64_t end) {
                     alignas(64) T panel[kGradWeightPanel / sizeof(T)];
                     for (int64_t i = begin; i < end; ++i)
                       multiply(s, m, i / m.splits, i % m.splits,
                                pointwise && i == begin && block == 0, taken, panel, sums, ld);
                   });
    }
}

/// Sums of panels of T into kernels of S.
template <class S, class T = Compute<S>>
void run(const Call& call, const GradWeightJob& j, uint8_t* sums, uint8_t* scratch) {
  Call alone = call;
  if (j.blocks.parts > 1) alone.parallel = nullptr;
  const View& dw = call.out[0];
  for (int64_t group = 0; group < j.c.channels.groups; ++group) {
    if (j.c.pixels() == 0) memset(sums, 0, sum_bytes(j));
    parallel_for(call, j.blocks.parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Part s = {j, group, j.first_line(i),
                  (j.first_line(i + 1) - j.first_line(i)) * j.c.output.width, 0};
        s.blocks = ceil_div(s.pixels, j.blocks.steps);
        uint8_t* to = sums + i * sum_rows(j) * j.sums.columns * j.unit.size;
        uint8_t* const taken = scratch + static_cast<size_t>(i) * taken_bytes(j);
        for (int64_t line = s.first; j.patch.direct && line < j.first_line(i + 1); ++line)
          add_line(s, line, to, taken);
        if (j.patch.direct) continue;
        if (j.sums.straight)
          to = dw.as<uint8_t>() + group * j.c.channels.out * dw.stride[0] * j.unit.size;
        add_part(alone, s, to, j.sums.straight ? dw.stride[0] : j.sums.columns,
                 reinterpret_cast<T*>(taken));
      }
    });
    const WeightSums all = {sums, strides_of(j).out, strides_of(j).element,
                            sum_rows(j) * j.sums.columns, j.blocks.parts};
    if (!j.sums.straight) write_weight_sums(call, j.c, all, group, dw);
  }
}

/// As pad_input, in strides of elements also by pairs; of few channels as they are or, for the
/// transpose, pairs of columns of x.
PaddedInput read_input(const Call& call, const GradWeightJob& j, const PixelSource& source,
                       void* memory) {
  const View& x = source.view;
  const PaddedShape& shape = source.shape;
  if (!j.unit.pairs) return pad_input(call, x, shape, source.in_place, memory);
  if (shape.pixel == 0 && j.patch.joined) {
    const int64_t pixel = x.shape[1], row = shape.width * pixel;
    return {pad_input(call, x, shape, false, memory, true).data, shape.height * row, row, pixel};
  }
  if constexpr (kHasBf16Pairs) {
    if (shape.pixel == 0) return pair_columns(call, x, shape, j.c.window.stride_w, memory);
  }
  if (source.in_place) return {x.data, x.stride[0], x.stride[2], x.stride[3]};
  PaddedInput f = pad_input(call, x, shape, false, memory, true);
  f.image *= 2, f.row *= 2, f.pixel *= 2;
  return f;
}

/// Bytes of its copy, 0 where it is read in place.
size_t input_bytes(const PixelSource& source, bool by_pairs) {
  return source.in_place ? 0 : align64(padded_bytes(source.view, source.shape, by_pairs));
}

}  // namespace

Status conv2d_grad_weight(const Call& call) {
  if (!is_floating(call.in[0].dtype)) return Status::kUnimplemented;
  GradWeightJob j = grad_weight_job(call);
  if (call.out[0].numel() == 0) return Status::kOk;
  if (depthwise_takes(j.c)) return depthwise_weight(call, j.c);
  const bool filtered = winograd_weight_takes(j.c);
  uint8_t* rest = static_cast<uint8_t*>(call.scratch);
  uint8_t* const sums = rest;
  if (!filtered) rest += sum_bytes(j);
  j.x.input = read_input(call, j, j.x, rest);
  rest += input_bytes(j.x, j.unit.pairs && !j.patch.direct);
  j.dy.input = read_input(call, j, j.dy, rest);
  rest += input_bytes(j.dy, j.unit.pairs);
  if (filtered) return winograd_weight(call, j.c, j.x.input, j.dy.input, call.out[0], rest);
  const bool plain = j.c.window.taps() == 1 && j.c.window.stride_h * j.c.window.stride_w == 1 &&
                     j.c.x.shape[2] == j.c.output.height && j.c.x.shape[3] == j.c.output.width;
  j.x.flat = plain && is_flat(j, j.x.input);
  j.dy.flat = is_flat(j, j.dy.input);
  j.dy_unpacked = !j.unit.pairs && j.dy.flat && j.blocks.cols <= 2 && j.c.channels.out % 2 == 0 &&
                  j.dy.input.pixel * j.unit.size <= kMaxPixelStride;
  if constexpr (kHasBf16Pairs) {
    if (j.unit.pairs) {
      run<BF16, Bf16Pair>(call, j, sums, rest);
      return Status::kOk;
    }
  }
  PROA_FLOATING(call.out[0].dtype, S, run<S>(call, j, sums, rest));
  return Status::kOk;
}

size_t conv2d_grad_weight_scratch(const Call& call) {
  const GradWeightJob j = grad_weight_job(call);
  if (depthwise_takes(j.c)) return depthwise_weight_scratch(call, j.c);
  size_t bytes = winograd_weight_takes(j.c)
                     ? winograd_weight_scratch(j.c)
                     : sum_bytes(j) + static_cast<size_t>(j.blocks.parts) * taken_bytes(j);
  return bytes + input_bytes(j.x, j.unit.pairs && !j.patch.direct) +
         input_bytes(j.dy, j.unit.pairs);
}

}  // namespace proa::PROA_ISA
