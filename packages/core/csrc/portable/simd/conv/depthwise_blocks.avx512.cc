// Sums are added in the order of depthwise.cc, taps by lines, and taps that fall outside x are left
// out, so that both compute the same bits.
#include "proa/simd/conv/depthwise_blocks.h"

#include "proa/base/arith.h"
#include "proa/simd/conv/depthwise.h"
#include "proa/simd/gemm/epilogue_vector.h"
#include "proa/simd/tuning.h"
#include "proa/simd/vec_bf16.h"

namespace proa::PROA_ISA {
namespace {

constexpr int kPixels = 4;
constexpr int kMaxLines = 2;

/// The channels of a vector: those that follow each other, or every other one of two vectors, which
/// BF16 is widened to by an instruction each; by the former it takes two.
enum class Part { kAll, kEven, kOdd };
template <Part kPart>
struct PartConstant {
  static constexpr Part value = kPart;
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
template <Part kPart, class X>
PROA_INLINE VF load_part(const X* p, int64_t some) {
  if constexpr (kPart == Part::kAll) {
    return load_n(p, some);
  } else {
    const VU pairs = load_as<VU>(p);
    return bit_cast<VF>(kPart == Part::kOdd ? pairs & 0xffff0000u : pairs << 16);
  }
}

/// The windows of one vector of channels; x and w are where their first taps are. kWhole: every
/// column is inside.
template <class X, Part kPart, int kTaps, int kStep, int kLines, bool kWhole>
PROA_INLINE void sum_block(const Job& s, const X* x, const float* w, const Block& at, VF start,
                           int64_t some, Sums& result) {
  constexpr int kRows = (kLines - 1) * kStep + kTaps, kColumns = (kPixels - 1) * kStep + kTaps;
  VF sums[kLines][kPixels];
#pragma GCC unroll 2
  for (int l = 0; l < kLines; ++l)
#pragma GCC unroll 4
    for (int i = 0; i < kPixels; ++i) sums[l][i] = start;
  // A 5 x 5 window has more kernels than there are registers: it loads the lines that it is at.
  constexpr bool kHoldsAll = kTaps == 3;
  VF kernels[kTaps][kTaps];
  const auto load_kernels = [&](int p) {
#pragma GCC unroll 8
    for (int q = 0; q < kTaps; ++q) kernels[p][q] = load_part<kPart>(w + (p * kTaps + q) * s.width);
  };
  if (kHoldsAll)
#pragma GCC unroll 8
    for (int p = 0; p < kTaps; ++p) load_kernels(p);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    if (r < at.lines.first || r >= at.lines.end) continue;
    const X* const line = x + r * s.input.row;
    if (!kHoldsAll)
#pragma GCC unroll 2
      for (int l = 0; l < kLines; ++l)
        if (r >= l * kStep && r - l * kStep < kTaps) load_kernels(r - l * kStep);
#pragma GCC unroll 16
    for (int j = 0; j < kColumns; ++j) {
      if (!kWhole && (j < at.columns.first || j >= at.columns.end)) continue;
      const VF column = load_part<kPart>(line + j * s.input.pixel, some);
#pragma GCC unroll 2
      for (int l = 0; l < kLines; ++l) {
        const int p = r - l * kStep;
        if (p < 0 || p >= kTaps) continue;
#pragma GCC unroll 4
        for (int i = 0; i < kPixels; ++i) {
          const int q = j - i * kStep;
          if (q >= 0 && q < kTaps) sums[l][i] += column * kernels[p][q];
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

/// The same of BF16, two pixels at a time by the instruction of AVX512_BF16, to which subnormal
/// numbers are 0.
template <Act kAct>
void narrow_lines(const Job& s, const Block& at, int64_t channel, int64_t some, const Sums& sums) {
  const VectorEnd end(s.c.end, channel, some);
  const auto mask = static_cast<__mmask16>((1u << some) - 1);
  for (int l = 0; l < at.count; ++l) {
    BF16* const to = static_cast<BF16*>(s.c.end.out.data) + at.to[l] + channel;
#pragma GCC unroll 2
    for (int i = 0; i < kPixels; i += 2) {
      const __m512i both =
          NativeBf16::narrow(end.finish<kAct>(sums[l][i], 0), end.finish<kAct>(sums[l][i + 1], 0));
      if (i >= at.skip)
        _mm256_mask_storeu_epi16(to + i * s.pixel, mask, _mm512_castsi512_si256(both));
      if (i + 1 >= at.skip)
        _mm256_mask_storeu_epi16(to + (i + 1) * s.pixel, mask, _mm512_extracti64x4_epi64(both, 1));
    }
  }
}

/// The same of two vectors of channels.
template <class Results, Act kAct>
void narrow_parts(const Job& s, const Block& at, int64_t channel, const Sums& even,
                  const Sums& odd) {
  alignas(64) uint16_t order[2 * kLanes];
  for (int i = 0; i < 2 * kLanes; ++i) order[i] = static_cast<uint16_t>(i / 2 + i % 2 * kLanes);
  const __m512i interleaved = _mm512_load_si512(order);
  for (int l = 0; l < at.count; ++l) {
    BF16* const to = static_cast<BF16*>(s.c.end.out.data) + at.to[l] + channel;
#pragma GCC unroll 4
    for (int i = 0; i < kPixels; ++i) {
      if (i < at.skip) continue;
      const __m512i words = Results::narrow(activate(kAct, even[l][i]), activate(kAct, odd[l][i]));
      _mm512_storeu_si512(to + i * s.pixel, _mm512_permutexvar_epi16(interleaved, words));
    }
  }
}

/// The same by way of memory.
void write_lines(const Job& s, const Block& at, int64_t channel, int64_t some, const Sums& sums) {
  alignas(64) float spare[kPixels * kLanes];
  const int64_t ld = s.writes ? s.pixel : kLanes;
  for (int l = 0; l < at.count; ++l) {
    const int64_t row = at.row + l * s.c.cols;
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
    const int64_t stop = s.finish_parts == nullptr ? 0 : s.c.groups;
    for (; channel + 2 * kLanes <= stop; channel += 2 * kLanes) {
      Sums even, odd;
      const auto sum = [&](auto part, Sums& sums) {
        constexpr Part kPart = decltype(part)::value;
        const VF start = s.bias == nullptr ? VF{} : load_part<kPart>(s.bias + channel);
        sum_block<X, kPart, kTaps, kStep, kLines, kWhole>(s, x + channel, s.kernels + channel, at,
                                                          start, kLanes, sums);
      };
      sum(PartConstant<Part::kEven>{}, even);
      sum(PartConstant<Part::kOdd>{}, odd);
      s.finish_parts(s, at, channel, even, odd);
    }
  }
  for (; channel < s.c.groups; channel += kLanes) {
    const int64_t some = min(s.c.groups - channel, kLanes);
    const VF start = s.bias == nullptr ? VF{} : load(s.bias + channel);
    Sums sums;
    sum_block<X, Part::kAll, kTaps, kStep, kLines, kWhole>(s, x + channel, s.kernels + channel, at,
                                                           start, some, sums);
    s.finish(s, at, channel, some, sums);
  }
}

/// Columns [begin, stop) of lines i .. i + kLines - 1 of the output. The last block of a line
/// begins early enough to be a full one.
template <class X, int kTaps, int kStep, int kLines>
void run_lines(const Job& s, int64_t i, int64_t begin, int64_t stop) {
  const Convolution& c = s.c;
  const int64_t n = i / c.rows, h = (i - n * c.rows) * kStep - c.top;
  constexpr int64_t kRows = (kLines - 1) * kStep + kTaps, kColumns = (kPixels - 1) * kStep + kTaps;
  const Taps lines = taps_inside(h, 1, kRows, c.x.shape[2]);
  for (int64_t j = begin; j < stop; j += kPixels) {
    const int64_t start = min(j, c.cols - kPixels), column = start * kStep - c.left;
    Block block = {n * s.input.image + h * s.input.row + column * s.input.pixel,
                   i * c.cols + start,
                   {},
                   lines,
                   taps_inside(column, 1, kColumns, c.x.shape[3]),
                   kLines,
                   static_cast<int>(j - start)};
    for (int l = 0; l < kLines; ++l) block.to[l] = s.c.end.out.rows.at(block.row + l * c.cols);
    if (block.columns.first == 0 && block.columns.end == kColumns)
      run_block<X, kTaps, kStep, kLines, true>(s, block);
    else
      run_block<X, kTaps, kStep, kLines, false>(s, block);
  }
}

/// Columns of the output that are computed for all lines before the next, so that the lines of x
/// they read stay in the first-level cache.
int64_t strip_of(const Convolution& c, int64_t element) {
  const int64_t rows = c.taps_h + c.step_h;
  const int64_t column = c.groups * (rows * c.step_w * element + 2 * 4);
  const int64_t fit = caches().l1 / 2 / column / kPixels * kPixels;
  return fit >= c.cols ? c.cols : max(fit, kPixels);
}

template <class X, int kTaps, int kStep>
void run_as(const Job& s, int64_t first, int64_t last) {
  const int64_t rows = s.c.rows, strip = strip_of(s.c, sizeof(X));
  for (int64_t j = 0; j < s.c.cols; j += strip) {
    const int64_t stop = min(j + strip, s.c.cols);
    for (int64_t i = first; i < last;) {
      const bool two = i + 1 < last && (i + 1) % rows != 0;
      if (two)
        run_lines<X, kTaps, kStep, 2>(s, i, j, stop);
      else
        run_lines<X, kTaps, kStep, 1>(s, i, j, stop);
      i += two ? 2 : 1;
    }
  }
}

template <class X>
void run(const Job& s, int64_t first, int64_t last) {
  if (s.c.taps_h == 5) return run_as<X, 5, 1>(s, first, last);
  if (s.c.step_h == 2) return run_as<X, 3, 2>(s, first, last);
  run_as<X, 3, 1>(s, first, last);
}

/// True if a VectorEnd finishes the results, of that dtype.
bool finishes(const Convolution& c, DType dtype) {
  FloatEpilogue end = c.end;
  end.out.dtype = DType::kF32;
  return c.end.out.dtype == dtype && c.end.residual.data == nullptr && finishes_vectors(end);
}

}  // namespace

bool depthwise_blocks_take(const Convolution& c) {
  if (!depthwise_takes(c) || is_double(c.kernels.dtype)) return false;
  if (c.tap_h != 1 || c.tap_w != 1 || c.taps_h != c.taps_w || c.step_h != c.step_w) return false;
  const bool fits = c.taps_h == 3 ? c.step_h == 1 || c.step_h == 2 : c.taps_h == 5 && c.step_h == 1;
  return fits && c.cols >= kPixels;
}

bool depthwise_reads_bf16(const Convolution& c) {
  return c.x.dtype == DType::kBF16 && c.x.stride[1] == 1 && depthwise_blocks_take(c);
}

void depthwise_blocks(const Convolution& c, const PaddedInput& input, const float* packed,
                      const float* bias, const GemmOutput& end, int64_t first, int64_t last) {
  const MatrixRef& out = c.end.out;
  const bool writes = out.stride == 1 && out.dtype == DType::kF32;
  const int64_t pixel = out.rows.at(1) - out.rows.at(0);
  Job s = {c, input, packed, bias, end, depthwise_width(c), pixel, writes, write_lines};
  with_act(c.end.act, [&](auto act) {
    if (finishes(c, DType::kF32)) s.finish = finish_lines<float, act.value>;
    if (!finishes(c, DType::kBF16)) return;
    const bool native = settings().bf16 == Bf16::kDots;
    s.finish = native ? narrow_lines<act.value> : finish_lines<BF16, act.value>;
    if (!c.end.by_channels())
      s.finish_parts =
          native ? narrow_parts<NativeBf16, act.value> : narrow_parts<EmulatedBf16, act.value>;
  });
  if (depthwise_reads_bf16(c))
    run<BF16>(s, first, last);
  else
    run<float>(s, first, last);
}

}  // namespace proa::PROA_ISA
