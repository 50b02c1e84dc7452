#pragma once
// A model with control flow (FORMAT.md): its blocks, checked and bound. engine uses it; flow_run
// runs it.
#include <memory>
#include <string>
#include <vector>

#include "proa/runtime/engine_block.h"

namespace proa {

enum class FlowOp : uint8_t { kCall, kBranch, kLoop };

/// An input of a node of a control-flow block.
struct FlowInput {
  uint32_t value;  // index in the file of a constant, else in the block
  bool constant;
  bool last;  // the last read of the value
};

/// A node that names blocks.
struct FlowNode {
  FlowOp op;
  uint32_t blocks[2];  // call: the block, twice; branch: then, else; loop: condition, body
  uint32_t carried;    // of a loop
  std::vector<FlowInput> inputs;
  uint32_t first_output, output_count;  // values of the block
  std::vector<uint32_t> unread;         // outputs among these that are never read
  std::string text;                     // for errors
};

struct FlowBlock {
  bool used = false;  // the model's, or named by a node of a block that is
  uint32_t first_value = 0, value_count = 0, input_count = 0;
  std::vector<FlowInput> outputs;
  /// For a control-flow block.
  std::vector<FlowNode> nodes;
  /// For a computing block; and for each output the input that it is, or kNoValue.
  std::unique_ptr<ComputingBlock> computing;
  std::vector<uint32_t> passed;
};

/// Immutable; clones share it.
struct FlowProgram {
  ModelView view;
  uint32_t constants = 0;  // the first values
  PackedWeights packed;
  std::vector<FlowBlock> blocks;

  /// Throws EngineError unless blocks follow FORMAT.md. Keeps pointers into the bytes.
  explicit FlowProgram(const ModelView& model);
  size_t packed_bytes() const;
};

/// True if the block has a node of control flow.
bool has_control_flow(const ModelView& model, uint32_t block);

}  // namespace proa
