#pragma once
// The steps of one model for given input shapes, with an offset in one arena for every buffer.
#include "proa/base/settings.h"
#include "proa/exec/prepared.h"

namespace proa {

/// Receives the time of each step: `now` in nanoseconds; `step` gets the op ("copy" for a copy that
/// the plan inserted) and the name of its first output.
struct Profiler {
  int64_t (*now)() = nullptr;
  void (*step)(void* context, const char* op, const char* name, int64_t nanoseconds) = nullptr;
  void* context = nullptr;
};

/// Nodes [first, first + count), elementwise ops of one shape, to be run block by block.
struct NodeSpan {
  uint32_t first, count;
};

/// Chains of nodes, in order and apart from each other.
struct NodeSpans {
  const NodeSpan* at = nullptr;
  uint32_t count = 0;
};

/// What a plan does with the model's outputs.
struct PlanOptions {
  /// The caller allocates every output, in the strides of output(i), which are those that the ops
  /// chose. Else outputs are in the arena, in row-major order.
  bool given_outputs = false;
  /// For each output the input that it overwrites in the end, or kNoValue; nullptr if none does.
  /// Ops that change an array in place (`sgd_`) may do so to these inputs alone.
  const uint32_t* stores = nullptr;
  /// Nodes and outputs of the first of two parts, which may be run separately.
  uint32_t first_nodes = kNoValue, first_outputs = kNoValue;
};

/// Which steps are run. The second part continues in the arena of the first.
enum class Part : uint8_t { kWhole, kFirst, kSecond };

/// A plan for inputs of one set of shapes and strides. Never allocates.
///
///     Plan plan;
///     plan.build(prepared, inputs, tables, Plan::table_size(prepared));
///     plan.place(arena);  // of plan.arena_size() bytes; plans may share one, one runs at a time
///     plan.run(inputs, outputs, parallel);
class Plan {
 public:
  /// Bytes that build() needs, for any input shapes.
  static size_t table_size(const Prepared& prepared, uint32_t chain_count = 0);
  /// Infers all shapes, resolves views, assigns an offset to every buffer. Of `inputs` (one for
  /// each input of the model) shape, strides and dtype are used. `prepared` and `memory` must
  /// outlive the plan. Chains that cannot run block by block run node by node.
  Status build(const Prepared& prepared, const View* inputs, void* memory, size_t size,
               const PlanOptions& options = {}, NodeSpans chains = {});

  size_t arena_size() const { return arena_size_; }
  /// Sets the addresses of buffers; `arena` is aligned to 64. May be called again with another.
  void place(void* arena);

  /// dtype, shape and row-major strides of output i; once placed, its data after a run whose caller
  /// allocated none for it.
  const View& output(uint32_t i) const { return outputs_[i].view; }
  /// Runs on inputs as given to build(), now with data. outputs[i] with data is written there, in
  /// any strides; without, it is set to memory in the arena. Outputs that overwrite an input are
  /// ignored.
  Status run(const View* inputs, View* outputs, const Parallel* parallel,
             const Profiler* profiler = nullptr, Part part = Part::kWhole);

  uint32_t step_count() const { return step_count_; }
  /// Chains that run block by block.
  uint32_t chain_count() const { return chain_count_; }
  /// After a failed build: the node, or kNoValue. After a failed run: the node that failed.
  uint32_t problem_node() const { return problem_node_; }

