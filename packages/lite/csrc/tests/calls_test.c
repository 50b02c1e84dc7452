/* Right and wrong calls: changing shapes, results into the caller's memory, NULLs, indices. */
#include "check.h"

#include <math.h>

static const char* folder;

static proa_lite_model* open_mlp(void) {
  char path[1024];
  snprintf(path, sizeof(path), "%s/mlp.proa", folder);
  proa_lite_model* model = NULL;
  CHECK_OK(proa_lite_open(path, &model), NULL);
  return model;
}

static proa_lite_array matrix(float* data, int64_t rows, int64_t columns) {
  proa_lite_array a;
  memset(&a, 0, sizeof(a));
  a.data = data;
  a.dtype = PROA_LITE_FLOAT32;
  a.rank = 2;
  a.shape[0] = rows;
  a.shape[1] = columns;
  return a;
}

static void test_names_and_specs(void) {
  proa_lite_model* model = open_mlp();
  CHECK(proa_lite_abi() == PROA_LITE_ABI);
  CHECK(proa_lite_input_count(model) == 1 && proa_lite_output_count(model) == 1);
  CHECK(strcmp(proa_lite_input_name(model, 0), "x") == 0);
  CHECK(proa_lite_output_name(model, 0) != NULL);
  CHECK(proa_lite_input_name(model, 1) == NULL && proa_lite_output_name(model, -1) == NULL);
  proa_lite_array spec;
  CHECK_OK(proa_lite_input_spec(model, 0, &spec), model);
  CHECK(spec.data == NULL && spec.dtype == PROA_LITE_FLOAT32 && spec.rank == 2);
  CHECK(spec.shape[0] == -1 && spec.shape[1] == 8);
  CHECK_OK(proa_lite_output_spec(model, 0, &spec), model);
  CHECK(spec.rank == 2 && spec.shape[0] == -1 && spec.shape[1] == 5);
  CHECK(proa_lite_input_spec(model, 1, &spec) == PROA_LITE_INVALID_ARGUMENT);
  CHECK(proa_lite_input_spec(model, 0, NULL) == PROA_LITE_INVALID_ARGUMENT);
  CHECK(proa_lite_output_spec(model, -1, &spec) == PROA_LITE_INVALID_ARGUMENT);
  proa_lite_close(model);
}

/* Every row of a batch is what the row gives alone, for batch sizes in any order. */
static void test_shapes_in_sequence(void) {
  enum { kRows = 40 };
  static float x[kRows * 8], alone[kRows * 5];
  for (int i = 0; i < kRows * 8; ++i) x[i] = (float)(i % 17) / 8.0f - 1.0f;
  proa_lite_model* model = open_mlp();
  for (int r = 0; r < kRows; ++r) {
    proa_lite_array in = matrix(x + r * 8, 1, 8), out = matrix(alone + r * 5, 1, 5);
    CHECK_OK(proa_lite_run(model, &in, &out), model);
  }
  static const int sizes[] = {2, 40, 1, 7, 3, 40, 13, 2, 5, 1, 0, 40};
  for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); ++k) {
    proa_lite_array in = matrix(x, sizes[k], 8), out;
    memset(&out, 0, sizeof(out));
    CHECK_OK(proa_lite_run(model, &in, &out), model);
    CHECK(out.rank == 2 && out.shape[0] == sizes[k] && out.shape[1] == 5);
    CHECK(out.dtype == PROA_LITE_FLOAT32);
    for (int i = 0; i < sizes[k] * 5; ++i) {
      CHECK(fabsf(((float*)out.data)[i] - alone[i]) <= 1e-5f * (1.0f + fabsf(alone[i])));
    }
  }
  proa_lite_close(model);
}

static void test_memory_stays(void) {
  float x[16] = {0};
  proa_lite_model* model = open_mlp();
  proa_lite_array in = matrix(x, 2, 8), out;
  memset(&out, 0, sizeof(out));
  CHECK_OK(proa_lite_run(model, &in, &out), model);
  const size_t held = proa_lite_memory(model);
  CHECK(held > 0);
  for (int i = 0; i < 100; ++i) CHECK_OK(proa_lite_run(model, &in, &out), model);
  CHECK(proa_lite_memory(model) == held);
  proa_lite_close(model);
}

