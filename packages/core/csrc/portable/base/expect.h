#pragma once
// PROA_EXPECT, by which shape rules and kernels check a call:
//
//     PROA_EXPECT(c, x.rank == 4, "x with 4 axes", shape_of(c, 0));
//     PROA_EXPECT(c, a.groups > 0, "groups of at least 1", named("groups", a.groups));
//
// returns kInvalidArgument from the function unless the condition holds, and fills `c.failure` if
// that is given. A library for small devices leaves the texts out (PROA_HAS_FAILURES=0).
#include "proa/base/call.h"
#include "proa/base/failure.h"
#include "proa/base/settings.h"

namespace proa {

/// A value of a failure before it is copied.
struct ShownValue {
  FailureValue::Kind kind;
  int8_t input, count;
  const char* name;
  int64_t number;
  const int64_t* numbers;
};

PROA_INLINE ShownValue named(const char* name, int64_t number) {
  return {FailureValue::Kind::kNumber, -1, 1, name, number, nullptr};
}
PROA_INLINE ShownValue named(const char* name, DType dtype) {
  return {FailureValue::Kind::kDType, -1, 1, name, static_cast<int64_t>(dtype), nullptr};
}
PROA_INLINE ShownValue named(const char* name, const Ints& list) {
  const auto count = static_cast<int8_t>(list.count);
  return {FailureValue::Kind::kList, -1, count, name, 0, list.v};
}
PROA_INLINE ShownValue named(const char* name, const View& x) {
  return {FailureValue::Kind::kShape, -1, x.rank, name, 0, x.shape};
}
/// Shape and dtype of input i, under the name that the op's row gives it.
PROA_INLINE ShownValue shape_of(const Call& c, int i) {
  const auto input = static_cast<int8_t>(i);
  return {FailureValue::Kind::kShape, input, c.in[i].rank, nullptr, 0, c.in[i].shape};
}
PROA_INLINE ShownValue dtype_of(const Call& c, int i) {
  const auto dtype = static_cast<int64_t>(c.in[i].dtype);
  return {FailureValue::Kind::kDType, static_cast<int8_t>(i), 1, nullptr, dtype, nullptr};
}

/// Fills c.failure, if it is given.
void report_failure(const Call& c, const char* expected, const ShownValue* values, size_t count);

#define PROA_EXPECT_(status, c, met, expected, ...)                                        \
  do {                                                                                     \
    if (!(met)) {                                                                          \
      if constexpr (::proa::kHasFailures) {                                                \
        const ::proa::ShownValue shown_[] = {__VA_ARGS__};                                 \
        ::proa::report_failure((c), (expected), shown_, sizeof(shown_) / sizeof(*shown_)); \
      }                                                                                    \
      return ::proa::Status::status;                                                       \
    }                                                                                      \
  } while (0)
#define PROA_EXPECT(...) PROA_EXPECT_(kInvalidArgument, __VA_ARGS__)
/// The same of an index, which is kOutOfRange.
#define PROA_EXPECT_RANGE(...) PROA_EXPECT_(kOutOfRange, __VA_ARGS__)

}  // namespace proa
