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
#include <proa_inference_tensor.hpp>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

// NOLINTBEGIN(readability-identifier-naming): the names are Paddle Inference's.
namespace proa {
namespace inference {

/// The graph passes of a config, read from its model. Those that rewrite a graph ran when its file
/// was written (`proa-infer optimize`): they cannot be taken out, nor others added. What is chosen
/// at load is `chain_elementwise`. Part of a Config, which must live as long.
class PassStrategy {
 public:
  PassStrategy() = default;
  explicit PassStrategy(proa_config* config) : config_(config) { read(); }
  const std::vector<std::string>& AllPasses() const { return passes_; }
  std::vector<std::string> AnalysisPasses() const { return passes_; }
  /// The names, one a line.
  std::string DebugString() const {
    std::string text;
    for (const std::string& pass : passes_) text += "- " + pass + "\n";
    return text;
  }
  void AppendPass(const std::string& name) {
    internal::check(proa_config_append_pass(config_, name.c_str()));
    read();
  }
  void AppendAnalysisPass(const std::string& name) { AppendPass(name); }
  /// As AppendPass at the end, where what can be added runs.
  void InsertPass(std::size_t index, const std::string& name) {
    check_index("InsertPass", index, passes_.size() + 1);
    AppendPass(name);
  }
  void DeletePass(const std::string& name) {
    internal::check(proa_config_delete_pass(config_, name.c_str()));
    read();
  }
  void DeletePass(std::size_t index) {
    check_index("DeletePass", index, passes_.size());
    DeletePass(std::string(passes_[index]));
  }
  void ClearPasses() { SetPasses({}); }
  /// These and no others: each that is not among them is taken out, each other one added.
  void SetPasses(const std::initializer_list<std::string>& names) {
    const std::set<std::string> wanted(names);
    for (std::size_t i = passes_.size(); i-- > 0;) {
      const std::string name = passes_[i];
      if (wanted.count(name) == 0) DeletePass(name);
    }
    for (const std::string& name : names) AppendPass(name);
  }
  void TurnOnDebug() {
    throw Error(
        PROA_UNIMPLEMENTED,
        "[PassStrategy::TurnOnDebug] expected passes that run here, got those that ran when "
        "the file was written: Python's Config.switch_ir_debug() writes their graphs");
  }

 private:
  void read() {
    const char* names = nullptr;
    internal::check(proa_config_passes(config_, &names));
    passes_.clear();
    for (std::string left = names; !left.empty();) {
      const std::size_t end = left.find(',');
      passes_.push_back(left.substr(0, end));
      left = end == std::string::npos ? std::string() : left.substr(end + 1);
    }
  }
  static void check_index(const char* where, std::size_t index, std::size_t end) {
    if (index < end) return;
    throw Error(PROA_OUT_OF_RANGE, std::string("[PassStrategy::") + where +
                                       "] index must be in [0, " + std::to_string(end) + "), got " +
                                       std::to_string(index));
  }
  proa_config* config_ = nullptr;
  std::vector<std::string> passes_;
};
using PaddlePassBuilder = PassStrategy;

/// What a predictor loads and how it runs.
class Config {
 public:
  using Precision = PrecisionType;
  using KeyCallback = std::function<std::vector<uint8_t>()>;

  Config() : config_(proa_config_create()) { check_created(); }
  explicit Config(const std::string& model, const std::string& params = std::string()) : Config() {
    SetModel(model, params);
  }
  Config(const Config& other)
      : config_(proa_config_copy(other.config_.get())),
        key_(other.key_),
        model_dir_(other.model_dir_),
        memory_optim_(other.memory_optim_),
        profile_(other.profile_),
        accelerate_(other.accelerate_),
        quiet_(other.quiet_),
        feed_fetch_(other.feed_fetch_),
        specify_names_(other.specify_names_) {
    check_created();
    if (key_ != nullptr) set_key();
  }
  Config& operator=(const Config& other) {
    Config copy(other);
    std::swap(*this, copy);
    return *this;
  }
  Config(Config&&) = default;
  Config& operator=(Config&&) = default;

