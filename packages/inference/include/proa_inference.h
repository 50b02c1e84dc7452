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
#define PROA_INFERENCE_ABI 2
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

/* The calls that led to this thread's last failure, one a line, the innermost first; empty after
 * FLAGS_call_stack_level was set below 2, and before a failure. Valid until the next call. */
const char* proa_last_error_stack(void);

/* Version of the library, such as "0.1.0". */
const char* proa_version(void);

/* Bytes of an element, 0 for an unknown dtype. */
size_t proa_dtype_size(proa_dtype dtype);

/* -- the process ----------------------------------------------------------------------------- */

/* Sets what a variable of the environment of that name would. PROA_NUM_THREADS: threads of the pool
 * that the process shares; FLAGS_call_stack_level: 2 (at first) notes the calls that led to an
 * error, 0 and 1 do not; before the first model is loaded also PROA_ISA, PROA_BF16, PROA_AMX,
 * PROA_CACHES and PROA_WINOGRAD, whose values that load checks. Not while another thread may read
 * the environment. */
proa_status proa_set_flag(const char* name, const char* value);
/* The value, empty if none is set, NULL for a name that is no flag; valid until it is set again. */
const char* proa_flag(const char* name);

/* Loads a shared library of operators written against proa/extension.h, so that models which are
 * loaded thereafter may name them. The same library twice is loaded once. PROA_NOT_FOUND if there
 * is no such file, PROA_INVALID_ARGUMENT if it holds no operators, or those for another version of
 * that header. */
proa_status proa_load_operators(const char* path);

/* -- configs ------------------------------------------------------------------------------- */

#define PROA_KEY_BYTES 32
/* Writes the key of an encrypted model and returns 0, or another number if it has none. */
typedef int32_t (*proa_key_callback)(void* context, uint8_t key[PROA_KEY_BYTES]);

typedef struct proa_config proa_config;

/* NULL if there is no memory. */
proa_config* proa_config_create(void);
proa_config* proa_config_copy(const proa_config* from);
/* Frees a config; NULL is allowed. Predictors of it live on. */
void proa_config_free(proa_config* config);

/* The model: a file, a folder with one file *.proa, or bytes, which are copied. A file and bytes
 * may be encrypted. The graph runs as the file has it: write it by `proa-infer optimize` to run it
 * after the graph passes. */
proa_status proa_config_set_model(proa_config* config, const char* path);
proa_status proa_config_set_model_bytes(proa_config* config, const void* bytes, size_t size);
/* Path of the model's file, empty if it is bytes or not given; valid until the config changes. */
const char* proa_config_model(const proa_config* config);
int32_t proa_config_in_memory(const proa_config* config);

/* 1 for the calling thread alone, n for a pool of n, 0 for the pool that the process shares. */
proa_status proa_config_set_threads(proa_config* config, int32_t threads);
int32_t proa_config_threads(const proa_config* config);

/* Plans, one for each set of input shapes: keep so many, and tables of so many bytes (0: any). The
 * least recently used are dropped. */
proa_status proa_config_set_plan_cache(proa_config* config, int32_t count, size_t max_bytes);

/* Has a predictor made only of a model that computes in bfloat16, as `proa-infer optimize --bf16`
 * or convert_to_mixed_precision wrote it; another is PROA_INVALID_ARGUMENT. PROA_UNIMPLEMENTED if
 * the CPU cannot multiply bfloat16 (AVX512_BF16). */
proa_status proa_config_enable_bf16(proa_config* config);
int32_t proa_config_bf16(const proa_config* config);

/* What gives the key of an encrypted model, called once by proa_predictor_create. */
proa_status proa_config_set_key(proa_config* config, proa_key_callback key, void* context);

/* Sets *value to the metadata of the model under a key, NULL if there is none: `passes` are the
 * names of the graph passes that wrote it, with commas. The file is read; the text is valid until
 * the next call. */
proa_status proa_config_metadata(proa_config* config, const char* key, const char** value);

/* Graph passes. Those that rewrite a graph run when its file is written, by `proa-infer optimize`;
 * `chain_elementwise`, by which elementwise operators run block by block, is chosen at load.
 *
 * Sets *names to those that wrote the file and run at load, in order, with commas; "" without a
 * model. The text is valid until the next call. */
proa_status proa_config_passes(proa_config* config, const char** names);
/* Adds a pass at the end, or takes it out. PROA_NOT_FOUND if one to take out is not in the list,
 * PROA_UNIMPLEMENTED for one that would rewrite the graph: the message says how to write the file.
 */
