// A line of dy times all taps of all channels, pixels x outs x (taps, channels), and the results
// added at the taps of their pixels: in a band of dx with its padding, float and
// channels-last. Each element gets its addends in the order of the pixels, so bands, which depend
// on the size of the batch, change nothing.
#include "proa/kernels/conv/scatter_input.h"
#include "proa/base/arith.h"

#include <string.h>

#include "proa/base/dispatch.h"
#include "proa/gen/attrs/conv.h"
#include "proa/simd/gemm/epilogue.h"

namespace proa::PROA_ISA {
namespace {

constexpr int64_t kMaxChannels = 8, kMinTaps = 4;
constexpr int64_t kTasks = 8, kSlots = 16;

/// One axis of the convolution.
struct Axis {
  int64_t size, count;  // of dx, of dy
  int64_t stride, kernel, dilation, padding;
  int64_t reach() const { return (kernel - 1) * dilation + 1; }
  /// Elements of padded dx that the first n of dy reach.
  int64_t extent(int64_t n) const { return n == 0 ? 0 : (n - 1) * stride + reach(); }
};

/// The products of a pixel of dy: with all taps and channels.
struct WindowRow {
  int64_t channels, size;  // all elements
  int64_t run;             // those side by side
  int64_t columns;         // products, in whole vectors
};

/// Bands of dx.
struct Bands {
  int64_t count, height;  // of an image; lines of one
  int64_t slots;
};

struct Job {
  View dy, w, dx;
  Axis down, along;
  WindowRow window;
  Bands bands;
  PaddedShape shape;
  bool dy_in_place;
  int64_t pitch() const { return along.extent(along.count) * window.channels; }
  int64_t band_floats() const {
    return round_up((bands.height + 2 * down.reach()) * pitch() + kLanes, kLanes);
  }
  int64_t line_floats() const { return (along.count + 1) * window.columns + kLanes; }
  int64_t slot_floats() const { return round_up(band_floats() + line_floats(), kLanes); }
};

Micro micro_for(const View& w) {
  Micro m = kMicroF32;
  m.k_block = max(w.shape[0], 1);
  return m;
}

Job job_of(const Call& call) {
  const auto& a = call.attr<Conv2dGradInputAttrs>();
  Job j = {};
  j.dy = call.in[0];
  j.w = call.in[1];
  j.dx = call.out[0];
  j.down = {j.dx.shape[2], j.dy.shape[2], a.stride[0], j.w.shape[2], a.dilation[0], a.padding[0]};
  j.along = {j.dx.shape[3], j.dy.shape[3], a.stride[1], j.w.shape[3], a.dilation[1], a.padding[2]};
  j.window.channels = j.w.shape[1];
  j.window.size = j.window.channels * j.down.kernel * j.along.kernel;
  j.window.run = j.along.dilation == 1 ? j.along.kernel * j.window.channels : j.window.channels;
  j.window.columns = gemm_columns(kMicroF32, j.window.size);
  const int64_t images = max(j.dx.shape[0], 1);
  j.bands.count = min(ceil_div(kTasks, images), max(ceil_div(j.down.size, 4 * j.down.reach()), 1));
  j.bands.height = ceil_div(j.down.size, j.bands.count);
  j.bands.slots = min(images * j.bands.count, kSlots);
  j.shape = {0, 0, j.down.count, j.along.count};
  // Tiles read an even number of pixels.
  j.dy_in_place = is_usable_in_place(j.dy, j.shape) && j.along.count % 2 == 0;
  return j;
}

/// out(pixel, window) = dy(pixel) * kernels, for one line of dy.
void multiply_line(const Job& j, const PaddedInput& f, int64_t n, int64_t i, const float* kernels,
                   float* out) {
  const int64_t panel = kTileVecs * kLanes, outs = j.w.shape[0];
  const float* const line = static_cast<const float*>(f.data) + n * f.image + i * f.row;
  const Patches rows = {f.pixel * 4, 1, 1, 0, 0};
  for (int64_t at = 0; at < j.along.count; at += kTileRows)
    for (int64_t col = 0; col < j.window.size; col += panel) {
      const int vecs = j.window.size - col <= kLanes ? 1 : kTileVecs;
      Tile t = {};
      t.a.data = line + at * f.pixel;
      t.b = {kernels + col * outs, vecs * kLanes};
      t.c = {out + at * j.window.columns + col, j.window.columns, tile_rows(j.along.count - at),
             kLanes};
      t.k = outs;
      kMicroF32.run_patches(t.c.count, vecs, t, rows);
    }
}

/// Adds the products of a line to the lines of the band from `band` on.
void scatter_line(const Job& j, const float* products, float* band) {
  const int64_t runs = j.along.kernel * j.window.channels / j.window.run, pitch = j.pitch();
  const int64_t step = j.along.stride * j.window.channels;
  for (int64_t x = 0; x < j.along.count; ++x, products += j.window.columns, band += step) {
    const float* from = products;
    for (int64_t p = 0; p < j.down.kernel; ++p)
      for (int64_t q = 0; q < runs; ++q, from += j.window.run) {
        float* const to =
            band + p * j.down.dilation * pitch + q * j.along.dilation * j.window.channels;
        for (int64_t e = 0; e < j.window.run; e += kLanes) {
          const int64_t some = min(j.window.run - e, kLanes);
          if (!kHasMaskedStores && some < kLanes) {
            for (int64_t k = e; k < j.window.run; ++k) to[k] += from[k];
            continue;
          }
          store_n(to + e, load_n(to + e, some) + load_n(from + e, some), some);
        }
      }
  }
}

/// Lines [first, end) of dx, from a band whose line 0 is `line` of padded dx.
template <class T>
void write_lines(const Job& j, int64_t n, int64_t first, int64_t end, const float* band,
                 int64_t line, int64_t lines, const float* bias) {
  for (int64_t h = first; h < end; ++h) {
    const int64_t at = h + j.down.padding - line;
    T* const to = j.dx.as<T>() + n * j.dx.stride[0] + h * j.dx.stride[2];
    for (int64_t w = 0; w < j.along.size; ++w) {
      const int64_t x = w + j.along.padding;
      const bool inside = at >= 0 && at < lines && x * j.window.channels < j.pitch();
      for (int64_t c = 0; c < j.window.channels; ++c) {
        const float sum = inside ? band[at * j.pitch() + x * j.window.channels + c] : 0.0f;
        to[w * j.dx.stride[3] + c * j.dx.stride[1]] =
            static_cast<T>(bias == nullptr ? sum : sum + bias[c]);
      }
    }
  }
}

/// Band `part` of image n.
template <class T>
void run_band(const Job& j, const PaddedInput& f, int64_t n, int64_t part, const float* kernels,
              const float* bias, float* memory) {
  const int64_t first = part * j.bands.height, end = min(first + j.bands.height, j.down.size);
  const int64_t top = first + j.down.padding;  // of padded dx
  // Lines of dy that reach one of these.
  const int64_t i0 = top < j.down.reach() ? 0 : (top - j.down.reach()) / j.down.stride + 1;
  const int64_t i1 = min((end - 1 + j.down.padding) / j.down.stride + 1, j.down.count);
  const int64_t lines = j.down.extent(max(i1 - i0, 0));
  memset(memory, 0, static_cast<size_t>(lines * j.pitch()) * sizeof(float));
  float* const products = memory + j.band_floats();
  for (int64_t i = i0; i < i1; ++i) {
    multiply_line(j, f, n, i, kernels, products);
    scatter_line(j, products, memory + (i - i0) * j.down.stride * j.pitch());
  }
  write_lines<T>(j, n, first, end, memory, i0 * j.down.stride, lines, bias);
}

/// ConvWeights (outs; taps, channels), read by outs.
const void* read_window_of(const void* ctx, int64_t out, int64_t begin, int64_t count,
                           void* buffer) {
  const View& w = *static_cast<const View*>(ctx);
  float* const to = static_cast<float*>(buffer);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t tap = (begin + i) / w.shape[1], c = begin + i - tap * w.shape[1];
    const int64_t p = tap / w.shape[3], q = tap - p * w.shape[3];
    to[i] = w.as<const float>()[out * w.stride[0] + c * w.stride[1] + p * w.stride[2] +
                                q * w.stride[3]];
  }
  return buffer;
}

size_t dy_bytes(const Job& j) {
  return j.dy_in_place ? 0 : (padded_bytes(j.dy, j.shape) + 63) & ~size_t{63};
}

}  // namespace

