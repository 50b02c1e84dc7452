#pragma once
// Element types, and the numbers of 16 bits that C++ has no type for.
#include <complex>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <string>

#include "proa/extension_abi.h"

// Hidden, so that two extensions in one process never share a registry.
#define PROA_EXTENSION_BEGIN \
  namespace proa {           \
  namespace ext __attribute__((visibility("hidden"))) {
#define PROA_EXTENSION_END \
  }                        \
  }

PROA_EXTENSION_BEGIN

enum class DataType : uint8_t {
  BOOL,
  UINT8,
  INT8,
  INT16,
  INT32,
  INT64,
  FLOAT16,
  BFLOAT16,
  FLOAT32,
  FLOAT64,
  COMPLEX64,
  COMPLEX128,
};

template <class... Parts>
std::string text_of(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

template <class... Parts>
[[noreturn]] void fail_check(const char* condition, const Parts&... parts) {
  throw std::runtime_error(sizeof...(parts) > 0 ? text_of(parts...)
                                                : text_of(condition, " must hold"));
}

/// Ends the operator with an error that is raised in Python.
#define PD_THROW(...) throw ::std::runtime_error(::proa::ext::text_of(__VA_ARGS__))
/// The same unless the condition holds; without further arguments the condition is the message.
#define PD_CHECK(condition, ...)                                          \
  do {                                                                    \
    if (!(condition)) ::proa::ext::fail_check(#condition, ##__VA_ARGS__); \
  } while (0)

inline float float_of_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline uint32_t bits_of_float(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// The upper half of a float32.
struct bfloat16 {
  uint16_t bits = 0;
  bfloat16() = default;
  bfloat16(float value) {  // NOLINT: a number like others
    const uint32_t x = bits_of_float(value);
    const bool nan = (x & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<uint16_t>(nan ? (x >> 16) | 0x40u : (x + 0x7fffu + ((x >> 16) & 1)) >> 16);
  }
  operator float() const {  // NOLINT: a number like others
    return float_of_bits(static_cast<uint32_t>(bits) << 16);
  }
};

/// IEEE 754 half precision.
struct float16 {
  uint16_t bits = 0;
  float16() = default;
  float16(float value) {  // NOLINT: a number like others
    const uint32_t x = bits_of_float(value);
    const auto sign = static_cast<uint16_t>((x >> 16) & 0x8000u);
    const uint32_t size = x & 0x7fffffffu;
    if (size > 0x7f800000u) {
      bits = static_cast<uint16_t>(sign | 0x7e00u);
    } else if (size >= 0x477ff000u) {  // 65520 and more round to infinity
      bits = static_cast<uint16_t>(sign | 0x7c00u);
    } else if (size < 0x38800000u) {                    // below 2^-14: a multiple of 2^-24
      const float scaled = float_of_bits(size) + 0.5f;  // rounds at 2^-24
      bits = static_cast<uint16_t>(sign | (bits_of_float(scaled) - 0x3f000000u));
    } else {
      bits =
          static_cast<uint16_t>(sign | ((size - 0x38000000u + 0xfffu + ((size >> 13) & 1)) >> 13));
    }
  }
  operator float() const {  // NOLINT: a number like others
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t size = bits & 0x7fffu;
    if (size >= 0x7c00u) return float_of_bits(sign | 0x7f800000u | ((size & 0x3ffu) << 13));
    if (size < 0x400u) {
      const float small = static_cast<float>(size) * 5.9604644775390625e-8f;  // 2^-24
      return sign != 0 ? -small : small;
    }
    return float_of_bits(sign | ((size << 13) + 0x38000000u));
  }
};

using complex64 = std::complex<float>;
using complex128 = std::complex<double>;

template <class T>
struct DataTypeOf;
#define PROA_EXTENSION_TYPES(X) \
  X(bool, BOOL)                 \
  X(uint8_t, UINT8)             \
  X(int8_t, INT8)               \
  X(int16_t, INT16)             \
  X(int32_t, INT32)             \
  X(int64_t, INT64)             \
  X(float16, FLOAT16)           \
  X(bfloat16, BFLOAT16)         \
  X(float, FLOAT32)             \
  X(double, FLOAT64)            \
  X(complex64, COMPLEX64)       \
  X(complex128, COMPLEX128)
#define PROA_EXTENSION_TYPE_OF(type, name)            \
  template <>                                         \
  struct DataTypeOf<type> {                           \
    static constexpr DataType value = DataType::name; \
  };
PROA_EXTENSION_TYPES(PROA_EXTENSION_TYPE_OF)
#undef PROA_EXTENSION_TYPE_OF

inline size_t SizeOf(DataType dtype) {
  static constexpr uint8_t kSizes[] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
  return kSizes[static_cast<int>(dtype)];
}

inline const char* NameOf(DataType dtype) {
  static constexpr const char* kNames[] = {"bool",    "uint8",   "int8",      "int16",
                                           "int32",   "int64",   "float16",   "bfloat16",
                                           "float32", "float64", "complex64", "complex128"};
  return kNames[static_cast<int>(dtype)];
}

PROA_EXTENSION_END
