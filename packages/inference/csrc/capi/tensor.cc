// Handles on inputs and outputs.
#include <string.h>

#include "predictor.h"

using proa::capi::fail;
using proa::capi::guarded;
using proa::capi::missing;
using proa::capi::Slot;

namespace {

const proa::IoSpec& spec_of(const proa_tensor& t) {
  const proa::Engine& engine = *t.owner->engine;
  return t.is_input ? engine.inputs()[t.index] : engine.outputs()[t.index];
}

size_t byte_count(const proa_array& a) {
  size_t count = proa::size_of(static_cast<proa::DType>(a.dtype));
  for (int32_t i = 0; i < a.rank; ++i) count *= static_cast<size_t>(a.shape[i]);
  return count;
}

proa_status unset(const char* where, const proa_tensor& t) {
  return fail(PROA_INVALID_ARGUMENT, std::string("[") + where + "] '" + spec_of(t).name +
                                         "' must hold an array, got none yet");
}

proa_tensor* find(std::deque<proa_tensor>* tensors, const char* name) {
  if (name == nullptr) return nullptr;
  for (proa_tensor& t : *tensors) {
    if (spec_of(t).name == name) return &t;
  }
  return nullptr;
}

proa_status find_checked(const char* where, std::deque<proa_tensor>* tensors, const char* name,
                         proa_tensor** found) {
  if (found == nullptr) return missing(where, "tensor must not be NULL");
  *found = find(tensors, name);
  if (*found != nullptr) return PROA_OK;
  std::string names;
  for (const proa_tensor& t : *tensors) names += (names.empty() ? "" : ", ") + spec_of(t).name;
  return fail(PROA_NOT_FOUND, std::string("[") + where + "] name must be one of " + names +
                                  ", got " + (name == nullptr ? "NULL" : name));
}

bool rises(const size_t* offsets, size_t count) {
  for (size_t i = 1; i < count; ++i) {
    if (offsets[i] < offsets[i - 1]) return false;
  }
  return count > 0 && offsets[0] == 0;
}

}  // namespace

PROA_EXPORT proa_status proa_predictor_input(proa_predictor* p, const char* name,
                                             proa_tensor** tensor) {
  if (p == nullptr) return missing("proa_predictor_input", "predictor must not be NULL");
  return find_checked("proa_predictor_input", &p->in_tensors, name, tensor);
}

PROA_EXPORT proa_status proa_predictor_output(proa_predictor* p, const char* name,
                                              proa_tensor** tensor) {
  if (p == nullptr) return missing("proa_predictor_output", "predictor must not be NULL");
  return find_checked("proa_predictor_output", &p->out_tensors, name, tensor);
}

PROA_EXPORT const char* proa_tensor_name(const proa_tensor* t) {
  return t == nullptr ? nullptr : spec_of(*t).name.c_str();
}

PROA_EXPORT proa_dtype proa_tensor_dtype(const proa_tensor* t) {
  return t == nullptr ? PROA_FLOAT32 : static_cast<proa_dtype>(spec_of(*t).dtype);
}

PROA_EXPORT proa_status proa_tensor_reshape(proa_tensor* t, int32_t rank, const int64_t* shape) {
  constexpr const char* kWhere = "proa_tensor_reshape";
  if (t == nullptr || !t->is_input) return missing(kWhere, "tensor must be an input's handle");
  if (rank < 0 || rank > PROA_MAX_RANK || (rank > 0 && shape == nullptr)) {
    return missing(kWhere, "rank must be 0 to 8 and shape not NULL");
  }
  proa_array array{};
  array.dtype = proa_tensor_dtype(t);
  array.rank = rank;
  for (int32_t i = 0; i < rank; ++i) {
    if (shape[i] < 0) return missing(kWhere, "sizes must be >= 0");
    array.shape[i] = shape[i];
  }
  return guarded(kWhere, [&] {
    // Memory that is large enough is used again.
    t->slot.memory.resize(byte_count(array) / sizeof(uint64_t) + 1);
    array.data = t->slot.memory.data();
    t->slot.array = array;
    t->slot.is_set = true;
    t->slot.lod.clear();
  });
}

