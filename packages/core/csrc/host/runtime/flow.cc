#include "proa/runtime/flow.h"

#include <string.h>

#include <algorithm>

namespace proa {

namespace {

constexpr uint32_t kMaxDepth = 64;  // of blocks nested in the model's

struct FlowOpInfo {
  const char* name;
  FlowOp op;
  uint32_t attributes;
};
constexpr FlowOpInfo kFlowOps[] = {
    {"call", FlowOp::kCall, 1}, {"branch", FlowOp::kBranch, 2}, {"loop", FlowOp::kLoop, 3}};

const FlowOpInfo* flow_op(const ModelView& model, const NodeRecord& node) {
  const char* name = model.string(model.op(node.op).name);
  for (const FlowOpInfo& info : kFlowOps) {
    if (strcmp(name, info.name) == 0) return &info;
  }
  return nullptr;
}

/// Checks one node and converts it to a FlowNode.
class NodeReader {
 public:
  NodeReader(const ModelView& model, uint32_t block, uint32_t node, uint32_t constants)
      : model_(model),
        record_(model.node(node)),
        block_(block),
        constants_(constants),
        text_(node_text(model, node)) {}

  FlowNode read() {
    const FlowOpInfo* info = flow_op(model_, record_);
    expect(info != nullptr, "a block has control flow alone or none");
    expect(model_.op(record_.op).version == 1, "this build supports the op's version",
           Status::kVersion);
    int64_t attributes[3] = {};
    const uint32_t size = 8 * info->attributes;
    expect(record_.attr_size >= size, "no attribute is truncated");
    expect(record_.attr_size == size, "this build knows all attributes of the op",
           Status::kVersion);
    memcpy(attributes, model_.attrs(record_), size);
    FlowNode node{};
    node.op = info->op;
    node.text = text_;
    node.blocks[0] = block(attributes[0]);
    node.blocks[1] = info->attributes > 1 ? block(attributes[1]) : node.blocks[0];
    const uint32_t first = model_.block(block_).value_first;
    for (uint32_t i = 0; i < record_.input_count; ++i) {
      const uint32_t id = input(i);
      const bool constant = id < constants_;
      node.inputs.push_back({constant ? id : id - first, constant, false});
    }
    node.first_output = record_.output_first - first;
    node.output_count = record_.output_count;
    switch (info->op) {
      case FlowOp::kCall:
        check_call(node.blocks[0], 0);
        break;
      case FlowOp::kBranch:
        expect(record_.input_count > 0, "the op has a condition");
        check_condition(input(0));
        check_call(node.blocks[0], 1);
        check_call(node.blocks[1], 1);
        break;
      case FlowOp::kLoop:
        expect(attributes[2] >= 1 && attributes[2] <= int64_t{record_.input_count},
               "a loop carries between 1 and all of its inputs");
        node.carried = static_cast<uint32_t>(attributes[2]);
        check_loop(node.blocks[0], node.blocks[1], node.carried);
        break;
    }
    return node;
  }

 private:
  void expect(bool condition, const char* what, Status status = Status::kBadModel) const {
    if (condition) return;
    throw EngineError(status, std::string("[Engine] expected that ") + what + ", got " + text_);
  }

  uint32_t block(int64_t id) const {
    expect(id > int64_t{block_} && id < int64_t{model_.block_count()},
           "a node of control flow refers to later blocks");
    return static_cast<uint32_t>(id);
  }

  uint32_t input(uint32_t i) const {
    const uint32_t id = model_.inputs(record_)[i];
    expect(id != kNoValue, "every required input of the op is given");
    return id;
  }

  void check_agree(uint32_t a, uint32_t b) const {
    const ValueRecord &x = model_.value(a), &y = model_.value(b);
    bool agree = x.dtype == y.dtype && x.rank == y.rank;
    for (int i = 0; agree && i < x.rank; ++i) {
      agree = x.shape[i] == y.shape[i] || x.shape[i] == kUnknown || y.shape[i] == kUnknown;
    }
    expect(agree, "arrays passed between a node and its block agree in dtype and shape");
  }

  void check_condition(uint32_t id) const {
    const ValueRecord& v = model_.value(id);
    bool one = v.dtype == DType::kBool;
    for (int i = 0; i < v.rank; ++i) one = one && (v.shape[i] == 1 || v.shape[i] == kUnknown);
    expect(one, "a condition is a bool of one element");
  }

  /// The block takes the node's inputs from `first` on.
  ModelView check_inputs(uint32_t named, uint32_t first) const {
    const ModelView body = model_.at_block(named);
    expect(body.input_count() == record_.input_count - first,
           "a block has as many inputs as its node passes");
    for (uint32_t i = 0; i < body.input_count(); ++i) {
      check_agree(input(first + i), body.input_value(i));
    }
    return body;
  }

