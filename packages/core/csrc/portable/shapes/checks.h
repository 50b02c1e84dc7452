#pragma once
// What shape rules of several families expect of an input. Kernels rely on it, and a model file may
// hold anything.
#include <stdint.h>

#include "proa/base/expect.h"
#include "proa/shapes/dims.h"

namespace proa {

/// Input i numbers elements.
inline Status check_index(const Call& c, int i) {
  PROA_EXPECT(c, is_index(c.in[i].dtype), "indices of int32 or int64", dtype_of(c, i));
  return Status::kOk;
}

/// Inputs i and k have one dtype.
inline Status check_dtypes(const Call& c, int i, int k) {
  PROA_EXPECT(c, c.in[i].dtype == c.in[k].dtype, "arrays of one dtype", dtype_of(c, i),
              dtype_of(c, k));
  return Status::kOk;
}

/// Inputs i and k have one shape and dtype.
inline Status check_alike(const Call& c, int i, int k) {
  PROA_TRY(check_dtypes(c, i, k));
  PROA_EXPECT(c, same_shape(c.in[i], c.in[k]), "arrays of one shape", shape_of(c, i),
              shape_of(c, k));
  return Status::kOk;
}

/// Input i holds floats.
inline Status check_floating(const Call& c, int i) {
  PROA_EXPECT(c, is_floating(c.in[i].dtype), "an array of floats", dtype_of(c, i));
  return Status::kOk;
}

/// Input i, parameters or statistics of input x, holds floats that are computed in the precision of
/// x: float64 where x is float64, float32 or 16-bit floats elsewhere.
inline Status check_precision(const Call& c, int i, int x) {
  const DType own = c.in[i].dtype, given = c.in[x].dtype;
  PROA_EXPECT(c, is_floating(own) && (own == DType::kF64) == (given == DType::kF64),
              "scale, bias and statistics in float64 where x is float64, elsewhere in float32 or "
              "16-bit floats",
              dtype_of(c, i), dtype_of(c, x));
  return Status::kOk;
}

/// The greatest magnitude of int8 values less a zero point within int8: 128 of 0, 255 of a bound.
inline int64_t int8_reach(int64_t zero) { return zero < 0 ? 127 - zero : 128 + zero; }

/// int32 holds any sum of `steps` products of numbers up to x_reach and y_reach in magnitude, as
/// steps * x_reach * y_reach <= 2^31 - 1: of int8 values 2147483647 / (128 * 128), which are 131071
/// steps; of values less zero points at the bounds of int8 2147483647 / (255 * 255) = 33025.
/// Longer ones would wrap around. What is summed on the way to them may, in arithmetic modulo 2^32.
inline Status check_int8_sum(const Call& c, int64_t steps, int64_t x_reach, int64_t y_reach) {
  const int64_t max_steps = INT32_MAX / (x_reach * y_reach);
  PROA_EXPECT(c, steps <= max_steps, "a sum of int8 products that int32 holds",
              named("steps", steps), named("max_steps", max_steps));
  return Status::kOk;
}

/// Input i is a vector with an element for each channel (axis 1) of input x.
inline Status check_channels(const Call& c, int i, int x) {
  PROA_EXPECT(c, c.in[i].rank == 1 && may_equal(c.in[i].shape[0], c.in[x].shape[1]),
              "a vector of shape (channels,)", shape_of(c, i), named("channels", c.in[x].shape[1]));
  return Status::kOk;
}

}  // namespace proa
