#pragma once
// A model bound to this build: ops found, attributes complete and checked, weights prepacked.
#include "proa/base/arena.h"
#include "proa/base/op_table.h"
#include "proa/model/model_view.h"

namespace proa {

/// A node with what it runs.
struct BoundNode {
  const OpInfo* op;
  const KernelEntry* kernel;
  const void* attrs;   // the op's whole struct, checked
  const void* packed;  // the constant input of op->pack_input, prepacked, or nullptr
  uint32_t n_in;       // slots of a call: every input of the op, given or not
  Strategy strategy;
};

/// Read-only once bound; plans and clones share it. Keeps pointers into the model's bytes.
///
///     Prepared p;
///     p.bind(model, memory, Prepared::table_size(model));
///     p.pack(packed_memory);  // p.packed_size() bytes; optional
class Prepared {
 public:
  /// Bytes that bind() needs.
  static size_t table_size(const ModelView& model);
  /// Finds and checks every op of the model. `memory` must outlive this object. Ops that change an
  /// input are refused unless `updates`. `strategies` are those of each node, or nullptr.
  Status bind(const ModelView& model, void* memory, size_t size, bool updates = false,
              const uint8_t* strategies = nullptr);
  /// Overwrites 8 bytes of a node's attributes, from byte `at`: a number that differs
  /// between runs. No plan may run meanwhile.
  void set_attribute(uint32_t node, size_t at, const void* number);
  /// Bytes of the node's attributes.
  size_t attribute_bytes(uint32_t node) const { return nodes_[node].op->attr_size; }
  /// Bytes that pack() needs.
  size_t packed_size() const { return packed_size_; }
  /// Prepacks the constants that kernels read in a packed layout. `memory` is aligned to 64.
  /// `on_packed` is called after each node that has such a constant, which that node reads no more.
  Status pack(void* memory, void (*on_packed)(void* context, uint32_t node) = nullptr,
              void* context = nullptr);
  /// The same node by node, for callers that share packed constants: bytes (0 if there are none),
  /// packing into memory aligned to 64, and use of a packed form of the same constant.
  size_t pack_size(uint32_t i) const;
  Status pack_node(uint32_t i, void* memory);
  void use_packed(uint32_t i, const void* packed) { nodes_[i].packed = packed; }
  /// Lets the data of a constant be elsewhere, for pack_node().
  void move_constant(uint32_t id, void* data) { values_[id].data = data; }

  const ModelView& model() const { return model_; }
  uint32_t node_count() const { return model_.block(0).node_count; }
  const BoundNode& node(uint32_t i) const { return nodes_[i]; }
  /// Values of block 0 and the constants.
  uint32_t value_count() const { return value_count_; }
  /// The value as an array: dimensions as in the file; data if it is a constant, or a view of
  /// constants.
  const View& value(uint32_t id) const { return values_[id]; }

  /// After a failure: the expectation that failed, and the node (or kNoValue) that failed it.
  const char* problem() const { return problem_; }
  uint32_t problem_node() const { return problem_node_; }

 private:
  Status fail(Status status, const char* why);
  Status bind_node(uint32_t i, Arena* arena, Strategy strategy);
  Status check_inputs(const NodeRecord& record, const OpInfo& op);
  Status take_attrs(const NodeRecord& record, const OpInfo& op, Arena* arena, BoundNode* node);
  Status check_node(uint32_t i);
  void fill_call(uint32_t i, View* in, View* out, Call* call) const;

  ModelView model_;
  BoundNode* nodes_ = nullptr;
  View* values_ = nullptr;
  View* scratch_ = nullptr;  // slots of the widest call
  bool updates_ = false;
  uint32_t value_count_ = 0;
  size_t packed_size_ = 0;
  const char* problem_ = "";
  uint32_t problem_node_ = kNoValue;
};

/// True if a view has elements and the array that it repeats (by `sized`) has none.
bool repeats_nothing(const Call& view);

/// True if the bytes of a struct of this op hold only valid values: known choices and
/// dtypes, lists of at most kMaxRank. Bools are set to 0 or 1.
bool check_attributes(const OpInfo& op, void* attrs);

/// Bytes of one attribute of the kind, as in OpInfo::attr_kinds.
constexpr size_t attribute_size(char kind) { return kind == 'I' ? 72 : kind == 's' ? 16 : 8; }

}  // namespace proa
