#include "proa/simd/column_sums.h"

#include "proa/base/dispatch.h"
#include "proa/simd/vec.h"

namespace proa::PROA_ISA {
namespace {

constexpr int64_t kPieces = 32;

int64_t piece_rows(const Columns& x) {
  const int64_t worth = 1 + 16384 / (x.n + 1), even = (x.count + kPieces - 1) / kPieces;
  return even > worth ? even : worth;
}
int64_t piece_count(const Columns& x) { return (x.count + piece_rows(x) - 1) / piece_rows(x); }

/// Neighbouring columns: a few vectors of sums at a time, down all the rows of the piece.
template <class T>
void sum_across(const Columns& x, int64_t begin, int64_t end, Compute<T>* sums) {
  constexpr int kWidth = kLanesOf<T>;
  for (int64_t j = 0; j < x.n; j += kWidth) {
    const int64_t some = x.n - j < kWidth ? x.n - j : kWidth;
    const T* base = static_cast<const T*>(x.data) + j;
    Vec<T> low = {}, high = {};  // two chains hide the latency of the addition
    int64_t r = begin;
    const int64_t step = x.rows.step();
    if (x.rows.uniform() && some == kWidth) {
      for (; r + 2 <= end; r += 2) {
        low += load(base + r * step);
        high += load(base + (r + 1) * step);
      }
    }
    for (; r < end; ++r) low += load_n(base + x.rows.at(r), some);
    store_n(sums + j, low + high, some);
  }
}

/// Rows that are neighbours: each column is summed along them.
template <class T>
void sum_down(const Columns& x, int64_t begin, int64_t end, Compute<T>* sums) {
  constexpr int kWidth = kLanesOf<T>;
  const int64_t run = x.rows.rank == 0 ? 1 : x.rows.shape[x.rows.rank - 1];
  const int64_t step = x.rows.step();
  for (int64_t j = 0; j < x.n; ++j) {
    Vec<T> wide = {};
    Compute<T> rest = 0;
    for (int64_t r = begin; r < end;) {
      const int64_t left = x.rows.rank <= 1 ? end - r : run - r % run;
      const int64_t count = left < end - r ? left : end - r;
      const T* p = static_cast<const T*>(x.data) + j * x.stride + x.rows.at(r);
      int64_t i = 0;
      if (step == 1)
        for (; i + kWidth <= count; i += kWidth) wide += load(p + i);
      for (; i < count; ++i) rest += static_cast<Compute<T>>(p[i * step]);
      r += count;
    }
    sums[j] = sum_lanes(wide) + rest;
  }
}

template <class T>
void sum_columns(const Call& call, const Columns& x, void* scratch, T* out, int64_t out_stride) {
  using C = Compute<T>;
  C* const partial = static_cast<C*>(scratch);
  const int64_t rows = piece_rows(x), pieces = piece_count(x);
  parallel_for(call, pieces, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t begin = i * rows, end = begin + rows < x.count ? begin + rows : x.count;
      if (x.stride == 1)
        sum_across<T>(x, begin, end, partial + i * x.n);
      else
        sum_down<T>(x, begin, end, partial + i * x.n);
    }
  });
  for (int64_t j = 0; j < x.n; ++j) {
    C sum = 0;
    for (int64_t i = 0; i < pieces; ++i) sum += partial[i * x.n + j];
    out[j * out_stride] = static_cast<T>(sum);
  }
}

}  // namespace

size_t column_sums_scratch(const Columns& x) {
  return static_cast<size_t>(piece_count(x) * x.n) * (size_of(x.dtype) == 8 ? 8 : 4);
}

void column_sums(const Call& call, const Columns& x, void* scratch, void* out, int64_t out_stride) {
  switch (x.dtype) {
    case DType::kF16:
      return sum_columns(call, x, scratch, static_cast<F16*>(out), out_stride);
    case DType::kBF16:
      return sum_columns(call, x, scratch, static_cast<BF16*>(out), out_stride);
    case DType::kF64:
      return sum_columns(call, x, scratch, static_cast<double*>(out), out_stride);
    default:
      return sum_columns(call, x, scratch, static_cast<float*>(out), out_stride);
  }
}

}  // namespace proa::PROA_ISA
