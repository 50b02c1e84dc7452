// A vector of bytes is 64 channels of a pixel, or 32 or 16 of two or four pixels where no more are
// left. The bytes of four rows of a column are interleaved, so that one dot product of VNNI takes
// a step through four rows of the window. Interleaving by parts of 16 bytes permutes the channels
// of a vector; narrowing the results to int8 puts them into order again.
//
// Rows that are interleaved once serve two lines of the output where a window has a row to spare in
// its groups of four: their weights begin with zeros for the second line. They are stored in
// planes, one for each group, quarter of a vector and column modulo the stride, in which columns
// follow each other: so a vector of any pixels is one load.
//
// Peak: per vector of results 9 dot products of 3 x 3 (of 12, as a row of four is empty) and about
// 30 instructions that end it, of which two are issued a cycle.
#include "proa/kernels/quant/depthwise_int8.h"

#include <string.h>

#include "proa/base/arith.h"
#include "proa/base/task_size.h"

namespace proa::PROA_ISA {
namespace {

constexpr int64_t kBlock = 64;    // bytes of a vector
constexpr int kQuarters = 4;      // vectors of sums of a block
constexpr int64_t kVectors = 64;  // interleaved at once, of four rows: 16 KiB
constexpr int64_t kMaxTaps = 16;  // of a row or column of the window
constexpr int64_t kMaxStep = 4;   // horizontal
constexpr int kPixels = 2;        // vectors of a tile, next to each other
constexpr int64_t kPadding = 64;  // bytes between planes, which would else evict each other
constexpr int64_t kPlanes = kMaxStep * kMaxTaps / 4 * kQuarters;

/// Groups of four rows of the window.
int64_t groups_of(const Window2d& w) { return ceil_div(w.kernel_h, 4); }
/// Lines of the output that share interleaved rows.
int64_t lines_of(const Window2d& w) {
  return w.dilation_h == 1 && w.kernel_h + w.stride_h <= 4 * groups_of(w) ? 2 : 1;
}
int64_t reach_of(const Window2d& w) { return (w.kernel_w - 1) * w.dilation_w + 1; }
/// Vectors of a plane.
int64_t plane_vectors(const Window2d& w) { return kVectors / (groups_of(w) * w.stride_w); }
/// Bytes of a line's factors: [tap][group][quarter].
int64_t factor_bytes(const Window2d& w) { return kBlock * 4 * w.kernel_w * groups_of(w); }
/// Bytes of a block's packed weights: what its sums start from, then the factors of each line.
int64_t block_bytes(const Window2d& w) { return kBlock * 4 + lines_of(w) * factor_bytes(w); }

/// The channels of a block: `some` of `part` from `first` on; a vector has kBlock / part pixels.
struct Channels {
  int64_t first, some, part;
  int64_t pixels() const { return kBlock / part; }
};
/// Vectors of kBlock channels, then the rest: 16, 32, 32 and 16, or less than another vector.
int64_t blocks_of(int64_t channels) {
  const int64_t rest = channels % kBlock;
  return channels / kBlock + (rest == 0 ? 0 : rest > 32 && rest <= 48 ? 2 : 1);
}
Channels channels_of(int64_t channels, int64_t block) {
  const int64_t whole = channels / kBlock, rest = channels % kBlock;
  if (block < whole) return {block * kBlock, kBlock, kBlock};
  int64_t first = whole * kBlock, some = rest;
  if (rest > 32 && rest <= 48) {
    some = block == whole ? 32 : rest - 32;
    first += block == whole ? 0 : 32;
  }
  return {first, some, some <= 16 ? 16 : some <= 32 ? 32 : kBlock};
}

/// The place in a block of lane `lane` of quarter `quarter`.
int64_t place_of(int64_t quarter, int64_t lane) { return lane / 4 * 16 + quarter * 4 + lane % 4; }
/// The channel at a place of a block; -1 if there is none.
int64_t channel_at(int64_t place, const Channels& c) {
  const int64_t i = place % c.part;
  return i < c.some ? c.first + i : -1;
}

/// The rows of x that a window covers.
struct InputRows {
  const uint8_t* rows[kMaxTaps];  // channel 0 of the block in column 0
  int64_t pixel[kMaxTaps];        // bytes between their columns; 0 of a row of zeros
};
/// Where interleaved columns are stored.
struct Planes {
  int64_t pitch;           // bytes between planes
  int64_t taps[kMaxTaps];  // bytes from a column's place to that of each tap's column
};
/// How the sums of a block become integers.
struct SumsEnd {
  const Int8Epilogue& epilogue;
  const float *scale, *shift;  // in the order of the sums
  Int8Estimate estimate;       // in this order, too
  bool straight, swish;        // `quantize` writes them; after hard_swish
};
/// One or two output lines of one block.
struct OutputLines {
  const DepthwiseInt8& d;
  const Channels channels;
  InputRows x;
  Planes planes;
  const int8_t* factors;
  const int32_t* init;
  SumsEnd end;
  int64_t row;        // index of the first line's first pixel
  int64_t out_pixel;  // bytes between pixels of the output
};

PROA_INLINE uint64_t first_bytes(int64_t n) { return n > 0 ? ~uint64_t{0} >> (kBlock - n) : 0; }
PROA_INLINE __m512i flip(__m512i x) { return _mm512_xor_si512(x, _mm512_set1_epi8(-128)); }

/// Bytes of the pixels from p on, `step` bytes apart.
template <int kPart>
PROA_INLINE __m512i load_pixels(const uint8_t* p, int64_t step) {
  if (kPart == 64 || step == kPart) return _mm512_loadu_si512(p);
  if (kPart == 32) {
    const __m512i first = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i*)p));
    return _mm512_inserti64x4(first, _mm256_loadu_si256((const __m256i*)(p + step)), 1);
  }
  __m512i all = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i*)p));
  all = _mm512_inserti32x4(all, _mm_loadu_si128((const __m128i*)(p + step)), 1);
  all = _mm512_inserti32x4(all, _mm_loadu_si128((const __m128i*)(p + 2 * step)), 2);
  return _mm512_inserti32x4(all, _mm_loadu_si128((const __m128i*)(p + 3 * step)), 3);
}

