// C++ over proa_inference.h: objects that free themselves, and exceptions. C++14, header alone.
//
//   proa::inference::Config config("net.proa");
//   auto predictor = proa::inference::CreatePredictor(config);
//   auto x = predictor->GetInputHandle("x");
//   x->Reshape({1, 3, 224, 224});
//   x->CopyFromCpu(pixels.data());
//   predictor->Run();
//   std::vector<float> y = predictor->GetOutputHandle("y")->CopyToVector<float>();
//
// Names are those of Paddle Inference's C++ interface, in `paddle_infer` as well. A failed call
// throws Error. A predictor serves one thread at a time; its handles must not outlive it.
#ifndef PROA_INFERENCE_HPP_
#define PROA_INFERENCE_HPP_

#include <proa_inference.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace proa {
namespace inference {

enum class DataType {
  BOOL = PROA_BOOL,
  UINT8 = PROA_UINT8,
  INT8 = PROA_INT8,
  INT16 = PROA_INT16,
  INT32 = PROA_INT32,
  INT64 = PROA_INT64,
  FLOAT16 = PROA_FLOAT16,
  BFLOAT16 = PROA_BFLOAT16,
  FLOAT32 = PROA_FLOAT32,
  FLOAT64 = PROA_FLOAT64,
  COMPLEX64 = PROA_COMPLEX64,
  COMPLEX128 = PROA_COMPLEX128
};
enum class PlaceType { kUNK = -1, kCPU = 0, kGPU = 1, kXPU = 2 };
enum class PrecisionType { kFloat32 = 0, kInt8 = 1, kHalf = 2, kBf16 = 3 };

/// A failed call.
class Error : public std::runtime_error {
 public:
  Error(proa_status status, const std::string& what) : std::runtime_error(what), status_(status) {}
  proa_status status() const { return status_; }

 private:
  proa_status status_;
};

namespace internal {

inline void check(proa_status status) {
  if (status != PROA_OK) throw Error(status, proa_last_error());
}

[[noreturn]] inline void refuse(const char* name, const char* what) {
  throw Error(PROA_UNIMPLEMENTED, std::string("[Config::") + name +
                                      "] expected a predictor on the CPU, got a call for " + what);
}

template <class T>
struct TypeOf;
template <>
struct TypeOf<bool> {
  static constexpr proa_dtype value = PROA_BOOL;
};
template <>
struct TypeOf<uint8_t> {
  static constexpr proa_dtype value = PROA_UINT8;
};
template <>
struct TypeOf<int8_t> {
  static constexpr proa_dtype value = PROA_INT8;
};
template <>
struct TypeOf<int16_t> {
  static constexpr proa_dtype value = PROA_INT16;
};
template <>
struct TypeOf<int32_t> {
  static constexpr proa_dtype value = PROA_INT32;
};
template <>
struct TypeOf<int64_t> {
  static constexpr proa_dtype value = PROA_INT64;
};
template <>
struct TypeOf<float> {
  static constexpr proa_dtype value = PROA_FLOAT32;
};
template <>
struct TypeOf<double> {
  static constexpr proa_dtype value = PROA_FLOAT64;
};

inline std::size_t count_of(const proa_array& array) {
  std::size_t count = 1;
  for (int32_t i = 0; i < array.rank; ++i) count *= static_cast<std::size_t>(array.shape[i]);
  return count;
}

}  // namespace internal

/// A handle on an input or output.
class Tensor {
 public:
  explicit Tensor(proa_tensor* handle) : handle_(handle), name_(proa_tensor_name(handle)) {}

  const std::string& name() const { return name_; }
  DataType type() const { return static_cast<DataType>(proa_tensor_dtype(handle_)); }

