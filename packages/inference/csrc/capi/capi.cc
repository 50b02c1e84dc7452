// The C functions of proa_inference.h over the engine. No exception leaves this file.
#include <errno.h>
#include <sys/stat.h>

#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "predictor.h"

using proa::Status;
using proa::View;
using proa::capi::fail;
using proa::capi::guarded;
using proa::capi::missing;
using proa::capi::wrap;

namespace {

static_assert(PROA_MAX_RANK == proa::kMaxRank);
static_assert(PROA_COMPLEX128 == static_cast<int>(proa::DType::kC128));

thread_local std::string last_error, last_stack;
thread_local std::vector<void*> last_frames;

/// Errors note their calls from the start, unless the environment has another level.
const bool kStacksAtStart = [] {
  const std::string level = proa::process_setting("FLAGS_call_stack_level");
  proa::set_error_stacks(level.empty() || level == "2");
  return true;
}();

/// The status of a failed call of the engine. The numbers of files and of linear algebra coincide.
proa_status status_of(Status status) {
  switch (status) {
    case Status::kInvalidArgument:
    case Status::kOutOfRange:
    case Status::kUnimplemented:
    case Status::kResourceExhausted:
    case Status::kBadModel:
    case Status::kVersion:
      return static_cast<proa_status>(status);
    default:
      return PROA_FAILED;
  }
}

proa::EngineOptions options(int32_t threads) {
  proa::EngineOptions o;
  o.threads = threads;
  o.stored_chains = o.stored_strategies = true;
  o.flush_denormals = true;
  return o;
}

/// Copies a row-major array's description; false if it has no valid rank, dtype or shape.
bool to_view(const proa_array& a, View* v) {
  if (a.rank < 0 || a.rank > PROA_MAX_RANK || a.dtype < PROA_BOOL || a.dtype > PROA_COMPLEX128) {
    return false;
  }
  v->data = a.data;
  v->dtype = static_cast<proa::DType>(a.dtype);
  v->rank = static_cast<int8_t>(a.rank);
  for (int i = 0; i < a.rank; ++i) {
    if (a.shape[i] < 0) return false;
    v->shape[i] = a.shape[i];
  }
  v->set_contiguous();
  return true;
}

void to_array(const View& v, proa_array* a) {
  a->data = v.data;
  a->dtype = static_cast<proa_dtype>(v.dtype);
  a->rank = static_cast<int32_t>(v.rank);
  for (int i = 0; i < v.rank; ++i) a->shape[i] = v.shape[i];
}

const char* name_at(const std::vector<proa::IoSpec>& specs, int32_t i) {
  return i < 0 || static_cast<size_t>(i) >= specs.size() ? nullptr : specs[i].name.c_str();
}

proa_status spec_at(const char* where, const std::vector<proa::IoSpec>& specs, int32_t i,
                    proa_array* out) {
  if (out == nullptr) return missing(where, "spec must not be NULL");
  if (name_at(specs, i) == nullptr) {
    return fail(PROA_INVALID_ARGUMENT, std::string("[") + where + "] index must be in [0, " +
                                           std::to_string(specs.size()) + "), got " +
                                           std::to_string(i));
  }
  const proa::IoSpec& spec = specs[i];
  *out = proa_array{};
  out->dtype = static_cast<proa_dtype>(spec.dtype);
  out->rank = static_cast<int32_t>(spec.shape.size());
  for (int d = 0; d < out->rank; ++d) out->shape[d] = spec.shape[d];
  return PROA_OK;
}

}  // namespace

