// Gradients of look-ups write their own memory and no more, for every position of the indexed axis.
#include "kernel_call.h"
#include "proa/gen/attrs.h"

using namespace proa_test;

namespace {

constexpr int64_t kRows = 3, kWidth = 5, kGuard = 64;
const int64_t kIndex[] = {2, 0, 2};

void check(std::initializer_list<int64_t> shape, int64_t axis) {
  Array<float> dx(shape, DType::kF32);
  const size_t size = dx.data.size() - 1;
  dx.data.assign(size + kGuard, 7);
  dx.view.data = dx.data.data();
  const View like = dx.view;
  Array<float> dy(shape, DType::kF32);  // as many indices as rows
  dy.fill(1, 1000, 1e-3);
  Array<int64_t> rows({kRows}, DType::kI64);
  for (int64_t i = 0; i < kRows; ++i) rows.data[static_cast<size_t>(i)] = kIndex[i];
  proa::GatherGradAttrs attrs;
  attrs.axis = axis;
  run("gather_grad", {dy.view, rows.view, like}, &dx.view, &attrs, false);
  std::vector<float> want(size);
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t j = 0; j < kWidth; ++j)
      want[static_cast<size_t>(kIndex[i] * kWidth + j)] +=
          dy.data[static_cast<size_t>(i * kWidth + j)];
  expect_near("gather_grad", dx.data.data(), want.data(), size, 1e-6);
  for (size_t i = size; i < size + kGuard; ++i) {
    if (dx.data[i] == 7) continue;
    printf("FAIL gather_grad: it wrote element %zu of %zu\n", i, size);
    ++failures;
    return;
  }
}

}  // namespace

int main() {
  for_each_isa([](int) {
    check({kRows, kWidth}, 0);
    check({1, kRows, kWidth}, 1);
    check({1, 1, kRows, kWidth}, 2);
  });
  return report();
}
