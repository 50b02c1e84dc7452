// Rates of convolutions on the calling thread, in giga-operations per second (a multiplication and
// an addition are two): float forward with kernels prepacked, both gradients, and int8.
// Arguments: words, of which a shape's name must contain one, and batch=N for another batch.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <string>
#include <vector>

#include "bench_timer.h"
#include "proa/gen/attrs.h"

namespace {

using proa::DType;
using proa::View;
using proa_test::Array;

struct Shape {
  const char* name;
  int64_t batch, channels, outs, size, kernel, stride, padding, groups;
};

const Shape kShapes[] = {
    {"lenet.conv1 b1", 1, 1, 6, 28, 3, 1, 1, 1},
    {"lenet.conv2 b1", 1, 6, 16, 14, 5, 1, 0, 1},
    {"lenet.conv1 b64", 64, 1, 6, 28, 3, 1, 1, 1},
    {"lenet.conv2 b64", 64, 6, 16, 14, 5, 1, 0, 1},
    {"resnet.stem 7x7/2", 4, 3, 64, 224, 7, 2, 3, 1},
    {"resnet.1x1 64-64@56", 4, 64, 64, 56, 1, 1, 0, 1},
    {"resnet.3x3 64@56", 4, 64, 64, 56, 3, 1, 1, 1},
    {"resnet.1x1 64-256@56", 4, 64, 256, 56, 1, 1, 0, 1},
    {"resnet.3x3/2 128@56", 4, 128, 128, 56, 3, 2, 1, 1},
    {"resnet.3x3 128@28", 4, 128, 128, 28, 3, 1, 1, 1},
    {"resnet.1x1 512-128@28", 4, 512, 128, 28, 1, 1, 0, 1},
    {"resnet.3x3 256@14", 4, 256, 256, 14, 3, 1, 1, 1},
    {"resnet.1x1 1024-256@14", 4, 1024, 256, 14, 1, 1, 0, 1},
    {"resnet.1x1/2 512-1024@28", 4, 512, 1024, 28, 1, 2, 0, 1},
    {"resnet.3x3 512@7", 4, 512, 512, 7, 3, 1, 1, 1},
    {"resnet.1x1 512-2048@7", 4, 512, 2048, 7, 1, 1, 0, 1},
    {"mobilenet.stem 3x3/2", 4, 3, 32, 224, 3, 2, 1, 1},
    {"mobilenet.dw 32@112", 4, 32, 32, 112, 3, 1, 1, 32},
    {"mobilenet.dw/2 64@112", 4, 64, 64, 112, 3, 2, 1, 64},
    {"mobilenet.dw 512@14", 4, 512, 512, 14, 3, 1, 1, 512},
    {"mobilenet.1x1 32-64@112", 4, 32, 64, 112, 1, 1, 0, 1},
    {"mobilenet.1x1 512-512@14", 4, 512, 512, 14, 1, 1, 0, 1},
    {"grouped 3x3 128/32@28", 4, 128, 128, 28, 3, 1, 1, 32},
};

template <class A>
A attrs_of(const Shape& s) {
  A a = {};
  a.stride = {2, {s.stride, s.stride}};
  a.padding = {4, {s.padding, s.padding, s.padding, s.padding}};
  a.groups = s.groups;
  return a;
}

void bench(const Shape& s) {
  const int64_t out = (s.size + 2 * s.padding - s.kernel) / s.stride + 1;
  const int64_t depth = s.channels / s.groups;
  Array<float> x({s.batch, s.channels, s.size, s.size}, DType::kF32),
      w({s.outs, depth, s.kernel, s.kernel}, DType::kF32),
      y({s.batch, s.outs, out, out}, DType::kF32), bias({s.outs}, DType::kF32);
  Array<int8_t> xq({s.batch, s.channels, s.size, s.size}, DType::kI8),
      wq({s.outs, depth, s.kernel, s.kernel}, DType::kI8),
      yq({s.batch, s.outs, out, out}, DType::kI8);
  x.fill(1, 100, 0.01);
  w.fill(2, 100, 0.01);
  y.fill(3, 100, 0.01);
  bias.fill(4, 100, 1e-6);
  xq.fill(5, 127, 1);
  wq.fill(6, 127, 1);
  for (View* v : {&x.view, &y.view, &xq.view, &yq.view}) v->set_channels_last();
  const View fwd[3] = {x.view, w.view, bias.view};
  auto act = attrs_of<proa::Conv2dActAttrs>(s);
  act.act = proa::Conv2dActAttrs::kActRelu;
  const double work = 2e-9 * s.batch * out * out * s.outs * depth * s.kernel * s.kernel;
  auto rate = [&](double seconds) { return work / seconds; };
  printf("%-26s fwd %7.1f", s.name,
         rate(proa_bench::seconds_of("conv2d_act", fwd, 3, &y.view, &act, true)));
  const auto gi = attrs_of<proa::Conv2dGradInputAttrs>(s);
  const View back[3] = {y.view, w.view, x.view};
  printf("  dx %7.1f",
         rate(proa_bench::seconds_of("conv2d_grad_input", back, 3, &x.view, &gi, false)));
  const auto gw = attrs_of<proa::Conv2dGradWeightAttrs>(s);
  const View weight[3] = {x.view, y.view, w.view};
  printf("  dw %7.1f",
         rate(proa_bench::seconds_of("conv2d_grad_weight", weight, 3, &w.view, &gw, false)));
  auto q = attrs_of<proa::Conv2dInt8Attrs>(s);
  q.act = proa::Conv2dInt8Attrs::kActRelu;
  q.out_scale = 0.01;
  q.dtype = static_cast<int64_t>(DType::kI8);
  const View quant[4] = {xq.view, wq.view, bias.view, bias.view};
  const double t = proa_bench::seconds_of("conv2d_int8", quant, 4, &yq.view, &q, true);
  printf("  int8 %7.1f (%.1f us)\n", rate(t), 1e6 * t);
  fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words;
  int64_t batch = 0;
  for (int i = 1; i < argc; ++i) {
    if (strncmp(argv[i], "batch=", 6) == 0)
      batch = atoi(argv[i] + 6);
    else
      words.push_back(argv[i]);
  }
  proa_bench::choose_caches();
  proa_test::for_each_isa([&](int isa) {
    printf("isa %d\n", isa);
    for (Shape s : kShapes) {
      bool wanted = words.empty();
      for (const std::string& word : words)
        wanted |= std::string(s.name).find(word) != std::string::npos;
      if (batch > 0) s.batch = batch;
      if (wanted) bench(s);
    }
  });
  return 0;
}
