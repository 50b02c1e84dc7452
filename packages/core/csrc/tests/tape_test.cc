// The tape without Python: gradients, versions, long chains, memory that comes back.
#include "proa/train/tape.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "proa/gen/ops.h"
#include "proa/runtime/allocator.h"
#include "proa/runtime/error.h"
#include "proa/train/dispatch.h"

using namespace proa;  // NOLINT: a test

namespace {

void check(bool held, const char* what) {
  if (held) return;
  std::printf("FAIL %s\n", what);
  std::exit(1);
}

Tensor leaf(std::initializer_list<float> values) {
  const auto n = static_cast<int64_t>(values.size());
  Tensor x = empty(DType::kF32, &n, 1);
  int64_t i = 0;
  for (const float v : values) x.data<float>()[i++] = v;
  x->set(TensorImpl::kStopGradient, false);
  return x;
}

float grad_at(const Tensor& x, int i) { return x->extras->grad.data<float>()[i]; }

void test_values() {
  const Tensor x = leaf({1, 2, 3}), y = leaf({4, 5, 6});
  const Tensor z = ops::sum(ops::mul(x, ops::add(x, y)), Ints(), 0);
  backward({z}, {}, {true, false});
  for (int i = 0; i < 3; ++i) {
    const float a = x.data<float>()[i], b = y.data<float>()[i];
    check(std::fabs(grad_at(x, i) - (2 * a + b)) < 1e-6f, "d/dx x (x + y)");
    check(std::fabs(grad_at(y, i) - a) < 1e-6f, "d/dy x (x + y)");
  }
  backward({z}, {}, {});
  check(std::fabs(grad_at(y, 0) - 2) < 1e-6f, "gradients add up");
}

void test_second_order() {
  const Tensor x = leaf({2});
  GradOptions options;
  options.retain_graph = options.create_graph = true;
  const auto first = grad({ops::mul(x, ops::mul(x, x))}, {x}, {}, options);
  const auto second = grad(first, {x}, {}, {});
  check(std::fabs(first[0].data<float>()[0] - 12) < 1e-5f, "3 x**2");
  check(std::fabs(second[0].data<float>()[0] - 12) < 1e-5f, "6 x");
}

void test_versions() {
  const Tensor x = leaf({1, 2});
  Tensor y = ops::mul(x, weak(2.0));
  const Tensor z = ops::sum(ops::mul(y, y), Ints(), 0);
  y->storage->bump_version();
  bool found = false;
  try {
    backward({z}, {}, {});
  } catch (const Error& e) {
    found = e.kind() == ErrorKind::kPreconditionNotMet;
  }
  check(found, "a changed saved tensor is found out");
}

void test_long_chain_and_memory() {
  const int64_t before = memory_stats().allocated;
  {
    const Tensor x = leaf({1});
    Tensor y = x;
    for (int i = 0; i < 200000; ++i) y = ops::add(y, x);
    backward({y}, {}, {});
    check(grad_at(x, 0) == 200001, "a long chain");
  }
  check(memory_stats().allocated == before, "a graph's memory comes back");
}

}  // namespace

int main() {
  test_values();
  test_second_order();
  test_versions();
  test_long_chain_and_memory();
  return 0;
}
