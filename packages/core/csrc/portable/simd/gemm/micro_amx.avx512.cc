// Micro-kernels of bfloat16 and int8 by AMX, whose registers are tiles: 16 rows of 64 bytes. One
// instruction adds to a tile of c the product of one of a, rows of 16 units, and one of b, 16 units
// of 16 columns, which is how panels of b are packed for vectors too. Four tiles of c, two of a
// and two of b are in use. The instruction set path of AVX-512 does not include AMX, so that it is
// written by name here and chosen at run time; see docs/decisions/0011-amx-tiles.md.
//
// The products of bfloat16 (Intel's manual, TDPBF16PS): the lower elements of 16 pairs are summed
// in order, and so are the upper ones, by fused multiply-adds from 0; the two sums are added, and
// that to c. Each result is rounded to nearest even, subnormal numbers are read and written as 0.
#include <string.h>

#include "proa/base/arith.h"
#include "proa/simd/gemm/int8_end.h"
#include "proa/simd/vec_bf16.h"

#if __has_include(<amxtileintrin.h>)

namespace proa::PROA_ISA {
namespace {

constexpr int kRows = 16, kUnits = 16;  // of a register
constexpr int64_t kLine = 64;           // bytes of its rows
enum Register { kTopLeft, kTopRight, kBottomLeft, kBottomRight, kTopA, kBottomA, kLeftB, kRightB };

/// What LDTILECFG reads.
struct alignas(64) Configuration {
  uint8_t palette = 1, start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t line_bytes[16] = {};
  uint8_t rows[16] = {};
};

/// The shape of the registers for tiles of `count` rows, of which the lower registers hold those
/// from `high` on, and steps of `units` of k.
struct Shape {
  int count, high, units;
  uint32_t key() const { return static_cast<uint32_t>(count << 16 | high << 8 | units); }
  int top() const { return min(count, high); }
  int bottom() const { return count > high ? count - high : top(); }

  Configuration configuration() const {
    Configuration c;
    auto set = [&](int r, int rows, int64_t bytes) {
      c.rows[r] = static_cast<uint8_t>(rows);
      c.line_bytes[r] = static_cast<uint16_t>(bytes);
    };
    set(kTopLeft, top(), kLine);
    set(kTopRight, top(), kLine);
    set(kBottomLeft, bottom(), kLine);
    set(kBottomRight, bottom(), kLine);
    set(kTopA, top(), int64_t{units} * 4);
    set(kBottomA, bottom(), int64_t{units} * 4);
    set(kLeftB, units, kLine);
    set(kRightB, units, kLine);
    return c;
  }
};

/// The instructions.
struct Native {
  static constexpr bool kKeepsShape = true;
  PROA_INLINE void configure(const Configuration& c) {
    __asm__ volatile("ldtilecfg %0" : : "m"(c));
  }
  template <int kRegister>
  PROA_INLINE void zero() {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(kRegister));
  }
  template <int kRegister>
  PROA_INLINE void load(const void* p, int64_t pitch) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2"
                     :
                     : "r"(p), "r"(pitch), "i"(kRegister)
                     : "memory");
  }
  template <int kRegister>
  PROA_INLINE void store(void* p, int64_t pitch) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)"
                     :
                     : "r"(p), "r"(pitch), "i"(kRegister)
                     : "memory");
  }
};
struct NativeBf16Unit : Native {
  using Results = NativeBf16;
  template <int c, int a, int b>
  PROA_INLINE void multiply_add() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
  }
};
struct NativeInt8Unit : Native {
  template <int c, int a, int b>  // a as uint8, b as int8
  PROA_INLINE void multiply_add() {
    __asm__ volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
  }
};

/// The same in memory.
struct Emulated {
  static constexpr bool kKeepsShape = false;
  alignas(64) uint8_t lines[8][kRows][kLine];
  Configuration shape;

