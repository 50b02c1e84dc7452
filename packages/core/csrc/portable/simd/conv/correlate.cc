// Four ways, chosen by the kernels' shape alone so that packed kernels fit whatever x comes:
// - depthwise: the channels are the vector;
// - winograd: 3 x 3 kernels over many channels, with fewer products;
// - windows: small kernels stay in the second-level cache, the micro-kernel reads the frame itself;
// - product: large kernels; the windows become rows of a packed matrix product.
#include "proa/simd/conv/correlate.h"

#include <string.h>

#include "proa/base/settings.h"
#include "proa/simd/conv/windows.h"
#include "proa/simd/conv/winograd.h"

namespace proa::PROA_ISA {
namespace {

enum class Way { kDepthwise, kWinograd, kWindows, kProduct };

constexpr int64_t kWindowBytes = 768 * 1024;  // of kernels, for Way::kWindows
constexpr int64_t kGrainWork = 1 << 19;

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
size_t align64(size_t n) { return (n + 63) & ~size_t{63}; }

int64_t steps(const Correlation& c) { return c.taps_h * c.taps_w * c.depth; }

Way way_of(const Correlation& c) {
  if (c.depth == 1 && c.outs == 1 && c.groups > 1) return Way::kDepthwise;
  if (kHasWinograd && winograd_takes(c)) return Way::kWinograd;
  // A frame has room for 16 pixels past its end.
  const bool fits = steps(c) * c.outs * 4 <= kWindowBytes && c.step_w <= 16;
  return !is_double(c.kernels.dtype) && fits ? Way::kWindows : Way::kProduct;
}

/// The micro-kernel, made to take all of k at once where the frame is read in place.
Micro micro_for(const Correlation& c) {
  Micro m = micro_of(c.kernels.dtype);
  if (way_of(c) == Way::kWindows) m.k_block = steps(c) > 0 ? steps(c) : 1;
  return m;
}

/// Windows whose distance is a multiple of 2 KiB would evict each other from the cache.
bool collides(const Correlation& c) {
  return way_of(c) == Way::kWindows && c.step_w * c.groups * c.depth * 4 % 2048 == 0;
}

bool by_winograd(const Correlation& c) { return kHasWinograd && way_of(c) == Way::kWinograd; }

/// The part of x that goes into the frame: what is read, with its padding, or all of x alone.
FrameShape framed(const Correlation& c) {
  return by_winograd(c) ? FrameShape{0, 0, c.x.shape[2], c.x.shape[3]} : frame_of(c);
}

bool in_place(const Correlation& c) {
  if (!frame_in_place(c.x, framed(c))) return false;
  // Tiles have an even height: with an odd row the last one reads a pixel too many.
  return way_of(c) != Way::kWindows || (c.cols % 2 == 0 && !collides(c));
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
      if constexpr (computes(DType::kBF16))
        gather<BF16>(s, out, k, count, static_cast<float*>(buffer));
      break;
    default:
      gather<float>(s, out, k, count, static_cast<float*>(buffer));
      break;
  }
  return buffer;
}

size_t group_bytes(const Correlation& c) {
  return align64(gemm_packed_size(micro_for(c), c.outs, steps(c)));
}

/// Depthwise kernels as [tap][channel].
template <class T>
void pack_depthwise(const Correlation& c, T* to) {
  const int64_t taps = c.taps_h * c.taps_w;
  for (int64_t g = 0; g < c.groups; ++g) {
    const KernelSource s = {&c, g};
    for (int64_t t = 0; t < taps; ++t) read_kernel(&s, 0, t, 1, to + t * c.groups + g);
  }
}

// -- the three ways ------------------------------------------------------------------------------
/// One group of one correlation, its parts at hand.
struct Job {
  const Correlation& c;
  const Micro& micro;
  Frame frame;
  const uint8_t* packed;
  const uint8_t* init;
  Gemm g;  // c, ldc and finish say where tiles go
  int64_t run;
};

void run_windows(const Call& call, const Job& s) {
  const Correlation& c = s.c;
  WindowProduct p = {
      s.g, s.frame.data, s.frame.image * 4, c.step_h * s.frame.row * 4, c.rows, c.cols, {}, s.run};
  p.g.micro = &s.micro;
  p.g.m = c.x.shape[0] * c.rows * c.cols;
  p.g.n = c.outs;
  p.g.packed = s.packed;
  p.g.init = s.init;
  p.windows = {c.step_w * s.frame.pixel * 4, c.taps_h, c.taps_w * c.depth / s.run,
               c.tap_h * s.frame.row * 4, c.tap_w * s.frame.pixel * 4};
  multiply_windows(call, p);
}

void run_product(const Call& call, const Job& s, void* scratch) {
  const Correlation& c = s.c;
  const WindowRows windows = {s.frame, c.rows,  c.cols,  c.step_h, c.step_w,    c.taps_w,
                              c.tap_h, c.tap_w, c.depth, s.run,    s.micro.size};
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

/// Four pixels of one vector of channels.
template <class T>
void depthwise_tile(const Job& s, const T* from, int64_t channel, int64_t some, int count,
                    T* tile) {
  constexpr int kWidth = kLanesOf<T>;
  const Correlation& c = s.c;
  const int64_t step = c.step_w * s.frame.pixel;
  const T* w = reinterpret_cast<const T*>(s.packed) + channel;
  Vec<T> acc[4];
  for (int i = 0; i < 4; ++i)
    acc[i] = s.init == nullptr ? Vec<T>{} : load(reinterpret_cast<const T*>(s.init) + channel);
  for (int64_t p = 0; p < c.taps_h; ++p)
    for (int64_t q = 0; q < c.taps_w; ++q, w += c.groups) {
      const T* x = from + p * c.tap_h * s.frame.row + q * c.tap_w * s.frame.pixel;
      const Vec<T> factor = some == kWidth ? load(w) : load_n(w, some);
      if (some == kWidth && count == 4) {
        for (int i = 0; i < 4; ++i) acc[i] += load(x + i * step) * factor;
      } else {
        for (int i = 0; i < count; ++i) acc[i] += load_n(x + i * step, some) * factor;
      }
    }
  for (int i = 0; i < 4; ++i) {
    if (s.g.relu) acc[i] = acc[i] < Vec<T>{} ? Vec<T>{} : acc[i];
    store(tile + i * kWidth, acc[i]);
  }
}

template <class T>
void run_depthwise(const Call& call, const Job& s) {
  constexpr int kWidth = kLanesOf<T>;
  const Correlation& c = s.c;
  const int64_t grain = 1 + kGrainWork / 8 / (c.cols * c.groups * c.taps_h * c.taps_w + 1);
  parallel_for(call, c.x.shape[0] * c.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const int64_t n = line / c.rows, i = line - n * c.rows;
      const T* a =
          static_cast<const T*>(s.frame.data) + n * s.frame.image + i * c.step_h * s.frame.row;
      for (int64_t j = 0; j < c.cols; j += 4) {
        const int count = static_cast<int>(least(c.cols - j, 4));
        for (int64_t channel = 0; channel < c.groups; channel += kWidth) {
          const int64_t some = least(c.groups - channel, kWidth), row = line * c.cols + j;
          alignas(64) T tile[4 * kWidth];
          depthwise_tile(s, a + j * c.step_w * s.frame.pixel + channel, channel, some, count, tile);
          T* place = tile;
          int64_t ld = kWidth;
          if (s.g.c != nullptr) {
            ld = s.g.ldc;
            place = static_cast<T*>(s.g.c) + row * ld + channel;
            for (int x = 0; x < count; ++x) store_n(place + x * ld, load(tile + x * kWidth), some);
          }
          if (s.g.finish != nullptr)
            s.g.finish(s.g.finish_ctx, place, ld, row, count, channel, static_cast<int>(some));
        }
      }
    }
  });
}

