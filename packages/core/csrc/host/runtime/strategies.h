#pragma once
// Names of Strategy (proa/base/call.h), and the strategies that a file's metadata states.
#include <stdint.h>

#include <string>
#include <vector>

#include "proa/base/call.h"

namespace proa {

/// The strategy of that name; the empty name is kByRule. False if there is none.
bool find_strategy(const std::string& name, Strategy* strategy);

/// Strategies of `node_count` nodes from "<node>:<name> <node>:<name> ...", kByRule where a node is
/// not named. Empty if the text is malformed.
std::vector<uint8_t> read_strategies(const std::string& text, uint32_t node_count);

}  // namespace proa
