#pragma once
// Operators of extensions in eager mode: run at once, noted on the tape, or recorded.
#include "proa/runtime/extension.h"
#include "proa/train/tensor.h"

namespace proa {

/// Calls the operator: input i has counts[i] of `inputs`, `values` are its attributes. Symbolic
/// inputs are recorded. Throws Error.
std::vector<Tensor> call_operator(const ExtensionOp& op, const std::vector<Tensor>& inputs,
                                  const std::vector<int64_t>& counts,
                                  const std::vector<ExtensionValue>& values);

/// What the layer above adds: records the call of an operator on symbolic tensors.
using ExtensionRecorder = std::vector<Tensor> (*)(const ExtensionOp& op,
                                                  const std::vector<Tensor>& inputs,
                                                  const std::vector<int64_t>& counts,
                                                  const std::vector<ExtensionValue>& values);
extern ExtensionRecorder extension_recorder;

}  // namespace proa
