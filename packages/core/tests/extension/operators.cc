// Operators of the tests: gradients of two orders, lists, optional inputs, attributes of every
// type.
#include <cmath>
#include <cstdio>

#include "paddle/extension.h"

namespace {

using paddle::DataType;
using paddle::Tensor;
using Shape = std::vector<int64_t>;

// -- leaky: x or slope * x, with a gradient and its gradient ----------------------------------

template <class T>
T scaled(T value, float by) {
  return value * static_cast<T>(by);
}
template <>
paddle::float16 scaled(paddle::float16 value, float by) {
  return paddle::float16(static_cast<float>(value) * by);
}
template <>
paddle::bfloat16 scaled(paddle::bfloat16 value, float by) {
  return paddle::bfloat16(static_cast<float>(value) * by);
}

// to = from where x > 0, else slope * from.
template <class T>
void leak(const T* x, const T* from, T* to, int64_t n, float slope) {
  paddle::parallel_for(n, 4096, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      to[i] = static_cast<double>(static_cast<float>(x[i])) > 0 ? from[i] : scaled(from[i], slope);
    }
  });
}

std::vector<Tensor> LeakyForward(const Tensor& x, float slope) {
  PD_CHECK(slope >= 0, "slope must not be negative, got ", slope);
  Tensor y = paddle::empty_like(x);
  PD_DISPATCH_FLOATING_AND_HALF_TYPES(x.dtype(), "leaky", ([&] {
                                        leak<data_t>(x.data<data_t>(), x.data<data_t>(),
                                                     y.data<data_t>(), x.numel(), slope);
                                      }));
  return {y};
}

std::vector<Tensor> LeakyBackward(const Tensor& x, const Tensor& dy, float slope) {
  Tensor dx(x.place(), x.shape());
  PD_DISPATCH_FLOATING_AND_HALF_TYPES(x.type(), "leaky_grad", ([&] {
                                        leak<data_t>(x.data<data_t>(), dy.data<data_t>(),
                                                     dx.mutable_data<data_t>(), x.size(), slope);
                                      }));
  return {dx};
}

std::vector<Tensor> LeakyTwice(const Tensor& x, const Tensor& ddx, float slope) {
  return LeakyBackward(x, ddx, slope);
}

// -- rotated: x * exp(i * angle), whose gradient turns back ------------------------------------

std::vector<Tensor> Rotated(const Tensor& x, double angle) {
  Tensor y = paddle::empty_like(x);
  PD_DISPATCH_COMPLEX_TYPES(x.dtype(), "rotated", ([&] {
                              using Real = typename data_t::value_type;
                              const auto by = std::polar<Real>(1, static_cast<Real>(angle));
                              const data_t* from = x.data<data_t>();
                              data_t* to = y.data<data_t>();
                              for (int64_t i = 0; i < x.numel(); ++i) to[i] = from[i] * by;
                            }));
  return {y};
}
std::vector<Tensor> RotatedBackward(const Tensor& dy, double angle) { return Rotated(dy, -angle); }

// -- cube: its gradients come from its output too ---------------------------------------------

std::vector<Tensor> CubeForward(const Tensor& x) {
  Tensor y = paddle::empty_like(x);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double v = x.data<double>()[i];
    y.data<double>()[i] = v * v * v;
  }
  return {y};
}
// dx = 3 * y^(2/3) * dy: from the output.
std::vector<Tensor> CubeBackward(const Tensor& y, const Tensor& dy) {
  Tensor dx = paddle::empty_like(y);
  for (int64_t i = 0; i < y.numel(); ++i) {
    const double r = std::cbrt(y.data<double>()[i]);
    dx.data<double>()[i] = 3 * r * r * dy.data<double>()[i];
  }
  return {dx};
}
// Gradients of dx = 3 * y^(2/3) * dy with respect to y and dy.
std::vector<Tensor> CubeTwice(const Tensor& y, const Tensor& dy, const Tensor& ddx) {
  Tensor by_y = paddle::empty_like(y), by_dy = paddle::empty_like(y);
  for (int64_t i = 0; i < y.numel(); ++i) {
    const double r = std::cbrt(y.data<double>()[i]), g = ddx.data<double>()[i];
    by_y.data<double>()[i] = 2 / r * dy.data<double>()[i] * g;
    by_dy.data<double>()[i] = 3 * r * r * g;
  }
  return {by_y, by_dy};
}

