// Singular values by one-sided Jacobi rotations (Hestenes, 1958; Demmel & Veselic, 1992): columns
// are adjoint_a in pairs until all are orthogonal; their lengths are the singular values. A tall
// matrix is reduced to its triangular factor first, a wide one is taken as its adjoint.
#include "proa/kernels/linalg/dense.h"

namespace proa::PROA_ISA {

namespace {

/// Makes rows p and q of `a` (of length m) orthogonal, and rotates those of `v` (n) alike.
/// Returns false if they already were.
template <class S>
bool rotate(S* p, S* q, int64_t m, S* vp, S* vq, int64_t n, double threshold) {
  double alpha = 0, beta = 0;
  for (int64_t i = 0; i < m; ++i) {
    alpha += squared_modulus(p[i]);
    beta += squared_modulus(q[i]);
  }
  if (alpha <= threshold || beta <= threshold) return false;
  const S gamma = inner(p, q, m);
  const double size = modulus(gamma);
  if (!(size > kRounding * ::sqrt(alpha) * ::sqrt(beta))) return false;
  const double zeta = (beta - alpha) / (2 * size);
  const double t = (zeta >= 0 ? 1 : -1) / (::fabs(zeta) + ::sqrt(1 + zeta * zeta));
  const double c = 1 / ::sqrt(1 + t * t), s = c * t;
  const S phase = scaled(gamma, s / size), back = conj_of(phase);
  const auto rotate = [&](S* x, S* y, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const S a = x[i], b = y[i];
      x[i] = scaled(a, c) - back * b;
      y[i] = phase * a + scaled(b, c);
    }
  };
  rotate(p, q, m);
  rotate(vp, vq, n);
  return true;
}

/// Fills row `at` of the orthonormal rows u (of length m) with a vector orthogonal to the rows
/// before it and to those of `later` after it that hold vectors already.
template <class S>
void complete(S* u, int64_t at, int64_t m, S* candidate) {
  double best = -1;
  for (int64_t e = 0; e < m && best < 0.5; ++e) {
    fill(candidate, m, 0);
    candidate[e] = number<S>(1);
    double norm = 0;
    for (int again = 0; again < 2; ++again) {
      for (int64_t k = 0; k < at; ++k) {
        add_row(candidate, -inner(u + k * m, candidate, m), u + k * m, m);
      }
      norm = 0;
      for (int64_t i = 0; i < m; ++i) norm += squared_modulus(candidate[i]);
      if (again == 0 && norm < 1e-3 / static_cast<double>(m)) break;
    }
    norm = ::sqrt(norm);
    if (norm > best && norm * norm >= 1e-3 / static_cast<double>(m)) {
      best = norm;
      for (int64_t i = 0; i < m; ++i) u[at * m + i] = scaled(candidate[i], 1 / norm);
    }
  }
}

/// The columns of a square or tall (m, n) given as rows of w (n, m): afterwards row j of w is
/// s[j] times the j-th left vector, and row j of v the j-th right one; s descends.
template <class S>
bool settle(S* w, int64_t m, int64_t n, S* v, double* s) {
  make_identity(v, n, n);
  double largest = 0;
  for (int64_t j = 0; j < n; ++j) {
    double total = 0;
    for (int64_t i = 0; i < m; ++i) total += squared_modulus(w[j * m + i]);
    if (!(total <= largest)) largest = total;
  }
  if (largest - largest != 0) return false;
  const double threshold = largest * kRounding * kRounding * 1e-4;
  bool moved = true;
  for (int sweep = 0; moved; ++sweep) {
    if (sweep == 60) return false;
    moved = false;
    for (int64_t p = 0; p + 1 < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        moved |= rotate(w + p * m, w + q * m, m, v + p * n, v + q * n, n, threshold);
      }
    }
  }
  for (int64_t j = 0; j < n; ++j) {
    double total = 0;
    for (int64_t i = 0; i < m; ++i) total += squared_modulus(w[j * m + i]);
    s[j] = ::sqrt(total);
  }
  for (int64_t j = 0; j < n; ++j) {
    int64_t best = j;
    for (int64_t k = j + 1; k < n; ++k) best = s[k] > s[best] ? k : best;
    if (best == j) continue;
    const double held = s[j];
    s[j] = s[best];
    s[best] = held;
    swap_rows(w + j * m, w + best * m, m);
    swap_rows(v + j * n, v + best * n, n);
  }
  return true;
}

