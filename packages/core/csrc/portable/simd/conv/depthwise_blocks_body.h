#pragma once
// The loops of depthwise_blocks.h, for depthwise_blocks.cc and depthwise_blocks.avx512.cc. Sums are
// added in the order of depthwise.cc, taps by lines, and taps that fall outside x are left out, so
// that both compute the same bits.
#include "proa/base/arith.h"
#include "proa/simd/conv/depthwise_blocks.h"
#include "proa/simd/gemm/epilogue_vector.h"
#include "proa/simd/tuning.h"

namespace proa::PROA_ISA {
namespace {

constexpr int kPixels = kBlockPixels;
constexpr int kMaxLines = 2;
/// Registers for all kernels of a 3 x 3 window, and for the sums of two lines of 5 x 5 windows.
constexpr bool kManyRegisters = kVecRegisters >= 32;

/// The channels of a vector: those that follow each other, or every other one of two vectors, which
/// BF16 is widened to by an instruction each; by the former it takes two.
enum class Part { kAll, kEven, kOdd };
template <Part kPart>
struct PartConstant {
  static constexpr Part value = kPart;
};
template <bool kValue>
struct BoolConstant {
  static constexpr bool value = kValue;
};

struct Block;
using Sums = VF[kMaxLines][kPixels];

struct Job {
  const Convolution& c;
  const PaddedInput& input;
  const float* kernels;
  const float* bias;
  const GemmOutput& end;
  int64_t width;  // of a line of kernels
  int64_t pixel;  // between pixels of a line of the output
  bool writes;    // sums to the output; else through end.epilogue
  /// Writes the results of a block. Not inlined: each of its forms would be copied into each of the
  /// loops.
  void (*finish)(const Job& s, const Block& at, int64_t channel, int64_t some, const Sums& sums);
  /// The same of two vectors of channels; nullptr where there is no such function.
  void (*finish_parts)(const Job& s, const Block& at, int64_t channel, const Sums& even,
                       const Sums& odd) = nullptr;
  /// Results between bounds, perhaps normalised floats, for which the sums of whole vectors (BF16:
  /// two) are not passed to these functions.
  bool clamps = false;
};

/// A block: where its first tap is in x, and its first pixel among the output's.
struct Block {
  int64_t x, row;
  int64_t to[kMaxLines];  // where lines of it are in the output
  Taps lines, columns;    // of x, from tap 0 of the first pixel on, that are inside
  int count, skip;        // lines, and pixels of each that are there already
};

template <Part kPart>
PROA_INLINE VF load_part(const float* p) {
  if constexpr (kPart == Part::kAll) return load(p);
  VI index;
  for (int i = 0; i < kLanes; ++i) index[i] = 2 * i + (kPart == Part::kOdd ? 1 : 0);
  return shuffle(load(p), load(p + kLanes), index);
}
template <Part kPart, bool kFull, class X>
PROA_INLINE VF load_part(const X* p, int64_t some) {
  if constexpr (kPart == Part::kAll) {
    return kFull ? load(p) : load_n(p, some);
  } else {
    const VU pairs = load_as<VU>(p);
    return bit_cast<VF>(kPart == Part::kOdd ? pairs & 0xffff0000u : pairs << 16);
  }
}

/// The windows of one vector of channels; x and w are where their first taps are. kWhole: every
/// column is inside. kFull: there are `some` = kLanes channels.
template <class X, Part kPart, int kTaps, int kStep, int kLines, bool kWhole, bool kFull>
PROA_INLINE void sum_block(const Job& s, const X* x, const float* w, const Block& at, VF start,
                           int64_t some, Sums& result) {
  constexpr int kRows = (kLines - 1) * kStep + kTaps, kColumns = (kPixels - 1) * kStep + kTaps;
  VF sums[kLines][kPixels];
#pragma GCC unroll 2
  for (int l = 0; l < kLines; ++l)
#pragma GCC unroll 4
    for (int i = 0; i < kPixels; ++i) sums[l][i] = start;
  // A window that has more kernels than there are registers loads the lines that it is at.
  constexpr bool kAllInRegisters = kTaps == 3 && kManyRegisters;
  VF kernels[kTaps][kTaps];
  const auto load_kernels = [&](int p) {
#pragma GCC unroll 8
    for (int q = 0; q < kTaps; ++q) kernels[p][q] = load_part<kPart>(w + (p * kTaps + q) * s.width);
  };
  if (kAllInRegisters)
#pragma GCC unroll 8
    for (int p = 0; p < kTaps; ++p) load_kernels(p);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    if (r < at.lines.first || r >= at.lines.end) continue;
    const X* const line = x + r * s.input.row;
    if (!kAllInRegisters)
#pragma GCC unroll 2
      for (int l = 0; l < kLines; ++l)
        if (r >= l * kStep && r - l * kStep < kTaps) load_kernels(r - l * kStep);
#pragma GCC unroll 16
    for (int j = 0; j < kColumns; ++j) {
      if (!kWhole && (j < at.columns.first || j >= at.columns.end)) continue;
      const VF column = load_part<kPart, kFull>(line + j * s.input.pixel, some);
#pragma GCC unroll 2
      for (int l = 0; l < kLines; ++l) {
        const int p = r - l * kStep;
        if (p < 0 || p >= kTaps) continue;
#pragma GCC unroll 4
        for (int i = 0; i < kPixels; ++i) {
          const int q = j - i * kStep;
          if (q >= 0 && q < kTaps) sums[l][i] = add_product(sums[l][i], column, kernels[p][q]);
        }
      }
    }
  }
#pragma GCC unroll 2
  for (int l = 0; l < kLines; ++l)
#pragma GCC unroll 4
    for (int i = 0; i < kPixels; ++i) result[l][i] = sums[l][i];
}

template <class Y>
PROA_INLINE void store_some(Y* to, VF v, int64_t some) {
  if (some == kLanes)
    store(to, v);
  else
    store_n(to, v, some);
}

/// Results that are finished in registers.
template <class Y, Act kAct>
void finish_lines(const Job& s, const Block& at, int64_t channel, int64_t some, const Sums& sums) {
  const VectorEnd end(s.c.end, channel, some);
  for (int l = 0; l < at.count; ++l) {
    Y* const to = static_cast<Y*>(s.c.end.out.data) + at.to[l] + channel;
#pragma GCC unroll 4
    for (int i = 0; i < kPixels; ++i)
      if (i >= at.skip) store_some(to + i * s.pixel, end.finish<kAct>(sums[l][i], 0), some);
  }
}

/// The bounds of what Job::clamps.
struct Bounds {
  VF low, high;

