/* The C interface of Paddle Inference 2.x over libproa_inference: programs written for its
 * pd_inference_api.h compile against this header and link with -lproa_inference.
 *
 * A model is one .proa file, which `proa convert` makes of Paddle's two. A call that fails does
 * nothing but return NULL, 0 or PD_FALSE where it returns anything, and proa_last_error() of
 * proa_inference.h says why. What would select another device than the CPU makes
 * PD_PredictorCreate fail. What a function gives (arrays, handles, predictors, configs, texts of
 * PD_ConfigSummary) ends with the Destroy function of its type, and NULL is allowed there.
 */
#ifndef PD_INFERENCE_API_H_
#define PD_INFERENCE_API_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int8_t PD_Bool;
#define PD_FALSE ((PD_Bool)0)
#define PD_TRUE ((PD_Bool)1)

typedef int32_t PD_PrecisionType;
enum { PD_PRECISION_FLOAT32 = 0, PD_PRECISION_INT8, PD_PRECISION_HALF };
typedef int32_t PD_PlaceType;
enum { PD_PLACE_UNK = -1, PD_PLACE_CPU, PD_PLACE_GPU, PD_PLACE_XPU };
typedef int32_t PD_DataType;
enum {
  PD_DATA_UNK = -1,
  PD_DATA_FLOAT32,
  PD_DATA_INT64,
  PD_DATA_INT32,
  PD_DATA_UINT8,
  PD_DATA_INT8
};

typedef struct PD_OneDimArrayInt32 {
  size_t size;
  int32_t* data;
} PD_OneDimArrayInt32;
typedef struct PD_OneDimArraySize {
  size_t size;
  size_t* data;
} PD_OneDimArraySize;
typedef struct PD_OneDimArrayCstr {
  size_t size;
  char** data;
} PD_OneDimArrayCstr;
typedef struct PD_Cstr {
  size_t size;
  char* data;
} PD_Cstr;
typedef struct PD_TwoDimArraySize {
  size_t size;
  PD_OneDimArraySize** data;
} PD_TwoDimArraySize;

void PD_OneDimArrayInt32Destroy(PD_OneDimArrayInt32* array);
void PD_OneDimArraySizeDestroy(PD_OneDimArraySize* array);
void PD_OneDimArrayCstrDestroy(PD_OneDimArrayCstr* array);
void PD_CstrDestroy(PD_Cstr* text);
void PD_TwoDimArraySizeDestroy(PD_TwoDimArraySize* array);

typedef struct PD_Config PD_Config;
typedef struct PD_Predictor PD_Predictor;
typedef struct PD_Tensor PD_Tensor;

/* -- configs: the model -------------------------------------------------------------------- */

PD_Config* PD_ConfigCreate(void);
/* Only of a config that was not given to PD_PredictorCreate. */
void PD_ConfigDestroy(PD_Config* pd_config);
/* params_file_path may be NULL or empty; a file of parameters makes PD_PredictorCreate fail. */
void PD_ConfigSetModel(PD_Config* pd_config, const char* prog_file_path,
                       const char* params_file_path);
void PD_ConfigSetProgFile(PD_Config* pd_config, const char* prog_file_path);
void PD_ConfigSetParamsFile(PD_Config* pd_config, const char* params_file_path);
/* A folder with one file whose name ends in .proa. */
void PD_ConfigSetModelDir(PD_Config* pd_config, const char* model_dir);
/* The bytes are copied. */
void PD_ConfigSetModelBuffer(PD_Config* pd_config, const char* prog_buffer, size_t prog_buffer_size,
                             const char* params_buffer, size_t params_buffer_size);
/* Valid until the config changes. */
const char* PD_ConfigGetModelDir(const PD_Config* pd_config);
const char* PD_ConfigGetProgFile(const PD_Config* pd_config);
const char* PD_ConfigGetParamsFile(const PD_Config* pd_config);
PD_Bool PD_ConfigModelFromMemory(const PD_Config* pd_config);

/* -- configs: how it runs ------------------------------------------------------------------ */

/* 1 for the calling thread alone, n for a pool of n, 0 for the pool that the process shares. */
void PD_ConfigSetCpuMathLibraryNumThreads(PD_Config* pd_config,
                                          int32_t cpu_math_library_num_threads);
int32_t PD_ConfigGetCpuMathLibraryNumThreads(const PD_Config* pd_config);
/* Kernels for this CPU are always used; these say what was requested. */
void PD_ConfigEnableMKLDNN(PD_Config* pd_config);
PD_Bool PD_ConfigMkldnnEnabled(const PD_Config* pd_config);
/* How many plans, one for each set of input shapes, are kept; 0 for 8. */
void PD_ConfigSetMkldnnCacheCapacity(PD_Config* pd_config, int32_t capacity);
/* No effect: each operator has one kernel for this CPU. */
void PD_ConfigSetMkldnnOp(PD_Config* pd_config, size_t ops_num, const char** op_list);
/* The model must compute in bfloat16 already (`proa-infer optimize --bf16`), and the CPU be able to
 * multiply it. */