 private:
  static constexpr uint32_t kNone = 0xffffffffu;
  static constexpr uint32_t kConstantRoot = 0;  // the first
  enum class RootKind : uint8_t { kArena, kInput, kConstant, kOutput, kBlock };
  /// A buffer. Many values may be views of one.
  struct Root {
    size_t size, offset;
    uint32_t first, last;  // steps that write it first and read it last
    uint32_t merged;       // the root whose memory this one takes over, or kNone
    uint32_t index;        // of the input or output; kBlock: of the chain's buffer
    RootKind kind;
    bool scratch;
    bool stored;  // an input that the run may change
  };
  /// Where a View's elements are stored: a root and the offset in bytes from its start. place() and
  /// run() resolve it to an address; Views of constants have theirs from the start.
  struct Ref {
    uint32_t root;
    int64_t offset;
  };
  struct Step {
    uint32_t node;   // kNone: a copy of slot 0 to slot 1
    uint32_t value;  // whose name is reported for the step
    uint32_t slot;   // its Views: inputs, then outputs
    uint32_t n_in, n_out;
    uint32_t scratch;  // root, or kNone
  };
  struct Chain;  // chain.cc
  struct Output {
    View view;
    uint32_t root;  // kNone if it overwrites an input
  };
  struct Sizes {
    size_t values, slots, roots, steps, outputs, free_list;
    static Sizes of(const Prepared& prepared);
  };
  static size_t chain_table_size(uint32_t chain_count);

  Status add_nodes(NodeSpans chains);
  Status add_node(uint32_t i);
  Status add_view(uint32_t i, Call* call, uint32_t slot);
  Status add_kernel(uint32_t i, Call* call, uint32_t slot);
  Status add_outputs(uint32_t first, uint32_t last);
  Status add_output(uint32_t i);
  Status stage_store(uint32_t i);
  uint32_t store_of(uint32_t output) const {
    return !kHasStores || options_.stores == nullptr ? kNoValue : options_.stores[output];
  }
  Status add_buffer(View* view, Ref* ref);
  uint32_t add_root(RootKind kind, size_t size, uint32_t index);
  void add_copy(uint32_t value, const View& from, const Ref& from_ref, const View& to,
                const Ref& to_ref);
  uint32_t resolve(uint32_t root) const;
  void record_use(uint32_t slot, uint32_t n, uint32_t step);
  void merge_in_place();
  bool may_overwrite(const Step& step, uint32_t input) const;
  bool adds_in_place(const Step& step, uint32_t input) const;
  // Chains of elementwise steps; defined in chain.cc.
  void note_chain(uint32_t first_step, uint32_t nodes);
  void form_chains();
  bool fits_chain(const Chain& chain) const;
  bool fits_input(const Chain& chain, uint32_t step, uint32_t slot) const;
  bool is_shape_only(const Step& step, uint32_t slot) const;
  void choose_buffers(const Chain& chain);
  void flatten(Chain* chain);
  void split(Chain* chain);
  uint32_t chain_after(uint32_t step) const;
  const Chain* chain_at(uint32_t step) const;
  bool may_overwrite_in_chain(uint32_t step, uint32_t root, const View& out) const;
  void extend_chain_lifetimes();
  Status run_chain(const Chain& chain, const Parallel* parallel, uint32_t* steps);
  Status run_blocks(const Chain& chain, int64_t begin, int64_t end, uint32_t* failed) const;
  bool in_arena(const Root& root) const;
  Status assign_offsets();
  Status assign_by_size();
  Status assign_by_time();

  const Prepared* prepared_ = nullptr;
  PlanOptions options_;
  View* values_ = nullptr;
  Ref* value_refs_ = nullptr;
  View* slots_ = nullptr;
  Ref* refs_ = nullptr;
  uint32_t* external_ = nullptr;  // slots whose address each run sets
  Root* roots_ = nullptr;
  uint32_t* order_ = nullptr;  // twice as many as roots, for assign_offsets
  void* free_list_ = nullptr;  // for assign_by_time
  Step* steps_ = nullptr;
  Output* outputs_ = nullptr;
  void** output_data_ = nullptr;
  uint32_t slot_count_ = 0, external_count_ = 0, root_count_ = 0, step_count_ = 0;
  uint32_t first_steps_ = 0;  // of the first part
  uint32_t problem_node_ = kNone;
  size_t arena_size_ = 0;
  uint8_t* arena_ = nullptr;
  Chain* chains_ = nullptr;
  uint32_t chain_count_ = 0;
};

}  // namespace proa
