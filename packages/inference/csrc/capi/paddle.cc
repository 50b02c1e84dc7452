// Paddle Inference's C interface (pd_inference_api.h) over ours. A failed call leaves its message
// with proa_last_error().
#include "pd_inference_api.h"

#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <map>
#include <new>

#include "predictor.h"

using proa::capi::fail;
using proa::capi::guarded;
using proa::capi::missing;

struct PD_Config {
  proa_config* config = nullptr;
  std::string folder, params;
  std::string refused;  // why no predictor can be made of it, the first reason
  bool accelerated = true, memory_optim = false, profile = false;
  bool quiet = false, is_valid = true;
  ~PD_Config() { proa_config_free(config); }
};

namespace {

/// Nanoseconds of each step that a predictor ran.
struct Times {
  std::map<std::string, int64_t> total;
  static void add(void* self, const char* op, const char* name, int64_t nanoseconds) {
    try {
      static_cast<Times*>(self)->total[std::string(op) + " " + name] += nanoseconds;
    } catch (const std::bad_alloc&) {
      return;  // a step that is not counted
    }
  }
};

}  // namespace

struct PD_Predictor {
  proa_predictor* predictor = nullptr;
  std::unique_ptr<Times> times;
  ~PD_Predictor() {
    proa_predictor_free(predictor);
    if (times == nullptr) return;
    for (const auto& [step, nanoseconds] : times->total) {
      fprintf(stderr, "%12.4f ms  %s\n", static_cast<double>(nanoseconds) / 1e6, step.c_str());
    }
  }
};

struct PD_Tensor {
  proa_tensor* tensor;
};

