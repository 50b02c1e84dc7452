#pragma once
// PD_BUILD_OP and its kin: from C++ functions to the plain structs of extension_abi.h.
#include <deque>
#include <functional>
#include <map>
#include <tuple>

#include "proa/extension/tensor.h"

PROA_EXTENSION_BEGIN

/// The gradient of an input or output.
inline std::string Grad(const std::string& name) { return name + "@GRAD"; }
/// An input that is a list of tensors (`const std::vector<Tensor>&`).
inline std::string Vec(const std::string& name) { return name + "@VECTOR"; }
/// An input that may be None (`const optional<Tensor>&`).
inline std::string Optional(const std::string& name) { return name + "@OPTIONAL"; }

/// Reads the arguments of a call in the order of a function's parameters: arrays, then attributes.
class Arguments {
 public:
  explicit Arguments(const ProaArguments& given)
      : given_(given), at_(given.attributes), end_(given.attributes + given.attribute_bytes) {}

  Tensor tensor() {
    const int64_t count = next_count();
    PD_CHECK(count == 1, "expected one tensor, got ", count);
    return Tensor::Of(given_.tensors[first_++]);
  }
  std::vector<Tensor> tensors() {
    std::vector<Tensor> list;
    for (int64_t n = next_count(); n > 0; --n) list.push_back(Tensor::Of(given_.tensors[first_++]));
    return list;
  }
  optional<Tensor> optional_tensor() {
    if (next_count() == 0) return std::nullopt;
    return Tensor::Of(given_.tensors[first_++]);
  }

  template <class T>
  std::vector<T> numbers() {
    const uint32_t count =
        header(std::is_floating_point<T>::value ? PROA_ATTRIBUTE_FLOATS : PROA_ATTRIBUTE_INTS);
    std::vector<T> list;
    for (uint32_t i = 0; i < count; ++i) {
      if constexpr (std::is_floating_point<T>::value) {
        list.push_back(static_cast<T>(take<double>()));
      } else {
        list.push_back(static_cast<T>(take<int64_t>()));
      }
    }
    return list;
  }
  std::vector<std::string> texts() {
    std::vector<std::string> list;
    for (uint32_t n = header(PROA_ATTRIBUTE_TEXTS); n > 0; --n) {
      const auto length = static_cast<size_t>(take<int64_t>());
      PD_CHECK(length <= static_cast<size_t>(end_ - at_), "expected complete attributes");
      list.emplace_back(reinterpret_cast<const char*>(at_), length);
      at_ += (length + 7) / 8 * 8;
    }
    return list;
  }
  template <class T>
  T number() {
    const std::vector<T> list = numbers<T>();
    PD_CHECK(list.size() == 1, "expected one number, got ", list.size());
    return list[0];
  }
  std::string text() {
    const std::vector<std::string> list = texts();
    PD_CHECK(list.size() == 1, "expected one string, got ", list.size());
    return list[0];
  }

 private:
  int64_t next_count() {
    PD_CHECK(input_ < given_.input_count,
             "the function must have as many tensors as the operator"
             " has inputs, ",
             given_.input_count);
    return given_.counts[input_++];
  }
  template <class T>
  T take() {
    PD_CHECK(end_ - at_ >= static_cast<std::ptrdiff_t>(sizeof(T)),
             "the function must have as many "
             "attributes as the operator");
    T value;
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  uint32_t header(uint32_t kind) {
    const auto found = take<uint32_t>();
    PD_CHECK(found == kind, "attributes must have the types of the function's parameters");
    return take<uint32_t>();
  }

  const ProaArguments& given_;
  const uint8_t *at_, *end_;
  int32_t input_ = 0;
  int64_t first_ = 0;
};

/// How a parameter of a kernel is read.
template <class T>
struct Parameter {
  static T read(Arguments& a) {
    static_assert(std::is_arithmetic<T>::value,
                  "attributes: bool, int, int64_t, float, double, "
                  "std::string, or vectors of int, int64_t, float, double, std::string");
    using Wide = std::conditional_t<std::is_floating_point<T>::value, double, int64_t>;
    return static_cast<T>(a.number<Wide>());
  }
};
template <>
struct Parameter<Tensor> {
  static Tensor read(Arguments& a) { return a.tensor(); }
};
template <>
struct Parameter<std::vector<Tensor>> {
  static std::vector<Tensor> read(Arguments& a) { return a.tensors(); }
};
template <>
struct Parameter<optional<Tensor>> {
  static optional<Tensor> read(Arguments& a) { return a.optional_tensor(); }
};
template <>
struct Parameter<std::string> {
  static std::string read(Arguments& a) { return a.text(); }
};
template <>
struct Parameter<std::vector<std::string>> {
  static std::vector<std::string> read(Arguments& a) { return a.texts(); }
};
template <class T>
struct Parameter<std::vector<T>> {
  static std::vector<T> read(Arguments& a) { return a.numbers<T>(); }
};

using Shape = std::vector<int64_t>;

/// Parameters of functions that infer shapes: a shape (or list of shapes) for each input of the
/// operator, then attributes.
class ShapeReader {
 public:
  ShapeReader(Arguments& a, int32_t inputs) : arguments_(a), left_(inputs) {}
  template <class T>
  T read() {
    if (left_-- <= 0) {
      if constexpr (!std::is_same<T, std::vector<Shape>>::value &&
                    !std::is_same<T, optional<Shape>>::value) {
        return Parameter<T>::read(arguments_);
      }
    } else if constexpr (std::is_same<T, Shape>::value) {
      return arguments_.tensor().shape();
    } else if constexpr (std::is_same<T, std::vector<Shape>>::value) {
      std::vector<Shape> shapes;
      for (const Tensor& x : arguments_.tensors()) shapes.push_back(x.shape());
      return shapes;
    } else if constexpr (std::is_same<T, optional<Shape>>::value) {
      const auto x = arguments_.optional_tensor();
      return x ? optional<Shape>(x->shape()) : std::nullopt;
    }
    PD_THROW("a function that infers shapes must take a shape for every input, then attributes");
  }

