// The sums of a tile of rows and vectors of columns stay in registers over all of k. A remainder of
// rows is computed as a full tile that overlaps the previous one, which repeats the same sums.
#include "proa/simd/gemm/unpacked.h"

#include "proa/simd/tuning.h"

namespace proa::PROA_ISA {
namespace {

constexpr int kRows = kTiles.unpacked_rows, kHighRows = kTiles.unpacked_high_rows;

template <class T>
const T* past(const T* p, int64_t bytes) {
  return reinterpret_cast<const T*>(reinterpret_cast<const uint8_t*>(p) + bytes);
}

/// Where one tile is.
template <class T>
struct Corner {
  const T *a, *b;
  int64_t b_step;
  const T* init;
  T* c;
  int64_t last;  // columns of the last vector
  PrefetchStream *next_a, *next_b;
};

template <class T, int kHigh, int kVecs>
void run_tile(const UnpackedGemm& s, const Corner<T>& at) {
  using V = Vec<T>;
  constexpr int kWidth = kLanesOf<T>, kPointers = (kHigh + 2) / 3, kEnd = (kVecs - 1) * kWidth;
  auto get_last = [&](const T* p) { return kHasMaskedLoads ? load_n(p, at.last) : load(p); };
  V acc[kHigh][kVecs];
#pragma GCC unroll 4
  for (int j = 0; j < kVecs; ++j) {
    V first = {};
    if (at.init != nullptr)
      first = j < kVecs - 1 ? load(at.init + j * kWidth) : get_last(at.init + kEnd);
#pragma GCC unroll 16
    for (int i = 0; i < kHigh; ++i) acc[i][j] = first;
  }
  // Three rows share a pointer: their distances are addressing modes.
  const int64_t size = sizeof(T), row = s.a.line * size, step = s.a.step * size;
  const T *a[kPointers], *b = at.b;
#pragma GCC unroll 8
  for (int i = 0; i < kPointers; ++i) a[i] = past(at.a, 3 * i * row);
  constexpr bool kFetches = kHigh > kRows;  // low ones have no time for it
  PrefetchStream next_a = *at.next_a, next_b = *at.next_b;
  for (int64_t k = s.k; k > 0; --k, b += at.b_step) {
    if (kFetches) {
      next_a.step();
      next_b.step();
    }
    V v[kVecs];
#pragma GCC unroll 4
    for (int j = 0; j < kVecs - 1; ++j) v[j] = load(b + j * kWidth);
    v[kVecs - 1] = get_last(b + kEnd);
#pragma GCC unroll 16
    for (int i = 0; i < kHigh; ++i) {
      const T unit = *past(a[i / 3], i % 3 * row);
#pragma GCC unroll 4
      for (int j = 0; j < kVecs; ++j) acc[i][j] = acc[i][j] + unit * v[j];
    }
#pragma GCC unroll 8
    for (int i = 0; i < kPointers; ++i) {
      a[i] = past(a[i], step);
      keep_in_register(a[i]);
    }
  }
  if (kFetches) {
    *at.next_a = next_a;
    *at.next_b = next_b;
  }
  T* c = at.c;
#pragma GCC unroll 16
  for (int i = 0; i < kHigh; ++i, c += s.ldc) {
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j) {
      V y = acc[i][j];
      if (s.relu) y = V{} > y ? V{} : y;  // NaN stays
      if (j < kVecs - 1 || at.last == kWidth)
        store(c + j * kWidth, y);
      else
        store_n(c + j * kWidth, y, at.last);
    }
  }
}

/// How many tiles of kHighRows to use for m rows before those of kRows: what costs are low tiles,
/// and rows that are done twice.
int64_t high_tiles(int64_t m) {
  const int64_t widest = m / kHighRows;
  int64_t best = 0, lowest_cost = m + 1;
  for (int64_t high = widest; high >= 0 && high > widest - kRows; --high) {
    const int64_t left = m - high * kHighRows, low = (left + kRows - 1) / kRows;
    const int64_t cost = low + low * kRows - left;
    if (cost < lowest_cost) {
      lowest_cost = cost;
      best = high;
    }
  }
  return best;
}

/// All rows, which are at least kHigh, by tiles of kHigh, or of kHighRows first.
template <class T, int kHigh, int kVecs>
PROA_INLINE void run_rows(const UnpackedGemm& s, Corner<T> at) {
  const T* const a = at.a;
  T* const c = at.c;
  auto set_row = [&](int64_t row) {
    at.a = a + row * s.a.line;
    at.c = c + row * s.ldc;
  };
  int64_t row = 0;
  if constexpr (kHigh == kRows && kVecs == 2 && kHighRows > kRows)
    for (int64_t tiles = high_tiles(s.m); tiles > 0; --tiles, row += kHighRows) {
      set_row(row);
      run_tile<T, kHighRows, kVecs>(s, at);
    }
  for (; row < s.m; row += kHigh) {
    set_row(row + kHigh <= s.m ? row : s.m - kHigh);
    run_tile<T, kHigh, kVecs>(s, at);
  }
}

/// Vectors of columns that are done together with so many rows.
constexpr int wide(int64_t rows) { return rows < 4 ? 4 : 2; }

template <class T, int kHigh>
PROA_INLINE void run_panel(const UnpackedGemm& s, const Corner<T>& at, bool full) {
  full ? run_rows<T, kHigh, wide(kHigh)>(s, at) : run_rows<T, kHigh, 1>(s, at);
}

template <class T>
void run(const UnpackedGemm& s, const PackOperand* transposed) {
  constexpr int64_t kWidth = kLanesOf<T>;
  alignas(64) T panel[kUnpackedTransposedSteps * wide(1) * kWidth];
  PrefetchStream next_a = s.a.next, next_b = s.b.next;
  for (int64_t col = 0; col < s.n;) {
    const int64_t left = s.n - col, widest = wide(s.m) * kWidth;
    const bool full = left > widest - kWidth;  // the tile's last vector may be a part
    const int64_t width = full ? widest : kWidth, cols = left < width ? left : width;
    Corner<T> at = {static_cast<const T*>(s.a.data),
                    static_cast<const T*>(s.b.data) + col,
                    s.b.step,
                    s.init == nullptr ? nullptr : static_cast<const T*>(s.init) + col,
                    static_cast<T*>(s.c) + col,
                    (cols - 1) % kWidth + 1,
                    &next_a,
                    &next_b};
    if (transposed != nullptr) {
      at.b_step = width;
      pack_panel(*transposed, sizeof(T), col, static_cast<int>(cols), static_cast<int>(width), 0,
                 s.k, panel);
      at.b = panel;
    }
    if (kRows == 8 && s.m >= 8)
      run_panel<T, kRows>(s, at, full);
    else if (s.m >= 4)
      run_panel<T, 4>(s, at, full);
    else if (s.m >= 2)
      run_panel<T, 2>(s, at, full);
    else
      run_panel<T, 1>(s, at, full);
    col += cols;
  }
}

}  // namespace

