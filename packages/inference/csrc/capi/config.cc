// Configs, and predictors of them.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <new>

#include "cipher.h"
#include "predictor.h"

using proa::EngineError;
using proa::Status;
using proa::capi::guarded;
using proa::capi::missing;

namespace {

proa::EngineOptions options(const proa_config& config) {
  proa::EngineOptions o;
  o.threads = config.threads;
  o.max_plans = config.plans;
  o.max_plan_bytes = config.plan_bytes;
  o.flush_denormals = true;
  o.stored_chains = config.optimize && config.chains;
  o.stored_strategies = config.optimize;
  return o;
}

std::vector<uint8_t> read_file(const std::string& path) {
  std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "rb"), fclose);
  if (file == nullptr) return {};
  std::vector<uint8_t> bytes;
  uint8_t part[1 << 16];
  for (size_t count; (count = fread(part, 1, sizeof(part), file.get())) > 0;) {
    bytes.insert(bytes.end(), part, part + count);
  }
  return bytes;
}

/// Whether the file begins as an encrypted model does; false if it cannot be read, and of a pipe,
/// whose opening might wait.
bool encrypted_file(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "rb"), fclose);
  uint8_t start[8];
  if (file == nullptr || fread(start, 1, sizeof(start), file.get()) < sizeof(start)) return false;
  return proa::capi::is_encrypted(start, sizeof(start));
}

/// The bytes of an encrypted model, decrypted.
std::vector<uint8_t> decrypted(const proa_config& config, const uint8_t* bytes, size_t size) {
  if (config.key == nullptr) {
    throw EngineError(Status::kInvalidArgument,
                      "[proa_predictor_create] expected a key by proa_config_set_key for an "
                      "encrypted model, got none");
  }
  uint8_t key[PROA_KEY_BYTES] = {};
  if (config.key(config.key_context, key) != 0) {
    throw EngineError(Status::kInvalidArgument,
                      "[proa_predictor_create] expected a key of the callback, got a failure");
  }
  std::vector<uint8_t> plain(size);
  proa::capi::decrypt(bytes, size, key, plain.data());
  memset(key, 0, sizeof(key));
  plain.resize(size - proa::capi::kHeaderBytes - proa::capi::kTagBytes);
  return plain;
}

std::unique_ptr<proa::Engine> load_encrypted(const proa_config& config, const uint8_t* bytes,
                                             size_t size) {
  std::vector<uint8_t> plain = decrypted(config, bytes, size);
  auto engine = proa::Engine::from_bytes(plain.data(), plain.size(), options(config));
  memset(plain.data(), 0, plain.size());
  return engine;
}

std::unique_ptr<proa::Engine> load(const proa_config& config) {
  if (config.in_memory) {
    if (!proa::capi::is_encrypted(config.bytes.data(), config.bytes.size())) {
      return proa::Engine::from_bytes(config.bytes.data(), config.bytes.size(), options(config));
    }
    return load_encrypted(config, config.bytes.data(), config.bytes.size());
  }
  if (config.path.empty()) {
    throw EngineError(Status::kInvalidArgument,
                      "[proa_predictor_create] expected a model by proa_config_set_model, got "
                      "none");
  }
  if (!encrypted_file(config.path)) return proa::Engine::load(config.path, options(config));
  const std::vector<uint8_t> bytes = read_file(config.path);
  return load_encrypted(config, bytes.data(), bytes.size());
}

using Metadata = std::vector<std::pair<std::string, std::string>>;

