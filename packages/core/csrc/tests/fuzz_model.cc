// Throws changed model files at the reader, the binder and the planner: each must end in a Status.
// Run under the sanitizers; csrc/fuzz continues for hours. As a libFuzzer target, build
// with -DPROA_LIBFUZZER -fsanitize=fuzzer.
#include <stdio.h>
#include <stdlib.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "../fuzz/model_cases.h"

using proa::fuzz::Bytes;
using proa::fuzz::mutate;
using proa::fuzz::Random;
using proa::fuzz::try_model;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try_model(data, size);
  return 0;
}

#ifndef PROA_LIBFUZZER
int main(int argc, char** argv) {
  const double seconds = argc > 1 ? atof(argv[1]) : 5;
  const std::string here = __FILE__;
  const std::string golden = here.substr(0, here.rfind("csrc/")) + "tests/ir/golden/";
  std::vector<Bytes> seeds;
  for (const char* name : {"small_cnn.v1.proa", "every_dtype.v1.proa", "control_flow.v1.proa",
                           "small_cnn.v1.deflate"}) {
    std::ifstream file(golden + name, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    if (seeds.back().empty()) {
      fprintf(stderr, "the golden file %s%s must exist\n", golden.c_str(), name);
      return 1;
    }
    if (const int stage = try_model(seeds.back().data(), seeds.back().size()); stage != 3) {
      fprintf(stderr, "the golden file %s must be planned, got stage %d\n", name, stage);
      return 1;
    }
    // Every shorter file is refused: its size is not the one it names.
    for (size_t n = 0; n < seeds.back().size(); ++n) {
      if (try_model(seeds.back().data(), n) != 0) return 1;
    }
  }
  Random random{0x9e3779b97f4a7c15ull};
  long counts[4] = {}, total = 0;
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() <
         seconds) {
    for (int i = 0; i < 100; ++i, ++total) {
      const Bytes bytes = mutate(seeds, &random);
      ++counts[try_model(bytes.data(), bytes.size())];
    }
  }
  printf("%ld files: %ld refused, %ld not bound, %ld not planned, %ld planned\n", total, counts[0],
         counts[1], counts[2], counts[3]);
  return 0;
}
#endif
