// Sums, products, extrema and tests over axes. Floats are summed in double: 4 vectors in float,
// whose sum is then widened, so that speed is that of memory and the error that of one addition.
#include "proa/gen/attrs/reduce.h"
#include "proa/base/expect.h"
#include "proa/kernels/elementwise/functions.h"
#include "proa/kernels/movement/copy.h"
#include "proa/kernels/reduce/reducer.h"

namespace proa::PROA_ISA {

namespace {

// An operation: identity, the accumulator of one element, and how two accumulators combine.
template <class T, class A>
struct Add {
  using In = T;
  using Acc = A;
  static constexpr bool kWide = sizeof(T) < sizeof(A);
  static A identity() { return A{}; }
  static PROA_INLINE A load(T x) { return A(x); }
  static PROA_INLINE A combine(A a, A b) { return a + b; }
};
template <class T, class A>
struct Multiply : Add<T, A> {
  static A identity() {
    if constexpr (sizeof(A) == 16) {
      return A{1, 0};
    } else {
      return A(1);
    }
  }
  static PROA_INLINE A combine(A a, A b) { return a * b; }
};
template <class T>
struct AddSquares : Add<T, double> {
  static PROA_INLINE double load(T x) { return static_cast<double>(x) * static_cast<double>(x); }
};
template <class T>
struct Maximum : Add<T, T> {
  static T identity() {
    if constexpr (std::is_integral_v<T>) {
      return INT64_MIN;
    } else {
      return -INFINITY;
    }
  }
  static PROA_INLINE T combine(T a, T b) { return ((b > a) | (b != b)) ? b : a; }
};
template <class T>
struct Minimum : Add<T, T> {
  static T identity() {
    if constexpr (std::is_integral_v<T>) {
      return INT64_MAX;
    } else {
      return INFINITY;
    }
  }
  static PROA_INLINE T combine(T a, T b) { return ((b < a) | (b != b)) ? b : a; }
};
struct Every : Add<uint8_t, uint8_t> {
  static uint8_t identity() { return 1; }
  static PROA_INLINE uint8_t load(uint8_t x) { return x != 0; }
  static PROA_INLINE uint8_t combine(uint8_t a, uint8_t b) { return a & b; }
};
struct Some : Add<uint8_t, uint8_t> {
  static PROA_INLINE uint8_t load(uint8_t x) { return x != 0; }
  static PROA_INLINE uint8_t combine(uint8_t a, uint8_t b) { return a | b; }
};
struct CountTrue : Add<uint8_t, int64_t> {
  static PROA_INLINE int64_t load(uint8_t x) { return x != 0; }
};

template <class Op>
void init(void* acc, int64_t n) {
  for (int64_t i = 0; i < n; ++i) static_cast<typename Op::Acc*>(acc)[i] = Op::identity();
}
template <class Op>
void merge(void* acc, const void* other, int64_t n) {
  using A = typename Op::Acc;
  A* a = static_cast<A*>(acc);
  const A* b = static_cast<const A*>(other);
  for (int64_t i = 0; i < n; ++i) a[i] = Op::combine(a[i], b[i]);
}
template <class Op>
void row(void* acc, const void* p, int64_t n) {
  using A = typename Op::Acc;
  constexpr int kPartials = sizeof(A) == 16 ? 2 : 16;
  const typename Op::In* x = static_cast<const typename Op::In*>(p);
  A part[kPartials];
  init<Op>(part, kPartials);
  int64_t i = 0;
  for (; i + kPartials <= n; i += kPartials) {
    for (int k = 0; k < kPartials; ++k) part[k] = Op::combine(part[k], Op::load(x[i + k]));
  }
  for (; i < n; ++i) part[0] = Op::combine(part[0], Op::load(x[i]));
  for (int half = kPartials / 2; half > 0; half /= 2) {
    for (int k = 0; k < half; ++k) part[k] = Op::combine(part[k], part[k + half]);
  }
  merge<Op>(acc, part, 1);
}
template <class Op>
void columns(void* acc, const void* p, int64_t stride, int64_t rows, int64_t n) {
  using A = typename Op::Acc;
  A* a = static_cast<A*>(acc);
  for (int64_t r = 0; r < rows; ++r) {
    const typename Op::In* x = static_cast<const typename Op::In*>(p) + r * stride;
    for (int64_t i = 0; i < n; ++i) a[i] = Op::combine(a[i], Op::load(x[i]));
  }
}

// -- float, where bandwidth counts
// -----------------------------------------------------------------
template <bool kSquare>
void row_sum_f32(void* acc, const void* p, int64_t n) {
  const float* x = static_cast<const float*>(p);
  auto term = [](VF v) { return kSquare ? v * v : v; };
  VD wide[4] = {};
  auto widen = [&](VF s, int at) {
    typedef float Half __attribute__((vector_size(kVecBytes / 2)));
    Half halves[2];
    __builtin_memcpy(halves, &s, sizeof s);
    wide[at] += __builtin_convertvector(halves[0], VD);
    wide[at + 1] += __builtin_convertvector(halves[1], VD);
  };
  int64_t i = 0;
  for (; i + 8 * kLanes <= n; i += 8 * kLanes) {
    const float* q = x + i;
    for (int k = 0; k < 8; ++k) prefetch_ahead(q + k * kLanes);
    const VF a = (term(load(q)) + term(load(q + kLanes))) +
                 (term(load(q + 2 * kLanes)) + term(load(q + 3 * kLanes)));
    const VF b = (term(load(q + 4 * kLanes)) + term(load(q + 5 * kLanes))) +
                 (term(load(q + 6 * kLanes)) + term(load(q + 7 * kLanes)));
    widen(a, 0);
    widen(b, 2);
  }
  for (; i + kLanes <= n; i += kLanes) widen(term(load(x + i)), 0);
  if (i < n) widen(term(load_n(x + i, n - i)), 0);
  *static_cast<double*>(acc) += sum_lanes((wide[0] + wide[1]) + (wide[2] + wide[3]));
}
void columns_sum_f32(void* acc, const void* p, int64_t stride, int64_t rows, int64_t n) {
  double* a = static_cast<double*>(acc);
  const float* x = static_cast<const float*>(p);
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4, x += 4 * stride) {
    for (int64_t i = 0; i < n; ++i) {
      a[i] += static_cast<double>((x[i] + x[i + stride]) + (x[i + 2 * stride] + x[i + 3 * stride]));
    }
  }
  for (; r < rows; ++r, x += stride) {
    for (int64_t i = 0; i < n; ++i) a[i] += static_cast<double>(x[i]);
  }
}
template <bool kMax>
void row_extremum_f32(void* acc, const void* p, int64_t n) {
  const float* x = static_cast<const float*>(p);
  auto better = [](VF a, VF b) { return kMax ? max(a, b) : min(a, b); };
  VF best[4];
  for (VF& b : best) b = splat(kMax ? -INFINITY : INFINITY);
  VI nan = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int k = 0; k < 4; ++k) {
      const VF v = load(x + i + k * kLanes);
      prefetch_ahead(x + i + k * kLanes);
      nan |= v != v;
      best[k] = better(v, best[k]);
    }
  }
  float m = kMax ? max_lanes(max(max(best[0], best[1]), max(best[2], best[3])))
                 : min_lanes(min(min(best[0], best[1]), min(best[2], best[3])));
  using Op = std::conditional_t<kMax, Maximum<float>, Minimum<float>>;
  if (any(nan)) m = NAN;
  for (; i < n; ++i) m = Op::combine(m, x[i]);
  merge<Op>(acc, &m, 1);
}