// -- total: the weighted sum of a list, and a bias that may be left out -----------------------

std::vector<Tensor> TotalForward(const std::vector<Tensor>& xs,
                                 const paddle::optional<Tensor>& bias,
                                 const std::vector<float>& weights) {
  PD_CHECK(weights.size() == xs.size(), "there must be as many weights as tensors");
  Tensor y = paddle::full_like(xs[0], 0);
  float* to = y.data<float>();
  for (size_t k = 0; k < xs.size(); ++k) {
    for (int64_t i = 0; i < y.numel(); ++i) to[i] += weights[k] * xs[k].data<float>()[i];
  }
  if (bias) {
    for (int64_t i = 0; i < y.numel(); ++i) to[i] += bias->data<float>()[i];
  }
  return {y};
}
std::vector<Shape> TotalShape(const std::vector<Shape>& xs, const paddle::optional<Shape>&,
                              const std::vector<float>&) {
  return {xs.at(0)};
}
std::vector<DataType> TotalDtype(const std::vector<DataType>& xs,
                                 const paddle::optional<DataType>&) {
  return {xs.at(0)};
}
std::vector<Tensor> TotalBackward(const std::vector<Tensor>& xs, const Tensor& dy,
                                  const std::vector<float>& weights) {
  std::vector<Tensor> result;
  for (size_t k = 0; k < xs.size(); ++k) {
    result.push_back(paddle::empty_like(dy));
    for (int64_t i = 0; i < dy.numel(); ++i) {
      result[k].data<float>()[i] = weights[k] * dy.data<float>()[i];
    }
  }
  return result;
}

// -- described: every type of attribute, two outputs of other shapes and dtypes ---------------

std::string Words(bool flag, int small, int64_t big, float ratio, double fine,
                  const std::string& text, const std::vector<int>& smalls,
                  const std::vector<int64_t>& bigs, const std::vector<float>& ratios,
                  const std::vector<std::string>& texts) {
  std::string all = paddle::text_of(flag, ' ', small, ' ', big, ' ', ratio, ' ', fine, ' ', text);
  for (const int v : smalls) all += paddle::text_of(" i", v);
  for (const int64_t v : bigs) all += paddle::text_of(" l", v);
  for (const float v : ratios) all += paddle::text_of(" f", v);
  for (const std::string& v : texts) all += " " + v;
  return all;
}

template <class... Attributes>
std::vector<Tensor> Described(const Tensor& x, Attributes... attributes) {
  const std::string all = Words(attributes...);
  Tensor letters = paddle::empty({static_cast<int64_t>(all.size())}, DataType::UINT8);
  std::memcpy(letters.data<uint8_t>(), all.data(), all.size());
  Tensor sum = paddle::zeros({}, DataType::FLOAT64);
  for (int64_t i = 0; i < x.numel(); ++i) {
    sum.data<double>()[0] += static_cast<double>(x.data<float>()[i]);
  }
  return {letters, sum};
}
template <class... Attributes>
std::vector<Shape> DescribedShape(const Shape&, Attributes... attributes) {
  return {{static_cast<int64_t>(Words(attributes...).size())}, {}};
}
std::vector<DataType> DescribedDtype(DataType) { return {DataType::UINT8, DataType::FLOAT64}; }

#define ATTRIBUTES                                                                        \
  bool, int, int64_t, float, double, std::string, std::vector<int>, std::vector<int64_t>, \
      std::vector<float>, std::vector<std::string>

// -- swap: results in each other's place, as a plan must not confuse them ---------------------

std::vector<Tensor> Swap(const Tensor& a, const Tensor& b) {
  Tensor first = paddle::empty_like(a), second = paddle::empty_like(b);
  std::memcpy(first.data(), a.data(), static_cast<size_t>(a.numel()) * 4);
  std::memcpy(second.data(), b.data(), static_cast<size_t>(b.numel()) * 4);
  return {second, first};
}
std::vector<Shape> SwapShape(const Shape& a, const Shape& b) { return {b, a}; }
std::vector<DataType> SwapDtype(const DataType& a, const DataType& b) { return {b, a}; }

std::vector<Tensor> Itself(const Tensor& x) { return {x}; }
std::vector<Tensor> Converted(const Tensor& x, const std::string& to) {
  if (to == "complex128") return {x.cast(DataType::COMPLEX128)};
  if (to == "float16") return {x.cast(DataType::FLOAT16)};
  return {x.cast(DataType::FLOAT32)};
}

}  // namespace

