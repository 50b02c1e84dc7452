// Shape rules of gradient ops. Each applies the rule of the op whose gradient it is to infer the
// shape that dy must have; its result has the shape of that op's input.
#include "proa/gen/attrs/norm.h"
#include "proa/gen/shapes.h"
#include "proa/shapes/checks.h"

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
  forward.failure = nullptr;  // its inputs are not those of the gradient's row
  const Status status = rule(forward);
  PROA_EXPECT(c, status == Status::kOk, "arrays that the forward operator accepts",
              named("dy.shape", dy));
  PROA_EXPECT(c, same_shape(y, dy), "dy of the shape of the forward result", named("dy.shape", dy),
              named("result.shape", y));
  return Status::kOk;
}

Status check_dtype(const Call& c, int dy, int like) {
  PROA_EXPECT(c, c.in[dy].dtype == c.in[like].dtype, "dy of the dtype of the forward input",
              dtype_of(c, dy), dtype_of(c, like));
  return Status::kOk;
}

/// Input dy has the shape and dtype of input `like`.
Status check_gradient(const Call& c, int dy, int like) {
  PROA_TRY(check_dtype(c, dy, like));
  PROA_EXPECT(c, same_shape(c.in[dy], c.in[like]), "dy of the shape of the forward result",
              shape_of(c, dy), shape_of(c, like));
  return Status::kOk;
}

/// Gradient of an op of one array: (dy, like).
Status of_one(const Call& c, ShapeRule rule) {
  PROA_TRY(fits(c, rule, &c.in[1], 1, c.in[0]));
  copy_shape(c.in[1], &c.out[0]);
  return Status::kOk;
}

/// The same of an op of an array and an index: (dy, index, like).
Status of_indexed(const Call& c, ShapeRule rule) {
  PROA_TRY(check_index(c, 1));
  const View in[] = {c.in[2], c.in[1]};
  PROA_TRY(fits(c, rule, in, 2, c.in[0]));
  copy_shape(c.in[2], &c.out[0]);
  return Status::kOk;
}

/// Inputs x and index (N, C, H, W) have a plane of indices for each plane of x.
Status check_planes(const Call& c, int x, int index) {
  const View &a = c.in[x], &b = c.in[index];
  PROA_EXPECT(c, b.dtype == DType::kI32, "index of int32", dtype_of(c, index));
  PROA_EXPECT(c, a.rank == 4 && b.rank == 4, "x and index with 4 axes", shape_of(c, x),
              shape_of(c, index));
  PROA_EXPECT(c, may_equal(a.shape[0], b.shape[0]) && may_equal(a.shape[1], b.shape[1]),
              "index with x's batch and channels", shape_of(c, x), shape_of(c, index));
  return Status::kOk;
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
  PROA_EXPECT(c, broadcasts_to(c.in[1], c.in[0]), "a shape that broadcasts to that of x",
              shape_of(c, 0), shape_of(c, 1));
  copy_shape(c.in[1], &c.out[0]);
  return Status::kOk;
}

// (ids, dy, like)
Status shape_embedding_grad(const Call& c) {
  const View in[] = {c.in[0], c.in[2]};
  PROA_TRY(check_dtype(c, 1, 2));
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
  PROA_TRY(check_dtype(c, 0, 3));
  PROA_TRY(fits(c, shape_blend_rows, in, 3, c.in[0]));
  copy_shape(c.in[3], &c.out[0]);
  return Status::kOk;
}

// (dy, x, index)
Status shape_blend_rows_dot(const Call& c) {
  const View in[] = {c.in[1], c.in[2], c.in[2]};
  PROA_TRY(check_dtype(c, 0, 1));
  PROA_TRY(fits(c, shape_blend_rows, in, 2, c.in[0]));
  copy_shape(c.in[2], &c.out[0]);
  return Status::kOk;
}

