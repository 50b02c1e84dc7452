#pragma once
// Small dense matrices for the factorisations: row-major copies in scratch, computed in double or
// complex double for every dtype of the arrays, and a loop over the matrices of a batch.
#include "proa/base/call.h"
#include "proa/base/half.h"
#include "proa/kernels/elementwise/functions.h"

namespace proa::PROA_ISA {

// -- numbers, the same names for real and complex ------------------------------------------------
PROA_INLINE double conj_of(double x) { return x; }
PROA_INLINE C128 conj_of(C128 x) { return {x.re, -x.im}; }
PROA_INLINE double real_of(double x) { return x; }
PROA_INLINE double real_of(C128 x) { return x.re; }
PROA_INLINE double squared_modulus(double x) { return x * x; }
PROA_INLINE double squared_modulus(C128 x) { return x.re * x.re + x.im * x.im; }
PROA_INLINE double modulus(double x) { return ::fabs(x); }
/// As large as |x| but for a factor: what pivots are chosen by, as LAPACK does.
PROA_INLINE double weight(double x) { return ::fabs(x); }
PROA_INLINE double weight(C128 x) { return ::fabs(x.re) + ::fabs(x.im); }
/// |x| without overflow.
PROA_INLINE double modulus(C128 x) {
  const double a = ::fabs(x.re), b = ::fabs(x.im), big = a > b ? a : b, small = a > b ? b : a;
  if (big == 0 || big - big != 0) return big + small;  // infinite or NaN stays so
  const double r = small / big;
  return big * ::sqrt(1 + r * r);
}
template <class S>
PROA_INLINE S number(double x);
template <>
PROA_INLINE double number<double>(double x) {
  return x;
}
template <>
PROA_INLINE C128 number<C128>(double x) {
  return {x, 0};
}
template <class S>
PROA_INLINE S scaled(S x, double by);
template <>
PROA_INLINE double scaled<double>(double x, double by) {
  return x * by;
}
template <>
PROA_INLINE C128 scaled<C128>(C128 x, double by) {
  return {x.re * by, x.im * by};
}
PROA_INLINE void operator+=(C128& a, C128 b) { a = a + b; }
PROA_INLINE void operator-=(C128& a, C128 b) { a = a - b; }
PROA_INLINE void operator*=(C128& a, C128 b) { a = a * b; }

constexpr double kRounding = 2.220446049250313e-16;

// -- rows ----------------------------------------------------------------------------------------
/// Sum of conj(a[i]) * b[i].
template <class S>
PROA_INLINE S inner(const S* a, const S* b, int64_t n) {
  S total = number<S>(0);
  for (int64_t i = 0; i < n; ++i) total += conj_of(a[i]) * b[i];
  return total;
}
/// y += f * x.
template <class S>
PROA_INLINE void add_row(S* y, S f, const S* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += f * x[i];
}
template <class S>
PROA_INLINE void swap_rows(S* a, S* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const S held = a[i];
    a[i] = b[i];
    b[i] = held;
  }
}
template <class S>
PROA_INLINE void fill(S* a, int64_t n, double value) {
  for (int64_t i = 0; i < n; ++i) a[i] = number<S>(value);
}
template <class S>
PROA_INLINE void make_identity(S* a, int64_t rows, int64_t columns) {
  fill(a, rows * columns, 0);
  for (int64_t i = 0; i < rows && i < columns; ++i) a[i * columns + i] = number<S>(1);
}
/// b (n, m) = the conjugate transpose of a (m, n).
template <class S>
PROA_INLINE void adjoint(const S* a, int64_t m, int64_t n, S* b) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) b[j * m + i] = conj_of(a[i * n + j]);
  }
}

// -- reflectors ----------------------------------------------------------------------------------
/// Makes H = 1 - tau v v^H with H^H x = (beta, 0, ..), beta real, from x of n elements at distance
/// `step`: v (v[0] = 1) is written to `v`. Returns tau; beta to `*beta`.
template <class S>
S reflector(const S* x, int64_t step, int64_t n, S* v, double* beta);
/// a (n, m; rows at distance `step`) = (1 - tau v v^H) a; `w` has room for m.
template <class S>
void reflect(S* a, int64_t step, int64_t n, int64_t m, const S* v, S tau, S* w);

