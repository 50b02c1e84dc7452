// Eigenvalues of general complex matrices: Householder reflections to Hessenberg form, shifted QR
// steps to a triangle (Schur form), and its eigenvectors by substitution (Golub & Van
// Loan, 7.5-7.6).
#include "proa/kernels/linalg/dense.h"

namespace proa::PROA_ISA {

namespace {

/// a = q h q^H with h Hessenberg, in place of a.
void to_hessenberg(C128* a, int64_t n, C128* q, C128* v, C128* w) {
  make_identity(q, n, n);
  for (int64_t k = 0; k + 2 < n; ++k) {
    const int64_t m = n - k - 1;
    double beta;
    const C128 tau = reflector(a + (k + 1) * n + k, n, m, v, &beta);
    reflect(a + (k + 1) * n + k, n, m, n - k, v, conj_of(tau), w);
    const auto from_right = [&](C128* x) {  // x (1 - tau v v^H) on the last m columns
      for (int64_t i = 0; i < n; ++i) {
        C128* row = x + i * n + k + 1;
        C128 total = {0, 0};
        for (int64_t j = 0; j < m; ++j) total += row[j] * v[j];
        total *= tau;
        for (int64_t j = 0; j < m; ++j) row[j] -= total * conj_of(v[j]);
      }
    };
    from_right(a);
    from_right(q);
    for (int64_t i = k + 2; i < n; ++i) a[i * n + k] = {0, 0};
  }
}

C128 root_of(C128 x) {
  const double size = modulus(x);
  if (size == 0) return {0, 0};
  const double re = ::sqrt((size + ::fabs(x.re)) / 2), im = ::fabs(x.im) / (2 * re);
  if (x.re >= 0) return {re, x.im >= 0 ? im : -im};
  return {im, x.im >= 0 ? re : -re};
}

/// The eigenvalue of the last 2x2 block up to `hi` that is nearer to its corner.
C128 shift_of(const C128* h, int64_t n, int64_t hi) {
  const C128 a = h[(hi - 1) * n + hi - 1], b = h[(hi - 1) * n + hi], c = h[hi * n + hi - 1],
             d = h[hi * n + hi];
  const C128 half = scaled(a - d, 0.5), bc = b * c;
  const C128 root = root_of(half * half + bc);
  const C128 plus = half + root, minus = half - root;
  const C128 denominator = squared_modulus(plus) > squared_modulus(minus) ? plus : minus;
  return squared_modulus(denominator) == 0 ? d : d - bc / denominator;
}

/// One QR step on rows and columns lo..hi of h, the rotations are applied to all of h and q.
void step(C128* h, int64_t n, int64_t lo, int64_t hi, C128 shift, C128* q, C128* rotations) {
  for (int64_t i = lo; i <= hi; ++i) h[i * n + i] -= shift;
  for (int64_t k = lo; k < hi; ++k) {
    C128 *one = h + k * n, *two = one + n;
    const double a = modulus(one[k]), b = modulus(two[k]), r = modulus(C128{a, b});
    const C128 c = r == 0 ? C128{1, 0} : scaled(one[k], 1 / r);
    const C128 s = r == 0 ? C128{0, 0} : scaled(two[k], 1 / r);
    rotations[2 * k] = c;
    rotations[2 * k + 1] = s;
    for (int64_t j = k; j < n; ++j) {
      const C128 x = one[j], y = two[j];
      one[j] = conj_of(c) * x + conj_of(s) * y;
      two[j] = c * y - s * x;
    }
  }
  for (int64_t k = lo; k < hi; ++k) {
    const C128 c = rotations[2 * k], s = rotations[2 * k + 1];
    const auto from_right = [&](C128* row) {
      const C128 x = row[k], y = row[k + 1];
      row[k] = x * c + y * s;
      row[k + 1] = y * conj_of(c) - x * conj_of(s);
    };
    for (int64_t i = 0; i <= k + 1; ++i) from_right(h + i * n);
    for (int64_t i = 0; i < n; ++i) from_right(q + i * n);
  }
  for (int64_t i = lo; i <= hi; ++i) h[i * n + i] += shift;
}

bool to_triangle(C128* h, int64_t n, C128* q, C128* rotations) {
  int64_t hi = n - 1;
  for (int tries = 0; hi > 0;) {
    int64_t lo = hi;
    for (; lo > 0; --lo) {
      C128& below = h[lo * n + lo - 1];
      const double scale = modulus(h[lo * n + lo]) + modulus(h[(lo - 1) * n + lo - 1]);
      if (modulus(below) <= kRounding * scale) {
        below = {0, 0};
        break;
      }
    }
    if (lo == hi) {
      --hi;
      tries = 0;
      continue;
    }
    if (++tries > 300) return false;
    const double odd = modulus(h[hi * n + hi - 1]);
    if (odd - odd != 0) return false;
    C128 shift = shift_of(h, n, hi);
    if (tries % 10 == 0) shift = h[hi * n + hi] + C128{odd, 0};  // out of a cycle
    step(h, n, lo, hi, shift, q, rotations);
  }
  return true;
}

/// Column j of `to` = q times the eigenvector of the triangle t that belongs to t[j][j], length 1.
void vector_of(const C128* t, const C128* q, int64_t n, int64_t j, double smallest, C128* x,
               C128* to) {
  fill(x, n, 0);
  x[j] = {1, 0};
  for (int64_t i = j - 1; i >= 0; --i) {
    C128 total = {0, 0};
    for (int64_t k = i + 1; k <= j; ++k) total += t[i * n + k] * x[k];
    C128 gap = t[j * n + j] - t[i * n + i];
    if (modulus(gap) < smallest) gap = {smallest, 0};
    x[i] = total / gap;
  }
  double norm = 0;
  for (int64_t i = 0; i < n; ++i) {
    C128 total = {0, 0};
    for (int64_t k = 0; k <= j; ++k) total += q[i * n + k] * x[k];
    to[i * n + j] = total;
    norm += squared_modulus(total);
  }
  norm = ::sqrt(norm);
  for (int64_t i = 0; i < n; ++i) to[i * n + j] = scaled(to[i * n + j], 1 / norm);
}

int64_t elements(const Call& c) {
  const int64_t n = c.in[0].shape[c.in[0].rank - 1];
  return 3 * n * n + 4 * n;
}

}  // namespace

size_t eig_scratch(const Call& c) {
  const int64_t slots = slots_of(Stack(c.in[0], 2).count);
  return slot_bytes(DType::kC128, elements(c)) * static_cast<size_t>(slots);
}
Status eig(const Call& c) {
  const View &x = c.in[0], &w = c.out[0], &v = c.out[1];
  if (!is_complex(x.dtype)) return Status::kUnimplemented;
  const int64_t n = x.shape[x.rank - 1];
  const Stack stack(x, 2);
  return each_matrix(c, stack, elements(c), [&](int64_t i, auto* work) {
    C128* h = reinterpret_cast<C128*>(work);
    C128 *q = h + n * n, *vectors = q + n * n, *values = vectors + n * n, *more = values + n;
    read_matrix(x, stack.at(x, 2, i), h);
    double largest = 0;
    for (int64_t k = 0; k < n * n; ++k) largest = modulus(h[k]) > largest ? modulus(h[k]) : largest;
    to_hessenberg(h, n, q, more, more + n);
    if (!to_triangle(h, n, q, more)) return Status::kNoConvergence;
    const double smallest = largest > 0 ? largest * kRounding : 1;
    for (int64_t j = 0; j < n; ++j) {
      values[j] = h[j * n + j];
      vector_of(h, q, n, j, smallest, more, vectors);
    }
    write_vector(values, w, stack.at(w, 1, i));
    write_matrix(vectors, v, stack.at(v, 2, i));
    return Status::kOk;
  });
}

}  // namespace proa::PROA_ISA
