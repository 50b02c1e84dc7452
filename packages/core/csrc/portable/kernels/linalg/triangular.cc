// Cholesky factors, systems with triangular matrices, and the triangle of a matrix.
#include "proa/gen/attrs/linalg.h"
#include "proa/kernels/linalg/dense.h"

namespace proa::PROA_ISA {

namespace {

// a (n, n) = l l^H from the lower triangle; row by row, so that all products are of rows.
template <class S>
bool factor_cholesky(S* a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    S* row = a + i * n;
    for (int64_t j = 0; j < i; ++j) {
      const S* other = a + j * n;
      row[j] = scaled(row[j] - inner(other, row, j), 1 / real_of(other[j]));
    }
    double square = real_of(row[i]);
    for (int64_t k = 0; k < i; ++k) square -= squared_modulus(row[k]);
    if (!(square > 0)) return false;
    row[i] = number<S>(::sqrt(square));
    for (int64_t j = i + 1; j < n; ++j) row[j] = number<S>(0);
  }
  return true;
}

// b (n, k) = a^-1 b with the triangle of a that `upper` names; false if its diagonal has a 0.
template <class S>
bool substitute(const S* a, int64_t n, bool upper, bool unit, S* b, int64_t k) {
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = upper ? n - 1 - step : step;
    S* row = b + i * k;
    const int64_t begin = upper ? i + 1 : 0, end = upper ? n : i;
    for (int64_t j = begin; j < end; ++j) add_row(row, -a[i * n + j], b + j * k, k);
    if (unit) continue;
    if (squared_modulus(a[i * n + i]) == 0 && modulus(a[i * n + i]) == 0) return false;
    for (int64_t j = 0; j < k; ++j) row[j] = row[j] / a[i * n + i];
  }
  return true;
}

}  // namespace

size_t cholesky_scratch(const Call& c) {
  const View& x = c.in[0];
  const int64_t n = x.shape[x.rank - 1];
  return slot_bytes(x.dtype, n * n) * static_cast<size_t>(slots_of(Stack(x, 2).count));
}
Status cholesky(const Call& c) {
  const View &x = c.in[0], &y = c.out[0];
  const int64_t n = x.shape[x.rank - 1];
  const Stack stack(x, 2);
  return each_matrix(c, stack, n * n, [&](int64_t i, auto* a) {
    read_matrix(x, stack.at(x, 2, i), a);
    if (!factor_cholesky(a, n)) return Status::kNotPositive;
    write_matrix(a, y, stack.at(y, 2, i));
    return Status::kOk;
  });
}

size_t triangular_solve_scratch(const Call& c) {
  const View &a = c.in[0], &z = c.out[0];
  const int64_t n = a.shape[a.rank - 1], k = z.shape[z.rank - 1];
  return slot_bytes(a.dtype, n * (n + k)) * static_cast<size_t>(slots_of(Stack(z, 2).count));
}
Status triangular_solve(const Call& c) {
  const View &a = c.in[0], &b = c.in[1], &z = c.out[0];
  const auto& attrs = c.attr<TriangularSolveAttrs>();
  const int64_t n = a.shape[a.rank - 1], k = z.shape[z.rank - 1];
  const Stack stack(z, 2);
  return each_matrix(c, stack, n * (n + k), [&](int64_t i, auto* work) {
    read_matrix(a, stack.at(a, 2, i), work);
    read_matrix(b, stack.at(b, 2, i), work + n * n);
    if (!substitute(work, n, attrs.upper != 0, attrs.unit != 0, work + n * n, k)) {
      return Status::kSingular;
    }
    write_matrix(work + n * n, z, stack.at(z, 2, i));
    return Status::kOk;
  });
}

size_t triangle_scratch(const Call& c) {
  const View& x = c.in[0];
  const int64_t n = x.shape[x.rank - 1], m = x.shape[x.rank - 2];
  return slot_bytes(x.dtype, n * m) * static_cast<size_t>(slots_of(Stack(x, 2).count));
}
Status triangle(const Call& c) {
  const View &x = c.in[0], &y = c.out[0];
  const auto& attrs = c.attr<TriangleAttrs>();
  const int64_t n = x.shape[x.rank - 1], m = x.shape[x.rank - 2], off = attrs.strict != 0;
  const Stack stack(x, 2);
  return each_matrix(c, stack, m * n, [&](int64_t i, auto* a) {
    read_matrix(x, stack.at(x, 2, i), a);
    for (int64_t r = 0; r < m; ++r) {
      for (int64_t k = 0; k < n; ++k) {
        if (attrs.upper != 0 ? k - r < off : r - k < off) a[r * n + k] = {};
      }
    }
    write_matrix(a, y, stack.at(y, 2, i));
    return Status::kOk;
  });
}

}  // namespace proa::PROA_ISA
