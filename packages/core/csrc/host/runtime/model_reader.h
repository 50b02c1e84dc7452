#pragma once
// Reads a model file so that weights that kernels read only in packed form never take memory of
// their own: they are packed as they are read, from a block that the next one reuses.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proa/model/model_view.h"
#include "proa/runtime/engine_memory.h"

namespace proa {

/// Bytes [first, first + size) of a file.
struct FileRange {
  size_t first, size;
};

class ModelFile;

/// The part of a file after its graph, to be read once the graph is bound. Throws EngineError where
/// the file cannot be read or changes meanwhile.
class ModelReader {
 public:
  /// `bytes`, of the file's size, has the file up to the end of the graph, and room for the rest.
  ModelReader(std::unique_ptr<ModelFile> file, void* bytes, size_t graph_end);
  ~ModelReader();
  /// Reads the constants whose values may decide on shapes: all but large arrays of floats.
  void read_small(const ModelView& model);
  /// Whether read_small leaves out this constant.
  static bool is_large(const ValueRecord& value);
  /// Reads all else in the file's order. Ranges, in order and apart from each other, are not
  /// stored: `on_range` receives each in memory that is valid during that call.
  void read_rest(const std::vector<FileRange>& ranges,
                 const std::function<void(size_t range, void* data)>& on_range);
  /// Byte of the file that `data`, a pointer into the bytes, is.
  size_t offset(const void* data) const {
    return static_cast<size_t>(static_cast<const uint8_t*>(data) - bytes_);
  }
  /// Whether the checksum of the whole file is that which it states. Reads the file again unless
  /// read_rest() has read all.
  bool has_checksum();

 private:
  void read(size_t first, uint8_t* to, size_t size);
  void read_in_place(size_t first, size_t end);
  void add(size_t first, const uint8_t* data, size_t size);
  size_t graph_start() const;

  std::unique_ptr<ModelFile> file_;
  uint8_t* bytes_;
  size_t graph_end_;
  uint32_t crc_ = 0;
  size_t summed_ = 0;  // bytes that crc_ is of
};

/// A model file in memory; with `rest`, up to the end of its graph alone.
struct ModelBytes {
  Bytes bytes;
  std::unique_ptr<ModelReader> rest;
};

/// Reads a file, of a large one the graph alone. Throws EngineError if there is no such regular
/// file, or it cannot be read or changes meanwhile.
ModelBytes read_model_file(const std::string& path);

}  // namespace proa
