#pragma once
// The result of a portable function: it never throws. The caller converts it to a typed error.
#include <stdint.h>

namespace proa {

enum class Status : uint8_t {
  kOk = 0,
  kInvalidArgument = 1,    // a shape, dtype or attribute that the op's contract forbids
  kOutOfRange = 2,         // an index outside its axis, found in the data
  kUnimplemented = 3,      // no kernel for this dtype or attribute on this build
  kResourceExhausted = 4,  // the memory given is too small
  kNotAView = 5,           // the strides admit no view: copy first, then call again
  kBadModel = 6,           // bytes that are not a valid model file
  kVersion = 7,            // a model file or library of another format or ABI version
  kSingular = 8,           // a matrix that must have an inverse has none
  kNotPositive = 9,        // a matrix that must be positive definite is not
  kNoConvergence = 10,     // an iteration did not converge (usually NaN in the data)
};

/// Returns the first failure of a sequence of calls: `PROA_TRY(step());`.
#define PROA_TRY(expr)                                                    \
  do {                                                                    \
    if (::proa::Status s_ = (expr); s_ != ::proa::Status::kOk) return s_; \
  } while (0)

}  // namespace proa