/// The same of columns that may not be there, and are then 0, from `column` on.
template <int kPart>
__m512i load_edge(const OutputLines& s, int64_t r, int64_t column) {
  alignas(64) uint8_t bytes[kBlock] = {};
  for (int64_t i = 0; i < s.channels.pixels(); ++i, column += s.d.window.stride_w)
    if (static_cast<uint64_t>(column) < static_cast<uint64_t>(s.d.input_size.width))
      memcpy(bytes + i * kPart, s.x.rows[r] + column * s.x.pixel[r],
             static_cast<size_t>(s.channels.some));
  return _mm512_load_si512(bytes);
}

/// Interleaves the pixels from column `column` on, as the next vector of each plane.
template <int kPart, bool kWhole>
PROA_INLINE void interleave(const OutputLines& s, int64_t groups, int64_t column, int8_t* to) {
  for (int64_t g = 0; g < groups; ++g) {
    __m512i r[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const int64_t row = g * 4 + i, pixel = s.x.pixel[row];
      r[i] = flip(
          kWhole ? load_pixels<kPart>(s.x.rows[row] + column * pixel, pixel * s.d.window.stride_w)
                 : load_edge<kPart>(s, row, column));
    }
    const __m512i a = _mm512_unpacklo_epi8(r[0], r[1]), b = _mm512_unpackhi_epi8(r[0], r[1]);
    const __m512i c = _mm512_unpacklo_epi8(r[2], r[3]), e = _mm512_unpackhi_epi8(r[2], r[3]);
    _mm512_storeu_si512(to, _mm512_unpacklo_epi16(a, c));
    _mm512_storeu_si512(to + s.planes.pitch, _mm512_unpackhi_epi16(a, c));
    _mm512_storeu_si512(to + 2 * s.planes.pitch, _mm512_unpacklo_epi16(b, e));
    _mm512_storeu_si512(to + 3 * s.planes.pitch, _mm512_unpackhi_epi16(b, e));
    to += kQuarters * s.planes.pitch;
  }
}

