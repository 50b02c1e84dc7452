#include "proa/runtime/process.h"

#include <cstdlib>

#include "proa/runtime/engine.h"
#include "proa/runtime/error.h"
#include "proa/runtime/extension.h"
#include "proa/runtime/ops.h"
#include "proa/runtime/pool.h"

namespace proa {

namespace {

constexpr const char* kThreads = "PROA_NUM_THREADS";
constexpr const char* kStacks = "FLAGS_call_stack_level";
constexpr const char* kKernelSettings[] = {"PROA_ISA", "PROA_BF16", "PROA_AMX", "PROA_CACHES",
                                           "PROA_WINOGRAD"};

[[noreturn]] void refuse(const std::string& what) {
  throw EngineError(Status::kInvalidArgument, "[set_process_setting] expected " + what);
}

int parse_number(const std::string& name, const std::string& value, int low, int high) {
  char* end = nullptr;
  const long number = std::strtol(value.c_str(), &end, 10);
  if (value.empty() || *end != 0 || number < low || number > high) {
    refuse("a number from " + std::to_string(low) + " to " + std::to_string(high) + " for " + name +
           ", got '" + value + "'");
  }
  return static_cast<int>(number);
}

bool is_kernel_setting(const std::string& name) {
  for (const char* known : kKernelSettings) {
    if (name == known) return true;
  }
  return false;
}

[[noreturn]] void refuse_name(const std::string& name) {
  std::string known = std::string(kThreads) + ", " + kStacks;
  for (const char* other : kKernelSettings) known += std::string(", ") + other;
  refuse("one of " + known + ", got '" + name + "'");
}

}  // namespace

std::vector<std::string> load_operators(const std::string& path) {
  try {
    std::vector<std::string> names;
    for (const ExtensionOp* op : load_extension(path)) names.push_back(op->name);
    return names;
  } catch (const Error& error) {
    throw EngineError(Status::kInvalidArgument, error.what());
  }
}

void set_process_setting(const std::string& name, const std::string& value) {
  if (name == kThreads) {
    ThreadPool::global().set_threads(parse_number(name, value, 1, 1024));
  } else if (name == kStacks) {
    set_error_stacks(parse_number(name, value, 0, 2) >= 2);
  } else if (!is_kernel_setting(name)) {
    refuse_name(name);
  } else if (kernels_are_chosen()) {
    refuse(name + " to be set before the first model is loaded, got '" + value +
           "' after a model was loaded");
  }
  setenv(name.c_str(), value.c_str(), 1);
}

std::string process_setting(const std::string& name) {
  if (name != kThreads && name != kStacks && !is_kernel_setting(name)) refuse_name(name);
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

}  // namespace proa
