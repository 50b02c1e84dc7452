// Eigenvalues of Hermitian matrices: Householder reflections to a real tridiagonal one, then
// implicit QL steps (Bowdler, Martin, Reinsch & Wilkinson, 1968).
#include "proa/kernels/linalg/dense.h"

namespace proa::PROA_ISA {

namespace {

/// a (n, n; Hermitian, both triangles) becomes Q with Q^H a Q tridiagonal: diagonal d, off-diagonal
/// e.
template <class S>
void to_tridiagonal(S* a, int64_t n, double* d, double* e, S* work) {
  S *w = work, *p = w + n, *reflectors = p + n;
  for (int64_t k = 0; k + 1 < n; ++k) {
    const int64_t m = n - k - 1;
    S *tau = reflectors + k * (n + 1), *v = tau + 1, *block = a + (k + 1) * n + k + 1;
    d[k] = real_of(a[k * n + k]);
    *tau = reflector(a + (k + 1) * n + k, n, m, v, &e[k]);
    // p = tau A v - (1/2) tau (p^H v) v;  A -= v p^H + p v^H.
    for (int64_t i = 0; i < m; ++i) {
      S total = number<S>(0);
      for (int64_t j = 0; j < m; ++j) total += block[i * n + j] * v[j];
      p[i] = *tau * total;
    }
    const S half = scaled(*tau * inner(p, v, m), -0.5);
    add_row(p, half, v, m);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < m; ++j) {
        block[i * n + j] -= v[i] * conj_of(p[j]) + p[i] * conj_of(v[j]);
      }
    }
  }
  if (n > 0) d[n - 1] = real_of(a[n * n - 1]);
  make_identity(a, n, n);
  for (int64_t k = n - 2; k >= 0; --k) {
    const S *tau = reflectors + k * (n + 1), *v = tau + 1;
    reflect(a + (k + 1) * n + k + 1, n, n - k - 1, n - k - 1, v, *tau, w);
  }
}

/// Eigenvalues of the tridiagonal matrix to d; the rows of z are rotated too.
template <class S>
bool settle(double* d, double* e, int64_t n, S* z) {
  if (n > 0) e[n - 1] = 0;
  for (int64_t l = 0; l < n; ++l) {
    for (int step = 0;; ++step) {
      int64_t m = l;
      for (; m + 1 < n; ++m) {
        if (::fabs(e[m]) <= kRounding * (::fabs(d[m]) + ::fabs(d[m + 1]))) break;
      }
      if (m == l) break;
      if (step == 60 || d[l] - d[l] != 0) return false;
      double g = (d[l + 1] - d[l]) / (2 * e[l]);
      double r = modulus(C128{g, 1});
      g = d[m] - d[l] + e[l] / (g + (g >= 0 ? r : -r));
      double s = 1, c = 1, p = 0;
      int64_t i = m - 1;
      for (; i >= l; --i) {
        const double f = s * e[i], b = c * e[i];
        r = modulus(C128{f, g});
        e[i + 1] = r;
        if (r == 0) {
          d[i + 1] -= p;
          e[m] = 0;
          break;
        }
        s = f / r;
        c = g / r;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        S *one = z + i * n, *two = one + n;
        for (int64_t k = 0; k < n; ++k) {
          const S held = two[k];
          two[k] = scaled(one[k], s) + scaled(held, c);
          one[k] = scaled(one[k], c) - scaled(held, s);
        }
      }
      if (r == 0 && i >= l) continue;
      d[l] -= p;
      e[l] = g;
      e[m] = 0;
    }
  }
  return true;
}

/// Ascending order.
template <class S>
void sort_rows(double* d, int64_t n, S* z) {
  for (int64_t j = 0; j < n; ++j) {
    int64_t best = j;
    for (int64_t k = j + 1; k < n; ++k) best = d[k] < d[best] ? k : best;
    if (best == j) continue;
    const double held = d[j];
    d[j] = d[best];
    d[best] = held;
    swap_rows(z + j * n, z + best * n, n);
  }
}

int64_t elements(const Call& c) {
  const View& x = c.in[0];
  const int64_t n = x.shape[x.rank - 1];
  return 2 * n * n + 2 * n + 2 * n + n * (n + 1);
}

}  // namespace

size_t eigh_scratch(const Call& c) {
  const int64_t slots = slots_of(Stack(c.in[0], 2).count);
  return slot_bytes(c.in[0].dtype, elements(c)) * static_cast<size_t>(slots);
}
Status eigh(const Call& c) {
  const View &x = c.in[0], &w = c.out[0], &v = c.out[1];
  const int64_t n = x.shape[x.rank - 1];
  const Stack stack(x, 2);
  return each_matrix(c, stack, elements(c), [&](int64_t i, auto* a) {
    auto *z = a + n * n, *rest = z + n * n;
    auto *d = reinterpret_cast<double*>(rest), *e = d + n;
    read_matrix(x, stack.at(x, 2, i), a);
    for (int64_t r = 0; r < n; ++r) {  // the lower triangle alone counts
      a[r * n + r] = scaled(a[r * n + r] + conj_of(a[r * n + r]), 0.5);
      for (int64_t k = r + 1; k < n; ++k) a[r * n + k] = conj_of(a[k * n + r]);
    }
    to_tridiagonal(a, n, d, e, rest + 2 * n);
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t k = 0; k < n; ++k) z[k * n + r] = a[r * n + k];
    }
    if (!settle(d, e, n, z)) return Status::kNoConvergence;
    sort_rows(d, n, z);
    write_vector(d, w, stack.at(w, 1, i));
    write(z, v, stack.at(v, 2, i), n, v.stride[v.rank - 1], n, v.stride[v.rank - 2]);
    return Status::kOk;
  });
}

}  // namespace proa::PROA_ISA
