/* A backend for Triton that computes y = 2 * x of at most 1024 columns, as the other servers
 * of the suite serve do. The declarations are those of Triton's stable backend API. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef void Error, Request, Response, Input, Output, Instance;

Error* TRITONBACKEND_RequestInputByIndex(Request*, uint32_t index, Input**);
Error* TRITONBACKEND_InputProperties(Input*, const char** name, int* datatype,
                                     const int64_t** shape, uint32_t* dims, uint64_t* bytes,
                                     uint32_t* buffers);
Error* TRITONBACKEND_InputBuffer(Input*, uint32_t index, const void** data, uint64_t* bytes,
                                 int* memory, int64_t* memory_id);
Error* TRITONBACKEND_ResponseNew(Response**, Request*);
Error* TRITONBACKEND_ResponseOutput(Response*, Output**, const char* name, int datatype,
                                    const int64_t* shape, uint32_t dims);
Error* TRITONBACKEND_OutputBuffer(Output*, void** data, uint64_t bytes, int* memory,
                                  int64_t* memory_id);
Error* TRITONBACKEND_ResponseSend(Response*, uint32_t flags, Error*);
Error* TRITONBACKEND_RequestRelease(Request*, uint32_t flags);

enum { kFloat32 = 11, kCpu = 0, kFinal = 1, kReleaseAll = 1, kOutputs = 1024 };

/* Copies the next `count` floats of an input whose bytes are in several buffers. */
static void take(Input* input, uint32_t* buffer, const char** at, uint64_t* left, float* to,
                 uint64_t bytes) {
  while (bytes) {
    while (!*left) {
      int memory;
      int64_t memory_id;
      const void* data;
      TRITONBACKEND_InputBuffer(input, (*buffer)++, &data, left, &memory, &memory_id);
      *at = data;
    }
    uint64_t part = bytes < *left ? bytes : *left;
    if (to) {
      memcpy(to, *at, part);
      to = (float*)((char*)to + part);
    }
    *at += part;
    *left -= part;
    bytes -= part;
  }
}

static void copy_doubled(Input* input, int64_t rows, int64_t columns, float* y) {
  int64_t outputs = columns < kOutputs ? columns : kOutputs;
  uint32_t buffer = 0;
  uint64_t left = 0;
  const char* at = NULL;
  for (int64_t row = 0; row < rows; ++row, y += outputs) {
    take(input, &buffer, &at, &left, y, outputs * 4);
    for (int64_t i = 0; i < outputs; ++i) y[i] *= 2;
    take(input, &buffer, &at, &left, NULL, (columns - outputs) * 4);
  }
}

static void answer(Request* request) {
  Input* input;
  Output* output;
  Response* response;
  const char* name;
  const int64_t* shape;
  uint64_t bytes;
  uint32_t dims, buffers;
  int datatype, memory = kCpu;
  int64_t memory_id = 0;
  TRITONBACKEND_RequestInputByIndex(request, 0, &input);
  TRITONBACKEND_InputProperties(input, &name, &datatype, &shape, &dims, &bytes, &buffers);
  int64_t rows = shape[0], columns = shape[1];
  int64_t output_shape[2] = {rows, columns < kOutputs ? columns : kOutputs};
  if (TRITONBACKEND_ResponseNew(&response, request)) {
    TRITONBACKEND_RequestRelease(request, kReleaseAll);
    return;
  }
  void* data = NULL;
  Error* error = TRITONBACKEND_ResponseOutput(response, &output, "y", kFloat32, output_shape, 2);
  if (!error) {
    error =
        TRITONBACKEND_OutputBuffer(output, &data, rows * output_shape[1] * 4, &memory, &memory_id);
  }
  if (!error && data) copy_doubled(input, rows, columns, data);
  TRITONBACKEND_ResponseSend(response, kFinal, error);
  TRITONBACKEND_RequestRelease(request, kReleaseAll);
}

Error* TRITONBACKEND_ModelInstanceExecute(Instance* instance, Request** requests, uint32_t count) {
  (void)instance;
  for (uint32_t i = 0; i < count; ++i) answer(requests[i]);
  return NULL;
}