  // -- the model: one file, which `proa convert` makes of Paddle's two
  /// A file, or a folder with one file *.proa. A file of parameters is refused.
  void SetModel(const std::string& path, const std::string& params = std::string()) {
    SetParamsFile(params);
    internal::check(proa_config_set_model(get(), path.c_str()));
    model_dir_ = prog_file() == path ? std::string() : path;
  }
  /// The bytes are copied. Those of parameters are refused.
  void SetModelBuffer(const void* bytes, std::size_t size, const void* params = nullptr,
                      std::size_t params_size = 0) {
    SetParamsFile(params != nullptr && params_size > 0 ? "of a buffer" : "");
    internal::check(proa_config_set_model_bytes(get(), bytes, size));
    model_dir_.clear();
  }
  void SetProgFile(const std::string& path) { SetModel(path); }
  void SetParamsFile(const std::string& path) {
    if (path.empty()) return;
    internal::refuse("SetParamsFile", "a model of two files: `proa convert` makes one of them");
  }
  /// What returns the 32 bytes of an encrypted model's key.
  void SetCipherKey(KeyCallback key) {
    key_ = std::make_shared<KeyCallback>(std::move(key));
    set_key();
  }
  std::string prog_file() const { return proa_config_model(get()); }
  std::string params_file() const { return std::string(); }
  std::string model_dir() const { return model_dir_; }
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
  /// Kernels for this CPU are always used; mkldnn_enabled() says what was requested.
  void EnableMKLDNN() { accelerate_ = true; }
  void DisableMKLDNN() { accelerate_ = false; }
  bool mkldnn_enabled() const { return accelerate_; }
  /// The model must be one that computes in bfloat16 (`proa-infer optimize --bf16`).
  void EnableBf16() { internal::check(proa_config_enable_bf16(get())); }
  void EnableMkldnnBfloat16() { EnableBf16(); }
  bool bf16_enabled() const { return proa_config_bf16(get()) != 0; }
  bool mkldnn_bfloat16_enabled() const { return bf16_enabled(); }
  /// No effect: each operator has one kernel for this CPU.
  void SetMKLDNNOp(const std::unordered_set<std::string>&) {}
  /// Arrays always share one arena; enable_memory_optim() says what was requested.
  void EnableMemoryOptim(bool x = true) { memory_optim_ = x; }
  bool enable_memory_optim() const { return memory_optim_; }
  void SwitchIrOptim(int x = true) { internal::check(proa_config_set_ir_optim(get(), x)); }
  bool ir_optim() const { return proa_config_ir_optim(get()) != 0; }
  void SwitchIrDebug(int x = true) {
    if (x != 0) internal::refuse("SwitchIrDebug", "graph passes, which `proa-infer` runs");
  }
  /// The passes that wrote the model, which is read, and run at load; none without a model.
  PassStrategy* pass_builder() {
    passes_ = PassStrategy(get());
    return &passes_;
  }
  /// No effect: no pass that would write into it runs here.
  void SetOptimCacheDir(const std::string&) {}
  /// No effect: weights are never padded.
  void DisableFCPadding() {}
  bool use_fc_padding() const { return false; }
  /// Prints the time of each operator to standard error when the predictor ends.
  void EnableProfile() { profile_ = true; }
  bool profile_enabled() const { return profile_; }
  /// Nothing is logged anyway; glog_info_disabled() says what was requested.
  void DisableGlogInfo() { quiet_ = true; }
  bool glog_info_disabled() const { return quiet_; }
  /// Inputs and outputs are always handles and have names; these say what was requested.
  void SwitchUseFeedFetchOps(int x = true) { feed_fetch_ = x != 0; }
  bool use_feed_fetch_ops_enabled() const { return feed_fetch_; }
  void SwitchSpecifyInputNames(bool x = true) { specify_names_ = x; }
  bool specify_input_name() const { return specify_names_; }
  std::string Summary() const {
    const std::string model = model_from_memory() ? "bytes in memory" : prog_file();
    return "model     " + model + "\nthreads   " + std::to_string(cpu_math_library_num_threads()) +
           "\n";
  }

  // -- other devices and engines, which are refused: what disables one has nothing to do
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
  int xpu_device_id() const { return 0; }
  void LoadIpuConfig(const std::string&) { internal::refuse("LoadIpuConfig", "an IPU"); }
  void EnableONNXRuntime() { internal::refuse("EnableONNXRuntime", "onnxruntime"); }
  void DisableONNXRuntime() {}
  bool use_onnxruntime() const { return false; }
  /// No effect: onnxruntime runs no part here.
  void EnableORTOptimization() {}
  template <class... Options>
  void EnableLiteEngine(Options&&...) {
    internal::refuse("EnableLiteEngine",
                     "proa_lite, which Python's Config.enable_lite_engine uses");
  }
  bool lite_engine_enabled() const { return false; }
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
  void check_created() const {
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
  std::string model_dir_;
  bool memory_optim_ = false, profile_ = false, accelerate_ = true;
  bool quiet_ = false, feed_fetch_ = false, specify_names_ = true;
};

/// A loaded model. One thread at a time; Clone() for more.
class Predictor {
 public:
  explicit Predictor(const Config& config) {
    proa_predictor* created = nullptr;
    internal::check(proa_predictor_create(config.get(), &created));
    own(created, config.profile_enabled());
  }
  ~Predictor() {
    if (times_ != nullptr) times_->print();
  }
  Predictor(const Predictor&) = delete;
  Predictor& operator=(const Predictor&) = delete;

  std::vector<std::string> GetInputNames() const {
    std::vector<std::string> names;
    const int32_t count = proa_input_count(get());
    names.reserve(static_cast<std::size_t>(count));
    for (int32_t i = 0; i < count; ++i) {
      names.emplace_back(proa_input_name(get(), i));
    }
    return names;
  }
  std::vector<std::string> GetOutputNames() const {
    std::vector<std::string> names;
    const int32_t count = proa_output_count(get());
    names.reserve(static_cast<std::size_t>(count));
    for (int32_t i = 0; i < count; ++i) {
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
    proa_predictor* created = nullptr;
    internal::check(proa_predictor_clone(get(), &created));
    std::unique_ptr<Predictor> clone(new Predictor());
    clone->own(created, times_ != nullptr);
    return clone;
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
  void own(proa_predictor* created, bool profiled) {
    predictor_.reset(created);
    if (!profiled) return;
    times_ = std::make_unique<Times>();
    internal::check(proa_predictor_set_profile(created, &Times::add, times_.get()));
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

/// Loads a shared library of operators of your own, written against proa/extension.h: models that
/// are loaded thereafter may name them.
inline void LoadOperators(const std::string& path) {
  internal::check(proa_load_operators(path.c_str()));
}
/// Sets what a variable of the environment of that name would (see proa_set_flag).
inline void SetFlag(const std::string& name, const std::string& value) {
  internal::check(proa_set_flag(name.c_str(), value.c_str()));
}
/// The value, empty if none is set.
inline std::string GetFlag(const std::string& name) {
  const char* value = proa_flag(name.c_str());
  if (value == nullptr) throw Error(PROA_INVALID_ARGUMENT, proa_last_error());
  return value;
}
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
// NOLINTEND(readability-identifier-naming)

#ifndef PROA_NO_PADDLE_INFER
namespace paddle_infer = proa::inference;
#endif

#endif  // PROA_INFERENCE_HPP_
