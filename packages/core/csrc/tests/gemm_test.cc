// Matrix products of every tile edge, stride pattern and packing against a plain sum in double.
#include "kernel_call.h"

using namespace proa_test;

namespace {

template <class T>
void check(int64_t m, int64_t k, int64_t n, DType dtype, double tolerance, int isa) {
  for (int form = 0; form < 8; ++form) {
    // Bit 0: x is a transposed view; bit 1: y is; bit 2: y is prepacked.
    Array<T> x({m, k}, dtype), y({k, n}, dtype), z({m, n}, dtype);
    x.fill(1, 1000, 1e-3);
    y.fill(2, 1000, 1e-3);
    if (form & 1) x.view.stride[0] = 1, x.view.stride[1] = m;
    if (form & 2) y.view.stride[0] = 1, y.view.stride[1] = k;
    std::vector<double> want(static_cast<size_t>(m * n));
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        for (int64_t p = 0; p < k; ++p)
          want[i * n + j] +=
              static_cast<double>(x.data[i * x.view.stride[0] + p * x.view.stride[1]]) *
              y.data[p * y.view.stride[0] + j * y.view.stride[1]];
    run("matmul", {x.view, y.view}, &z.view, nullptr, (form & 4) != 0);
    char what[80];
    snprintf(what, sizeof what, "isa %d (%d, %d) @ (%d, %d) form %d", isa, static_cast<int>(m),
             static_cast<int>(k), static_cast<int>(k), static_cast<int>(n), form);
    expect_near(what, z.data.data(), want.data(), want.size(), tolerance);
  }
}

/// A row is multiplied by prepacked weights to the same bits alone and among others, into results
/// that are contiguous and ones that are not.
void check_rows(int64_t m, int64_t k, int64_t n, int isa) {
  Array<float> x({m, k}, DType::kF32), y({k, n}, DType::kF32), all({m, n}, DType::kF32);
  x.fill(1, 1000, 1e-3);
  y.fill(2, 1000, 1e-3);
  run("matmul", {x.view, y.view}, &all.view, nullptr, true);
  for (int64_t row = 0; row < m; row += 13)
    for (int64_t gap : {1, 2}) {
      View one = x.view;
      one.shape[0] = 1;
      one.data = x.data.data() + row * k;
      Array<float> z({1, gap * n}, DType::kF32);
      z.view.shape[1] = n;
      z.view.stride[1] = gap;
      run("matmul", {one, y.view}, &z.view, nullptr, true);
      for (int64_t j = 0; j < n; ++j) z.data[j] = z.data[j * gap];
      char what[80];
      snprintf(what, sizeof what, "isa %d row %d of (%d, %d) @ (%d, %d) gap %d", isa,
               static_cast<int>(row), static_cast<int>(m), static_cast<int>(k), static_cast<int>(k),
               static_cast<int>(n), static_cast<int>(gap));
      expect_near(what, z.data.data(), all.data.data() + row * n, n, 0);
    }
}

}  // namespace

int main() {
  for_each_isa([](int isa) {
    for (int64_t m : {1, 2, 5, 6, 7, 14, 15, 29, 40})
      for (int64_t n : {1, 7, 8, 9, 16, 17, 32, 33, 70})
        for (int64_t k : {0, 1, 15, 16, 33, 260, 600}) {
          check<float>(m, k, n, DType::kF32, 3e-6, isa);
          if (k < 300) check<double>(m, k, n, DType::kF64, 1e-14, isa);
        }
    // Several panels of weights side by side, and several blocks of steps.
    for (int64_t m : {1, 2, 40, 49, 60})
      for (int64_t n : {128, 150, 300}) {
        check<float>(m, 900, n, DType::kF32, 6e-6, isa);
        check_rows(m, 900, n, isa);
      }
  });
  return report();
}
