#pragma once
// What the C interface's objects hold, and how its functions fail.
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "proa/runtime/engine.h"
#include "proa/runtime/process.h"
#include "proa_inference.h"

#define PROA_EXPORT extern "C" __attribute__((visibility("default")))

namespace proa::capi {

/// What a handle was given or what a run computed.
struct Slot {
  proa_array array{};
  bool is_set = false;
  std::vector<uint64_t> memory;  // of an array of the handle's own
  std::vector<std::vector<size_t>> lod;
};

/// Sets the message of this thread's last failure and returns the status.
proa_status fail(proa_status status, std::string what);
proa_status missing(const char* where, const char* what);
/// Whether there is nothing at the path, and the failure that says so.
bool is_absent(const std::string& path);
proa_status absent(const char* where, const std::string& path);
/// The one file of a folder whose name ends in .proa; throws EngineError.
std::string model_in(const std::string& folder, const char* where);
std::unique_ptr<proa_predictor> wrap(std::unique_ptr<Engine> engine);
/// Thrown where a failure was noted already.
struct Failed {
  proa_status status;
};
/// The status of the exception that is being handled, whose message becomes the last failure.
proa_status status_of_exception(const char* where);

/// Runs `body`, which may throw, and turns what it throws into a status.
template <class Body>
proa_status guarded(const char* where, Body&& body) {
  try {
    body();
    return PROA_OK;
  } catch (...) {
    return status_of_exception(where);
  }
}

}  // namespace proa::capi

struct proa_tensor {
  proa_predictor* owner;
  size_t index;
  bool is_input;
  proa::capi::Slot slot;
};

struct proa_config {
  std::string path;
  std::vector<uint8_t> bytes;
  bool in_memory = false;
  int32_t threads = 0, plans = 8;
  size_t plan_bytes = 0;
  bool bf16 = false;
  bool optimize = true, chains = true;  // whether elementwise chains run block by block: both
  proa_key_callback key = nullptr;
  void* key_context = nullptr;
  std::string metadata;  // the text that proa_config_metadata gave last
  std::string passes;    // and proa_config_passes
};

struct proa_predictor {
  std::unique_ptr<proa::Engine> engine;
  std::vector<proa::View> inputs, outputs;          // reused, so that a run allocates nothing
  std::deque<proa_tensor> in_tensors, out_tensors;  // whose addresses stay
  std::vector<proa_array> in_arrays, out_arrays;    // of a run on handles
};