/// All planes of the columns that `count` pixels need, the first one's first tap in column `first`.
template <int kPart>
PROA_INLINE void interleave_columns(const OutputLines& s, int64_t groups, int64_t first,
                                    int64_t count, int8_t* planes) {
  const Window2d& w = s.d.window;
  constexpr int64_t kSome = kBlock / kPart;
  const int64_t reach = reach_of(w), width = s.d.input_size.width;
  // A vector may read past the channels of its pixels, which the next pixel has room for.
  const int64_t spare = kPart - s.channels.some <= s.d.x.pixel ? 1 : width;
  for (int64_t phase = 0; phase < min(w.stride_w, reach); ++phase) {
    int8_t* to = planes + phase * groups * kQuarters * s.planes.pitch;
    const int64_t columns = round_up(count, kSome) + (reach - 1 - phase) / w.stride_w;
    for (int64_t i = 0; i < columns; i += kSome, to += kBlock) {
      const int64_t at = first + phase + i * w.stride_w;
      if (at >= 0 && at + (kSome - 1) * w.stride_w + (s.channels.some < kPart ? spare : 0) < width)
        interleave<kPart, true>(s, groups, at, to);
      else
        interleave<kPart, false>(s, groups, at, to);
    }
  }
}

/// The sums of kCount vectors of kLines lines, whose first tap's column is at `from`.
template <int kLines, int kCount>
PROA_INLINE void sum_vectors(const OutputLines& s, int64_t taps_w, int64_t groups,
                             const int8_t* from, __m512i (*acc)[kCount][kQuarters]) {
#pragma GCC unroll 2
  for (int l = 0; l < kLines; ++l)
#pragma GCC unroll 2
    for (int i = 0; i < kCount; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < kQuarters; ++v) acc[l][i][v] = _mm512_loadu_si512(s.init + v * 16);
  const int8_t* w = s.factors;
  const int64_t line = taps_w * groups * kQuarters * kBlock;
#pragma GCC unroll 3
  for (int64_t q = 0; q < taps_w; ++q) {
    const int8_t* x = from + s.planes.taps[q];
    for (int64_t g = 0; g < groups; ++g)
#pragma GCC unroll 4
      for (int v = 0; v < kQuarters; ++v, w += kBlock, x += s.planes.pitch) {
        __m512i factors[kLines];
#pragma GCC unroll 2
        for (int l = 0; l < kLines; ++l) factors[l] = _mm512_loadu_si512(w + l * line);
#pragma GCC unroll 2
        for (int i = 0; i < kCount; ++i) {
          const __m512i bytes = _mm512_loadu_si512(x + i * kBlock);
#pragma GCC unroll 2
          for (int l = 0; l < kLines; ++l)
            acc[l][i][v] = _mm512_dpbusd_epi32(acc[l][i][v], bytes, factors[l]);
        }
      }
  }
}

/// True of outputs that `quantize` writes.
bool is_straight(const Int8Epilogue& end) {
  return end.out.dtype == DType::kI8 && end.out.stride == 1 && end.residual.data == nullptr &&
         (is_clamp(end.act) || end.act == Act::kHardSwish);
}

/// Writes a vector, of `count` pixels.
template <int kPart>
PROA_INLINE void store_pixels(const OutputLines& s, __m512i all, int64_t count, int8_t* to) {
  const int64_t some = s.channels.some;
  if (kPart == 64 || (s.out_pixel == kPart && some == kPart)) {
    _mm512_mask_storeu_epi8(to, first_bytes(kPart == 64 ? some : count * kPart), all);
    return;
  }
  const uint64_t mask = first_bytes(some);
  if (kPart == 32) {
    const auto part = static_cast<__mmask32>(mask);
    _mm256_mask_storeu_epi8(to, part, _mm512_castsi512_si256(all));
    if (count > 1)
      _mm256_mask_storeu_epi8(to + s.out_pixel, part, _mm512_extracti64x4_epi64(all, 1));
    return;
  }
  const auto part = static_cast<__mmask16>(mask);
  _mm_mask_storeu_epi8(to, part, _mm512_castsi512_si128(all));
  if (count > 1) _mm_mask_storeu_epi8(to + s.out_pixel, part, _mm512_extracti32x4_epi32(all, 1));
  if (count > 2)
    _mm_mask_storeu_epi8(to + 2 * s.out_pixel, part, _mm512_extracti32x4_epi32(all, 2));
  if (count > 3)
    _mm_mask_storeu_epi8(to + 3 * s.out_pixel, part, _mm512_extracti32x4_epi32(all, 3));
}

