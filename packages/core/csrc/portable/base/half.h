#pragma once
// 16-bit floating types as storage; arithmetic is done in float.
#include <stdint.h>
#include <string.h>

#include "proa/base/inline.h"

namespace proa {

struct BF16 {
  uint16_t bits;
  BF16() = default;
  // Round to nearest even; a NaN stays a NaN.
  PROA_INLINE BF16(float f) {  // NOLINT(google-explicit-constructor)
    uint32_t u;
    memcpy(&u, &f, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<uint16_t>((u >> 16) | 0x40);
    } else {
      bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
    }
  }
  PROA_INLINE operator float() const {  // NOLINT(google-explicit-constructor)
    uint32_t u = static_cast<uint32_t>(bits) << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
  }
};

struct F16 {
  uint16_t bits;
  F16() = default;
  // IEEE 754 binary16, round to nearest even, with subnormals, infinities and NaN.
  PROA_INLINE F16(float f) {  // NOLINT(google-explicit-constructor)
    uint32_t u;
    memcpy(&u, &f, 4);
    const uint32_t sign = (u >> 16) & 0x8000u;
    u &= 0x7fffffffu;
    if (u > 0x7f800000u) {
      bits = static_cast<uint16_t>(sign | 0x7e00u);
    } else if (u >= 0x477ff000u) {  // rounds to 2^16 or more
      bits = static_cast<uint16_t>(sign | 0x7c00u);
    } else if (u < 0x38800000u) {  // subnormal: let a float addition do the rounding
      const uint32_t magic = 0x3f000000u;
      float a, m;
      memcpy(&a, &u, 4);
      memcpy(&m, &magic, 4);
      a += m;
      memcpy(&u, &a, 4);
      bits = static_cast<uint16_t>(sign | (u - magic));
    } else {
      u += 0xc8000fffu + ((u >> 13) & 1);
      bits = static_cast<uint16_t>(sign | (u >> 13));
    }
  }
  PROA_INLINE operator float() const {  // NOLINT(google-explicit-constructor)
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t exp = (bits >> 10) & 31u, man = bits & 0x3ffu;
    uint32_t u;
    float f;
    if (exp == 31) {
      u = sign | 0x7f800000u | (man << 13);
    } else if (exp != 0) {
      u = sign | ((exp + 112) << 23) | (man << 13);
    } else {
      f = static_cast<float>(man) * 5.9604644775390625e-8f;  // 2^-24
      memcpy(&u, &f, 4);
      u |= sign;
    }
    memcpy(&f, &u, 4);
    return f;
  }
};

struct C64 {
  float re, im;
};
struct C128 {
  double re, im;
};

}  // namespace proa
