/* What the C tests share: a check that ends the program, files, and models with their records. */
#ifndef CHECK_H_
#define CHECK_H_

#define _POSIX_C_SOURCE 200809L /* posix_memalign, mkstemp */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proa_lite.h"

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                      \
    }                                                                               \
  } while (0)

/* Like CHECK(status == PROA_LITE_OK), but prints why not. */
#define CHECK_OK(call, model)                                                                \
  do {                                                                                       \
    if ((call) != PROA_LITE_OK) {                                                            \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, proa_lite_error(model)); \
      exit(1);                                                                               \
    }                                                                                        \
  } while (0)

/* Memory aligned to 64, for the caller to free. */
static inline unsigned char* allocate(size_t size) {
  void* memory = NULL;
  CHECK(posix_memalign(&memory, 64, size > 0 ? size : 1) == 0);
  return memory;
}

/* The file folder/name in memory aligned to 64, for the caller to free. */
static inline unsigned char* read_file(const char* folder, const char* name, size_t* size) {
  char path[1024];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  FILE* file = fopen(path, "rb");
  if (file == NULL) {
    fprintf(stderr, "cannot read %s\n", path);
    exit(1);
  }
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  unsigned char* bytes = allocate(*size);
  CHECK(fread(bytes, 1, *size, file) == *size);
  fclose(file);
  return bytes;
}

static inline size_t item_size(int32_t dtype) {
  static const size_t kSize[] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
  return kSize[dtype];
}

static inline size_t byte_size(const proa_lite_array* a) {
  size_t size = item_size(a->dtype);
  for (int i = 0; i < a->rank; ++i) size *= (size_t)a->shape[i];
  return size;
}

/* The specification of an input with `batch` in place of each -1. */
static inline proa_lite_array input_spec(proa_lite_model* model, int32_t index, int64_t batch) {
  proa_lite_array spec;
  CHECK_OK(proa_lite_input_spec(model, index, &spec), model);
  for (int i = 0; i < spec.rank; ++i) {
    if (spec.shape[i] < 0) spec.shape[i] = batch;
  }
  return spec;
}

#endif /* CHECK_H_ */
