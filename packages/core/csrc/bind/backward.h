// Backward from Python: `Tensor.backward` and `autograd.backward`.
#pragma once
#include <vector>

#include "proa/train/tape.h"

namespace proa::bind {

/// Backward from the roots that take a gradient; of each other one a UserWarning is issued. The
/// seeds are as many as the roots, or none. Requires the GIL; throws PythonError if a warning is
/// raised as an exception.
void backward_from(std::vector<Tensor> roots, std::vector<Tensor> seeds, BackwardOptions options);

}  // namespace proa::bind
