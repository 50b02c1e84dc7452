// Matrix products by oneDNN, prepared once and then run by a call that costs little. Built by
// peers.py, which loads the library before.
#include <stdint.h>
#include <stdlib.h>

#include "oneapi/dnnl/dnnl.h"

typedef struct {
  dnnl_primitive_t primitive;
  dnnl_stream_t stream;
  dnnl_exec_arg_t args[3];
} Product;

static dnnl_engine_t engine(void) {
  static dnnl_engine_t one;
  if (one == NULL) dnnl_engine_create(&one, dnnl_cpu, 0);
  return one;
}

// z = x @ y for `batch` pairs of row-major matrices, or with y (n, k) read turned; either of float
// or of uint8 by int8 with int32 sums. Returns NULL if it cannot be had.
void* onednn_product(int64_t batch, int64_t m, int64_t k, int64_t n, int turned, int int8, void* x,
                     void* y, void* z) {
  const dnnl_dims_t x_dims = {batch, m, k}, y_dims = {batch, k, n}, z_dims = {batch, m, n};
  const dnnl_dims_t x_steps = {m * k, k, 1}, z_steps = {m * n, n, 1};
  const dnnl_dims_t y_steps = {k * n, turned ? 1 : n, turned ? k : 1};
  dnnl_memory_desc_t form[3];
  dnnl_memory_desc_create_with_strides(&form[0], 3, x_dims, int8 ? dnnl_u8 : dnnl_f32, x_steps);
  dnnl_memory_desc_create_with_strides(&form[1], 3, y_dims, int8 ? dnnl_s8 : dnnl_f32, y_steps);
  dnnl_memory_desc_create_with_strides(&form[2], 3, z_dims, int8 ? dnnl_s32 : dnnl_f32, z_steps);
  Product* p = malloc(sizeof *p);
  dnnl_primitive_desc_t desc;
  if (p == NULL || dnnl_matmul_primitive_desc_create(&desc, engine(), form[0], form[1], NULL,
                                                     form[2], NULL) != dnnl_success)
    return NULL;
  if (dnnl_primitive_create(&p->primitive, desc) != dnnl_success) return NULL;
  dnnl_primitive_desc_destroy(desc);
  dnnl_stream_create(&p->stream, engine(), dnnl_stream_default_flags);
  const int role[3] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
  void* const data[3] = {x, y, z};
  for (int i = 0; i < 3; ++i) {
    p->args[i].arg = role[i];
    if (dnnl_memory_create(&p->args[i].memory, form[i], engine(), data[i]) != dnnl_success)
      return NULL;
    dnnl_memory_desc_destroy(form[i]);
  }
  return p;
}

void onednn_run(void* product) {
  Product* const p = product;
  dnnl_primitive_execute(p->primitive, p->stream, 3, p->args);
  dnnl_stream_wait(p->stream);
}

void onednn_free(void* product) {
  Product* const p = product;
  for (int i = 0; i < 3; ++i) dnnl_memory_destroy(p->args[i].memory);
  dnnl_stream_destroy(p->stream);
  dnnl_primitive_destroy(p->primitive);
  free(p);
}
