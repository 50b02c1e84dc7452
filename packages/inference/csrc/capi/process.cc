// What holds for the whole process: flags, and operators of the program's own.
#include <map>
#include <mutex>

#include "predictor.h"

using proa::capi::guarded;
using proa::capi::missing;

PROA_EXPORT proa_status proa_set_flag(const char* name, const char* value) {
  if (name == nullptr || value == nullptr) {
    return missing("proa_set_flag", "name and value must not be NULL");
  }
  return guarded("proa_set_flag", [&] { proa::set_process_setting(name, value); });
}

PROA_EXPORT const char* proa_flag(const char* name) {
  // Texts that were handed out stay until their flag is set again.
  static std::mutex mutex;
  static std::map<std::string, std::string> values;
  if (name == nullptr) return nullptr;
  const char* found = nullptr;
  guarded("proa_flag", [&] {
    const std::string value = proa::process_setting(name);
    const std::lock_guard<std::mutex> lock(mutex);
    std::string& held = values[name];
    if (held != value) held = value;
    found = held.c_str();
  });
  return found;
}

PROA_EXPORT proa_status proa_load_operators(const char* path) {
  constexpr const char* kWhere = "proa_load_operators";
  if (path == nullptr) return missing(kWhere, "path must not be NULL");
  if (proa::capi::is_absent(path)) return proa::capi::absent(kWhere, path);
  return guarded(kWhere, [&] { proa::load_operators(path); });
}