// -- factorisations, each on one matrix; `work` has the size stated
// ---------------------------------
/// a = P L U in place, the row exchanged with row i in pivots[i] (from 0); a is (m, n). Returns 0
/// or the number (from 1) of the first pivot that is 0.
template <class S>
int64_t factor_lu(S* a, int64_t m, int64_t n, int32_t* pivots);
/// b (n, k) = a^-1 b from a's factors.
template <class S>
void solve_lu(const S* lu, const int32_t* pivots, int64_t n, S* b, int64_t k);
/// Householder: a (m, n) becomes R, q (m, columns) the first columns of Q. work: m + max(m, n) +
/// min(m, n) * (m + 1).
template <class S>
void factor_qr(S* a, int64_t m, int64_t n, S* q, int64_t columns, S* work);
inline int64_t qr_work(int64_t m, int64_t n) {
  return m + (m > n ? m : n) + (m < n ? m : n) * (m + 1);
}
/// a (m, n) = u (m, uc) diag(s) v^H, with v^H as vh (vr, n), s descending; uc (vr) is min(m, n) or
/// m (n). a is destroyed. False if the rotations did not settle.
template <class S>
bool factor_svd(S* a, int64_t m, int64_t n, S* u, int64_t uc, double* s, S* vh, int64_t vr,
                S* work);
inline int64_t svd_work(int64_t m, int64_t n) {
  const int64_t large = m > n ? m : n, small = m > n ? n : m;
  return 4 * large * large + 2 * small * small + qr_work(large, small);
}

// -- arrays --------------------------------------------------------------------------------------
/// The matrices of a batch: where number i begins in an array whose leading axes broadcast to those
/// of `shape`, a view with `axes` trailing axes that are the matrix.
struct Stack {
  const View* shape;
  int axes;
  int64_t count;
  Stack(const View& shape_, int axes_) : shape(&shape_), axes(axes_), count(1) {
    for (int d = 0; d < shape_.rank - axes_; ++d) count *= shape_.shape[d];
  }
  /// Offset, in elements, of matrix i in v, which has `own` trailing axes.
  int64_t at(const View& v, int own, int64_t i) const {
    int64_t offset = 0;
    const int lead = shape->rank - axes, mine = v.rank - own;
    for (int d = lead - 1; d >= 0; --d) {
      const int64_t k = i % shape->shape[d];
      i /= shape->shape[d];
      const int e = d - (lead - mine);
      if (e >= 0 && v.shape[e] != 1) offset += k * v.stride[e];
    }
    return offset;
  }
};

/// Reads the (m, n) matrix (n = 1: the vector) at `offset`; the distances of rows and columns
/// given.
template <class S>
void read(const View& v, int64_t offset, int64_t m, int64_t rows, int64_t n, int64_t columns,
          S* to);
template <class S>
void write(const S* from, const View& v, int64_t offset, int64_t m, int64_t rows, int64_t n,
           int64_t columns);
template <class S>
PROA_INLINE void read_matrix(const View& v, int64_t offset, S* to) {
  const int r = v.rank;
  read(v, offset, v.shape[r - 2], v.stride[r - 2], v.shape[r - 1], v.stride[r - 1], to);
}
template <class S>
PROA_INLINE void write_matrix(const S* from, const View& v, int64_t offset) {
  const int r = v.rank;
  write(from, v, offset, v.shape[r - 2], v.stride[r - 2], v.shape[r - 1], v.stride[r - 1]);
}
template <class S>
PROA_INLINE void write_vector(const S* from, const View& v, int64_t offset) {
  write(from, v, offset, v.shape[v.rank - 1], v.stride[v.rank - 1], 1, 0);
}

constexpr int64_t kMaxSlots = 8;
inline int64_t slots_of(int64_t count) { return count < kMaxSlots ? count : kMaxSlots; }
/// Bytes of scratch for `elements` numbers a slot, of the type that dtype t computes in.
inline size_t slot_bytes(DType t, int64_t elements) {
  const size_t one = is_complex(t) ? sizeof(C128) : sizeof(double);
  return (static_cast<size_t>(elements) * one + 63) & ~size_t{63};
}

/// Calls body(number type, matrix number, its work) for every matrix; the first status that is not
/// kOk is the result.
template <class F>
Status each_matrix(const Call& c, const Stack& stack, int64_t elements, F&& body) {
  const int64_t slots = slots_of(stack.count);
  const size_t bytes = slot_bytes(c.in[0].dtype, elements);
  const bool wide = is_complex(c.in[0].dtype);
  auto result = static_cast<int>(Status::kOk);
  parallel_for(c, slots, 1, [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot) {
      void* work = static_cast<uint8_t*>(c.scratch) + static_cast<size_t>(slot) * bytes;
      const int64_t stop = stack.count * (slot + 1) / slots;
      for (int64_t i = stack.count * slot / slots; i < stop; ++i) {
        const Status s =
            wide ? body(i, static_cast<C128*>(work)) : body(i, static_cast<double*>(work));
        if (s != Status::kOk) __atomic_store_n(&result, static_cast<int>(s), __ATOMIC_RELAXED);
      }
    }
  });
  return static_cast<Status>(result);
}

}  // namespace proa::PROA_ISA
