// What the error of a refused call says: what must hold, and what the call was given.
#include <algorithm>
#include <cstdio>

#include "proa/runtime/error.h"
#include "proa/shapes/infer.h"
#include "proa/train/host_table.h"
#include "proa/train/run.h"

namespace proa {
namespace {

constexpr int kMaxArrays = 8;  // in the text

const char* requirement(Status status) {
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
      return "expected arrays and attributes that the operator accepts";
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

std::string input_name(const OpInfo& op, int i) {
  const HostOp& host = kHostOps[op.id];
  const bool many = host.args[0].kind == 'V';
  std::string name = host.args[many ? 0 : i].name;
  return many ? name + "[" + std::to_string(i) + "]" : name;
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
    add(input_name(op, i) + " " + name_of(x.dtype) + " " + shape_text(x));
  }
  for (int i = host.array_count; i < host.arg_count; ++i) {
    const ArgSpec& spec = host.args[i];
    const auto* at = static_cast<const unsigned char*>(call.attrs) + spec.offset;
    add(std::string(spec.name) + "=" + value_text(spec, at));
  }
  return text.empty() ? "no arrays" : text;
}

/// "groups=3", "x.shape=(2, 3)", "x.dtype=int32"
std::string text_of(const OpInfo& op, const FailureValue& value) {
  const bool input = value.input >= 0;
  const std::string name = input ? input_name(op, value.input) : value.name;
  switch (value.kind) {
    case FailureValue::Kind::kNumber:
      return name + "=" + std::to_string(value.numbers[0]);
    case FailureValue::Kind::kDType:
      return name + (input ? ".dtype=" : "=") + name_of(static_cast<DType>(value.numbers[0]));
    case FailureValue::Kind::kList: {
      Ints list_of;
      list_of.count = value.count;
      std::copy(value.numbers, value.numbers + kMaxRank, list_of.v);
      return name + "=" + list(list_of);
    }
    case FailureValue::Kind::kShape:
      break;
  }
  View shape;
  shape.rank = value.count;
  std::copy(value.numbers, value.numbers + kMaxRank, shape.shape);
  return name + (input ? ".shape=" : "=") + (shape.given() ? shape_text(shape) : "None");
}

/// What the kernel reported, or what the shape rule reports when it checks the call again; empty if
/// neither says.
std::string unmet_expectation(const OpInfo& op, const Call& call) {
  Failure failure;
  if (call.failure != nullptr && call.failure->expected != nullptr) {
    failure = *call.failure;
  } else if (op.shape != nullptr && call.n_out <= kMaxOutputs) {
    View out[kMaxOutputs];
    Call again = call;
    again.out = out;
    again.failure = &failure;
    for (int i = 0; i < call.n_out; ++i) out[i].dtype = output_dtype(op, call, i);
    (void)op.shape(again);
  }
  if (failure.expected == nullptr) return {};
  std::string text = std::string("expected ") + failure.expected;
  for (int i = 0; i < failure.count; ++i) {
    text += (i == 0 ? ", got " : ", ") + text_of(op, failure.values[i]);
  }
  return text;
}

}  // namespace

void raise_status(const OpInfo& op, const Call& call, Status status) {
  const std::string where = std::string("[") + op.name + "] ";
  const std::string unmet = unmet_expectation(op, call);
  if (!unmet.empty()) {
    throw Error(kind_of(status), where + unmet + " (" + given(op, call) + ")");
  }
  throw Error(kind_of(status), where + requirement(status) + ", got " + given(op, call));
}

void raise_allocation(const OpInfo& op, const Call& call, const Error& error) {
  if (error.kind() != ErrorKind::kResourceExhausted) throw error;
  throw error.with(std::string("[") + op.name + "] " + requirement(Status::kResourceExhausted) +
                   ", got " + given(op, call) + "; " + error.what());
}

}  // namespace proa
