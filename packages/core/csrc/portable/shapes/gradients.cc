// Shape rules of gradient ops. Each applies the rule of the op whose gradient it is to infer the
// shape that dy must have; its result has the shape of that op's input.
#include "proa/gen/attrs/norm.h"
#include "proa/gen/shapes.h"
#include "proa/shapes/dims.h"

namespace proa {
namespace {

/// `in` is what the op was called on; what `rule` makes of it must be the shape of dy. Attributes
/// of the gradient op begin like those of the op.
Status fits(const Call& c, ShapeRule rule, const View* in, int n_in, const View& dy) {
  View y;
  Call forward = c;
  forward.in = in;
  forward.n_in = n_in;
  forward.out = &y;
  forward.n_out = 1;
  PROA_TRY(rule(forward));
  return same_shape(y, dy) ? Status::kOk : Status::kInvalidArgument;
}

/// Gradient of an op of one array: (dy, like).
Status of_one(const Call& c, ShapeRule rule) {
  PROA_TRY(fits(c, rule, &c.in[1], 1, c.in[0]));
  copy_shape(c.in[1], &c.out[0]);
  return Status::kOk;
}

/// The same of an op of an array and an index: (dy, index, like).
Status of_indexed(const Call& c, ShapeRule rule) {
  const View in[] = {c.in[2], c.in[1]};
  PROA_TRY(fits(c, rule, in, 2, c.in[0]));
  copy_shape(c.in[2], &c.out[0]);
  return Status::kOk;
}

/// A plane's worth of index for each plane of x (N, C, H, W).
bool planes_match(const View& x, const View& index) {
  return x.rank == 4 && index.rank == 4 && may_equal(x.shape[0], index.shape[0]) &&
         may_equal(x.shape[1], index.shape[1]);
}

}  // namespace

Status shape_slice_grad(const Call& c) { return of_one(c, shape_slice); }
Status shape_select_grad(const Call& c) { return of_one(c, shape_select); }
Status shape_diagonal_grad(const Call& c) { return of_one(c, shape_diagonal); }
Status shape_tile_grad(const Call& c) { return of_one(c, shape_tile); }
Status shape_pad_grad(const Call& c) { return of_one(c, shape_pad); }
Status shape_mean_grad(const Call& c) { return of_one(c, shape_reduce); }
Status shape_mean_last_grad(const Call& c) { return of_one(c, shape_mean_last); }
Status shape_pool2d_grad(const Call& c) { return of_one(c, shape_pool2d); }
Status shape_adaptive_pool2d_grad(const Call& c) { return of_one(c, shape_adaptive_pool2d); }
Status shape_windows_grad(const Call& c) { return of_one(c, shape_windows); }
Status shape_resize_axis_grad(const Call& c) { return of_one(c, shape_resize_axis); }
Status shape_gather_grad(const Call& c) { return of_indexed(c, shape_gather); }
Status shape_scatter_nd_like(const Call& c) { return of_indexed(c, shape_gather_nd); }
Status shape_take_along_axis_grad(const Call& c) { return of_indexed(c, shape_take_along_axis); }

// (x, like): x has the shape that like was broadcast to.
Status shape_sum_to(const Call& c) {
  if (!broadcasts_to(c.in[1], c.in[0])) return Status::kInvalidArgument;
  copy_shape(c.in[1], &c.out[0]);
  return Status::kOk;
}

// (ids, dy, like)
Status shape_embedding_grad(const Call& c) {
  const View in[] = {c.in[0], c.in[2]};
  if (c.in[1].dtype != c.in[2].dtype) return Status::kInvalidArgument;
  PROA_TRY(fits(c, shape_embedding, in, 2, c.in[1]));
  copy_shape(c.in[2], &c.out[0]);
  return Status::kOk;
}

// (dy, w, like)
Status shape_conv2d_grad_input(const Call& c) {
  const View in[] = {c.in[2], c.in[1]};
  PROA_TRY(fits(c, shape_conv2d, in, 2, c.in[0]));
  copy_shape(c.in[2], &c.out[0]);
  return Status::kOk;
}

// (x, dy, like)
Status shape_conv2d_grad_weight(const Call& c) {
  const View in[] = {c.in[0], c.in[2]};
  PROA_TRY(fits(c, shape_conv2d, in, 2, c.in[1]));
  copy_shape(c.in[2], &c.out[0]);
  return Status::kOk;
}

// (dy, index, weight, like)
Status shape_blend_rows_scatter(const Call& c) {
  const View in[] = {c.in[3], c.in[1], c.in[2]};
  if (c.in[0].dtype != c.in[3].dtype) return Status::kInvalidArgument;
  PROA_TRY(fits(c, shape_blend_rows, in, 3, c.in[0]));
  copy_shape(c.in[3], &c.out[0]);
  return Status::kOk;
}

// (dy, x, index)
Status shape_blend_rows_dot(const Call& c) {
  const View in[] = {c.in[1], c.in[2], c.in[2]};
  if (c.in[0].dtype != c.in[1].dtype) return Status::kInvalidArgument;
  PROA_TRY(fits(c, shape_blend_rows, in, 2, c.in[0]));
  copy_shape(c.in[2], &c.out[0]);
  return Status::kOk;
}

// (dy, index, like)
Status shape_pool_scatter(const Call& c) {
  if (!same_shape(c.in[0], c.in[1]) || !planes_match(c.in[2], c.in[1])) {
    return Status::kInvalidArgument;
  }
  copy_shape(c.in[2], &c.out[0]);
  return Status::kOk;
}

// (x, index)
Status shape_pool_gather(const Call& c) {
  if (!planes_match(c.in[0], c.in[1])) return Status::kInvalidArgument;
  copy_shape(c.in[1], &c.out[0]);
  return Status::kOk;
}

// (dy, y, x)
Status shape_prod_grad(const Call& c) {
  if (!alike(c.in[0], c.in[1]) || c.in[0].dtype != c.in[2].dtype) return Status::kInvalidArgument;
  PROA_TRY(fits(c, shape_reduce, &c.in[2], 1, c.in[0]));
  copy_shape(c.in[2], &c.out[0]);
  return Status::kOk;
}

// (label, dy, logits or like)
Status shape_label_scatter(const Call& c) {
  const View in[] = {c.in[0], c.in[2]};
  if (c.in[1].dtype != c.in[2].dtype) return Status::kInvalidArgument;
  PROA_TRY(fits(c, shape_softmax_cross_entropy, in, 2, c.in[1]));
  copy_shape(c.in[2], &c.out[0]);
  return Status::kOk;
}

// (dy, x, mean, variance, scale)
Status shape_batch_norm_grad(const Call& c) {
  const View &x = c.in[1], &scale = c.in[4];
  if (!alike(c.in[0], x) || x.rank < 2) return Status::kInvalidArgument;
  for (int i = 2; i < c.n_in; ++i) {
    if (c.in[i].rank != 1 || !may_equal(c.in[i].shape[0], x.shape[1])) {
      return Status::kInvalidArgument;
    }
  }
  copy_shape(x, &c.out[0]);
  copy_shape(scale, &c.out[1]);
  copy_shape(scale, &c.out[2]);
  return Status::kOk;
}

// (dy, x, mean, rstd, scale)
Status shape_layer_norm_grad(const Call& c) {
  const View &x = c.in[1], &scale = c.in[4];
  const int64_t axes = c.attr<LayerNormGradAttrs>().axes;
  if (!alike(c.in[0], x) || axes < 1 || axes > x.rank || scale.rank != axes) {
    return Status::kInvalidArgument;
  }
  const int lead = x.rank - static_cast<int>(axes);
  for (int i = 0; i < axes; ++i) {
    if (!may_equal(scale.shape[i], x.shape[lead + i])) return Status::kInvalidArgument;
  }
  for (int k = 2; k < 4; ++k) {
    if (c.in[k].rank != lead) return Status::kInvalidArgument;
    for (int i = 0; i < lead; ++i) {
      if (!may_equal(c.in[k].shape[i], x.shape[i])) return Status::kInvalidArgument;
    }
  }
  copy_shape(x, &c.out[0]);
  copy_shape(scale, &c.out[1]);
  copy_shape(scale, &c.out[2]);
  return Status::kOk;
}

// (dy, x, mean, rstd, scale)
Status shape_group_norm_grad(const Call& c) {
  const View &x = c.in[1], &scale = c.in[4];
  const int64_t groups = c.attr<GroupNormGradAttrs>().groups;
  if (!alike(c.in[0], x) || x.rank < 2 || scale.rank != 1 || groups < 1) {
    return Status::kInvalidArgument;
  }
  if (!may_equal(scale.shape[0], x.shape[1])) return Status::kInvalidArgument;
  if (x.shape[1] != kUnknown && x.shape[1] % groups != 0) return Status::kInvalidArgument;
  for (int i = 2; i < 4; ++i) {
    const View& v = c.in[i];
    if (v.rank != 2 || !may_equal(v.shape[0], x.shape[0]) || !may_equal(v.shape[1], groups)) {
      return Status::kInvalidArgument;
    }
  }
  copy_shape(x, &c.out[0]);
  copy_shape(scale, &c.out[1]);
  copy_shape(scale, &c.out[2]);
  return Status::kOk;
}

}  // namespace proa
