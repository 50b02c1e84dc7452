#include "proa/runtime/strategies.h"

#include <sstream>

namespace proa {

bool find_strategy(const std::string& name, Strategy* strategy) {
  // In the order of the enumeration.
  static constexpr const char* kNames[kStrategies] = {"", "winograd", "implicit_gemm", "im2col"};
  for (int i = 0; i < kStrategies; ++i) {
    if (name != kNames[i]) continue;
    *strategy = static_cast<Strategy>(i);
    return true;
  }
  return false;
}

std::vector<uint8_t> read_strategies(const std::string& text, uint32_t node_count) {
  std::vector<uint8_t> strategies(node_count);
  std::istringstream stream(text);
  for (uint32_t node; stream >> node;) {
    std::string name;
    Strategy strategy;
    if (node >= node_count || stream.get() != ':' || !(stream >> name) ||
        !find_strategy(name, &strategy)) {
      return {};
    }
    strategies[node] = static_cast<uint8_t>(strategy);
  }
  return stream.eof() ? strategies : std::vector<uint8_t>();
}

}  // namespace proa
