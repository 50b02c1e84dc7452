// LU factors with row exchanges, and what follows from them: solutions, inverses, determinants.
#include "proa/gen/attrs/linalg.h"
#include "proa/kernels/linalg/dense.h"

namespace proa::PROA_ISA {

template <class S>
int64_t factor_lu(S* a, int64_t m, int64_t n, int32_t* pivots) {
  int64_t zero = 0;
  const int64_t count = m < n ? m : n;
  for (int64_t k = 0; k < count; ++k) {
    int64_t best = k;
    double largest = weight(a[k * n + k]);
    for (int64_t i = k + 1; i < m; ++i) {
      const double size = weight(a[i * n + k]);
      if (size > largest) {
        largest = size;
        best = i;
      }
    }
    pivots[k] = static_cast<int32_t>(best);
    if (largest == 0) {
      if (zero == 0) zero = k + 1;
      continue;
    }
    if (best != k) swap_rows(a + k * n, a + best * n, n);
    for (int64_t i = k + 1; i < m; ++i) {
      const S f = a[i * n + k] / a[k * n + k];
      a[i * n + k] = f;
      add_row(a + i * n + k + 1, -f, a + k * n + k + 1, n - k - 1);
    }
  }
  return zero;
}

template <class S>
void solve_lu(const S* lu, const int32_t* pivots, int64_t n, S* b, int64_t k) {
  for (int64_t i = 0; i < n; ++i) {
    if (pivots[i] != i) swap_rows(b + i * k, b + pivots[i] * k, k);
  }
  for (int64_t i = 1; i < n; ++i) {
    for (int64_t j = 0; j < i; ++j) add_row(b + i * k, -lu[i * n + j], b + j * k, k);
  }
  for (int64_t i = n - 1; i >= 0; --i) {
    for (int64_t j = i + 1; j < n; ++j) add_row(b + i * k, -lu[i * n + j], b + j * k, k);
    for (int64_t j = 0; j < k; ++j) b[i * k + j] = b[i * k + j] / lu[i * n + i];
  }
}

template int64_t factor_lu<double>(double*, int64_t, int64_t, int32_t*);
template int64_t factor_lu<C128>(C128*, int64_t, int64_t, int32_t*);
template void solve_lu<double>(const double*, const int32_t*, int64_t, double*, int64_t);
template void solve_lu<C128>(const C128*, const int32_t*, int64_t, C128*, int64_t);

namespace {

int64_t side(const View& v) { return v.shape[v.rank - 1]; }
size_t batch_bytes(const View& x, const Stack& stack, int64_t elements) {
  return slot_bytes(x.dtype, elements) * static_cast<size_t>(slots_of(stack.count));
}

/// -1 if an odd number of rows was exchanged.
double parity(const int32_t* pivots, int64_t n) {
  double sign = 1;
  for (int64_t i = 0; i < n; ++i) sign = pivots[i] == i ? sign : -sign;
  return sign;
}

/// Product of the diagonal of the factors and the sign of the exchanges.
template <class S>
S product_of(const S* lu, const int32_t* pivots, int64_t n) {
  S total = number<S>(parity(pivots, n));
  for (int64_t i = 0; i < n; ++i) total *= lu[i * n + i];
  return total;
}

/// y = the matrix of cofactors of a, det(a) a^-T where a has an inverse. With a = u diag(s) v^H it
/// is det(u) det(v^H) conj(u diag(product of the other s) v^H).
template <class S>
bool cofactors(S* a, int64_t n, S* y, int32_t* pivots, S* work) {
  S *u = work, *vh = u + n * n, *rest = vh + n * n;
  double* s = reinterpret_cast<double*>(rest);
  S* more = rest + n;
  if (!factor_svd(a, n, n, u, n, s, vh, n, more)) return false;
  for (int64_t j = 0; j < n; ++j) {
    double others = 1;
    for (int64_t k = 0; k < n; ++k) others *= k == j ? 1 : s[k];
    for (int64_t i = 0; i < n; ++i) a[i * n + j] = scaled(u[i * n + j], others);
  }
  for (int64_t i = 0; i < n; ++i) {  // y = conj(u diag(others) v^H)
    fill(y + i * n, n, 0);
    for (int64_t j = 0; j < n; ++j) add_row(y + i * n, a[i * n + j], vh + j * n, n);
    for (int64_t j = 0; j < n; ++j) y[i * n + j] = conj_of(y[i * n + j]);
  }
  factor_lu(u, n, n, pivots);
  S phase = product_of(u, pivots, n);
  factor_lu(vh, n, n, pivots);
  phase *= product_of(vh, pivots, n);
  for (int64_t i = 0; i < n * n; ++i) y[i] *= phase;
  return true;
}

}  // namespace

size_t lu_scratch(const Call& c) {
  const View& x = c.in[0];
  const int64_t m = x.shape[x.rank - 2], n = side(x);
  return batch_bytes(x, Stack(x, 2), m * n + n);
}
Status lu(const Call& c) {
  const View &x = c.in[0], &y = c.out[0], &where = c.out[1], &info = c.out[2];
  const int64_t m = x.shape[x.rank - 2], n = side(x), count = m < n ? m : n;
  const Stack stack(x, 2);
  return each_matrix(c, stack, m * n + n, [&](int64_t i, auto* a) {
    auto* pivots = reinterpret_cast<int32_t*>(a + m * n);
    read_matrix(x, stack.at(x, 2, i), a);
    const int64_t zero = factor_lu(a, m, n, pivots);
    write_matrix(a, y, stack.at(y, 2, i));
    int32_t* to = where.as<int32_t>() + stack.at(where, 1, i);
    for (int64_t k = 0; k < count; ++k) to[k * where.stride[where.rank - 1]] = pivots[k] + 1;
    info.as<int32_t>()[stack.at(info, 0, i)] = static_cast<int32_t>(zero);
    return Status::kOk;
  });
}

size_t permute_rows_scratch(const Call& c) {
  const View& x = c.in[0];
  return batch_bytes(x, Stack(x, 2), x.shape[x.rank - 2] * side(x));
}
Status permute_rows(const Call& c) {
  const View &x = c.in[0], &where = c.in[1], &y = c.out[0];
  const int64_t m = x.shape[x.rank - 2], n = side(x), count = where.shape[where.rank - 1];
  const bool back = c.attr<PermuteRowsAttrs>().inverse != 0;
  const Stack stack(x, 2);
  return each_matrix(c, stack, m * n, [&](int64_t i, auto* a) {
    read_matrix(x, stack.at(x, 2, i), a);
    const int32_t* pivots = where.as<int32_t>() + stack.at(where, 1, i);
    for (int64_t k = 0; k < count; ++k) {
      const int64_t row = back ? count - 1 - k : k;
      const int64_t other = int64_t{pivots[row * where.stride[where.rank - 1]]} - 1;
      if (other < 0 || other >= m) return Status::kOutOfRange;
      if (other != row) swap_rows(a + row * n, a + other * n, n);
    }
    write_matrix(a, y, stack.at(y, 2, i));
    return Status::kOk;
  });
}

size_t solve_scratch(const Call& c) {
  const View &a = c.in[0], &z = c.out[0];
  const int64_t n = side(a), k = side(z);
  return batch_bytes(a, Stack(z, 2), n * (n + k + 1));
}
Status solve(const Call& c) {
  const View &a = c.in[0], &b = c.in[1], &z = c.out[0];
  const int64_t n = side(a), k = side(z);
  const Stack stack(z, 2);
  return each_matrix(c, stack, n * (n + k + 1), [&](int64_t i, auto* work) {
    auto* right = work + n * n;
    auto* pivots = reinterpret_cast<int32_t*>(right + n * k);
    read_matrix(a, stack.at(a, 2, i), work);
    read_matrix(b, stack.at(b, 2, i), right);
    if (factor_lu(work, n, n, pivots) != 0) return Status::kSingular;
    solve_lu(work, pivots, n, right, k);
    write_matrix(right, z, stack.at(z, 2, i));
    return Status::kOk;
  });
}

size_t inverse_scratch(const Call& c) {
  const View& x = c.in[0];
  return batch_bytes(x, Stack(x, 2), side(x) * (2 * side(x) + 1));
}
Status inverse(const Call& c) {
  const View &x = c.in[0], &y = c.out[0];
  const int64_t n = side(x);
  const bool checked = c.attr<InverseAttrs>().checked != 0;
  const Stack stack(x, 2);
  return each_matrix(c, stack, n * (2 * n + 1), [&](int64_t i, auto* work) {
    auto* right = work + n * n;
    auto* pivots = reinterpret_cast<int32_t*>(right + n * n);
    read_matrix(x, stack.at(x, 2, i), work);
    make_identity(right, n, n);
    if (factor_lu(work, n, n, pivots) == 0) {
      solve_lu(work, pivots, n, right, n);
    } else if (checked) {
      return Status::kSingular;
    } else {
      fill(right, n * n, 0);
    }
    write_matrix(right, y, stack.at(y, 2, i));
    return Status::kOk;
  });
}

size_t det_scratch(const Call& c) {
  const View& x = c.in[0];
  return batch_bytes(x, Stack(x, 2), side(x) * (side(x) + 1));
}
Status det(const Call& c) {
  const View &x = c.in[0], &y = c.out[0];
  const int64_t n = side(x);
  const Stack stack(x, 2);
  return each_matrix(c, stack, n * (n + 1), [&](int64_t i, auto* a) {
    auto* pivots = reinterpret_cast<int32_t*>(a + n * n);
    read_matrix(x, stack.at(x, 2, i), a);
    factor_lu(a, n, n, pivots);
    const auto total = product_of(a, pivots, n);
    write(&total, y, stack.at(y, 0, i), 1, 0, 1, 0);
    return Status::kOk;
  });
}

size_t slogdet_scratch(const Call& c) { return det_scratch(c); }
Status slogdet(const Call& c) {
  const View &x = c.in[0], &sign = c.out[0], &logdet = c.out[1];
  const int64_t n = side(x);
  const Stack stack(x, 2);
  return each_matrix(c, stack, n * (n + 1), [&](int64_t i, auto* a) {
    auto* pivots = reinterpret_cast<int32_t*>(a + n * n);
    read_matrix(x, stack.at(x, 2, i), a);
    factor_lu(a, n, n, pivots);
    auto phase = number<std::decay_t<decltype(*a)>>(parity(pivots, n));
    double total = 0;
    for (int64_t k = 0; k < n; ++k) {
      const double size = modulus(a[k * n + k]);
      total += ::log(size);
      phase = size == 0 ? scaled(phase, 0) : phase * scaled(a[k * n + k], 1 / size);
    }
    write(&phase, sign, stack.at(sign, 0, i), 1, 0, 1, 0);
    write(&total, logdet, stack.at(logdet, 0, i), 1, 0, 1, 0);
    return Status::kOk;
  });
}

size_t cofactor_scratch(const Call& c) {
  const View& x = c.in[0];
  const int64_t n = side(x);
  return batch_bytes(x, Stack(x, 2), 4 * n * n + 2 * n + svd_work(n, n));
}
Status cofactor(const Call& c) {
  const View &x = c.in[0], &y = c.out[0];
  const int64_t n = side(x);
  const Stack stack(x, 2);
  return each_matrix(c, stack, 4 * n * n + 2 * n + svd_work(n, n), [&](int64_t i, auto* a) {
    auto* result = a + n * n;
    auto* pivots = reinterpret_cast<int32_t*>(result + n * n);
    read_matrix(x, stack.at(x, 2, i), a);
    if (!cofactors(a, n, result, pivots, result + n * n + n)) return Status::kNoConvergence;
    write_matrix(result, y, stack.at(y, 2, i));
    return Status::kOk;
  });
}

}  // namespace proa::PROA_ISA
