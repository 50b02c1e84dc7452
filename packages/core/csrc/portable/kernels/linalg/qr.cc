// QR factors by Householder reflections (Golub & Van Loan, Matrix Computations, 5.2).
#include "proa/kernels/linalg/dense.h"

namespace proa::PROA_ISA {

template <class S>
void factor_qr(S* a, int64_t m, int64_t n, S* q, int64_t columns, S* work) {
  const int64_t count = m < n ? m : n;
  S *w = work + m, *reflectors = w + (m > n ? m : n);  // m + 1 numbers each: tau, v
  for (int64_t k = 0; k < count; ++k) {
    S *tau = reflectors + k * (m + 1), *v = tau + 1;
    double beta;
    *tau = reflector(a + k * n + k, n, m - k, v, &beta);
    reflect(a + k * n + k, n, m - k, n - k, v, conj_of(*tau), w);
    a[k * n + k] = number<S>(beta);
    for (int64_t i = k + 1; i < m; ++i) a[i * n + k] = number<S>(0);
  }
  make_identity(q, m, columns);
  for (int64_t k = count - 1; k >= 0; --k) {
    const S *tau = reflectors + k * (m + 1), *v = tau + 1;
    reflect(q + k * columns + k, columns, m - k, columns - k, v, *tau, w);
  }
}

template void factor_qr<double>(double*, int64_t, int64_t, double*, int64_t, double*);
template void factor_qr<C128>(C128*, int64_t, int64_t, C128*, int64_t, C128*);

namespace {

int64_t elements(const Call& c) {
  const View& x = c.in[0];
  const int64_t m = x.shape[x.rank - 2], n = x.shape[x.rank - 1];
  return m * n + m * m + qr_work(m, n);
}

Status run(const Call& c) {
  const View &x = c.in[0], &q = c.out[0], &r = c.out[1];
  const int64_t m = x.shape[x.rank - 2], n = x.shape[x.rank - 1];
  const int64_t columns = q.shape[q.rank - 1], rows = r.shape[r.rank - 2];
  const Stack stack(x, 2);
  return each_matrix(c, stack, elements(c), [&](int64_t i, auto* a) {
    auto *b = a + m * n, *work = b + m * m;
    read_matrix(x, stack.at(x, 2, i), a);
    factor_qr(a, m, n, b, columns, work);
    write_matrix(b, q, stack.at(q, 2, i));
    write(a, r, stack.at(r, 2, i), rows, r.stride[r.rank - 2], n, r.stride[r.rank - 1]);
    return Status::kOk;
  });
}

}  // namespace

size_t qr_scratch(const Call& c) {
  const int64_t slots = slots_of(Stack(c.in[0], 2).count);
  return slot_bytes(c.in[0].dtype, elements(c)) * static_cast<size_t>(slots);
}
Status qr(const Call& c) { return run(c); }
size_t qr_complete_scratch(const Call& c) { return qr_scratch(c); }
Status qr_complete(const Call& c) { return run(c); }

}  // namespace proa::PROA_ISA