PD_BUILD_OP(leaky)
    .Inputs({"X"})
    .Outputs({"Y"})
    .Attrs({"slope: float"})
    .SetKernelFn(PD_KERNEL(LeakyForward));
PD_BUILD_GRAD_OP(leaky)
    .Inputs({"X", paddle::Grad("Y")})
    .Outputs({paddle::Grad("X")})
    .Attrs({"slope: float"})
    .SetKernelFn(PD_KERNEL(LeakyBackward));
PD_BUILD_DOUBLE_GRAD_OP(leaky)
    .Inputs({"X", paddle::Grad(paddle::Grad("X"))})
    .Outputs({paddle::Grad(paddle::Grad("Y"))})
    .Attrs({"slope: float"})
    .SetKernelFn(PD_KERNEL(LeakyTwice));

PD_BUILD_OP(rotated)
    .Inputs({"X"})
    .Outputs({"Y"})
    .Attrs({"angle: double"})
    .SetKernelFn(PD_KERNEL(Rotated));
PD_BUILD_GRAD_OP(rotated)
    .Inputs({paddle::Grad("Y")})
    .Outputs({paddle::Grad("X")})
    .Attrs({"angle: double"})
    .SetKernelFn(PD_KERNEL(RotatedBackward));

PD_BUILD_OP(cube).Inputs({"X"}).Outputs({"Y"}).SetKernelFn(PD_KERNEL(CubeForward));
PD_BUILD_GRAD_OP(cube)
    .Inputs({"Y", paddle::Grad("Y")})
    .Outputs({paddle::Grad("X")})
    .SetKernelFn(PD_KERNEL(CubeBackward));
PD_BUILD_DOUBLE_GRAD_OP(cube)
    .Inputs({"Y", paddle::Grad("Y"), paddle::Grad(paddle::Grad("X"))})
    .Outputs({paddle::Grad("Y"), paddle::Grad(paddle::Grad("Y"))})
    .SetKernelFn(PD_KERNEL(CubeTwice));

PD_BUILD_OP(total)
    .Inputs({paddle::Vec("Xs"), paddle::Optional("Bias")})
    .Outputs({"Y"})
    .Attrs({"weights: std::vector<float>"})
    .SetKernelFn(PD_KERNEL(TotalForward))
    .SetInferShapeFn(PD_INFER_SHAPE(TotalShape))
    .SetInferDtypeFn(PD_INFER_DTYPE(TotalDtype));
PD_BUILD_GRAD_OP(total)
    .Inputs({paddle::Vec("Xs"), paddle::Grad("Y")})
    .Outputs({paddle::Vec(paddle::Grad("Xs"))})
    .Attrs({"weights: std::vector<float>"})
    .SetKernelFn(PD_KERNEL(TotalBackward));

PD_BUILD_OP(described)
    .Inputs({"X"})
    .Outputs({"Letters", "Sum"})
    .Attrs({"flag: bool", "small: int", "big: int64_t", "ratio: float", "fine: double",
            "text: std::string", "smalls: std::vector<int>", "bigs: std::vector<int64_t>",
            "ratios: std::vector<float>", "texts: std::vector<std::string>"})
    .SetKernelFn(PD_KERNEL(Described<ATTRIBUTES>))
    .SetInferShapeFn(PD_INFER_SHAPE(DescribedShape<ATTRIBUTES>))
    .SetInferDtypeFn(PD_INFER_DTYPE(DescribedDtype));

PD_BUILD_OP(swap)
    .Inputs({"A", "B"})
    .Outputs({"C", "D"})
    .SetKernelFn(PD_KERNEL(Swap))
    .SetInferShapeFn(PD_INFER_SHAPE(SwapShape))
    .SetInferDtypeFn(PD_INFER_DTYPE(SwapDtype));

PD_BUILD_OP(vague).Inputs({"A", "B"}).Outputs({"C", "D"}).SetKernelFn(PD_KERNEL(Swap));
PD_BUILD_OP(itself).Inputs({"X"}).Outputs({"Y"}).SetKernelFn(PD_KERNEL(Itself));
PD_BUILD_OP(converted)
    .Inputs({"X"})
    .Outputs({"Y"})
    .Attrs({"to: std::string"})
    .SetKernelFn(PD_KERNEL(Converted));
