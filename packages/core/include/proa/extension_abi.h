/* What an extension and the library that loads it agree on: plain C, and a version.
 * Authors of operators include proa/extension.h, which is written in terms of this file alone. */
#ifndef PROA_EXTENSION_ABI_H
#define PROA_EXTENSION_ABI_H

#include <stddef.h>
#include <stdint.h>

/* Raised by every change that an extension built before could not live with. */
#define PROA_EXTENSION_ABI 1
/* The one function that an extension exports. */
#define PROA_EXTENSION_ENTRY "proa_extension_entry"
#define PROA_EXTENSION_MAX_RANK 8

#ifdef __cplusplus
extern "C" {
#endif

/* Elements in memory; strides count elements. dtype: bool 0, uint8, int8, int16, int32, int64,
 * float16 6, bfloat16, float32, float64, complex64 10, complex128. */
typedef struct ProaView {
  void* data;
  int64_t shape[PROA_EXTENSION_MAX_RANK];
  int64_t stride[PROA_EXTENSION_MAX_RANK];
  int8_t rank;
  uint8_t dtype;
} ProaView;

/* A view and who owns its memory (null: nobody that the extension could keep it by). */
typedef struct ProaTensor {
  ProaView view;
  void* memory;
} ProaTensor;

/* What the library offers. */
typedef struct ProaHost {
  uint32_t abi;
  uint32_t size; /* of this struct: functions are only ever added at its end */
  /* New memory, 64-byte aligned, owned by the caller; null if there is none left. */
  void* (*allocate)(size_t bytes, void** data);
  void (*retain)(void* memory);
  void (*drop)(void* memory);
  /* Runs body over chunks of [0, n) of at least `grain` on the library's threads. */
  void (*parallel)(int64_t n, int64_t grain, void (*body)(void* arg, int64_t begin, int64_t end),
                   void* arg);
  /* Returns the next result of the operator that runs (or of its inference: shape and dtype). */
  void (*result)(void* sink, const ProaTensor* tensor);
  /* Says why a function returns other than 0. */
  void (*fail)(void* sink, const char* message);
} ProaHost;

/* The arguments of one call. Input i of the operator has counts[i] tensors, one after the other.
 * Attributes, each in turn: kind and count (uint32 each), then values of 8 bytes (int64 or
 * double), or for text: length (int64) and bytes padded to 8. */
typedef struct ProaArguments {
  const ProaTensor* tensors;
  const int64_t* counts;
  int32_t input_count;
  int32_t infers; /* tensors have no data: only shapes and dtypes are requested */
  const uint8_t* attributes;
  size_t attribute_bytes;
  void* sink;
} ProaArguments;

enum { PROA_ATTRIBUTE_INTS = 1, PROA_ATTRIBUTE_FLOATS = 2, PROA_ATTRIBUTE_TEXTS = 3 };

/* An operator. Functions return 0, or another number after `fail`. */
typedef struct ProaOperator {
  const char* name; /* the gradient of "op" is "op_grad", its gradient "op_grad_grad" */
  const char* const* inputs;
  const char* const* outputs;
  const char* const* attributes; /* "name: type" */
  int32_t input_count;
  int32_t output_count;
  int32_t attribute_count;
  int (*run)(const struct ProaOperator* self, const ProaArguments* arguments);
  int (*infer)(const struct ProaOperator* self, const ProaArguments* arguments);
  const void* own; /* the extension's */
} ProaOperator;

typedef struct ProaExtension {
  uint32_t abi;
  int32_t operator_count;
  const ProaOperator* operators;
} ProaExtension;

/* Called once, with the library's functions; null if their version is not the extension's. */
typedef const ProaExtension* (*ProaExtensionEntry)(const ProaHost* host);

#ifdef __cplusplus
}
#endif
#endif
