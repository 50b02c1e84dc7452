// The metadata of a file, read from its graph without its weights.
#include <optional>

#include "proa/model/compressed.h"
#include "proa/model/model_view.h"
#include "proa/runtime/engine.h"
#include "proa/runtime/engine_memory.h"

namespace proa {

std::vector<std::pair<std::string, std::string>> model_metadata(const void* bytes, size_t size) {
  std::optional<Bytes> own;  // aligned, expanded
  if (reinterpret_cast<uintptr_t>(bytes) % kModelAlign != 0 || is_compressed_model(bytes, size)) {
    own.emplace(bytes, size);
    own->expand();
    bytes = own->data();
    size = own->size();
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
