// Convolutions with unlike strides, borders, dilations and groups against a plain sum in double,
// and the exactness of the int8 convolution on every instruction set.
#include <math.h>

#include "kernel_call.h"
#include "proa/gen/attrs.h"

using namespace proa_test;

namespace {

struct Shape {
  int64_t n, c, h, w, o, kh, kw, stride[2], padding[4], dilation[2], groups;
  int64_t rows() const {
    return (h + padding[0] + padding[1] - dilation[0] * (kh - 1) - 1) / stride[0] + 1;
  }
  int64_t cols() const {
    return (w + padding[2] + padding[3] - dilation[1] * (kw - 1) - 1) / stride[1] + 1;
  }
};

const Shape kShapes[] = {
    {2, 1, 9, 9, 6, 3, 3, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1},
    {1, 6, 14, 14, 16, 5, 5, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
    {1, 5, 11, 10, 40, 3, 2, {2, 3}, {1, 0, 2, 1}, {1, 2}, 1},
    {1, 8, 7, 9, 12, 3, 3, {1, 2}, {0, 2, 1, 0}, {2, 1}, 4},
    {1, 17, 8, 7, 17, 3, 3, {2, 2}, {1, 1, 1, 1}, {1, 1}, 17},
    {1, 512, 3, 4, 70, 1, 1, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
    {1, 2048, 2, 3, 7, 1, 1, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
    {1, 3, 15, 19, 33, 7, 7, {2, 2}, {3, 3, 3, 3}, {1, 1}, 1},
    {2, 64, 7, 7, 24, 3, 3, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1},
    {1, 64, 9, 10, 64, 3, 3, {1, 1}, {0, 0, 0, 0}, {1, 1}, 64},
    {1, 40, 9, 10, 40, 5, 3, {2, 1}, {2, 2, 1, 1}, {1, 2}, 40},
};

/// Calls body(x index, w index, y index) for every product of the convolution.
template <class F>
void for_each_product(const Shape& s, F body) {
  const int64_t depth = s.c / s.groups, outs = s.o / s.groups;
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t o = 0; o < s.o; ++o)
      for (int64_t i = 0; i < s.rows(); ++i)
        for (int64_t j = 0; j < s.cols(); ++j)
          for (int64_t c = 0; c < depth; ++c)
            for (int64_t p = 0; p < s.kh; ++p)
              for (int64_t q = 0; q < s.kw; ++q) {
                const int64_t h = i * s.stride[0] + p * s.dilation[0] - s.padding[0];
                const int64_t w = j * s.stride[1] + q * s.dilation[1] - s.padding[2];
                if (h < 0 || h >= s.h || w < 0 || w >= s.w) continue;
                const int64_t channel = o / outs * depth + c;
                body(((n * s.c + channel) * s.h + h) * s.w + w,
                     ((o * depth + c) * s.kh + p) * s.kw + q,
                     ((n * s.o + o) * s.rows() + i) * s.cols() + j);
              }
}

template <class A>
A attributes(const Shape& s) {
  A a;
  for (int i = 0; i < 2; ++i) a.stride.v[i] = s.stride[i], a.dilation.v[i] = s.dilation[i];
  for (int i = 0; i < 4; ++i) a.padding.v[i] = s.padding[i];
  a.groups = s.groups;
  return a;
}

void check_float(const Shape& s, bool prepack) {
  Array<float> x({s.n, s.c, s.h, s.w}, DType::kF32), y({s.n, s.o, s.rows(), s.cols()}, DType::kF32),
      w({s.o, s.c / s.groups, s.kh, s.kw}, DType::kF32), dy = y, dx = x, dw = w;
  // The copies own their elements too.
  dy.view.data = dy.data.data();
  dx.view.data = dx.data.data();
  dw.view.data = dw.data.data();
  x.fill(1, 1000, 1e-3);
  w.fill(2, 1000, 1e-3);
  dy.fill(3, 1000, 1e-3);
  std::vector<double> ry(y.data.size()), rx(x.data.size()), rw(w.data.size());
  for_each_product(s, [&](int64_t a, int64_t b, int64_t c) {
    ry[c] += static_cast<double>(x.data[a]) * w.data[b];
    rx[a] += static_cast<double>(dy.data[c]) * w.data[b];
    rw[b] += static_cast<double>(x.data[a]) * dy.data[c];
  });
  const auto forward = attributes<proa::Conv2dAttrs>(s);
  const auto input = attributes<proa::Conv2dGradInputAttrs>(s);
  const auto weight = attributes<proa::Conv2dGradWeightAttrs>(s);
  run("conv2d", {x.view, w.view}, &y.view, &forward, prepack);
  run("conv2d_grad_input", {dy.view, w.view, x.view}, &dx.view, &input, prepack);
  run("conv2d_grad_weight", {x.view, dy.view, w.view}, &dw.view, &weight, false);
  expect_near("conv2d", y.data.data(), ry.data(), ry.size() - 1, 3e-6);
  auto act = attributes<proa::Conv2dActAttrs>(s);
  act.act = proa::Conv2dActAttrs::kActRelu;
  run("conv2d_act", {x.view, w.view}, &y.view, &act, prepack);
  for (double& v : ry) v = v > 0 ? v : 0;
  expect_near("conv2d_act", y.data.data(), ry.data(), ry.size() - 1, 3e-6);
  expect_near("conv2d_grad_input", dx.data.data(), rx.data(), rx.size() - 1, 3e-6);
  expect_near("conv2d_grad_weight", dw.data.data(), rw.data(), rw.size() - 1, 3e-6);
}

void check_int8(const Shape& s, bool prepack, bool relu) {
  Array<int8_t> x({s.n, s.c, s.h, s.w}, DType::kI8),
      w({s.o, s.c / s.groups, s.kh, s.kw}, DType::kI8),
      y({s.n, s.o, s.rows(), s.cols()}, DType::kI8);
  Array<float> scale({s.o}, DType::kF32), bias({s.o}, DType::kF32);
  x.fill(1, 127, 1);
  w.fill(2, 127, 1);
  scale.fill(3, 100, 1e-5);
  bias.fill(4, 100, 1e-2);
  auto a = attributes<proa::Conv2dInt8Attrs>(s);
  a.act = relu ? proa::Conv2dInt8Attrs::kActRelu : proa::Conv2dInt8Attrs::kActNone;
  a.out_scale = 0.02;
  a.dtype = static_cast<int64_t>(DType::kI8);
  run("conv2d_int8", {x.view, w.view, scale.view, bias.view}, &y.view, &a, prepack);
  std::vector<int32_t> sums(y.data.size());
  for_each_product(s, [&](int64_t i, int64_t k, int64_t o) { sums[o] += x.data[i] * w.data[k]; });
  const int64_t plane = s.rows() * s.cols();
  for (int64_t i = 0; i < s.n * s.o * plane; ++i) {
    const int64_t o = i / plane % s.o;
    volatile float v = static_cast<float>(sums[i]) * scale.data[o];  // rounded before the sum
    v = v + bias.data[o];
    const float q = nearbyintf((relu && v < 0 ? 0.0f : v) / 0.02f);
    if (y.data[i] != static_cast<int8_t>(q > 127 ? 127 : q < -127 ? -127 : q)) {
      printf("FAIL conv2d_int8: element %d is %d, must be %g\n", static_cast<int>(i), y.data[i],
             static_cast<double>(q));
      ++failures;
      return;
    }
  }
}

}  // namespace

int main() {
  for_each_isa([](int) {
    for (const Shape& s : kShapes)
      for (bool prepack : {false, true}) {
        check_float(s, prepack);
        check_int8(s, prepack, prepack);
      }
  });
  return report();
}
