// Moving matrices between arrays and scratch, and Householder reflectors.
#include "proa/kernels/linalg/dense.h"

namespace proa::PROA_ISA {

namespace {

double get(const void* p, DType t, int64_t i, double) {
  return t == DType::kF32 ? static_cast<const float*>(p)[i] : static_cast<const double*>(p)[i];
}
C128 get(const void* p, DType t, int64_t i, C128) {
  if (t == DType::kC128) return static_cast<const C128*>(p)[i];
  if (t == DType::kC64) {
    const C64 x = static_cast<const C64*>(p)[i];
    return {x.re, x.im};
  }
  return {get(p, t, i, 0.0), 0};
}
void put(void* p, DType t, int64_t i, double x) {
  switch (t) {
    case DType::kF32:
      static_cast<float*>(p)[i] = static_cast<float>(x);
      break;
    case DType::kC64:
      static_cast<C64*>(p)[i] = {static_cast<float>(x), 0};
      break;
    case DType::kC128:
      static_cast<C128*>(p)[i] = {x, 0};
      break;
    default:
      static_cast<double*>(p)[i] = x;
  }
}
void put(void* p, DType t, int64_t i, C128 x) {
  if (t == DType::kC64) {
    static_cast<C64*>(p)[i] = {static_cast<float>(x.re), static_cast<float>(x.im)};
  } else {
    static_cast<C128*>(p)[i] = x;
  }
}

}  // namespace

template <class S>
void read(const View& v, int64_t offset, int64_t m, int64_t rows, int64_t n, int64_t columns,
          S* to) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      to[i * n + j] = get(v.data, v.dtype, offset + i * rows + j * columns, S{});
    }
  }
}

template <class S>
void write(const S* from, const View& v, int64_t offset, int64_t m, int64_t rows, int64_t n,
           int64_t columns) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      put(v.data, v.dtype, offset + i * rows + j * columns, from[i * n + j]);
    }
  }
}

template <class S>
S reflector(const S* x, int64_t step, int64_t n, S* v, double* beta) {
  double peak = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double size = modulus(x[i * step]);
    if (!(size <= peak)) peak = size;
  }
  fill(v, n, 0);
  v[0] = number<S>(1);
  *beta = real_of(x[0]);
  bool done = real_of(x[0]) * real_of(x[0]) == squared_modulus(x[0]);  // no imaginary part
  for (int64_t i = 1; done && i < n; ++i) done = squared_modulus(x[i * step]) == 0;
  if (peak == 0 || done) return number<S>(0);
  double total = 0;
  for (int64_t i = 0; i < n; ++i) total += squared_modulus(scaled(x[i * step], 1 / peak));
  const double norm = peak * ::sqrt(total);
  const double to = real_of(x[0]) > 0 ? -norm : norm;
  const S over = number<S>(1) / (x[0] - number<S>(to));
  for (int64_t i = 1; i < n; ++i) v[i] = x[i * step] * over;
  *beta = to;
  return scaled(number<S>(to) - x[0], 1 / to);
}

template <class S>
void reflect(S* a, int64_t step, int64_t n, int64_t m, const S* v, S tau, S* w) {
  fill(w, m, 0);
  for (int64_t i = 0; i < n; ++i) add_row(w, conj_of(v[i]), a + i * step, m);
  for (int64_t i = 0; i < n; ++i) add_row(a + i * step, -(tau * v[i]), w, m);
}

#define PROA_FOR_NUMBER(S)                                                                    \
  template void read<S>(const View&, int64_t, int64_t, int64_t, int64_t, int64_t, S*);        \
  template void write<S>(const S*, const View&, int64_t, int64_t, int64_t, int64_t, int64_t); \
  template S reflector<S>(const S*, int64_t, int64_t, S*, double*);                           \
  template void reflect<S>(S*, int64_t, int64_t, int64_t, const S*, S, S*);
PROA_FOR_NUMBER(double)
PROA_FOR_NUMBER(C128)
#undef PROA_FOR_NUMBER

}  // namespace proa::PROA_ISA
