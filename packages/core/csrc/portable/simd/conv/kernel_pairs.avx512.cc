#include "proa/simd/conv/kernel_pairs.h"

#include "proa/base/arith.h"
#include "proa/simd/gemm/pack.h"

namespace proa::PROA_ISA {
namespace {

constexpr int kWords = 32;                // BF16 elements of a vector
constexpr int64_t kPanel = 2 * kLanes;    // columns of a panel
constexpr int64_t kLargestStride = 25;    // between outs: bounds the masks
constexpr int64_t kTransposeUnits = 256;  // of a kernel, transposed at once

/// Offsets of the taps from the first one in memory, which is `first` from tap 0.
struct TapOffsets {
  int64_t first, last;
};
TapOffsets tap_offsets(const Convolution& c) {
  const int64_t h = (c.window.kernel_h - 1) * c.kernels.tap_h,
                w = (c.window.kernel_w - 1) * c.kernels.tap_w;
  const int64_t first = min(h, 0) + min(w, 0);
  return {first, max(h, 0) + max(w, 0) - first};
}

/// Where unit `unit` of the panel of column `col` goes.
struct PanelLayout {
  int64_t outs, units, block, padded;

  PanelLayout(const Convolution& c, const Micro& micro, int64_t all)
      : outs(c.channels.out),
        units(all),
        block(gemm_k_block(micro, all)),
        padded(gemm_columns(micro, c.channels.out)) {}
  int64_t width(int64_t col) const { return outs - col <= kLanes ? kLanes : kPanel; }
  int64_t at(int64_t unit, int64_t col) const {
    // 32-bit divisions take half the time.
    const int64_t k0 = static_cast<uint32_t>(unit) / static_cast<uint32_t>(block) * block;
    return k0 * padded + col * min(block, units - k0) + (unit - k0) * width(col);
  }
};

bool by_kernels(const Convolution& c) {
  const ConvWeights& w = c.kernels;
  const int64_t taps = c.window.taps();
  const bool ordered = taps == 1 || (w.tap_w == 1 && w.tap_h == c.window.kernel_w);
  return ordered && w.depth == taps && c.channels.in % 2 == 0 && w.out % 2 == 0 &&
         taps <= kTransposeUnits;
}
bool by_outs(const Convolution& c) {
  const ConvWeights& w = c.kernels;
  return w.out > 0 && w.out <= kLargestStride && tap_offsets(c).last < w.out;
}

// -- kernels contiguous one after the other: 16 of them are transposed by pairs as stored, which
// are then paired by channels
// ---------------------------------------------------------------------------

/// Unit l: half `a` of unit l of one vector, and half `b` of unit l of another.
struct Halves {
  __m512i index[2][2];

  Halves() {
    alignas(64) uint16_t words[kWords];
    for (int a = 0; a < 2; ++a)
      for (int b = 0; b < 2; ++b) {
        for (int i = 0; i < kWords; ++i)
          words[i] = static_cast<uint16_t>(i % 2 == 0 ? i + a : kWords + i - 1 + b);
        index[a][b] = _mm512_load_si512(words);
      }
  }
};

/// Vectors of 16 outs of channels [d, d + count), from those transposed as stored.
void store_units(const Convolution& c, const PanelLayout& layout, const Halves& halves, int64_t col,
                 int64_t d, int64_t count, const uint32_t* transposed, uint32_t* packed) {
  const int64_t taps = c.window.taps(), first = col / kPanel * kPanel;
  for (int64_t t = 0; t < taps; ++t)
    for (int64_t i = 0; i < count; i += 2) {
      const int64_t a = i * taps + t, b = a + taps;
      const __m512i x = _mm512_load_si512(transposed + a / 2 * kLanes);
      const __m512i y = _mm512_load_si512(transposed + b / 2 * kLanes);
      const __m512i unit = _mm512_permutex2var_epi16(x, halves.index[a % 2][b % 2], y);
      const int64_t at = layout.at((t * c.channels.in + d + i) / 2, first);
      _mm512_storeu_si512(packed + at + col - first, unit);
    }
}

void pack_by_kernels(const Convolution& c, const PanelLayout& layout, const uint16_t* base,
                     uint32_t* packed) {
  const int64_t taps = c.window.taps();
  const Halves halves;
  MatrixOperand matrix;
  CoalescedAxes lanes, along;
  lanes.add(c.channels.out, c.kernels.out);
  along.add(c.channels.in * taps, 1);
  const PackOperand source = bf16_pair_operand(&matrix, base, lanes, along, c.channels.in * taps);
  const int64_t chunk = kTransposeUnits / taps * 2;
  alignas(64) uint32_t transposed[kTransposeUnits * kLanes];
  for (int64_t col = 0; col < c.channels.out; col += kLanes) {
    const auto some = static_cast<int>(min(c.channels.out - col, kLanes));
    for (int64_t d = 0; d < c.channels.in; d += chunk) {
      const int64_t count = min(c.channels.in - d, chunk);
      pack_panel(source, 4, col, some, kLanes, d * taps / 2, count * taps / 2, transposed);
      store_units(c, layout, halves, col, d, count, transposed, packed);
    }
  }
}

// -- outs near each other: of every tap its elements are gathered from the vectors that hold them
// --

/// Every `stride`-th element from `offset` on: the lanes that each vector of words has of them.
struct Strided {
  __mmask32 lanes[kLargestStride];
  __m512i index;