  /// Gives an input memory of that shape.
  void Reshape(const std::vector<int>& shape) {
    const std::vector<int64_t> sizes(shape.begin(), shape.end());
    internal::check(proa_tensor_reshape(handle_, static_cast<int32_t>(sizes.size()), sizes.data()));
  }
  /// Copies a row-major array of the shape that Reshape gave.
  template <class T>
  void CopyFromCpu(const T* data) {
    check_type<T>("CopyFromCpu");
    internal::check(proa_tensor_copy_from(handle_, data));
  }
  /// Lets an input be memory of the caller's, which must live until the run has ended.
  template <class T>
  void ShareExternalData(const T* data, const std::vector<int>& shape,
                         PlaceType place = PlaceType::kCPU) {
    check_type<T>("ShareExternalData");
    check_place("ShareExternalData", place);
    proa_array array{};
    array.data = const_cast<T*>(data);
    array.dtype = internal::TypeOf<T>::value;
    array.rank = static_cast<int32_t>(shape.size());
    if (shape.size() > PROA_MAX_RANK) {
      throw Error(PROA_INVALID_ARGUMENT, "[Tensor::ShareExternalData] rank must be <= 8");
    }
    for (std::size_t i = 0; i < shape.size(); ++i) array.shape[i] = shape[i];
    internal::check(proa_tensor_share(handle_, &array));
  }
  template <class T>
  void CopyToCpu(T* data) const {
    check_type<T>("CopyToCpu");
    internal::check(proa_tensor_copy_to(handle_, data));
  }
  template <class T>
  std::vector<T> CopyToVector() const {
    std::vector<T> values(internal::count_of(array()));
    if (!values.empty()) CopyToCpu(values.data());
    return values;
  }
  /// The memory of an input, to be written.
  template <class T>
  T* mutable_data(PlaceType place = PlaceType::kCPU) {
    check_type<T>("mutable_data");
    check_place("mutable_data", place);
    return static_cast<T*>(array().data);
  }
  /// What the handle holds, in place, and how many elements.
  template <class T>
  T* data(PlaceType* place, int* size) const {
    check_type<T>("data");
    const proa_array held = array();
    if (place != nullptr) *place = PlaceType::kCPU;
    if (size != nullptr) *size = static_cast<int>(internal::count_of(held));
    return static_cast<T*>(held.data);
  }
  std::vector<int> shape() const {
    const proa_array held = array();
    return std::vector<int>(held.shape, held.shape + held.rank);
  }
  void SetLoD(const std::vector<std::vector<std::size_t>>& lod) {
    std::vector<const std::size_t*> offsets;
    std::vector<std::size_t> counts;
    for (const auto& level : lod) {
      offsets.push_back(level.data());
      counts.push_back(level.size());
    }
    internal::check(proa_tensor_set_lod(handle_, lod.size(), offsets.data(), counts.data()));
  }
  std::vector<std::vector<std::size_t>> lod() const {
    std::vector<std::vector<std::size_t>> found;
    const std::size_t* offsets = nullptr;
    while (const std::size_t count = proa_tensor_lod(handle_, found.size(), &offsets)) {
      found.emplace_back(offsets, offsets + count);
    }
    return found;
  }

 private:
  proa_array array() const {
    proa_array held{};
    internal::check(proa_tensor_array(handle_, &held));
    return held;
  }
  template <class T>
  void check_type(const char* where) const {
    if (proa_tensor_dtype(handle_) == internal::TypeOf<T>::value) return;
    throw Error(PROA_INVALID_ARGUMENT, std::string("[Tensor::") + where + "] '" + name_ +
                                           "' has elements of another type");
  }
  static void check_place(const char* where, PlaceType place) {
    if (place == PlaceType::kCPU) return;
    throw Error(PROA_UNIMPLEMENTED, std::string("[Tensor::") + where + "] expected the CPU");
  }

