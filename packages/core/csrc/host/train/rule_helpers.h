#pragma once
// What gradient rules call besides ops.
#include <vector>

#include "proa/base/call.h"
#include "proa/train/tensor.h"

namespace proa {

/// A constant of the dtype of `like`.
inline Tensor scalar_like(double value, const Tensor&) { return weak(value); }
/// dy split along `axis` into parts of the sizes of `like`: the gradient of concat.
std::vector<Tensor> split_like(const Tensor& dy, const std::vector<Tensor>& like, int64_t axis);
/// The slices of dy along `axis`, as many as `like` has: the gradient of stack.
std::vector<Tensor> unstack_like(const Tensor& dy, const std::vector<Tensor>& like, int64_t axis);
/// The permutation that undoes `perm` (negative axes allowed).
Ints inverse_permutation(const Ints& perm);
/// Throws: the gradient of `op` exists, but no rule for it.
[[noreturn]] void refuse_gradient(const char* op);

}  // namespace proa
