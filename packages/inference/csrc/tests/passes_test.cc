// Graph passes from C++: `passes_test GATE`, a model of elementwise operators x, g (?, 96) -> y as
// `proa-infer optimize` wrote it in tests/test_cpp.py. Exit code 0 if all holds.
#include <cstring>
#include <iostream>
#include <proa_inference.hpp>

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      std::cerr << "line " << __LINE__ << ": " << #condition << "\n"; \
      return 1;                                                       \
    }                                                                 \
  } while (0)

namespace infer = proa::inference;

namespace {

const char* const kChains = "chain_elementwise";
constexpr int64_t kRows = 4096, kColumns = 96;

template <class Body>
proa_status status_of(Body&& body, const char* text = "") {
  try {
    body();
    return PROA_OK;
  } catch (const infer::Error& error) {
    return std::strstr(error.what(), text) == nullptr ? PROA_FAILED : error.status();
  }
}

/// The results of a run, and its operators.
struct Run {
  std::vector<float> y;
  std::string ops;
};

Run run(const infer::Config& config) {
  proa_predictor* predictor = nullptr;
  infer::internal::check(proa_predictor_create(config.get(), &predictor));
  Run observed;
  proa_predictor_set_profile(
      predictor,
      [](void* ops, const char* op, const char*, int64_t) {
        *static_cast<std::string*>(ops) += std::string(op) + " ";
      },
      &observed.ops);
  std::vector<float> x(kRows * kColumns), g(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i % 17) - 8.0f;
    g[i] = static_cast<float>(i % 23) / 8.0f - 1.0f;
  }
  const proa_array in[2] = {{x.data(), PROA_FLOAT32, 2, {kRows, kColumns}},
                            {g.data(), PROA_FLOAT32, 2, {kRows, kColumns}}};
  observed.y.resize(x.size());
  proa_array out = {observed.y.data(), PROA_FLOAT32, 2, {kRows, kColumns}};
  infer::internal::check(proa_predictor_run(predictor, in, &out));
  proa_predictor_free(predictor);
  return observed;
}

int test_editing(infer::Config* config) {
  infer::PassStrategy* passes = config->pass_builder();
  const std::vector<std::string> all = passes->AllPasses();
  CHECK(all.size() > 5 && all.back() == kChains);
  CHECK(passes->AnalysisPasses() == all);
  CHECK(passes->DebugString().find("- fuse_bias\n") != std::string::npos);
  CHECK(status_of([&] { passes->DeletePass("fuse_nothing"); }, "chain_elementwise") ==
        PROA_NOT_FOUND);
  CHECK(status_of([&] { passes->DeletePass("fuse_bias"); },
                  "proa-infer optimize --delete-pass fuse_bias") == PROA_UNIMPLEMENTED);
  CHECK(status_of([&] { passes->AppendPass("quantize_recurrent"); },
                  "proa-infer optimize --append-pass quantize_recurrent") == PROA_UNIMPLEMENTED);
  CHECK(status_of([&] { passes->ClearPasses(); }) == PROA_UNIMPLEMENTED);
  CHECK(status_of([&] { passes->InsertPass(all.size() + 1, kChains); }) == PROA_OUT_OF_RANGE);
  CHECK(status_of([&] { passes->DeletePass(all.size()); }) == PROA_OUT_OF_RANGE);
  CHECK(status_of([&] { passes->SetPasses({"fold_constants", kChains}); }) == PROA_UNIMPLEMENTED);
  passes->AppendPass(kChains);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  infer::Config config(argv[1]);
  CHECK(config.ir_optim());
  const Run chained = run(config);
  CHECK(chained.ops == "chain ");

  config.pass_builder()->DeletePass(kChains);
  const infer::Config copy = config;
  const std::vector<std::string> left = config.pass_builder()->AllPasses();
  CHECK(!left.empty() && left.back() != kChains);
  for (const infer::Config& plain : {config, copy}) {
    const Run single = run(plain);
    CHECK(single.ops.find("chain") == std::string::npos && single.ops.find("sigmoid") == 0);
    CHECK(std::memcmp(single.y.data(), chained.y.data(), 4 * chained.y.size()) == 0);
  }
  config.pass_builder()->InsertPass(left.size(), kChains);
  CHECK(run(config).ops == "chain ");
  config.pass_builder()->DeletePass(left.size());
  CHECK(run(config).ops != "chain ");
  config.pass_builder()->AppendPass(kChains);
  config.SwitchIrOptim(false);
  CHECK(!config.ir_optim() && run(config).ops == run(copy).ops);
  config.SwitchIrOptim();
  if (test_editing(&config) != 0) return 1;
  return run(config).ops == "chain " ? 0 : 1;
}
