// dw(o, c, p, q) = sum over pixels of dy(pixel, o) * x(window of the pixel at tap p, q, channel c):
// a matrix product whose k runs over the pixels of all images, outs x pixels x (taps, channels).
// Its right side is packed straight from a frame of x, or, where windows have few channels, read
// there a row of taps at a time. Where dw has another order, sums are kept in scratch first. Where
// the product is too small to share out, pieces of the pixels are.
#include <string.h>

#include "proa/base/dispatch.h"
#include "proa/gen/attrs/conv.h"
#include "proa/kernels/conv/depthwise_weight.h"
#include "proa/kernels/conv/geometry.h"
#include "proa/simd/conv/depthwise.h"
#include "proa/simd/gemm/gemm.h"

namespace proa::PROA_ISA {
namespace {

constexpr int64_t kTasks = 8;

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
int64_t pieces(int64_t n, int64_t size) { return (n + size - 1) / size; }
size_t align64(size_t n) { return (n + 63) & ~size_t{63}; }

struct Job {
  Correlation c;  // the forward geometry; x is its input
  View dy;
  FrameShape x_shape, dy_shape;
  bool x_here, dy_here;  // used where they lie
  int64_t size;          // bytes of an element
  int64_t window;        // taps and channels of a group
  int64_t run;           // of those, neighbours in memory
  int64_t runs;          // in a row of taps
  bool direct;           // x is read where it lies
  int64_t lap;           // sums from a row of taps, and from a run of it, to the next
  int64_t columns;       // sums in a row
  int64_t parts;         // of the pixels
  bool straight;         // sums are written where dw lies
  size_t scratch;        // of one product
  Frame x, dy_frame;
  int64_t lines() const { return c.x.shape[0] * c.rows; }
  int64_t first_line(int64_t part) const { return part * lines() / parts; }
};

/// Compares what a pixel costs: direct tiles are not full, but nothing is packed.
void set_way(Job* j) {
  const int64_t lanes = micro_of(j->dy.dtype).lanes, vecs = pieces(j->run, lanes);
  const int64_t runs = j->runs * j->c.taps_h;
  const int64_t direct = j->c.outs * vecs * runs / 2;
  const int64_t packed = j->c.outs * pieces(j->window, lanes) / 2 + 3 * runs + 20;
  j->direct = vecs <= kTileVecs && direct < packed;
  j->lap = j->direct ? vecs * lanes : j->run;
  if (!j->direct) return;
  j->x_here = false;                           // vectors go past the end of a run
  if (j->c.outs % 2 != 0) j->dy_here = false;  // tiles have an even number of rows
}

Job job_of(const Call& call) {
  const auto& a = call.attr<Conv2dGradWeightAttrs>();
  Job j = {};
  j.dy = call.in[1];
  j.c = forward_of(call.in[0], call.out[0], j.dy, a);
  j.c.kernels.dtype = j.dy.dtype;
  const Micro& micro = micro_of(j.dy.dtype);
  j.size = micro.size;
  j.x_shape = frame_of(j.c);
  j.x_shape.pixel = 0;
  j.dy_shape = {0, 0, j.c.rows, j.c.cols};
  j.x_here = frame_in_place(j.c.x, j.x_shape);
  j.dy_here = frame_in_place(j.dy, j.dy_shape);
  const int64_t pixel = j.x_here ? j.c.x.stride[3] : j.c.x.shape[1];
  const bool joined = j.c.tap_w == 1 && pixel == j.c.depth;
  j.window = j.c.taps_h * j.c.taps_w * j.c.depth;
  j.run = most(joined ? j.c.taps_w * j.c.depth : j.c.depth, 1);
  j.runs = j.c.taps_w * j.c.depth / j.run;
  set_way(&j);
  j.columns = j.direct ? j.c.taps_h * j.runs * j.lap : gemm_columns(micro, j.window);
  const int64_t panels = j.direct ? 1 : pieces(j.window, kTileVecs * micro.lanes);
  const int64_t tiles = j.direct ? 1 : pieces(j.c.outs, kTileRows) * panels;
  j.parts = tiles >= kTasks ? 1 : most(least(pieces(kTasks, most(tiles, 1)), j.lines()), 1);
  const View& dw = call.out[0];
  j.straight = j.parts == 1 && j.c.taps_h * j.c.taps_w == 1 && dw.stride[1] == 1 &&
               (dw.dtype == DType::kF32 || is_double(dw.dtype)) && j.lines() * j.c.cols > 0 &&
               !j.direct;
  const int64_t pixels = pieces(j.lines(), j.parts) * j.c.cols;
  j.scratch = align64(gemm_scratch(micro, j.c.outs, j.window, most(pixels, 1), true, false));
  return j;
}

size_t sum_bytes(const Job& j) {
  if (j.straight) return 0;
  return align64(static_cast<size_t>(j.parts * j.c.outs * j.columns * j.size));
}

/// One group, and one part of the lines, as the two sides of a product.
struct Sides {
  const Job& j;
  int64_t group, first;  // line
};

/// At most a vector of neighbours of each of n pixels.
template <class T>
void copy_column(const T* from, int64_t step, int64_t count, int64_t width, int64_t n, T* to) {
  if (count == kLanesOf<T>)
    for (int64_t i = 0; i < n; ++i, from += step, to += width) store(to, load(from));
  else
    for (int64_t i = 0; i < n; ++i, from += step, to += width)
      store_n(to, load_n(from, count), count);
}

/// Elements [lane, lane + lanes) of the windows of pixels [k0, k0 + k), as [k][width].
template <class T>
void pack_windows(const Sides& s, int64_t lane, int lanes, int width, int64_t k0, int64_t k,
                  T* panel) {
  const Job& j = s.j;
  const Correlation& c = j.c;
  const int64_t runs_w = c.taps_w * c.depth / j.run, step = c.step_w * j.x.pixel;
  if (lanes < width) memset(panel, 0, static_cast<size_t>(k * width) * sizeof(T));
  for (int64_t i = 0; i < k;) {
    const int64_t line = s.first + (k0 + i) / c.cols, w = (k0 + i) % c.cols;
    const int64_t n = line / c.rows, h = line - n * c.rows, some = least(c.cols - w, k - i);
    const T* at = static_cast<const T*>(j.x.data) + n * j.x.image + h * c.step_h * j.x.row +
                  w * step + s.group * c.depth;
    for (int x = 0; x < lanes;) {
      const int64_t r = (lane + x) / j.run, e = lane + x - r * j.run, p = r / runs_w;
      const int count = static_cast<int>(least(j.run - e, lanes - x));
      const T* from = at + p * c.tap_h * j.x.row + (r - p * runs_w) * c.tap_w * j.x.pixel + e;
      T* to = panel + i * width + x;
      for (int v = 0; v < count; v += kLanesOf<T>)
        copy_column(from + v, step, least(count - v, kLanesOf<T>), width, some, to + v);
      x += count;
    }
    i += some;
  }
}

void pack_any(const void* ctx, int64_t lane, int lanes, int width, int64_t k0, int64_t k,
              void* panel) {
  const Sides& s = *static_cast<const Sides*>(ctx);
  if (computes(DType::kF64) && s.j.size == 8)
    pack_windows(s, lane, lanes, width, k0, k, static_cast<double*>(panel));
  else
    pack_windows(s, lane, lanes, width, k0, k, static_cast<float*>(panel));
}

/// `count` out channels of a pixel.
const void* read_pixel(const void* ctx, int64_t pixel, int64_t out, int64_t, void*) {
  const Sides& s = *static_cast<const Sides*>(ctx);
  const Job& j = s.j;
  const int64_t line = s.first + pixel / j.c.cols, w = pixel % j.c.cols;
  const int64_t n = line / j.c.rows, h = line - n * j.c.rows;
  return static_cast<const uint8_t*>(j.dy_frame.data) +
         (n * j.dy_frame.image + h * j.dy_frame.row + w * j.dy_frame.pixel + s.group * j.c.outs +
          out) *
             j.size;
}

/// Tiles of out channels by one run of the windows, k along a line of pixels.
void add_line(const Job& j, int64_t group, int64_t line, bool first, uint8_t* sums) {
  const Correlation& c = j.c;
  const Micro& micro = micro_of(j.dy.dtype);
  const int64_t n = line / c.rows, h = line - n * c.rows;
  const uint8_t* dy = static_cast<const uint8_t*>(j.dy_frame.data) +
                      (n * j.dy_frame.image + h * j.dy_frame.row + group * c.outs) * j.size;
  const uint8_t* x = static_cast<const uint8_t*>(j.x.data) +
                     (n * j.x.image + h * c.step_h * j.x.row + group * c.depth) * j.size;
  Tile t = {};
  t.lda = j.dy_frame.pixel;
  t.ldb = c.step_w * j.x.pixel;
  t.ldc = j.columns;
  t.k = c.cols;
  t.accumulate = !first;
  t.last = micro.lanes;
  for (int64_t r = 0; r < c.taps_h * j.runs; ++r) {
    const int64_t p = r / j.runs, q = r - p * j.runs;
    t.b = x + (p * c.tap_h * j.x.row + q * c.tap_w * j.x.pixel) * j.size;
    for (int64_t o = 0; o < c.outs; o += kTileRows) {
      t.a = dy + o * j.size;
      t.c = sums + (o * j.columns + r * j.lap) * j.size;
      t.count = static_cast<int>(least(c.outs - o, kTileRows));
      micro.run(tile_rows(t.count), static_cast<int>(j.lap / micro.lanes), t);
    }
  }
}

void add_part(const Call& call, const Job& j, int64_t group, int64_t part, uint8_t* sums,
              void* scratch) {
  if (j.direct) {
    uint8_t* const own = sums + part * j.c.outs * j.columns * j.size;
    for (int64_t i = j.first_line(part); i < j.first_line(part + 1); ++i)
      add_line(j, group, i, i == j.first_line(part), own);
    return;
  }
  const Sides sides = {j, group, j.first_line(part)};
  const Micro& micro = micro_of(j.dy.dtype);
  Gemm g = {&micro, j.c.outs, j.window, (j.first_line(part + 1) - sides.first) * j.c.cols, {}, {}};
  g.a = {&sides, read_pixel, true};
  const Frame& f = j.dy_frame;
  // Lines without gaps between them are one line.
  if (f.row == f.pixel * j.c.cols && (f.image == f.row * j.c.rows || j.c.x.shape[0] == 1)) {
    g.a.direct = read_pixel(&sides, 0, 0, 0, nullptr);
    g.a.step = f.pixel;
  }
  g.b = {&sides, nullptr, true};
  g.b.pack = pack_any;
  const View& dw = call.out[0];
  g.c = sums + part * j.c.outs * j.columns * j.size;
  g.ldc = j.columns;
  if (j.straight) {
    g.c = dw.as<uint8_t>() + group * j.c.outs * dw.stride[0] * j.size;
    g.ldc = dw.stride[0];
  }
  gemm(call, g, scratch);
}

/// Adds up the parts and writes the kernels of a group.
template <class S>
void write_sums(const Call& call, const Job& j, int64_t group, const Compute<S>* sums) {
  using T = Compute<S>;
  const Correlation& c = j.c;
  const View& dw = call.out[0];
  const int64_t part = c.outs * j.columns;
  parallel_for(call, c.outs, 1 + 16384 / (j.window + 1), [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o)
      for (int64_t tap = 0; tap < c.taps_h * c.taps_w; ++tap) {
        const int64_t r = tap * c.depth / j.run, e = tap * c.depth - r * j.run;
        const T* from = sums + o * j.columns + r * j.lap + e;
        S* to = dw.as<S>() + (group * c.outs + o) * dw.stride[0] + tap / c.taps_w * dw.stride[2] +
                tap % c.taps_w * dw.stride[3];
        for (int64_t d = 0; d < c.depth; ++d) {
          T sum = from[d];
          for (int64_t p = 1; p < j.parts; ++p) sum += from[p * part + d];
          to[d * dw.stride[1]] = static_cast<S>(sum);
        }
      }
  });
}

template <class S>
void run(const Call& call, const Job& j, uint8_t* sums, uint8_t* scratch) {
  Call alone = call;
  if (j.parts > 1) alone.parallel = nullptr;
  for (int64_t group = 0; group < j.c.groups; ++group) {
    if (j.lines() * j.c.cols == 0)
      memset(sums, 0, sum_bytes(j));
    else
      parallel_for(call, j.parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t part = begin; part < end; ++part)
          add_part(alone, j, group, part, sums, scratch + static_cast<size_t>(part) * j.scratch);
      });
    if (!j.straight) write_sums<S>(call, j, group, reinterpret_cast<const Compute<S>*>(sums));
  }
}

}  // namespace

