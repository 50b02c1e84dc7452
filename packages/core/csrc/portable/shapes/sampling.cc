// Shape rules of windows, resampling and weighted rows.
#include "proa/gen/attrs/sampling.h"
#include "proa/base/expect.h"
#include "proa/gen/shapes.h"
#include "proa/shapes/dims.h"

namespace proa {

Status shape_windows(const Call& c) {
  const auto& a = c.attr<WindowsAttrs>();
  const View& x = c.in[0];
  View& out = c.out[0];
  const int axis = normal_axis(a.axis, x.rank);
  PROA_EXPECT(c, axis >= 0, "axis within the axes of x", named("axis", a.axis), shape_of(c, 0));
  PROA_EXPECT(c, x.rank < kMaxRank, "x with at most 7 axes", shape_of(c, 0));
  const bool counts = a.size >= 1 && a.step >= 1 && a.dilation >= 1 && a.size <= INT32_MAX &&
                      a.step <= INT32_MAX && a.dilation <= INT32_MAX;
  PROA_EXPECT(c, counts, "size, step and dilation from 1 to 2147483647", named("size", a.size),
              named("step", a.step), named("dilation", a.dilation));
  copy_shape(x, &out);
  for (int i = 0; i < x.rank; ++i) out.stride[i] = x.stride[i];
  const int64_t d = x.shape[axis], reach = (a.size - 1) * a.dilation + 1;
  if (d != kUnknown) {
    PROA_EXPECT(c, d >= reach, "an axis at least as long as a window", named("window", reach),
                named("axis", a.axis), shape_of(c, 0));
    out.shape[axis] = (d - reach) / a.step + 1;
  }
  // A step over less than two elements may be any number.
  if (out.shape[axis] > 1) out.stride[axis] = x.stride[axis] * a.step;
  out.shape[x.rank] = a.size;
  out.stride[x.rank] = a.size > 1 ? x.stride[axis] * a.dilation : x.stride[axis];
  out.rank = static_cast<int8_t>(x.rank + 1);
  return Status::kOk;
}

// The gradient's attributes are the same.
Status shape_resize_axis(const Call& c) {
  const auto& a = c.attr<ResizeAxisAttrs>();
  const View& x = c.in[0];
  const int axis = normal_axis(a.axis, x.rank);
  PROA_EXPECT(c, axis >= 0, "axis within the axes of x", named("axis", a.axis), shape_of(c, 0));
  PROA_EXPECT(c, a.size >= 0 && a.size <= INT32_MAX, "size from 0 to 2147483647",
              named("size", a.size));
  PROA_EXPECT(c, a.scale >= 0 && a.scale <= INT32_MAX, "scale from 0 to 2147483647");
  View& out = c.out[0];
  copy_shape(x, &out);
  const int64_t d = x.shape[axis];
  PROA_EXPECT(c, d != 0 && d <= INT32_MAX, "an axis of 1 to 2147483647 elements",
              named("axis", a.axis), shape_of(c, 0));
  if (a.size > 0) {
    out.shape[axis] = a.size;
  } else if (d != kUnknown) {
    out.shape[axis] = static_cast<int64_t>(static_cast<double>(d) * a.scale);
    PROA_EXPECT(c, out.shape[axis] >= 1, "a scale that leaves at least one element",
                named("axis", a.axis), shape_of(c, 0));
  }
  return Status::kOk;
}

// (x, index, weight); the weights may be left out
Status shape_blend_rows(const Call& c) {
  const View &x = c.in[0], &index = c.in[1];
  PROA_EXPECT(c, x.rank == 2 && index.rank == 2, "x and index with 2 axes", shape_of(c, 0),
              shape_of(c, 1));
  PROA_EXPECT(c, is_index(index.dtype), "index of int32 or int64", dtype_of(c, 1));
  if (c.n_in > 2) {
    PROA_EXPECT(c, same_shape(index, c.in[2]), "weight of index's shape", shape_of(c, 1),
                shape_of(c, 2));
    PROA_EXPECT(c, c.in[2].dtype == x.dtype, "weight of x's dtype", dtype_of(c, 0), dtype_of(c, 2));
  }
  c.out[0].rank = 2;
  c.out[0].shape[0] = index.shape[0];
  c.out[0].shape[1] = x.shape[1];
  return Status::kOk;
}

// (x, boxes, image)
Status shape_roi_max_index(const Call& c) {
  const auto& a = c.attr<RoiMaxIndexAttrs>();
  const View &x = c.in[0], &boxes = c.in[1], &image = c.in[2];
  PROA_EXPECT(c, x.rank == 4, "x with 4 axes", shape_of(c, 0));
  PROA_EXPECT(c, boxes.rank == 2 && may_equal(boxes.shape[1], 4), "boxes of shape (n, 4)",
              shape_of(c, 1));
  PROA_EXPECT(c, boxes.dtype == x.dtype, "boxes of x's dtype", dtype_of(c, 0), dtype_of(c, 1));
  PROA_EXPECT(c, image.rank == 1 && may_equal(boxes.shape[0], image.shape[0]),
              "an image number for each box", shape_of(c, 1), shape_of(c, 2));
  PROA_EXPECT(c, is_index(image.dtype), "image of int32 or int64", dtype_of(c, 2));
  PROA_EXPECT(c, a.size.count == 2, "size of 2 numbers", named("size", a.size));
  View& out = c.out[0];
  out.rank = 4;
  out.shape[0] = first_known(boxes.shape[0], image.shape[0]);
  out.shape[1] = x.shape[1];
  for (int i = 0; i < 2; ++i) {
    PROA_EXPECT(c, a.size[i] >= 1 && a.size[i] <= INT32_MAX, "size of 2 numbers of at least 1",
                named("size", a.size));
    out.shape[2 + i] = a.size[i];
  }
  return Status::kOk;
}

// (boxes, valid)
Status shape_box_suppress(const Call& c) {
  const View &boxes = c.in[0], &valid = c.in[1];
  PROA_EXPECT(c, boxes.rank == 3 && may_equal(boxes.shape[2], 4), "boxes of shape (n, k, 4)",
              shape_of(c, 0));
  PROA_EXPECT(c,
              valid.rank == 2 && may_equal(boxes.shape[0], valid.shape[0]) &&
                  may_equal(boxes.shape[1], valid.shape[1]),
              "valid of shape (n, k)", shape_of(c, 0), shape_of(c, 1));
  PROA_EXPECT(c, valid.dtype == DType::kBool, "valid of bool", dtype_of(c, 1));
  c.out[0].rank = 2;
  for (int i = 0; i < 2; ++i) c.out[0].shape[i] = first_known(boxes.shape[i], valid.shape[i]);
  return Status::kOk;
}

}  // namespace proa