/* Results are written to the caller's memory and nowhere else. */
static void test_caller_memory(void) {
  float x[16], y[12];
  for (int i = 0; i < 16; ++i) x[i] = (float)i / 4.0f;
  for (int i = 0; i < 12; ++i) y[i] = -77.0f;
  proa_lite_model* model = open_mlp();
  proa_lite_array in = matrix(x, 2, 8), own, out = matrix(y + 1, 2, 5);
  CHECK_OK(proa_lite_run(model, &in, &out), model);
  CHECK(out.data == y + 1 && y[0] == -77.0f && y[11] == -77.0f);
  memset(&own, 0, sizeof(own));
  CHECK_OK(proa_lite_run(model, &in, &own), model);
  CHECK(own.data != NULL && own.data != y + 1);
  CHECK(memcmp(own.data, y + 1, 10 * sizeof(float)) == 0);

  out = matrix(y, 2, 6); /* not the shape of the result */
  CHECK(proa_lite_run(model, &in, &out) == PROA_LITE_INVALID_ARGUMENT);
  CHECK(strstr(proa_lite_error(model), "output") != NULL);
  out = matrix(y, 2, 5);
  out.dtype = PROA_LITE_INT32;
  CHECK(proa_lite_run(model, &in, &out) == PROA_LITE_INVALID_ARGUMENT);
  proa_lite_close(model);
}

static void refused(proa_lite_model* model, const proa_lite_array* in, const char* why) {
  proa_lite_array out;
  memset(&out, 0, sizeof(out));
  CHECK(proa_lite_run(model, in, &out) == PROA_LITE_INVALID_ARGUMENT);
  if (strstr(proa_lite_error(model), why) == NULL) {
    fprintf(stderr, "'%s' must say '%s'\n", proa_lite_error(model), why);
    exit(1);
  }
}

static void test_wrong_inputs(void) {
  float x[16] = {0};
  proa_lite_model* model = open_mlp();
  proa_lite_array in = matrix(x, 2, 7);
  refused(model, &in, "must have shape (?, 8), got (2, 7)");
  in = matrix(x, 2, 8);
  in.rank = 1;
  refused(model, &in, "got (2,)");
  in.rank = 1000;
  refused(model, &in, "must have shape");
  in.rank = -5;
  refused(model, &in, "must have shape");
  in = matrix(x, -3, 8);
  refused(model, &in, "must have shape");
  in = matrix(x, INT64_MAX / 2, 8);
  refused(model, &in, "must have shape");
  in = matrix(x, 2, 8);
  in.dtype = PROA_LITE_INT8;
  refused(model, &in, "must have dtype");
  in = matrix(NULL, 2, 8);
  refused(model, &in, "must have data, got NULL");
  refused(model, NULL, "must not be NULL");
  in = matrix(x, 2, 8);
  CHECK(proa_lite_run(model, &in, NULL) == PROA_LITE_INVALID_ARGUMENT);
  CHECK(proa_lite_run(NULL, &in, &in) == PROA_LITE_INVALID_ARGUMENT);
  /* After all that it still works. */
  proa_lite_array out;
  memset(&out, 0, sizeof(out));
  CHECK_OK(proa_lite_run(model, &in, &out), model);
  proa_lite_close(model);
}

static void test_null_models(void) {
  proa_lite_array spec;
  proa_lite_model* model = (proa_lite_model*)&spec;
  CHECK(proa_lite_open(NULL, &model) == PROA_LITE_INVALID_ARGUMENT);
  CHECK(proa_lite_open("x.proa", NULL) == PROA_LITE_INVALID_ARGUMENT);
  CHECK(proa_lite_open_bytes(NULL, 9, &model) == PROA_LITE_INVALID_ARGUMENT);
  CHECK(proa_lite_error(NULL)[0] == '[');
  CHECK(proa_lite_input_count(NULL) == 0 && proa_lite_output_count(NULL) == 0);
  CHECK(proa_lite_input_name(NULL, 0) == NULL && proa_lite_output_name(NULL, 0) == NULL);
  CHECK(proa_lite_input_spec(NULL, 0, &spec) == PROA_LITE_INVALID_ARGUMENT);
  CHECK(proa_lite_memory(NULL) == 0);
  proa_lite_close(NULL);
}

int main(int argc, char** argv) {
  CHECK(argc > 1);
  folder = argv[1];
  test_names_and_specs();
  test_shapes_in_sequence();
  test_memory_stays();
  test_caller_memory();
  test_wrong_inputs();
  test_null_models();
  return 0;
}
