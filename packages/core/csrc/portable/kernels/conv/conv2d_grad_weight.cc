// dw(o, c, p, q) = sum over pixels of dy(pixel, o) * x(window of the pixel at tap p, q, channel c).
//
// A tile of dw is (neighbours within a window) x (out channels); both lie contiguously in a frame
// of x and in dy, so the micro-kernel runs along each line of pixels without any packing. The sums
// are kept in scratch; lines are cut into pieces that depend on the shape alone.
#include <string.h>

#include "proa/base/dispatch.h"
#include "proa/gen/attrs.h"
#include "proa/gen/kernels.h"
#include "proa/kernels/conv/geometry.h"

namespace proa::PROA_ISA {
namespace {

constexpr int64_t kTasks = 8;
constexpr int64_t kSumBytes = 256 * 1024;  // of sums that one task goes over for each line

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
int64_t pieces(int64_t n, int64_t size) { return (n + size - 1) / size; }
size_t align64(size_t n) { return (n + 63) & ~size_t{63}; }

struct Job {
  Correlation c;  // the forward geometry; x is its input
  View dy;
  FrameShape x_shape, dy_shape;
  bool x_here, dy_here;  // used where they lie
  bool depthwise;
  int64_t size;          // bytes of an element
  int64_t run, runs_w;   // neighbours in a window, and such runs in one of its rows
  int64_t height;        // rows of a tile
  int64_t tiles_run;     // tiles in a run
  int64_t tiles;         // in all groups
  int64_t columns;       // sums in a row of a tile
  int64_t parts, batch;  // pieces of the lines; tiles of a task
  Frame x, dy_frame;
  int64_t lines() const { return c.x.shape[0] * c.rows; }
  int64_t tile_bytes() const { return height * columns * size; }
};

Job job_of(const Call& call) {
  const auto& a = call.attr<Conv2dGradWeightAttrs>();
  Job j = {};
  j.dy = call.in[1];
  j.c = forward_of(call.in[0], call.out[0], j.dy, a);
  j.c.kernels.dtype = j.dy.dtype;
  j.size = micro_of(j.dy.dtype).size;
  j.x_shape = frame_of(j.c);
  j.x_shape.pixel = 0;
  j.dy_shape = {0, 0, j.c.rows, j.c.cols};
  j.depthwise = j.c.depth == 1 && j.c.outs == 1 && j.c.groups > 1;
  const View& x = j.c.x;
  j.x_here = frame_in_place(x, j.x_shape);
  j.dy_here = frame_in_place(j.dy, j.dy_shape);
  const int64_t pixel = j.x_here ? x.stride[3] : x.shape[1];
  const bool joined = j.c.tap_w == 1 && pixel == j.c.depth;
  j.run = joined ? j.c.taps_w * j.c.depth : j.c.depth;
  j.runs_w = joined ? 1 : j.c.taps_w;
  j.tiles_run = most(pieces(j.run, kTileRows), 1);
  j.height = tile_rows(most(pieces(j.run, j.tiles_run), 1));
  // A tile higher than what is left of its run reads past it: a copied frame has room for that.
  if (j.run % j.height != 0) j.x_here = false;
  const Micro& micro = micro_of(j.dy.dtype);
  if (j.c.outs % micro.lanes != 0 || j.c.groups > 1) j.dy_here = false;
  j.tiles = j.c.groups * j.c.taps_h * j.runs_w * j.tiles_run;
  j.columns = pieces(j.c.outs, micro.lanes) * micro.lanes;
  j.parts = least(j.tiles >= kTasks ? 1 : pieces(kTasks, most(j.tiles, 1)), most(j.lines(), 1));
  j.batch = most(least(kSumBytes / most(j.tile_bytes(), 1), pieces(j.tiles, kTasks)), 1);
  return j;
}

size_t sum_bytes(const Job& j) {
  if (j.depthwise) return static_cast<size_t>(j.c.taps_h * j.c.taps_w * j.c.groups * j.size) + 64;
  return static_cast<size_t>(j.parts * j.tiles * j.tile_bytes());
}

/// Adds lines [begin, end) to the sums of tile `t` ... of one line: every panel of out channels.
void add_line(const Job& j, int64_t t, int64_t line, bool first, uint8_t* sums) {
  const Micro& micro = micro_of(j.dy.dtype);
  const Correlation& c = j.c;
  const int64_t n = line / c.rows, i = line - n * c.rows;
  const int64_t r = t / j.tiles_run, e = (t - r * j.tiles_run) * j.height;
  const int64_t q = r % j.runs_w, p = r / j.runs_w % c.taps_h, g = r / j.runs_w / c.taps_h;
  const int64_t rows = least(j.run - e, j.height);
  Tile tile = {};
  tile.a = static_cast<const uint8_t*>(j.x.data) +
           (n * j.x.image + (i * c.step_h + p * c.tap_h) * j.x.row + q * c.tap_w * j.x.pixel +
            g * c.depth + e) *
               j.size;
  tile.lda = c.step_w * j.x.pixel;
  tile.ldb = j.dy_frame.pixel;
  tile.ldc = j.columns;
  tile.k = c.cols;
  tile.accumulate = !first;
  tile.count = tile_rows(rows);
  tile.last = micro.lanes;
  const uint8_t* dy = static_cast<const uint8_t*>(j.dy_frame.data) +
                      (n * j.dy_frame.image + i * j.dy_frame.row + g * c.outs) * j.size;
  for (int64_t col = 0; col < j.columns; col += kTileVecs * micro.lanes) {
    tile.b = dy + col * j.size;
    tile.c = sums + col * j.size;
    micro.run(tile_rows(rows), j.columns - col <= micro.lanes ? 1 : kTileVecs, tile);
  }
}

void add_all(const Call& call, const Job& j, uint8_t* sums) {
  const int64_t batches = pieces(j.tiles, j.batch), lines = j.lines();
  parallel_for(call, j.parts * batches, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t part = task / batches, b = task - part * batches;
      const int64_t from = part * lines / j.parts, to = (part + 1) * lines / j.parts;
      for (int64_t line = from; line < to; ++line)
        for (int64_t t = b * j.batch; t < least((b + 1) * j.batch, j.tiles); ++t)
          add_line(j, t, line, line == from, sums + (part * j.tiles + t) * j.tile_bytes());
    }
  });
}