 private:
  Arguments& arguments_;
  int32_t left_;
};

class DtypeReader {
 public:
  explicit DtypeReader(Arguments& a) : arguments_(a) {}
  template <class T>
  T read() {
    if constexpr (std::is_same<T, DataType>::value) {
      return arguments_.tensor().dtype();
    } else if constexpr (std::is_same<T, std::vector<DataType>>::value) {
      std::vector<DataType> dtypes;
      for (const Tensor& x : arguments_.tensors()) dtypes.push_back(x.dtype());
      return dtypes;
    } else if constexpr (std::is_same<T, optional<DataType>>::value) {
      const auto x = arguments_.optional_tensor();
      return x ? optional<DataType>(x->dtype()) : std::nullopt;
    } else {
      return Parameter<T>::read(arguments_);
    }
  }

 private:
  Arguments& arguments_;
};

using KernelFn = std::function<std::vector<Tensor>(Arguments&)>;
using ShapeFn = std::function<std::vector<Shape>(Arguments&, int32_t inputs)>;
using DtypeFn = std::function<std::vector<DataType>(Arguments&)>;

template <class... P>
KernelFn MakeKernel(std::vector<Tensor> (*function)(P...)) {
  return [function](Arguments& a) {
    std::tuple<std::decay_t<P>...> values{Parameter<std::decay_t<P>>::read(a)...};
    return std::apply(function, values);
  };
}
template <class... P>
ShapeFn MakeInferShape(std::vector<Shape> (*function)(P...)) {
  return [function](Arguments& a, int32_t inputs) {
    ShapeReader reader(a, inputs);
    std::tuple<std::decay_t<P>...> values{reader.read<std::decay_t<P>>()...};
    return std::apply(function, values);
  };
}
template <class... P>
DtypeFn MakeInferDtype(std::vector<DataType> (*function)(P...)) {
  return [function](Arguments& a) {
    DtypeReader reader(a);
    std::tuple<std::decay_t<P>...> values{reader.read<std::decay_t<P>>()...};
    return std::apply(function, values);
  };
}

#define PD_KERNEL(...) ::proa::ext::MakeKernel(&__VA_ARGS__)
#define PD_INFER_SHAPE(...) ::proa::ext::MakeInferShape(&__VA_ARGS__)
#define PD_INFER_DTYPE(...) ::proa::ext::MakeInferDtype(&__VA_ARGS__)

/// An operator as it was built.
struct OperatorParts {
  std::string name;
  std::vector<std::string> inputs, outputs, attributes;
  KernelFn kernel;
  ShapeFn shape;
  DtypeFn dtype;
  std::vector<const char*> input_text, output_text, attribute_text;
};

inline std::deque<OperatorParts>& operators() {
  static std::deque<OperatorParts> all;
  return all;
}

template <class Body>
int guarded(const ProaArguments* arguments, Body&& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    host()->fail(arguments->sink, error.what());
  } catch (...) {
    host()->fail(arguments->sink, "an exception that is no std::exception was thrown");
  }
  return 1;
}

inline int RunOperator(const ProaOperator* self, const ProaArguments* arguments) {
  return guarded(arguments, [&] {
    const auto& parts = *static_cast<const OperatorParts*>(self->own);
    PD_CHECK(parts.kernel != nullptr, "the operator must have a kernel");
    Arguments values(*arguments);
    for (const Tensor& x : parts.kernel(values)) {
      const ProaTensor raw = x.raw();
      host()->result(arguments->sink, &raw);
    }
  });
}

/// Output `name` of a gradient has the shape and dtype of the input that it is the gradient of.
inline std::optional<Tensor> SourceOfGrad(const OperatorParts& parts, const ProaArguments& given,
                                          const std::string& name) {
  int64_t at = 0;
  for (size_t i = 0; i < parts.inputs.size(); at += given.counts[i], ++i) {
    if (given.counts[i] == 1 && Grad(parts.inputs[i]) == name) {
      return Tensor::Of(given.tensors[at]);
    }
  }
  if (parts.inputs.size() == 1 && parts.outputs.size() == 1 && given.counts[0] == 1) {
    return Tensor::Of(given.tensors[0]);
  }
  return std::nullopt;
}

