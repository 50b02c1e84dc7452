/* A C program against pd_inference_api.h: `pd_api_test MODEL FOLDER PASSES`, a model with a float
 * input x (?, 6) and outputs y (?, 3) and hidden (?, 8), a folder with that model alone, and the
 * same after graph passes, as tests/test_capi.py makes them. Prints y for a row of ones; exit code
 * 0 if all holds. Without arguments only errors are tested. */
#include <pd_inference_api.h>
#include <proa_inference.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static int fails_with(PD_Config* config, const char* text) {
  return PD_PredictorCreate(config) == NULL && strstr(proa_last_error(), text) != NULL;
}

static PD_Config* config_of(const char* path) {
  PD_Config* config = PD_ConfigCreate();
  PD_ConfigSetModel(config, path, "");
  return config;
}

static int test_devices(const char* path) {
  PD_Config* config = config_of(path);
  PD_ConfigEnableUseGpu(config, 100, 0);
  CHECK(!PD_ConfigUseGpu(config) && fails_with(config, "[PD_ConfigEnableUseGpu]"));
  config = config_of(path);
  PD_ConfigEnableTensorRtEngine(config, 1 << 20, 1, 3, PD_PRECISION_FLOAT32, PD_FALSE, PD_FALSE);
  CHECK(!PD_ConfigTensorRtEngineEnabled(config) && fails_with(config, "TensorRT"));
  void (*others[])(PD_Config*) = {PD_ConfigEnableGpuMultiStream, PD_ConfigEnableCudnn,
                                  PD_ConfigEnableTensorRtOSS, PD_ConfigEnableONNXRuntime};
  for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); ++i) {
    config = config_of(path);
    others[i](config);
    CHECK(fails_with(config, "expected a predictor on the CPU"));
  }
  config = config_of(path);
  PD_ConfigEnableTensorRtDla(config, 0);
  PD_ConfigEnableXpu(config, 1);
  CHECK(!PD_ConfigTensorRtDlaEnabled(config) && !PD_ConfigTensorRtOssEnabled(config));
  CHECK(!PD_ConfigUseXpu(config) && !PD_ConfigCudnnEnabled(config));
  CHECK(!PD_ConfigThreadLocalStreamEnabled(config) && !PD_ConfigONNXRuntimeEnabled(config));
  CHECK(PD_ConfigGpuDeviceId(config) == 0 && PD_ConfigMemoryPoolInitSizeMb(config) == 0);
  CHECK(PD_ConfigFractionOfGpuMemoryForPool(config) == 0.0f);
  CHECK(fails_with(config, "[PD_ConfigEnableTensorRtDla]"));
  return 0;
}

static int test_config(const char* path, const char* folder, const char* passes) {
  PD_Config* config = config_of(path);
  CHECK(strcmp(PD_ConfigGetProgFile(config), path) == 0 && !PD_ConfigModelFromMemory(config));
  CHECK(strcmp(PD_ConfigGetParamsFile(config), "") == 0 && PD_ConfigMkldnnEnabled(config));
  PD_ConfigSetCpuMathLibraryNumThreads(config, 2);
  CHECK(PD_ConfigGetCpuMathLibraryNumThreads(config) == 2);
  PD_ConfigSetCpuMathLibraryNumThreads(config, -1);
  CHECK(PD_ConfigGetCpuMathLibraryNumThreads(config) == 2);
  PD_ConfigSwitchIrOptim(config, PD_FALSE);
  PD_ConfigEnableMemoryOptim(config);
  PD_ConfigDisableGlogInfo(config);
  CHECK(!PD_ConfigIrOptim(config) && PD_ConfigMemoryOptimEnabled(config));
  CHECK(PD_ConfigGlogInfoDisabled(config) && !PD_ConfigProfileEnabled(config));
  CHECK(!PD_ConfigUseFcPadding(config) && !PD_ConfigMkldnnBfloat16Enabled(config));
  PD_Cstr* summary = PD_ConfigSummary(config);
  CHECK(summary != NULL && strstr(summary->data, "threads   2") != NULL);
  CHECK(summary->size == strlen(summary->data) + 1);
  PD_CstrDestroy(summary);
  PD_OneDimArrayCstr* none = PD_ConfigAllPasses(config);
  CHECK(none != NULL && none->size == 0);
  PD_OneDimArrayCstrDestroy(none);
  PD_ConfigSetInvalid(config);
  CHECK(!PD_ConfigIsValid(config) && fails_with(config, "PD_ConfigSetInvalid"));

  config = config_of(passes);
  PD_OneDimArrayCstr* names = PD_ConfigAllPasses(config);
  int found = 0;
  for (size_t i = 0; i < names->size; ++i) found += strcmp(names->data[i], "fuse_epilogue") == 0;
  CHECK(found == 1 && names->size > 5);
  CHECK(strcmp(names->data[names->size - 1], "chain_elementwise") == 0);
  const size_t count = names->size;
  PD_OneDimArrayCstrDestroy(names);
  PD_ConfigDeletePass(config, "chain_elementwise");
  names = PD_ConfigAllPasses(config);
  CHECK(names->size == count - 1);
  PD_OneDimArrayCstrDestroy(names);
  PD_ConfigInsertPass(config, count - 1, "chain_elementwise");
  names = PD_ConfigAllPasses(config);
  CHECK(names->size == count);
  PD_OneDimArrayCstrDestroy(names);
  PD_ConfigDeletePass(config, "fuse_epilogue");
  CHECK(fails_with(config, "[PD_ConfigDeletePass]"));

  config = PD_ConfigCreate();
  PD_ConfigSetModelDir(config, folder);
  CHECK(strcmp(PD_ConfigGetModelDir(config), folder) == 0);
  PD_Predictor* predictor = PD_PredictorCreate(config);
  CHECK(predictor != NULL && PD_PredictorGetInputNum(predictor) == 1);
  PD_PredictorDestroy(predictor);
  config = PD_ConfigCreate();
  PD_ConfigSetModelDir(config, "/no/such/folder");
  CHECK(fails_with(config, "one file *.proa"));
  config = PD_ConfigCreate();
  PD_ConfigSetModel(config, path, "weights.pdiparams");
  CHECK(strcmp(PD_ConfigGetParamsFile(config), "weights.pdiparams") == 0);
  CHECK(fails_with(config, "proa convert"));
  CHECK(fails_with(PD_ConfigCreate(), "expected a model"));
  CHECK(fails_with(config_of("/no/such/file"), "expected a file"));
  return 0;
}

