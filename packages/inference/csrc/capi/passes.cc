// The graph passes of a config. Those that rewrite a graph ran when its file was written; what is
// chosen at load is whether elementwise chains run block by block.
#include <algorithm>

#include "predictor.h"

using proa::EngineError;
using proa::Status;
using proa::capi::guarded;
using proa::capi::missing;

namespace {

constexpr const char* kChains = "chain_elementwise";

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> names;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    names.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

/// The passes of the file; throws EngineError if it cannot be read. None without a model.
std::vector<std::string> written(proa_config* config) {
  if (!config->in_memory && config->path.empty()) return {};
  const char* names = nullptr;
  const proa_status status = proa_config_metadata(config, "passes", &names);
  if (status != PROA_OK) throw proa::capi::Failed{status};
  return split(names == nullptr ? "" : names);
}

/// Those of the file but for what the config took out.
std::vector<std::string> chosen(proa_config* config) {
  std::vector<std::string> names = written(config);
  if (!config->chains) names.erase(std::remove(names.begin(), names.end(), kChains), names.end());
  return names;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

[[noreturn]] void refuse(const char* where, const std::string& name, const char* option) {
  throw EngineError(Status::kUnimplemented,
                    std::string("[") + where + "] expected '" + kChains +
                        "' of a file that has it, which is chosen at load, got '" + name +
                        "'; passes that rewrite a graph run when its file is written: "
                        "`proa-infer optimize " +
                        option + " " + name + "`");
}

}  // namespace

PROA_EXPORT proa_status proa_config_passes(proa_config* config, const char** names) {
  constexpr const char* kWhere = "proa_config_passes";
  if (config == nullptr || names == nullptr) {
    return missing(kWhere, "config and names must not be NULL");
  }
  *names = nullptr;
  return guarded(kWhere, [&] {
    std::string text;
    for (const std::string& name : chosen(config)) text += (text.empty() ? "" : ",") + name;
    config->passes = std::move(text);
    *names = config->passes.c_str();
  });
}

PROA_EXPORT proa_status proa_config_append_pass(proa_config* config, const char* name) {
  constexpr const char* kWhere = "proa_config_append_pass";
  if (config == nullptr || name == nullptr) {
    return missing(kWhere, "config and name must not be NULL");
  }
  return guarded(kWhere, [&] {
    const std::vector<std::string> names = written(config);
    if (!contains(names, name)) refuse(kWhere, name, "--append-pass");
    if (name == std::string(kChains)) config->chains = true;
  });
}

PROA_EXPORT proa_status proa_config_delete_pass(proa_config* config, const char* name) {
  constexpr const char* kWhere = "proa_config_delete_pass";
  if (config == nullptr || name == nullptr) {
    return missing(kWhere, "config and name must not be NULL");
  }
  return guarded(kWhere, [&] {
    std::string list;
    for (const std::string& held : chosen(config)) list += (list.empty() ? "" : ", ") + held;
    if (!contains(chosen(config), name)) {
      proa::capi::fail(PROA_NOT_FOUND, std::string("[") + kWhere +
                                           "] expected a pass of the list (" + list + "), got '" +
                                           name + "'");
      throw proa::capi::Failed{PROA_NOT_FOUND};
    }
    if (name != std::string(kChains)) refuse(kWhere, name, "--delete-pass");
    config->chains = false;
  });
}

PROA_EXPORT proa_status proa_config_set_ir_optim(proa_config* config, int32_t on) {
  if (config == nullptr) return missing("proa_config_set_ir_optim", "config must not be NULL");
  config->optimize = on != 0;
  return PROA_OK;
}
PROA_EXPORT int32_t proa_config_ir_optim(const proa_config* config) {
  return config != nullptr && config->optimize ? 1 : 0;
}
