// Matrix products by oneDNN, prepared once and then run by a call that costs little. Built by
// peers.py, which loads the library before.
#include <stdint.h>
#include <stdlib.h>

#include "oneapi/dnnl/dnnl.h"

typedef struct {
  dnnl_primitive_t primitive;
  dnnl_stream_t stream;
  dnnl_exec_arg_t args[3];
  void* packed;  // memory of y in a form of the library's choice, or NULL
} Product;

static dnnl_engine_t engine(void) {
  static dnnl_engine_t one;
  if (one == NULL) dnnl_engine_create(&one, dnnl_cpu, 0);
  return one;
}

// Has y, in the layout `form`, copied to the layout the primitive wants.
static dnnl_memory_t pack(Product* p, const_dnnl_memory_desc_t wanted, dnnl_memory_desc_t form,
                          void* y) {
  dnnl_memory_t from, to;
  dnnl_primitive_desc_t desc;
  dnnl_primitive_t copy;
  const size_t line = 64, bytes = (dnnl_memory_desc_get_size(wanted) + line - 1) / line * line;
  p->packed = aligned_alloc(line, bytes);
  if (p->packed == NULL || dnnl_memory_create(&from, form, engine(), y) != dnnl_success ||
      dnnl_memory_create(&to, wanted, engine(), p->packed) != dnnl_success ||
      dnnl_reorder_primitive_desc_create(&desc, form, engine(), wanted, engine(), NULL) !=
          dnnl_success ||
      dnnl_primitive_create(&copy, desc) != dnnl_success)
    return NULL;
  const dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
  dnnl_primitive_execute(copy, p->stream, 2, args);
  dnnl_stream_wait(p->stream);
  dnnl_primitive_destroy(copy);
  dnnl_primitive_desc_destroy(desc);
  dnnl_memory_destroy(from);
  return to;
}

// z = x @ y for `batch` pairs of row-major matrices, or with y transposed; either of float
// or of uint8 by int8 with int32 sums. With `prepacked` y is packed now, not in every run. Returns
// NULL if it cannot be created.
void* onednn_product(int64_t batch, int64_t m, int64_t k, int64_t n, int transpose_b, int int8,
                     int prepacked, void* x, void* y, void* z) {
  const dnnl_dims_t x_dims = {batch, m, k}, y_dims = {batch, k, n}, z_dims = {batch, m, n};
  const dnnl_dims_t x_steps = {m * k, k, 1}, z_steps = {m * n, n, 1};
  const dnnl_dims_t y_steps = {k * n, transpose_b ? 1 : n, transpose_b ? k : 1};
  dnnl_memory_desc_t form[3], any = NULL;
  dnnl_memory_desc_create_with_strides(&form[0], 3, x_dims, int8 ? dnnl_u8 : dnnl_f32, x_steps);
  dnnl_memory_desc_create_with_strides(&form[1], 3, y_dims, int8 ? dnnl_s8 : dnnl_f32, y_steps);
  dnnl_memory_desc_create_with_strides(&form[2], 3, z_dims, int8 ? dnnl_s32 : dnnl_f32, z_steps);
  if (prepacked && dnnl_memory_desc_create_with_tag(&any, 3, y_dims, int8 ? dnnl_s8 : dnnl_f32,
                                                    dnnl_format_tag_any) != dnnl_success)
    return NULL;
  Product* p = calloc(1, sizeof *p);
  dnnl_primitive_desc_t desc;
  if (p == NULL ||
      dnnl_matmul_primitive_desc_create(&desc, engine(), form[0], prepacked ? any : form[1], NULL,
                                        form[2], NULL) != dnnl_success)
    return NULL;
  if (dnnl_primitive_create(&p->primitive, desc) != dnnl_success) return NULL;
  dnnl_stream_create(&p->stream, engine(), dnnl_stream_default_flags);
  const int role[3] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
  void* const data[3] = {x, y, z};
  for (int i = 0; i < 3; ++i) {
    p->args[i].arg = role[i];
    if (i == 1 && prepacked) {
      const_dnnl_memory_desc_t wanted =
          dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0);
      p->args[i].memory = pack(p, wanted, form[i], y);
      if (p->args[i].memory == NULL) return NULL;
    } else if (dnnl_memory_create(&p->args[i].memory, form[i], engine(), data[i]) != dnnl_success) {
      return NULL;
    }
    dnnl_memory_desc_destroy(form[i]);
  }
  dnnl_primitive_desc_destroy(desc);
  if (any != NULL) dnnl_memory_desc_destroy(any);
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
  free(p->packed);
  free(p);
}
