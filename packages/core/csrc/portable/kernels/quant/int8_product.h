#pragma once
// Exact int8 products with the epilogue of conv2d_int8 and linear_int8:
// v = act(acc * multiplier + bias), the product and the sum rounded separately, then v itself or
// clamp(round(v / out_scale), -127, 127). This family is compiled without contraction.
#include "proa/simd/gemm/epilogue.h"

namespace proa::PROA_ISA {

struct Int8Product {
  int64_t m = 0, n = 0, k = 0;
  /// As Source::read by lane, in int8 elements; `count` is at most kInt8Run.
  const void* (*read)(const void* ctx, int64_t row, int64_t k, int64_t count, void* buffer);
  const void* ctx = nullptr;
  const void* packed = nullptr;      // by int8_pack
  const View* multiplier = nullptr;  // one element, or `channels` of them
  const View* bias = nullptr;        // nullptr or not given: none
  int64_t first = 0;                 // column 0 is this channel
  Place out;                         // kF32 or kI8
  Act act = Act::kNone;
  float out_scale = 0;
};
constexpr int64_t kInt8Run = 1024;

size_t int8_scratch(int64_t m, int64_t n, int64_t k);
void int8_multiply(const Call& call, const Int8Product& p, void* scratch);

/// Columns of an int8 matrix: element (p, j) = data[steps.at(p) + j * stride].
struct Int8Columns {
  const int8_t* data;
  Lines steps;
  int64_t stride;
};
size_t int8_packed_size(int64_t n, int64_t k);
void int8_pack(const Int8Columns& b, int64_t n, int64_t k, void* packed);

}  // namespace proa::PROA_ISA
