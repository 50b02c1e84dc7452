// Four ways, chosen by the kernels' shape alone so that packed kernels fit whatever x comes:
// - depthwise: the channels are the vector;
// - winograd: 3 x 3 kernels over many channels, with fewer products;
// - windows: small kernels stay in the second-level cache, the micro-kernel reads the frame itself;
// - product: large kernels; the windows become rows of a packed matrix product.
#include "proa/simd/conv/correlate.h"

#include <string.h>

#include "proa/base/settings.h"
#include "proa/simd/conv/depthwise.h"
#include "proa/simd/conv/windows.h"
#include "proa/simd/conv/winograd.h"

namespace proa::PROA_ISA {
namespace {

enum class Way { kDepthwise, kWinograd, kWindows, kProduct };

constexpr int64_t kWindowBytes = 768 * 1024;  // of kernels, for Way::kWindows
constexpr int64_t kGrainWork = 1 << 19;
constexpr int64_t kBandBytes = 96 * 1024;
// Bands of Way::kDepthwise, as neighbours share lines of x, and the frame that is worth them.
constexpr int64_t kDepthwiseBandBytes = 256 * 1024, kLargeFrame = 4 << 20;
constexpr int64_t kSlots = 16;
constexpr int64_t kTurned = 256;  // elements of a kernel that are turned at once, for packing

size_t align64(size_t n) { return (n + 63) & ~size_t{63}; }

/// True if the micro-kernel takes bfloat16 by pairs of channels, where they lie or in a frame,
/// which has room to make the number of channels even.
bool by_pairs(const Correlation& c) {
  return comes_by_pairs(c.kernels.dtype) && (c.depth % 2 == 0 || c.groups == 1) &&
         !depthwise_takes(c) && !(kHasWinograd && winograd_takes(c));
}
/// Units of a pixel in one group. Frames are counted in these.
int64_t depth_of(const Correlation& c) { return by_pairs(c) ? (c.depth + 1) / 2 : c.depth; }
int64_t steps(const Correlation& c) { return c.taps_h * c.taps_w * depth_of(c); }

Way way_of(const Correlation& c) {
  if (depthwise_takes(c)) return Way::kDepthwise;
  if (kHasWinograd && winograd_takes(c)) return Way::kWinograd;
  // A frame has room for 16 pixels past its end.
  const bool fits = steps(c) * c.outs * 4 <= kWindowBytes && c.step_w <= 16;
  return !is_double(c.kernels.dtype) && fits ? Way::kWindows : Way::kProduct;
}

/// The micro-kernel, made to take all of k at once where the frame is read in place.
Micro micro_for(const Correlation& c) {
  Micro m = micro_of(c.kernels.dtype, by_pairs(c));
  if (way_of(c) == Way::kWindows) m.k_block = steps(c) > 0 ? steps(c) : 1;
  return m;
}

/// Windows whose distance is a multiple of 2 KiB would evict each other from the cache.
bool collides(const Correlation& c, int64_t pixel) {
  return way_of(c) == Way::kWindows && c.step_w * pixel * (by_pairs(c) ? 2 : 4) % 2048 == 0;
}

bool by_depthwise(const Correlation& c) { return kHasDepthwise && depthwise_takes(c); }
bool by_winograd(const Correlation& c) { return kHasWinograd && way_of(c) == Way::kWinograd; }

/// The part of x that goes into the frame: what is read, with its padding, or all of x alone.
FrameShape framed(const Correlation& c) {
  if (way_of(c) == Way::kWindows) return frame_of(c);
  FrameShape all = {0, 0, c.x.shape[2], c.x.shape[3]};
  if (by_pairs(c)) all.pixel = 2 * c.groups * depth_of(c);
  return all;
}

bool in_place(const Correlation& c) {
  if (!frame_in_place(c.x, framed(c), by_pairs(c))) return false;
  // Tiles have an even height: with an odd row the last one reads a pixel too many.
  return way_of(c) != Way::kWindows || (c.cols % 2 == 0 && !collides(c, c.x.stride[3]));
}

// A frame for Way::kWindows or kDepthwise is copied a band of output lines at a time, right before
// these are computed, so that it stays in the cache. Ranges of lines are shared out, each with its
// own slot.
bool by_bands(const Correlation& c) {
  if (!by_depthwise(c)) return way_of(c) == Way::kWindows;
  return frame_bytes(c.x, framed(c)) > static_cast<size_t>(kLargeFrame);
}

struct Bands {
  int64_t lines, slots;  // output lines of a band, ranges
  size_t bytes;          // of a slot
};

FrameShape band_of(const Correlation& c, int64_t line, int64_t lines) {
  Correlation some = c;
  some.rows = lines;
  some.top = c.top - line * c.step_h;
  return frame_of(some);
}

View one_image(const View& x, int64_t n) {
  View one = x;
  one.shape[0] = 1;
  one.data = x.as<uint8_t>() + n * x.stride[0] * static_cast<int64_t>(size_of(x.dtype));
  return one;
}

Bands bands_of(const Correlation& c) {
  const View one = one_image(c.x, 0);
  const bool pairs = by_pairs(c);
  const int64_t all = c.x.shape[0] * c.rows, line = c.cols * c.groups * c.outs * steps(c);
  const auto first = static_cast<int64_t>(frame_bytes(one, band_of(c, 0, 1), pairs));
  const auto more = static_cast<int64_t>(frame_bytes(one, band_of(c, 0, 2), pairs)) - first;
  const int64_t fit = by_depthwise(c) ? kDepthwiseBandBytes : kBandBytes;
  Bands b;
  b.lines = 1 + (first < fit && more > 0 ? (fit - first) / more : 0);
  if (b.lines > c.rows) b.lines = c.rows;
  b.slots = all * line / kGrainWork;
  if (b.slots > kSlots) b.slots = kSlots;
  if (b.slots > all) b.slots = all;
  if (b.slots < 1) b.slots = 1;
  b.bytes = align64(frame_bytes(one, band_of(c, 0, b.lines), pairs));
  return b;
}

// -- kernels -------------------------------------------------------------------------------------
struct KernelSource {
  const Correlation* c;
  int64_t group;
};

template <class T>
void gather(const KernelSource& s, int64_t out, int64_t k, int64_t count, Compute<T>* to) {
  const Kernels& w = s.c->kernels;
  const T* base = static_cast<const T*>(w.data) + s.group * w.group + out * w.out;
  int64_t tap = k / s.c->depth, d = k - tap * s.c->depth;
  int64_t p = tap / s.c->taps_w, q = tap - p * s.c->taps_w;
  for (int64_t i = 0; i < count;) {
    const T* from = base + p * w.tap_h + q * w.tap_w;
    for (; d < s.c->depth && i < count; ++d, ++i)
      to[i] = static_cast<Compute<T>>(from[d * w.depth]);
    d = 0;
    if (++q == s.c->taps_w) q = 0, ++p;
  }
}

/// `count` pairs of channels.
void gather_pairs(const KernelSource& s, int64_t out, int64_t k, int64_t count, uint16_t* to) {
  const Correlation& c = *s.c;
  const Kernels& w = c.kernels;
  const uint16_t* base = static_cast<const uint16_t*>(w.data) + s.group * w.group + out * w.out;
  const int64_t units = depth_of(c);
  int64_t tap = k / units, d = 2 * (k - tap * units);
  for (int64_t i = 0; i < count; ++i, d += 2, to += 2) {
    if (d >= c.depth) d = 0, ++tap;
    const int64_t p = tap / c.taps_w, q = tap - p * c.taps_w;
    const uint16_t* from = base + p * w.tap_h + q * w.tap_w + d * w.depth;
    to[0] = from[0];
    to[1] = d + 1 < c.depth ? from[w.depth] : uint16_t{0};
  }
}

const void* read_kernel(const void* ctx, int64_t out, int64_t k, int64_t count, void* buffer) {
  const KernelSource& s = *static_cast<const KernelSource*>(ctx);
  switch (s.c->kernels.dtype) {
    case DType::kF64:
      if constexpr (computes(DType::kF64))
        gather<double>(s, out, k, count, static_cast<double*>(buffer));
      break;
    case DType::kF16:
      if constexpr (computes(DType::kF16))
        gather<F16>(s, out, k, count, static_cast<float*>(buffer));
      break;
    case DType::kBF16:
      if constexpr (computes(DType::kBF16)) {
        if (by_pairs(*s.c))
          gather_pairs(s, out, k, count, static_cast<uint16_t*>(buffer));
        else
          gather<BF16>(s, out, k, count, static_cast<float*>(buffer));
      }
      break;
    default:
      gather<float>(s, out, k, count, static_cast<float*>(buffer));
      break;
  }
  return buffer;
}

/// Pointwise float kernels whose channels lie as they are wanted.
bool is_pointwise(const Correlation& c) {
  return c.kernels.dtype == DType::kF32 && c.taps_h * c.taps_w == 1 && c.kernels.depth == 1;
}
const void* read_pointwise(const void* ctx, int64_t out, int64_t k, int64_t, void*) {
  const KernelSource& s = *static_cast<const KernelSource*>(ctx);
  const Kernels& w = s.c->kernels;
  return static_cast<const float*>(w.data) + s.group * w.group + out * w.out + k;
}

/// True of float kernels whose outputs are nearer each other in memory than the steps of k.
bool by_outs(const Correlation& c) {
  return c.kernels.dtype == DType::kF32 && c.kernels.out < c.kernels.depth;
}

/// What gemm_pack writes, with every kernel's memory gone through but once.
void pack_by_outs(const KernelSource& s, const Micro& micro, float* packed) {
  const Correlation& c = *s.c;
  const Kernels& w = c.kernels;
  const float* base = static_cast<const float*>(w.data) + s.group * w.group;
  for (int64_t d = 0; d < c.depth; ++d)
    for (int64_t tap = 0; tap < c.taps_h * c.taps_w; ++tap)
      gemm_pack_step(c.outs, steps(c), micro.k_block, tap * c.depth + d,
                     base + d * w.depth + tap / c.taps_w * w.tap_h + tap % c.taps_w * w.tap_w,
                     w.out, packed);
}

/// True of float kernels that lie one after the other, each tap beside the next. Libraries for
/// models pack but once and go without.
bool by_kernels(const Correlation& c) {
  const Kernels& w = c.kernels;
  const int64_t taps = c.taps_h * c.taps_w;
  return !kSmallBuild && w.dtype == DType::kF32 && taps > 1 && taps <= kTurned / 2 &&
         w.tap_w == 1 && w.tap_h == c.taps_w && w.depth == taps && w.out > 1;
}

/// What gemm_pack writes, with kernels turned as they lie and their taps parted after that.
void pack_by_kernels(const Call& call, const KernelSource& s, const Micro& micro, float* packed) {
  const Correlation& c = *s.c;
  const Kernels& w = c.kernels;
  const int64_t taps = c.taps_h * c.taps_w, all = steps(c), panel = kTileVecs * kLanes;
  const int64_t block = gemm_k_block(micro, all), padded = gemm_columns(micro, c.outs);
  MatrixSource matrix;
  Lines lanes, along;
  lanes.add(c.outs, w.out);
  along.add(all, 1);
  const Source source = matrix_source(
      &matrix, static_cast<const float*>(w.data) + s.group * w.group, DType::kF32, lanes, along);
  const int64_t vectors = (c.outs + kLanes - 1) / kLanes;
  parallel_for(
      call, vectors, 1 + kGrainWork / 16 / (all * kLanes), [&](int64_t begin, int64_t end) {
        alignas(64) float turned[kTurned * kLanes];
        for (int64_t col = begin * kLanes; col < end * kLanes; col += kLanes) {
          const int64_t first = col / panel * panel;  // of the panel
          const int64_t width = c.outs - first <= kLanes ? kLanes : panel;
          const auto some = static_cast<int>(c.outs - col < kLanes ? c.outs - col : kLanes);
          for (int64_t d = 0, count = 0; d < c.depth; d += count) {
            count = c.depth - d < kTurned / taps ? c.depth - d : kTurned / taps;
            pack_panel(source, 4, col, some, kLanes, d * taps, count * taps, turned);
            for (int64_t t = 0; t < taps; ++t) {
              const float* from = turned + t * kLanes;
              for (int64_t k = t * c.depth + d, stop = k + count; k < stop;) {
                const int64_t k0 = k / block * block;
                const int64_t units = all - k0 < block ? all - k0 : block;
                float* to = packed + k0 * padded + first * units + (k - k0) * width + col - first;
                for (; k < stop && k < k0 + units; ++k, from += taps * kLanes, to += width)
                  store(to, load(from));
              }
            }
          }
        }
      });
}

size_t group_bytes(const Correlation& c) {
  return align64(gemm_packed_size(micro_for(c), c.outs, steps(c)));
}

void pack_depthwise(const Correlation& c, void* packed) {
  const Kernels& w = c.kernels;
  const auto size = static_cast<int64_t>(micro_of(w.dtype).size);
  const auto element = static_cast<int64_t>(size_of(w.dtype));
  memset(packed, 0, depthwise_packed_size(c, size));
  auto* to = static_cast<uint8_t*>(packed);
  for (int64_t t = 0; t < c.taps_h * c.taps_w; ++t, to += depthwise_width(c) * size) {
    const int64_t tap = t / c.taps_w * w.tap_h + t % c.taps_w * w.tap_w;
    widen(static_cast<const uint8_t*>(w.data) + tap * element, w.dtype, w.group, c.groups, to);
  }
}

// -- the ways ------------------------------------------------------------------------------------
/// One group of one correlation, its parts at hand.
struct Job {
  const Correlation& c;
  const Micro& micro;
  Frame frame;
  const uint8_t* packed;
  const uint8_t* init;
  Gemm g;  // c, ldc and finish say where tiles go
  int64_t run;
  void* out;             // channel 0 of the group in the first pixel
  int64_t images, rows;  // lines of output that the frame is for
  int64_t first;         // the number of the first of them
  Fetch fetch;
};

void run_windows(const Call& call, const Job& s) {
  const Correlation& c = s.c;
  WindowProduct p = {};
  p.g = s.g;
  p.a = s.frame.data;
  p.image = s.frame.image * 4;
  p.line = c.step_h * s.frame.row * 4;
  p.rows = s.rows;
  p.cols = c.cols;
  p.run = s.run;
  p.first = s.first * c.cols;
  p.fetch = s.fetch;
  p.g.micro = &s.micro;
  p.g.m = s.images * s.rows * c.cols;
  p.g.n = c.outs;
  p.g.packed = s.packed;
  p.g.init = s.init;
  const Place& out = c.end.out;
  if (p.g.c == nullptr && out.dtype == DType::kF32 && out.stride == 1) {
    // Pixels lie evenly within a line at least.
    p.lines = &out.rows;
    p.g.c = s.out;
    p.g.ldc = c.cols > 1 ? out.rows.at(1) - out.rows.at(0) : 0;
    if (c.end.plain()) p.g.finish = nullptr;
  }
  p.windows = {c.step_w * s.frame.pixel * 4, c.taps_h, c.taps_w * depth_of(c) / s.run,
               c.tap_h * s.frame.row * 4, c.tap_w * s.frame.pixel * 4};
  multiply_windows(call, p);
}

void run_product(const Call& call, const Job& s, void* scratch) {
  const Correlation& c = s.c;
  const WindowRows windows = {s.frame, c.x.shape[2], c.x.shape[3], c.top,    c.left,
                              c.rows,  c.cols,       c.step_h,     c.step_w, c.taps_w,
                              c.tap_h, c.tap_w,      depth_of(c),  s.run,    s.micro.size};
  Gemm g = s.g;
  g.micro = &s.micro;
  g.m = c.x.shape[0] * c.rows * c.cols;
  g.n = c.outs;
  g.k = steps(c);
  g.a = {&windows, read_window, false};
  g.packed = s.packed;
  g.init = s.init;
  gemm(call, g, scratch);
}

// -- scratch: kernels, frame, bias, then the product's own ---------------------------------------
size_t bias_bytes(const Correlation& c) {
  if (c.bias == nullptr || !c.bias->given()) return 0;
  const int64_t lanes = kTileVecs * kLanes;
  return static_cast<size_t>((c.groups * c.outs + 2 * lanes) * micro_of(c.kernels.dtype).size);
}

size_t product_bytes(const Correlation& c) {
  if (by_winograd(c)) return winograd_scratch(c);
  if (way_of(c) != Way::kProduct) return 0;
  return gemm_scratch(micro_for(c), c.x.shape[0] * c.rows * c.cols, c.outs, steps(c),
                      takes_tiles(c.end.out), true);
}

Place shifted(Place p, int64_t channels) {
  if (p.data != nullptr)
    p.data = static_cast<uint8_t*>(p.data) +
             channels * p.stride * static_cast<int64_t>(size_of(p.dtype));
  return p;
}

/// Elements of a row of taps that are neighbours in a frame.
int64_t run_of(const Correlation& c, const Frame& frame) {
  const int64_t depth = depth_of(c);
  const bool joined = c.tap_w == 1 && frame.pixel == depth && c.taps_w > 0;
  return joined ? c.taps_w * depth : depth;
}

void run_group(const Call& call, const Correlation& c, Job s, int64_t group, int64_t channels,
               void* scratch) {
  if (!by_depthwise(c)) s.packed += static_cast<size_t>(group) * group_bytes(c);
  const int64_t first = group * c.outs, size = s.micro.size;
  FloatEnd end = {shifted(c.end.out, first), shifted(c.end.residual, first), c.end.act};
  if (c.end.by_channels()) end.channels = c.end.channels, end.first = first;
  set_output(&s.g, &end);
  s.out = end.out.data;
  if (s.init != nullptr) s.init += first * size;
  s.run = run_of(c, s.frame);
  s.frame.data = static_cast<const uint8_t*>(s.frame.data) + group * channels * size;
  if (by_winograd(c))
    winograd(call, c, s.frame, s.packed, reinterpret_cast<const float*>(s.init), s.g, scratch);
  else if (way_of(c) == Way::kWindows)
    run_windows(call, s);
  else if (by_depthwise(c))
    depthwise(call, c, s.frame, s.packed, s.init, s.g, s.first, s.images * s.rows);
  else
    run_product(call, s, scratch);
}

/// The rows of x that a band needs after that of `lines` lines from `line` on.
Fetch after_band(const Correlation& c, int64_t n, int64_t line, int64_t lines) {
  const int64_t row = (line + lines) * c.step_h - c.top + (c.taps_h - 1) * c.tap_h;
  const auto size = static_cast<int64_t>(size_of(c.x.dtype));
  Fetch f = {c.x.as<const uint8_t>() + (n * c.x.stride[0] + row * c.x.stride[2]) * size,
             lines * c.step_h * c.x.stride[2] * size};
  const bool apart = c.taps_h * c.taps_w == 1 && c.x.stride[3] > c.x.shape[1];
  if (!kSmallBuild && apart && c.x.stride[1] == 1) {
    f.piece = c.x.shape[1] * size;
    f.pieces = c.x.shape[3];
    f.bytes = lines * f.pieces * f.piece;
    f.pitch = c.x.stride[3] * size;
    f.line = c.x.stride[2] * size;
  }
  return f;
}

void run_bands(const Call& call, const Correlation& c, const Job& job, uint8_t* memory) {
  const Bands bands = bands_of(c);
  const int64_t lines = c.x.shape[0] * c.rows;
  Call alone = call;
  if (bands.slots > 1) alone.parallel = nullptr;
  parallel_for(call, bands.slots, 1, [&](int64_t begin, int64_t end) {
    Job s = job;
    for (int64_t slot = begin; slot < end; ++slot) {
      void* const own = memory + static_cast<size_t>(slot) * bands.bytes;
      const int64_t stop = (slot + 1) * lines / bands.slots;
      for (s.first = slot * lines / bands.slots; s.first < stop; s.first += s.rows) {
        const int64_t n = s.first / c.rows, i = s.first - n * c.rows;
        s.rows = stop - s.first < c.rows - i ? stop - s.first : c.rows - i;
        if (s.rows > bands.lines) s.rows = bands.lines;
        s.frame =
            make_frame(alone, one_image(c.x, n), band_of(c, i, s.rows), false, own, by_pairs(c));
        if (by_depthwise(c)) {  // expects all of x
          const int64_t row = i * c.step_h - c.top;
          s.frame.data = static_cast<const uint8_t*>(s.frame.data) +
                         (c.left * s.frame.pixel - row * s.frame.row) * s.micro.size;
          s.frame.image = 0;
          run_group(alone, c, s, 0, 0, nullptr);
          continue;
        }
        s.fetch = after_band(c, n, i, s.rows);
        for (int64_t g = 0; g < c.groups; ++g) run_group(alone, c, s, g, depth_of(c), nullptr);
      }
    }
  });
}

}  // namespace

FrameShape frame_of(const Correlation& c) {
  auto extent = [](int64_t n, int64_t step, int64_t taps, int64_t tap) {
    return n <= 0 || taps <= 0 ? int64_t{0} : (n - 1) * step + (taps - 1) * tap + 1;
  };
  FrameShape s = {c.top, c.left, extent(c.rows, c.step_h, c.taps_h, c.tap_h),
                  extent(c.cols, c.step_w, c.taps_w, c.tap_w)};
  const int64_t channels = c.groups * (by_pairs(c) ? 2 * depth_of(c) : c.depth);
  if (by_pairs(c)) s.pixel = channels;
  if (collides(c, channels)) s.pixel = channels + 16;
  return s;
}

size_t correlate_packed_size(const Correlation& c) {
  if (by_depthwise(c)) return depthwise_packed_size(c, micro_for(c).size);
  if (by_winograd(c)) return winograd_packed_size(c);
  return group_bytes(c) * static_cast<size_t>(c.groups);
}

void correlate_pack(const Call& call, const Correlation& c, void* packed) {
  if (by_depthwise(c)) return pack_depthwise(c, packed);
  if (by_winograd(c)) return winograd_pack(call, c, packed);
  const Micro micro = micro_for(c);
  for (int64_t g = 0; g < c.groups; ++g) {
    const KernelSource s = {&c, g};
    uint8_t* const to = static_cast<uint8_t*>(packed) + static_cast<size_t>(g) * group_bytes(c);
    if (by_outs(c))
      pack_by_outs(s, micro, reinterpret_cast<float*>(to));
    else if (by_kernels(c))
      pack_by_kernels(call, s, micro, reinterpret_cast<float*>(to));
    else
      gemm_pack(micro, {&s, is_pointwise(c) ? read_pointwise : read_kernel, false}, c.outs,
                steps(c), to);
  }
}

size_t correlate_scratch(const Correlation& c) {
  size_t bytes = 64 + align64(bias_bytes(c)) + product_bytes(c);
  if (c.packed == nullptr) bytes += align64(correlate_packed_size(c));
  if (in_place(c)) return bytes;
  if (!by_bands(c)) return bytes + align64(frame_bytes(c.x, framed(c), by_pairs(c)));
  const Bands bands = bands_of(c);
  return bytes + static_cast<size_t>(bands.slots) * bands.bytes;
}

void correlate(const Call& call, const Correlation& c, void* scratch) {
  if (c.x.shape[0] * c.rows * c.cols * c.outs == 0) return;
  uint8_t* rest = static_cast<uint8_t*>(scratch);
  auto take = [&](size_t bytes) {
    uint8_t* const piece = rest;
    rest += align64(bytes);
    return piece;
  };
  const Micro micro = micro_for(c);
  const void* packed = c.packed;
  if (packed == nullptr) {
    void* const memory = take(correlate_packed_size(c));
    correlate_pack(call, c, memory);
    packed = memory;
  }
  uint8_t* bias = nullptr;
  if (bias_bytes(c) > 0) {
    bias = take(bias_bytes(c));
    widen(c.bias->data, c.bias->dtype, c.bias->stride[0], c.groups * c.outs, bias);
  }
  Job s = {c, micro, {}, static_cast<const uint8_t*>(packed), bias, {}, 0, nullptr, 0, 0, 0, {}};
  s.images = c.x.shape[0];
  s.rows = c.rows;
  const bool here = in_place(c);
  if (!here && by_bands(c)) {
    s.images = 1;
    return run_bands(call, c, s, rest);
  }
  void* const memory = here ? nullptr : take(frame_bytes(c.x, framed(c), by_pairs(c)));
  s.frame = make_frame(call, c.x, framed(c), here, memory, by_pairs(c));
  // Depthwise, every channel at once: the outputs of all groups are one row.
  if (by_depthwise(c)) return run_group(call, c, s, 0, 0, rest);
  for (int64_t g = 0; g < c.groups; ++g) run_group(call, c, s, g, depth_of(c), rest);
}

}  // namespace proa::PROA_ISA
