#pragma once
// The exception of host code. Bindings convert it to the type of proa.errors that `status` names.
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "proa/base/status.h"
#include "proa/runtime/process.h"

namespace proa {

enum class ErrorKind : uint8_t {
  kInvalidArgument,
  kType,  // a Python TypeError: an argument of the wrong kind
  kOutOfRange,
  kUnimplemented,
  kResourceExhausted,
  kPreconditionNotMet,
  kUnavailable,
  kUnsupportedCpu,  // found when the library is loaded
  kFatal,
};

/// A failed call; `what()` reads "[where] expectation, got value".
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message);
  ErrorKind kind() const { return kind_; }
  /// The calls that led here, one a line; empty unless set_error_stacks(true) was called before.
  std::string stack() const;
  /// The same failure with another text.
  Error with(const std::string& message) const;

 private:
  ErrorKind kind_;
  std::vector<void*> frames_;
};

/// The kind of error of a portable function's status.
inline ErrorKind kind_of(Status status) {
  switch (status) {
    case Status::kOutOfRange:
      return ErrorKind::kOutOfRange;
    case Status::kUnimplemented:
      return ErrorKind::kUnimplemented;
    case Status::kResourceExhausted:
      return ErrorKind::kResourceExhausted;
    case Status::kVersion:
      return ErrorKind::kUnavailable;
    default:
      return ErrorKind::kInvalidArgument;
  }
}

}  // namespace proa