/// The singular vectors of a tall a (m, n): rows of `left` (lc, m) and `right` (n, n), none
/// conjugated.
template <class S>
bool svd_of_tall(S* a, int64_t m, int64_t n, S* left, int64_t lc, double* s, S* right, S* work) {
  S *q = work, *w = q + m * n, *rest = w + n * n;
  const bool reduce = m > n;
  if (reduce) factor_qr(a, m, n, q, n, rest);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) w[j * n + i] = a[i * n + j];
  }
  if (!settle(w, n, n, right, s)) return false;
  const double zero = n > 0 ? s[0] * kRounding * 1e-2 : 0;
  int64_t found = 0;
  for (; found < n && s[found] > zero; ++found) {
    S* row = w + found * n;
    for (int64_t i = 0; i < n; ++i) row[i] = scaled(row[i], 1 / s[found]);
    S* to = left + found * m;
    if (!reduce) {
      for (int64_t i = 0; i < n; ++i) to[i] = row[i];
      continue;
    }
    for (int64_t i = 0; i < m; ++i) {
      S total = number<S>(0);
      for (int64_t k = 0; k < n; ++k) total += q[i * n + k] * row[k];
      to[i] = total;
    }
  }
  for (; found < lc; ++found) complete(left, found, m, rest);
  return true;
}

}  // namespace

template <class S>
bool factor_svd(S* a, int64_t m, int64_t n, S* u, int64_t uc, double* s, S* vh, int64_t vr,
                S* work) {
  const bool tall = m >= n;
  const int64_t large = tall ? m : n, small = tall ? n : m, lc = tall ? uc : vr;
  S *left = work, *right = left + large * large, *more = right + small * small;
  S* adjoint_a = more;  // the adjoint of a wide matrix
  if (!tall) {
    adjoint(a, m, n, adjoint_a);
    more += large * small;
  }
  if (!svd_of_tall(tall ? a : adjoint_a, large, small, left, lc, s, right, more)) return false;
  if (tall) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < uc; ++j) u[i * uc + j] = left[j * m + i];
    }
    for (int64_t i = 0; i < n * n; ++i) vh[i] = conj_of(right[i]);
  } else {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < m; ++j) u[i * m + j] = right[j * m + i];
    }
    for (int64_t i = 0; i < vr * n; ++i) vh[i] = conj_of(left[i]);
  }
  return true;
}

template bool factor_svd<double>(double*, int64_t, int64_t, double*, int64_t, double*, double*,
                                 int64_t, double*);
template bool factor_svd<C128>(C128*, int64_t, int64_t, C128*, int64_t, double*, C128*, int64_t,
                               C128*);

namespace {

int64_t elements(const Call& c) {
  const View& x = c.in[0];
  const int64_t m = x.shape[x.rank - 2], n = x.shape[x.rank - 1];
  return m * n + m * m + n * n + (m < n ? m : n) + svd_work(m, n);
}

Status run(const Call& c) {
  const View &x = c.in[0], &u = c.out[0], &s = c.out[1], &vh = c.out[2];
  const int64_t m = x.shape[x.rank - 2], n = x.shape[x.rank - 1], count = m < n ? m : n;
  const int64_t uc = u.shape[u.rank - 1], vr = vh.shape[vh.rank - 2];
  const Stack stack(x, 2);
  return each_matrix(c, stack, elements(c), [&](int64_t i, auto* a) {
    auto *left = a + m * n, *right = left + m * m, *rest = right + n * n;
    auto* values = reinterpret_cast<double*>(rest);
    read_matrix(x, stack.at(x, 2, i), a);
    if (!factor_svd(a, m, n, left, uc, values, right, vr, rest + count)) {
      return Status::kNoConvergence;
    }
    write_matrix(left, u, stack.at(u, 2, i));
    write_vector(values, s, stack.at(s, 1, i));
    write_matrix(right, vh, stack.at(vh, 2, i));
    return Status::kOk;
  });
}

}  // namespace

size_t svd_scratch(const Call& c) {
  const int64_t slots = slots_of(Stack(c.in[0], 2).count);
  return slot_bytes(c.in[0].dtype, elements(c)) * static_cast<size_t>(slots);
}
Status svd(const Call& c) { return run(c); }
size_t svd_full_scratch(const Call& c) { return svd_scratch(c); }
Status svd_full(const Call& c) { return run(c); }

}  // namespace proa::PROA_ISA
