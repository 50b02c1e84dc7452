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

bool holds(const HeldArray& condition, const FlowNode& node) {
  const View& v = condition.view;
  if (v.numel() != 1) {
    throw EngineError(Status::kInvalidArgument, "[Engine] the condition of " + node.text +
                                                    " must be a bool of one element, got shape " +
                                                    shape_text(v.shape, v.rank));
  }
  return *v.as<uint8_t>() != 0;
}

/// Calls `last` when left, however that is.
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

FlowRun::FlowRun(const FlowProgram& program, int max_plans)
    : program_(program), frames_(program.blocks.size()) {
  for (size_t k = 0; k < frames_.size(); ++k) {
    const FlowBlock& block = program.blocks[k];
    Frame& frame = frames_[k];
    frame.values.resize(block.nodes.empty() ? 0 : block.value_count);
    if (block.computing == nullptr) continue;
    // Leaves give arrays where they stay. An output that is an input takes no copy: to a plan it
    // overwrites that input with itself.
    PlanOptions how;
    how.given_outputs = true;
    how.stores = block.passed.data();
    frame.plans = std::make_unique<BlockPlans>(*block.computing, how, max_plans);
    frame.inputs.resize(block.input_count);
    frame.outputs.resize(block.outputs.size());
  }
}

void FlowRun::add_chain(NodeSpan chain) {
  for (size_t k = 0; k < frames_.size(); ++k) {
    const BlockRecord& record = program_.view.block(static_cast<uint32_t>(k));
    const uint32_t first = chain.first - record.node_first;
    if (chain.first < record.node_first || first >= record.node_count) continue;
    if (chain.count <= record.node_count - first && frames_[k].plans != nullptr) {
      frames_[k].plans->add_chain({first, chain.count});
      return;
    }
    if (!program_.blocks[k].used) return;
  }
  throw EngineError(Status::kInvalidArgument,
                    "[Engine] chains must be of nodes of one computing block, got others");
}

std::vector<HeldArray> FlowRun::run(const View* inputs, const FlowManner& manner) {
  manner_ = manner;
  stopped_.store(false, std::memory_order_relaxed);
  const Finally clear([this] {
    for (Frame& frame : frames_) {
      for (HeldArray& value : frame.values) value = HeldArray();
      frame.given.clear();
      frame.made.clear();
    }
  });
  Arrays given(program_.blocks[0].input_count), made;
  for (size_t i = 0; i < given.size(); ++i) given[i].view = inputs[i];
  run_block(0, &given, given.size(), &made);
  return made;
}

size_t FlowRun::bytes() const {
  size_t total = arena_.size();
  for (const Frame& frame : frames_) {
    if (frame.plans != nullptr) total += frame.plans->table_bytes();
  }
  return total;
}

/// The arena is shared, as one leaf runs at a time and nothing stays in it. It grows by halves, as
/// shapes that grow round by round ask for a little more each time.
void* FlowRun::arena_of(size_t size) {
  if (arena_.data() == nullptr || size > arena_.size()) {
    arena_ = Buffer(std::max(size, arena_.size() + arena_.size() / 2));
  }
  return arena_.data();
}

void FlowRun::poll() {
  if (stopped_.load(std::memory_order_relaxed)) throw EngineStopped();
  if (manner_.interrupt == nullptr || !*manner_.interrupt) return;
  const int64_t time = now();
  if (time - polled_ < kPollNanoseconds) return;
  polled_ = time;
  (*manner_.interrupt)();
}

void FlowRun::run_block(uint32_t block, Arrays* given, size_t free, Arrays* made) {
  if (program_.blocks[block].computing != nullptr) {
    compute(block, *given, made);
  } else {
    direct(block, given, free, made);
  }
}

void FlowRun::compute(uint32_t block, const Arrays& given, Arrays* made) {
  const FlowBlock& what = program_.blocks[block];
  Frame& frame = frames_[block];
  for (size_t i = 0; i < given.size(); ++i) frame.inputs[i] = given[i].view;
  CachedPlan& cached = frame.plans->find(frame.inputs.data());
  cached.place(arena_of(cached.plan.arena_size()));
  made->resize(what.passed.size());
  for (size_t i = 0; i < what.passed.size(); ++i) {
    HeldArray& result = (*made)[i];
    if (what.passed[i] != kNoValue) {
      result = given[what.passed[i]];
    } else {
      result.view = cached.plan.output(static_cast<uint32_t>(i));
      result.memory = memory_for(&result.view);
    }
    frame.outputs[i] = result.view;
  }
  run_plan(*what.computing, &cached.plan, frame.inputs.data(), frame.outputs.data(),
           manner_.parallel, manner_.profile, Part::kWhole);
}

HeldArray FlowRun::take(const FlowInput& input, Frame* frame) const {
  if (input.constant) return {program_.view.view(input.value), Memory()};
  HeldArray& value = frame->values[input.value];
  return input.last ? std::move(value) : value;
}

void FlowRun::direct(uint32_t block, Arrays* given, size_t free, Arrays* made) {
  const FlowBlock& what = program_.blocks[block];
  Frame& frame = frames_[block];
  for (size_t i = 0; i < given->size(); ++i) {
    frame.values[i] = i < free ? std::move((*given)[i]) : (*given)[i];
  }
  for (const FlowNode& node : what.nodes) {
    poll();
    frame.given.clear();
    for (const FlowInput& input : node.inputs) frame.given.push_back(take(input, &frame));
    run_node(node, &frame);
    for (uint32_t i = 0; i < node.output_count; ++i) {
      const uint32_t value = node.first_output + i;
      const View& view = frame.made[i].view;
      const ValueRecord& stated = program_.view.value(what.first_value + value);
      for (int a = 0; a < view.rank; ++a) {
        if (stated.shape[a] == kUnknown || stated.shape[a] == view.shape[a]) continue;
        throw EngineError(Status::kInvalidArgument,
                          "[Engine] what " + node.text + " gives must have shape " +
                              shape_text(stated.shape, stated.rank) + ", got " +
                              shape_text(view.shape, view.rank));
      }
      frame.values[value] = std::move(frame.made[i]);
    }
    for (const uint32_t value : node.unread) frame.values[value] = HeldArray();
  }
  frame.given.clear();
  made->clear();
  for (const FlowInput& output : what.outputs) made->push_back(take(output, &frame));
  for (uint32_t i = 0; i < what.input_count; ++i) frame.values[i] = HeldArray();
}

void FlowRun::run_node(const FlowNode& node, Frame* frame) {
  Arrays& given = frame->given;
  switch (node.op) {
    case FlowOp::kCall:
      run_block(node.blocks[0], &given, given.size(), &frame->made);
      break;
    case FlowOp::kBranch: {
      const uint32_t taken = node.blocks[holds(given[0], node) ? 0 : 1];
      given.erase(given.begin());
      run_block(taken, &given, given.size(), &frame->made);
      break;
    }
    case FlowOp::kLoop:
      loop(node, frame);
      break;
  }
}

void FlowRun::loop(const FlowNode& node, Frame* frame) {
  Arrays &given = frame->given, &made = frame->made;
  for (;;) {
    poll();
    run_block(node.blocks[0], &given, 0, &made);
    if (!holds(made[0], node)) break;
    run_block(node.blocks[1], &given, node.carried, &made);
    for (uint32_t i = 0; i < node.carried; ++i) given[i] = std::move(made[i]);
  }
  given.resize(node.carried);
  std::swap(given, made);
}

}  // namespace proa
