// What the error of a refused call says: what must hold, and what the call was given.
#include <cstdio>

#include "proa/runtime/error.h"
#include "proa/train/host_table.h"
#include "proa/train/run.h"
#include "proa/train/shape_failure.h"

namespace proa {
namespace {

constexpr int kMaxArrays = 8;  // in the text

const char* requirement(const OpInfo& op, Status status) {
  switch (status) {
    case Status::kOutOfRange:
      return "every index must be within its axis";
    case Status::kUnimplemented:
      return "this build has no kernel for these arguments";
    case Status::kResourceExhausted:
      return "expected arrays that fit in memory";
    case Status::kSingular:
      return "every matrix must have an inverse, but one is singular";
    case Status::kNotPositive:
      return "every matrix must be Hermitian and positive definite";
    case Status::kNoConvergence:
      return "the iteration did not converge, which needs finite numbers";
    default:
      return kHostOps[op.id].requirement;
  }
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string list(const Ints& values) {
  if (values.count < 0) return "None";
  std::string text = "[";
  for (int i = 0; i < values.count; ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(values[i]);
  }
  return text + "]";
}

std::string value_text(const ArgSpec& spec, const void* at) {
  const int64_t i = *static_cast<const int64_t*>(at);
  switch (spec.kind) {
    case 'f':
      return number(*static_cast<const double*>(at));
    case 'b':
      return i != 0 ? "True" : "False";
    case 'd':
      return name_of(static_cast<DType>(i));
    case 'c':
      return std::string("'") + spec.choices[i] + "'";
    case 'I':
      return list(*static_cast<const Ints*>(at));
    case 's': {
      const auto& s = *static_cast<const Scalar*>(at);
      return s.is_int != 0 ? std::to_string(s.i) : number(s.f);
    }
    default:
      return std::to_string(i);
  }
}

/// "x float32 (2, 3), axis=1"
std::string given(const OpInfo& op, const Call& call) {
  const HostOp& host = kHostOps[op.id];
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  int shown = 0;
  for (int i = 0; i < call.n_in; ++i) {
    const View& x = call.in[i];
    if (!x.given()) continue;
    if (++shown > kMaxArrays) {
      add("..");
      break;
    }
    const bool many = host.args[0].kind == 'V';
    std::string name = host.args[many ? 0 : i].name;
    if (many) name += "[" + std::to_string(i) + "]";
    add(name + " " + name_of(x.dtype) + " " + shape_text(x));
  }
  for (int i = host.array_count; i < host.arg_count; ++i) {
    const ArgSpec& spec = host.args[i];
    const auto* at = static_cast<const unsigned char*>(call.attrs) + spec.offset;
    add(std::string(spec.name) + "=" + value_text(spec, at));
  }
  return text.empty() ? "no arrays" : text;
}

}  // namespace

void raise_status(const OpInfo& op, const Call& call, Status status) {
  const std::string where = std::string("[") + op.name + "] ";
  const std::string unmet =
      status == Status::kInvalidArgument ? unmet_expectation(op, call) : std::string();
  if (!unmet.empty()) {
    throw Error(kind_of(status), where + "expected " + unmet + " (" + given(op, call) + ")");
  }
  throw Error(kind_of(status), where + requirement(op, status) + ", got " + given(op, call));
}

void raise_allocation(const OpInfo& op, const Call& call, const Error& error) {
  if (error.kind() != ErrorKind::kResourceExhausted) throw error;
  throw error.with(std::string("[") + op.name + "] " + requirement(op, Status::kResourceExhausted) +
                   ", got " + given(op, call) + "; " + error.what());
}

}  // namespace proa
