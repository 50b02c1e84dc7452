#include "proa/runtime/flow_run.h"

#include <algorithm>
#include <chrono>

#include "proa/runtime/error.h"

namespace proa {

namespace {

constexpr int64_t kPollNanoseconds = 50'000'000;

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool is_true(const HeldArray& condition, const FlowNode& node) {
  const View& v = condition.view;
  if (v.numel() != 1) {
    throw EngineError(Status::kInvalidArgument, "[Engine] the condition of " + node.text +
                                                    " must be a bool of one element, got shape " +
                                                    shape_text(v.shape, v.rank));
  }
  return *v.as<uint8_t>() != 0;
}

/// Calls `last` at the end of the scope, also by an exception.
template <class Last>
class Finally {
 public:
  explicit Finally(Last last) : last_(std::move(last)) {}
  ~Finally() { last_(); }
  Finally(const Finally&) = delete;
  Finally& operator=(const Finally&) = delete;

 private:
  Last last_;
};

}  // namespace

Memory memory_for(View* view) {
  const auto bytes = static_cast<size_t>(view->numel()) * size_of(view->dtype);
  try {
    Memory memory(Storage::create(bytes));
    view->data = memory.get()->data();
    return memory;
  } catch (const Error& error) {
    throw EngineError(Status::kResourceExhausted, error.what());
  }
}

FlowRun::FlowRun(const FlowProgram& program, int max_plans, size_t max_plan_bytes)
    : program_(program), states_(program.blocks.size()) {
  for (size_t k = 0; k < states_.size(); ++k) {
    const FlowBlock& block = program.blocks[k];
    BlockState& state = states_[k];
    state.values.resize(block.nodes.empty() ? 0 : block.value_count);
    if (block.computing == nullptr) continue;
    // The caller allocates the outputs. An output that is an input is not copied: to the plan it
    // overwrites that input with itself.
    PlanOptions how;
    how.given_outputs = true;
    how.stores = block.passed.data();
    state.plans = std::make_unique<BlockPlans>(*block.computing, how, max_plans, max_plan_bytes);
    state.plan_inputs.resize(block.input_count);
    state.plan_outputs.resize(block.outputs.size());
  }
}

void FlowRun::add_chain(NodeSpan chain) {
  for (size_t k = 0; k < states_.size(); ++k) {
    const BlockRecord& record = program_.view.block(static_cast<uint32_t>(k));
    const uint32_t first = chain.first - record.node_first;
    if (chain.first < record.node_first || first >= record.node_count) continue;
    if (chain.count <= record.node_count - first && states_[k].plans != nullptr) {
      states_[k].plans->add_chain({first, chain.count});
      return;
    }
    if (!program_.blocks[k].used) return;
  }
  throw EngineError(
      Status::kInvalidArgument,
      "[Engine] expected every chain within one computing block, got nodes of several");
}

std::vector<HeldArray> FlowRun::run(const View* inputs, const FlowRunOptions& options) {
  options_ = options;
  stopped_.store(false, std::memory_order_relaxed);
  const Finally clear([this] {
    for (BlockState& state : states_) {
      for (HeldArray& value : state.values) value = HeldArray();
      state.node_inputs.clear();
      state.node_outputs.clear();
    }
  });
  Arrays arrays(program_.blocks[0].input_count), outputs;
  for (size_t i = 0; i < arrays.size(); ++i) arrays[i].view = inputs[i];
  run_block(0, &arrays, arrays.size(), &outputs);
  return outputs;
}

void FlowRun::limit(int max_plans, size_t max_plan_bytes) {
  for (const BlockState& state : states_) {
    if (state.plans != nullptr) state.plans->limit(max_plans, max_plan_bytes);
  }
}

void FlowRun::release() {
  for (const BlockState& state : states_) {
    if (state.plans != nullptr) state.plans->clear();
  }
  arena_ = Buffer();
}

size_t FlowRun::bytes() const {
  size_t total = arena_.size();
  for (const BlockState& state : states_) {
    if (state.plans != nullptr) total += state.plans->table_bytes();
  }
  return total;
}

/// Computing blocks share the arena, as one runs at a time and keeps nothing in it. It grows by at
/// least half, as shapes that grow with each iteration need a little more each time.
void* FlowRun::arena_for(size_t size) {
  if (arena_.data() == nullptr || size > arena_.size()) {
    arena_ = Buffer(std::max(size, arena_.size() + arena_.size() / 2));
  }
  return arena_.data();
}

void FlowRun::poll() {
  if (stopped_.load(std::memory_order_relaxed)) throw EngineStopped();
  if (options_.interrupt == nullptr || !*options_.interrupt) return;
  const int64_t time = now();
  if (time - polled_at_ < kPollNanoseconds) return;
  polled_at_ = time;
  (*options_.interrupt)();
}

void FlowRun::run_block(uint32_t block, Arrays* inputs, size_t owned, Arrays* outputs) {
  if (program_.blocks[block].computing != nullptr) {
    compute(block, *inputs, outputs);
  } else {
    run_control_flow(block, inputs, owned, outputs);
  }
}

void FlowRun::compute(uint32_t block, const Arrays& inputs, Arrays* outputs) {
  const FlowBlock& flow_block = program_.blocks[block];
  BlockState& state = states_[block];
  for (size_t i = 0; i < inputs.size(); ++i) state.plan_inputs[i] = inputs[i].view;
  CachedPlan& cached = state.plans->find(state.plan_inputs.data());
  cached.place(arena_for(cached.plan.arena_size()));
  outputs->resize(flow_block.passed.size());
  for (size_t i = 0; i < flow_block.passed.size(); ++i) {
    HeldArray& result = (*outputs)[i];
    if (flow_block.passed[i] != kNoValue) {
      result = inputs[flow_block.passed[i]];
    } else {
      result.view = cached.plan.output(static_cast<uint32_t>(i));
      result.memory = memory_for(&result.view);
    }
    state.plan_outputs[i] = result.view;
  }
  run_plan(*flow_block.computing, &cached.plan, state.plan_inputs.data(), state.plan_outputs.data(),
           options_.parallel, options_.profile, Part::kWhole);
}

HeldArray FlowRun::take(const FlowInput& input, BlockState* state) const {
  if (input.constant) return {program_.view.view(input.value), Memory()};
  HeldArray& value = state->values[input.value];
  return input.last ? std::move(value) : value;
}

void FlowRun::run_control_flow(uint32_t block, Arrays* inputs, size_t owned, Arrays* outputs) {
  const FlowBlock& flow_block = program_.blocks[block];
  BlockState& state = states_[block];
  for (size_t i = 0; i < inputs->size(); ++i) {
    state.values[i] = i < owned ? std::move((*inputs)[i]) : (*inputs)[i];
  }
  for (const FlowNode& node : flow_block.nodes) {
    poll();
    state.node_inputs.clear();
    for (const FlowInput& input : node.inputs) state.node_inputs.push_back(take(input, &state));
    run_node(node, &state);
    for (uint32_t i = 0; i < node.output_count; ++i) {
      const uint32_t value = node.first_output + i;
      const View& view = state.node_outputs[i].view;
      const ValueRecord& stated = program_.view.value(flow_block.first_value + value);
      for (int a = 0; a < view.rank; ++a) {
        if (stated.shape[a] == kUnknown || stated.shape[a] == view.shape[a]) continue;
        throw EngineError(Status::kInvalidArgument,
                          "[Engine] expected an output of " + node.text + " of shape " +
                              shape_text(stated.shape, stated.rank) + ", got " +
                              shape_text(view.shape, view.rank));
      }
      state.values[value] = std::move(state.node_outputs[i]);
    }
    for (const uint32_t value : node.unread) state.values[value] = HeldArray();
  }
  state.node_inputs.clear();
  outputs->clear();
  for (const FlowInput& output : flow_block.outputs) outputs->push_back(take(output, &state));
  for (uint32_t i = 0; i < flow_block.input_count; ++i) state.values[i] = HeldArray();
}

void FlowRun::run_node(const FlowNode& node, BlockState* state) {
  Arrays& inputs = state->node_inputs;
  switch (node.op) {
    case FlowOp::kCall:
      run_block(node.blocks[0], &inputs, inputs.size(), &state->node_outputs);
      break;
    case FlowOp::kBranch: {
      const uint32_t taken = node.blocks[is_true(inputs[0], node) ? 0 : 1];
      inputs.erase(inputs.begin());
      run_block(taken, &inputs, inputs.size(), &state->node_outputs);
      break;
    }
    case FlowOp::kLoop:
      loop(node, state);
      break;
  }
}

void FlowRun::loop(const FlowNode& node, BlockState* state) {
  Arrays &carried = state->node_inputs, &outputs = state->node_outputs;
  for (;;) {
    poll();
    run_block(node.blocks[0], &carried, 0, &outputs);
    if (!is_true(outputs[0], node)) break;
    run_block(node.blocks[1], &carried, node.carried, &outputs);
    for (uint32_t i = 0; i < node.carried; ++i) carried[i] = std::move(outputs[i]);
  }
  carried.resize(node.carried);
  std::swap(carried, outputs);
}

}  // namespace proa
