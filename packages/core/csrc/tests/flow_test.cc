// A model with branches and loops in the engine: results, clones in threads, memory, errors.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "proa/runtime/allocator.h"
#include "proa/runtime/engine.h"

using proa::Engine;
using proa::EngineError;
using proa::View;

namespace {

void check(bool held, const char* what) {
  if (held) return;
  std::printf("FAIL %s\n", what);
  std::exit(1);
}

/// What tests/ir/golden/make.py says that the model computes:
/// `while i < n: x = x @ w if sum(x) < 9 else x - 4`; then x + b. w and b are ramps.
std::vector<double> expected(std::vector<double> x, int64_t n) {
  const auto ramp = [](size_t i) { return (static_cast<double>(i) - 8) * 0.125; };
  for (int64_t i = 0; i < n; ++i) {
    const bool small = x[0] + x[1] + x[2] < 9;
    std::vector<double> y(3);
    for (size_t k = 0; k < 3; ++k) {
      for (size_t j = 0; j < 3; ++j) y[k] += x[j] * ramp(3 * j + k);
      if (!small) y[k] = x[k] - 4;
    }
    x = y;
  }
  for (size_t k = 0; k < 3; ++k) x[k] += ramp(k);
  return x;
}

std::string golden() {
  const std::string here = __FILE__;
  const std::string path =
      here.substr(0, here.rfind("csrc/")) + "tests/ir/golden/control_flow.v1.proa";
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  check(!bytes.empty(), "the golden file must exist");
  return bytes;
}

struct Inputs {
  float x[3] = {1, 2, 3};
  int64_t n;
  View views[2];

  explicit Inputs(int64_t rounds, float first = 1) : n(rounds) {
    x[0] = first;
    views[0].data = x;
    views[0].rank = 2;
    views[0].shape[0] = 1;
    views[0].shape[1] = 3;
    views[0].set_contiguous();
    views[1].data = &n;
    views[1].rank = 0;
    views[1].dtype = proa::DType::kI64;
  }
};

void check_run(Engine* engine, int64_t n, float first = 1) {
  Inputs in(n, first);
  View out;
  engine->run(in.views, &out);
  const std::vector<double> want = expected({first, 2, 3}, n);
  check(out.rank == 2 && out.shape[0] == 1 && out.shape[1] == 3, "the shape is the run's");
  for (size_t k = 0; k < 3; ++k) {
    const double got = out.as<float>()[k];
    check(std::fabs(got - want[k]) <= 1e-4 * (1 + std::fabs(want[k])), "results are right");
  }
}

/// What goes wrong in `body`.
template <class Body>
std::string error_of(Body body) {
  try {
    body();
  } catch (const EngineError& error) {
    return error.what();
  }
  return "";
}

void test_errors(const std::string& model) {
  auto engine = Engine::from_bytes(model.data(), model.size());
  Inputs in(2);
  in.views[0].shape[1] = 2;
  View out;
  check(error_of([&] { engine->run(in.views, &out); }).find("'x'") != std::string::npos,
        "a wrong input is named");
  Inputs right(2);
  check(engine->has_control_flow(), "the model directs");
  check(engine->output_specs(right.views)[0].shape == std::vector<int64_t>{1, 3},
        "shapes that the file states are known before a run");
  float mine[4] = {};
  out = right.views[0];
  out.data = mine;
  out.shape[1] = 2;
  check(error_of([&] { engine->run(right.views, &out); }).find("(1, 3)") != std::string::npos,
        "memory for an output has its shape");
  out.shape[1] = 3;
  out.stride[0] = 3;
  engine->run(right.views, &out);
  check(std::fabs(mine[0] - expected({1, 2, 3}, 2)[0]) < 1e-3, "the caller's memory is filled");
  check_run(engine.get(), 3);
}

void test_interrupt(const std::string& model) {
  proa::EngineOptions options;
  struct Stop {};
  options.interrupt = [] { throw Stop(); };
  auto engine = Engine::from_bytes(model.data(), model.size(), options);
  Inputs in(int64_t{1} << 60);
  View out;
  bool stopped = false;
  try {
    engine->run(in.views, &out);
  } catch (const Stop&) {
    stopped = true;
  }
  check(stopped, "what the interrupt throws ends a run");
}

void test_clones(const std::string& model) {
  auto first = Engine::from_bytes(model.data(), model.size());
  std::vector<std::unique_ptr<Engine>> clones;
  for (int i = 0; i < 3; ++i) clones.push_back(first->clone());
  first.reset();
  std::vector<std::thread> threads;
  for (size_t i = 0; i < clones.size(); ++i) {
    threads.emplace_back([&clones, i] {
      for (int64_t n = 0; n < 6; ++n) check_run(clones[i].get(), n, static_cast<float>(9 * i));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void test_memory(const std::string& model) {
  const int64_t before = proa::memory_stats().allocated;
  {
    auto engine = Engine::from_bytes(model.data(), model.size());
    check_run(engine.get(), 4);
    const size_t arena = engine->arena_bytes();
    const int64_t held = proa::memory_stats().allocated;
    Inputs in(10000, 1e6f);
    View out;
    engine->run(in.views, &out);
    check(engine->arena_bytes() == arena, "rounds take no more memory");
    check(proa::memory_stats().allocated == held, "rounds leave nothing");
  }
  check(proa::memory_stats().allocated == before, "an engine leaves nothing");
}

}  // namespace

int main() {
  const std::string model = golden();
  auto engine = Engine::from_bytes(model.data(), model.size());
  for (int64_t n = 0; n < 8; ++n) {
    for (const float first : {1.0f, 20.0f, -7.0f}) check_run(engine.get(), n, first);
  }
  size_t products = 0, differences = 0;
  engine->set_profile([&](const char* op, const char*, int64_t) {
    products += std::string(op) == "matmul" ? 1 : 0;
    differences += std::string(op) == "sub" ? 1 : 0;
  });
  check_run(engine.get(), 5, 20);
  check(products > 0 && differences > 0 && products + differences == 5, "steps are reported");
  test_errors(model);
  test_interrupt(model);
  test_clones(model);
  test_memory(model);
  std::printf("ok\n");
  return 0;
}