  proa_tensor* handle_;
  std::string name_;
};

/// The graph passes of a predictor: none, as a file's graph runs as it is. `proa-infer optimize`
/// writes it after the passes, of which Python can choose.
class PassStrategy {
 public:
  const std::vector<std::string>& AllPasses() const { return passes_; }
  std::vector<std::string> AnalysisPasses() const { return passes_; }
  std::string DebugString() const { return std::string(); }
  void ClearPasses() {}
  void TurnOnDebug() { refuse("TurnOnDebug"); }
  void SetPasses(const std::initializer_list<std::string>&) { refuse("SetPasses"); }
  void AppendPass(const std::string&) { refuse("AppendPass"); }
  void AppendAnalysisPass(const std::string&) { refuse("AppendAnalysisPass"); }
  void InsertPass(std::size_t, const std::string&) { refuse("InsertPass"); }
  void DeletePass(std::size_t) { refuse("DeletePass"); }
  void DeletePass(const std::string&) { refuse("DeletePass"); }

 private:
  [[noreturn]] static void refuse(const char* name) {
    throw Error(PROA_UNIMPLEMENTED,
                std::string("[PassStrategy::") + name +
                    "] expected no passes: write the model by `proa-infer optimize`");
  }
  std::vector<std::string> passes_;
};
using PaddlePassBuilder = PassStrategy;

/// What a predictor loads and how it runs.
class Config {
 public:
  using Precision = PrecisionType;
  using KeyCallback = std::function<std::vector<uint8_t>()>;

  Config() : config_(proa_config_create()) { check_made(); }
  explicit Config(const std::string& model) : Config() { SetModel(model); }
  Config(const Config& other)
      : config_(proa_config_copy(other.config_.get())),
        key_(other.key_),
        cache_dir_(other.cache_dir_),
        memory_optim_(other.memory_optim_),
        ir_optim_(other.ir_optim_),
        profile_(other.profile_),
        accelerate_(other.accelerate_),
        quiet_(other.quiet_) {
    check_made();
    if (key_ != nullptr) set_key();
  }
  Config& operator=(const Config& other) {
    Config copy(other);
    std::swap(*this, copy);
    return *this;
  }
  Config(Config&&) = default;
  Config& operator=(Config&&) = default;

  // -- the model
  void SetModel(const std::string& path) {
    internal::check(proa_config_set_model(get(), path.c_str()));
  }
  void SetModelBuffer(const void* bytes, std::size_t size) {
    internal::check(proa_config_set_model_bytes(get(), bytes, size));
  }
  void SetProgFile(const std::string& path) { SetModel(path); }
  void SetParamsFile(const std::string&) {
    internal::refuse("SetParamsFile", "a model of two files: `proa convert` makes one of them");
  }
  /// What returns the 32 bytes of an encrypted model's key.
  void SetCipherKey(KeyCallback key) {
    key_ = std::make_shared<KeyCallback>(std::move(key));
    set_key();
  }
  std::string prog_file() const { return proa_config_model(get()); }
  std::string params_file() const { return std::string(); }
  std::string model_dir() const { return std::string(); }
  bool model_from_memory() const { return proa_config_in_memory(get()) != 0; }