template <class A, class Out>
void finish_plain(const void* acc, void* out, int64_t n, double) {
  const A* a = static_cast<const A*>(acc);
  for (int64_t i = 0; i < n; ++i) static_cast<Out*>(out)[i] = static_cast<Out>(a[i]);
}
template <class Out>
void finish_mean(const void* acc, void* out, int64_t n, double count) {
  const double* a = static_cast<const double*>(acc);
  for (int64_t i = 0; i < n; ++i) static_cast<Out*>(out)[i] = static_cast<Out>(a[i] / count);
}
void finish_mean_complex(const void* acc, void* out, int64_t n, double count) {
  const C128* a = static_cast<const C128*>(acc);
  for (int64_t i = 0; i < n; ++i) static_cast<C128*>(out)[i] = {a[i].re / count, a[i].im / count};
}

template <class Op, class Out>
constexpr Reducer make(DType in, DType out) {
  return {in,
          out,
          static_cast<int64_t>(sizeof(typename Op::Acc)),
          init<Op>,
          row<Op>,
          columns<Op>,
          merge<Op>,
          finish_plain<typename Op::Acc, Out>};
}
constexpr Reducer with_row(Reducer r, decltype(Reducer::row) row) {
  r.row = row;
  return r;
}
constexpr Reducer with_columns(Reducer r, decltype(Reducer::columns) columns) {
  r.columns = columns;
  return r;
}
constexpr Reducer with_finish(Reducer r, decltype(Reducer::finish) finish) {
  r.finish = finish;
  return r;
}

using D = DType;
constexpr Reducer kSum32 =
    with_columns(with_row(make<Add<float, double>, float>(D::kF32, D::kF32), row_sum_f32<false>),
                 columns_sum_f32);
constexpr Reducer kSum64 = make<Add<double, double>, double>(D::kF64, D::kF64);
constexpr Reducer kSumInt = make<Add<uint64_t, uint64_t>, uint64_t>(D::kI64, D::kI64);
constexpr Reducer kSumComplex = make<Add<C128, C128>, C128>(D::kC128, D::kC128);
constexpr Reducers kSums = {&kSum32, &kSum64, &kSumInt, &kSumComplex};

constexpr Reducer kMean32 = with_finish(kSum32, finish_mean<float>);
constexpr Reducer kMean64 = with_finish(kSum64, finish_mean<double>);
constexpr Reducer kMeanComplex = with_finish(kSumComplex, finish_mean_complex);
constexpr Reducers kMeans = {&kMean32, &kMean64, nullptr, &kMeanComplex};

