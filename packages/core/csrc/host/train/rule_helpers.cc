#include "proa/train/rule_helpers.h"

#include <cstdint>
#include <string>

#include "proa/gen/ops.h"
#include "proa/runtime/error.h"

namespace proa {

std::vector<Tensor> split_like(const Tensor& dy, const std::vector<Tensor>& like, int64_t axis) {
  std::vector<Tensor> parts;
  int64_t start = 0;
  const auto one = [](int64_t v) { return Ints{1, {v}}; };
  for (const Tensor& x : like) {
    const View& v = x.view();
    const int64_t end = start + v.shape[axis < 0 ? axis + v.rank : axis];
    parts.push_back(ops::slice(dy, one(axis), one(start), one(end), one(1)));
    start = end;
  }
  return parts;
}

std::vector<Tensor> unstack_like(const Tensor& dy, const std::vector<Tensor>& like, int64_t axis) {
  std::vector<Tensor> parts;
  parts.reserve(like.size());
  for (size_t i = 0; i < like.size(); ++i) {
    parts.push_back(ops::select(dy, axis, static_cast<int64_t>(i)));
  }
  return parts;
}

Ints inverse_permutation(const Ints& perm) {
  Ints inverse;
  inverse.count = perm.count;
  for (int64_t i = 0; i < perm.count; ++i) {
    inverse.v[perm[i] < 0 ? perm[i] + perm.count : perm[i]] = i;
  }
  return inverse;
}

void refuse_gradient(const char* op) {
  throw Error(ErrorKind::kUnimplemented,
              std::string("[") + op + "] the gradient of this op is not implemented");
}

}  // namespace proa