  // -- how it runs
  void SetCpuMathLibraryNumThreads(int threads) {
    internal::check(proa_config_set_threads(get(), threads));
  }
  int cpu_math_library_num_threads() const { return proa_config_threads(get()); }
  void SetPlanCache(int count, std::size_t max_bytes) {
    internal::check(proa_config_set_plan_cache(get(), count, max_bytes));
  }
  void SetMkldnnCacheCapacity(int capacity) { SetPlanCache(capacity > 0 ? capacity : 8, 0); }
  void EnableMKLDNN() { accelerate_ = true; }
  void DisableMKLDNN() { accelerate_ = false; }
  bool mkldnn_enabled() const { return accelerate_; }
  /// The model must be one that computes in bfloat16 (`proa-infer optimize --bf16`).
  void EnableBf16() { internal::check(proa_config_enable_bf16(get())); }
  void EnableMkldnnBfloat16() { EnableBf16(); }
  bool bf16_enabled() const { return proa_config_bf16(get()) != 0; }
  bool mkldnn_bfloat16_enabled() const { return bf16_enabled(); }
  void SetMKLDNNOp(const std::unordered_set<std::string>&) {}
  void EnableMemoryOptim(bool x = true) { memory_optim_ = x; }
  bool enable_memory_optim() const { return memory_optim_; }
  void SwitchIrOptim(int x = true) { ir_optim_ = x != 0; }
  bool ir_optim() const { return ir_optim_; }
  void SwitchIrDebug(int x = true) {
    if (x != 0) internal::refuse("SwitchIrDebug", "graph passes, which `proa-infer` runs");
  }
  PassStrategy* pass_builder() { return &passes_; }
  void SetOptimCacheDir(const std::string& path) { cache_dir_ = path; }
  void DisableFCPadding() {}
  bool use_fc_padding() const { return false; }
  /// Prints the time of each operator to standard error when the predictor ends.
  void EnableProfile() { profile_ = true; }
  bool profile_enabled() const { return profile_; }
  void DisableGlogInfo() { quiet_ = true; }
  bool glog_info_disabled() const { return quiet_; }
  std::string Summary() const {
    const std::string model = model_from_memory() ? "bytes in memory" : prog_file();
    return "model     " + model + "\nthreads   " + std::to_string(cpu_math_library_num_threads()) +
           "\n";
  }

  // -- other devices and engines, which are refused
  void EnableUseGpu(uint64_t, int = 0, Precision = Precision::kFloat32) {
    internal::refuse("EnableUseGpu", "a GPU");
  }
  void DisableGpu() {}
  bool use_gpu() const { return false; }
  int gpu_device_id() const { return 0; }
  int memory_pool_init_size_mb() const { return 0; }
  float fraction_of_gpu_memory_for_pool() const { return 0; }
  void EnableGpuMultiStream() { internal::refuse("EnableGpuMultiStream", "a GPU"); }
  bool thread_local_stream_enabled() const { return false; }
  void EnableCUDNN() { internal::refuse("EnableCUDNN", "cuDNN"); }
  bool cudnn_enabled() const { return false; }
  template <class... Options>
  void EnableTensorRtEngine(Options&&...) {
    internal::refuse("EnableTensorRtEngine", "TensorRT");
  }
  bool tensorrt_engine_enabled() const { return false; }
  void EnableTensorRtOSS() { internal::refuse("EnableTensorRtOSS", "TensorRT"); }
  bool tensorrt_oss_enabled() const { return false; }
  void EnableTensorRtDLA(int = 0) { internal::refuse("EnableTensorRtDLA", "TensorRT"); }
  bool tensorrt_dla_enabled() const { return false; }
  template <class... Options>
  void EnableXpu(Options&&...) {
    internal::refuse("EnableXpu", "an XPU");
  }
  template <class XpuConfig>
  void SetXpuConfig(const XpuConfig&) {
    internal::refuse("SetXpuConfig", "an XPU");
  }
  bool use_xpu() const { return false; }
  void LoadIpuConfig(const std::string&) { internal::refuse("LoadIpuConfig", "an IPU"); }
  void EnableONNXRuntime() { internal::refuse("EnableONNXRuntime", "onnxruntime"); }
  void DisableONNXRuntime() {}
  bool use_onnxruntime() const { return false; }
  void EnableORTOptimization() {}
  bool openvino_engine_enabled() const { return false; }
  void SetBfloat16Op(const std::unordered_set<std::string>&) {
    internal::refuse("SetBfloat16Op", "bfloat16");
  }
  void EnableMkldnnInt8(const std::unordered_set<std::string>& = {}) {
    internal::refuse("EnableMkldnnInt8", "int8 of a float32 model, which proa_slim makes");
  }
  bool mkldnn_int8_enabled() const { return false; }

  const proa_config* get() const { return config_.get(); }