  void configure(const Configuration& c) {
    shape = c;
    memset(lines, 0, sizeof lines);
  }
  template <int kRegister>
  void zero() {
    memset(lines[kRegister], 0, sizeof lines[kRegister]);
  }
  template <int kRegister>
  void load(const void* p, int64_t pitch) {
    zero<kRegister>();
    for (int i = 0; i < shape.rows[kRegister]; ++i)
      memcpy(lines[kRegister][i], static_cast<const uint8_t*>(p) + i * pitch,
             shape.line_bytes[kRegister]);
  }
  template <int kRegister>
  void store(void* p, int64_t pitch) {
    for (int i = 0; i < shape.rows[kRegister]; ++i)
      memcpy(static_cast<uint8_t*>(p) + i * pitch, lines[kRegister][i],
             shape.line_bytes[kRegister]);
  }
  __m512i line(int r, int i) const { return _mm512_load_si512(lines[r][i]); }
  int32_t unit(int r, int i, int k) const {
    int32_t x;
    memcpy(&x, lines[r][i] + 4 * k, sizeof x);
    return x;
  }
};
struct EmulatedBf16Unit : Emulated {
  using Results = EmulatedBf16;
  template <int c, int a, int b>
  void multiply_add() {
    for (int i = 0; i < shape.rows[c]; ++i) {
      __m512 low = _mm512_setzero_ps(), high = low;
      for (int k = 0; k < shape.rows[b]; ++k) {
        const __m512i x = _mm512_set1_epi32(unit(a, i, k)), y = line(b, k);
        low = Results::add_product(low, Results::lower(x), Results::lower(y));
        high = Results::add_product(high, Results::upper(x), Results::upper(y));
      }
      const __m512 sum = Results::without_subnormals(_mm512_add_ps(low, high));
      const __m512 before = Results::without_subnormals(_mm512_castsi512_ps(line(c, i)));
      _mm512_store_ps(lines[c][i], Results::without_subnormals(_mm512_add_ps(before, sum)));
    }
  }
};
struct EmulatedInt8Unit : Emulated {
  template <int c, int a, int b>
  void multiply_add() {
    for (int i = 0; i < shape.rows[c]; ++i) {
      __m512i sum = line(c, i);
      for (int k = 0; k < shape.rows[b]; ++k)
        sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi32(unit(a, i, k)), line(b, k));
      _mm512_store_si512(lines[c][i], sum);
    }
  }
};

/// One step of k of all four tiles of c, or of those that there are. The lower rows of a are
/// `bottom` bytes after the first.
template <bool kTall, bool kWide, class Unit>
PROA_INLINE void step(Unit& unit, const uint8_t* a, int64_t pitch_a, int64_t bottom,
                      const uint8_t* b, int64_t pitch_b) {
  unit.template load<kLeftB>(b, pitch_b);
  unit.template load<kTopA>(a, pitch_a);
  unit.template multiply_add<kTopLeft, kTopA, kLeftB>();
  if constexpr (kWide) {
    unit.template load<kRightB>(b + kLine, pitch_b);
    unit.template multiply_add<kTopRight, kTopA, kRightB>();
  }
  if constexpr (kTall) {
    unit.template load<kBottomA>(a + bottom, pitch_a);
    unit.template multiply_add<kBottomLeft, kBottomA, kLeftB>();
  }
  if constexpr (kTall && kWide) unit.template multiply_add<kBottomRight, kBottomA, kRightB>();
}

/// The rows of a: those from `high` on are in the lower registers.
struct Lines {
  int count, high;
  int64_t pitch, bottom;

  Lines(const Tile& t, const Patches& w)
      : count(t.c.count),
        high(w.top != 0 ? w.top : kRows),
        pitch(w.row),
        bottom(w.top != 0 ? w.bottom : kRows * w.row) {}
  bool tall() const { return count > high; }
  int64_t at(int i) const { return i < high ? i * pitch : bottom + (i - high) * pitch; }
};