bool fits_unpacked(const Product& p, int64_t work) {
  if (p.b.packed != nullptr || p.m * p.n * p.k > work) return false;
  if (p.dtype != DType::kF32 && p.dtype != DType::kF64) return false;
  const FloatEpilogue& end = p.end;
  if (end.residual.data != nullptr || end.by_channels() || !takes_tiles(end.out)) return false;
  if (end.act != Act::kNone && end.act != Act::kRelu) return false;
  if (p.bias != nullptr && p.bias->given() &&
      (p.bias->dtype != p.dtype || p.bias->stride[p.bias->rank - 1] != 1))
    return false;
  if (!kHasMaskedLoads && p.n % (kVecBytes / static_cast<int64_t>(size_of(p.dtype))) != 0)
    return false;
  const Micro& micro = micro_kernel(p.dtype);
  if (p.k > micro.k_block || !p.a.rows.uniform() || !p.a.steps.uniform() || !p.b.steps.uniform())
    return false;
  if (p.b.stride != 1) return p.b.steps.step() == 1 && p.k <= kUnpackedTransposedSteps;
  return p.k * p.b.steps.step() * micro.size <= caches().unpacked_b;
}

UnpackedGemm unpacked_gemm(const Product& p) {
  UnpackedGemm s = {p.m,
                    p.n,
                    p.k,
                    {p.a.data, p.a.rows.step(), p.a.steps.step(), {p.a.data, 0}},
                    {p.b.data, p.b.stride, p.b.steps.step(), {p.a.data, 0}},
                    p.end.out.data,
                    p.end.out.rows.step(),
                    nullptr,
                    p.end.act == Act::kRelu};
  if (p.bias != nullptr && p.bias->given()) s.init = p.bias->data;
  return s;
}

void prefetch_next(DType dtype, int64_t a, int64_t b, UnpackedGemm* s) {
  if (kHighRows == kRows) return;
  const auto size = static_cast<int64_t>(size_of(dtype));
  const int64_t panels = (s->n + 2 * kVecBytes / size - 1) / (2 * kVecBytes / size);
  const int64_t steps = panels * high_tiles(s->m) * s->k;
  if (steps == 0) return;
  s->a.next = {past(static_cast<const uint8_t*>(s->a.data), a), (a + steps - 1) / steps};
  s->b.next = {past(static_cast<const uint8_t*>(s->b.data), b), (b + steps - 1) / steps};
}

void multiply_unpacked(DType dtype, const UnpackedGemm& s) {
  MatrixOperand lines;
  PackOperand source;
  const PackOperand* transposed = nullptr;
  if (s.b.line != 1) {
    CoalescedAxes columns, steps;
    columns.add(s.n, s.b.line);
    steps.add(s.k, s.b.step);
    source = matrix_operand(&lines, s.b.data, dtype, columns, steps);
    transposed = &source;
  }
  is_double(dtype) ? run<double>(s, transposed) : run<float>(s, transposed);
}

}  // namespace proa::PROA_ISA