inline int InferOperator(const ProaOperator* self, const ProaArguments* arguments) {
  return guarded(arguments, [&] {
    const auto& parts = *static_cast<const OperatorParts*>(self->own);
    std::vector<Shape> shapes;
    std::vector<DataType> dtypes;
    if (parts.shape != nullptr) {
      Arguments values(*arguments);
      shapes = parts.shape(values, arguments->input_count);
    }
    if (parts.dtype != nullptr) {
      Arguments values(*arguments);
      dtypes = parts.dtype(values);
    }
    for (size_t i = 0; i < parts.outputs.size(); ++i) {
      const auto source = SourceOfGrad(parts, *arguments, parts.outputs[i]);
      PD_CHECK(i < shapes.size() || source,
               "SetInferShapeFn must be called, with a function that "
               "gives the shape of every output");
      PD_CHECK(i < dtypes.size() || source,
               "SetInferDtypeFn must be called, with a function that "
               "gives the dtype of every output");
      const Shape shape = i < shapes.size() ? shapes[i] : source->shape();
      ProaTensor raw = {};
      raw.view.rank = static_cast<int8_t>(shape.size());
      PD_CHECK(shape.size() <= PROA_EXTENSION_MAX_RANK, "expected a rank of at most 8");
      for (size_t k = 0; k < shape.size(); ++k) raw.view.shape[k] = shape[k];
      raw.view.dtype = static_cast<uint8_t>(i < dtypes.size() ? dtypes[i] : source->dtype());
      host()->result(arguments->sink, &raw);
    }
  });
}

/// What PD_BUILD_OP begins.
class OpBuilder {
 public:
  explicit OpBuilder(const std::string& name) {
    operators().emplace_back();
    parts_ = &operators().back();
    parts_->name = name;
  }
  OpBuilder& Inputs(std::vector<std::string> names) {
    parts_->inputs = std::move(names);
    return *this;
  }
  OpBuilder& Outputs(std::vector<std::string> names) {
    parts_->outputs = std::move(names);
    return *this;
  }
  /// "name: type" of each; types: bool, int, int64_t, float, double, std::string and
  /// std::vector of int, int64_t, float, double, std::string.
  OpBuilder& Attrs(std::vector<std::string> attributes) {
    parts_->attributes = std::move(attributes);
    return *this;
  }
  OpBuilder& SetKernelFn(KernelFn function) {
    parts_->kernel = std::move(function);
    return *this;
  }
  OpBuilder& SetInferShapeFn(ShapeFn function) {
    parts_->shape = std::move(function);
    return *this;
  }
  OpBuilder& SetInferDtypeFn(DtypeFn function) {
    parts_->dtype = std::move(function);
    return *this;
  }

 private:
  OperatorParts* parts_;
};

inline const ProaExtension* DescribeOperators() {
  static std::vector<ProaOperator> list;
  static ProaExtension extension = {};
  list.clear();
  for (OperatorParts& parts : operators()) {
    const auto texts = [](const std::vector<std::string>& from, std::vector<const char*>* to) {
      to->clear();
      for (const std::string& text : from) to->push_back(text.c_str());
    };
    texts(parts.inputs, &parts.input_text);
    texts(parts.outputs, &parts.output_text);
    texts(parts.attributes, &parts.attribute_text);
    list.push_back({parts.name.c_str(), parts.input_text.data(), parts.output_text.data(),
                    parts.attribute_text.data(), static_cast<int32_t>(parts.inputs.size()),
                    static_cast<int32_t>(parts.outputs.size()),
                    static_cast<int32_t>(parts.attributes.size()), RunOperator, InferOperator,
                    &parts});
  }
  extension = {PROA_EXTENSION_ABI, static_cast<int32_t>(list.size()), list.data()};
  return &extension;
}

PROA_EXTENSION_END

#define PD_BUILD_OP(op)                                                   \
  static ::proa::ext::OpBuilder proa_build_##op __attribute__((unused)) = \
      ::proa::ext::OpBuilder(#op)
#define PD_BUILD_GRAD_OP(op)                                                     \
  static ::proa::ext::OpBuilder proa_build_##op##_grad __attribute__((unused)) = \
      ::proa::ext::OpBuilder(#op "_grad")
#define PD_BUILD_DOUBLE_GRAD_OP(op)                                                   \
  static ::proa::ext::OpBuilder proa_build_##op##_grad_grad __attribute__((unused)) = \
      ::proa::ext::OpBuilder(#op "_grad_grad")

extern "C" __attribute__((visibility("default"), weak))
const ProaExtension* proa_extension_entry(const ProaHost* host) {
  if (host->abi != PROA_EXTENSION_ABI || host->size < sizeof(ProaHost)) return nullptr;
  ::proa::ext::host() = host;
  return ::proa::ext::DescribeOperators();
}