  void set(int64_t stride, int64_t offset) {
    alignas(64) uint16_t words[kWords];
    for (__mmask32& vector : lanes) vector = 0;
    for (int64_t l = 0; l < kWords; ++l) {
      words[l] = static_cast<uint16_t>(l * stride + offset);
      lanes[words[l] / kWords] |= __mmask32{1} << l;
    }
    index = _mm512_load_si512(words);
  }
  /// Those of a row of `vectors` vectors.
  PROA_INLINE __m512i gather(const __m512i* row, int64_t vectors) const {
    __m512i r = _mm512_setzero_si512();
    for (int64_t i = 0; i < vectors; ++i)
      r = _mm512_mask_permutexvar_epi16(r, lanes[i], index, row[i]);
    return r;
  }
};

/// `count` elements as vectors.
void load_words(const uint16_t* from, int64_t count, __m512i* row) {
  for (; count > 0; count -= kWords, from += kWords, ++row) {
    const auto some = static_cast<__mmask32>((uint64_t{1} << min(count, kWords)) - 1);
    *row = _mm512_maskz_loadu_epi16(some, from);
  }
}

/// Units of `width` outs: elements of one channel in the lower halves, of the next in the upper.
void store_pairs(__m512i low, __m512i high, int64_t width, uint32_t* to) {
  auto widen = [](__m256i x) { return _mm512_cvtepu16_epi32(x); };
  const __m512i upper = _mm512_slli_epi32(widen(_mm512_castsi512_si256(high)), 16);
  _mm512_storeu_si512(to, _mm512_or_si512(widen(_mm512_castsi512_si256(low)), upper));
  if (width <= kLanes) return;
  const __m512i next = _mm512_slli_epi32(widen(_mm512_extracti64x4_epi64(high, 1)), 16);
  _mm512_storeu_si512(to + kLanes, _mm512_or_si512(widen(_mm512_extracti64x4_epi64(low, 1)), next));
}

void pack_by_outs(const Convolution& c, const PanelLayout& layout, const uint16_t* base,
                  int64_t units, uint32_t* packed) {
  const ConvWeights& w = c.kernels;
  const TapOffsets offsets = tap_offsets(c);
  const int64_t taps = c.window.taps();
  Strided tap[kLargestStride];
  for (int64_t t = 0; t < taps; ++t)
    tap[t].set(w.out,
               t / c.window.kernel_w * w.tap_h + t % c.window.kernel_w * w.tap_w - offsets.first);
  __m512i low[kLargestStride], high[kLargestStride];
  for (int64_t col = 0; col < c.channels.out; col += kPanel) {
    const int64_t cols = min(c.channels.out - col, kPanel), width = layout.width(col);
    const int64_t count = (cols - 1) * w.out + offsets.last + 1, vectors = ceil_div(count, kWords);
    for (int64_t u = 0; u < units; ++u) {
      const uint16_t* from = base + offsets.first + 2 * u * w.depth + col * w.out;
      const bool odd = 2 * u + 1 == c.channels.in;
      load_words(from, count, low);
      if (!odd) load_words(from + w.depth, count, high);
      for (int64_t t = 0; t < taps; ++t)
        store_pairs(tap[t].gather(low, vectors),
                    odd ? _mm512_setzero_si512() : tap[t].gather(high, vectors), width,
                    packed + layout.at(t * units + u, col));
    }
  }
}

}  // namespace

bool kernel_pairs_takes(const Convolution& c) { return by_kernels(c) || by_outs(c); }

void pack_kernel_pairs(const Convolution& c, const Micro& micro, const uint16_t* base,
                       int64_t units, uint32_t* packed) {
  const PanelLayout layout(c, micro, c.window.taps() * units);
  if (!by_kernels(c)) return pack_by_outs(c, layout, base, units, packed);
  pack_by_kernels(c, layout, base, packed);
}

}  // namespace proa::PROA_ISA