Status conv2d_grad_weight(const Call& call) {
  if (!is_floating(call.in[0].dtype)) return Status::kUnimplemented;
  Job j = job_of(call);
  if (call.out[0].numel() == 0) return Status::kOk;
  if (depthwise_takes(j.c)) return depthwise_weight(call, j.c);
  uint8_t* rest = static_cast<uint8_t*>(call.scratch);
  uint8_t* const sums = rest;
  rest += sum_bytes(j);
  j.x = make_frame(call, j.c.x, j.x_shape, j.x_here, rest);
  if (!j.x_here) rest += align64(frame_bytes(j.c.x, j.x_shape));
  j.dy_frame = make_frame(call, j.dy, j.dy_shape, j.dy_here, rest);
  if (!j.dy_here) rest += align64(frame_bytes(j.dy, j.dy_shape));
  PROA_FLOATING(call.out[0].dtype, S, run<S>(call, j, sums, rest));
  return Status::kOk;
}

size_t conv2d_grad_weight_scratch(const Call& call) {
  const Job j = job_of(call);
  if (depthwise_takes(j.c)) return depthwise_weight_scratch(call, j.c);
  size_t bytes = sum_bytes(j) + static_cast<size_t>(j.parts) * j.scratch;
  if (!j.x_here) bytes += align64(frame_bytes(j.c.x, j.x_shape));
  if (!j.dy_here) bytes += align64(frame_bytes(j.dy, j.dy_shape));
  return bytes;
}

}  // namespace proa::PROA_ISA
