#pragma once
// One block of a model that computes: bound once, planned for each set of input shapes.
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "proa/exec/plan.h"
#include "proa/runtime/engine.h"
#include "proa/runtime/engine_memory.h"
#include "proa/runtime/model_reader.h"
#include "proa/runtime/unread_constants.h"

namespace proa {

/// Prepacked weights that blocks share, by everything that determines the packed form.
using PackedWeights = std::map<std::string, Buffer>;

/// A block with its ops bound and its weights prepacked, which clones share. Throws EngineError.
struct ComputingBlock {
  ModelView view;  // whose first block it is
  Buffer tables, packed;
  Prepared prepared;
  std::vector<IoSpec> inputs;
  std::vector<uint32_t> unread;  // constants that no kernel reads

  /// Weights are packed into memory of the block's own, or once for all blocks into `shared`,
  /// which must outlive them. Pages of `bytes` that nothing reads once weights are packed are
  /// returned to the operating system, unless weights are shared or updated. `strategies` has one
  /// for each node, or is nullptr. `rest` reads the large constants; nullptr if they are there.
  ComputingBlock(const ModelView& model, bool updates, PackedWeights* shared = nullptr,
                 WeightBytes bytes = {}, const uint8_t* strategies = nullptr,
                 ModelReader* rest = nullptr);

 private:
  Status pack_own(WeightBytes bytes);
  Status pack_read(ModelReader* rest);
  bool can_pack_early(uint32_t node, const UnreadConstants& constants) const;
  Status pack_shared(PackedWeights* shared);
};

/// A plan and the inputs it is for.
struct CachedPlan {
  std::vector<int64_t> key;  // of key_of
  Buffer tables;
  Plan plan;
  void* arena = nullptr;  // where its buffers are

  void place(void* memory) {
    if (arena != memory) plan.place(arena = memory);
  }
};

/// The plans of a block, one for each set of input shapes and strides seen last.
class BlockPlans {
 public:
  /// `block` and what `how` points to must outlive this object.
  BlockPlans(const ComputingBlock& block, const PlanOptions& how, int max_plans, size_t max_bytes)
      : block_(&block), how_(how) {
    limit(max_plans, max_bytes);
  }
  /// Nodes of the block, in order and apart from those given before.
  void add_chain(NodeSpan chain) { chains_.push_back(chain); }
  /// The plan for these inputs, built if there is none. Valid until the next call.
  CachedPlan& find(const View* inputs);
  void clear() { plans_.clear(); }
  /// Keeps at most so many plans, and, but for the last, tables of so many bytes; 0 for any.
  void limit(int max_plans, size_t max_bytes);
  /// Bytes of the plans' tables.
  size_t table_bytes() const;
  size_t largest_arena() const;

 private:
  void build(const View* inputs, CachedPlan* cached);
  void drop_excess();

  const ComputingBlock* block_;
  PlanOptions how_;
  size_t max_plans_ = 1, max_bytes_ = 0;
  std::vector<NodeSpan> chains_;
  std::list<CachedPlan> plans_;  // most recently used first
};

/// Shapes and strides of the inputs.
std::vector<int64_t> key_of(const View* inputs, size_t count);

/// Runs a placed plan and reports its steps to `profile`, if there is one.
void run_plan(const ComputingBlock& block, Plan* plan, const View* inputs, View* outputs,
              const Parallel* parallel, EngineProfile* profile, Part part);

/// Throws EngineError if an input has not the dtype, rank and known dimensions of its spec.
void check_inputs(const std::vector<IoSpec>& specs, const View* inputs);
/// Throws EngineError if the array given for an output has another dtype or shape.
void check_output(const IoSpec& spec, const View& want, const View& given);

/// The value of that id as the file states it.
IoSpec spec_of(const ModelView& model, uint32_t id);
/// Name of a node's first output; empty if it has none or the graph has no such node.
std::string node_name(const ModelView& view, uint32_t node);
/// "op 'relu' ('y')" of node i of the view; "the graph" if there is none.
std::string node_text(const ModelView& view, uint32_t node);
std::string shape_text(const int64_t* shape, int rank);
const char* name_of(DType dtype);

}  // namespace proa