/// Adds up the pieces and writes dw.
template <class S>
void write_sums(const Call& call, const Job& j, const Compute<S>* sums) {
  using T = Compute<S>;
  const Correlation& c = j.c;
  const View& dw = call.out[0];
  const int64_t tile = j.height * j.columns, part = j.tiles * tile;
  const int64_t k = c.taps_h * c.taps_w * c.depth;
  parallel_for(call, c.groups * k, 1 + 16384 / (c.outs + 1), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t g = row / k, at = row - g * k, r = at / j.run, e = at - r * j.run;
      const int64_t tap = at / c.depth, d = at - tap * c.depth;
      const int64_t t = (g * c.taps_h * j.runs_w + r) * j.tiles_run + e / j.height;
      const T* from = sums + t * tile + e % j.height * j.columns;
      S* to = dw.as<S>() + g * c.outs * dw.stride[0] + d * dw.stride[1] +
              tap / c.taps_w * dw.stride[2] + tap % c.taps_w * dw.stride[3];
      for (int64_t o = 0; o < c.outs; ++o) {
        T sum = 0;
        for (int64_t p = 0; p < j.parts; ++p) sum += from[p * part + o];
        to[o * dw.stride[0]] = static_cast<S>(sum);
      }
    }
  });
}

/// One vector of channels of one tap, over all pixels.
template <class T>
Vec<T> depthwise_sum(const Job& j, int64_t p, int64_t q, int64_t channel, int64_t some) {
  const Correlation& c = j.c;
  const int64_t step = c.step_w * j.x.pixel;
  Vec<T> total = {};
  for (int64_t line = 0; line < j.lines(); ++line) {
    const int64_t n = line / c.rows, i = line - n * c.rows;
    const T* x = static_cast<const T*>(j.x.data) + n * j.x.image +
                 (i * c.step_h + p * c.tap_h) * j.x.row + q * c.tap_w * j.x.pixel + channel;
    const T* dy = static_cast<const T*>(j.dy_frame.data) + n * j.dy_frame.image +
                  i * j.dy_frame.row + channel;
    Vec<T> sum = {};
    for (int64_t w = 0; w < c.cols; ++w, x += step, dy += j.dy_frame.pixel)
      sum += some == kLanesOf<T> ? load(x) * load(dy) : load_n(x, some) * load_n(dy, some);
    total += sum;
  }
  return total;
}

template <class S>
void run_depthwise(const Call& call, const Job& j) {
  using T = Compute<S>;
  constexpr int kWidth = kLanesOf<T>;
  const Correlation& c = j.c;
  const View& dw = call.out[0];
  parallel_for(call, pieces(c.groups, kWidth), 1, [&](int64_t begin, int64_t end) {
    for (int64_t channel = begin * kWidth; channel < least(end * kWidth, c.groups);
         channel += kWidth) {
      const int64_t some = least(c.groups - channel, kWidth);
      for (int64_t p = 0; p < c.taps_h; ++p)
        for (int64_t q = 0; q < c.taps_w; ++q) {
          const Vec<T> sum = depthwise_sum<T>(j, p, q, channel, some);
          S* to = dw.as<S>() + channel * dw.stride[0] + p * dw.stride[2] + q * dw.stride[3];
          for (int64_t o = 0; o < some; ++o) to[o * dw.stride[0]] = static_cast<S>(sum[o]);
        }
    }
  });
}

template <class S>
void run(const Call& call, const Job& j, uint8_t* sums) {
  if (j.depthwise) return run_depthwise<S>(call, j);
  if (j.lines() == 0 || j.c.cols == 0)
    memset(sums, 0, sum_bytes(j));
  else
    add_all(call, j, sums);
  write_sums<S>(call, j, reinterpret_cast<const Compute<S>*>(sums));
}

}  // namespace

Status conv2d_grad_weight(const Call& call) {
  if (!is_floating(call.in[0].dtype)) return Status::kUnimplemented;
  Job j = job_of(call);
  if (call.out[0].numel() == 0) return Status::kOk;
  uint8_t* rest = static_cast<uint8_t*>(call.scratch);
  uint8_t* const sums = rest;
  rest += align64(sum_bytes(j));
  j.x = make_frame(call, j.c.x, j.x_shape, j.x_here, rest);
  if (!j.x_here) rest += align64(frame_bytes(j.c.x, j.x_shape));
  j.dy_frame = make_frame(call, j.dy, j.dy_shape, j.dy_here, rest);
  PROA_FLOATING(call.out[0].dtype, S, run<S>(call, j, sums));
  return Status::kOk;
}

size_t conv2d_grad_weight_scratch(const Call& call) {
  const Job j = job_of(call);
  size_t bytes = align64(sum_bytes(j));
  if (!j.x_here) bytes += align64(frame_bytes(j.c.x, j.x_shape));
  if (!j.dy_here) bytes += align64(frame_bytes(j.dy, j.dy_shape));
  return bytes;
}

}  // namespace proa::PROA_ISA
