#pragma once
// Maps a run-time dtype to a type: `PROA_FLOATING(x.dtype, T, return row<T>(c));` runs the code
// with T = F16, BF16, float or double. A dtype outside the set returns kUnimplemented from the
// enclosing function. Each type in a set is another copy of the code: use the widest set only
// for loops that are short.
#include "proa/base/dtype.h"
#include "proa/base/half.h"
#include "proa/base/status.h"

namespace proa {

/// The type that elements of type T are computed and accumulated in: float for 16-bit floats.
template <class T>
struct ComputeOf {
  using type = T;
};
template <>
struct ComputeOf<F16> {
  using type = float;
};
template <>
struct ComputeOf<BF16> {
  using type = float;
};
template <class T>
using Compute = typename ComputeOf<T>::type;

/// 16 bytes that are only copied.
struct alignas(8) Bytes16 {
  uint64_t lo, hi;
};

#define PROA_CASE_(code, T, type, ...)                     \
  case ::proa::DType::code: {                              \
    if constexpr (::proa::computes(::proa::DType::code)) { \
      using T = type;                                      \
      __VA_ARGS__;                                         \
      break;                                               \
    } else {                                               \
      return ::proa::Status::kUnimplemented;               \
    }                                                      \
  }
#define PROA_CASES_WIDE_FLOAT_(T, ...)    \
  PROA_CASE_(kF32, T, float, __VA_ARGS__) \
  PROA_CASE_(kF64, T, double, __VA_ARGS__)
#define PROA_CASES_FLOAT_(T, ...)                 \
  PROA_CASE_(kF16, T, ::proa::F16, __VA_ARGS__)   \
  PROA_CASE_(kBF16, T, ::proa::BF16, __VA_ARGS__) \
  PROA_CASES_WIDE_FLOAT_(T, __VA_ARGS__)
#define PROA_CASES_INTEGER_(T, ...)         \
  PROA_CASE_(kU8, T, uint8_t, __VA_ARGS__)  \
  PROA_CASE_(kI8, T, int8_t, __VA_ARGS__)   \
  PROA_CASE_(kI16, T, int16_t, __VA_ARGS__) \
  PROA_CASE_(kI32, T, int32_t, __VA_ARGS__) \
  PROA_CASE_(kI64, T, int64_t, __VA_ARGS__)
#define PROA_SWITCH_(dtype, ...)             \
  switch (dtype) {                           \
    __VA_ARGS__                              \
    default:                                 \
      return ::proa::Status::kUnimplemented; \
  }

/// float, double
#define PROA_WIDE_FLOAT(dtype, T, ...) PROA_SWITCH_(dtype, PROA_CASES_WIDE_FLOAT_(T, __VA_ARGS__))
/// F16, BF16, float, double
#define PROA_FLOATING(dtype, T, ...) PROA_SWITCH_(dtype, PROA_CASES_FLOAT_(T, __VA_ARGS__))
/// uint8 and the signed integers
#define PROA_INTEGER(dtype, T, ...) PROA_SWITCH_(dtype, PROA_CASES_INTEGER_(T, __VA_ARGS__))
/// int32_t, int64_t: the dtypes of indices
#define PROA_INDEX(dtype, T, ...) \
  PROA_SWITCH_(                   \
      dtype, PROA_CASE_(kI32, T, int32_t, __VA_ARGS__) PROA_CASE_(kI64, T, int64_t, __VA_ARGS__))
/// integers and floats
#define PROA_REAL(dtype, T, ...) \
  PROA_SWITCH_(dtype, PROA_CASES_INTEGER_(T, __VA_ARGS__) PROA_CASES_FLOAT_(T, __VA_ARGS__))

/// For code that only moves elements: T is an unsigned integer (or Bytes16) of `size` bytes.
#define PROA_MOVED(size, T, ...) \
  switch (size) {                \
    case 1: {                    \
      using T = uint8_t;         \
      __VA_ARGS__;               \
      break;                     \
    }                            \
    case 2: {                    \
      using T = uint16_t;        \
      __VA_ARGS__;               \
      break;                     \
    }                            \
    case 4: {                    \
      using T = uint32_t;        \
      __VA_ARGS__;               \
      break;                     \
    }                            \
    case 8: {                    \
      using T = uint64_t;        \
      __VA_ARGS__;               \
      break;                     \
    }                            \
    default: {                   \
      using T = ::proa::Bytes16; \
      __VA_ARGS__;               \
      break;                     \
    }                            \
  }

}  // namespace proa
