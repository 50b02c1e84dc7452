#include "proa/simd/gemm/epilogue.h"

#include <math.h>

#include "proa/simd/gemm/epilogue_vector.h"
#include "proa/simd/vec_bf16.h"

namespace proa::PROA_ISA {
namespace {

double activate(Act act, double x) {
  const double hard = fmin(6.0, fmax(0.0, x + 3.0));
  switch (act) {
    case Act::kRelu:
      return x < 0.0 ? 0.0 : x;
    case Act::kRelu6:
      return x < 0.0 ? 0.0 : x > 6.0 ? 6.0 : x;
    case Act::kHardSwish:
      return x * hard / 6.0;
    case Act::kHardSigmoid:
      return fmin(1.0, fmax(0.0, x * 0.1666667 + 0.5));
    case Act::kSigmoid:
      return 1.0 / (1.0 + ::exp(-x));
    case Act::kTanh:
      return ::tanh(x);
    case Act::kGelu:
      return x * 0.5 * ::erfc(x * -0.7071067811865476);
    case Act::kSilu:
      return x / (1.0 + ::exp(-x));
    default:
      return x;
  }
}

template <class T>
void add_residual(const MatrixRef& p, int64_t row, int64_t col, int n, T* y) {
  T values[kTileVecs * kLanes];
  const int64_t at = p.rows.at(row) + col * p.stride;
  widen(static_cast<const uint8_t*>(p.data) + at * static_cast<int64_t>(size_of(p.dtype)), p.dtype,
        p.stride, n, values);
  for (int i = 0; i < n; ++i) y[i] += values[i];
}

template <class T>
void normalise(const ChannelNorm& norm, int64_t channel, int n, T* y) {
  const T* const center = static_cast<const T*>(norm.center) + channel;
  const T* const factor = static_cast<const T*>(norm.factor) + channel;
  const T* const shift = static_cast<const T*>(norm.shift) + channel;
  for (int i = 0; i < n; i += kLanesOf<T>) {
    const int64_t some = n - i < kLanesOf<T> ? n - i : kLanesOf<T>;
    auto take = [&](const T* p) { return load_n(p + i, some); };
    store_n(y + i, normalised<Vec<T>>(take(y), take(center), take(factor), take(shift)), some);
  }
}

template <class T>
void finish_rows(const FloatEpilogue& end, T* tile, int64_t ldt, int64_t row, int rows, int64_t col,
                 int cols) {
  for (int i = 0; i < rows; ++i, tile += ldt) {
    if (end.by_channels()) normalise(*end.norm, col, cols, tile);
    if (end.residual.data != nullptr) add_residual(end.residual, row + i, col, cols, tile);
    if (end.act != Act::kNone) activate(end.act, tile, cols);
    if (end.is_scaled())
      for (int j = 0; j < cols; ++j)
        tile[j] = tile[j] * static_cast<T>(end.norm->scale) + static_cast<T>(end.norm->offset);
    const int64_t at = end.out.rows.at(row + i) + col * end.out.stride;
    void* const to =
        static_cast<uint8_t*>(end.out.data) + at * static_cast<int64_t>(size_of(end.out.dtype));
    if (to != tile) narrow(tile, end.out.dtype, end.out.stride, cols, to);
  }
}

/// What finish_rows does to rows of floats that are in place, in one pass.
struct InPlace {
  const FloatEpilogue& end;
  float* tile;
  int64_t ldt, row, col;
  int rows, cols;
};

/// `some` channels from `at` on.
template <Act kAct>
PROA_INLINE void finish_channels(const InPlace& s, int at, int64_t some) {
  const VectorEnd end(s.end, s.col + at, some);
  float* y = s.tile + at;
  for (int i = 0; i < s.rows; ++i, y += s.ldt) {
    const VF v = some == kLanes ? load(y) : load_n(y, some);
    const VF done = end.finish<kAct>(v, s.row + i);
    if (some == kLanes)
      store(y, done);
    else
      store_n(y, done, some);
  }
}

template <Act kAct>
void finish_in_place(const InPlace& s) {
  int at = 0;
  for (; at + kLanes <= s.cols; at += kLanes) finish_channels<kAct>(s, at, kLanes);
  if (at < s.cols) finish_channels<kAct>(s, at, s.cols - at);
}

/// Whether the rows were finished so.
bool finish_floats(const InPlace& s) {
  const FloatEpilogue& end = s.end;
  if (!finishes_vectors(end)) return false;
  if (static_cast<const float*>(end.out.data) + end.out.rows.at(s.row) + s.col != s.tile)
    return false;
  with_act(end.act, [&](auto act) { finish_in_place<decltype(act)::value>(s); });
  return true;
}

/// True if narrow_rows takes it: BF16 in and out, side by side.
bool narrows_rows(const FloatEpilogue& end) {
  const bool adds = end.residual.data == nullptr ||
                    (end.residual.dtype == DType::kBF16 && end.residual.stride == 1);
  return !kSmallBuild && end.out.dtype == DType::kBF16 && end.out.stride == 1 && adds &&
         !end.by_channels();
}

/// Vectors of BF16 that start `step` elements apart, or anywhere.
struct NarrowLines {
  BF16* first;
  int64_t step;  // 0: through `rows`
  const CoalescedAxes& rows;
  int64_t row;