 private:
  struct Free {
    void operator()(proa_config* config) const { proa_config_free(config); }
  };
  proa_config* get() { return config_.get(); }
  void check_made() const {
    if (config_ == nullptr) throw Error(PROA_RESOURCE_EXHAUSTED, "[Config] memory is exhausted");
  }
  void set_key() { internal::check(proa_config_set_key(get(), &write_key, key_.get())); }
  static int32_t write_key(void* context, uint8_t* key) {
    try {
      const std::vector<uint8_t> bytes = (*static_cast<KeyCallback*>(context))();
      if (bytes.size() != PROA_KEY_BYTES) return 1;
      for (std::size_t i = 0; i < bytes.size(); ++i) key[i] = bytes[i];
      return 0;
    } catch (...) {
      return 1;  // no exception may cross the C functions
    }
  }

  std::unique_ptr<proa_config, Free> config_;
  std::shared_ptr<KeyCallback> key_;
  PassStrategy passes_;
  std::string cache_dir_;
  bool memory_optim_ = false, ir_optim_ = true, profile_ = false, accelerate_ = true;
  bool quiet_ = false;
};

/// A loaded model. One thread at a time; Clone() for more.
class Predictor {
 public:
  explicit Predictor(const Config& config) {
    proa_predictor* made = nullptr;
    internal::check(proa_predictor_create(config.get(), &made));
    own(made, config.profile_enabled());
  }
  ~Predictor() {
    if (times_ != nullptr) times_->print();
  }
  Predictor(const Predictor&) = delete;
  Predictor& operator=(const Predictor&) = delete;

  std::vector<std::string> GetInputNames() const {
    std::vector<std::string> names;
    for (int32_t i = 0; i < proa_input_count(get()); ++i) {
      names.emplace_back(proa_input_name(get(), i));
    }
    return names;
  }
  std::vector<std::string> GetOutputNames() const {
    std::vector<std::string> names;
    for (int32_t i = 0; i < proa_output_count(get()); ++i) {
      names.emplace_back(proa_output_name(get(), i));
    }
    return names;
  }
  std::unique_ptr<Tensor> GetInputHandle(const std::string& name) {
    proa_tensor* found = nullptr;
    internal::check(proa_predictor_input(get(), name.c_str(), &found));
    return std::make_unique<Tensor>(found);
  }
  std::unique_ptr<Tensor> GetOutputHandle(const std::string& name) {
    proa_tensor* found = nullptr;
    internal::check(proa_predictor_output(get(), name.c_str(), &found));
    return std::make_unique<Tensor>(found);
  }
  /// Sizes of each input as the model states them; -1 may vary.
  std::map<std::string, std::vector<int64_t>> GetInputTensorShape() const {
    std::map<std::string, std::vector<int64_t>> shapes;
    for (int32_t i = 0; i < proa_input_count(get()); ++i) {
      proa_array spec{};
      internal::check(proa_input_spec(get(), i, &spec));
      shapes[proa_input_name(get(), i)].assign(spec.shape, spec.shape + spec.rank);
    }
    return shapes;
  }
  /// Runs on what the inputs' handles hold; true, or throws.
  bool Run() {
    internal::check(proa_predictor_run_tensors(get()));
    return true;
  }
  /// A predictor for another thread: the same weights, memory of its own.
  std::unique_ptr<Predictor> Clone() const {
    proa_predictor* made = nullptr;
    internal::check(proa_predictor_clone(get(), &made));
    std::unique_ptr<Predictor> twin(new Predictor());
    twin->own(made, times_ != nullptr);
    return twin;
  }
  /// Frees what runs left; returns the bytes.
  uint64_t TryShrinkMemory() { return proa_predictor_shrink(get()); }
  void ClearIntermediateTensor() { proa_predictor_shrink(get()); }
  /// Ends the run that another thread has in progress, where the model has branches or loops.
  void Stop() { proa_predictor_stop(get()); }

 private:
  struct Free {
    void operator()(proa_predictor* predictor) const { proa_predictor_free(predictor); }
  };
  struct Times {
    std::map<std::string, int64_t> total;
    static void add(void* self, const char* op, const char* name, int64_t nanoseconds) {
      static_cast<Times*>(self)->total[std::string(op) + " " + name] += nanoseconds;
    }
    void print() const {
      for (const auto& step : total) {
        std::fprintf(stderr, "%12.4f ms  %s\n", static_cast<double>(step.second) / 1e6,
                     step.first.c_str());
      }
    }
  };