static int test_memory(const char* path, const float* want) {
  FILE* file = fopen(path, "rb");
  CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
  const size_t size = (size_t)ftell(file);
  rewind(file);
  char* bytes = malloc(size);
  CHECK(bytes != NULL && fread(bytes, 1, size, file) == size);
  fclose(file);
  PD_Config* config = PD_ConfigCreate();
  PD_ConfigSetModelBuffer(config, bytes, size, NULL, 0);
  free(bytes);
  CHECK(PD_ConfigModelFromMemory(config));
  PD_ConfigEnableProfile(config);
  PD_ConfigSetMkldnnCacheCapacity(config, 2);
  PD_Predictor* predictor = PD_PredictorCreate(config);
  PD_Predictor* clone = PD_PredictorClone(predictor);
  CHECK(predictor != NULL && clone != NULL);
  PD_PredictorDestroy(predictor);
  PD_Tensor* x = PD_PredictorGetInputHandle(clone, "x");
  int32_t shape[2] = {1, 6};
  PD_TensorReshape(x, 2, shape);
  float* values = PD_TensorMutableDataFloat(x, PD_PLACE_CPU);
  CHECK(values != NULL && PD_TensorMutableDataFloat(x, PD_PLACE_GPU) == NULL);
  for (int i = 0; i < 6; ++i) values[i] = 1.0f;
  CHECK(PD_PredictorRun(clone));
  PD_Tensor* y = PD_PredictorGetOutputHandle(clone, "y");
  PD_PlaceType place = PD_PLACE_UNK;
  int32_t count = 0;
  const float* found = PD_TensorDataFloat(y, &place, &count);
  CHECK(place == PD_PLACE_CPU && count == 3 && memcmp(found, want, 3 * sizeof(float)) == 0);
  CHECK(PD_PredictorTryShrinkMemory(clone) > 0 && PD_PredictorTryShrinkMemory(clone) == 0);
  PD_PredictorClearIntermediateTensor(clone);
  PD_TensorDestroy(y);
  PD_TensorDestroy(x);
  PD_PredictorDestroy(clone);
  return 0;
}