bool scatter_takes(const View& w, int64_t groups) {
  return groups == 1 && w.dtype == DType::kF32 && w.shape[1] <= kMaxChannels &&
         w.shape[2] * w.shape[3] >= kMinTaps && w.shape[0] > kMaxChannels;
}

size_t scatter_packed_size(const View& w) {
  const int64_t window = w.shape[1] * w.shape[2] * w.shape[3];
  return (gemm_packed_size(micro_for(w), window, w.shape[0]) + 63) & ~size_t{63};
}

void scatter_pack(const View& w, void* packed) {
  const int64_t window = w.shape[1] * w.shape[2] * w.shape[3];
  gemm_pack(micro_for(w), {&w, read_window_of, true}, window, w.shape[0], packed);
}

size_t scatter_input_scratch(const Call& call) {
  const Job j = job_of(call);
  size_t bytes =
      static_cast<size_t>(j.bands.slots * j.slot_floats()) * sizeof(float) + dy_bytes(j) + 64;
  if (call.packed == nullptr) bytes += scatter_packed_size(j.w);
  return bytes;
}

void scatter_input(const Call& call, const View* bias) {
  const Job j = job_of(call);
  uint8_t* rest = static_cast<uint8_t*>(call.scratch);
  const void* packed = call.packed;
  if (packed == nullptr) {
    scatter_pack(j.w, rest);
    packed = rest;
    rest += scatter_packed_size(j.w);
  }
  const PaddedInput input = pad_input(call, j.dy, j.shape, j.dy_in_place, rest);
  rest += dy_bytes(j);
  float wide[kMaxChannels];
  if (bias != nullptr) widen(bias->data, bias->dtype, bias->stride[0], j.window.channels, wide);
  const int64_t tasks = j.dx.shape[0] * j.bands.count;
  parallel_for(call, j.bands.slots, 1, [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot) {
      float* const own = reinterpret_cast<float*>(rest) + slot * j.slot_floats();
      for (int64_t t = slot * tasks / j.bands.slots; t < (slot + 1) * tasks / j.bands.slots; ++t)
        if (t % j.bands.count * j.bands.height < j.down.size)
          run_band<float>(j, input, t / j.bands.count, t % j.bands.count,
                          static_cast<const float*>(packed), bias == nullptr ? nullptr : wide, own);
    }
  });
}

}  // namespace proa::PROA_ISA
