// A C++ program against proa_inference.hpp: `operators_test MODEL OPERATORS.so PLAIN`. MODEL has a
// float input x (?, 4), an operator of the library and outputs y (?, 3), as tests/test_operators.py
// makes it; PLAIN is a model without such operators. Prints y for the rows 1 1 1 1 and 2 2 2 2;
// exit code 0 if all holds.
#include <cstring>
#include <iostream>
#include <proa_inference.hpp>
#include <thread>

#include "check.h"

namespace infer = proa::inference;

template <class Body>
infer::Error error_of(Body&& body) {
  try {
    body();
  } catch (const infer::Error& error) {
    return error;
  }
  return infer::Error(PROA_OK, "");
}

std::vector<float> run(infer::Predictor* predictor) {
  const auto x = predictor->GetInputHandle("x");
  x->Reshape({2, 4});
  const std::vector<float> rows = {1, 1, 1, 1, 2, 2, 2, 2};
  x->CopyFromCpu(rows.data());
  predictor->Run();
  return predictor->GetOutputHandle("y")->CopyToVector<float>();
}

int test_flags(const char* plain) {
  infer::SetFlag("PROA_NUM_THREADS", "2");
  infer::SetFlag("PROA_ISA", "no_such_set");
  CHECK(infer::GetFlag("PROA_NUM_THREADS") == "2" && infer::GetFlag("PROA_ISA") == "no_such_set");
  const infer::Error unknown = error_of([&] { infer::CreatePredictor(infer::Config(plain)); });
  CHECK(unknown.status() == PROA_FAILED && std::strstr(unknown.what(), "no_such_set") != nullptr);
  infer::SetFlag("PROA_ISA", "");
  infer::SetFlag("PROA_WINOGRAD", "0");
  infer::CreatePredictor(infer::Config(plain));
  // Kernels are chosen now.
  const infer::Error late = error_of([&] { infer::SetFlag("PROA_WINOGRAD", "1"); });
  CHECK(late.status() == PROA_INVALID_ARGUMENT && infer::GetFlag("PROA_WINOGRAD") == "0");
  infer::SetFlag("PROA_NUM_THREADS", "1");
  for (const char* wrong : {"0", "many", ""}) {
    CHECK(error_of([&] { infer::SetFlag("PROA_NUM_THREADS", wrong); }).status() ==
          PROA_INVALID_ARGUMENT);
  }
  CHECK(error_of([&] { infer::SetFlag("PATH", ""); }).status() == PROA_INVALID_ARGUMENT);
  CHECK(error_of([&] { infer::GetFlag("PATH"); }).status() == PROA_INVALID_ARGUMENT);
  return 0;
}

int test_stacks(const char* model) {
  const auto fails = [&] { infer::CreatePredictor(infer::Config(model)); };
  // Calls of the engine and the C function that was called.
  const infer::Error error = error_of(fails);
  CHECK(error.stack().find("proa_predictor_create") != std::string::npos);
  CHECK(error.stack().find("proa::Engine") != std::string::npos);
  const infer::Error argument = error_of([] { infer::LoadOperators("no such file"); });
  CHECK(argument.status() == PROA_NOT_FOUND);
  CHECK(argument.stack().find("proa_load_operators") != std::string::npos);
  infer::SetFlag("FLAGS_call_stack_level", "1");
  CHECK(error_of(fails).stack().empty() && std::strlen(error_of(fails).what()) > 0);
  infer::SetFlag("FLAGS_call_stack_level", "2");
  CHECK(!error_of(fails).stack().empty());
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const char *model = argv[1], *library = argv[2], *plain = argv[3];
  CHECK(test_flags(plain) == 0);
  CHECK(test_stacks(model) == 0);
  const infer::Config config(model);
  const infer::Error unknown = error_of([&] { infer::CreatePredictor(config); });
  CHECK(unknown.status() == PROA_UNIMPLEMENTED);
  CHECK(std::strstr(unknown.what(), "cubed") != nullptr);
  CHECK(std::strstr(unknown.what(), "load") != nullptr);
  CHECK(error_of([&] { infer::LoadOperators(plain); }).status() == PROA_INVALID_ARGUMENT);

  infer::LoadOperators(library);
  infer::LoadOperators(library);
  const auto predictor = infer::CreatePredictor(config);
  const std::vector<float> y = run(predictor.get());
  const auto clone = predictor->Clone();
  std::vector<float> same;
  std::thread([&] { same = run(clone.get()); }).join();
  CHECK(y.size() == 6 && same == y);
  // What the operator refuses is an error of the run, and the predictor continues.
  const auto x = predictor->GetInputHandle("x");
  x->Reshape({1, 4});
  const std::vector<float> huge(4, 1e9f);
  x->CopyFromCpu(huge.data());
  const infer::Error refused = error_of([&] { predictor->Run(); });
  CHECK(refused.status() != PROA_OK && std::strstr(refused.what(), "too large") != nullptr);
  CHECK(run(predictor.get()) == y);
  for (const float value : y) std::cout << value << "\n";
  return 0;
}