/// The integers of contiguous int8 outputs.
PROA_INLINE __m512i quantize(const OutputLines& s, const Int8Rounding& rounding,
                             const __m512i* acc) {
  __m512i q[kQuarters];
  const Int8Estimate& e = s.end.estimate;
  if (e.limit > 0.0f) {
    VF worst = {};
#pragma GCC unroll 4
    for (int v = 0; v < kQuarters; ++v) {
      const VF sums = to_float((VI)acc[v]), scale = load(e.scale + v * 16);
      const VF shift = load(e.shift + v * 16);
      const VF t = s.end.swish ? e.at<true>(sums, scale, shift) : e.at<false>(sums, scale, shift);
      worst = max_fraction(worst, t);
      q[v] = (__m512i)round_to_int(t);
    }
    if (PROA_LIKELY(!exceeds(worst, splat(e.limit)))) {
      const __m512i low = _mm512_packs_epi32(q[0], q[1]), high = _mm512_packs_epi32(q[2], q[3]);
      const __m512i all = _mm512_max_epi8(_mm512_packs_epi16(low, high),
                                          _mm512_set1_epi8(static_cast<char>(e.low)));
      return _mm512_min_epi8(all, _mm512_set1_epi8(static_cast<char>(e.high)));
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kQuarters; ++v) {
    VF y = to_float((VI)acc[v]) * load(s.end.scale + v * 16) + load(s.end.shift + v * 16);
    if (s.end.swish) y = rounding.hard_swish(y);
    q[v] = (__m512i)rounding(y);
  }
  const __m512i low = _mm512_packs_epi32(q[0], q[1]), high = _mm512_packs_epi32(q[2], q[3]);
  return _mm512_packs_epi16(low, high);
}

/// The same of any other outputs, written.
PROA_NOINLINE void finish(const OutputLines& s, const __m512i* acc, int64_t row, int64_t count) {
  alignas(64) int32_t tile[kBlock + kTileVecs * kLanes];  // with room to read past the end
  for (int v = 0; v < kQuarters; ++v) {
    alignas(64) int32_t lanes[16];
    _mm512_store_si512(lanes, acc[v]);
    for (int64_t i = 0; i < 16; ++i) tile[place_of(v, i)] = lanes[i];
  }
  finish_int8(&s.end.epilogue, tile, s.channels.part, row, static_cast<int>(count),
              s.channels.first, static_cast<int>(s.channels.some));
}

/// kCount vectors of each line, of `count` pixels from column j on.
template <int kPart, int kLines, int kCount>
PROA_INLINE void run_vectors(const OutputLines& s, int64_t taps_w, int64_t groups,
                             const Int8Rounding& rounding, const int8_t* from, int64_t j,
                             int64_t count) {
  constexpr int64_t kSome = kBlock / kPart;
  __m512i acc[kLines][kCount][kQuarters];
  sum_vectors<kLines, kCount>(s, taps_w, groups, from, acc);
#pragma GCC unroll 2
  for (int l = 0; l < kLines; ++l)
#pragma GCC unroll 2
    for (int i = 0; i < kCount; ++i) {
      const int64_t row = s.row + l * s.d.output.width + j + i * kSome;
      const int64_t some = min(count - i * kSome, kSome);
      if (!s.end.straight) {
        finish(s, acc[l][i], row, some);
        continue;
      }
      int8_t* const to = static_cast<int8_t*>(s.end.epilogue.out.data) +
                         s.end.epilogue.out.rows.at(row) + s.channels.first;
      store_pixels<kPart>(s, quantize(s, rounding, acc[l][i]), some, to);
    }
}

/// Lines, as many columns at a time as are interleaved at once. The numbers of taps and groups are
/// known to the compiler where the caller knows them.
template <int kPart, int kLines>
PROA_INLINE void run_lines(const OutputLines& s, int64_t taps_w, int64_t groups) {
  constexpr int64_t kSome = kBlock / kPart, kTile = kPixels * kSome;
  const DepthwiseInt8& d = s.d;
  const Window2d& w = d.window;
  const Int8Rounding rounding(s.end.epilogue);
  alignas(64) int8_t planes[kVectors * kQuarters * kBlock + kPlanes * kPadding];
  const int64_t capacity = plane_vectors(w) * kSome;  // columns of a plane
  const int64_t pixels = (capacity - ceil_div(reach_of(w), w.stride_w)) / kSome * kSome;
  for (int64_t j = 0; j < d.output.width; j += pixels) {
    const int64_t count = min(d.output.width - j, pixels);
    interleave_columns<kPart>(s, groups, w.column(j), count, planes);
    int64_t i = 0;
    for (; i + kTile <= count; i += kTile)
      run_vectors<kPart, kLines, kPixels>(s, taps_w, groups, rounding, planes + i * kPart, j + i,
                                          kTile);
    for (; i < count; i += kSome)
      run_vectors<kPart, kLines, 1>(s, taps_w, groups, rounding, planes + i * kPart, j + i,
                                    count - i);
  }
}

template <int kPart>
void run_part(const OutputLines& s, int64_t lines) {
  const int64_t groups = groups_of(s.d.window), taps_w = s.d.window.kernel_w;
  const bool plain = taps_w == 3 && groups == 1;
  if (lines == 2)
    return plain ? run_lines<kPart, 2>(s, 3, 1) : run_lines<kPart, 2>(s, taps_w, groups);
  return plain ? run_lines<kPart, 1>(s, 3, 1) : run_lines<kPart, 1>(s, taps_w, groups);
}

/// Factors and terms of channels in the order of the sums.
struct Ordered {
  float *scale, *shift, *estimate_scale, *estimate_shift;

  Ordered(int64_t channels, void* memory) {
    const int64_t n = blocks_of(channels) * kBlock;
    scale = static_cast<float*>(memory);
    shift = scale + n;
    estimate_scale = shift + n;
    estimate_shift = estimate_scale + n;
  }
  void fill(int64_t channels, const Int8Epilogue& end) const {
    for (int64_t i = 0; i < blocks_of(channels) * kBlock; ++i) {
      const int64_t at = i % kBlock;
      const int64_t channel =
          channel_at(place_of(at / 16, at % 16), channels_of(channels, i / kBlock));
      scale[i] = channel < 0 ? 0.0f : end.scale[channel];
      shift[i] = channel < 0 ? 0.0f : end.shift[channel];
      if (end.estimate.limit == 0.0f) continue;
      estimate_scale[i] = channel < 0 ? 0.0f : end.estimate.scale[channel];
      estimate_shift[i] = channel < 0 ? 0.0f : end.estimate.shift[channel];
    }
  }
};

/// The rows of x from row `h` of image n on, those that are not there as zeros.
void set_rows(int64_t n, int64_t h, OutputLines* s) {
  alignas(64) static constexpr uint8_t kZeros[kBlock] = {};
  const DepthwiseInt8& d = s->d;
  const int64_t used = (lines_of(d.window) - 1) * d.window.stride_h + d.window.kernel_h;
  const uint8_t* const image =
      static_cast<const uint8_t*>(d.x.data) + n * d.x.image + s->channels.first;
  for (int64_t p = 0; p < groups_of(d.window) * 4; ++p) {
    const int64_t at = h + p * d.window.dilation_h;
    const bool there = p < used && at >= 0 && at < d.input_size.height;
    s->x.rows[p] = there ? image + at * d.x.row : kZeros;
    s->x.pixel[p] = there ? d.x.pixel : 0;
  }
}

}  // namespace