// -- scratch: kernels, frame, bias, then the product's own
// ------------------------------------------
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

void run_group(const Call& call, const Correlation& c, Job s, int64_t group, int64_t channels,
               void* scratch) {
  const int64_t first = group * c.outs, size = s.micro.size;
  const FloatEnd end = {shifted(c.end.out, first), shifted(c.end.residual, first), c.end.act};
  set_output(&s.g, &end);
  if (s.init != nullptr) s.init += first * size;
  s.frame.data = static_cast<const uint8_t*>(s.frame.data) + group * channels * size;
  if (by_winograd(c))
    winograd(call, c, s.frame, s.packed, reinterpret_cast<const float*>(s.init), s.g, scratch);
  else if (way_of(c) == Way::kWindows)
    run_windows(call, s);
  else if (way_of(c) == Way::kProduct)
    run_product(call, s, scratch);
  else if (computes(DType::kF64) && size == 8)
    run_depthwise<double>(call, s);
  else
    run_depthwise<float>(call, s);
}

}  // namespace

FrameShape frame_of(const Correlation& c) {
  auto extent = [](int64_t n, int64_t step, int64_t taps, int64_t tap) {
    return n <= 0 || taps <= 0 ? int64_t{0} : (n - 1) * step + (taps - 1) * tap + 1;
  };
  FrameShape s = {c.top, c.left, extent(c.rows, c.step_h, c.taps_h, c.tap_h),
                  extent(c.cols, c.step_w, c.taps_w, c.tap_w)};
  if (collides(c)) s.pixel = c.groups * c.depth + 16;
  return s;
}