  void check_call(uint32_t named, uint32_t first) const {
    const ModelView body = check_inputs(named, first);
    expect(body.output_count() == record_.output_count, "a node has as many outputs as its block");
    for (uint32_t i = 0; i < record_.output_count; ++i) {
      check_agree(body.output_value(i), record_.output_first + i);
    }
  }

  void check_loop(uint32_t condition, uint32_t named, uint32_t carried) const {
    const ModelView test = check_inputs(condition, 0);
    expect(test.output_count() == 1, "a condition block has one output");
    check_condition(test.output_value(0));
    const ModelView body = check_inputs(named, 0);
    expect(body.output_count() == carried && record_.output_count == carried,
           "a loop and its body have one output for each carried array");
    for (uint32_t i = 0; i < carried; ++i) {
      check_agree(body.output_value(i), body.input_value(i));
      check_agree(body.output_value(i), test.input_value(i));
      check_agree(body.output_value(i), record_.output_first + i);
    }
  }

  const ModelView& model_;
  const NodeRecord& record_;
  uint32_t block_, constants_;
  std::string text_;
};

void read_outputs(const ModelView& model, uint32_t constants, FlowBlock* block) {
  for (uint32_t i = 0; i < model.output_count(); ++i) {
    const uint32_t id = model.output_value(i);
    const bool constant = id < constants;
    block->outputs.push_back({constant ? id : id - block->first_value, constant, false});
  }
}

/// Marks the last read of each value, and outputs that are never read.
void mark_last_reads(FlowBlock* block) {
  std::vector<FlowInput*> last(block->value_count);
  for (FlowNode& node : block->nodes) {
    for (FlowInput& input : node.inputs) {
      if (!input.constant) last[input.value] = &input;
    }
  }
  for (FlowInput& output : block->outputs) {
    if (!output.constant) last[output.value] = &output;
  }
  for (FlowInput* reader : last) {
    if (reader != nullptr) reader->last = true;
  }
  for (FlowNode& node : block->nodes) {
    for (uint32_t v = node.first_output; v < node.first_output + node.output_count; ++v) {
      if (last[v] == nullptr) node.unread.push_back(v);
    }
  }
}

void find_passed_inputs(FlowBlock* block) {
  for (const FlowInput& output : block->outputs) {
    const bool passes = !output.constant && output.value < block->input_count;
    block->passed.push_back(passes ? output.value : kNoValue);
  }
}

}  // namespace

bool has_control_flow(const ModelView& model, uint32_t block) {
  const ModelView view = model.at_block(block);
  for (uint32_t i = 0; i < view.block(0).node_count; ++i) {
    if (flow_op(view, view.node(i)) != nullptr) return true;
  }
  return false;
}

FlowProgram::FlowProgram(const ModelView& model)
    : view(model), constants(model.block(0).value_first), blocks(model.block_count()) {
  std::vector<uint32_t> names(name_table_slots(model.input_count()));
  if (!has_distinct_inputs(model, names.data())) {
    throw EngineError(Status::kBadModel,
                      "[Engine] expected distinct names of the model's inputs, got two of one "
                      "name");
  }
  // Nodes refer to later blocks, so a block's users come before it.
  std::vector<uint32_t> depth(blocks.size(), 0);
  blocks[0].used = true;
  for (uint32_t k = 0; k < blocks.size(); ++k) {
    FlowBlock& block = blocks[k];
    if (!block.used) continue;
    const BlockRecord& record = model.block(k);
    block.first_value = record.value_first;
    block.value_count = record.value_count;
    block.input_count = record.input_count;
    const ModelView own = model.at_block(k);
    read_outputs(own, constants, &block);
    if (!has_control_flow(model, k)) {
      block.computing = std::make_unique<ComputingBlock>(own, false, &packed);
      find_passed_inputs(&block);
      continue;
    }
    for (uint32_t i = 0; i < record.node_count; ++i) {
      block.nodes.push_back(NodeReader(model, k, record.node_first + i, constants).read());
      for (const uint32_t named : block.nodes.back().blocks) {
        blocks[named].used = true;
        depth[named] = std::max(depth[named], depth[k] + 1);
        if (depth[named] <= kMaxDepth) continue;
        throw EngineError(
            Status::kBadModel,
            "[Engine] expected blocks nested at most 64 deep, got " + block.nodes.back().text);
      }
    }
    mark_last_reads(&block);
  }
}

size_t FlowProgram::packed_bytes() const {
  size_t total = 0;
  for (const auto& [key, weights] : packed) total += weights.size();
  return total;
}

}  // namespace proa
