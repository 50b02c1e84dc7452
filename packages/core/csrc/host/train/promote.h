#pragma once
// Type promotion of inputs of different dtypes, with weak Python numbers and autocast.
#include "proa/train/dispatch.h"

namespace proa {

/// The inputs of a call, some replaced by converted ones, which `converted` owns.
struct Inputs {
  TensorImpl* const* in;
  int count;
  TensorImpl* local[16];
  Tensor converted[16];
  std::vector<TensorImpl*> many;
  std::vector<Tensor> many_converted;

  Inputs(TensorImpl* const* arrays, int n) : in(arrays), count(n) {}
  /// Replaces input i by `x`.
  void replace(int i, Tensor x);
};

/// Converts inputs as the row's `promote` says. Weak numbers never widen arrays.
void promote_inputs(const OpEntry& entry, Inputs* inputs);
/// Converts floating inputs as the op's autocast class says.
void autocast_inputs(const OpEntry& entry, Inputs* inputs);
/// x as `dtype`, recorded on the tape if it takes a gradient.
Tensor cast_to(TensorImpl* x, DType dtype);
/// The number as a 0-d array of `dtype`.
Tensor strong(const TensorImpl* weak_number, DType dtype);

}  // namespace proa