  PROA_INLINE explicit Bounds(const Job& s) {
    const Act act = s.c.end.act;
    const float none = __builtin_inff();
    low = splat(act == Act::kNone ? -none : 0.0f);
    high = splat(act == Act::kRelu6 ? 6.0f : none);
  }
  PROA_INLINE VF clamp(VF y) const { return min(high, max(low, y)); }
};

/// As Job::finish_parts, of what Job::clamps: BF16's is in depthwise_blocks.avx512.cc.
template <class X>
PROA_INLINE void clamp_parts(const Job& s, const Block& at, int64_t channel, const Sums& even,
                             const Sums& odd);

/// As finish_lines, of a whole vector that Job::clamps. Inlined, so that the sums stay in
/// registers.
PROA_INLINE void clamp_lines(const Job& s, const Block& at, int64_t channel, const Sums& sums) {
  const Bounds bounds(s);
  const VectorEnd end(s.c.end, channel, kLanes);
#pragma GCC unroll 2
  for (int l = 0; l < kMaxLines; ++l) {
    if (l >= at.count) return;
    float* const to = static_cast<float*>(s.c.end.out.data) + at.to[l] + channel;
#pragma GCC unroll 4
    for (int i = 0; i < kPixels; ++i) {
      VF y = sums[l][i];
      if (end.is_normed) y = normalised<VF>(y, end.center, end.factor, end.shift);
      if (i >= at.skip) store(to + i * s.pixel, bounds.clamp(y));
    }
  }
}

/// The same through memory.
void write_lines(const Job& s, const Block& at, int64_t channel, int64_t some, const Sums& sums) {
  alignas(64) float spare[kPixels * kLanes];
  const int64_t ld = s.writes ? s.pixel : kLanes;
  for (int l = 0; l < at.count; ++l) {
    const int64_t row = at.row + l * s.c.output.width;
    float* to = spare;
    if (s.writes) to = static_cast<float*>(s.c.end.out.data) + at.to[l] + channel;
    for (int i = at.skip; i < kPixels; ++i) {
      VF y = sums[l][i];
      if (s.end.relu) y = y < VF{} ? VF{} : y;  // NaN stays
      store_some(to + i * ld, y, some);
    }
    if (s.end.epilogue != nullptr)
      s.end.epilogue(s.end.epilogue_ctx, to + at.skip * ld, ld, row + at.skip, kPixels - at.skip,
                     channel, static_cast<int>(some));
  }
}

template <class X, int kTaps, int kStep, int kLines, bool kWhole>
void run_block(const Job& s, const Block& at) {
  const X* const x = static_cast<const X*>(s.input.data) + at.x;
  int64_t channel = 0;
  if constexpr (__is_same(X, BF16)) {
    const int64_t stop = s.finish_parts == nullptr ? 0 : s.c.channels.groups;
    for (; channel + 2 * kLanes <= stop; channel += 2 * kLanes) {
      Sums even, odd;
      const auto sum = [&](auto part, Sums& sums) {
        constexpr Part kPart = decltype(part)::value;
        const VF start = s.bias == nullptr ? VF{} : load_part<kPart>(s.bias + channel);
        sum_block<X, kPart, kTaps, kStep, kLines, kWhole, true>(s, x + channel, s.kernels + channel,
                                                                at, start, kLanes, sums);
      };
      sum(PartConstant<Part::kEven>{}, even);
      sum(PartConstant<Part::kOdd>{}, odd);
      if (s.clamps)
        clamp_parts<X>(s, at, channel, even, odd);
      else
        s.finish_parts(s, at, channel, even, odd);
    }
  }
  const auto sum = [&](auto full, int64_t some) {
    const VF start = s.bias == nullptr ? VF{} : load(s.bias + channel);
    Sums sums;
    sum_block<X, Part::kAll, kTaps, kStep, kLines, kWhole, decltype(full)::value>(
        s, x + channel, s.kernels + channel, at, start, some, sums);
    if constexpr (__is_same(X, float) && decltype(full)::value) {
      if (s.clamps) return clamp_lines(s, at, channel, sums);
    }
    s.finish(s, at, channel, some, sums);
  };
  for (; channel + kLanes <= s.c.channels.groups; channel += kLanes)
    sum(BoolConstant<true>{}, kLanes);
  for (; channel < s.c.channels.groups; channel += kLanes)
    sum(BoolConstant<false>{}, min(s.c.channels.groups - channel, kLanes));
}

/// Columns [begin, stop) of lines i .. i + kLines - 1 of the output. The last block of a line
/// begins early enough to be a full one.
template <class X, int kTaps, int kStep, int kLines>
void run_lines(const Job& s, int64_t i, int64_t begin, int64_t stop) {
  const Convolution& c = s.c;
  const int64_t n = i / c.output.height, h = (i - n * c.output.height) * kStep - c.window.pad_top;
  constexpr int64_t kRows = (kLines - 1) * kStep + kTaps, kColumns = (kPixels - 1) * kStep + kTaps;
  const Taps lines = taps_inside(h, 1, kRows, c.x.shape[2]);
  for (int64_t j = begin; j < stop; j += kPixels) {
    const int64_t start = min(j, c.output.width - kPixels),
                  column = start * kStep - c.window.pad_left;
    Block block = {n * s.input.image + h * s.input.row + column * s.input.pixel,
                   i * c.output.width + start,
                   {},
                   lines,
                   taps_inside(column, 1, kColumns, c.x.shape[3]),
                   kLines,
                   static_cast<int>(j - start)};
    for (int l = 0; l < kLines; ++l)
      block.to[l] = s.c.end.out.rows.at(block.row + l * c.output.width);
    if (block.columns.first == 0 && block.columns.end == kColumns)
      run_block<X, kTaps, kStep, kLines, true>(s, block);
    else
      run_block<X, kTaps, kStep, kLines, false>(s, block);
  }
}

/// Columns of the output that are computed for all lines before the next, so that the lines of x
/// they read stay in the first-level cache.
int64_t strip_of(const Convolution& c, int64_t element) {
  if (!kDepthwiseStrips) return c.output.width;
  const int64_t rows = c.window.kernel_h + c.window.stride_h;
  const int64_t column = c.channels.groups * (rows * c.window.stride_w * element + 2 * 4);
  const int64_t fit = caches().l1 / 2 / column / kPixels * kPixels;
  return fit >= c.output.width ? c.output.width : max(fit, kPixels);
}

template <class X, int kTaps, int kStep>
void run_as(const Job& s, int64_t first, int64_t last) {
  const int64_t rows = s.c.output.height, strip = strip_of(s.c, sizeof(X));
  for (int64_t j = 0; j < s.c.output.width; j += strip) {
    const int64_t stop = min(j + strip, s.c.output.width);
    for (int64_t i = first; i < last;) {
      constexpr int kLines = kTaps == 3 || kManyRegisters ? 2 : 1;
      const bool full = i + kLines <= last && (i % rows) + kLines <= rows;
      if (full)
        run_lines<X, kTaps, kStep, kLines>(s, i, j, stop);
      else
        run_lines<X, kTaps, kStep, 1>(s, i, j, stop);
      i += full ? kLines : 1;
    }
  }
}

template <class X>
void run(const Job& s, int64_t first, int64_t last) {
  if (s.c.window.kernel_h == 5) return run_as<X, 5, 1>(s, first, last);
  if (s.c.window.stride_h == 2) return run_as<X, 3, 2>(s, first, last);
  run_as<X, 3, 1>(s, first, last);
}

/// True if a VectorEnd finishes the results, of that dtype.
bool finishes(const Convolution& c, DType dtype) {
  FloatEpilogue end = c.end;
  end.out.dtype = DType::kF32;
  return c.end.out.dtype == dtype && c.end.residual.data == nullptr && finishes_vectors(end);
}

/// What writes its results through memory.
inline Job float_job(const Convolution& c, const PaddedInput& input, const float* packed,
                     const float* bias, const GemmOutput& end) {
  const MatrixRef& out = c.end.out;
  const bool writes = out.stride == 1 && out.dtype == DType::kF32;
  const int64_t pixel = out.rows.at(1) - out.rows.at(0);
  return {c, input, packed, bias, end, depthwise_width(c), pixel, writes, write_lines};
}

}  // namespace

}  // namespace proa::PROA_ISA
