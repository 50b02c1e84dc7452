// Shape rules of ops that keep their first array's shape and look at others: what the others must
// be. Kernels rely on it, and a model file may hold anything.
#include "proa/gen/attrs/quant.h"
#include "proa/gen/shapes.h"
#include "proa/shapes/checks.h"

namespace proa {
namespace {

/// Input i is a scale of one element, or of one for each index of `axis` of the first input.
Status check_scale(const Call& c, int i, int64_t axis) {
  const View &scale = c.in[i], &x = c.in[0];
  PROA_EXPECT(c, scale.dtype == DType::kF32, "scale of float32", dtype_of(c, i));
  PROA_EXPECT(c, scale.rank <= 1, "scale with at most 1 axis", shape_of(c, i));
  if (scale.rank == 0 || scale.shape[0] == 1 || scale.shape[0] == kUnknown) return Status::kOk;
  const int at = normal_axis(axis, x.rank);
  PROA_EXPECT(c, at >= 0 && may_equal(scale.shape[0], x.shape[at]),
              "scale with one element, or one for each index of `axis`", shape_of(c, i),
              named("axis", axis), shape_of(c, 0));
  return Status::kOk;
}

bool is_int8(int64_t v) { return v >= -128 && v <= 127; }

bool is_one_element(const View& v) {
  bool one = true;
  for (int d = 0; one && d < v.rank; ++d) one = may_equal(v.shape[d], 1);
  return one;
}

}  // namespace

Status shape_same_all(const Call& c) {
  for (int i = 1; i < c.n_in; ++i) PROA_TRY(check_alike(c, 0, i));
  return shape_same(c);
}

// Numbers of rows, and an array of as many rows.
Status shape_merge_rows(const Call& c) {
  const View &rows = c.in[0], &values = c.in[1];
  PROA_EXPECT(c, rows.rank == 1, "a vector of row numbers", shape_of(c, 0));
  PROA_EXPECT(c, values.rank >= 1 && may_equal(rows.shape[0], values.shape[0]),
              "a row of values for each row number", shape_of(c, 0), shape_of(c, 1));
  PROA_EXPECT(c, is_floating(values.dtype), "floating values", dtype_of(c, 1));
  copy_shape(rows, &c.out[0]);
  copy_shape(values, &c.out[1]);
  return Status::kOk;
}

// Every row of this rule begins its attributes with `axis: int`.
Status shape_along_axis(const Call& c) {
  const int64_t axis = *static_cast<const int64_t*>(c.attrs);
  const View& x = c.in[0];
  PROA_EXPECT(c, x.rank > 0 ? normal_axis(axis, x.rank) >= 0 : axis == 0 || axis == -1,
              "axis within the axes of x", named("axis", axis), shape_of(c, 0));
  return shape_same_all(c);
}

Status shape_planes(const Call& c) {
  PROA_EXPECT(c, c.in[0].rank >= 2, "x with at least 2 axes", shape_of(c, 0));
  return shape_same(c);
}

Status shape_quantize(const Call& c) {
  PROA_TRY(check_scale(c, 1, c.attr<QuantizeAttrs>().axis));
  return shape_same(c);
}

Status shape_quantize_affine(const Call& c) {
  const auto& a = c.attr<QuantizeAffineAttrs>();
  PROA_EXPECT(c, is_int8(a.zero_point) && is_int8(a.low), "zero_point and low within int8",
              named("zero_point", a.zero_point), named("low", a.low));
  PROA_EXPECT(c, is_one_element(c.in[1]), "scale with one element", shape_of(c, 1));
  PROA_EXPECT(c, c.in[1].dtype == DType::kF32, "scale of float32", dtype_of(c, 1));
  return shape_same(c);
}

/// The attributes of products that end in int8.
template <class Attrs>
static Status check_ending(const Call& c) {
  const auto& a = c.attr<Attrs>();
  PROA_EXPECT(c, is_int8(a.out_zero) && is_int8(a.low), "out_zero and low within int8",
              named("out_zero", a.out_zero), named("low", a.low));
  return Status::kOk;
}

Status shape_conv2d_int8(const Call& c) {
  PROA_TRY(check_ending<Conv2dInt8Attrs>(c));
  PROA_TRY(shape_conv2d(c));
  // A window has w.shape[1:] steps. One axis after the other, so that no product overflows.
  const View& w = c.in[1];
  int64_t steps = 1;
  for (int i = 1; i < 4; ++i) {
    if (w.shape[i] == kUnknown) continue;
    steps *= w.shape[i];
    PROA_TRY(check_int8_sum(c, steps, int8_reach(0), int8_reach(0)));
  }
  return Status::kOk;
}

Status shape_linear_int8(const Call& c) {
  PROA_TRY(check_ending<LinearInt8Attrs>(c));
  PROA_TRY(shape_linear(c));
  return check_int8_sum(c, c.in[1].shape[0], int8_reach(0), int8_reach(0));
}

Status shape_matmul_int8(const Call& c) {
  const auto& a = c.attr<MatmulInt8Attrs>();
  PROA_EXPECT(c, is_int8(a.x_zero) && is_int8(a.y_zero), "x_zero and y_zero within int8",
              named("x_zero", a.x_zero), named("y_zero", a.y_zero));
  PROA_EXPECT(c, c.in[1].dtype == DType::kI8, "y of int8", dtype_of(c, 1));
  PROA_TRY(check_ending<MatmulInt8Attrs>(c));
  PROA_TRY(shape_matmul(c));
  const View &x = c.in[0], &y = c.in[1];
  const int64_t steps = first_known(x.shape[x.rank - 1], y.shape[y.rank - 2]);
  return check_int8_sum(c, steps, int8_reach(a.x_zero), int8_reach(a.y_zero));
}

// add_int8 and mul_int8, whose attributes are the same.
Status shape_binary_int8(const Call& c) {
  const auto& a = c.attr<AddInt8Attrs>();
  PROA_TRY(check_alike(c, 0, 1));
  const bool within = is_int8(a.x_zero) && is_int8(a.y_zero) && is_int8(a.out_zero);
  PROA_EXPECT(c, within && is_int8(a.low), "zeros and low within int8", named("x_zero", a.x_zero),
              named("y_zero", a.y_zero), named("out_zero", a.out_zero), named("low", a.low));
  return shape_same(c);
}

Status shape_fake_quant_grad(const Call& c) {
  PROA_TRY(check_alike(c, 0, 1));
  PROA_TRY(check_scale(c, 2, c.attr<FakeQuantGradAttrs>().axis));
  return shape_same(c);
}

// Every row of this rule begins its attributes with `axis: int`.
Status shape_put_along_axis(const Call& c) {
  const View &x = c.in[0], &index = c.in[1], &v = c.in[2];
  const int64_t given = *static_cast<const int64_t*>(c.attrs);
  const int axis = normal_axis(given, x.rank);
  PROA_EXPECT(c, axis >= 0, "axis within the axes of x", named("axis", given), shape_of(c, 0));
  PROA_TRY(check_index(c, 1));
  PROA_EXPECT(c, index.rank == x.rank, "index with as many axes as x", shape_of(c, 1),
              shape_of(c, 0));
  PROA_EXPECT(c, v.dtype == x.dtype, "values of x's dtype", dtype_of(c, 2), dtype_of(c, 0));
  PROA_EXPECT(c, same_shape(index, v), "values of index's shape", shape_of(c, 2), shape_of(c, 1));
  for (int i = 0; i < x.rank; ++i) {
    const bool within =
        index.shape[i] == kUnknown || x.shape[i] == kUnknown || index.shape[i] <= x.shape[i];
    PROA_EXPECT(c, i == axis || within, "index no longer than x along all axes but `axis`",
                named("axis", given), shape_of(c, 1), shape_of(c, 0));
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
  PROA_EXPECT(c, same_shape(target, c.in[2]), "v of the shape of the elements that index names",
              shape_of(c, 2), named("elements.shape", target));
  PROA_EXPECT(c, c.in[2].dtype == c.in[0].dtype, "v of x's dtype", dtype_of(c, 2), dtype_of(c, 0));
  return shape_same(c);
}

Status shape_slice_assign(const Call& c) {
  View target;
  Call slice = c;
  slice.n_in = 1;
  slice.out = &target;
  slice.n_out = 1;
  PROA_TRY(shape_slice(slice));
  PROA_EXPECT(c, c.in[1].dtype == c.in[0].dtype, "v of x's dtype", dtype_of(c, 1), dtype_of(c, 0));
  PROA_EXPECT(c, broadcasts_to(c.in[1], target), "v that broadcasts to the shape of the slice",
              shape_of(c, 1), named("slice.shape", target));
  return shape_same(c);
}

Status shape_batch_norm_infer(const Call& c) {
  PROA_EXPECT(c, c.in[0].rank >= 2, "x with at least 2 axes", shape_of(c, 0));
  for (int i = 1; i < c.n_in; ++i) {
    PROA_EXPECT(c, c.in[i].dtype == c.in[1].dtype, "statistics, scale and bias of one dtype",
                dtype_of(c, 1), dtype_of(c, i));
    PROA_TRY(check_precision(c, i, 0));
    PROA_TRY(check_channels(c, i, 0));
  }
  return shape_same(c);
}

}  // namespace proa