proa_status proa_config_append_pass(proa_config* config, const char* name);
proa_status proa_config_delete_pass(proa_config* config, const char* name);
/* 0: run no passes at load. */
proa_status proa_config_set_ir_optim(proa_config* config, int32_t on);
int32_t proa_config_ir_optim(const proa_config* config);

/* A predictor of a config, which may change or end thereafter. On failure *predictor is NULL. */
proa_status proa_predictor_create(const proa_config* config, proa_predictor** predictor);

/* -- encrypted models ---------------------------------------------------------------------- */

/* AES-256-GCM by OpenSSL's libcrypto, which is loaded when it is needed; without it these fail
 * with PROA_UNIMPLEMENTED. `out` has size + PROA_CIPHER_BYTES bytes, or as many fewer. Bytes that
 * were changed, or another key, are PROA_BAD_MODEL. */
#define PROA_CIPHER_BYTES 40
proa_status proa_encrypt(const void* bytes, size_t size, const uint8_t key[PROA_KEY_BYTES],
                         void* out);
proa_status proa_decrypt(const void* bytes, size_t size, const uint8_t key[PROA_KEY_BYTES],
                         void* out);

/* -- predictors ---------------------------------------------------------------------------- */

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

/* Calls `callback` after each step of later runs, with its operator, the name of its first output
 * and how long it took; NULL ends that. */
typedef void (*proa_profile_callback)(void* context, const char* op, const char* name,
                                      int64_t nanoseconds);
proa_status proa_predictor_set_profile(proa_predictor* predictor, proa_profile_callback callback,
                                       void* context);

/* Frees what runs left, which the next run allocates again; returns the bytes. Outputs in memory of
 * the predictor are no longer valid. */
size_t proa_predictor_shrink(proa_predictor* predictor);

/* Bytes of the model, of its prepacked weights (shared by clones), or of the arena and plans. */
#define PROA_MEMORY_MODEL 0
#define PROA_MEMORY_PACKED 1
#define PROA_MEMORY_ARENA 2
size_t proa_predictor_memory(const proa_predictor* predictor, int32_t kind);

/* The metadata of the model file under a key, or NULL; valid as long as the predictor. */
const char* proa_predictor_metadata(const proa_predictor* predictor, const char* key);

/* -- handles ------------------------------------------------------------------------------- */

/* An input or output by name; valid as long as its predictor, which owns it. */
typedef struct proa_tensor proa_tensor;

/* PROA_NOT_FOUND if there is none of that name. */
proa_status proa_predictor_input(proa_predictor* predictor, const char* name, proa_tensor** tensor);
proa_status proa_predictor_output(proa_predictor* predictor, const char* name,
                                  proa_tensor** tensor);

/* Runs on what the inputs' handles hold; the outputs' then hold the results, in memory of the
 * predictor, until its next run. */
proa_status proa_predictor_run_tensors(proa_predictor* predictor);

const char* proa_tensor_name(const proa_tensor* tensor);
proa_dtype proa_tensor_dtype(const proa_tensor* tensor);

/* Gives an input memory of that shape and of its dtype, to be filled. */
proa_status proa_tensor_reshape(proa_tensor* tensor, int32_t rank, const int64_t* shape);
/* Fills it with a row-major array of the shape that proa_tensor_reshape gave. */
proa_status proa_tensor_copy_from(proa_tensor* tensor, const void* data);
/* Lets an input be an array of the caller's, which must live until the run has ended. */
proa_status proa_tensor_share(proa_tensor* tensor, const proa_array* array);
/* Copies what the handle holds to `data`, row-major. */
proa_status proa_tensor_copy_to(const proa_tensor* tensor, void* data);
/* What the handle holds, in place. An input's may be written. */
proa_status proa_tensor_array(const proa_tensor* tensor, proa_array* array);

/* How rows belong to sequences: for each level offsets from 0 that do not fall; the last ends with
 * the number of rows. They are kept with the handle and have no effect on a run. */
proa_status proa_tensor_set_lod(proa_tensor* tensor, size_t levels, const size_t* const* offsets,
                                const size_t* counts);
/* Number of offsets of a level, 0 if there is none; sets *offsets, valid until they change. */
size_t proa_tensor_lod(const proa_tensor* tensor, size_t level, const size_t** offsets);

#ifdef __cplusplus
}
#endif

#endif /* PROA_INFERENCE_H_ */