// (dy, index, like)
Status shape_pool_scatter(const Call& c) {
  PROA_EXPECT(c, same_shape(c.in[0], c.in[1]), "dy of index's shape", shape_of(c, 0),
              shape_of(c, 1));
  PROA_TRY(check_planes(c, 2, 1));
  copy_shape(c.in[2], &c.out[0]);
  return Status::kOk;
}

// (x, index)
Status shape_pool_gather(const Call& c) {
  PROA_TRY(check_planes(c, 0, 1));
  copy_shape(c.in[1], &c.out[0]);
  return Status::kOk;
}

// (dy, y, x)
Status shape_prod_grad(const Call& c) {
  PROA_TRY(check_gradient(c, 0, 1));
  PROA_TRY(check_dtype(c, 0, 2));
  PROA_TRY(fits(c, shape_reduce, &c.in[2], 1, c.in[0]));
  copy_shape(c.in[2], &c.out[0]);
  return Status::kOk;
}

// (label, dy, logits or like)
Status shape_label_scatter(const Call& c) {
  const View in[] = {c.in[0], c.in[2]};
  PROA_TRY(check_floating(c, 2));
  PROA_TRY(check_dtype(c, 1, 2));
  PROA_TRY(fits(c, shape_softmax_cross_entropy, in, 2, c.in[1]));
  copy_shape(c.in[2], &c.out[0]);
  return Status::kOk;
}

// (dy, x, mean, variance, scale)
Status shape_batch_norm_grad(const Call& c) {
  const View &x = c.in[1], &scale = c.in[4];
  PROA_TRY(check_gradient(c, 0, 1));
  PROA_EXPECT(c, x.rank >= 2, "x with at least 2 axes", shape_of(c, 1));
  for (int i = 2; i < c.n_in; ++i) {
    PROA_TRY(check_precision(c, i, 1));
    PROA_TRY(check_channels(c, i, 1));
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
  PROA_TRY(check_gradient(c, 0, 1));
  for (int i = 2; i < 5; ++i) PROA_TRY(check_precision(c, i, 1));
  PROA_EXPECT(c, axes >= 1 && axes <= x.rank, "axes from 1 to the number of axes of x",
              named("axes", axes), shape_of(c, 1));
  const int lead = x.rank - static_cast<int>(axes);
  bool fits = scale.rank == axes;
  for (int i = 0; fits && i < axes; ++i) fits = may_equal(scale.shape[i], x.shape[lead + i]);
  PROA_EXPECT(c, fits, "scale of the shape of the last axes of x", shape_of(c, 4),
              named("axes", axes), shape_of(c, 1));
  for (int k = 2; k < 4; ++k) {
    fits = c.in[k].rank == lead;
    for (int i = 0; fits && i < lead; ++i) fits = may_equal(c.in[k].shape[i], x.shape[i]);
    PROA_EXPECT(c, fits, "statistics of the shape of the first axes of x", shape_of(c, k),
                named("axes", axes), shape_of(c, 1));
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
  PROA_TRY(check_gradient(c, 0, 1));
  for (int i = 2; i < 5; ++i) PROA_TRY(check_precision(c, i, 1));
  PROA_EXPECT(c, x.rank >= 2, "x with at least 2 axes", shape_of(c, 1));
  PROA_TRY(check_channels(c, 4, 1));
  PROA_EXPECT(c, divides(groups, x.shape[1]), "channels divisible by groups",
              named("channels", x.shape[1]), named("groups", groups));
  for (int i = 2; i < 4; ++i) {
    const View& v = c.in[i];
    const bool fits =
        v.rank == 2 && may_equal(v.shape[0], x.shape[0]) && may_equal(v.shape[1], groups);
    PROA_EXPECT(c, fits, "statistics of shape (batch, groups)", shape_of(c, i), shape_of(c, 1),
                named("groups", groups));
  }
  copy_shape(x, &c.out[0]);
  copy_shape(scale, &c.out[1]);
  copy_shape(scale, &c.out[2]);
  return Status::kOk;
}

}  // namespace proa
