// Four algorithms, chosen by the shape of the weights alone, so that packed weights serve any x:
// - depthwise: vectorized over channels;
// - Winograd: 3 x 3 kernels over many channels, with fewer multiplications;
// - implicit GEMM: small weights stay in the second-level cache, the micro-kernel reads patches of
//   the padded input in place;
// - im2col: large weights; patches are packed as the rows of a matrix product.
#include "proa/simd/conv/convolution.h"

#include <string.h>

#include "proa/base/settings.h"
#include "proa/base/task_size.h"
#include "proa/simd/conv/depthwise.h"
#include "proa/simd/conv/depthwise_blocks.h"
#include "proa/simd/conv/implicit_gemm.h"
#include "proa/simd/conv/kernel_pairs.h"
#include "proa/simd/conv/winograd.h"
#include "proa/simd/tuning.h"

namespace proa::PROA_ISA {
namespace {

enum class Algorithm { kDepthwise, kWinograd, kImplicitGemm, kIm2col };

constexpr int64_t kSlots = 16;

size_t align64(size_t n) { return (n + 63) & ~size_t{63}; }

/// True if the micro-kernel multiplies pairs of BF16 channels, read in place or from a padded copy,
/// which makes the number of channels even.
bool uses_pairs(const Convolution& c) {
  return multiplies_bf16_pairs(c.kernels.dtype) &&
         (c.channels.in % 2 == 0 || c.channels.groups == 1) && !depthwise_takes(c) &&
         !(kHasWinograd && winograd_takes(c));
}
/// Units of a pixel in one group. Padded inputs are counted in these.
int64_t units_per_pixel(const Convolution& c) {
  return uses_pairs(c) ? (c.channels.in + 1) / 2 : c.channels.in;
}
int64_t k_units(const Convolution& c) { return c.window.taps() * units_per_pixel(c); }

Algorithm choose_algorithm(const Convolution& c) {
  if (depthwise_takes(c)) return Algorithm::kDepthwise;
  if (kHasWinograd && winograd_takes(c)) return Algorithm::kWinograd;
  // A padded copy may be read up to 16 pixels past its end.
  const bool applies = !is_double(c.kernels.dtype) && c.window.stride_w <= 16;
  const bool fits =
      k_units(c) * c.channels.out * 4 <= (uses_pairs(c) ? kImplicitPairs : kImplicitWeight);
  if (!applies || c.strategy == Strategy::kIm2col) return Algorithm::kIm2col;
  return fits || c.strategy == Strategy::kImplicitGemm ? Algorithm::kImplicitGemm
                                                       : Algorithm::kIm2col;
}

/// The micro-kernel, with all of k in one block for implicit GEMM.
Micro choose_micro_kernel(const Convolution& c) {
  Micro m = product_micro_kernel(c.kernels.dtype, uses_pairs(c));
  if (choose_algorithm(c) == Algorithm::kImplicitGemm) m.k_block = k_units(c) > 0 ? k_units(c) : 1;
  return m;
}

/// Patches a multiple of 2 KiB apart map to the same cache sets. AMX reads a line of each at a
/// time, which costs less than a copy.
bool has_cache_conflicts(const Convolution& c, int64_t pixel) {
  return choose_algorithm(c) == Algorithm::kImplicitGemm && !choose_micro_kernel(c).takes_rows() &&
         c.window.stride_w * pixel * (uses_pairs(c) ? 2 : 4) % 2048 == 0;
}

bool is_depthwise(const Convolution& c) { return kHasDepthwise && depthwise_takes(c); }
bool is_winograd(const Convolution& c) {
  return kHasWinograd && choose_algorithm(c) == Algorithm::kWinograd;
}

/// The region of x that is copied: what is read, with its padding, or all of x without.
PaddedShape input_region(const Convolution& c) {
  if (choose_algorithm(c) == Algorithm::kImplicitGemm) return padded_shape(c);
  PaddedShape all = unpadded_shape(c.x);
  if (uses_pairs(c)) all.pixel = 2 * c.channels.groups * units_per_pixel(c);
  return all;
}

bool in_place(const Convolution& c) {
  if constexpr (kHasDepthwiseBlocks) {
    if (depthwise_reads_bf16(c)) return true;
  }
  if (!is_usable_in_place(c.x, input_region(c), uses_pairs(c))) return false;
  // Tiles of vectors have an even height: in an odd row the last one reads a pixel past the end.
  return choose_algorithm(c) != Algorithm::kImplicitGemm || choose_micro_kernel(c).takes_rows() ||
         (c.output.width % 2 == 0 && !has_cache_conflicts(c, c.x.stride[3]));
}

// For Algorithm::kImplicitGemm and kDepthwise the input is copied a band of output lines at a time,
// right before they are computed, so that it stays in the cache. Each task has a slot of scratch.
bool uses_bands(const Convolution& c) {
  if (!is_depthwise(c)) return choose_algorithm(c) == Algorithm::kImplicitGemm;
  return padded_bytes(c.x, input_region(c)) > static_cast<size_t>(caches().large_input);
}

struct Bands {
  int64_t lines, slots;  // output lines of a band, ranges
  size_t bytes;          // of a slot
};

PaddedShape band_region(const Convolution& c, int64_t line, int64_t lines) {
  Convolution some = c;
  some.output.height = lines;
  some.window.pad_top = -c.window.row(line);
  return padded_shape(some);
}

View one_image(const View& x, int64_t n) {
  View one = x;
  one.shape[0] = 1;
  one.data = x.as<uint8_t>() + n * x.stride[0] * static_cast<int64_t>(size_of(x.dtype));
  return one;
}

/// True if a band is an image, whose lines use a panel of weights in turn: then tiles of AMX load
/// it from the third-level cache once. In larger batches that pays for large weights alone.
bool bands_are_images(const Convolution& c, size_t image) {
  if (kSmallBuild || is_depthwise(c) || !choose_micro_kernel(c).takes_rows()) return false;
  const auto fit = static_cast<size_t>(caches().uncached_chunk);
  if (c.x.shape[0] < kSlots / 2) return image <= 2 * fit;
  return image <= fit && k_units(c) * c.channels.out * 4 > caches().uncached_chunk;
}

Bands choose_bands(const Convolution& c) {
  const View one = one_image(c.x, 0);
  const bool pairs = uses_pairs(c);
  const size_t image = padded_bytes(one, band_region(c, 0, c.output.height), pairs);
  if (bands_are_images(c, image)) {  // of few, each is split over threads
    return {c.output.height, c.x.shape[0] < kSlots / 2 ? 1 : kSlots / 2, align64(image)};
  }
  const int64_t all = c.lines(),
                line = c.output.width * c.channels.groups * c.channels.out * k_units(c);
  const auto first = static_cast<int64_t>(padded_bytes(one, band_region(c, 0, 1), pairs));
  const auto more = static_cast<int64_t>(padded_bytes(one, band_region(c, 0, 2), pairs)) - first;
  const int64_t fit = is_depthwise(c) ? caches().depthwise_band : caches().input_band;
  Bands b;
  b.lines = 1 + (first < fit && more > 0 ? (fit - first) / more : 0);
  if (b.lines > c.output.height) b.lines = c.output.height;
  b.slots = all * line / kGemmTaskMacs;
  if (b.slots > kSlots) b.slots = kSlots;
  if (b.slots > all) b.slots = all;
  if (b.slots < 1) b.slots = 1;
  b.bytes = align64(padded_bytes(one, band_region(c, 0, b.lines), pairs));
  return b;
}

// -- kernels -------------------------------------------------------------------------------------
struct KernelSource {
  const Convolution* c;
  int64_t group;
};

template <class T>
void gather(const KernelSource& s, int64_t out, int64_t k, int64_t count, Compute<T>* to) {
  const ConvWeights& w = s.c->kernels;
  const T* base = static_cast<const T*>(w.data) + s.group * w.group + out * w.out;
  int64_t tap = k / s.c->channels.in, d = k - tap * s.c->channels.in;
  int64_t p = tap / s.c->window.kernel_w, q = tap - p * s.c->window.kernel_w;
  for (int64_t i = 0; i < count;) {
    const T* from = base + p * w.tap_h + q * w.tap_w;
    for (; d < s.c->channels.in && i < count; ++d, ++i)
      to[i] = static_cast<Compute<T>>(from[d * w.depth]);
    d = 0;
    if (++q == s.c->window.kernel_w) q = 0, ++p;
  }
}

/// `count` pairs of channels.
void gather_pairs(const KernelSource& s, int64_t out, int64_t k, int64_t count, uint16_t* to) {
  const Convolution& c = *s.c;
  const ConvWeights& w = c.kernels;
  const uint16_t* base = static_cast<const uint16_t*>(w.data) + s.group * w.group + out * w.out;
  const int64_t units = units_per_pixel(c);
  int64_t tap = k / units, d = 2 * (k - tap * units);
  for (int64_t i = 0; i < count; ++i, d += 2, to += 2) {
    if (d >= c.channels.in) d = 0, ++tap;
    const int64_t p = tap / c.window.kernel_w, q = tap - p * c.window.kernel_w;
    const uint16_t* from = base + p * w.tap_h + q * w.tap_w + d * w.depth;
    to[0] = from[0];
    to[1] = d + 1 < c.channels.in ? from[w.depth] : uint16_t{0};
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
        if (uses_pairs(*s.c))
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

/// Pointwise float kernels whose channels have the needed layout.
bool is_pointwise(const Convolution& c) {
  return c.kernels.dtype == DType::kF32 && c.window.taps() == 1 && c.kernels.depth == 1;
}
const void* read_pointwise(const void* ctx, int64_t out, int64_t k, int64_t, void*) {
  const KernelSource& s = *static_cast<const KernelSource*>(ctx);
  const ConvWeights& w = s.c->kernels;
  return static_cast<const float*>(w.data) + s.group * w.group + out * w.out + k;
}

/// True of float kernels whose outputs are nearer each other in memory than the k_units of k.
bool by_outs(const Convolution& c) {
  return c.kernels.dtype == DType::kF32 && c.kernels.out < c.kernels.depth;
}

/// What gemm_pack writes, with every kernel's memory read only once.
void pack_by_outs(const KernelSource& s, const Micro& micro, float* packed) {
  const Convolution& c = *s.c;
  const ConvWeights& w = c.kernels;
  const float* base = static_cast<const float*>(w.data) + s.group * w.group;
  for (int64_t d = 0; d < c.channels.in; ++d)
    for (int64_t tap = 0; tap < c.window.taps(); ++tap)
      gemm_pack_step(c.channels.out, k_units(c), micro.k_block, tap * c.channels.in + d,
                     base + d * w.depth + tap / c.window.kernel_w * w.tap_h +
                         tap % c.window.kernel_w * w.tap_w,
                     w.out, packed);
}

/// True of float kernels that are contiguous one after the other, the taps innermost. Libraries for
/// models pack but once and go without.
bool by_kernels(const Convolution& c) {
  const ConvWeights& w = c.kernels;
  const int64_t taps = c.window.taps();
  return !kSmallBuild && w.dtype == DType::kF32 && taps > 1 && taps <= kTransposeElements / 2 &&
         w.tap_w == 1 && w.tap_h == c.window.kernel_w && w.depth == taps && w.out > 1;
}

/// What gemm_pack writes, with kernels transposed as stored and their taps separated afterwards.
void pack_by_kernels(const Call& call, const KernelSource& s, const Micro& micro, float* packed) {
  const Convolution& c = *s.c;
  const ConvWeights& w = c.kernels;
  const int64_t depth = c.channels.in, outs = c.channels.out;
  const int64_t taps = c.window.taps(), all = k_units(c), panel = kTileVecs * kLanes;
  const int64_t block = gemm_k_block(micro, all), padded = gemm_columns(micro, outs);
  MatrixOperand matrix;
  CoalescedAxes lanes, along;
  lanes.add(outs, w.out);
  along.add(all, 1);
  const PackOperand source = matrix_operand(
      &matrix, static_cast<const float*>(w.data) + s.group * w.group, DType::kF32, lanes, along);
  const int64_t vectors = (outs + kLanes - 1) / kLanes;
  parallel_for(
      call, vectors, 1 + kGemmTaskMacs / 16 / (all * kLanes), [&](int64_t begin, int64_t end) {
        alignas(64) float transposed[kTransposeElements * kLanes];
        for (int64_t col = begin * kLanes; col < end * kLanes; col += kLanes) {
          const int64_t first = col / panel * panel;  // of the panel
          const int64_t width = outs - first <= kLanes ? kLanes : panel;
          const auto some = static_cast<int>(outs - col < kLanes ? outs - col : kLanes);
          for (int64_t d = 0, count = 0; d < depth; d += count) {
            count = depth - d < kTransposeElements / taps ? depth - d : kTransposeElements / taps;
            pack_panel(source, 4, col, some, kLanes, d * taps, count * taps, transposed);
            for (int64_t t = 0; t < taps; ++t) {
              const float* from = transposed + t * kLanes;
              for (int64_t k = t * depth + d, stop = k + count; k < stop;) {
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

/// True of kernels of BF16 that are packed without gathering their elements one by one.
bool packs_pairs(const Convolution& c) {
  if constexpr (kHasBf16Pairs && !kSmallBuild) return uses_pairs(c) && kernel_pairs_takes(c);
  return false;
}
void pack_pairs([[maybe_unused]] const KernelSource& s, [[maybe_unused]] const Micro& micro,
                [[maybe_unused]] uint32_t* packed) {
  if constexpr (kHasBf16Pairs && !kSmallBuild) {
    const ConvWeights& w = s.c->kernels;
    pack_kernel_pairs(*s.c, micro, static_cast<const uint16_t*>(w.data) + s.group * w.group,
                      units_per_pixel(*s.c), packed);
  }
}

size_t group_bytes(const Convolution& c) {
  return align64(gemm_packed_size(choose_micro_kernel(c), c.channels.out, k_units(c)));
}

void pack_depthwise(const Convolution& c, void* packed) {
  const ConvWeights& w = c.kernels;
  const auto size = static_cast<int64_t>(micro_kernel(w.dtype).size);
  const auto element = static_cast<int64_t>(size_of(w.dtype));
  memset(packed, 0, depthwise_packed_size(c, size));
  auto* to = static_cast<uint8_t*>(packed);
  for (int64_t t = 0; t < c.window.taps(); ++t, to += depthwise_width(c) * size) {
    const int64_t tap = t / c.window.kernel_w * w.tap_h + t % c.window.kernel_w * w.tap_w;
    widen(static_cast<const uint8_t*>(w.data) + tap * element, w.dtype, w.group, c.channels.groups,
          to);
  }
}

// -- the algorithms
// ------------------------------------------------------------------------------------
/// The lines of output that an input is for: `rows` of each of `images`.
struct OutputBand {
  int64_t images = 1, rows = 0;
  int64_t first = 0;  // the number of the first of them
  Prefetch next;      // what the band after it reads
};

/// One group of one correlation, its parts at hand.
struct Job {
  const Convolution& c;
  const Micro& micro;
  PaddedInput input;
  const uint8_t* packed;
  const uint8_t* init;
  Gemm g;  // its output says where tiles go
  int64_t run;
  void* out;  // channel 0 of the group in the first pixel
  OutputBand band;
};

void run_patches(const Call& call, const Job& s) {
  const Convolution& c = s.c;
  PatchGemm p = {};
  p.g = s.g;
  p.a.data = s.input.data;
  p.a.image = s.input.image * 4;
  p.a.line = c.window.stride_h * s.input.row * 4;
  p.a.rows = s.band.rows;
  p.a.cols = c.output.width;
  p.a.run = s.run;
  p.out.first = s.band.first * c.output.width;
  p.prefetch = s.band.next;
  p.is_whole = s.band.images == c.x.shape[0] && s.band.rows == c.output.height;
  p.g.micro = &s.micro;
  p.g.m = s.band.images * s.band.rows * c.output.width;
  p.g.n = c.channels.out;
  p.g.packed = s.packed;
  p.g.init = s.init;
  const MatrixRef& out = c.end.out;
  if (p.g.out.c == nullptr && out.dtype == DType::kF32 && out.stride == 1) {
    // Pixels are evenly spaced at least within a line.
    p.out.lines = &out.rows;
    p.g.out.c = s.out;
    p.g.out.ldc = c.output.width > 1 ? out.rows.at(1) - out.rows.at(0) : 0;
    if (c.end.plain()) p.g.out.epilogue = nullptr;
  }
  const auto element = static_cast<int64_t>(size_of(out.dtype));
  if (p.g.out.c == nullptr && out.stride == 1 && out.rows.uniform() &&
      out.rows.step() == c.channels.out) {
    p.out.dense = s.out;
    p.out.dense_row = c.channels.out * element;
  }
  p.a.patches = {c.window.stride_w * s.input.pixel * 4, c.window.kernel_h,
                 c.window.kernel_w * units_per_pixel(c) / s.run,
                 c.window.dilation_h * s.input.row * 4, c.window.dilation_w * s.input.pixel * 4};
  implicit_gemm(call, p);
}

void run_product(const Call& call, const Job& s, void* scratch) {
  const Convolution& c = s.c;
  const Im2colRows patches = {s.input, image_size(c.x), c.window, c.output, units_per_pixel(c),
                              s.run,   s.micro.size};
  Gemm g = s.g;
  g.micro = &s.micro;
  g.m = c.pixels();
  g.n = c.channels.out;
  g.k = k_units(c);
  g.a = {&patches, read_patch, false};
  g.packed = s.packed;
  g.init = s.init;
  gemm(call, g, scratch);
}

// -- scratch: kernels, input, bias, then the product's own ---------------------------------------
size_t bias_bytes(const Convolution& c) {
  if (c.bias == nullptr || !c.bias->given()) return 0;
  const int64_t lanes = kTileVecs * kLanes;
  return static_cast<size_t>((c.channels.groups * c.channels.out + 2 * lanes) *
                             micro_kernel(c.kernels.dtype).size);
}

size_t product_bytes(const Convolution& c) {
  if (is_winograd(c)) return winograd_scratch(c);
  if (choose_algorithm(c) != Algorithm::kIm2col) return 0;
  return gemm_scratch(choose_micro_kernel(c), c.pixels(), c.channels.out, k_units(c),
                      takes_tiles(c.end.out), true);
}

MatrixRef shifted(MatrixRef p, int64_t channels) {
  if (p.data != nullptr)
    p.data = static_cast<uint8_t*>(p.data) +
             channels * p.stride * static_cast<int64_t>(size_of(p.dtype));
  return p;
}

ChannelNorm shifted(const ChannelNorm& norm, int64_t channels, int64_t size) {
  auto at = [&](const void* p) { return static_cast<const uint8_t*>(p) + channels * size; };
  return {at(norm.center), at(norm.factor), at(norm.shift), norm.scale, norm.offset};
}

/// Contiguous elements of a row of taps in a padded input.
int64_t contiguous_taps(const Convolution& c, const PaddedInput& input) {
  const int64_t depth = units_per_pixel(c);
  const bool joined = c.window.dilation_w == 1 && input.pixel == depth && c.window.kernel_w > 0;
  return joined ? c.window.kernel_w * depth : depth;
}

void run_group(const Call& call, const Convolution& c, Job s, int64_t group, int64_t channels,
               void* scratch) {
  if (!is_depthwise(c)) s.packed += static_cast<size_t>(group) * group_bytes(c);
  const int64_t first = group * c.channels.out, size = s.micro.size;
  FloatEpilogue end = {shifted(c.end.out, first), shifted(c.end.residual, first), c.end.act,
                       nullptr};
  ChannelNorm norm;
  if (c.end.by_channels()) {
    norm = shifted(*c.end.norm, first, size);
    end.norm = &norm;
  }
  set_output(&s.g.out, &end);
  s.out = end.out.data;
  if (s.init != nullptr) s.init += first * size;
  s.run = contiguous_taps(c, s.input);
  s.input.data = static_cast<const uint8_t*>(s.input.data) + group * channels * size;
  if (is_winograd(c))
    winograd(call, c, s.input, s.packed, reinterpret_cast<const float*>(s.init), s.g.out, scratch);
  else if (choose_algorithm(c) == Algorithm::kImplicitGemm)
    run_patches(call, s);
  else if (is_depthwise(c))
    depthwise(call, c, s.input, s.packed, s.init, s.g.out, s.band.first,
              s.band.images * s.band.rows);
  else
    run_product(call, s, scratch);
}

/// The rows of x that a band needs after that of `lines` lines from `line` on.
Prefetch after_band(const Convolution& c, int64_t n, int64_t line, int64_t lines) {
  const int64_t row = c.window.row(line + lines, c.window.kernel_h - 1);
  const auto size = static_cast<int64_t>(size_of(c.x.dtype));
  if (!kSmallBuild && row >= c.x.shape[2]) return {};
  Prefetch f = {c.x.as<const uint8_t>() + (n * c.x.stride[0] + row * c.x.stride[2]) * size,
                lines * c.window.stride_h * c.x.stride[2] * size};
  const bool apart = c.window.taps() == 1 && c.x.stride[3] > c.x.shape[1];
  if (!kSmallBuild && apart && c.x.stride[1] == 1) {
    f.part = c.x.shape[1] * size;
    f.parts = c.x.shape[3];
    f.bytes = lines * f.parts * f.part;
    f.pitch = c.x.stride[3] * size;
    f.line = c.x.stride[2] * size;
  }
  return f;
}

void run_bands(const Call& call, const Convolution& c, const Job& job, uint8_t* memory) {
  const Bands bands = choose_bands(c);
  const int64_t lines = c.lines();
  Call alone = call;
  if (bands.slots > 1) alone.parallel = nullptr;
  parallel_for(call, bands.slots, 1, [&](int64_t begin, int64_t end) {
    Job s = job;
    OutputBand& b = s.band;
    for (int64_t slot = begin; slot < end; ++slot) {
      void* const own = memory + static_cast<size_t>(slot) * bands.bytes;
      const int64_t stop = (slot + 1) * lines / bands.slots;
      for (b.first = slot * lines / bands.slots; b.first < stop; b.first += b.rows) {
        const int64_t n = b.first / c.output.height, i = b.first - n * c.output.height;
        b.rows = stop - b.first < c.output.height - i ? stop - b.first : c.output.height - i;
        if (b.rows > bands.lines) b.rows = bands.lines;
        s.input = pad_input(alone, one_image(c.x, n), band_region(c, i, b.rows), false, own,
                            uses_pairs(c));
        if (is_depthwise(c)) {  // expects all of x
          const int64_t row = c.window.row(i);
          s.input.data = static_cast<const uint8_t*>(s.input.data) +
                         (c.window.pad_left * s.input.pixel - row * s.input.row) * s.micro.size;
          s.input.image = 0;
          run_group(alone, c, s, 0, 0, nullptr);
          continue;
        }
        b.next = after_band(c, n, i, b.rows);
        for (int64_t g = 0; g < c.channels.groups; ++g)
          run_group(alone, c, s, g, units_per_pixel(c), nullptr);
      }
    }
  });
}

}  // namespace

PaddedShape padded_shape(const Convolution& c) {
  const Size2d extent = c.window.extent(c.output);
  PaddedShape s = {c.window.pad_top, c.window.pad_left, extent.height, extent.width};
  const int64_t channels =
      c.channels.groups * (uses_pairs(c) ? 2 * units_per_pixel(c) : c.channels.in);
  if (uses_pairs(c)) s.pixel = channels;
  if (has_cache_conflicts(c, channels)) s.pixel = channels + 16;
  return s;
}

size_t convolve_packed_size(const Convolution& c) {
  if (is_depthwise(c)) return depthwise_packed_size(c, choose_micro_kernel(c).size);
  if (is_winograd(c)) return winograd_packed_size(c);
  return group_bytes(c) * static_cast<size_t>(c.channels.groups);
}

void convolve_pack(const Call& call, const Convolution& c, void* packed) {
  if (is_depthwise(c)) return pack_depthwise(c, packed);
  if (is_winograd(c)) return winograd_pack(call, c, packed);
  const Micro micro = choose_micro_kernel(c);
  for (int64_t g = 0; g < c.channels.groups; ++g) {
    const KernelSource s = {&c, g};
    uint8_t* const to = static_cast<uint8_t*>(packed) + static_cast<size_t>(g) * group_bytes(c);
    if (packs_pairs(c))
      pack_pairs(s, micro, reinterpret_cast<uint32_t*>(to));
    else if (by_outs(c))
      pack_by_outs(s, micro, reinterpret_cast<float*>(to));
    else if (by_kernels(c))
      pack_by_kernels(call, s, micro, reinterpret_cast<float*>(to));
    else
      gemm_pack(micro, {&s, is_pointwise(c) ? read_pointwise : read_kernel, false}, c.channels.out,
                k_units(c), to);
  }
}

size_t convolve_scratch(const Convolution& c) {
  size_t bytes = 64 + align64(bias_bytes(c)) + product_bytes(c);
  if (c.kernels.packed == nullptr) bytes += align64(convolve_packed_size(c));
  if (in_place(c)) return bytes;
  if (!uses_bands(c)) return bytes + align64(padded_bytes(c.x, input_region(c), uses_pairs(c)));
  const Bands bands = choose_bands(c);
  return bytes + static_cast<size_t>(bands.slots) * bands.bytes;
}

void convolve(const Call& call, const Convolution& c, void* scratch) {
  if (c.pixels() * c.channels.out == 0) return;
  uint8_t* rest = static_cast<uint8_t*>(scratch);
  auto take = [&](size_t bytes) {
    uint8_t* const part = rest;
    rest += align64(bytes);
    return part;
  };
  const Micro micro = choose_micro_kernel(c);
  const void* packed = c.kernels.packed;
  if (packed == nullptr) {
    void* const memory = take(convolve_packed_size(c));
    convolve_pack(call, c, memory);
    packed = memory;
  }
  uint8_t* bias = nullptr;
  if (bias_bytes(c) > 0) {
    bias = take(bias_bytes(c));
    widen(c.bias->data, c.bias->dtype, c.bias->stride[0], c.channels.groups * c.channels.out, bias);
  }
  Job s = {c, micro, {}, static_cast<const uint8_t*>(packed), bias, {}, 0, nullptr, {}};
  s.band.images = c.x.shape[0];
  s.band.rows = c.output.height;
  const bool here = in_place(c);
  if (!here && uses_bands(c)) {
    s.band.images = 1;
    return run_bands(call, c, s, rest);
  }
  void* const memory = here ? nullptr : take(padded_bytes(c.x, input_region(c), uses_pairs(c)));
  s.input = pad_input(call, c.x, input_region(c), here, memory, uses_pairs(c));
  // Depthwise, every channel at once: the outputs of all groups are one row.
  if (is_depthwise(c)) return run_group(call, c, s, 0, 0, rest);
  for (int64_t g = 0; g < c.channels.groups; ++g)
    run_group(call, c, s, g, units_per_pixel(c), rest);
}

}  // namespace proa::PROA_ISA