namespace proa::capi {

proa_status fail(proa_status status, std::string what) {
  last_error = std::move(what);
  last_stack.clear();
  try {
    last_frames = error_frames();
  } catch (const std::bad_alloc&) {
    last_frames.clear();
  }
  return status;
}

proa_status missing(const char* where, const char* what) {
  return fail(PROA_INVALID_ARGUMENT, std::string("[") + where + "] " + what);
}

bool is_absent(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

proa_status absent(const char* where, const std::string& path) {
  return fail(PROA_NOT_FOUND,
              std::string("[") + where + "] expected a file, got none at '" + path + "'");
}

proa_status status_of_exception(const char* where) {
  try {
    throw;
  } catch (const Failed& noted) {
    return noted.status;
  } catch (const EngineError& e) {
    const proa_status status = fail(status_of(e.status), e.what());
    last_stack = e.stack();
    return status;
  } catch (const std::bad_alloc&) {
    return fail(PROA_RESOURCE_EXHAUSTED, std::string("[") + where + "] memory is exhausted");
  } catch (const std::exception& e) {
    return fail(PROA_FAILED, std::string("[") + where + "] " + e.what());
  } catch (...) {
    return fail(PROA_FAILED, std::string("[") + where + "] failed");
  }
}

std::unique_ptr<proa_predictor> wrap(std::unique_ptr<Engine> engine) {
  auto p = std::make_unique<proa_predictor>();
  p->inputs.resize(engine->inputs().size());
  p->outputs.resize(engine->outputs().size());
  p->in_arrays.resize(engine->inputs().size());
  p->out_arrays.resize(engine->outputs().size());
  p->engine = std::move(engine);
  for (size_t i = 0; i < p->inputs.size(); ++i) {
    p->in_tensors.push_back({p.get(), i, true, {}});
  }
  for (size_t i = 0; i < p->outputs.size(); ++i) {
    p->out_tensors.push_back({p.get(), i, false, {}});
  }
  return p;
}

}  // namespace proa::capi

PROA_EXPORT int32_t proa_abi_version(void) { return PROA_INFERENCE_ABI; }

PROA_EXPORT const char* proa_last_error(void) { return last_error.c_str(); }

PROA_EXPORT const char* proa_last_error_stack(void) {
  try {
    if (last_stack.empty()) {
      last_stack = proa::stack_text(last_frames.data(), static_cast<int>(last_frames.size()));
    }
  } catch (const std::bad_alloc&) {
    return "";
  }
  return last_stack.c_str();
}

PROA_EXPORT proa_status proa_predictor_load(const char* path, int32_t threads,
                                            proa_predictor** predictor) {
  constexpr const char* kWhere = "proa_predictor_load";
  if (predictor == nullptr) return missing(kWhere, "predictor must not be NULL");
  *predictor = nullptr;
  if (path == nullptr) return missing(kWhere, "path must not be NULL");
  if (threads < 0) return missing(kWhere, "threads must be >= 0");
  if (proa::capi::is_absent(path)) return proa::capi::absent(kWhere, path);
  return guarded(kWhere,
                 [&] { *predictor = wrap(proa::Engine::load(path, options(threads))).release(); });
}

PROA_EXPORT proa_status proa_predictor_load_bytes(const void* bytes, size_t size, int32_t threads,
                                                  proa_predictor** predictor) {
  constexpr const char* kWhere = "proa_predictor_load_bytes";
  if (predictor == nullptr) return missing(kWhere, "predictor must not be NULL");
  *predictor = nullptr;
  if (bytes == nullptr) return missing(kWhere, "bytes must not be NULL");
  if (threads < 0) return missing(kWhere, "threads must be >= 0");
  return guarded(kWhere, [&] {
    *predictor = wrap(proa::Engine::from_bytes(bytes, size, options(threads))).release();
  });
}

PROA_EXPORT proa_status proa_predictor_clone(const proa_predictor* from,
                                             proa_predictor** predictor) {
  constexpr const char* kWhere = "proa_predictor_clone";
  if (predictor == nullptr) return missing(kWhere, "predictor must not be NULL");
  *predictor = nullptr;
  if (from == nullptr) return missing(kWhere, "from must not be NULL");
  return guarded(kWhere, [&] { *predictor = wrap(from->engine->clone()).release(); });
}

PROA_EXPORT void proa_predictor_free(proa_predictor* predictor) { delete predictor; }

PROA_EXPORT int32_t proa_input_count(const proa_predictor* p) {
  return p == nullptr ? 0 : static_cast<int32_t>(p->engine->inputs().size());
}

PROA_EXPORT int32_t proa_output_count(const proa_predictor* p) {
  return p == nullptr ? 0 : static_cast<int32_t>(p->engine->outputs().size());
}

PROA_EXPORT const char* proa_input_name(const proa_predictor* p, int32_t index) {
  return p == nullptr ? nullptr : name_at(p->engine->inputs(), index);
}

PROA_EXPORT const char* proa_output_name(const proa_predictor* p, int32_t index) {
  return p == nullptr ? nullptr : name_at(p->engine->outputs(), index);
}

PROA_EXPORT proa_status proa_input_spec(const proa_predictor* p, int32_t index, proa_array* spec) {
  if (p == nullptr) return missing("proa_input_spec", "predictor must not be NULL");
  return spec_at("proa_input_spec", p->engine->inputs(), index, spec);
}

PROA_EXPORT proa_status proa_output_spec(const proa_predictor* p, int32_t index, proa_array* spec) {
  if (p == nullptr) return missing("proa_output_spec", "predictor must not be NULL");
  return spec_at("proa_output_spec", p->engine->outputs(), index, spec);
}

PROA_EXPORT proa_status proa_predictor_run(proa_predictor* p, const proa_array* inputs,
                                           proa_array* outputs) {
  constexpr const char* kWhere = "proa_predictor_run";
  if (p == nullptr) return missing(kWhere, "predictor must not be NULL");
  const size_t n_in = p->inputs.size(), n_out = p->outputs.size();
  if (inputs == nullptr && n_in > 0) return missing(kWhere, "inputs must not be NULL");
  if (outputs == nullptr && n_out > 0) return missing(kWhere, "outputs must not be NULL");
  for (size_t i = 0; i < n_in; ++i) {
    if (!to_view(inputs[i], &p->inputs[i])) {
      return missing(kWhere, "an input must have a known dtype, a rank of 0 to 8 and sizes >= 0");
    }
    if (inputs[i].data == nullptr && p->inputs[i].numel() != 0) {
      return missing(kWhere, "data of an input must not be NULL");
    }
  }
  for (size_t i = 0; i < n_out; ++i) {
    p->outputs[i] = View{};
    if (outputs[i].data != nullptr && !to_view(outputs[i], &p->outputs[i])) {
      return missing(kWhere, "an output with data must have a known dtype, rank and shape");
    }
  }
  return guarded(kWhere, [&] {
    p->engine->run(p->inputs.data(), p->outputs.data());
    for (size_t i = 0; i < n_out; ++i) to_array(p->outputs[i], &outputs[i]);
  });
}

PROA_EXPORT void proa_predictor_stop(proa_predictor* p) {
  if (p != nullptr) p->engine->stop();
}

PROA_EXPORT proa_status proa_predictor_set_profile(proa_predictor* p,
                                                   proa_profile_callback callback, void* context) {
  if (p == nullptr) return missing("proa_predictor_set_profile", "predictor must not be NULL");
  return guarded("proa_predictor_set_profile", [&] {
    p->engine->set_profile(callback == nullptr
                               ? proa::EngineProfile()
                               : [callback, context](const char* op, const char* name, int64_t ns) {
                                   callback(context, op, name, ns);
                                 });
  });
}

PROA_EXPORT size_t proa_predictor_shrink(proa_predictor* p) {
  if (p == nullptr) return 0;
  for (proa_tensor& t : p->out_tensors) t.slot.is_set = false;  // they were in that memory
  return p->engine->release_memory();
}

PROA_EXPORT size_t proa_predictor_memory(const proa_predictor* p, int32_t kind) {
  if (p == nullptr) return 0;
  if (kind == PROA_MEMORY_MODEL) return p->engine->model_bytes();
  if (kind == PROA_MEMORY_PACKED) return p->engine->packed_bytes();
  return kind == PROA_MEMORY_ARENA ? p->engine->arena_bytes() : 0;
}

PROA_EXPORT const char* proa_predictor_metadata(const proa_predictor* p, const char* key) {
  if (p == nullptr || key == nullptr) return nullptr;
  for (const auto& [name, value] : p->engine->metadata()) {
    if (name == key) return value.c_str();
  }
  return nullptr;
}

PROA_EXPORT size_t proa_dtype_size(proa_dtype dtype) {
  const bool known = dtype >= PROA_BOOL && dtype <= PROA_COMPLEX128;
  return known ? proa::size_of(static_cast<proa::DType>(dtype)) : 0;
}

PROA_EXPORT const char* proa_version(void) { return PROA_INFERENCE_VERSION; }
