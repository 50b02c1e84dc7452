// A C++ program against proa_inference.hpp: `cpp_api_test MODEL ENCRYPTED`, a model with a float
// input x (?, 6) and outputs y (?, 3) and hidden (?, 8), as tests/test_cpp.py makes it, and the
// same encrypted by a key of 32 bytes of 7. Prints y for each row of a batch of ones; exit code 0
// if all holds.
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <proa_inference.hpp>
#include <thread>

#include "check.h"

namespace infer = paddle_infer;

template <class Body>
proa_status status_of(Body&& body) {
  try {
    body();
    return PROA_OK;
  } catch (const infer::Error& error) {
    if (std::strlen(error.what()) == 0) return PROA_FAILED;
    return error.status();
  }
}

std::vector<float> run(infer::Predictor* predictor, int rows) {
  const auto x = predictor->GetInputHandle("x");
  x->Reshape({rows, 6});
  const std::vector<float> ones(static_cast<size_t>(rows) * 6, 1.0f);
  x->CopyFromCpu(ones.data());
  predictor->Run();
  return predictor->GetOutputHandle("y")->CopyToVector<float>();
}

int test_handles(infer::Predictor* predictor, const std::vector<float>& want) {
  auto x = predictor->GetInputHandle("x");
  CHECK(x->name() == "x" && x->type() == infer::DataType::FLOAT32);
  const std::vector<float> ones(12, 1.0f);
  x->ShareExternalData(ones.data(), {2, 6});
  predictor->Run();
  auto y = predictor->GetOutputHandle("y");
  CHECK((y->shape() == std::vector<int>{2, 3}));
  infer::PlaceType place;
  int size = 0;
  const float* data = y->data<float>(&place, &size);
  CHECK(place == infer::PlaceType::kCPU && size == 6 && data[0] == want[0] && data[3] == want[0]);
  x->Reshape({2, 6});
  float* memory = x->mutable_data<float>(infer::PlaceType::kCPU);
  std::fill(memory, memory + 12, 1.0f);
  x->SetLoD({{0, 1, 2}});
  CHECK((x->lod() == std::vector<std::vector<size_t>>{{0, 1, 2}}));
  CHECK(status_of([&] { x->SetLoD({{0, 3}}); }) == PROA_INVALID_ARGUMENT);
  CHECK(predictor->Run() && y->CopyToVector<float>()[0] == want[0]);
  CHECK(status_of([&] { x->CopyFromCpu<int64_t>(nullptr); }) == PROA_INVALID_ARGUMENT);
  CHECK(status_of([&] { y->Reshape({1}); }) == PROA_INVALID_ARGUMENT);
  CHECK(status_of([&] { predictor->GetInputHandle("z"); }) == PROA_NOT_FOUND);
  x->Reshape({2, 5});
  CHECK(status_of([&] { predictor->Run(); }) == PROA_INVALID_ARGUMENT);
  CHECK(predictor->TryShrinkMemory() > 0 && predictor->TryShrinkMemory() == 0);
  CHECK(status_of([&] { y->CopyToVector<float>(); }) == PROA_INVALID_ARGUMENT);
  CHECK(run(predictor, 1) == want);
  return 0;
}

int test_threads(const infer::Config& config, const std::vector<float>& want) {
  infer::PredictorPool pool(config, 3);
  CHECK(pool.size() == 3);
  CHECK(status_of([&] { pool.Retrive(3); }) == PROA_OUT_OF_RANGE);
  std::vector<int> wrong(3, 0);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      for (int rows = 1; rows < 40; ++rows) {
        const std::vector<float> y = run(pool.Retrive(static_cast<size_t>(i)), rows + i);
        wrong[static_cast<size_t>(i)] += y[0] != want[0] || y[y.size() - 1] != want[2];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong[0] == 0 && wrong[1] == 0 && wrong[2] == 0);
  return 0;
}

int test_encryption(const char* path, const std::vector<float>& want) {
  const std::vector<uint8_t> key(32, 7);
  infer::Config config(path);
  CHECK(status_of([&] { infer::CreatePredictor(config); }) == PROA_INVALID_ARGUMENT);
  int calls = 0;
  config.SetCipherKey([&] { return ++calls, key; });
  const infer::Config copy(config);
  CHECK(run(infer::CreatePredictor(copy).get(), 1) == want && calls == 1);
  config.SetCipherKey([] { return std::vector<uint8_t>(32, 8); });
  CHECK(status_of([&] { infer::CreatePredictor(config); }) == PROA_BAD_MODEL);
  config.SetCipherKey([]() -> std::vector<uint8_t> { throw std::runtime_error("no key"); });
  CHECK(status_of([&] { infer::CreatePredictor(config); }) == PROA_INVALID_ARGUMENT);

  const auto cipher = infer::MakeCipher();
  std::ifstream file(path, std::ios::binary);
  std::vector<uint8_t> sealed((std::istreambuf_iterator<char>(file)), {});
  std::vector<uint8_t> plain = cipher->Decrypt(sealed, key);
  const std::vector<uint8_t> again = cipher->Encrypt(plain, key);
  CHECK(again.size() == sealed.size() && again != sealed && cipher->Decrypt(again, key) == plain);
  for (const size_t at : {size_t{7}, size_t{9}, size_t{21}, sealed.size() / 2, sealed.size() - 1}) {
    std::vector<uint8_t> changed = sealed;
    changed[at] ^= 1;
    const proa_status status = status_of([&] { cipher->Decrypt(changed, key); });
    CHECK(status == (at == 7 ? PROA_VERSION : PROA_BAD_MODEL));
  }
  CHECK(status_of([&] { cipher->Decrypt({1, 2, 3}, key); }) == PROA_BAD_MODEL);
  infer::Config memory;
  memory.SetModelBuffer(again.data(), again.size());
  memory.SetCipherKey([&] { return key; });
  CHECK(memory.model_from_memory() && run(infer::CreatePredictor(memory).get(), 1) == want);
  return 0;
}

