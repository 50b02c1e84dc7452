// The metadata of a file, read from its graph without its weights.
#include <cstring>

#include "proa/model/model_view.h"
#include "proa/runtime/engine.h"

namespace proa {

std::vector<std::pair<std::string, std::string>> model_metadata(const void* bytes, size_t size) {
  std::vector<uint64_t> aligned;  // a vector of 16 bytes or more is aligned to them
  if (reinterpret_cast<uintptr_t>(bytes) % kModelAlign != 0) {
    aligned.resize(size / sizeof(uint64_t) + 2);
    std::memcpy(aligned.data(), bytes, size);
    bytes = aligned.data();
  }
  ModelView view;
  const Status status = open_model(bytes, size, &view);
  if (status != Status::kOk) {
    throw EngineError(status, std::string("[model_metadata] expected a model file, got one of ") +
                                  std::to_string(size) + " bytes: " + view.problem());
  }
  std::vector<std::pair<std::string, std::string>> found;
  for (uint32_t i = 0; i < view.metadata_count(); ++i) {
    found.emplace_back(view.metadata_key(i), view.metadata_value(i));
  }
  return found;
}

}  // namespace proa
