// A matrix product by a CBLAS, its arguments kept from call to call. Built by peers.py.
#include <stdint.h>
#include <stdlib.h>

enum { kRowMajor = 101, kAsIs = 111, kTransposed = 112 };
typedef void (*Sgemm)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                      float, float*, int);
typedef struct {
  Sgemm sgemm;
  int64_t batch;
  int m, k, n, transpose_b;
  const float *x, *y;
  float* z;
} Product;

// z = x @ y for `batch` pairs of row-major matrices, or with y transposed.
void* blas_product(Sgemm sgemm, int64_t batch, int64_t m, int64_t k, int64_t n, int transpose_b,
                   const float* x, const float* y, float* z) {
  Product* const p = malloc(sizeof *p);
  if (p != NULL) *p = (Product){sgemm, batch, (int)m, (int)k, (int)n, transpose_b, x, y, z};
  return p;
}

void blas_run(void* product) {
  const Product* const p = product;
  const int64_t m = p->m, k = p->k, n = p->n;
  for (int64_t i = 0; i < p->batch; ++i)
    p->sgemm(kRowMajor, kAsIs, p->transpose_b ? kTransposed : kAsIs, p->m, p->n, p->k, 1.0f,
             p->x + i * m * k, p->k, p->y + i * k * n, p->transpose_b ? p->k : p->n, 0.0f,
             p->z + i * m * n, p->n);
}

void blas_free(void* product) { free(product); }
