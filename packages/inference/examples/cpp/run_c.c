/* run_c MODEL: runs a model with one float input on ones and prints the first output. Unknown sizes
 * are 1. */
#include <proa_inference.h>
#include <stdio.h>
#include <stdlib.h>

static int failed(void) {
  fprintf(stderr, "%s\n", proa_last_error());
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: run_c MODEL\n");
    return 2;
  }
  proa_config* config = proa_config_create();
  proa_predictor* predictor = NULL;
  if (proa_config_set_model(config, argv[1]) != PROA_OK ||
      proa_config_set_threads(config, 1) != PROA_OK ||
      proa_predictor_create(config, &predictor) != PROA_OK) {
    proa_config_free(config);
    return failed();
  }
  proa_config_free(config);

  proa_array spec, result;
  proa_tensor *input = NULL, *output = NULL;
  if (proa_input_spec(predictor, 0, &spec) != PROA_OK ||
      proa_predictor_input(predictor, proa_input_name(predictor, 0), &input) != PROA_OK ||
      proa_predictor_output(predictor, proa_output_name(predictor, 0), &output) != PROA_OK) {
    return failed();
  }
  size_t count = 1;
  for (int32_t i = 0; i < spec.rank; ++i) {
    if (spec.shape[i] < 0) spec.shape[i] = 1;
    count *= (size_t)spec.shape[i];
  }
  if (proa_tensor_reshape(input, spec.rank, spec.shape) != PROA_OK) return failed();
  if (proa_tensor_array(input, &spec) != PROA_OK) return failed();
  for (size_t i = 0; i < count; ++i) ((float*)spec.data)[i] = 1.0f;

  if (proa_predictor_run_tensors(predictor) != PROA_OK) return failed();
  if (proa_tensor_array(output, &result) != PROA_OK) return failed();
  count = 1;
  for (int32_t i = 0; i < result.rank; ++i) count *= (size_t)result.shape[i];
  printf("%s:", proa_tensor_name(output));
  for (size_t i = 0; i < count; ++i) printf(" %g", ((const float*)result.data)[i]);
  printf("\n");
  proa_predictor_free(predictor);
  return 0;
}