/// The last units of a run, padded with 0 to a step: what follows them may be any numbers.
template <bool kTall, bool kWide, class Unit>
void last_step(Unit& unit, const Lines& rows, int64_t units, const uint8_t* a, const uint8_t* b,
               int64_t pitch_b) {
  alignas(64) uint8_t lines_a[kAmxRows * kLine], lines_b[2 * kUnits * kLine] = {};
  const auto some = static_cast<__mmask16>((1u << units) - 1);
  for (int i = 0; i < rows.count; ++i)
    _mm512_store_si512(lines_a + i * kLine, _mm512_maskz_loadu_epi32(some, a + rows.at(i)));
  for (int64_t k = 0; k < units; ++k)
    memcpy(lines_b + 2 * k * kLine, b + k * pitch_b, (kWide ? 2 : 1) * kLine);
  step<kTall, kWide>(unit, lines_a, kLine, rows.high * kLine, lines_b, 2 * kLine);
}

template <bool kTall, bool kWide, class Unit>
PROA_INLINE void start(Unit& unit, const void* from, int64_t pitch, int high) {
  const uint8_t* p = static_cast<const uint8_t*>(from);
  if (p == nullptr) {
    unit.template zero<kTopLeft>();
    if constexpr (kWide) unit.template zero<kTopRight>();
    if constexpr (kTall) unit.template zero<kBottomLeft>();
    if constexpr (kTall && kWide) unit.template zero<kBottomRight>();
    return;
  }
  unit.template load<kTopLeft>(p, pitch);
  if constexpr (kWide) unit.template load<kTopRight>(p + kLine, pitch);
  if constexpr (kTall) unit.template load<kBottomLeft>(p + high * pitch, pitch);
  if constexpr (kTall && kWide) unit.template load<kBottomRight>(p + high * pitch + kLine, pitch);
}
template <bool kTall, bool kWide, class Unit>
PROA_INLINE void store(Unit& unit, void* to, int64_t pitch, int high) {
  uint8_t* p = static_cast<uint8_t*>(to);
  unit.template store<kTopLeft>(p, pitch);
  if constexpr (kWide) unit.template store<kTopRight>(p + kLine, pitch);
  if constexpr (kTall) unit.template store<kBottomLeft>(p + high * pitch, pitch);
  if constexpr (kTall && kWide) unit.template store<kBottomRight>(p + high * pitch + kLine, pitch);
}

/// The sums of a tile, from those at `from` (of rows `pitch` bytes apart) to `to`.
struct Places {
  const void* from;
  int64_t from_pitch;
  void* to;
  int64_t to_pitch;
};
template <bool kTall, bool kWide, class Unit>
void sum(Unit& unit, const Tile& t, const Patches& w, int units, const Places& places) {
  const Lines rows(t, w);
  start<kTall, kWide>(unit, places.from, places.from_pitch, rows.high);
  const uint8_t* b = static_cast<const uint8_t*>(t.b.data);
  const int64_t pitch = t.b.ld * 4, whole = t.k - t.k % units;
  const char* ahead =
      static_cast<const char*>(t.prefetch.from != nullptr ? t.prefetch.from : t.a.data);
  for (int64_t p = 0; p < w.taps_h; ++p)
    for (int64_t q = 0; q < w.taps_w; ++q) {
      const uint8_t* a = static_cast<const uint8_t*>(t.a.data) + p * w.tap_h + q * w.tap_w;
      for (int64_t k = 0; k < whole; k += units) {
        for (int64_t line = 0; line < t.prefetch.bytes * units; line += kLine, ahead += kLine)
          __builtin_prefetch(ahead, 0, 2);
        step<kTall, kWide>(unit, a, w.row, rows.bottom, b, pitch);
        a += 4 * units;
        b += units * pitch;
      }
      if (whole == t.k) continue;
      last_step<kTall, kWide>(unit, rows, t.k - whole, a, b, pitch);
      b += (t.k - whole) * pitch;
    }
  store<kTall, kWide>(unit, places.to, places.to_pitch, rows.high);
}

