#include "proa/simd/column_sums.h"

#include "proa/base/dispatch.h"
#include "proa/simd/tuning.h"
#include "proa/simd/vec.h"

namespace proa::PROA_ISA {
namespace {

int64_t chunk_rows(const Columns& x) {
  const int64_t row = x.n * static_cast<int64_t>(size_of(x.dtype));
  const int64_t fit = 1 + kColumnChunkBytes / (row + 1),
                even = (x.count + kMaxColumnChunks - 1) / kMaxColumnChunks;
  return even > fit ? even : fit;
}
int64_t chunk_count(const Columns& x) { return (x.count + chunk_rows(x) - 1) / chunk_rows(x); }

/// What is summed of the elements x (and y) of a column.
enum class Term {
  kValue,     // x
  kSquare,    // (x - center)^2
  kProducts,  // y, and (x - center) * y
  kGated      // the same of the elements of y that the gate keeps
};
constexpr bool has_two(Term t) { return t == Term::kProducts || t == Term::kGated; }

/// Which part of the next column is prefetched while one is read. Two passes prefetch half each.
enum class Prefetch { kAll, kFirstHalf, kSecondHalf };

/// One chunk: rows [begin, end) of x, and of y where the term has one.
template <class T>
struct RowChunk {
  const Columns& x;
  const Columns& y;
  int64_t begin, end;
  const Compute<T>* center;
  Compute<T>*sums, *products;
  Gate gate = {};
};

/// The longest run in both arrays.
template <class T>
int64_t common_run(const RowChunk<T>& s, int64_t row) {
  const int64_t one = s.x.rows.evenly_spaced(row, s.end), two = s.y.rows.evenly_spaced(row, s.end);
  return one < two ? one : two;
}

template <Term kTerm, class V>
PROA_INLINE void add_term(V x, V y, V center, V* sum, V* product) {
  if constexpr (kTerm == Term::kValue) *sum += x;
  if constexpr (kTerm == Term::kSquare) *sum += (x - center) * (x - center);
  if constexpr (has_two(kTerm)) {
    *sum += y;
    *product += (x - center) * y;
  }
}

/// kVecs vectors of contiguous columns from j on, `some` elements of the last; down all rows.
template <Term kTerm, int kVecs, class T>
PROA_INLINE void sum_vectors(const RowChunk<T>& s, int64_t j, int64_t some) {
  constexpr int kWidth = kLanesOf<T>;
  constexpr bool kCentred = kTerm != Term::kValue, kTwo = has_two(kTerm);
  Vec<T> sum[kVecs] = {}, product[kVecs] = {}, center[kVecs] = {};
  if constexpr (kCentred)
    for (int v = 0; v < kVecs; ++v)
      center[v] = load_n(s.center + j + v * kWidth, kVecs == 1 ? some : kWidth);
  Vec<T> gate_a[kVecs] = {}, gate_k[kVecs] = {};
  if constexpr (kTerm == Term::kGated)
    for (int v = 0; v < kVecs; ++v) {
      gate_a[v] = load_n(s.gate.a + j + v * kWidth, kVecs == 1 ? some : kWidth);
      gate_k[v] = load_n(s.gate.k + j + v * kWidth, kVecs == 1 ? some : kWidth);
    }
  auto element = [&](const T* p) { return kVecs == 1 ? load_n(p, some) : load(p); };
  for (int64_t r = s.begin; r < s.end;) {
    const int64_t count = common_run(s, r), step = s.x.rows.step(), y_step = s.y.rows.step();
    const T* x = static_cast<const T*>(s.x.data) + s.x.rows.at(r) + j;
    const T* y = static_cast<const T*>(s.y.data) + s.y.rows.at(r) + j;
    for (int64_t i = 0; i < count; ++i, x += step, y += y_step)
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) {
        const Vec<T> here = element(x + v * kWidth);
        Vec<T> other = kTwo ? element(y + v * kWidth) : Vec<T>{};
        if constexpr (kTerm == Term::kGated)
          other = passed(here, other, center[v], gate_a[v], gate_k[v]);
        add_term<kTerm>(here, other, center[v], &sum[v], &product[v]);
      }
    r += count;
  }
  for (int v = 0; v < kVecs; ++v) {
    store_n(s.sums + j + v * kWidth, sum[v], kVecs == 1 ? some : kWidth);
    if constexpr (kTwo)
      store_n(s.products + j + v * kWidth, product[v], kVecs == 1 ? some : kWidth);
  }
}

template <Term kTerm, class T>
void sum_across(const RowChunk<T>& s) {
  constexpr int kWidth = kLanesOf<T>;
  int64_t j = 0;
  for (; j + 4 * kWidth <= s.x.n; j += 4 * kWidth) sum_vectors<kTerm, 4>(s, j, kWidth);
  for (; j < s.x.n; j += kWidth)
    sum_vectors<kTerm, 1>(s, j, s.x.n - j < kWidth ? s.x.n - j : kWidth);
}

/// Column j of strided columns, summed along runs of evenly spaced rows.
template <Term kTerm, Prefetch kPrefetch, class T>
void sum_column(const RowChunk<T>& s, int64_t j) {
  using C = Compute<T>;
  constexpr int kWidth = kLanesOf<T>;
  const int64_t step = s.x.rows.step(), y_step = s.y.rows.step();
  Vec<T> sum[2] = {}, product[2] = {};  // two chains hide the latency of the addition
  C rest = 0, rest_product = 0;
  const C center = kTerm == Term::kValue ? C{0} : s.center[j];
  for (int64_t r = s.begin; r < s.end;) {
    const int64_t count = common_run(s, r);
    const T* x = static_cast<const T*>(s.x.data) + j * s.x.stride + s.x.rows.at(r);
    const T* y = static_cast<const T*>(s.y.data) + j * s.y.stride + s.y.rows.at(r);
    // The next column begins elsewhere, where the machine does not expect it.
    const T* const next = x + s.x.stride + (kPrefetch == Prefetch::kSecondHalf ? count / 2 : 0);
    int64_t i = 0;
    if (step == 1 && y_step == 1)
      for (; i + 2 * kWidth <= count; i += 2 * kWidth) {
        if constexpr (kPrefetch != Prefetch::kAll) __builtin_prefetch(next + i / 2, 0, 2);
        for (int v = 0; v < 2 && kPrefetch == Prefetch::kAll; ++v)
          __builtin_prefetch(next + i + v * kWidth);
        for (int v = 0; v < 2 && kTerm == Term::kProducts; ++v)
          __builtin_prefetch(y + s.y.stride + i + v * kWidth);
        for (int v = 0; v < 2; ++v)
          add_term<kTerm>(load(x + i + v * kWidth), load(y + i + v * kWidth), center - Vec<T>{},
                          &sum[v], &product[v]);
      }
    for (; i < count; ++i)
      add_term<kTerm>(static_cast<C>(x[i * step]), static_cast<C>(y[i * y_step]), center, &rest,
                      &rest_product);
    r += count;
  }
  s.sums[j] = sum_lanes(sum[0] + sum[1]) + rest;
  if constexpr (kTerm == Term::kProducts)
    s.products[j] = sum_lanes(product[0] + product[1]) + rest_product;
}

template <Term kTerm, class T>
void sum_chunk(const RowChunk<T>& s) {
  if (s.x.stride == 1 && (kTerm != Term::kProducts || s.y.stride == 1))
    sum_across<kTerm>(s);
  else
    for (int64_t j = 0; j < s.x.n; ++j) sum_column<kTerm, Prefetch::kAll>(s, j);
}

/// Means of a chunk's columns, and the sums of squared distances from them. A strided
/// column is read again at once, while it is in the first-level cache.
template <class T>
void chunk_moments(const Columns& x, int64_t begin, int64_t end, Compute<T>* mean,
                   Compute<T>* square) {
  using C = Compute<T>;
  const RowChunk<T> values = {x, x, begin, end, nullptr, mean, nullptr};
  const RowChunk<T> squares = {x, x, begin, end, mean, square, nullptr};
  const bool apart = x.stride != 1;
  if (!apart) sum_across<Term::kValue>(values);
  for (int64_t j = 0; j < x.n; ++j) {
    if (apart) sum_column<Term::kValue, Prefetch::kFirstHalf>(values, j);
    mean[j] /= static_cast<C>(end - begin);
    if (apart) sum_column<Term::kSquare, Prefetch::kSecondHalf>(squares, j);
  }
  if (!apart) sum_across<Term::kSquare>(squares);
}

/// Calls body(chunk, begin, end) for all chunks, on the call's threads.
template <class F>
void for_each_chunk(const Call& call, const Columns& x, F body) {
  const int64_t rows = chunk_rows(x);
  parallel_for(call, chunk_count(x), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      body(i, i * rows, (i + 1) * rows < x.count ? (i + 1) * rows : x.count);
  });
}

