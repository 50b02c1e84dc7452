#pragma once
// What a refused call did not meet, and the values that show it. Shape rules and kernels state each
// expectation once, where they check it (base/expect.h); a caller that wants to read the failure
// gives memory for it in `Call::failure`.
#include "proa/base/view.h"

namespace proa {

/// A number, a dtype, or several numbers, of an input or under a name.
struct FailureValue {
  enum class Kind : uint8_t { kNumber, kDType, kShape, kList };
  Kind kind;
  int8_t input;      // its number, or -1
  int8_t count;      // of numbers
  const char* name;  // nullptr for an input
  int64_t numbers[kMaxRank];
};

/// Reads "expected <expected>, got <values>".
struct Failure {
  static constexpr int kMaxValues = 4;
  const char* expected = nullptr;  // static; nullptr: nothing has failed
  int count = 0;
  FailureValue values[kMaxValues];
};

}  // namespace proa