  Predictor() = default;
  void own(proa_predictor* made, bool profiled) {
    predictor_.reset(made);
    if (!profiled) return;
    times_ = std::make_unique<Times>();
    internal::check(proa_predictor_set_profile(made, &Times::add, times_.get()));
  }
  proa_predictor* get() const { return predictor_.get(); }

  std::unique_ptr<Times> times_;  // outlives the predictor, which calls it
  std::unique_ptr<proa_predictor, Free> predictor_;
};

inline std::shared_ptr<Predictor> CreatePredictor(const Config& config) {
  return std::make_shared<Predictor>(config);
}

/// Predictors that share weights, one for each thread.
class PredictorPool {
 public:
  explicit PredictorPool(const Config& config, std::size_t size = 1) {
    if (size < 1) throw Error(PROA_INVALID_ARGUMENT, "[PredictorPool] size must be >= 1, got 0");
    predictors_.push_back(std::make_unique<Predictor>(config));
    while (predictors_.size() < size) predictors_.push_back(predictors_[0]->Clone());
  }
  std::size_t size() const { return predictors_.size(); }
  Predictor* Retrieve(std::size_t index) {
    if (index >= predictors_.size()) {
      throw Error(PROA_OUT_OF_RANGE, "[PredictorPool] index must be in [0, " +
                                         std::to_string(predictors_.size()) + "), got " +
                                         std::to_string(index));
    }
    return predictors_[index].get();
  }
  Predictor* Retrive(std::size_t index) { return Retrieve(index); }

 private:
  std::vector<std::unique_ptr<Predictor>> predictors_;
};

/// Encrypts and decrypts the bytes of models by AES-256-GCM.
class Cipher {
 public:
  using Bytes = std::vector<uint8_t>;
  Bytes Encrypt(const Bytes& plain, const Bytes& key) const {
    check_key(key);
    Bytes out(plain.size() + PROA_CIPHER_BYTES);
    internal::check(proa_encrypt(plain.data(), plain.size(), key.data(), out.data()));
    return out;
  }
  Bytes Decrypt(const Bytes& sealed, const Bytes& key) const {
    check_key(key);
    Bytes out(sealed.size() > PROA_CIPHER_BYTES ? sealed.size() - PROA_CIPHER_BYTES : 1);
    internal::check(proa_decrypt(sealed.data(), sealed.size(), key.data(), out.data()));
    if (sealed.size() <= PROA_CIPHER_BYTES) out.clear();
    return out;
  }

 private:
  static void check_key(const Bytes& key) {
    if (key.size() == PROA_KEY_BYTES) return;
    throw Error(PROA_INVALID_ARGUMENT,
                "[Cipher] key must be 32 bytes, got " + std::to_string(key.size()));
  }
};
inline std::unique_ptr<Cipher> MakeCipher() { return std::make_unique<Cipher>(); }

inline std::string GetVersion() { return proa_version(); }
inline int GetNumBytesOfDataType(DataType type) {
  return static_cast<int>(proa_dtype_size(static_cast<proa_dtype>(type)));
}

// Names before Paddle 2.0.
using AnalysisConfig [[deprecated("use Config")]] = Config;
using ZeroCopyTensor [[deprecated("use Tensor")]] = Tensor;
using PaddlePredictor [[deprecated("use Predictor")]] = Predictor;
[[deprecated("use CreatePredictor")]] inline std::unique_ptr<Predictor> CreatePaddlePredictor(
    const Config& config) {
  return std::make_unique<Predictor>(config);
}

}  // namespace inference
}  // namespace proa

#ifndef PROA_NO_PADDLE_INFER
namespace paddle_infer = proa::inference;
#endif

#endif  // PROA_INFERENCE_HPP_