template <class Unit>
void sum_tile(int vecs, const Tile& t, const Patches& w, const Places& places) {
  const Lines rows(t, w);
  const Shape shape = {t.c.count, rows.high, static_cast<int>(amx_step_units(t.k))};
  Unit unit;
  if (!Unit::kKeepsShape || t.amx->shape != shape.key()) unit.configure(shape.configuration());
  if (Unit::kKeepsShape) t.amx->shape = shape.key();
  const bool tall = rows.tall();
  if (vecs == 1) {
    return tall ? sum<true, false>(unit, t, w, shape.units, places)
                : sum<false, false>(unit, t, w, shape.units, places);
  }
  return tall ? sum<true, true>(unit, t, w, shape.units, places)
              : sum<false, true>(unit, t, w, shape.units, places);
}

/// Stores the sums in `sums`, a row of vectors after the other, as the tile says.
template <class Unit>
void finish(const Tile& t, int vecs, const float* sums) {
  const int64_t cols = (vecs - 1) * kLanes + t.c.last;
  const auto some = static_cast<uint32_t>((uint64_t{1} << cols) - 1);
  for (int i = 0; i < t.c.count; ++i, sums += kTileVecs * kLanes) {
    VF low = load(sums), high = vecs == 1 ? VF{} : load(sums + kLanes);
    if (t.epilogue.narrow != nullptr) {
      const VF from = splat(t.epilogue.narrow->low), to = splat(t.epilogue.narrow->high);
      if (const BF16* residual = t.epilogue.narrow->residual; residual != nullptr) {
        residual += i * t.epilogue.narrow->residual_ld;
        low += Unit::Results::load_some(residual, min(cols, kLanes));
        if (vecs > 1) high += Unit::Results::load_some(residual + kLanes, cols - kLanes);
      }
      low = min(to, max(from, low));
      high = min(to, max(from, high));
      Unit::Results::store_some(t.epilogue.narrow->out + i * t.epilogue.narrow->ld, some,
                                Unit::Results::narrow(low, high));
      continue;
    }
    if (t.epilogue.relu) {
      low = max(VF{}, low);
      high = max(VF{}, high);
    }
    float* const to = static_cast<float*>(t.c.data) + i * t.c.ld;
    store_n(to, low, min(cols, kLanes));
    if (vecs > 1) store_n(to + kLanes, high, cols - kLanes);
  }
}

template <class Unit>
void run_bf16(int, int vecs, const Tile& t, const Patches& w) {
  constexpr int64_t kPitch = kTileVecs * kLine;
  alignas(64) float sums[kAmxRows * kTileVecs * kLanes];
  const bool direct = t.c.last == kLanes && !t.epilogue.relu && t.epilogue.narrow == nullptr;
  const int64_t pitch = t.c.ld * 4;
  Places places = {t.init, 0, t.c.data, pitch};
  if (t.accumulate) {
    places.from = t.c.data;
    places.from_pitch = pitch;
    if (t.c.last != kLanes) {  // a register would be loaded from past the columns
      for (int i = 0; i < t.c.count; ++i)
        memcpy(sums + i * kTileVecs * kLanes, static_cast<const float*>(t.c.data) + i * t.c.ld,
               static_cast<size_t>((vecs - 1) * kLanes + t.c.last) * 4);
      places.from = sums;
      places.from_pitch = kPitch;
    }
  }
  if (direct) return sum_tile<Unit>(vecs, t, w, places);
  places.to = sums;
  places.to_pitch = kPitch;
  sum_tile<Unit>(vecs, t, w, places);
  finish<Unit>(t, vecs, sums);
}

