#pragma once
// From a dtype to a C++ type, which is called data_t in the code that is given:
//   PD_DISPATCH_FLOATING_TYPES(x.dtype(), "op", ([&] { kernel<data_t>(x.data<data_t>(), ...); }));
#include "proa/extension/tensor.h"

#define PROA_EXTENSION_CASE(dtype, cpp_type, ...) \
  case ::proa::ext::DataType::dtype: {            \
    using data_t = cpp_type;                      \
    return __VA_ARGS__();                         \
  }
#define PROA_EXTENSION_SWITCH(TYPE, NAME, CASES)                             \
  [&] {                                                                      \
    const ::proa::ext::DataType proa_dtype = TYPE;                           \
    switch (proa_dtype) {                                                    \
      CASES default : PD_THROW(NAME, ": the dtype must have a kernel, got ", \
                               ::proa::ext::NameOf(proa_dtype));             \
    }                                                                        \
  }()

#define PROA_EXTENSION_FLOATS(...)                 \
  PROA_EXTENSION_CASE(FLOAT32, float, __VA_ARGS__) \
  PROA_EXTENSION_CASE(FLOAT64, double, __VA_ARGS__)
#define PROA_EXTENSION_HALVES(...)                                \
  PROA_EXTENSION_CASE(FLOAT16, ::proa::ext::float16, __VA_ARGS__) \
  PROA_EXTENSION_CASE(BFLOAT16, ::proa::ext::bfloat16, __VA_ARGS__)
#define PROA_EXTENSION_INTEGERS(...)               \
  PROA_EXTENSION_CASE(UINT8, uint8_t, __VA_ARGS__) \
  PROA_EXTENSION_CASE(INT8, int8_t, __VA_ARGS__)   \
  PROA_EXTENSION_CASE(INT16, int16_t, __VA_ARGS__) \
  PROA_EXTENSION_CASE(INT32, int32_t, __VA_ARGS__) \
  PROA_EXTENSION_CASE(INT64, int64_t, __VA_ARGS__)
#define PROA_EXTENSION_COMPLEX(...)                                   \
  PROA_EXTENSION_CASE(COMPLEX64, ::proa::ext::complex64, __VA_ARGS__) \
  PROA_EXTENSION_CASE(COMPLEX128, ::proa::ext::complex128, __VA_ARGS__)

#define PD_DISPATCH_FLOATING_TYPES(TYPE, NAME, ...) \
  PROA_EXTENSION_SWITCH(TYPE, NAME, PROA_EXTENSION_FLOATS(__VA_ARGS__))
#define PD_DISPATCH_FLOATING_AND_HALF_TYPES(TYPE, NAME, ...) \
  PROA_EXTENSION_SWITCH(TYPE, NAME,                          \
                        PROA_EXTENSION_FLOATS(__VA_ARGS__) PROA_EXTENSION_HALVES(__VA_ARGS__))
#define PD_DISPATCH_INTEGRAL_TYPES(TYPE, NAME, ...) \
  PROA_EXTENSION_SWITCH(TYPE, NAME, PROA_EXTENSION_INTEGERS(__VA_ARGS__))
#define PD_DISPATCH_COMPLEX_TYPES(TYPE, NAME, ...) \
  PROA_EXTENSION_SWITCH(TYPE, NAME, PROA_EXTENSION_COMPLEX(__VA_ARGS__))
#define PD_DISPATCH_FLOATING_AND_INTEGRAL_TYPES(TYPE, NAME, ...) \
  PROA_EXTENSION_SWITCH(TYPE, NAME,                              \
                        PROA_EXTENSION_FLOATS(__VA_ARGS__) PROA_EXTENSION_INTEGERS(__VA_ARGS__))
#define PD_DISPATCH_FLOATING_AND_COMPLEX_TYPES(TYPE, NAME, ...) \
  PROA_EXTENSION_SWITCH(TYPE, NAME,                             \
                        PROA_EXTENSION_FLOATS(__VA_ARGS__) PROA_EXTENSION_COMPLEX(__VA_ARGS__))
#define PD_DISPATCH_FLOATING_AND_INTEGRAL_AND_COMPLEX_TYPES(TYPE, NAME, ...)                    \
  PROA_EXTENSION_SWITCH(TYPE, NAME,                                                             \
                        PROA_EXTENSION_FLOATS(__VA_ARGS__) PROA_EXTENSION_INTEGERS(__VA_ARGS__) \
                            PROA_EXTENSION_COMPLEX(__VA_ARGS__))