bool takes_depthwise_int8(const Window2d& w) {
  return w.kernel_h <= kMaxTaps && w.kernel_w <= kMaxTaps && w.stride_w <= kMaxStep &&
         plane_vectors(w) >= ceil_div(reach_of(w), w.stride_w) + 2;
}

size_t depthwise_int8_packed_size(int64_t channels, const Window2d& w) {
  return static_cast<size_t>(blocks_of(channels) * block_bytes(w));
}

void depthwise_int8_pack(const View& weights, const Window2d& w, void* packed) {
  const int64_t channels = weights.shape[0], groups = groups_of(w);
  uint8_t* block = static_cast<uint8_t*>(packed);
  memset(packed, 0, depthwise_int8_packed_size(channels, w));
  for (int64_t b = 0; b < blocks_of(channels); ++b, block += block_bytes(w)) {
    int32_t* const init = reinterpret_cast<int32_t*>(block);
    int8_t* const factors = reinterpret_cast<int8_t*>(init + kBlock);
    for (int64_t i = 0; i < kBlock; ++i) {
      const int64_t v = i / 16, lane = i % 16;
      const int64_t channel = channel_at(place_of(v, lane), channels_of(channels, b));
      if (channel < 0) continue;
      const int8_t* const from = weights.as<const int8_t>() + channel * weights.stride[0];
      for (int64_t q = 0; q < w.kernel_w; ++q)
        for (int64_t p = 0; p < w.kernel_h; ++p) {
          const int8_t factor = from[p * weights.stride[2] + q * weights.stride[3]];
          init[i] -= 128 * factor;
          for (int64_t l = 0; l < lines_of(w); ++l) {
            const int64_t row = p + l * w.stride_h;
            const int64_t part = (q * groups + row / 4) * kQuarters + v;
            factors[l * factor_bytes(w) + part * kBlock + lane * 4 + row % 4] = factor;
          }
        }
    }
  }
}