template <class Unit>
void run_int8(int, int vecs, const Tile& t, const Patches& w) {
  constexpr int64_t kPitch = kTileVecs * kLine;
  if (t.c.last == kLanes) return sum_tile<Unit>(vecs, t, w, {t.init, 0, t.c.data, t.c.ld * 4});
  alignas(64) int32_t sums[kAmxRows * kTileVecs * kLanes];
  sum_tile<Unit>(vecs, t, w, {t.init, 0, sums, kPitch});
  for (int i = 0; i < t.c.count; ++i)
    memcpy(static_cast<int32_t*>(t.c.data) + i * t.c.ld, sums + i * kTileVecs * kLanes,
           static_cast<size_t>((vecs - 1) * kLanes + t.c.last) * 4);
}

/// Ends the rows in `sums`. Those that estimates do not suffice for are stored as sums.
template <bool kAdds, bool kSwishes, int kVecs>
void end_sums(const Tile& t, const int32_t* sums, Int8TileEnd* end) {
  const Int8TileRows<kVecs> rows(t, *end);
  int8_t* to = end->ends.out + end->row * rows.out_row + end->col;
  const int8_t* from = nullptr;
  if (kAdds) from = end->ends.residual + end->row * rows.residual_row + end->col;
  for (int i = 0; i < t.c.count; i += 2, to += 2 * rows.out_row) {
    VI acc[2][kVecs];
    const bool both = i + 1 < t.c.count;
    for (int s = 0; s < 2; ++s)
      for (int j = 0; j < kVecs; ++j)
        acc[s][j] = load(sums + (i + (both ? s : 0)) * kTileVecs * kLanes + j * kLanes);
    if (PROA_UNLIKELY(!(rows.template end_rows<kAdds, kSwishes>(acc, both, to, from)))) {
      end->left |= 3u << i;
      for (int s = 0; s < (both ? 2 : 1); ++s)
        memcpy(static_cast<int32_t*>(t.c.data) + (i + s) * t.c.ld,
               sums + (i + s) * kTileVecs * kLanes, kVecs * kVecBytes);
    }
    if (kAdds) from += 2 * rows.residual_row;
  }
}
template <int kVecs>
void end_tile_of(const Tile& t, const int32_t* sums, Int8TileEnd* end) {
  if (end->ends.residual != nullptr) return end_sums<true, false, kVecs>(t, sums, end);
  if (end->ends.estimate.swish != 0.0f) return end_sums<false, true, kVecs>(t, sums, end);
  end_sums<false, false, kVecs>(t, sums, end);
}
template <class Unit>
void run_int8_ended(int, int vecs, const Tile& t, const Patches& w, Int8TileEnd* end) {
  alignas(64) int32_t sums[kAmxRows * kTileVecs * kLanes];
  sum_tile<Unit>(vecs, t, w, {t.init, 0, sums, kTileVecs * kLine});
  return vecs == 1 ? end_tile_of<1>(t, sums, end) : end_tile_of<2>(t, sums, end);
}

template <class Unit>
constexpr Micro bf16_micro() {
  Micro m = {4, kLanes, 2, kFloatSteps, nullptr, run_bf16<Unit>};
  m.narrows = true;
  m.rows = kAmxRows;
  return m;
}
template <class Unit>
constexpr Micro int8_micro() {
  Micro m = {4, kLanes, kInt8Steps, kInt8Units, nullptr, run_int8<Unit>};
  m.rows = kAmxRows;
  m.ended.run = run_int8_ended<Unit>;
  return m;
}

constexpr bool kEmulates = computes(DType::kF64);

}  // namespace

void AmxState::release_amx() { __asm__ volatile("tilerelease"); }

const Micro kMicroAmxBF16 = bf16_micro<NativeBf16Unit>();
const Micro kMicroAmxI8 = int8_micro<NativeInt8Unit>();
const Micro kMicroAmxBF16Emulated = kEmulates ? bf16_micro<EmulatedBf16Unit>() : Micro{};
const Micro kMicroAmxI8Emulated = kEmulates ? int8_micro<EmulatedInt8Unit>() : Micro{};

}  // namespace proa::PROA_ISA

#endif
