#pragma once
// Runs a model with control flow: a walk over its directing blocks, on arrays of shapes that only
// the run tells. Computing blocks are planned as models are.
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
/// EngineError where there is none.
Memory memory_for(View* view);

/// How a run goes.
struct FlowManner {
  const Parallel* parallel = nullptr;
  EngineProfile* profile = nullptr;
  const std::function<void()>* interrupt = nullptr;  // as EngineOptions has it
};

/// The plans and the arena of an engine on a program. One run at a time.
class FlowRun {
 public:
  FlowRun(const FlowProgram& program, int max_plans);
  /// Chains of nodes as numbered in the file; they lie within computing blocks.
  void add_chain(NodeSpan chain);
  /// Runs the model. Results may lie in inputs or constants.
  std::vector<HeldArray> run(const View* inputs, const FlowManner& manner);
  /// Ends the run in progress; see Engine::stop.
  void stop() { stopped_.store(true, std::memory_order_relaxed); }
  /// Bytes of the arena and of plans.
  size_t bytes() const;

 private:
  /// What a block works on while it runs. No block runs inside itself, so each has one.
  struct Frame {
    std::vector<HeldArray> values;       // of a block that directs
    std::vector<HeldArray> given, made;  // of the node that runs
    std::vector<View> inputs, outputs;   // of a plan
    std::unique_ptr<BlockPlans> plans;
    std::vector<uint32_t> stores;
  };
  using Arrays = std::vector<HeldArray>;

  /// `made` becomes what the block gives. It may keep the arrays [0, free) for itself.
  void run_block(uint32_t block, Arrays* given, size_t free, Arrays* made);
  void compute(uint32_t block, const Arrays& given, Arrays* made);
  void direct(uint32_t block, Arrays* given, size_t free, Arrays* made);
  void run_node(const FlowNode& node, Frame* frame);
  void loop(const FlowNode& node, Frame* frame);
  HeldArray take(const FlowInput& input, Frame* frame) const;
  void poll();
  void* arena_of(size_t size);

  const FlowProgram& program_;
  std::vector<Frame> frames_;
  Buffer arena_;
  FlowManner manner_;
  std::atomic<bool> stopped_{false};
  int64_t polled_ = 0;  // when, in nanoseconds
};

}  // namespace proa