template <class C, class Out>
void merge_sums(const C* partial, int64_t chunks, int64_t n, Out* out, int64_t out_stride) {
  for (int64_t j = 0; j < n; ++j) {
    C sum = 0;
    for (int64_t i = 0; i < chunks; ++i) sum += partial[i * n + j];
    out[j * out_stride] = static_cast<Out>(sum);
  }
}

template <class T>
void sum_plain(const Call& call, const Columns& x, void* scratch, void* out, int64_t stride) {
  using C = Compute<T>;
  C* const partial = static_cast<C*>(scratch);
  for_each_chunk(call, x, [&](int64_t i, int64_t begin, int64_t end) {
    sum_chunk<Term::kValue, T>({x, x, begin, end, nullptr, partial + i * x.n, nullptr});
  });
  merge_sums(partial, chunk_count(x), x.n, static_cast<T*>(out), stride);
}

template <class T>
void moments(const Call& call, const Columns& x, void* scratch, Compute<T>* mean,
             Compute<T>* variance) {
  using C = Compute<T>;
  const int64_t chunks = chunk_count(x), rows = chunk_rows(x), n = x.n;
  C* const means = static_cast<C*>(scratch);
  C* const squares = means + chunks * n;
  for_each_chunk(call, x, [&](int64_t i, int64_t begin, int64_t end) {
    chunk_moments<T>(x, begin, end, means + i * n, squares + i * n);
  });
  for (int64_t j = 0; j < n; ++j) {
    C sum = 0, square = 0;
    for (int64_t i = 0; i < chunks; ++i) {
      const int64_t left = x.count - i * rows;
      sum += means[i * n + j] * static_cast<C>(left < rows ? left : rows);
    }
    mean[j] = sum / static_cast<C>(x.count);
    for (int64_t i = 0; i < chunks; ++i) {
      const int64_t left = x.count - i * rows;
      const C shift = means[i * n + j] - mean[j];
      square += squares[i * n + j] + shift * shift * static_cast<C>(left < rows ? left : rows);
    }
    variance[j] = square / static_cast<C>(x.count);
  }
}

