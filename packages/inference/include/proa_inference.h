/* Runs Proa model files from C. Link with -lproa_inference.
 *
 * Every function that can fail returns a proa_status; proa_last_error() then says what must
 * hold and what was given. A predictor serves one thread at a time: clone it for more, which
 * shares the weights. Pointers handed out stay valid as stated at each function.
 */
#ifndef PROA_INFERENCE_H_
#define PROA_INFERENCE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when a function or struct changes its meaning; see proa_abi_version(). */
#define PROA_INFERENCE_ABI 1
#define PROA_MAX_RANK 8

typedef enum proa_status {
  PROA_OK = 0,
  PROA_INVALID_ARGUMENT = 1,   /* a shape, dtype, index or name that is not the model's */
  PROA_OUT_OF_RANGE = 2,       /* an index found in the data */
  PROA_UNIMPLEMENTED = 3,      /* an op or dtype without a kernel in this build */
  PROA_RESOURCE_EXHAUSTED = 4, /* no memory */
  PROA_BAD_MODEL = 6,          /* not a model file, or a damaged one */
  PROA_VERSION = 7,            /* a model or a library of another version */
  PROA_NOT_FOUND = 8,          /* no such file */
  PROA_FAILED = 9              /* anything else */
} proa_status;

typedef enum proa_dtype {
  PROA_BOOL = 0,
  PROA_UINT8 = 1,
  PROA_INT8 = 2,
  PROA_INT16 = 3,
  PROA_INT32 = 4,
  PROA_INT64 = 5,
  PROA_FLOAT16 = 6,
  PROA_BFLOAT16 = 7,
  PROA_FLOAT32 = 8,
  PROA_FLOAT64 = 9,
  PROA_COMPLEX64 = 10,
  PROA_COMPLEX128 = 11
} proa_dtype;

/* A row-major array. In a model's specification a shape of -1 may vary. */
typedef struct proa_array {
  void* data;
  proa_dtype dtype;
  int32_t rank;
  int64_t shape[PROA_MAX_RANK];
} proa_array;

typedef struct proa_predictor proa_predictor;

/* PROA_INFERENCE_ABI of the library that is loaded; compare it with the header's. */
int32_t proa_abi_version(void);

/* The message of this thread's last failure; never NULL, valid until its next call. */
const char* proa_last_error(void);

/* Loads a model file. `threads` is 1 for the calling thread alone, n for a pool of n, 0 for
 * the pool that the process shares. On failure *predictor is NULL. */
proa_status proa_predictor_load(const char* path, int32_t threads, proa_predictor** predictor);

/* As proa_predictor_load, of bytes in memory, which are copied. */
proa_status proa_predictor_load_bytes(const void* bytes, size_t size, int32_t threads,
                                      proa_predictor** predictor);

/* A predictor on the same weights for another thread. */
proa_status proa_predictor_clone(const proa_predictor* from, proa_predictor** predictor);

/* Frees a predictor; NULL is allowed. Clones live on. */
void proa_predictor_free(proa_predictor* predictor);

int32_t proa_input_count(const proa_predictor* predictor);
int32_t proa_output_count(const proa_predictor* predictor);

/* Name of an input or output, NULL if there is none of that index; valid as long as the
 * predictor. */
const char* proa_input_name(const proa_predictor* predictor, int32_t index);
const char* proa_output_name(const proa_predictor* predictor, int32_t index);

/* dtype, rank and shape as the model states them (data is NULL). */
proa_status proa_input_spec(const proa_predictor* predictor, int32_t index, proa_array* spec);
proa_status proa_output_spec(const proa_predictor* predictor, int32_t index, proa_array* spec);

/* Runs on proa_input_count() arrays, read in place. An output whose data is NULL is set to
 * memory of the predictor, valid until its next run or its end; else the result is written
 * to data, whose dtype and shape must be those of the result. */
proa_status proa_predictor_run(proa_predictor* predictor, const proa_array* inputs,
                               proa_array* outputs);

/* Ends the run that another thread has in progress, where the model has branches or loops: that
 * fails with PROA_FAILED before its next round or branch. Later runs are as ever. */
void proa_predictor_stop(proa_predictor* predictor);

#ifdef __cplusplus
}
#endif

#endif /* PROA_INFERENCE_H_ */