int test_config(const std::string& path) {
  infer::Config config;
  CHECK(status_of([&] { infer::CreatePredictor(config); }) == PROA_INVALID_ARGUMENT);
  config.SetModel(path);
  config.SetCpuMathLibraryNumThreads(2);
  config.SetMkldnnCacheCapacity(2);
  const infer::Config copy = config;
  CHECK(copy.prog_file() == path && copy.cpu_math_library_num_threads() == 2);
  CHECK(status_of([&] { config.EnableUseGpu(100, 0); }) == PROA_UNIMPLEMENTED);
  CHECK(status_of([&] { config.EnableTensorRtEngine(1 << 20, 1); }) == PROA_UNIMPLEMENTED);
  CHECK(!config.use_gpu() && !config.tensorrt_engine_enabled());
  CHECK(status_of([&] { config.SetCpuMathLibraryNumThreads(-1); }) == PROA_INVALID_ARGUMENT);
  CHECK(config.pass_builder()->AllPasses().empty());
  CHECK(status_of([&] { config.pass_builder()->AppendPass("x"); }) == PROA_UNIMPLEMENTED);
  CHECK(infer::Config().pass_builder()->AllPasses().empty());
  CHECK(status_of([&] { infer::Config("no such file").pass_builder(); }) == PROA_NOT_FOUND);
  CHECK(status_of([&] { infer::CreatePredictor(infer::Config("none")); }) == PROA_NOT_FOUND);
  CHECK(!infer::GetVersion().empty());
  CHECK(infer::GetNumBytesOfDataType(infer::DataType::FLOAT16) == 2);
  return 0;
}

int test_model(const std::string& path, const std::vector<float>& want) {
  const std::string folder = path.substr(0, path.rfind('/'));
  infer::Config config(folder);
  CHECK(config.model_dir() == folder && config.prog_file() == path);
  CHECK(infer::Config(config).model_dir() == folder);
  CHECK(run(infer::CreatePredictor(config).get(), 1) == want);
  CHECK(status_of([] { infer::Config config("/proc"); }) == PROA_INVALID_ARGUMENT);
  const infer::Config pair(path, "");
  CHECK(pair.model_dir().empty() && run(infer::CreatePredictor(pair).get(), 1) == want);
  CHECK(status_of([&] { infer::Config(path, "net.pdiparams"); }) == PROA_UNIMPLEMENTED);
  CHECK(status_of([&] { config.SetModelBuffer("x", 1, "y", 1); }) == PROA_UNIMPLEMENTED);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  config.SetModelBuffer(bytes.data(), bytes.size(), nullptr, 0);
  CHECK(config.model_from_memory() && config.model_dir().empty());
  CHECK(run(infer::CreatePredictor(config).get(), 1) == want);
  return 0;
}

// What programs for Paddle Inference call and has nothing to do here says so when it is asked.
int test_switches() {
  infer::Config config;
  config.SwitchUseFeedFetchOps(false);
  config.SwitchSpecifyInputNames(true);
  config.EnableMemoryOptim();
  config.DisableGlogInfo();
  config.DisableMKLDNN();
  config.SetMKLDNNOp({"conv2d"});
  config.DisableGpu();
  config.DisableONNXRuntime();
  const infer::Config copy = config;
  CHECK(!copy.use_feed_fetch_ops_enabled() && copy.specify_input_name());
  CHECK(copy.enable_memory_optim() && copy.glog_info_disabled() && !copy.mkldnn_enabled());
  CHECK(status_of([&] { config.EnableLiteEngine(); }) == PROA_UNIMPLEMENTED);
  CHECK(status_of([&] { config.EnableONNXRuntime(); }) == PROA_UNIMPLEMENTED);
  CHECK(status_of([&] { config.SwitchIrDebug(); }) == PROA_UNIMPLEMENTED);
  CHECK(status_of([&] { config.EnableMkldnnInt8(); }) == PROA_UNIMPLEMENTED);
  CHECK(status_of([&] { config.SetBfloat16Op({"conv2d"}); }) == PROA_UNIMPLEMENTED);
  CHECK(!copy.lite_engine_enabled() && !copy.use_onnxruntime() && !copy.use_xpu());
  return 0;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
int test_former_names(const char* path, const std::vector<float>& want) {
  infer::AnalysisConfig config(path);
  std::unique_ptr<infer::PaddlePredictor> predictor = infer::CreatePaddlePredictor(config);
  CHECK(run(predictor.get(), 1) == want);
  return 0;
}
#pragma GCC diagnostic pop

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  infer::Config config(argv[1]);
  config.EnableProfile();
  config.SetCpuMathLibraryNumThreads(1);
  std::vector<float> want;
  {
    const auto predictor = infer::CreatePredictor(config);
    CHECK((predictor->GetInputNames() == std::vector<std::string>{"x"}));
    CHECK((predictor->GetOutputNames() == std::vector<std::string>{"y", "hidden"}));
    want = run(predictor.get(), 1);
    CHECK(want.size() == 3);
    CHECK(test_handles(predictor.get(), want) == 0);
  }
  CHECK(test_config(argv[1]) == 0);
  CHECK(test_model(argv[1], want) == 0);
  CHECK(test_switches() == 0);
  CHECK(test_former_names(argv[1], want) == 0);
  CHECK(test_threads(config, want) == 0);
  CHECK(test_encryption(argv[2], want) == 0);
  for (const float value : want) std::cout << value << "\n";
  return 0;
}
