#pragma once
// Which expectation of a shape rule a refused call does not meet, with the values.
#include <string>

#include "proa/base/op_table.h"

namespace proa {

/// "in_channels divisible by groups, got in_channels=8, groups=3"; empty for rules whose errors
/// state the whole requirement. Thread-safe; reads the call's inputs and attributes alone.
std::string unmet_expectation(const OpInfo& op, const Call& call);

}  // namespace proa