size_t depthwise_int8_scratch(int64_t channels) {
  return static_cast<size_t>(4 * blocks_of(channels) * kBlock) * sizeof(float);
}

void depthwise_int8(const Call& call, const DepthwiseInt8& d, const void* packed,
                    const Int8Epilogue& end, void* scratch) {
  const Window2d& w = d.window;
  const int64_t blocks = blocks_of(d.channels), shared = lines_of(w);
  const int64_t strips = ceil_div(d.output.height, shared);  // of an image
  const Ordered ordered(d.channels, scratch);
  ordered.fill(d.channels, end);
  const int64_t work = shared * d.output.width * kBlock * w.kernel_h * w.kernel_w;
  const int64_t grain = 1 + kInt8DepthwiseTaskMacs / (work + 1);
  parallel_for(call, d.images * strips * blocks, grain, [&](int64_t begin, int64_t stop) {
    for (int64_t t = begin; t < stop; ++t) {
      const int64_t strip = t / blocks, block = t - strip * blocks;
      const int64_t n = strip / strips, line = (strip - n * strips) * shared;
      const int64_t at = block * kBlock;
      const uint8_t* const from = static_cast<const uint8_t*>(packed) + block * block_bytes(w);
      const int64_t row = (n * d.output.height + line) * d.output.width;
      OutputLines s = {d,
                       channels_of(d.channels, block),
                       {},
                       {},
                       reinterpret_cast<const int8_t*>(from + kBlock * 4),
                       reinterpret_cast<const int32_t*>(from),
                       {end, ordered.scale + at, ordered.shift + at, end.estimate, is_straight(end),
                        end.act == Act::kHardSwish},
                       row,
                       d.output.width > 1 ? end.out.rows.at(row + 1) - end.out.rows.at(row) : 0};
      s.end.estimate.scale = ordered.estimate_scale + at;
      s.end.estimate.shift = ordered.estimate_shift + at;
      s.planes.pitch = plane_vectors(w) * kBlock + kPadding;
      for (int64_t q = 0; q < w.kernel_w; ++q) {
        const int64_t tap = q * w.dilation_w, phase = tap % w.stride_w;
        s.planes.taps[q] =
            phase * groups_of(w) * kQuarters * s.planes.pitch + tap / w.stride_w * s.channels.part;
      }
      set_rows(n, w.row(line), &s);
      const int64_t lines = min(shared, d.output.height - line);
      switch (s.channels.part) {
        case 16:
          run_part<16>(s, lines);
          break;
        case 32:
          run_part<32>(s, lines);
          break;
        default:
          run_part<64>(s, lines);
      }
    }
  });
}

}  // namespace proa::PROA_ISA