void PD_ConfigEnableMkldnnBfloat16(PD_Config* pd_config);
PD_Bool PD_ConfigMkldnnBfloat16Enabled(const PD_Config* pd_config);
/* Which operators compute in bfloat16 is in the model: PD_PredictorCreate fails. */
void PD_ConfigSetBfloat16Op(PD_Config* pd_config, size_t ops_num, const char** op_list);
/* Arrays always share one arena; these say what was requested. */
void PD_ConfigEnableMemoryOptim(PD_Config* pd_config);
PD_Bool PD_ConfigMemoryOptimEnabled(const PD_Config* pd_config);
/* With PD_FALSE no pass runs at load; those that wrote the file are in its graph. */
void PD_ConfigSwitchIrOptim(PD_Config* pd_config, PD_Bool x);
PD_Bool PD_ConfigIrOptim(const PD_Config* pd_config);
/* With PD_TRUE PD_PredictorCreate fails: graphs are printed by `proa-infer inspect`. */
void PD_ConfigSwitchIrDebug(PD_Config* pd_config, PD_Bool x);
/* Names of the passes that wrote the model and run at load; empty if there are none, NULL if it
 * cannot be read. */
PD_OneDimArrayCstr* PD_ConfigAllPasses(PD_Config* pd_config);
/* As proa_config_append_pass and proa_config_delete_pass: a pass that would rewrite the graph makes
 * PD_PredictorCreate fail. */
void PD_ConfigAppendPass(PD_Config* pd_config, const char* pass);
void PD_ConfigInsertPass(PD_Config* pd_config, size_t idx, const char* pass);
void PD_ConfigDeletePass(PD_Config* pd_config, const char* pass);
/* No effect: no pass that would write into it runs here. */
void PD_ConfigSetOptimCacheDir(PD_Config* pd_config, const char* opt_cache_dir);
/* No effect: weights are never padded. */
void PD_ConfigDisableFCPadding(PD_Config* pd_config);
PD_Bool PD_ConfigUseFcPadding(const PD_Config* pd_config);
/* Prints the time of each operator to standard error when the predictor ends. */
void PD_ConfigEnableProfile(PD_Config* pd_config);
PD_Bool PD_ConfigProfileEnabled(const PD_Config* pd_config);
/* Nothing is logged anyway; these say what was requested. */
void PD_ConfigDisableGlogInfo(PD_Config* pd_config);
PD_Bool PD_ConfigGlogInfoDisabled(const PD_Config* pd_config);
void PD_ConfigSetInvalid(PD_Config* pd_config);
PD_Bool PD_ConfigIsValid(const PD_Config* pd_config);
/* No effect: a config holds nothing that a predictor of it needs. */
void PD_ConfigPartiallyRelease(PD_Config* pd_config);
PD_Cstr* PD_ConfigSummary(PD_Config* pd_config);

/* -- configs: other devices and engines; what selects one makes PD_PredictorCreate fail, and what
 * disables or tunes one has no effect ------------------------------------------------------- */

void PD_ConfigEnableUseGpu(PD_Config* pd_config, uint64_t memory_pool_init_size_mb,
                           int32_t device_id);
void PD_ConfigDisableGpu(PD_Config* pd_config);
PD_Bool PD_ConfigUseGpu(const PD_Config* pd_config);
int32_t PD_ConfigGpuDeviceId(const PD_Config* pd_config);
int32_t PD_ConfigMemoryPoolInitSizeMb(const PD_Config* pd_config);
float PD_ConfigFractionOfGpuMemoryForPool(const PD_Config* pd_config);
void PD_ConfigEnableGpuMultiStream(PD_Config* pd_config);
PD_Bool PD_ConfigThreadLocalStreamEnabled(const PD_Config* pd_config);
void PD_ConfigEnableCudnn(PD_Config* pd_config);
PD_Bool PD_ConfigCudnnEnabled(const PD_Config* pd_config);
void PD_ConfigEnableTensorRtEngine(PD_Config* pd_config, int32_t workspace_size,
                                   int32_t max_batch_size, int32_t min_subgraph_size,
                                   PD_PrecisionType precision, PD_Bool use_static,
                                   PD_Bool use_calib_mode);
PD_Bool PD_ConfigTensorRtEngineEnabled(const PD_Config* pd_config);
void PD_ConfigSetTrtDynamicShapeInfo(PD_Config* pd_config, size_t tensor_num,
                                     const char** tensor_name, size_t* shapes_num,
                                     int32_t** min_shape, int32_t** max_shape,
                                     int32_t** optim_shape, PD_Bool disable_trt_plugin_fp16);
void PD_ConfigEnableTensorRtOSS(PD_Config* pd_config);
PD_Bool PD_ConfigTensorRtOssEnabled(const PD_Config* pd_config);
void PD_ConfigEnableTensorRtDla(PD_Config* pd_config, int32_t dla_core);
PD_Bool PD_ConfigTensorRtDlaEnabled(const PD_Config* pd_config);
void PD_ConfigEnableXpu(PD_Config* pd_config, int32_t l3_workspace_size);
PD_Bool PD_ConfigUseXpu(const PD_Config* pd_config);
void PD_ConfigEnableONNXRuntime(PD_Config* pd_config);
void PD_ConfigDisableONNXRuntime(PD_Config* pd_config);
PD_Bool PD_ConfigONNXRuntimeEnabled(const PD_Config* pd_config);
void PD_ConfigEnableORTOptimization(PD_Config* pd_config);