PROA_EXTENSION_BEGIN

/// A tensor whose every element is `value`.
inline Tensor full(const std::vector<int64_t>& shape, double value,
                   DataType dtype = DataType::FLOAT32, Place = Place()) {
  Tensor x(shape, dtype);
  const int64_t n = x.numel();
  switch (dtype) {
#define PROA_EXTENSION_FILL(type, name)                                 \
  case DataType::name:                                                  \
    for (int64_t i = 0; i < n; ++i) {                                   \
      x.data<type>()[i] = static_cast<type>(static_cast<float>(value)); \
    }                                                                   \
    break;
#define PROA_EXTENSION_FILL_WIDE(type, name)                                      \
  case DataType::name:                                                            \
    for (int64_t i = 0; i < n; ++i) x.data<type>()[i] = static_cast<type>(value); \
    break;
    PROA_EXTENSION_FILL(float16, FLOAT16)
    PROA_EXTENSION_FILL(bfloat16, BFLOAT16)
    PROA_EXTENSION_FILL(complex64, COMPLEX64)
    PROA_EXTENSION_FILL_WIDE(bool, BOOL)
    PROA_EXTENSION_FILL_WIDE(uint8_t, UINT8)
    PROA_EXTENSION_FILL_WIDE(int8_t, INT8)
    PROA_EXTENSION_FILL_WIDE(int16_t, INT16)
    PROA_EXTENSION_FILL_WIDE(int32_t, INT32)
    PROA_EXTENSION_FILL_WIDE(int64_t, INT64)
    PROA_EXTENSION_FILL_WIDE(float, FLOAT32)
    PROA_EXTENSION_FILL_WIDE(double, FLOAT64)
    PROA_EXTENSION_FILL_WIDE(complex128, COMPLEX128)
#undef PROA_EXTENSION_FILL
#undef PROA_EXTENSION_FILL_WIDE
  }
  return x;
}
inline Tensor full_like(const Tensor& x, double value) { return full(x.shape(), value, x.dtype()); }
inline Tensor zeros(const std::vector<int64_t>& shape, DataType dtype = DataType::FLOAT32,
                    Place = Place()) {
  return full(shape, 0.0, dtype);
}
inline Tensor zeros_like(const Tensor& x) { return full_like(x, 0.0); }
inline Tensor ones(const std::vector<int64_t>& shape, DataType dtype = DataType::FLOAT32,
                   Place = Place()) {
  return full(shape, 1.0, dtype);
}
inline Tensor ones_like(const Tensor& x) { return full_like(x, 1.0); }

template <class From, class To>
To converted(From value) {
  constexpr bool kFromComplex =
      std::is_same<From, complex64>::value || std::is_same<From, complex128>::value;
  constexpr bool kToComplex =
      std::is_same<To, complex64>::value || std::is_same<To, complex128>::value;
  if constexpr (kFromComplex && kToComplex) {
    return To(static_cast<typename To::value_type>(value.real()),
              static_cast<typename To::value_type>(value.imag()));
  } else if constexpr (kFromComplex) {
    return static_cast<To>(static_cast<float>(value.real()));
  } else if constexpr (kToComplex) {
    return To(static_cast<typename To::value_type>(value));
  } else if constexpr (std::is_same<To, float16>::value || std::is_same<To, bfloat16>::value) {
    return To(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

inline Tensor Tensor::cast(DataType dtype) const {
  Tensor to(shape_, dtype);
  const int64_t n = numel();
  const auto from_type = [&](auto* from) {
    using From = std::remove_pointer_t<decltype(from)>;
    switch (dtype) {
#define PROA_EXTENSION_CAST(type, name)                                               \
  case DataType::name:                                                                \
    for (int64_t i = 0; i < n; ++i) {                                                 \
      to.data<type>()[i] = converted<From, type>(static_cast<const From*>(data_)[i]); \
    }                                                                                 \
    break;
      PROA_EXTENSION_TYPES(PROA_EXTENSION_CAST)
#undef PROA_EXTENSION_CAST
    }
  };
  switch (dtype_) {
#define PROA_EXTENSION_FROM(type, name)     \
  case DataType::name:                      \
    from_type(static_cast<type*>(nullptr)); \
    break;
    PROA_EXTENSION_TYPES(PROA_EXTENSION_FROM)
#undef PROA_EXTENSION_FROM
  }
  return to;
}

PROA_EXTENSION_END
