// Cache profiles: how they are chosen, and that results do not depend on them, bit for bit.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kernel_call.h"
#include "proa/base/cpu.h"
#include "proa/base/settings.h"
#include "proa/gen/attrs.h"
#include "proa/runtime/cache_size.h"

using namespace proa_test;
using proa::Caches;

namespace {

constexpr Caches kProfiles[] = {Caches::kSmall, Caches::kLarge};

void expect(bool condition, const char* what) {
  if (condition) return;
  printf("FAIL %s\n", what);
  ++failures;
}

/// Calls body() with every profile; it writes y, which must be the same each time.
template <class F>
void expect_same_bits(const std::string& what, Array<float>* y, F body) {
  const Caches before = proa::settings().caches;
  std::vector<float> first;
  for (const Caches caches : kProfiles) {
    proa::settings().caches = caches;
    std::fill(y->data.begin(), y->data.end(), -1.0f);
    body();
    if (first.empty()) first = y->data;
    const bool same = memcmp(first.data(), y->data.data(), first.size() * sizeof(float)) == 0;
    expect(same, (what + " depends on the cache profile").c_str());
  }
  proa::settings().caches = before;
}

void test_products() {
  const int64_t shapes[][3] = {{1, 600, 700},    {3, 2000, 900},  {16, 500, 1100}, {40, 300, 900},
                               {64, 2100, 1000}, {300, 700, 800}, {700, 130, 400}, {90, 64, 64}};
  for (const auto& s : shapes) {
    Array<float> x({s[0], s[2]}, DType::kF32), w({s[2], s[1]}, DType::kF32),
        wt({s[1], s[2]}, DType::kF32), y({s[0], s[1]}, DType::kF32);
    x.fill(1, 1000, 1e-3);
    w.fill(2, 1000, 1e-3);
    wt.fill(3, 1000, 1e-3);
    View transposed = wt.view;
    std::swap(transposed.shape[0], transposed.shape[1]);
    std::swap(transposed.stride[0], transposed.stride[1]);
    const std::string name = "matmul " + std::to_string(s[0]) + " x " + std::to_string(s[1]);
    for (const bool prepack : {false, true})
      expect_same_bits(name, &y,
                       [&] { run("matmul", {x.view, w.view}, &y.view, nullptr, prepack); });
    expect_same_bits(name + " transposed", &y,
                     [&] { run("matmul", {x.view, transposed}, &y.view, nullptr, false); });
  }
}

struct Shape {
  const char* name;
  int64_t batch, channels, outs, size, kernel, stride, groups;
};
const Shape kShapes[] = {
    {"1x1 convolution", 1, 256, 200, 28, 1, 1, 1},
    {"3x3 convolution", 2, 32, 48, 40, 3, 2, 1},
    {"7x7 convolution", 1, 3, 64, 112, 7, 2, 1},
    {"Winograd convolution", 1, 128, 128, 28, 3, 1, 1},
    {"wide convolution", 1, 512, 300, 14, 3, 2, 1},
    {"depthwise convolution", 1, 64, 64, 112, 3, 1, 64},
    {"grouped convolution", 1, 64, 96, 30, 3, 1, 4},
};

template <class A>
A attrs_of(const Shape& s) {
  A a = {};
  const int64_t padding = s.kernel / 2;
  a.stride = {2, {s.stride, s.stride}};
  a.padding = {4, {padding, padding, padding, padding}};
  a.groups = s.groups;
  return a;
}

void test_convolutions() {
  for (const Shape& s : kShapes) {
    const int64_t out = (s.size + 2 * (s.kernel / 2) - s.kernel) / s.stride + 1;
    Array<float> x({s.batch, s.channels, s.size, s.size}, DType::kF32),
        w({s.outs, s.channels / s.groups, s.kernel, s.kernel}, DType::kF32),
        y({s.batch, s.outs, out, out}, DType::kF32), bias({s.outs}, DType::kF32);
    x.fill(1, 100, 0.01);
    w.fill(2, 100, 0.01);
    bias.fill(4, 100, 1e-6);
    for (View* v : {&x.view, &y.view}) v->set_channels_last();
    const auto forward = attrs_of<proa::Conv2dActAttrs>(s);
    expect_same_bits(s.name, &y, [&] {
      run("conv2d_act", {x.view, w.view, bias.view}, &y.view, &forward, true);
    });
    y.fill(3, 100, 0.01);
    const auto input = attrs_of<proa::Conv2dGradInputAttrs>(s);
    expect_same_bits(s.name, &x, [&] {
      run("conv2d_grad_input", {y.view, w.view, x.view}, &x.view, &input, false);
    });
    x.fill(1, 100, 0.01);
    const auto weight = attrs_of<proa::Conv2dGradWeightAttrs>(s);
    expect_same_bits(s.name, &w, [&] {
      run("conv2d_grad_weight", {x.view, y.view, w.view}, &w.view, &weight, false);
    });
  }
}

void test_choice() {
  auto chosen = [](const char* text, int64_t l2_bytes) {
    Caches caches = Caches::kSmall;
    expect(proa::choose_caches(text, l2_bytes, &caches), "a profile is known");
    return caches;
  };
  expect(chosen(nullptr, 0) == Caches::kSmall, "an unknown cache is small");
  expect(chosen("", 512 << 10) == Caches::kSmall, "512 KiB are small");
  expect(chosen("", 1 << 20) == Caches::kLarge, "1 MiB is large");
  expect(chosen("small", 1 << 20) == Caches::kSmall, "a name overrides the size");
  expect(chosen("large", 512 << 10) == Caches::kLarge, "a name overrides the size");
  Caches caches = Caches::kSmall;
  expect(!proa::choose_caches("huge", 1 << 20, &caches), "other names are refused");
}

/// Writes the files of a Zen 5 as Linux shows them.
void test_files() {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / "proa_tuning_test";
  const char* const caches[][2] = {{"1", "48K"}, {"1", "32K"}, {"2", "1024K"}, {"3", "32M"}};
  for (int i = 0; i < 4; ++i) {
    const fs::path cache = folder / ("index" + std::to_string(i));
    fs::create_directories(cache);
    std::ofstream(cache / "level") << caches[i][0] << "\n";
    std::ofstream(cache / "size") << caches[i][1] << "\n";
  }
  const int64_t bytes = proa::l2_cache_bytes_of_files(folder.c_str());
  fs::remove_all(folder);
  expect(bytes == 1 << 20, "the second-level cache is read");
  expect(proa::l2_cache_bytes_of_files(folder.c_str()) == 0, "without files it is unknown");
}

}  // namespace

int main() {
  test_choice();
  test_files();
  for_each_isa([](int) {
    test_products();
    test_convolutions();
  });
  return failures != 0;
}
