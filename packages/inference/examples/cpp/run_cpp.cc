// run_cpp MODEL: runs a model on ones and prints each output. Unknown sizes are 1.
#include <iostream>
#include <proa_inference.hpp>

namespace infer = proa::inference;

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: run_cpp MODEL\n";
    return 2;
  }
  try {
    infer::Config config(argv[1]);
    config.SetCpuMathLibraryNumThreads(1);
    const std::shared_ptr<infer::Predictor> predictor = infer::CreatePredictor(config);
    for (const auto& input : predictor->GetInputTensorShape()) {
      std::vector<int> shape;
      size_t count = 1;
      for (const int64_t size : input.second) {
        shape.push_back(size < 0 ? 1 : static_cast<int>(size));
        count *= static_cast<size_t>(shape.back());
      }
      const std::vector<float> ones(count, 1.0f);
      const auto handle = predictor->GetInputHandle(input.first);
      handle->Reshape(shape);
      handle->CopyFromCpu(ones.data());
    }
    predictor->Run();
    for (const std::string& name : predictor->GetOutputNames()) {
      std::cout << name << ":";
      for (const float value : predictor->GetOutputHandle(name)->CopyToVector<float>()) {
        std::cout << " " << value;
      }
      std::cout << "\n";
    }
  } catch (const infer::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
