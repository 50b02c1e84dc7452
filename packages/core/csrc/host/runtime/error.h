#pragma once
// The exception of host code. Bindings turn it into the type of proa.errors that `status` names.
#include <stdexcept>
#include <string>
#include <utility>

#include "proa/base/status.h"

namespace proa {

enum class ErrorKind : uint8_t {
  kInvalidArgument,
  kType,  // a Python TypeError: an argument of the wrong kind
  kOutOfRange,
  kUnimplemented,
  kResourceExhausted,
  kPreconditionNotMet,
  kUnavailable,
  kFatal,
};

/// A failed call; `what()` reads "[where] what must hold, got what".
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

/// The kind that a portable function's status becomes.
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
