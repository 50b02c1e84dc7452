/* Seconds of a run of a model with one input of one float, from C. */
#include <time.h>

#include "proa_inference.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Negative if a call fails. */
double infer_run(const char* path, int count) {
  proa_predictor* predictor = 0;
  if (proa_predictor_load(path, 1, &predictor) != PROA_OK) return -1.0;
  float x = 1.0f, y = 0.0f;
  proa_array in = {&x, PROA_FLOAT32, 1, {1}};
  proa_array out = {&y, PROA_FLOAT32, 1, {1}};
  double seconds = 0.0, start = now();
  for (int i = 0; i < count; ++i)
    if (proa_predictor_run(predictor, &in, &out) != PROA_OK) seconds = -1.0;
  if (seconds == 0.0) seconds = (now() - start) / count;
  proa_predictor_free(predictor);
  return seconds;
}
