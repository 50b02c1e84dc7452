#pragma once
// Runs a model with control flow: interprets the nodes of control-flow blocks, on arrays whose
// shapes are known at run time alone. Computing blocks are planned as models are.
#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "proa/runtime/flow.h"
#include "proa/runtime/storage.h"

namespace proa {

/// A counted reference to a storage, or none.
class Memory {
 public:
  Memory() = default;
  /// Takes over one reference.
  explicit Memory(Storage* storage) : storage_(storage) {}
  Memory(const Memory& other) : storage_(other.storage_) {
    if (storage_ != nullptr) storage_->retain();
  }
  Memory(Memory&& other) noexcept : storage_(std::exchange(other.storage_, nullptr)) {}
  Memory& operator=(Memory other) noexcept {
    std::swap(storage_, other.storage_);
    return *this;
  }
  ~Memory() {
    if (storage_ != nullptr) storage_->drop();
  }
  Storage* get() const { return storage_; }

 private:
  Storage* storage_ = nullptr;
};

/// An array and what keeps its memory: nothing if that is a caller's or a constant's.
struct HeldArray {
  View view;
  Memory memory;
};

/// Memory of the process's allocator for an array whose shape and dense strides are set. Throws
/// EngineError if there is not enough.
Memory memory_for(View* view);

/// What a run uses.
struct FlowRunOptions {
  const Parallel* parallel = nullptr;
  EngineProfile* profile = nullptr;
  const std::function<void()>* interrupt = nullptr;  // as EngineOptions has it
};

/// The plans and the arena of an engine on a program. One run at a time.
class FlowRun {
 public:
  FlowRun(const FlowProgram& program, int max_plans, size_t max_plan_bytes);
  /// Chains of nodes as numbered in the file, each within one computing block.
  void add_chain(NodeSpan chain);
  /// Runs the model. Results may share memory with inputs or constants.
  std::vector<HeldArray> run(const View* inputs, const FlowRunOptions& options);
  /// Ends the run in progress; see Engine::stop.
  void stop() { stopped_.store(true, std::memory_order_relaxed); }
  /// BlockPlans::limit for each computing block.
  void limit(int max_plans, size_t max_plan_bytes);
  /// Frees the arena and the plans.
  void release();
  /// Bytes of the arena and of plans.
  size_t bytes() const;

 private:
  /// The arrays of a block while it runs. No block runs inside itself, so each has one.
  struct BlockState {
    std::vector<HeldArray> values;                     // of a control-flow block
    std::vector<HeldArray> node_inputs, node_outputs;  // of the node that runs
    std::vector<View> plan_inputs, plan_outputs;       // of a computing block
    std::unique_ptr<BlockPlans> plans;
  };
  using Arrays = std::vector<HeldArray>;

  /// Sets `outputs`. The block may take over the arrays [0, owned) of `inputs`.
  void run_block(uint32_t block, Arrays* inputs, size_t owned, Arrays* outputs);
  void compute(uint32_t block, const Arrays& inputs, Arrays* outputs);
  void run_control_flow(uint32_t block, Arrays* inputs, size_t owned, Arrays* outputs);
  void run_node(const FlowNode& node, BlockState* state);
  void loop(const FlowNode& node, BlockState* state);
  HeldArray take(const FlowInput& input, BlockState* state) const;
  void poll();
  void* arena_for(size_t size);

  const FlowProgram& program_;
  std::vector<BlockState> states_;
  Buffer arena_;
  FlowRunOptions options_;
  std::atomic<bool> stopped_{false};
  int64_t polled_at_ = 0;  // nanoseconds
};

}  // namespace proa