template <class T>
void products_of(const Call& call, const Columns& x, const Compute<T>* center, const Columns& y,
                 void* scratch, Compute<T>* sums, Compute<T>* products) {
  using C = Compute<T>;
  const int64_t chunks = chunk_count(x), n = x.n;
  C* const one = static_cast<C*>(scratch);
  C* const two = one + chunks * n;
  for_each_chunk(call, x, [&](int64_t i, int64_t begin, int64_t end) {
    sum_chunk<Term::kProducts, T>({x, y, begin, end, center, one + i * n, two + i * n});
  });
  merge_sums(one, chunks, n, sums, 1);
  merge_sums(two, chunks, n, products, 1);
}

}  // namespace

size_t column_sums_scratch(const Columns& x) {
  return static_cast<size_t>(2 * chunk_count(x) * x.n) * (size_of(x.dtype) == 8 ? 8 : 4);
}

Status column_sums(const Call& call, const Columns& x, void* scratch, void* out,
                   int64_t out_stride) {
  PROA_FLOATING(x.dtype, T, sum_plain<T>(call, x, scratch, out, out_stride));
  return Status::kOk;
}

Status column_moments(const Call& call, const Columns& x, void* scratch, void* mean,
                      void* variance) {
  PROA_FLOATING(x.dtype, T,
                moments<T>(call, x, scratch, static_cast<Compute<T>*>(mean),
                           static_cast<Compute<T>*>(variance)));
  return Status::kOk;
}

Status column_products(const Call& call, const Columns& x, const void* center, const Columns& y,
                       void* scratch, void* sums, void* products) {
  PROA_FLOATING(x.dtype, T,
                products_of<T>(call, x, static_cast<const Compute<T>*>(center), y, scratch,
                               static_cast<Compute<T>*>(sums), static_cast<Compute<T>*>(products)));
  return Status::kOk;
}

void gated_column_products(const Call& call, const Columns& x, const Gate& gate, const Columns& y,
                           void* scratch, float* sums, float* products) {
  const int64_t chunks = chunk_count(x), n = x.n;
  float* const one = static_cast<float*>(scratch);
  float* const two = one + chunks * n;
  for_each_chunk(call, x, [&](int64_t i, int64_t begin, int64_t end) {
    sum_across<Term::kGated, float>(
        {x, y, begin, end, gate.center, one + i * n, two + i * n, gate});
  });
  merge_sums(one, chunks, n, sums, 1);
  merge_sums(two, chunks, n, products, 1);
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
