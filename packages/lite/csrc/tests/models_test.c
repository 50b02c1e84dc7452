/* Runs a model of the tests on its recorded input and compares with NumPy's result.
 *
 *     models_test FOLDER NAME...
 */
#include "check.h"

#include <math.h>

enum { kMax = 8, kBatch = 3 };

/* Floats may differ by rounding, whole numbers not at all. */
static void compare(const proa_lite_array* got, const unsigned char* expected, int exact) {
  const size_t size = byte_size(got);
  if (got->dtype != PROA_LITE_FLOAT32 || exact) {
    CHECK(memcmp(got->data, expected, size) == 0);
    return;
  }
  const float* a = got->data;
  for (size_t i = 0; i < size / sizeof(float); ++i) {
    float b;
    memcpy(&b, expected + i * sizeof(float), sizeof(float));
    CHECK(fabsf(a[i] - b) <= 1e-5f * (1.0f + fabsf(b)));
  }
}

/* An int8 model ends in one rounding of whole numbers, so its floats are exact too. */
static void run_model(const char* folder, const char* name) {
  const int exact = strstr(name, "int8") != NULL;
  char file[256];
  size_t size, given_size, expected_size;
  snprintf(file, sizeof(file), "%s.in", name);
  unsigned char* given = read_file(folder, file, &given_size);
  snprintf(file, sizeof(file), "%s.out", name);
  unsigned char* expected = read_file(folder, file, &expected_size);
  snprintf(file, sizeof(file), "%s.proa", name);
  unsigned char* bytes = read_file(folder, file, &size);

  proa_lite_model* model = NULL;
  CHECK_OK(proa_lite_open_bytes(bytes, size, &model), NULL);
  proa_lite_array inputs[kMax], outputs[kMax];
  const int n_in = proa_lite_input_count(model), n_out = proa_lite_output_count(model);
  CHECK(n_in > 0 && n_in <= kMax && n_out > 0 && n_out <= kMax);
  size_t at = 0;
  void* held[kMax];
  for (int i = 0; i < n_in; ++i) {
    inputs[i] = input_spec(model, i, kBatch);
    held[i] = malloc(byte_size(&inputs[i]));
    CHECK(held[i] != NULL && at + byte_size(&inputs[i]) <= given_size);
    memcpy(held[i], given + at, byte_size(&inputs[i]));
    inputs[i].data = held[i];
    at += byte_size(&inputs[i]);
  }
  CHECK(at == given_size);
  for (int run = 0; run < 3; ++run) {
    memset(outputs, 0, sizeof(outputs));
    CHECK_OK(proa_lite_run(model, inputs, outputs), model);
    at = 0;
    for (int i = 0; i < n_out; ++i) {
      CHECK(at + byte_size(&outputs[i]) <= expected_size);
      compare(&outputs[i], expected + at, exact);
      at += byte_size(&outputs[i]);
    }
    CHECK(at == expected_size);
  }
  printf("%s: %d outputs, %zu bytes held, %s\n", name, n_out, proa_lite_memory(model),
         proa_lite_isa());
  proa_lite_close(model);
  for (int i = 0; i < n_in; ++i) free(held[i]);
  free(bytes);
  free(given);
  free(expected);
}

int main(int argc, char** argv) {
  CHECK(argc > 2);
  for (int i = 2; i < argc; ++i) run_model(argv[1], argv[i]);
  return 0;
}