size_t correlate_packed_size(const Correlation& c) {
  if (way_of(c) == Way::kDepthwise)
    return static_cast<size_t>(steps(c) * c.groups * micro_for(c).size) + kVecBytes;
  if (by_winograd(c)) return winograd_packed_size(c);
  return group_bytes(c) * static_cast<size_t>(c.groups);
}

void correlate_pack(const Correlation& c, void* packed) {
  if (way_of(c) == Way::kDepthwise) {
    if (is_double(c.kernels.dtype)) return pack_depthwise(c, static_cast<double*>(packed));
    return pack_depthwise(c, static_cast<float*>(packed));
  }
  if (by_winograd(c)) return winograd_pack(c, packed);
  const Micro micro = micro_for(c);
  for (int64_t g = 0; g < c.groups; ++g) {
    const KernelSource s = {&c, g};
    gemm_pack(micro, {&s, read_kernel, false}, c.outs, steps(c),
              static_cast<uint8_t*>(packed) + static_cast<size_t>(g) * group_bytes(c));
  }
}

size_t correlate_scratch(const Correlation& c) {
  size_t bytes = 64 + align64(bias_bytes(c)) + product_bytes(c);
  if (c.packed == nullptr) bytes += align64(correlate_packed_size(c));
  if (!in_place(c)) bytes += align64(frame_bytes(c.x, framed(c)));
  return bytes;
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
    correlate_pack(c, memory);
    packed = memory;
  }
  const bool here = in_place(c);
  void* const memory = here ? nullptr : take(frame_bytes(c.x, framed(c)));
  const Frame frame = make_frame(call, c.x, framed(c), here, memory);
  uint8_t* bias = nullptr;
  if (bias_bytes(c) > 0) {
    bias = take(bias_bytes(c));
    widen(c.bias->data, c.bias->dtype, c.bias->stride[0], c.groups * c.outs, bias);
  }
  const bool joined = c.tap_w == 1 && frame.pixel == c.depth;  // taps of a row are neighbours
  Job s = {c, micro, frame, static_cast<const uint8_t*>(packed), bias, {}, c.depth};
  if (joined && c.taps_w > 0) s.run = c.taps_w * c.depth;
  // Depthwise, every channel at once: the outputs of all groups are one row.
  if (way_of(c) == Way::kDepthwise) return run_group(call, c, s, 0, 0, rest);
  for (int64_t g = 0; g < c.groups; ++g) {
    s.packed = static_cast<const uint8_t*>(packed) + static_cast<size_t>(g) * group_bytes(c);
    run_group(call, c, s, g, c.depth, rest);
  }
}

}  // namespace proa::PROA_ISA