namespace {

/// What `make` gives, or null if it throws.
template <class T, class Make>
T* given(const char* where, Make&& make) {
  T* created = nullptr;
  guarded(where, [&] { created = make(); });
  return created;
}

template <class Array>
void destroy(Array* array) {
  if (array == nullptr) return;
  delete[] array->data;
  delete array;
}

char* copied(const std::string& text) {
  char* copy = new char[text.size() + 1];
  memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

PD_OneDimArrayCstr* texts(const std::vector<std::string>& from) {
  auto array = std::make_unique<PD_OneDimArrayCstr>();
  std::vector<std::unique_ptr<char[]>> held;
  held.reserve(from.size());
  for (const std::string& text : from) held.emplace_back(copied(text));
  array->size = from.size();
  array->data = new char*[from.size()];
  for (size_t i = 0; i < from.size(); ++i) array->data[i] = held[i].release();
  return array.release();
}

/// Whether the pointer is given; the failure is noted if it is not.
bool is_given(const void* pointer, const char* where, const char* what) {
  if (pointer == nullptr) missing(where, what);
  return pointer != nullptr;
}
bool is_given(const PD_Config* config, const char* where) {
  return is_given(config, where, "pd_config must not be NULL");
}

void refuse(PD_Config* config, const char* where, const std::string& what) {
  if (!is_given(config, where)) return;
  guarded(where, [&] {
    const std::string text =
        std::string("[") + where + "] expected a predictor on the CPU, got a call for " + what;
    if (config->refused.empty()) config->refused = text;
    fail(PROA_UNIMPLEMENTED, text);
  });
}

/// Notes a failure of a function of ours as one of `where`, for PD_PredictorCreate.
void note(PD_Config* config, const char* where, proa_status status) {
  if (status == PROA_OK) return;
  guarded(where, [&] {
    const std::string text = proa_last_error();
    const std::string own = std::string("[") + where + text.substr(text.find(']'));
    if (config->refused.empty()) config->refused = own;
    fail(status, own);
  });
}

/// Sets what the config loads, once all of it was said; throws EngineError.
void settle(PD_Config* config) {
  const auto refused = [](const std::string& text) {
    throw proa::EngineError(proa::Status::kUnimplemented, text);
  };
  if (!config->refused.empty()) refused(config->refused);
  if (!config->is_valid) {
    throw proa::EngineError(proa::Status::kInvalidArgument,
                            "[PD_PredictorCreate] expected a config that is valid, got one after "
                            "PD_ConfigSetInvalid");
  }
  if (!config->params.empty()) {
    refused(
        "[PD_PredictorCreate] expected a model of one file, as `proa convert` makes it, got "
        "parameters '" +
        config->params + "'");
  }
  if (!config->folder.empty()) {
    const std::string file = proa::capi::model_in(config->folder, "PD_PredictorCreate");
    proa_config_set_model(config->config, file.c_str());
  }
}

std::vector<std::string> names_of(const proa_predictor* p, bool inputs) {
  std::vector<std::string> names;
  for (const proa::IoSpec& spec : inputs ? p->engine->inputs() : p->engine->outputs()) {
    names.push_back(spec.name);
  }
  return names;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

bool has_type(const PD_Tensor* t, proa_dtype want, const char* where) {
  if (!is_given(t, where, "pd_tensor must not be NULL")) return false;
  if (proa_tensor_dtype(t->tensor) == want) return true;
  missing(where, "expected the function of the array's type, got another's");
  return false;
}

/// The memory of a handle, or null.
template <class T>
T* memory(PD_Tensor* t, proa_dtype type, PD_PlaceType* place, int32_t* size, const char* where) {
  proa_array array;
  if (!has_type(t, type, where) || proa_tensor_array(t->tensor, &array) != PROA_OK) return nullptr;
  int64_t count = 1;
  for (int32_t i = 0; i < array.rank; ++i) count *= array.shape[i];
  if (place != nullptr) *place = PD_PLACE_CPU;
  if (size != nullptr) *size = static_cast<int32_t>(count);
  return static_cast<T*>(array.data);
}

template <class T>
T* mutable_memory(PD_Tensor* t, proa_dtype type, PD_PlaceType place, const char* where) {
  if (place != PD_PLACE_CPU && place != PD_PLACE_UNK) {
    fail(PROA_UNIMPLEMENTED, std::string("[") + where + "] expected the CPU");
    return nullptr;
  }
  return memory<T>(t, type, nullptr, nullptr, where);
}

}  // namespace

// -- arrays ---------------------------------------------------------------------------------

PROA_EXPORT void PD_OneDimArrayInt32Destroy(PD_OneDimArrayInt32* array) { destroy(array); }
PROA_EXPORT void PD_OneDimArraySizeDestroy(PD_OneDimArraySize* array) { destroy(array); }
PROA_EXPORT void PD_CstrDestroy(PD_Cstr* text) { destroy(text); }
PROA_EXPORT void PD_OneDimArrayCstrDestroy(PD_OneDimArrayCstr* array) {
  for (size_t i = 0; array != nullptr && i < array->size; ++i) delete[] array->data[i];
  destroy(array);
}
PROA_EXPORT void PD_TwoDimArraySizeDestroy(PD_TwoDimArraySize* array) {
  for (size_t i = 0; array != nullptr && i < array->size; ++i) destroy(array->data[i]);
  destroy(array);
}

// -- configs --------------------------------------------------------------------------------

PROA_EXPORT PD_Config* PD_ConfigCreate(void) {
  return given<PD_Config>("PD_ConfigCreate", [] {
    auto config = std::make_unique<PD_Config>();
    config->config = proa_config_create();
    if (config->config == nullptr) throw std::bad_alloc();
    return config.release();
  });
}
PROA_EXPORT void PD_ConfigDestroy(PD_Config* c) { delete c; }

PROA_EXPORT void PD_ConfigSetProgFile(PD_Config* c, const char* path) {
  if (!is_given(c, "PD_ConfigSetProgFile")) return;
  if (proa_config_set_model(c->config, path) == PROA_OK) c->folder.clear();
}
PROA_EXPORT void PD_ConfigSetParamsFile(PD_Config* c, const char* path) {
  if (!is_given(c, "PD_ConfigSetParamsFile")) return;
  guarded("PD_ConfigSetParamsFile", [&] { c->params = path == nullptr ? "" : path; });
}
PROA_EXPORT void PD_ConfigSetModel(PD_Config* c, const char* program, const char* params) {
  PD_ConfigSetProgFile(c, program);
  PD_ConfigSetParamsFile(c, params);
}
PROA_EXPORT void PD_ConfigSetModelDir(PD_Config* c, const char* folder) {
  constexpr const char* kWhere = "PD_ConfigSetModelDir";
  if (!is_given(c, kWhere) || !is_given(folder, kWhere, "model_dir must not be NULL")) return;
  guarded(kWhere, [&] { c->folder = folder; });
}
PROA_EXPORT void PD_ConfigSetModelBuffer(PD_Config* c, const char* program, size_t size,
                                         const char* params, size_t params_size) {
  if (!is_given(c, "PD_ConfigSetModelBuffer")) return;
  if (proa_config_set_model_bytes(c->config, program, size) != PROA_OK) return;
  c->folder.clear();
  PD_ConfigSetParamsFile(c, params != nullptr && params_size > 0 ? "of a buffer" : nullptr);
}
PROA_EXPORT const char* PD_ConfigGetModelDir(const PD_Config* c) {
  return c == nullptr ? "" : c->folder.c_str();
}
PROA_EXPORT const char* PD_ConfigGetProgFile(const PD_Config* c) {
  return c == nullptr ? "" : proa_config_model(c->config);
}
PROA_EXPORT const char* PD_ConfigGetParamsFile(const PD_Config* c) {
  return c == nullptr ? "" : c->params.c_str();
}
PROA_EXPORT PD_Bool PD_ConfigModelFromMemory(const PD_Config* c) {
  return c != nullptr && proa_config_in_memory(c->config) != 0 ? PD_TRUE : PD_FALSE;
}

PROA_EXPORT void PD_ConfigSetCpuMathLibraryNumThreads(PD_Config* c, int32_t threads) {
  if (is_given(c, "PD_ConfigSetCpuMathLibraryNumThreads")) {
    proa_config_set_threads(c->config, threads);
  }
}
PROA_EXPORT int32_t PD_ConfigGetCpuMathLibraryNumThreads(const PD_Config* c) {
  return c == nullptr ? 0 : proa_config_threads(c->config);
}
PROA_EXPORT void PD_ConfigSetMkldnnCacheCapacity(PD_Config* c, int32_t capacity) {
  if (is_given(c, "PD_ConfigSetMkldnnCacheCapacity")) {
    proa_config_set_plan_cache(c->config, capacity == 0 ? proa_config().plans : capacity, 0);
  }
}
PROA_EXPORT void PD_ConfigSetMkldnnOp(PD_Config*, size_t, const char**) {}
PROA_EXPORT void PD_ConfigEnableMkldnnBfloat16(PD_Config* c) {
  if (!is_given(c, "PD_ConfigEnableMkldnnBfloat16")) return;
  if (proa_config_enable_bf16(c->config) == PROA_OK) return;
  guarded("PD_ConfigEnableMkldnnBfloat16", [&] {
    if (c->refused.empty()) c->refused = proa_last_error();
  });
}
PROA_EXPORT PD_Bool PD_ConfigMkldnnBfloat16Enabled(const PD_Config* c) {
  return c != nullptr && proa_config_bf16(c->config) != 0 ? PD_TRUE : PD_FALSE;
}

// What was requested and is answered, without an effect but for the profile.
// NOLINTBEGIN(bugprone-macro-parentheses): names of fields and types
#define PD_SWITCH(set, get, field, on)                          \
  PROA_EXPORT void set(PD_Config* c) {                          \
    if (is_given(c, #set)) c->field = on;                       \
  }                                                             \
  PROA_EXPORT PD_Bool get(const PD_Config* c) {                 \
    return c != nullptr && c->field == on ? PD_TRUE : PD_FALSE; \
  }
PD_SWITCH(PD_ConfigEnableMKLDNN, PD_ConfigMkldnnEnabled, accelerated, true)
PD_SWITCH(PD_ConfigEnableMemoryOptim, PD_ConfigMemoryOptimEnabled, memory_optim, true)
PD_SWITCH(PD_ConfigEnableProfile, PD_ConfigProfileEnabled, profile, true)
PD_SWITCH(PD_ConfigDisableGlogInfo, PD_ConfigGlogInfoDisabled, quiet, true)
#undef PD_SWITCH
// NOLINTEND(bugprone-macro-parentheses)
PROA_EXPORT void PD_ConfigSetInvalid(PD_Config* c) {
  if (is_given(c, "PD_ConfigSetInvalid")) c->is_valid = false;
}
PROA_EXPORT PD_Bool PD_ConfigIsValid(const PD_Config* c) {
  return c != nullptr && c->is_valid ? PD_TRUE : PD_FALSE;
}
PROA_EXPORT void PD_ConfigSwitchIrOptim(PD_Config* c, PD_Bool on) {
  if (is_given(c, "PD_ConfigSwitchIrOptim")) proa_config_set_ir_optim(c->config, on != 0);
}
PROA_EXPORT PD_Bool PD_ConfigIrOptim(const PD_Config* c) {
  return c != nullptr && proa_config_ir_optim(c->config) != 0 ? PD_TRUE : PD_FALSE;
}
PROA_EXPORT void PD_ConfigSwitchIrDebug(PD_Config* c, PD_Bool on) {
  if (on != 0) refuse(c, "PD_ConfigSwitchIrDebug", "graph passes, which `proa-infer` runs");
}
PROA_EXPORT PD_OneDimArrayCstr* PD_ConfigAllPasses(PD_Config* c) {
  constexpr const char* kWhere = "PD_ConfigAllPasses";
  const char* passes = nullptr;
  if (!is_given(c, kWhere)) return nullptr;
  if (proa_config_metadata(c->config, "passes", &passes) != PROA_OK) return nullptr;
  if (proa_config_passes(c->config, &passes) != PROA_OK) return nullptr;
  return given<PD_OneDimArrayCstr>(kWhere, [&] { return texts(split(passes)); });
}
PROA_EXPORT void PD_ConfigAppendPass(PD_Config* c, const char* pass) {
  constexpr const char* kWhere = "PD_ConfigAppendPass";
  if (is_given(c, kWhere)) note(c, kWhere, proa_config_append_pass(c->config, pass));
}
PROA_EXPORT void PD_ConfigInsertPass(PD_Config* c, size_t, const char* pass) {
  PD_ConfigAppendPass(c, pass);  // what can be added at all runs last
}
PROA_EXPORT void PD_ConfigDeletePass(PD_Config* c, const char* pass) {
  constexpr const char* kWhere = "PD_ConfigDeletePass";
  if (is_given(c, kWhere)) note(c, kWhere, proa_config_delete_pass(c->config, pass));
}
PROA_EXPORT void PD_ConfigSetOptimCacheDir(PD_Config*, const char*) {}
PROA_EXPORT void PD_ConfigDisableFCPadding(PD_Config*) {}
PROA_EXPORT PD_Bool PD_ConfigUseFcPadding(const PD_Config*) { return PD_FALSE; }
PROA_EXPORT void PD_ConfigPartiallyRelease(PD_Config*) {}
PROA_EXPORT PD_Cstr* PD_ConfigSummary(PD_Config* c) {
  constexpr const char* kWhere = "PD_ConfigSummary";
  if (!is_given(c, kWhere)) return nullptr;
  return given<PD_Cstr>(kWhere, [&] {
    const std::string model =
        PD_ConfigModelFromMemory(c) != 0 ? "bytes in memory" : PD_ConfigGetProgFile(c);
    const std::string text = "model     " + model + "\nthreads   " +
                             std::to_string(PD_ConfigGetCpuMathLibraryNumThreads(c)) + "\n";
    auto created = std::make_unique<PD_Cstr>();
    created->size = text.size() + 1;
    created->data = copied(text);
    return created.release();
  });
}

// -- other devices --------------------------------------------------------------------------

#define PD_REFUSED(what, get, set, ...)                                     \
  PROA_EXPORT void set(PD_Config* c __VA_ARGS__) { refuse(c, #set, what); } \
  PROA_EXPORT PD_Bool get(const PD_Config*) { return PD_FALSE; }
PD_REFUSED("a GPU", PD_ConfigUseGpu, PD_ConfigEnableUseGpu, , uint64_t, int32_t)
PD_REFUSED("a GPU", PD_ConfigThreadLocalStreamEnabled, PD_ConfigEnableGpuMultiStream)
PD_REFUSED("cuDNN", PD_ConfigCudnnEnabled, PD_ConfigEnableCudnn)
PD_REFUSED("TensorRT", PD_ConfigTensorRtEngineEnabled, PD_ConfigEnableTensorRtEngine, , int32_t,
           int32_t, int32_t, PD_PrecisionType, PD_Bool, PD_Bool)
PD_REFUSED("TensorRT", PD_ConfigTensorRtOssEnabled, PD_ConfigEnableTensorRtOSS)
PD_REFUSED("TensorRT", PD_ConfigTensorRtDlaEnabled, PD_ConfigEnableTensorRtDla, , int32_t)
PD_REFUSED("an XPU", PD_ConfigUseXpu, PD_ConfigEnableXpu, , int32_t)
PD_REFUSED("onnxruntime", PD_ConfigONNXRuntimeEnabled, PD_ConfigEnableONNXRuntime)
#undef PD_REFUSED
PROA_EXPORT void PD_ConfigSetTrtDynamicShapeInfo(PD_Config* c, size_t, const char**, size_t*,
                                                 int32_t**, int32_t**, int32_t**, PD_Bool) {
  refuse(c, "PD_ConfigSetTrtDynamicShapeInfo", "TensorRT");
}
PROA_EXPORT void PD_ConfigSetBfloat16Op(PD_Config* c, size_t, const char**) {
  refuse(c, "PD_ConfigSetBfloat16Op", "bfloat16 of some operators: `proa-infer optimize --bf16`");
}
PROA_EXPORT void PD_ConfigDisableGpu(PD_Config*) {}
PROA_EXPORT int32_t PD_ConfigGpuDeviceId(const PD_Config*) { return 0; }
PROA_EXPORT int32_t PD_ConfigMemoryPoolInitSizeMb(const PD_Config*) { return 0; }
PROA_EXPORT float PD_ConfigFractionOfGpuMemoryForPool(const PD_Config*) { return 0.0f; }
PROA_EXPORT void PD_ConfigDisableONNXRuntime(PD_Config*) {}
PROA_EXPORT void PD_ConfigEnableORTOptimization(PD_Config*) {}

// -- predictors -----------------------------------------------------------------------------

PROA_EXPORT PD_Predictor* PD_PredictorCreate(PD_Config* c) {
  constexpr const char* kWhere = "PD_PredictorCreate";
  if (!is_given(c, kWhere)) return nullptr;
  const std::unique_ptr<PD_Config> config(c);
  auto created = given<PD_Predictor>(kWhere, [&] {
    settle(c);
    auto predictor = std::make_unique<PD_Predictor>();
    if (c->profile) predictor->times = std::make_unique<Times>();
    return predictor.release();
  });
  if (created == nullptr) return nullptr;
  if (proa_predictor_create(c->config, &created->predictor) != PROA_OK) {
    created->times.reset();
    delete created;
    return nullptr;
  }
  if (created->times != nullptr) {
    proa_predictor_set_profile(created->predictor, &Times::add, created->times.get());
  }
  return created;
}
PROA_EXPORT PD_Predictor* PD_PredictorClone(PD_Predictor* p) {
  constexpr const char* kWhere = "PD_PredictorClone";
  if (!is_given(p, kWhere, "pd_predictor must not be NULL")) return nullptr;
  auto clone = given<PD_Predictor>(kWhere, [&] {
    auto predictor = std::make_unique<PD_Predictor>();
    if (p->times != nullptr) predictor->times = std::make_unique<Times>();
    return predictor.release();
  });
  if (clone == nullptr) return nullptr;
  if (proa_predictor_clone(p->predictor, &clone->predictor) != PROA_OK) {
    delete clone;
    return nullptr;
  }
  if (clone->times != nullptr) {
    proa_predictor_set_profile(clone->predictor, &Times::add, clone->times.get());
  }
  return clone;
}
PROA_EXPORT void PD_PredictorDestroy(PD_Predictor* p) { delete p; }
PROA_EXPORT size_t PD_PredictorGetInputNum(PD_Predictor* p) {
  return p == nullptr ? 0 : p->predictor->inputs.size();
}
PROA_EXPORT size_t PD_PredictorGetOutputNum(PD_Predictor* p) {
  return p == nullptr ? 0 : p->predictor->outputs.size();
}
PROA_EXPORT PD_OneDimArrayCstr* PD_PredictorGetInputNames(PD_Predictor* p) {
  constexpr const char* kWhere = "PD_PredictorGetInputNames";
  if (!is_given(p, kWhere, "pd_predictor must not be NULL")) return nullptr;
  return given<PD_OneDimArrayCstr>(kWhere, [&] { return texts(names_of(p->predictor, true)); });
}
PROA_EXPORT PD_OneDimArrayCstr* PD_PredictorGetOutputNames(PD_Predictor* p) {
  constexpr const char* kWhere = "PD_PredictorGetOutputNames";
  if (!is_given(p, kWhere, "pd_predictor must not be NULL")) return nullptr;
  return given<PD_OneDimArrayCstr>(kWhere, [&] { return texts(names_of(p->predictor, false)); });
}
PROA_EXPORT PD_Tensor* PD_PredictorGetInputHandle(PD_Predictor* p, const char* name) {
  proa_tensor* found = nullptr;
  if (proa_predictor_input(p == nullptr ? nullptr : p->predictor, name, &found) != PROA_OK) {
    return nullptr;
  }
  return given<PD_Tensor>("PD_PredictorGetInputHandle", [&] { return new PD_Tensor{found}; });
}
PROA_EXPORT PD_Tensor* PD_PredictorGetOutputHandle(PD_Predictor* p, const char* name) {
  proa_tensor* found = nullptr;
  if (proa_predictor_output(p == nullptr ? nullptr : p->predictor, name, &found) != PROA_OK) {
    return nullptr;
  }
  return given<PD_Tensor>("PD_PredictorGetOutputHandle", [&] { return new PD_Tensor{found}; });
}
PROA_EXPORT PD_Bool PD_PredictorRun(PD_Predictor* p) {
  const proa_status status = proa_predictor_run_tensors(p == nullptr ? nullptr : p->predictor);
  return status == PROA_OK ? PD_TRUE : PD_FALSE;
}
PROA_EXPORT void PD_PredictorClearIntermediateTensor(PD_Predictor* p) {
  if (p != nullptr) proa_predictor_shrink(p->predictor);
}
PROA_EXPORT uint64_t PD_PredictorTryShrinkMemory(PD_Predictor* p) {
  return p == nullptr ? 0 : proa_predictor_shrink(p->predictor);
}
PROA_EXPORT const char* PD_GetVersion(void) { return proa_version(); }

// -- handles --------------------------------------------------------------------------------

PROA_EXPORT void PD_TensorDestroy(PD_Tensor* t) { delete t; }
PROA_EXPORT void PD_TensorReshape(PD_Tensor* t, size_t rank, int32_t* shape) {
  constexpr const char* kWhere = "PD_TensorReshape";
  if (!is_given(t, kWhere, "pd_tensor must not be NULL")) return;
  if (rank > PROA_MAX_RANK || (rank > 0 && shape == nullptr)) {
    missing(kWhere, "shape_size must be 0 to 8 and shape not NULL");
    return;
  }
  int64_t sizes[PROA_MAX_RANK] = {};
  for (size_t i = 0; i < rank; ++i) sizes[i] = shape[i];
  proa_tensor_reshape(t->tensor, static_cast<int32_t>(rank), sizes);
}

// The same for each type that Paddle's interface names.
// NOLINTBEGIN(bugprone-macro-parentheses): types
#define PD_OF_TYPE(name, type, dtype)                                                             \
  PROA_EXPORT type* PD_TensorMutableData##name(PD_Tensor* t, PD_PlaceType place) {                \
    return mutable_memory<type>(t, dtype, place, "PD_TensorMutableData" #name);                   \
  }                                                                                               \
  PROA_EXPORT type* PD_TensorData##name(PD_Tensor* t, PD_PlaceType* place, int32_t* size) {       \
    return memory<type>(t, dtype, place, size, "PD_TensorData" #name);                            \
  }                                                                                               \
  PROA_EXPORT void PD_TensorCopyFromCpu##name(PD_Tensor* t, const type* data) {                   \
    if (has_type(t, dtype, "PD_TensorCopyFromCpu" #name)) proa_tensor_copy_from(t->tensor, data); \
  }                                                                                               \
  PROA_EXPORT void PD_TensorCopyToCpu##name(PD_Tensor* t, type* data) {                           \
    if (has_type(t, dtype, "PD_TensorCopyToCpu" #name)) proa_tensor_copy_to(t->tensor, data);     \
  }
PD_OF_TYPE(Float, float, PROA_FLOAT32)
PD_OF_TYPE(Int64, int64_t, PROA_INT64)
PD_OF_TYPE(Int32, int32_t, PROA_INT32)
PD_OF_TYPE(Uint8, uint8_t, PROA_UINT8)
PD_OF_TYPE(Int8, int8_t, PROA_INT8)
#undef PD_OF_TYPE
// NOLINTEND(bugprone-macro-parentheses)

PROA_EXPORT PD_OneDimArrayInt32* PD_TensorGetShape(PD_Tensor* t) {
  constexpr const char* kWhere = "PD_TensorGetShape";
  proa_array array;
  if (!is_given(t, kWhere, "pd_tensor must not be NULL")) return nullptr;
  if (proa_tensor_array(t->tensor, &array) != PROA_OK) return nullptr;
  return given<PD_OneDimArrayInt32>(kWhere, [&] {
    auto shape = std::make_unique<PD_OneDimArrayInt32>();
    shape->size = static_cast<size_t>(array.rank);
    shape->data = new int32_t[shape->size];
    for (int32_t i = 0; i < array.rank; ++i) shape->data[i] = static_cast<int32_t>(array.shape[i]);
    return shape.release();
  });
}
PROA_EXPORT void PD_TensorSetLod(PD_Tensor* t, PD_TwoDimArraySize* lod) {
  constexpr const char* kWhere = "PD_TensorSetLod";
  if (!is_given(t, kWhere, "pd_tensor must not be NULL")) return;
  if (!is_given(lod, kWhere, "lod must not be NULL")) return;
  guarded(kWhere, [&] {
    std::vector<const size_t*> offsets;
    std::vector<size_t> counts;
    for (size_t i = 0; i < lod->size; ++i) {
      offsets.push_back(lod->data[i]->data);
      counts.push_back(lod->data[i]->size);
    }
    proa_tensor_set_lod(t->tensor, lod->size, offsets.data(), counts.data());
  });
}
PROA_EXPORT PD_TwoDimArraySize* PD_TensorGetLod(PD_Tensor* t) {
  constexpr const char* kWhere = "PD_TensorGetLod";
  if (!is_given(t, kWhere, "pd_tensor must not be NULL")) return nullptr;
  struct End {
    void operator()(PD_TwoDimArraySize* array) const { PD_TwoDimArraySizeDestroy(array); }
  };
  return given<PD_TwoDimArraySize>(kWhere, [&] {
    const size_t levels = t->tensor->slot.lod.size();
    std::unique_ptr<PD_TwoDimArraySize, End> created(new PD_TwoDimArraySize{0, nullptr});
    created->data = new PD_OneDimArraySize*[levels];
    for (const std::vector<size_t>& level : t->tensor->slot.lod) {
      auto row = std::make_unique<PD_OneDimArraySize>();
      row->data = new size_t[level.size()];
      row->size = level.size();
      std::copy(level.begin(), level.end(), row->data);
      created->data[created->size++] = row.release();
    }
    return created.release();
  });
}
PROA_EXPORT const char* PD_TensorGetName(PD_Tensor* t) {
  return t == nullptr ? nullptr : proa_tensor_name(t->tensor);
}
PROA_EXPORT PD_DataType PD_TensorGetDataType(PD_Tensor* t) {
  if (t == nullptr) return PD_DATA_UNK;
  switch (proa_tensor_dtype(t->tensor)) {
    case PROA_FLOAT32:
      return PD_DATA_FLOAT32;
    case PROA_INT64:
      return PD_DATA_INT64;
    case PROA_INT32:
      return PD_DATA_INT32;
    case PROA_UINT8:
      return PD_DATA_UINT8;
    case PROA_INT8:
      return PD_DATA_INT8;
    default:
      return PD_DATA_UNK;
  }
}
