/* A C program against proa_inference.h: `capi_test MODEL INPUT.f32 OUTPUT.f32 LOOP ROWS.f32`, a
 * model with one (?, 6) float input and two outputs, and one with a loop whose input n says by how
 * many rows the first output exceeds x (?, 8), as tests/test_capi.py makes them. Exit code 0 if all
 * holds. */
#include <math.h>
#include <proa_inference.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static float* read_floats(const char* path, size_t* count) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) return NULL;
  fseek(file, 0, SEEK_END);
  *count = (size_t)ftell(file) / sizeof(float);
  rewind(file);
  float* values = malloc(*count * sizeof(float));
  if (values != NULL && fread(values, sizeof(float), *count, file) != *count) *count = 0;
  fclose(file);
  return values;
}

static int close_to(const float* got, const float* want, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (fabsf(got[i] - want[i]) > 1e-4f * (1.0f + fabsf(want[i]))) return 0;
  }
  return 1;
}

/* `want`: the rows that the loop makes of one row of ones in five rounds. */
static int test_loop(const char* path, const float* want, size_t count) {
  proa_predictor* p = NULL;
  CHECK(count == 48 && proa_predictor_load(path, 1, &p) == PROA_OK);
  proa_array spec, out[2];
  CHECK(proa_output_spec(p, 0, &spec) == PROA_OK && spec.rank == 2 && spec.shape[0] == -1);
  float row[8], mine[48];
  for (int i = 0; i < 8; ++i) row[i] = 1.0f;
  int64_t n = 5;
  proa_array in[2] = {{row, PROA_FLOAT32, 2, {1, 8}}, {&n, PROA_INT64, 0, {0}}};
  memset(out, 0, sizeof(out));
  CHECK(proa_predictor_run(p, in, out) == PROA_OK);
  CHECK(out[0].rank == 2 && out[0].shape[0] == 6 && out[0].shape[1] == 8);
  CHECK(close_to(out[0].data, want, count) && *(int64_t*)out[1].data == 5);

  /* the predictor's memory of the last run may be read by the next; mine must have the shape */
  in[0] = out[0];
  n = 0;
  out[0].data = mine;
  out[1].data = NULL;
  CHECK(proa_predictor_run(p, in, out) == PROA_OK && close_to(mine, want, count));
  /* what is stopped is a run in progress, no later one */
  proa_predictor_stop(NULL);
  proa_predictor_stop(p);
  CHECK(proa_predictor_run(p, in, out) == PROA_OK && close_to(mine, want, count));
  out[0].shape[0] = 5;
  CHECK(proa_predictor_run(p, in, out) == PROA_INVALID_ARGUMENT);
  CHECK(strstr(proa_last_error(), "(6, 8)") != NULL);
  proa_predictor_free(p);
  return 0;
}

static int test_errors(void) {
  CHECK(proa_abi_version() == PROA_INFERENCE_ABI);
  proa_predictor* p = NULL;
  CHECK(proa_predictor_load("/no/such/file.proa", 1, &p) != PROA_OK && p == NULL);
  CHECK(strlen(proa_last_error()) > 0);
  CHECK(proa_predictor_load_bytes("not a model at all", 18, 1, &p) == PROA_BAD_MODEL && p == NULL);
  CHECK(proa_predictor_load(NULL, 1, &p) == PROA_INVALID_ARGUMENT);
  CHECK(proa_predictor_load("x", 1, NULL) == PROA_INVALID_ARGUMENT);
  proa_predictor_free(NULL);
  return 0;
}

/* Loads the model, whose inputs and outputs are those that were stated. */
static int test_load(const char* path, proa_predictor** p_out) {
  CHECK(proa_predictor_load(path, 1, p_out) == PROA_OK && *p_out != NULL);
  proa_predictor* p = *p_out;
  CHECK(proa_input_count(p) == 1 && proa_output_count(p) == 2);
  CHECK(strcmp(proa_input_name(p, 0), "x") == 0 && strcmp(proa_output_name(p, 0), "y") == 0);
  CHECK(proa_input_name(p, 1) == NULL && proa_output_name(p, -1) == NULL);
  proa_array spec;
  CHECK(proa_input_spec(p, 0, &spec) == PROA_OK && spec.rank == 2 && spec.shape[0] == -1 &&
        spec.shape[1] == 6 && spec.dtype == PROA_FLOAT32);
  CHECK(proa_input_spec(p, 5, &spec) == PROA_INVALID_ARGUMENT);

  /* the model is in memory: its file may be emptied, as `cp new model` does first */
  FILE* emptied = fopen(path, "wb");
  CHECK(emptied != NULL && fclose(emptied) == 0);
  proa_predictor* none = NULL;
  CHECK(proa_predictor_load(path, 1, &none) == PROA_BAD_MODEL && none == NULL);
  CHECK(strstr(proa_last_error(), "empty") != NULL);
  return 0;
}

/* Wrong input is refused, and the predictor still runs, into `out`. */
static int test_wrong_input(proa_predictor* clone, const proa_array* in, proa_array* out) {
  proa_array wrong = *in;
  wrong.shape[1] = 5;
  CHECK(proa_predictor_run(clone, &wrong, out) == PROA_INVALID_ARGUMENT);
  CHECK(strstr(proa_last_error(), "x") != NULL);
  wrong = *in;
  wrong.rank = 99;
  CHECK(proa_predictor_run(clone, &wrong, out) == PROA_INVALID_ARGUMENT);
  wrong = *in;
  wrong.data = NULL;
  CHECK(proa_predictor_run(clone, &wrong, out) == PROA_INVALID_ARGUMENT);
  CHECK(proa_predictor_run(clone, NULL, out) == PROA_INVALID_ARGUMENT);
  CHECK(proa_predictor_run(clone, in, out) == PROA_OK);
  return 0;
}

int main(int argc, char** argv) {
  CHECK(test_errors() == 0);
  if (argc < 4) return 0; /* without a model only the errors are tested */

  size_t n_in = 0, n_out = 0;
  float* input = read_floats(argv[2], &n_in);
  float* want = read_floats(argv[3], &n_out);
  CHECK(input != NULL && want != NULL && n_in > 0 && n_out > 0);

  proa_predictor* p = NULL;
  CHECK(test_load(argv[1], &p) == 0);
  proa_array in = {input, PROA_FLOAT32, 2, {(int64_t)n_in / 6, 6}};
  proa_array out[2];
  memset(out, 0, sizeof(out));
  CHECK(proa_predictor_run(p, &in, out) == PROA_OK);
  CHECK(out[0].rank == 2 && (size_t)(out[0].shape[0] * out[0].shape[1]) == n_out);
  CHECK(close_to(out[0].data, want, n_out));

  /* into the caller's memory, by a clone that outlives its origin */
  proa_predictor* clone = NULL;
  CHECK(proa_predictor_clone(p, &clone) == PROA_OK);
  proa_predictor_free(p);
  float* mine = malloc(n_out * sizeof(float));
  CHECK(mine != NULL);
  out[0].data = mine;
  out[1].data = NULL;
  CHECK(proa_predictor_run(clone, &in, out) == PROA_OK && out[0].data == mine);
  CHECK(close_to(mine, want, n_out));

  CHECK(test_wrong_input(clone, &in, out) == 0 && close_to(mine, want, n_out));
  proa_predictor_free(clone);
  free(mine);
  free(input);
  free(want);
  if (argc < 6) return 0;
  want = read_floats(argv[5], &n_out);
  CHECK(want != NULL && test_loop(argv[4], want, n_out) == 0);
  free(want);
  return 0;
}