PROA_EXPORT proa_status proa_tensor_share(proa_tensor* t, const proa_array* array) {
  constexpr const char* kWhere = "proa_tensor_share";
  if (t == nullptr || !t->is_input) return missing(kWhere, "tensor must be an input's handle");
  if (array == nullptr || array->rank < 0 || array->rank > PROA_MAX_RANK) {
    return missing(kWhere, "array must have a rank of 0 to 8");
  }
  t->slot.array = *array;
  t->slot.is_set = true;
  t->slot.lod.clear();
  return PROA_OK;
}

PROA_EXPORT proa_status proa_tensor_copy_from(proa_tensor* t, const void* data) {
  constexpr const char* kWhere = "proa_tensor_copy_from";
  if (t == nullptr || !t->is_input) return missing(kWhere, "tensor must be an input's handle");
  if (!t->slot.is_set || t->slot.array.data != t->slot.memory.data()) return unset(kWhere, *t);
  const size_t count = byte_count(t->slot.array);
  if (count > 0 && data == nullptr) return missing(kWhere, "data must not be NULL");
  if (count > 0) memcpy(t->slot.array.data, data, count);
  return PROA_OK;
}

PROA_EXPORT proa_status proa_tensor_copy_to(const proa_tensor* t, void* data) {
  constexpr const char* kWhere = "proa_tensor_copy_to";
  if (t == nullptr || data == nullptr) return missing(kWhere, "tensor and data must not be NULL");
  if (!t->slot.is_set) return unset(kWhere, *t);
  const size_t count = byte_count(t->slot.array);
  if (count > 0) memcpy(data, t->slot.array.data, count);
  return PROA_OK;
}

PROA_EXPORT proa_status proa_tensor_array(const proa_tensor* t, proa_array* array) {
  constexpr const char* kWhere = "proa_tensor_array";
  if (t == nullptr || array == nullptr) return missing(kWhere, "tensor and array must not be NULL");
  if (!t->slot.is_set) return unset(kWhere, *t);
  *array = t->slot.array;
  return PROA_OK;
}

PROA_EXPORT proa_status proa_tensor_set_lod(proa_tensor* t, size_t levels,
                                            const size_t* const* offsets, const size_t* counts) {
  constexpr const char* kWhere = "proa_tensor_set_lod";
  if (t == nullptr || (levels > 0 && (offsets == nullptr || counts == nullptr))) {
    return missing(kWhere, "tensor, offsets and counts must not be NULL");
  }
  for (size_t i = 0; i < levels; ++i) {
    const bool is_last = i + 1 == levels;
    const proa_array& array = t->slot.array;
    const size_t rows = array.rank > 0 ? static_cast<size_t>(array.shape[0]) : 0;
    if (offsets[i] == nullptr || !rises(offsets[i], counts[i]) ||
        (is_last && t->slot.is_set && offsets[i][counts[i] - 1] != rows) ||
        (!is_last && offsets[i][counts[i] - 1] + 1 != counts[i + 1])) {
      return missing(kWhere,
                     "offsets must begin with 0, not fall, and end with the number of the next "
                     "level's sequences or of the rows");
    }
  }
  return guarded(kWhere, [&] {
    t->slot.lod.clear();
    for (size_t i = 0; i < levels; ++i) {
      t->slot.lod.emplace_back(offsets[i], offsets[i] + counts[i]);
    }
  });
}

PROA_EXPORT size_t proa_tensor_lod(const proa_tensor* t, size_t level, const size_t** offsets) {
  if (t == nullptr || level >= t->slot.lod.size()) return 0;
  if (offsets != nullptr) *offsets = t->slot.lod[level].data();
  return t->slot.lod[level].size();
}

PROA_EXPORT proa_status proa_predictor_run_tensors(proa_predictor* p) {
  constexpr const char* kWhere = "proa_predictor_run_tensors";
  if (p == nullptr) return missing(kWhere, "predictor must not be NULL");
  for (size_t i = 0; i < p->in_tensors.size(); ++i) {
    if (!p->in_tensors[i].slot.is_set) return unset(kWhere, p->in_tensors[i]);
    p->in_arrays[i] = p->in_tensors[i].slot.array;
  }
  for (proa_array& array : p->out_arrays) array = proa_array{};
  const proa_status status = proa_predictor_run(p, p->in_arrays.data(), p->out_arrays.data());
  for (size_t i = 0; i < p->out_tensors.size(); ++i) {
    Slot& slot = p->out_tensors[i].slot;
    slot.is_set = status == PROA_OK;
    if (slot.is_set) slot.array = p->out_arrays[i];
  }
  return status;
}