/* -- predictors ---------------------------------------------------------------------------- */

/* NULL if it fails. Takes the config, which ends in either case. */
PD_Predictor* PD_PredictorCreate(PD_Config* pd_config);
/* A predictor for another thread: the same weights. */
PD_Predictor* PD_PredictorClone(PD_Predictor* pd_predictor);
void PD_PredictorDestroy(PD_Predictor* pd_predictor);
size_t PD_PredictorGetInputNum(PD_Predictor* pd_predictor);
size_t PD_PredictorGetOutputNum(PD_Predictor* pd_predictor);
PD_OneDimArrayCstr* PD_PredictorGetInputNames(PD_Predictor* pd_predictor);
PD_OneDimArrayCstr* PD_PredictorGetOutputNames(PD_Predictor* pd_predictor);
/* Handles must not outlive their predictor. NULL if there is none of that name. */
PD_Tensor* PD_PredictorGetInputHandle(PD_Predictor* pd_predictor, const char* name);
PD_Tensor* PD_PredictorGetOutputHandle(PD_Predictor* pd_predictor, const char* name);
/* Runs on what the inputs' handles hold. */
PD_Bool PD_PredictorRun(PD_Predictor* pd_predictor);
void PD_PredictorClearIntermediateTensor(PD_Predictor* pd_predictor);
uint64_t PD_PredictorTryShrinkMemory(PD_Predictor* pd_predictor);
const char* PD_GetVersion(void);

/* -- handles: a function whose type is not the array's fails -------------------------------- */

void PD_TensorDestroy(PD_Tensor* pd_tensor);
/* Gives an input memory of that shape. */
void PD_TensorReshape(PD_Tensor* pd_tensor, size_t shape_size, int32_t* shape);
float* PD_TensorMutableDataFloat(PD_Tensor* pd_tensor, PD_PlaceType place);
int64_t* PD_TensorMutableDataInt64(PD_Tensor* pd_tensor, PD_PlaceType place);
int32_t* PD_TensorMutableDataInt32(PD_Tensor* pd_tensor, PD_PlaceType place);
uint8_t* PD_TensorMutableDataUint8(PD_Tensor* pd_tensor, PD_PlaceType place);
int8_t* PD_TensorMutableDataInt8(PD_Tensor* pd_tensor, PD_PlaceType place);
/* The memory; sets the place and the number of elements, where not NULL. */
float* PD_TensorDataFloat(PD_Tensor* pd_tensor, PD_PlaceType* place, int32_t* size);
int64_t* PD_TensorDataInt64(PD_Tensor* pd_tensor, PD_PlaceType* place, int32_t* size);
int32_t* PD_TensorDataInt32(PD_Tensor* pd_tensor, PD_PlaceType* place, int32_t* size);
uint8_t* PD_TensorDataUint8(PD_Tensor* pd_tensor, PD_PlaceType* place, int32_t* size);
int8_t* PD_TensorDataInt8(PD_Tensor* pd_tensor, PD_PlaceType* place, int32_t* size);
void PD_TensorCopyFromCpuFloat(PD_Tensor* pd_tensor, const float* data);
void PD_TensorCopyFromCpuInt64(PD_Tensor* pd_tensor, const int64_t* data);
void PD_TensorCopyFromCpuInt32(PD_Tensor* pd_tensor, const int32_t* data);
void PD_TensorCopyFromCpuUint8(PD_Tensor* pd_tensor, const uint8_t* data);
void PD_TensorCopyFromCpuInt8(PD_Tensor* pd_tensor, const int8_t* data);
void PD_TensorCopyToCpuFloat(PD_Tensor* pd_tensor, float* data);
void PD_TensorCopyToCpuInt64(PD_Tensor* pd_tensor, int64_t* data);
void PD_TensorCopyToCpuInt32(PD_Tensor* pd_tensor, int32_t* data);
void PD_TensorCopyToCpuUint8(PD_Tensor* pd_tensor, uint8_t* data);
void PD_TensorCopyToCpuInt8(PD_Tensor* pd_tensor, int8_t* data);
PD_OneDimArrayInt32* PD_TensorGetShape(PD_Tensor* pd_tensor);
void PD_TensorSetLod(PD_Tensor* pd_tensor, PD_TwoDimArraySize* lod);
PD_TwoDimArraySize* PD_TensorGetLod(PD_Tensor* pd_tensor);
/* Valid as long as the predictor. */
const char* PD_TensorGetName(PD_Tensor* pd_tensor);
/* PD_DATA_UNK of a type that has no number here. */
PD_DataType PD_TensorGetDataType(PD_Tensor* pd_tensor);

#ifdef __cplusplus
}
#endif

#endif /* PD_INFERENCE_API_H_ */