  NarrowLines(const MatrixRef& m, int64_t from, int count, int64_t col)
      : first(static_cast<BF16*>(m.data) + col), step(0), rows(m.rows), row(from) {
    if (m.rows.evenly_spaced(from, from + count) < count) return;
    first += m.rows.at(from);
    step = m.rows.step();
  }
  PROA_INLINE BF16* at(int i) const {
    return first + (PROA_LIKELY(step != 0) ? i * step : rows.at(row + i));
  }
};

/// finish_rows in registers: with a small k it counts. A vector of columns for all rows before the
/// next, so that the constants of an activation are loaded once.
template <bool kNative, bool kAdds, Act kAct>
void narrow_rows(const FloatEpilogue& end, const float* tile, int64_t ldt, int64_t row, int rows,
                 int64_t col, int64_t cols) {
  const NarrowLines to(end.out, row, rows, col);
  const NarrowLines from(kAdds ? end.residual : end.out, row, rows, col);
  int64_t j = 0;
  for (; j + kLanes <= cols; j += kLanes)
    for (int i = 0; i < rows; ++i) {
      VF v = load(tile + i * ldt + j);
      if (kAdds) v += load(from.at(i) + j);
      store_rounded<kNative>(to.at(i) + j, activate(kAct, v), kLanes);
    }
  for (int i = 0; i < rows && j < cols; ++i) {
    VF v = load_n(tile + i * ldt + j, cols - j);
    if (kAdds) v += load_n(from.at(i) + j, cols - j);
    store_rounded<kNative>(to.at(i) + j, activate(kAct, v), cols - j);
  }
}

using NarrowRows = void (*)(const FloatEpilogue& end, const float* tile, int64_t ldt, int64_t row,
                            int rows, int64_t col, int64_t cols);
template <bool kNative, bool kAdds>
NarrowRows narrow_rows_of(Act act) {
  constexpr NarrowRows kByAct[] = {
      narrow_rows<kNative, kAdds, Act::kNone>,        narrow_rows<kNative, kAdds, Act::kRelu>,
      narrow_rows<kNative, kAdds, Act::kRelu6>,       narrow_rows<kNative, kAdds, Act::kHardSwish>,
      narrow_rows<kNative, kAdds, Act::kHardSigmoid>, narrow_rows<kNative, kAdds, Act::kSigmoid>,
      narrow_rows<kNative, kAdds, Act::kTanh>,        narrow_rows<kNative, kAdds, Act::kGelu>,
      narrow_rows<kNative, kAdds, Act::kSilu>};
  return kByAct[static_cast<int64_t>(act)];
}

NarrowRows narrow_rows_of(Act act, bool adds) {
  if constexpr (kHasBf16Pairs) {
    if (settings().bf16 == Bf16::kDots)
      return adds ? narrow_rows_of<true, true>(act) : narrow_rows_of<true, false>(act);
  }
  return adds ? narrow_rows_of<false, true>(act) : narrow_rows_of<false, false>(act);
}

}  // namespace

void activate(Act act, float* y, int64_t n) {
  int64_t i = 0;
  if (act == Act::kRelu) {
    for (; i + kLanes <= n; i += kLanes) store(y + i, max(VF{}, load(y + i)));
  }
  for (; i < n; i += kLanes) {
    const int64_t some = n - i < kLanes ? n - i : kLanes;
    store_n(y + i, activate(act, load_n(y + i, some)), some);
  }
}

void activate(Act act, double* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = activate(act, y[i]);
}

void float_epilogue(const void* ctx, void* tile, int64_t ldt, int64_t row, int rows, int64_t col,
                    int cols) {
  const FloatEpilogue& end = *static_cast<const FloatEpilogue*>(ctx);
  if constexpr (!kSmallBuild) {
    if (narrows_rows(end)) {
      const NarrowRows run = narrow_rows_of(end.act, end.residual.data != nullptr);
      return run(end, static_cast<const float*>(tile), ldt, row, rows, col, cols);
    }
  }
  if (is_double(end.out.dtype))
    finish_rows(end, static_cast<double*>(tile), ldt, row, rows, col, cols);
  else if (kSmallBuild ||
           !finish_floats({end, static_cast<float*>(tile), ldt, row, col, rows, cols}))
    finish_rows(end, static_cast<float*>(tile), ldt, row, rows, col, cols);
}

bool takes_tiles(const MatrixRef& out) {
  return (out.dtype == DType::kF32 || is_double(out.dtype)) && out.stride == 1 &&
         out.rows.uniform();
}

TileEnd tile_end(const FloatEpilogue& end, int64_t col) {
  auto at = [&](const void* p) { return static_cast<const float*>(p) + col; };
  const float none = __builtin_inff();
  return {at(end.norm->center), at(end.norm->factor), at(end.norm->shift),
          end.act == Act::kNone ? -none : 0.0f, end.act == Act::kRelu6 ? 6.0f : none};
}

bool narrow_end(const FloatEpilogue& end, int64_t row, int64_t rows, int64_t col, NarrowEnd* to) {
  const CoalescedAxes &lines = end.out.rows, &added = end.residual.rows;
  const bool adds = end.residual.data != nullptr;
  if (lines.evenly_spaced(row, row + rows) < rows) return false;
  if (adds && added.evenly_spaced(row, row + rows) < rows) return false;
  const float none = __builtin_inff();
  *to = {static_cast<uint16_t*>(end.out.data) + lines.at(row) + col,
         lines.step(),
         end.act == Act::kNone ? -none : 0.0f,
         end.act == Act::kRelu6 ? 6.0f : none,
         adds ? static_cast<const BF16*>(end.residual.data) + added.at(row) + col : nullptr,
         adds ? added.step() : 0};
  return true;
}

void set_output(GemmOutput* out, const FloatEpilogue* end) {
  if (takes_tiles(end->out)) {
    out->c = end->out.data;
    out->ldc = end->out.rows.step();
    out->relu = end->act == Act::kRelu && end->residual.data == nullptr && !end->by_channels();
    if (out->relu || end->plain()) return;
  }
  out->epilogue = float_epilogue;
  out->epilogue_ctx = end;
  if (kSmallBuild) return;
  out->narrows = narrows_rows(*end) && end->act <= Act::kRelu6;
  out->clamps = finishes_vectors(*end) && end->by_channels() && end->residual.data == nullptr &&
                end->act <= Act::kRelu6 && !end->is_scaled();
}

}  // namespace proa::PROA_ISA
