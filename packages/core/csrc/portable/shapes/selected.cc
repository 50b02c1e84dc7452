// Shape rules of ops that keep their first array's shape and look at others: what the others must
// be. Kernels rely on it, and a model file may hold anything.
#include "proa/gen/attrs/quant.h"
#include "proa/gen/shapes.h"
#include "proa/shapes/dims.h"

namespace proa {
namespace {

bool vector_of(const View& v, int64_t size) { return v.rank == 1 && may_equal(v.shape[0], size); }

/// A scale of one element, or of one for each index of `axis` of x.
bool scale_fits(const View& scale, const View& x, int64_t axis) {
  if (scale.dtype != DType::kF32 || scale.rank > 1) return false;
  if (scale.rank == 0 || scale.shape[0] == 1 || scale.shape[0] == kUnknown) return true;
  const int at = normal_axis(axis, x.rank);
  return at >= 0 && may_equal(scale.shape[0], x.shape[at]);
}

}  // namespace

Status shape_same_all(const Call& c) {
  for (int i = 1; i < c.n_in; ++i) {
    if (!alike(c.in[0], c.in[i])) return Status::kInvalidArgument;
  }
  return shape_same(c);
}

// Numbers of rows, and an array of as many rows.
Status shape_merge_rows(const Call& c) {
  const View &rows = c.in[0], &values = c.in[1];
  if (rows.rank != 1 || values.rank < 1 || !may_equal(rows.shape[0], values.shape[0])) {
    return Status::kInvalidArgument;
  }
  copy_shape(rows, &c.out[0]);
  copy_shape(values, &c.out[1]);
  return is_floating(values.dtype) ? Status::kOk : Status::kInvalidArgument;
}

// Every row of this rule begins its attributes with `axis: int`.
Status shape_along_axis(const Call& c) {
  const int64_t axis = *static_cast<const int64_t*>(c.attrs);
  const int rank = c.in[0].rank;
  if (rank > 0 ? normal_axis(axis, rank) < 0 : axis != 0 && axis != -1) {
    return Status::kInvalidArgument;
  }
  return shape_same_all(c);
}

Status shape_planes(const Call& c) {
  return c.in[0].rank < 2 ? Status::kInvalidArgument : shape_same(c);
}

Status shape_quantize(const Call& c) {
  const auto& a = c.attr<QuantizeAttrs>();
  return scale_fits(c.in[1], c.in[0], a.axis) ? shape_same(c) : Status::kInvalidArgument;
}

Status shape_fake_quant_grad(const Call& c) {
  const auto& a = c.attr<FakeQuantGradAttrs>();
  const bool fits = alike(c.in[0], c.in[1]) && scale_fits(c.in[2], c.in[0], a.axis);
  return fits ? shape_same(c) : Status::kInvalidArgument;
}

// Every row of this rule begins its attributes with `axis: int`.
Status shape_put_along_axis(const Call& c) {
  const View &x = c.in[0], &index = c.in[1], &v = c.in[2];
  const int axis = normal_axis(*static_cast<const int64_t*>(c.attrs), x.rank);
  if (axis < 0 || index.rank != x.rank || v.dtype != x.dtype || !same_shape(index, v)) {
    return Status::kInvalidArgument;
  }
  for (int i = 0; i < x.rank; ++i) {
    const bool within =
        index.shape[i] == kUnknown || x.shape[i] == kUnknown || index.shape[i] <= x.shape[i];
    if (i != axis && !within) return Status::kInvalidArgument;
  }
  return shape_same(c);
}

Status shape_index_put(const Call& c) {
  View target;
  Call gather = c;
  gather.n_in = 2;
  gather.out = &target;
  gather.n_out = 1;
  PROA_TRY(shape_gather_nd(gather));
  const bool fits = same_shape(target, c.in[2]) && c.in[2].dtype == c.in[0].dtype;
  return fits ? shape_same(c) : Status::kInvalidArgument;
}

Status shape_slice_assign(const Call& c) {
  View target;
  Call slice = c;
  slice.n_in = 1;
  slice.out = &target;
  slice.n_out = 1;
  PROA_TRY(shape_slice(slice));
  if (c.in[1].dtype != c.in[0].dtype || !broadcasts_to(c.in[1], target)) {
    return Status::kInvalidArgument;
  }
  return shape_same(c);
}

Status shape_batch_norm_infer(const Call& c) {
  if (c.in[0].rank < 2) return Status::kInvalidArgument;
  for (int i = 1; i < c.n_in; ++i) {
    if (c.in[i].dtype != c.in[1].dtype || !vector_of(c.in[i], c.in[0].shape[1])) {
      return Status::kInvalidArgument;
    }
  }
  return shape_same(c);
}

}  // namespace proa
