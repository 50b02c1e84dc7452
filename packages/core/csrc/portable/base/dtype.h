#pragma once
// The element types of a tensor. The numbers are part of the model file format: append only.
#include <stddef.h>
#include <stdint.h>

#include "proa/base/inline.h"

namespace proa {

enum class DType : uint8_t {
  kBool = 0,
  kU8 = 1,
  kI8 = 2,
  kI16 = 3,
  kI32 = 4,
  kI64 = 5,
  kF16 = 6,
  kBF16 = 7,
  kF32 = 8,
  kF64 = 9,
  kC64 = 10,
  kC128 = 11,
};
constexpr int kDTypeCount = 12;

/// Bit i set: kernels of this build compute in DType(i). A library for small devices is built
/// with fewer: arrays of other dtypes can still be copied.
#if !defined(PROA_DTYPES)
#define PROA_DTYPES 0xfff
#endif
PROA_INLINE constexpr bool computes(DType t) {
  return ((PROA_DTYPES >> static_cast<int>(t)) & 1) != 0;
}

/// True for double, in a build that computes in it; false at compile time in others.
PROA_INLINE constexpr bool is_double(DType t) { return computes(DType::kF64) && t == DType::kF64; }

/// Bytes of one element.
PROA_INLINE constexpr size_t size_of(DType t) {
  constexpr uint8_t kSize[kDTypeCount] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
  return kSize[static_cast<int>(t)];
}
PROA_INLINE constexpr bool is_complex(DType t) { return t >= DType::kC64; }
PROA_INLINE constexpr bool is_floating(DType t) { return t >= DType::kF16 && t <= DType::kF64; }
PROA_INLINE constexpr bool is_integer(DType t) { return t >= DType::kU8 && t <= DType::kI64; }

}  // namespace proa