static int test_handles(PD_Predictor* predictor, float* want) {
  PD_OneDimArrayCstr* inputs = PD_PredictorGetInputNames(predictor);
  PD_OneDimArrayCstr* outputs = PD_PredictorGetOutputNames(predictor);
  CHECK(inputs->size == 1 && strcmp(inputs->data[0], "x") == 0);
  CHECK(outputs->size == 2 && strcmp(outputs->data[1], "hidden") == 0);
  CHECK(PD_PredictorGetOutputNum(predictor) == 2);
  PD_OneDimArrayCstrDestroy(inputs);
  PD_OneDimArrayCstrDestroy(outputs);
  CHECK(PD_PredictorGetInputHandle(predictor, "z") == NULL);
  CHECK(PD_PredictorRun(predictor) == PD_FALSE); /* nothing is given yet */
  PD_Tensor* x = PD_PredictorGetInputHandle(predictor, "x");
  PD_Tensor* y = PD_PredictorGetOutputHandle(predictor, "y");
  CHECK(strcmp(PD_TensorGetName(x), "x") == 0 && PD_TensorGetDataType(x) == PD_DATA_FLOAT32);
  CHECK(PD_TensorGetShape(y) == NULL && PD_TensorDataFloat(y, NULL, NULL) == NULL);
  float ones[12];
  for (int i = 0; i < 12; ++i) ones[i] = 1.0f;
  int32_t shape[2] = {2, 6};
  PD_TensorReshape(x, 2, shape);
  PD_TensorCopyFromCpuFloat(x, ones);
  size_t offsets[3] = {0, 1, 2};
  PD_OneDimArraySize level = {3, offsets};
  PD_OneDimArraySize* levels[1] = {&level};
  PD_TwoDimArraySize lod = {1, levels};
  PD_TensorSetLod(x, &lod);
  PD_TwoDimArraySize* held = PD_TensorGetLod(x);
  CHECK(held != NULL && held->size == 1 && held->data[0]->size == 3 && held->data[0]->data[2] == 2);
  PD_TwoDimArraySizeDestroy(held);
  CHECK(PD_PredictorRun(predictor));
  PD_OneDimArrayInt32* found = PD_TensorGetShape(y);
  CHECK(found->size == 2 && found->data[0] == 2 && found->data[1] == 3);
  PD_OneDimArrayInt32Destroy(found);
  float both[6];
  PD_TensorCopyToCpuFloat(y, both);
  CHECK(memcmp(both, both + 3, 3 * sizeof(float)) == 0);
  memcpy(want, both, 3 * sizeof(float));
  /* another type's functions do nothing */
  int64_t numbers[6] = {7, 7, 7, 7, 7, 7};
  PD_TensorCopyToCpuInt64(y, numbers);
  CHECK(numbers[0] == 7 && strstr(proa_last_error(), "[PD_TensorCopyToCpuInt64]") != NULL);
  CHECK(PD_TensorMutableDataInt32(x, PD_PLACE_CPU) == NULL);
  CHECK(PD_TensorDataUint8(x, NULL, NULL) == NULL && PD_TensorDataInt8(x, NULL, NULL) == NULL);
  shape[1] = 5;
  PD_TensorReshape(x, 2, shape);
  CHECK(PD_PredictorRun(predictor) == PD_FALSE && strlen(proa_last_error()) > 0);
  PD_TensorDestroy(x);
  PD_TensorDestroy(y);
  return 0;
}

static int test_nothing(void) {
  PD_ConfigDestroy(NULL);
  PD_PredictorDestroy(NULL);
  PD_TensorDestroy(NULL);
  PD_CstrDestroy(NULL);
  PD_OneDimArrayInt32Destroy(NULL);
  PD_OneDimArraySizeDestroy(NULL);
  PD_OneDimArrayCstrDestroy(NULL);
  PD_TwoDimArraySizeDestroy(NULL);
  PD_ConfigSetModel(NULL, "x", "y");
  PD_ConfigEnableUseGpu(NULL, 1, 0);
  CHECK(PD_PredictorCreate(NULL) == NULL && PD_PredictorClone(NULL) == NULL);
  CHECK(PD_PredictorRun(NULL) == PD_FALSE && PD_PredictorGetInputNames(NULL) == NULL);
  CHECK(PD_PredictorGetInputHandle(NULL, "x") == NULL && PD_TensorGetName(NULL) == NULL);
  CHECK(PD_TensorGetShape(NULL) == NULL && PD_TensorGetLod(NULL) == NULL);
  CHECK(PD_ConfigSummary(NULL) == NULL && PD_ConfigAllPasses(NULL) == NULL);
  CHECK(strcmp(PD_GetVersion(), proa_version()) == 0);
  PD_Config* unused = PD_ConfigCreate();
  CHECK(PD_ConfigAllPasses(unused) == NULL);
  PD_ConfigDestroy(unused);
  return 0;
}

int main(int argc, char** argv) {
  CHECK(test_nothing() == 0);
  if (argc != 4) return 0;
  float want[3];
  PD_Config* config = config_of(argv[1]);
  PD_ConfigSetCpuMathLibraryNumThreads(config, 1);
  PD_Predictor* predictor = PD_PredictorCreate(config);
  CHECK(predictor != NULL && test_handles(predictor, want) == 0);
  PD_PredictorDestroy(predictor);
  CHECK(test_memory(argv[1], want) == 0);
  CHECK(test_config(argv[1], argv[2], argv[3]) == 0);
  CHECK(test_devices(argv[1]) == 0);
  for (int i = 0; i < 3; ++i) printf("%g\n", (double)want[i]);
  return 0;
}
