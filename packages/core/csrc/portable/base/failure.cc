#include "proa/base/expect.h"

namespace proa {

void report_failure(const Call& c, const char* expected, const ShownValue* values, size_t count) {
  if (c.failure == nullptr) return;
  Failure& f = *c.failure;
  f.expected = expected;
  f.count = 0;
  for (size_t i = 0; i < count && f.count < Failure::kMaxValues; ++i) {
    const ShownValue& from = values[i];
    FailureValue& to = f.values[f.count++];
    to = {from.kind, from.input, from.count, from.name, {from.number}};
    for (int k = 0; from.numbers != nullptr && k < from.count; ++k) {
      to.numbers[k] = from.numbers[k];
    }
  }
}

}  // namespace proa
