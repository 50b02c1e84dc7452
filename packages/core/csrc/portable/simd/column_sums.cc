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

/// What is summed: x alone, or the product of two centred columns.
template <class T>
struct Term {
  using C = Compute<T>;
  const Columns& x;
  const Columns* y;
  const C *center, *y_center;

  C shift(const C* from, int64_t j) const { return from == nullptr ? C{0} : from[j]; }
};

/// Neighbouring columns: a vector of sums at a time, down all the rows of the piece.
template <class T>
void sum_across(const Term<T>& s, int64_t begin, int64_t end, Compute<T>* sums) {
  constexpr int kWidth = kLanesOf<T>;
  const Columns& x = s.x;
  for (int64_t j = 0; j < x.n; j += kWidth) {
    const int64_t some = x.n - j < kWidth ? x.n - j : kWidth;
    const T* base = static_cast<const T*>(x.data) + j;
    Vec<T> low = {}, high = {};  // two chains hide the latency of the addition
    if (s.y == nullptr) {
      int64_t r = begin;
      const int64_t step = x.rows.step();
      if (x.rows.uniform() && some == kWidth) {
        for (; r + 2 <= end; r += 2) {
          low += load(base + r * step);
          high += load(base + (r + 1) * step);
        }
      }
      for (; r < end; ++r) low += load_n(base + x.rows.at(r), some);
    } else {
      const T* beside = static_cast<const T*>(s.y->data) + j;
      const Vec<T> a = s.center == nullptr ? Vec<T>{} : load_n(s.center + j, some);
      const Vec<T> b = s.y_center == nullptr ? Vec<T>{} : load_n(s.y_center + j, some);
      for (int64_t r = begin; r < end; ++r)
        low +=
            (load_n(base + x.rows.at(r), some) - a) * (load_n(beside + s.y->rows.at(r), some) - b);
    }
    store_n(sums + j, low + high, some);
  }
}

/// Rows [begin, end) that `lines` puts at equal distances from `begin` on.
int64_t run_of(const Lines& lines, int64_t begin, int64_t end) {
  if (lines.rank <= 1) return end - begin;
  const int64_t run = lines.shape[lines.rank - 1], left = run - begin % run;
  return left < end - begin ? left : end - begin;
}

/// Columns far apart: each is summed along runs of rows at equal distances.
template <class T>
void sum_down(const Term<T>& s, int64_t begin, int64_t end, Compute<T>* sums) {
  using C = Compute<T>;
  constexpr int kWidth = kLanesOf<T>;
  const Columns& x = s.x;
  const Columns& y = s.y == nullptr ? x : *s.y;
  const int64_t step = x.rows.step(), y_step = y.rows.step();
  for (int64_t j = 0; j < x.n; ++j) {
    Vec<T> wide = {};
    C rest = 0;
    const C a = s.shift(s.center, j), b = s.shift(s.y_center, j);
    for (int64_t r = begin; r < end;) {
      const int64_t one = run_of(x.rows, r, end), two = run_of(y.rows, r, end);
      const int64_t count = one < two ? one : two;
      const T* p = static_cast<const T*>(x.data) + j * x.stride + x.rows.at(r);
      const T* q = static_cast<const T*>(y.data) + j * y.stride + y.rows.at(r);
      int64_t i = 0;
      if (step == 1 && y_step == 1)
        for (; i + kWidth <= count; i += kWidth)
          wide += s.y == nullptr ? load(p + i) : (load(p + i) - a) * (load(q + i) - b);
      for (; i < count; ++i) {
        const C v = static_cast<C>(p[i * step]);
        rest += s.y == nullptr ? v : (v - a) * (static_cast<C>(q[i * y_step]) - b);
      }
      r += count;
    }
    sums[j] = sum_lanes(wide) + rest;
  }
}

template <class T, class Out>
void sum_columns(const Call& call, const Term<T>& s, void* scratch, Out* out, int64_t out_stride) {
  using C = Compute<T>;
  const Columns& x = s.x;
  C* const partial = static_cast<C*>(scratch);
  const int64_t rows = piece_rows(x), pieces = piece_count(x);
  const bool across = x.stride == 1 && (s.y == nullptr || s.y->stride == 1);
  parallel_for(call, pieces, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t begin = i * rows, end = begin + rows < x.count ? begin + rows : x.count;
      if (across)
        sum_across<T>(s, begin, end, partial + i * x.n);
      else
        sum_down<T>(s, begin, end, partial + i * x.n);
    }
  });
  for (int64_t j = 0; j < x.n; ++j) {
    C sum = 0;
    for (int64_t i = 0; i < pieces; ++i) sum += partial[i * x.n + j];
    out[j * out_stride] = static_cast<Out>(sum);
  }
}

template <class T>
void sum_plain(const Call& call, const Columns& x, void* scratch, void* out, int64_t stride) {
  const Term<T> term = {x, nullptr, nullptr, nullptr};
  sum_columns(call, term, scratch, static_cast<T*>(out), stride);
}

template <class T>
void sum_products(const Call& call, const Columns& x, const void* center, const Columns* y,
                  const void* y_center, void* scratch, void* out) {
  using C = Compute<T>;
  const Term<T> term = {x, y, static_cast<const C*>(center), static_cast<const C*>(y_center)};
  sum_columns(call, term, scratch, static_cast<C*>(out), 1);
}

}  // namespace

size_t column_sums_scratch(const Columns& x) {
  return static_cast<size_t>(piece_count(x) * x.n) * (size_of(x.dtype) == 8 ? 8 : 4);
}

void column_sums(const Call& call, const Columns& x, void* scratch, void* out, int64_t out_stride) {
  switch (x.dtype) {
    case DType::kF16:
      if constexpr (computes(DType::kF16)) return sum_plain<F16>(call, x, scratch, out, out_stride);
      return;
    case DType::kBF16:
      if constexpr (computes(DType::kBF16))
        return sum_plain<BF16>(call, x, scratch, out, out_stride);
      return;
    case DType::kF64:
      if constexpr (computes(DType::kF64))
        return sum_plain<double>(call, x, scratch, out, out_stride);
      return;
    default:
      return sum_plain<float>(call, x, scratch, out, out_stride);
  }
}

void column_products(const Call& call, const Columns& x, const void* center, const Columns* y,
                     const void* y_center, void* scratch, void* out) {
  switch (x.dtype) {
    case DType::kF16:
      if constexpr (computes(DType::kF16))
        return sum_products<F16>(call, x, center, y, y_center, scratch, out);
      return;
    case DType::kBF16:
      if constexpr (computes(DType::kBF16))
        return sum_products<BF16>(call, x, center, y, y_center, scratch, out);
      return;
    case DType::kF64:
      if constexpr (computes(DType::kF64))
        return sum_products<double>(call, x, center, y, y_center, scratch, out);
      return;
    default:
      return sum_products<float>(call, x, center, y, y_center, scratch, out);
  }
}

Columns channels_of(const View& v) {
  Columns c = {v.data, v.dtype, {}, 1, v.shape[1], v.shape[1] == 1 ? 1 : v.stride[1]};
  for (int d = 0; d < v.rank; ++d) {
    if (d == 1) continue;
    c.rows.add(v.shape[d], v.stride[d]);
    c.count *= v.shape[d];
  }
  return c;
}

}  // namespace proa::PROA_ISA
