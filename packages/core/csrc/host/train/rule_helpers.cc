#include "proa/train/rule_helpers.h"

#include <cstdint>
#include <string>

#include "proa/gen/ops.h"
#include "proa/runtime/error.h"

namespace proa {

namespace {

int64_t size_along(const Tensor& x, int64_t axis) {
  const View& v = x.view();
  return v.shape[axis < 0 ? axis + v.rank : axis];
}

// Numbers 1, 2, ... along an axis of x, whose size a recorded program does not know.
Tensor counted_along(const Tensor& x, int64_t axis) {
  Tensor line = x;
  const int dim = static_cast<int>(axis < 0 ? axis + x.view().rank : axis);
  for (int a = x.view().rank - 1; a >= 0; --a) {
    if (a != dim) line = ops::select(line, a, 0);
  }
  Scalar one;
  one.is_int = 1;
  one.i = 1;
  return ops::cumsum(ops::full_like(line, one, static_cast<int64_t>(DType::kI64)), 0, 0);
}

std::vector<Tensor> gathered_like(const Tensor& dy, const std::vector<Tensor>& like, int64_t axis) {
  std::vector<Tensor> parts;
  Tensor before = weak(int64_t{1});  // the count of rows before, and one
  for (const Tensor& x : like) {
    const Tensor numbers = counted_along(x, axis);
    parts.push_back(ops::gather(dy, ops::add(numbers, ops::sub(before, weak(int64_t{2}))), axis));
    Ints all;
    all.count = 0;
    before = ops::add(before, ops::max(numbers, all, 0));
  }
  return parts;
}

}  // namespace

std::vector<Tensor> split_like(const Tensor& dy, const std::vector<Tensor>& like, int64_t axis) {
  for (const Tensor& x : like) {
    if (size_along(x, axis) == kUnknown) return gathered_like(dy, like, axis);
  }
  std::vector<Tensor> parts;
  int64_t start = 0;
  const auto one = [](int64_t v) { return Ints{1, {v}}; };
  for (const Tensor& x : like) {
    const int64_t end = start + size_along(x, axis);
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
