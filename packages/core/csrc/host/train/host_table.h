#pragma once
// What the eager engine and the Python bindings know of each op beyond OpInfo (generated).
#include <cstdint>

#include "proa/base/op_table.h"

namespace proa {

enum class AutocastClass : uint8_t { kGray, kWhite, kBlack, kMixed };

/// One argument of the op's Python function.
struct ArgSpec {
  const char* name;
  /// T array, t optional array, V variadic arrays; attributes as OpInfo::attr_kinds, but 'c' for a
  /// choice.
  char kind;
  bool required;
  uint16_t offset;             // in the attribute struct
  const char* const* choices;  // of a choice, nullptr-terminated
};

struct HostOp {
  const ArgSpec* args;  // arrays first, then attributes
  uint8_t arg_count;
  uint8_t array_count;
  AutocastClass autocast;
  bool has_inplace;  // `name_` exists besides `name`
  const char* doc;
};

/// Indexed by OpId.
extern const HostOp kHostOps[];

/// kPromotion[a][b]: the dtype that both convert to.
extern const DType kPromotion[kDTypeCount][kDTypeCount];

}  // namespace proa
