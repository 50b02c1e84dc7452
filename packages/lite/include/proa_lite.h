/* Runs Proa model files in a few hundred kilobytes. C99; no C++ library, no threads.
 *
 * A model serves one thread at a time. Every function that can fail returns a status, and
 * proa_lite_error() says what must hold and what was given. Memory is taken when a model is
 * opened and when inputs come in new shapes; a run in shapes seen before takes none.
 */
#ifndef PROA_LITE_H_
#define PROA_LITE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when a function or struct changes its meaning; see proa_lite_abi(). */
#define PROA_LITE_ABI 1
#define PROA_LITE_MAX_RANK 8

typedef enum proa_lite_status {
  PROA_LITE_OK = 0,
  PROA_LITE_INVALID_ARGUMENT = 1,   /* a shape, dtype, index or pointer that is not right */
  PROA_LITE_OUT_OF_RANGE = 2,       /* an index found in the data */
  PROA_LITE_UNIMPLEMENTED = 3,      /* an op or dtype that this library was built without */
  PROA_LITE_RESOURCE_EXHAUSTED = 4, /* no memory */
  PROA_LITE_BAD_MODEL = 6,          /* not a model file, or a damaged one */
  PROA_LITE_VERSION = 7,            /* a model of another format or op version */
  PROA_LITE_NOT_FOUND = 8           /* no such file */
} proa_lite_status;

typedef enum proa_lite_dtype {
  PROA_LITE_BOOL = 0,
  PROA_LITE_UINT8 = 1,
  PROA_LITE_INT8 = 2,
  PROA_LITE_INT16 = 3,
  PROA_LITE_INT32 = 4,
  PROA_LITE_INT64 = 5,
  PROA_LITE_FLOAT16 = 6,
  PROA_LITE_BFLOAT16 = 7,
  PROA_LITE_FLOAT32 = 8,
  PROA_LITE_FLOAT64 = 9,
  PROA_LITE_COMPLEX64 = 10,
  PROA_LITE_COMPLEX128 = 11
} proa_lite_dtype;

/* A row-major array. In a model's specification a shape of -1 may vary. */
typedef struct proa_lite_array {
  void* data;
  int32_t dtype; /* proa_lite_dtype */
  int32_t rank;
  int64_t shape[PROA_LITE_MAX_RANK];
} proa_lite_array;

typedef struct proa_lite_model proa_lite_model;

/* PROA_LITE_ABI of the library that is loaded. */
int32_t proa_lite_abi(void);

/* Names the instruction set in use: scalar, avx2, avx512, neon or neondot. */
const char* proa_lite_isa(void);

/* Opens a model file, which is read into memory: it may then be replaced, overwritten or removed.
 * A file that changes while it is read is refused. On failure *model is NULL. */
proa_lite_status proa_lite_open(const char* path, proa_lite_model** model);

/* Opens a model in memory, in place: `bytes` is aligned to 16, stays until the close, and must not
 * change. So a program may map a file itself; if another one then writes to that file, or truncates
 * it, results are undefined and the process may end with SIGBUS. */
proa_lite_status proa_lite_open_bytes(const void* bytes, size_t size, proa_lite_model** model);

/* Frees the model; NULL is allowed. */
void proa_lite_close(proa_lite_model* model);

/* What went wrong in the last call on this model; with NULL, in the last open. Never NULL. */
const char* proa_lite_error(const proa_lite_model* model);

int32_t proa_lite_input_count(const proa_lite_model* model);
int32_t proa_lite_output_count(const proa_lite_model* model);

/* Name of an input or output; NULL if there is none of that index. Lives as long as the model. */
const char* proa_lite_input_name(const proa_lite_model* model, int32_t index);
const char* proa_lite_output_name(const proa_lite_model* model, int32_t index);

/* dtype and shape as the file states them (data is NULL). */
proa_lite_status proa_lite_input_spec(proa_lite_model* model, int32_t index, proa_lite_array* spec);
proa_lite_status proa_lite_output_spec(proa_lite_model* model, int32_t index,
                                       proa_lite_array* spec);

/* Runs on as many inputs as the model has, read in place. An output whose data is NULL is set
 * to memory of the model, which the next run overwrites; else the result is written to data,
 * and dtype and shape must be those of the result. */
proa_lite_status proa_lite_run(proa_lite_model* model, const proa_lite_array* inputs,
                               proa_lite_array* outputs);

/* Bytes the model holds besides its file: tables, prepacked weights, arena. */
size_t proa_lite_memory(const proa_lite_model* model);

#ifdef __cplusplus
}
#endif

#endif /* PROA_LITE_H_ */