constexpr Reducer kProd32 = make<Multiply<float, double>, float>(D::kF32, D::kF32);
constexpr Reducer kProd64 = make<Multiply<double, double>, double>(D::kF64, D::kF64);
constexpr Reducer kProdInt = make<Multiply<uint64_t, uint64_t>, uint64_t>(D::kI64, D::kI64);
constexpr Reducer kProdComplex = make<Multiply<C128, C128>, C128>(D::kC128, D::kC128);
constexpr Reducers kProds = {&kProd32, &kProd64, &kProdInt, &kProdComplex};

constexpr Reducer kMax32 =
    with_row(make<Maximum<float>, float>(D::kF32, D::kF32), row_extremum_f32<true>);
constexpr Reducer kMax64 = make<Maximum<double>, double>(D::kF64, D::kF64);
constexpr Reducer kMaxInt = make<Maximum<int64_t>, int64_t>(D::kI64, D::kI64);
constexpr Reducers kMaxima = {&kMax32, &kMax64, &kMaxInt};
constexpr Reducer kMin32 =
    with_row(make<Minimum<float>, float>(D::kF32, D::kF32), row_extremum_f32<false>);
constexpr Reducer kMin64 = make<Minimum<double>, double>(D::kF64, D::kF64);
constexpr Reducer kMinInt = make<Minimum<int64_t>, int64_t>(D::kI64, D::kI64);
constexpr Reducers kMinima = {&kMin32, &kMin64, &kMinInt};

constexpr Reducer kAll = make<Every, uint8_t>(D::kBool, D::kBool);
constexpr Reducer kAny = make<Some, uint8_t>(D::kBool, D::kBool);
constexpr Reducer kCount = make<CountTrue, int64_t>(D::kBool, D::kI64);

constexpr Reducer kSquares32 =
    with_row(make<AddSquares<float>, double>(D::kF32, D::kF64), row_sum_f32<true>);
constexpr Reducer kSquares64 = make<AddSquares<double>, double>(D::kF64, D::kF64);
constexpr Reducers kSquares = {&kSquares32, &kSquares64};

template <class Attrs>
Status over_axes(const Call& c, const Reducer* reducer) {
  const auto& a = c.attr<Attrs>();
  return reduce(c, reducer, c.in[0], axes_of(a.axis, c.in[0].rank), c.out[0]);
}

/// An extremum of nothing is an error.
Status extremum(const Call& c, const Reducers& reducers, const Ints& axis) {
  const View& x = c.in[0];
  const uint32_t mask = axes_of(axis, x.rank);
  PROA_EXPECT(c, x.numel() > 0 || c.out[0].numel() == 0, "x with elements to choose from",
              shape_of(c, 0), named("axis", axis));
  return reduce(c, reducers.of(x.dtype), x, mask, c.out[0]);
}

}  // namespace

Status sum(const Call& c) { return over_axes<SumAttrs>(c, kSums.of(c.in[0].dtype)); }
Status mean(const Call& c) { return over_axes<MeanAttrs>(c, kMeans.of(c.in[0].dtype)); }
Status prod(const Call& c) { return over_axes<ProdAttrs>(c, kProds.of(c.in[0].dtype)); }
Status max(const Call& c) { return extremum(c, kMaxima, c.attr<MaxAttrs>().axis); }
Status min(const Call& c) { return extremum(c, kMinima, c.attr<MinAttrs>().axis); }
Status all(const Call& c) { return over_axes<AllAttrs>(c, &kAll); }
Status any(const Call& c) { return over_axes<AnyAttrs>(c, &kAny); }

Status count_nonzero(const Call& c) {
  return reduce(c, &kCount, c.in[0], axes_of(Ints{}, c.in[0].rank), c.out[0]);
}

Status sum_to(const Call& c) {
  const View &x = c.in[0], &out = c.out[0];
  // The output with x's rank: axes that broadcasting made are reduced.
  View like = out;
  like.rank = x.rank;
  uint32_t mask = 0;
  const int lead = x.rank - out.rank;
  for (int d = 0; d < x.rank; ++d) {
    const bool same = d >= lead && out.shape[d - lead] == x.shape[d];
    like.stride[d] = same ? out.stride[d - lead] : 0;
    mask |= same ? 0 : 1u << d;
  }
  if (mask == 0) return copy(c, x, out);
  return reduce(c, kSums.of(x.dtype), x, mask, like);
}

Status squared_norm(const Call& c) {
  double total = 0;
  for (int i = 0; i < c.n_in; ++i) {
    double part = 0;
    View out;
    out.data = &part;
    out.rank = 0;
    out.dtype = DType::kF64;
    const View& x = c.in[i];
    PROA_TRY(reduce(c, kSquares.of(x.dtype), x, axes_of(Ints{}, x.rank), out));
    total += part;
  }
  *c.out[0].as<float>() = static_cast<float>(total);
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