/// A file's bytes for as long as this lives; only what is looked at is read.
class Mapping {
 public:
  explicit Mapping(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
      const auto size = static_cast<size_t>(status.st_size);
      void* memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
      if (memory != MAP_FAILED) data_ = memory, size_ = size;
    }
    if (file >= 0) close(file);
  }
  ~Mapping() {
    if (data_ != nullptr) munmap(data_, size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  const uint8_t* data() const { return static_cast<const uint8_t*>(data_); }
  size_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

Metadata metadata_of(const proa_config& config, const uint8_t* bytes, size_t size) {
  if (!proa::capi::is_encrypted(bytes, size)) return proa::model_metadata(bytes, size);
  const std::vector<uint8_t> plain = decrypted(config, bytes, size);
  return proa::model_metadata(plain.data(), plain.size());
}

Metadata metadata(const proa_config& config) {
  if (config.in_memory) return metadata_of(config, config.bytes.data(), config.bytes.size());
  const Mapping file(config.path);
  return metadata_of(config, file.data(), file.size());
}

/// Graphs are rewritten ahead of time, by Python; such a file says so.
void check_bf16(const proa::Engine& engine) {
  for (const auto& [key, value] : engine.metadata()) {
    if (key == "precision" && value == "bfloat16") return;
  }
  throw EngineError(Status::kInvalidArgument,
                    "[proa_predictor_create] expected a model that computes in bfloat16, as "
                    "`proa-infer optimize --bf16` writes it, got one in float32");
}

bool is_folder(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

std::string proa::capi::model_in(const std::string& folder, const char* where) {
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder.c_str()), closedir);
  std::vector<std::string> found;
  while (const dirent* entry = listing == nullptr ? nullptr : readdir(listing.get())) {
    const std::string name = entry->d_name;
    const size_t size = name.size();
    if (size > 5 && name.compare(size - 5, 5, ".proa") == 0) found.push_back(name);
  }
  if (found.size() != 1) {
    throw EngineError(Status::kInvalidArgument, std::string("[") + where +
                                                    "] expected one file *.proa in '" + folder +
                                                    "', got " + std::to_string(found.size()));
  }
  return folder + "/" + found[0];
}

PROA_EXPORT proa_config* proa_config_create(void) { return new (std::nothrow) proa_config; }
PROA_EXPORT proa_config* proa_config_copy(const proa_config* from) {
  return from == nullptr ? nullptr : new (std::nothrow) proa_config(*from);
}
PROA_EXPORT void proa_config_free(proa_config* config) { delete config; }

PROA_EXPORT proa_status proa_config_set_model(proa_config* config, const char* path) {
  if (config == nullptr || path == nullptr) {
    return missing("proa_config_set_model", "config and path must not be NULL");
  }
  return guarded("proa_config_set_model", [&] {
    const bool in_folder = is_folder(path);
    config->path = in_folder ? proa::capi::model_in(path, "proa_config_set_model") : path;
    config->bytes.clear();
    config->in_memory = false;
  });
}

PROA_EXPORT proa_status proa_config_set_model_bytes(proa_config* config, const void* bytes,
                                                    size_t size) {
  if (config == nullptr || bytes == nullptr) {
    return missing("proa_config_set_model_bytes", "config and bytes must not be NULL");
  }
  return guarded("proa_config_set_model_bytes", [&] {
    const auto* from = static_cast<const uint8_t*>(bytes);
    config->bytes.assign(from, from + size);
    config->path.clear();
    config->in_memory = true;
  });
}

PROA_EXPORT const char* proa_config_model(const proa_config* config) {
  return config == nullptr ? "" : config->path.c_str();
}
PROA_EXPORT int32_t proa_config_in_memory(const proa_config* config) {
  return config != nullptr && config->in_memory ? 1 : 0;
}

PROA_EXPORT proa_status proa_config_set_threads(proa_config* config, int32_t threads) {
  if (config == nullptr || threads < 0) {
    return missing("proa_config_set_threads", "config must not be NULL and threads >= 0");
  }
  config->threads = threads;
  return PROA_OK;
}
PROA_EXPORT int32_t proa_config_threads(const proa_config* config) {
  return config == nullptr ? 0 : config->threads;
}

PROA_EXPORT proa_status proa_config_set_plan_cache(proa_config* config, int32_t count,
                                                   size_t max_bytes) {
  if (config == nullptr || count < 1) {
    return missing("proa_config_set_plan_cache", "config must not be NULL and count >= 1");
  }
  config->plans = count;
  config->plan_bytes = max_bytes;
  return PROA_OK;
}

PROA_EXPORT proa_status proa_config_enable_bf16(proa_config* config) {
  if (config == nullptr) return missing("proa_config_enable_bf16", "config must not be NULL");
  return guarded("proa_config_enable_bf16", [&] {
    if (!proa::has_bf16_dots()) {
      throw EngineError(Status::kUnimplemented,
                        "[proa_config_enable_bf16] expected a CPU with AVX512_BF16 (and neither "
                        "PROA_BF16=off nor a PROA_ISA below avx512), got one that widens bfloat16 "
                        "to float32");
    }
    config->bf16 = true;
  });
}
PROA_EXPORT int32_t proa_config_bf16(const proa_config* config) {
  return config != nullptr && config->bf16 ? 1 : 0;
}

PROA_EXPORT proa_status proa_config_set_key(proa_config* config, proa_key_callback key,
                                            void* context) {
  if (config == nullptr) return missing("proa_config_set_key", "config must not be NULL");
  config->key = key;
  config->key_context = context;
  return PROA_OK;
}

PROA_EXPORT proa_status proa_config_metadata(proa_config* config, const char* key,
                                             const char** value) {
  constexpr const char* kWhere = "proa_config_metadata";
  if (config == nullptr || key == nullptr || value == nullptr) {
    return missing(kWhere, "config, key and value must not be NULL");
  }
  *value = nullptr;
  if (!config->path.empty() && proa::capi::is_absent(config->path)) {
    return proa::capi::absent(kWhere, config->path);
  }
  return guarded(kWhere, [&] {
    for (auto& [name, text] : metadata(*config)) {
      if (name != key) continue;
      config->metadata = text;
      *value = config->metadata.c_str();
    }
  });
}

PROA_EXPORT proa_status proa_predictor_create(const proa_config* config,
                                              proa_predictor** predictor) {
  constexpr const char* kWhere = "proa_predictor_create";
  if (predictor == nullptr) return missing(kWhere, "predictor must not be NULL");
  *predictor = nullptr;
  if (config == nullptr) return missing(kWhere, "config must not be NULL");
  if (!config->path.empty() && proa::capi::is_absent(config->path)) {
    return proa::capi::absent(kWhere, config->path);
  }
  return guarded(kWhere, [&] {
    auto engine = load(*config);
    if (config->bf16) check_bf16(*engine);
    *predictor = proa::capi::wrap(std::move(engine)).release();
  });
}

PROA_EXPORT proa_status proa_encrypt(const void* bytes, size_t size, const uint8_t* key,
                                     void* out) {
  if ((bytes == nullptr && size > 0) || key == nullptr || out == nullptr) {
    return missing("proa_encrypt", "bytes, key and out must not be NULL");
  }
  return guarded("proa_encrypt",
                 [&] { proa::capi::encrypt(bytes, size, key, static_cast<uint8_t*>(out)); });
}

PROA_EXPORT proa_status proa_decrypt(const void* bytes, size_t size, const uint8_t* key,
                                     void* out) {
  if (bytes == nullptr || key == nullptr || out == nullptr) {
    return missing("proa_decrypt", "bytes, key and out must not be NULL");
  }
  return guarded("proa_decrypt",
                 [&] { proa::capi::decrypt(bytes, size, key, static_cast<uint8_t*>(out)); });
}
