#pragma once
// A model file, read in place: no heap, no copies. FORMAT.md describes the
// bytes.
#include <stddef.h>

#include "proa/base/status.h"
#include "proa/base/view.h"

namespace proa {

constexpr uint32_t kModelFormat = 1;
constexpr uint32_t kNoValue = 0xffffffffu;        // an optional input that is not given
constexpr size_t kChecksumAt = 32;                // in the graph
constexpr uint64_t kMaxGraphBytes = 0xffffffffu;  // offsets in the graph have 32 bits
constexpr size_t kModelAlign = 16;                // alignment of the bytes that open_model needs

enum class ValueKind : uint8_t { kNode = 0, kInput = 1, kConstant = 2, kParameter = 3 };

struct OpRecord {
  uint32_t name;
  uint32_t version;
};
struct ValueRecord {
  uint32_t name;
  DType dtype;
  int8_t rank;
  ValueKind kind;
  uint8_t zero;
  int64_t shape[kMaxRank];  // kUnknown if known at run time alone
  uint64_t data_offset;     // in the data section
  uint64_t data_size;
};
struct NodeRecord {
  uint32_t op;
  uint32_t input_first;  // in ids
  uint32_t input_count;
  uint32_t output_first;  // the first of consecutive values
  uint32_t output_count;
  uint32_t attr_offset;  // in the graph
  uint32_t attr_size;
  uint32_t zero;
};
struct BlockRecord {
  uint32_t node_first;
  uint32_t node_count;
  uint32_t value_first;
  uint32_t value_count;
  uint32_t input_count;   // the block's first values
  uint32_t output_first;  // in ids
  uint32_t output_count;
  uint32_t zero;
};

/// Read-only tables over the bytes of a model. Valid as long as the bytes are.
/// Made by open_model; all ids that its tables hold are in range.
class ModelView {
 public:
  uint32_t op_count() const { return ops_.count; }
  uint32_t value_count() const { return values_.count; }
  uint32_t node_count() const { return nodes_.count; }
  uint32_t block_count() const { return blocks_.count; }
  uint32_t metadata_count() const { return metadata_.count; }

  /// NUL-terminated UTF-8.
  const char* string(uint32_t id) const;
  const OpRecord& op(uint32_t i) const { return at<OpRecord>(ops_)[i]; }
  const ValueRecord& value(uint32_t i) const { return at<ValueRecord>(values_)[i]; }
  const NodeRecord& node(uint32_t i) const { return at<NodeRecord>(nodes_)[i]; }
  const BlockRecord& block(uint32_t i) const { return at<BlockRecord>(blocks_)[i]; }
  const char* metadata_key(uint32_t i) const { return string(at<uint32_t>(metadata_)[2 * i]); }
  const char* metadata_value(uint32_t i) const {
    return string(at<uint32_t>(metadata_)[2 * i + 1]);
  }
  /// The value of that key, or nullptr.
  const char* metadata(const char* key) const;

  /// Value ids (or kNoValue) of a node's inputs.
  const uint32_t* inputs(const NodeRecord& n) const { return at<uint32_t>(ids_) + n.input_first; }
  const void* attrs(const NodeRecord& n) const { return graph_ + n.attr_offset; }

  /// The model's own inputs are the values input_value(0) .. in order; its
  /// outputs may be any values.
  uint32_t input_count() const { return block(0).input_count; }
  uint32_t output_count() const { return block(0).output_count; }
  uint32_t input_value(uint32_t i) const { return block(0).value_first + i; }
  uint32_t output_value(uint32_t i) const { return at<uint32_t>(ids_)[block(0).output_first + i]; }

  /// The model as if block k were its first: nodes and blocks count from there, values and
  /// constants keep their ids. So what binds and plans a model does so with any block.
  ModelView at_block(uint32_t k) const {
    ModelView m = *this;
    m.nodes_.offset += block(k).node_first * static_cast<uint32_t>(sizeof(NodeRecord));
    m.nodes_.count -= block(k).node_first;
    m.blocks_.offset += k * static_cast<uint32_t>(sizeof(BlockRecord));
    m.blocks_.count -= k;
    return m;
  }

  const char* name_of(uint32_t value_id) const { return string(value(value_id).name); }
  /// The value as an array: row-major, with data if it is a constant or
  /// parameter.
  View view(uint32_t value_id) const;

  /// Lets the data of the constants, by id, be elsewhere than in the bytes of the file.
  void set_weights(const void* const* weights) { weights_ = weights; }

  /// Says what is wrong with bytes that open_model refused; never nullptr.
  const char* problem() const { return problem_; }

 private:
  friend Status open_model(const void* bytes, size_t size, ModelView* model);
  friend struct ModelChecker;
  struct Table {
    uint32_t offset = 0, count = 0;
  };
  template <class T>
  const T* at(Table t) const {
    return reinterpret_cast<const T*>(graph_ + t.offset);
  }

  const uint8_t* graph_ = nullptr;  // also the start of the data section
  const void* const* weights_ = nullptr;
  uint64_t data_size_ = 0;
  Table strings_, ops_, values_, nodes_, blocks_, ids_, metadata_, attributes_;
  const char* problem_ = "";
};

/// Reads the graph alone, not the weights. Checks all of the model but its checksum, op names and
/// that input names differ. `bytes` must be aligned to kModelAlign. kResourceExhausted if the graph
/// is beyond the limits of the format.
Status open_model(const void* bytes, size_t size, ModelView* model);

/// Slots of the hash table that has_distinct_inputs is given: a power of two, at most four for each
/// input of the model's first block.
constexpr uint32_t name_table_slots(uint32_t input_count) {
  uint32_t slots = 4;
  while (slots < 2 * uint64_t{input_count}) slots *= 2;
  return slots;
}
/// False if two inputs of the model's first block have one name.
bool has_distinct_inputs(const ModelView& model, uint32_t* table);

/// CRC-32 with the reflected polynomial 0xedb88320, four bytes a step (Kounavis and Berry, 2005).
/// Its tables are filled when they are needed, within microseconds: a library for small devices
/// would grow by their four kilobytes.
class Crc32 {
 public:
  Crc32();
  /// The register (which begins and is given inverted) after n more bytes.
  uint32_t update(uint32_t crc, const uint8_t* p, size_t n) const;

 private:
  uint32_t table_[4][256];
};

/// kBadModel if the bytes of a model that open_model accepted do not have its
/// checksum.
Status verify_checksum(const void* bytes, size_t size);

}  // namespace proa
