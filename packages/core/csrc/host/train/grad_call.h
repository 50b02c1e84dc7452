#pragma once
// What a generated gradient rule works on, and where the engine finds the rules.
#include <cstdint>
#include <vector>

#include "proa/gen/op_ids.h"
#include "proa/train/tensor.h"

namespace proa {

/// One invocation of a gradient rule by the backward engine.
class GradCall {
 public:
  virtual ~GradCall() = default;

  /// Gradient of output i; zeros of its shape if nothing flowed into it.
  virtual Tensor dout(int i) = 0;
  /// The tensor of that slot of GradInfo::saved, its version checked. A shape-only one has no data.
  virtual Tensor saved(int slot) = 0;
  /// The tensors of a variadic slot (shape only).
  virtual std::vector<Tensor> saved_list(int slot) = 0;
  /// True if the gradient of array i is wanted. (For a variadic array: of any of its tensors.)
  virtual bool needs(int i) const = 0;
  /// Hands back the gradient of array i; one of the broadcast shape is summed by the engine.
  virtual void set(int i, Tensor grad) = 0;
  /// Hands back the gradients of a variadic array that begins at i.
  virtual void set_list(int i, std::vector<Tensor> grads) = 0;
  /// The op's attribute struct.
  virtual const void* attrs() const = 0;
};

/// A tensor that a node keeps for its rule.
struct SavedSpec {
  enum Kind : uint8_t { kInput, kOutput, kVariadic };
  Kind kind;
  uint8_t index;       // of the array or output; for kVariadic where the list begins
  bool shape_only;     // keep shape and dtype, not the data
  uint32_t needed_by;  // bit i set: the gradient of array i reads it; keep it only if one is wanted
};

/// How an op differentiates.
struct GradInfo {
  void (*run)(GradCall&);  // nullptr: no rule
  const SavedSpec* saved;
  uint8_t saved_count;
  uint32_t inputs;  // bit i set: array i can get a gradient
  /// Where not null and a gradient is recorded: called instead of the kernel, so that the tape sees
  /// the smaller ops. Arrays in row order (undefined where not given), as many outputs as the row.
  void (*composite)(const Tensor* in, int n_in, const void* attrs, Tensor* out);
  uint32_t outputs;  // bit i set: the rule reads the gradient of output i; others carry none
};

/// Indexed by OpId (generated).
extern const GradInfo kGrads[];

}  // namespace proa
