#pragma once
// The dtype that inputs of unlike dtype meet in, weak Python numbers and autocast included.
#include "proa/train/dispatch.h"

namespace proa {

/// The inputs of a call, some replaced by converted ones that `kept` holds.
struct Inputs {
  TensorImpl* const* in;
  int count;
  TensorImpl* local[16];
  Tensor kept[16];
  std::vector<TensorImpl*> many;
  std::vector<Tensor> many_kept;

  Inputs(TensorImpl* const* arrays, int n) : in(arrays), count(n) {}
  /// Puts `x` in the place of input i.
  void replace(int i, Tensor x);
};

/// Converts inputs as the row's `promote` says. Weak numbers never widen arrays.
void promote_inputs(const OpEntry& entry, Inputs* inputs);
/// Converts floating inputs as the op's autocast class says.
void autocast_inputs(const OpEntry& entry, Inputs* inputs);
/// x as `dtype`, noted on the tape if it takes a gradient.
Tensor cast_to(TensorImpl* x, DType dtype);
/// The number as a 0-d array of `dtype`.
Tensor strong(const TensorImpl* weak_number, DType dtype);

}  // namespace proa
