// Blocks of 64 channels. The bytes of four rows of a column are interleaved, so that one dot
// product of VNNI takes a step through four rows of the window. Interleaving by parts of 16
// bytes permutes the channels of a block; narrowing the results to int8 puts them into order again.
// With up to 32 channels and stride 1, a block is several adjacent pixels.
#include "proa/kernels/quant/depthwise_int8.h"

#include <string.h>

#include "proa/base/arith.h"
#include "proa/base/task_size.h"

namespace proa::PROA_ISA {
namespace {

constexpr int64_t kBlock = 64;    // channels
constexpr int kQuarters = 4;      // vectors of sums of a block
constexpr int64_t kColumns = 64;  // interleaved at once, of four rows: 16 KiB
constexpr int kPixels = 2;        // of a tile

int64_t blocks_of(int64_t channels) { return ceil_div(channels, kBlock); }
/// Groups of four rows of the window.
int64_t groups_of(int64_t taps_h) { return ceil_div(taps_h, 4); }
/// Pixels that are a block together, where channels are few.
int64_t pixels_of(int64_t channels, int64_t step_w) {
  return step_w == 1 && channels <= kBlock / 2 ? kBlock / channels : 1;
}
/// Bytes of a block's packed weights: what its sums start from, then [tap][group][quarter].
int64_t block_bytes(int64_t taps_h, int64_t taps_w) {
  return kBlock * 4 * (1 + taps_w * groups_of(taps_h));
}

/// The place in a block of lane `lane` of quarter `quarter`.
int64_t place_of(int64_t quarter, int64_t lane) { return lane / 4 * 16 + quarter * 4 + lane % 4; }

/// The channel at a place of the block that begins with channel `first`; -1 if there is none.
int64_t channel_at(int64_t place, int64_t first, int64_t channels, int64_t pixels) {
  if (pixels > 1) return place < pixels * channels ? place % channels : -1;
  return first + place < channels ? first + place : -1;
}

/// One output line of one block.
struct Line {
  const DepthwiseInt8& d;
  const uint8_t* rows[16];  // of x, from the first tap's on; bytes
  uint64_t masks[16];       // the channels that are there: none above and below x
  const int8_t* weights;
  const int32_t* init;
  const float *scale, *shift;  // in the order of the sums
  Int8Estimate estimate;       // in this order, too
  int64_t channel;
  int some;     // channels
  int64_t row;  // index of its first pixel
};

PROA_INLINE uint64_t first_bytes(int64_t n) { return n > 0 ? ~uint64_t{0} >> (kBlock - n) : 0; }
PROA_INLINE __m512i flip(__m512i x) { return _mm512_xor_si512(x, _mm512_set1_epi8(-128)); }

/// The bytes of column `column` of x that `there` names, group by group.
PROA_INLINE void interleave(const Line& s, int64_t groups, int64_t column, uint64_t there,
                            int8_t* to) {
  const int64_t at = column * s.d.x.pixel;
  for (int64_t g = 0; g < groups; ++g, to += kQuarters * 64) {
    __m512i r[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
      r[i] = flip(_mm512_maskz_loadu_epi8(s.masks[g * 4 + i] & there, s.rows[g * 4 + i] + at));
    const __m512i a = _mm512_unpacklo_epi8(r[0], r[1]), b = _mm512_unpackhi_epi8(r[0], r[1]);
    const __m512i c = _mm512_unpacklo_epi8(r[2], r[3]), e = _mm512_unpackhi_epi8(r[2], r[3]);
    _mm512_storeu_si512(to, _mm512_unpacklo_epi16(a, c));
    _mm512_storeu_si512(to + 64, _mm512_unpackhi_epi16(a, c));
    _mm512_storeu_si512(to + 128, _mm512_unpacklo_epi16(b, e));
    _mm512_storeu_si512(to + 192, _mm512_unpackhi_epi16(b, e));
  }
}

/// The sums of `kCount` pixels; `columns` is the interleaved column of the first one's first tap.
template <int kCount>
PROA_INLINE void sum_pixels(const Line& s, int64_t taps_w, int64_t groups, int64_t tap_w,
                            const int8_t* columns, __m512i (*acc)[kQuarters]) {
  const int64_t column = groups * kQuarters * 64, step = s.d.step_w * column;
#pragma GCC unroll 2
  for (int i = 0; i < kCount; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < kQuarters; ++v) acc[i][v] = _mm512_loadu_si512(s.init + v * 16);
  const int8_t* w = s.weights;
#pragma GCC unroll 3
  for (int64_t q = 0; q < taps_w; ++q) {
    const int8_t* from = columns + q * tap_w * column;
    for (int64_t g = 0; g < groups; ++g, w += kQuarters * 64, from += kQuarters * 64)
#pragma GCC unroll 4
      for (int v = 0; v < kQuarters; ++v) {
        const __m512i factors = _mm512_loadu_si512(w + v * 64);
#pragma GCC unroll 2
        for (int i = 0; i < kCount; ++i)
          acc[i][v] =
              _mm512_dpbusd_epi32(acc[i][v], _mm512_loadu_si512(from + i * step + v * 64), factors);
      }
  }
}

/// True of outputs that `quantize` writes.
bool is_straight(const Int8Epilogue& end) {
  return end.out.dtype == DType::kI8 && end.out.stride == 1 && end.residual.data == nullptr &&
         (is_clamp(end.act) || end.act == Act::kHardSwish);
}

/// Writes the integers of contiguous int8 outputs.
PROA_INLINE void quantize(const Line& s, const Int8Rounding& rounding, bool swish,
                          const __m512i* acc, int64_t bytes, int8_t* to) {
  __m512i q[kQuarters];
  const Int8Estimate& e = s.estimate;
  if (e.limit > 0.0f) {
    VF worst = {};
#pragma GCC unroll 4
    for (int v = 0; v < kQuarters; ++v) {
      const VF sums = to_float((VI)acc[v]), scale = load(e.scale + v * 16);
      const VF shift = load(e.shift + v * 16);
      const VF t = swish ? e.at<true>(sums, scale, shift) : e.at<false>(sums, scale, shift);
      worst = max_fraction(worst, t);
      q[v] = (__m512i)round_to_int(t);
    }
    if (PROA_LIKELY(!exceeds(worst, splat(e.limit)))) {
      const __m512i low = _mm512_packs_epi32(q[0], q[1]), high = _mm512_packs_epi32(q[2], q[3]);
      __m512i all = _mm512_max_epi8(_mm512_packs_epi16(low, high),
                                    _mm512_set1_epi8(static_cast<char>(e.low)));
      all = _mm512_min_epi8(all, _mm512_set1_epi8(static_cast<char>(e.high)));
      _mm512_mask_storeu_epi8(to, first_bytes(bytes), all);
      return;
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kQuarters; ++v) {
    VF y = to_float((VI)acc[v]) * load(s.scale + v * 16) + load(s.shift + v * 16);
    if (swish) y = rounding.hard_swish(y);
    q[v] = (__m512i)rounding(y);
  }
  const __m512i low = _mm512_packs_epi32(q[0], q[1]), high = _mm512_packs_epi32(q[2], q[3]);
  _mm512_mask_storeu_epi8(to, first_bytes(bytes), _mm512_packs_epi16(low, high));
}

/// The same of any other outputs, `count` pixels of them.
PROA_NOINLINE void finish(const Line& s, const Int8Epilogue& end, const __m512i* acc, int64_t row,
                          int64_t count) {
  alignas(64) int32_t tile[kBlock + kTileVecs * kLanes];  // with room to read past the end
  for (int v = 0; v < kQuarters; ++v) {
    alignas(64) int32_t lanes[16];
    _mm512_store_si512(lanes, acc[v]);
    for (int64_t i = 0; i < 16; ++i) tile[place_of(v, i)] = lanes[i];
  }
  const int64_t pitch = count > 1 ? s.d.channels : kBlock;
  finish_int8(&end, tile, pitch, row, static_cast<int>(count), s.channel, s.some);
}

template <int kCount>
PROA_INLINE void run_pixels(const Line& s, int64_t taps_w, int64_t groups, const Int8Epilogue& end,
                            const Int8Rounding& rounding, bool straight, const int8_t* columns,
                            int64_t row) {
  __m512i acc[kCount][kQuarters];
  sum_pixels<kCount>(s, taps_w, groups, s.d.tap_w, columns, acc);
  for (int i = 0; i < kCount; ++i) {
    if (straight) {
      int8_t* const to = static_cast<int8_t*>(end.out.data) + end.out.rows.at(row + i) + s.channel;
      quantize(s, rounding, end.act == Act::kHardSwish, acc[i], s.some, to);
    } else {
      finish(s, end, acc[i], row + i, 1);
    }
  }
}

/// A line, as many columns at a time as are interleaved at once. The numbers of taps and groups are
/// known to the compiler where the caller knows them.
PROA_INLINE void run_line(const Line& s, int64_t taps_w, int64_t groups, const Int8Epilogue& end) {
  const DepthwiseInt8& d = s.d;
  const bool straight = is_straight(end);
  const Int8Rounding rounding(end);
  alignas(64) int8_t columns[kColumns * kQuarters * 64];
  const int64_t reach = (taps_w - 1) * d.tap_w + 1, size = groups * kQuarters * 64;
  const int64_t pixels = max((kColumns / groups - reach) / d.step_w + 1, int64_t{1});
  for (int64_t j = 0; j < d.cols; j += pixels) {
    const int64_t count = min(d.cols - j, pixels), first = j * d.step_w - d.left;
    const int64_t last = first + (count - 1) * d.step_w + reach;
    int8_t* to = columns;
    for (int64_t at = first; at < last; ++at, to += size) {
      if (static_cast<uint64_t>(at) < static_cast<uint64_t>(d.width))
        interleave(s, groups, at, ~uint64_t{0}, to);
      else
        memset(to, 0x80, static_cast<size_t>(size));
    }
    int64_t i = 0;
    for (; i + kPixels <= count; i += kPixels)
      run_pixels<kPixels>(s, taps_w, groups, end, rounding, straight, columns + i * d.step_w * size,
                          s.row + j + i);
    if (i < count)
      run_pixels<1>(s, taps_w, groups, end, rounding, straight, columns + i * d.step_w * size,
                    s.row + j + i);
  }
}

/// A line of an image of few channels: the columns of each tap are interleaved again.
void run_narrow(const Line& s, int64_t pixels, int64_t groups, const Int8Epilogue& end) {
  const DepthwiseInt8& d = s.d;
  const int64_t channels = d.channels, size = groups * kQuarters * 64;
  const int64_t out = d.cols > 1 ? end.out.rows.at(s.row + 1) - end.out.rows.at(s.row) : channels;
  const bool straight = is_straight(end) && out == channels;
  const Int8Rounding rounding(end);
  alignas(64) int8_t columns[kColumns * kQuarters * 64];
  for (int64_t j = 0; j < d.cols; j += pixels) {
    int8_t* to = columns;
    for (int64_t q = 0; q < d.taps_w; ++q, to += size) {
      const int64_t at = j - d.left + q * d.tap_w;
      const int64_t first = min(max(-at, int64_t{0}), pixels);
      const int64_t last = min(d.width - at, pixels);
      interleave(s, groups, at, first_bytes(last * channels) & ~first_bytes(first * channels), to);
    }
    __m512i acc[1][kQuarters];
    sum_pixels<1>(s, d.taps_w, groups, 1, columns, acc);
    const int64_t count = min(d.cols - j, pixels);
    if (straight)
      quantize(s, rounding, end.act == Act::kHardSwish, acc[0], count * channels,
               static_cast<int8_t*>(end.out.data) + end.out.rows.at(s.row + j));
    else
      finish(s, end, acc[0], s.row + j, count);
  }
}

}  // namespace

bool takes_depthwise_int8(int64_t taps_h, int64_t taps_w, int64_t tap_w) {
  return groups_of(taps_h) <= 4 && ((taps_w - 1) * tap_w + 1) * groups_of(taps_h) <= kColumns;
}

size_t depthwise_int8_packed_size(const View& w) {
  return static_cast<size_t>(blocks_of(w.shape[0]) * block_bytes(w.shape[2], w.shape[3]));
}

void depthwise_int8_pack(const View& w, int64_t step_w, void* packed) {
  const int64_t taps_h = w.shape[2], taps_w = w.shape[3];
  const int64_t channels = w.shape[0], pixels = pixels_of(channels, step_w);
  uint8_t* block = static_cast<uint8_t*>(packed);
  memset(packed, 0, depthwise_int8_packed_size(w));
  for (int64_t first = 0; first < channels; first += kBlock) {
    int32_t* const init = reinterpret_cast<int32_t*>(block);
    int8_t* const factors = reinterpret_cast<int8_t*>(init + kBlock);
    for (int64_t v = 0; v < kQuarters; ++v)
      for (int64_t lane = 0; lane < 16; ++lane) {
        const int64_t channel = channel_at(place_of(v, lane), first, channels, pixels);
        if (channel < 0) continue;
        int32_t sum = 0;
        for (int64_t q = 0; q < taps_w; ++q)
          for (int64_t p = 0; p < taps_h; ++p) {
            const int8_t factor =
                w.as<const int8_t>()[channel * w.stride[0] + p * w.stride[2] + q * w.stride[3]];
            const int64_t part = (q * groups_of(taps_h) + p / 4) * kQuarters + v;
            factors[part * 64 + lane * 4 + p % 4] = factor;
            sum += factor;
          }
        init[v * 16 + lane] = -128 * sum;
      }
    block += block_bytes(taps_h, taps_w);
  }
}

size_t depthwise_int8_scratch(int64_t channels) {
  return static_cast<size_t>(4 * blocks_of(channels) * kBlock) * sizeof(float);
}

void depthwise_int8(const Call& call, const DepthwiseInt8& d, const void* packed,
                    const Int8Epilogue& end, void* scratch) {
  const int64_t blocks = blocks_of(d.channels), groups = groups_of(d.taps_h);
  float* const scale = static_cast<float*>(scratch);
  float* const shift = scale + blocks * kBlock;
  Int8Estimate estimate = end.estimate;
  float* const estimate_scale = shift + blocks * kBlock;
  float* const estimate_shift = estimate_scale + blocks * kBlock;
  const int64_t pixels = pixels_of(d.channels, d.step_w);
  for (int64_t i = 0; i < blocks * kBlock; ++i) {
    const int64_t at = i % kBlock, place = place_of(at / 16, at % 16);
    const int64_t channel = channel_at(place, i - at, d.channels, pixels);
    scale[i] = channel < 0 ? 0.0f : end.scale[channel];
    shift[i] = channel < 0 ? 0.0f : end.shift[channel];
    if (estimate.limit == 0.0f) continue;
    estimate_scale[i] = channel < 0 ? 0.0f : end.estimate.scale[channel];
    estimate_shift[i] = channel < 0 ? 0.0f : end.estimate.shift[channel];
  }
  const int64_t work = d.cols * kBlock * d.taps_h * d.taps_w;
  const int64_t grain = 1 + kInt8DepthwiseTaskMacs / (work + 1);
  parallel_for(call, d.images * d.rows * blocks, grain, [&](int64_t begin, int64_t stop) {
    Int8Estimate line_estimate = estimate;
    for (int64_t t = begin; t < stop; ++t) {
      const int64_t line = t / blocks, block = t - line * blocks;
      const int64_t n = line / d.rows, h = (line - n * d.rows) * d.step_h - d.top;
      const int64_t channel = block * kBlock;
      line_estimate.scale = estimate_scale + channel;
      line_estimate.shift = estimate_shift + channel;
      const uint8_t* const from =
          static_cast<const uint8_t*>(packed) + block * block_bytes(d.taps_h, d.taps_w);
      Line s = {d,
                {},
                {},
                reinterpret_cast<const int8_t*>(from + kBlock * 4),
                reinterpret_cast<const int32_t*>(from),
                scale + channel,
                shift + channel,
                line_estimate,
                channel,
                static_cast<int>(min(d.channels - channel, kBlock)),
                line * d.cols};
      const uint64_t mask = pixels > 1 ? ~uint64_t{0} : first_bytes(s.some);
      const uint8_t* const image = static_cast<const uint8_t*>(d.x.data) + n * d.x.image + channel;
      for (int64_t p = 0; p < groups * 4; ++p) {
        const int64_t at = h + p * d.tap_h;
        const bool there = p < d.taps_h && at >= 0 && at < d.height;
        s.rows[p] = image + (there ? at * d.x.row : 0);
        s.masks[p] = there ? mask : 0;
      }
      if (pixels > 1)
        run_narrow(s, pixels, groups, end);
      else if (d.taps_w == 3 && groups == 1)
        run_line(s, 3, 1, end);
      else
        run_line(s, d.taps_w, groups, end);
    }
  });
}

}  // namespace proa::PROA_ISA
