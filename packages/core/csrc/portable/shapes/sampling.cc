// Shape rules of windows, resampling and weighted rows.
#include "proa/gen/attrs/sampling.h"
#include "proa/gen/shapes.h"
#include "proa/shapes/dims.h"

namespace proa {

Status shape_windows(const Call& c) {
  const auto& a = c.attr<WindowsAttrs>();
  const View& x = c.in[0];
  View& out = c.out[0];
  const int axis = normal_axis(a.axis, x.rank);
  if (axis < 0 || x.rank + 1 > kMaxRank || a.size < 1 || a.step < 1 || a.dilation < 1 ||
      a.size > INT32_MAX || a.step > INT32_MAX || a.dilation > INT32_MAX) {
    return Status::kInvalidArgument;
  }
  copy_shape(x, &out);
  for (int i = 0; i < x.rank; ++i) out.stride[i] = x.stride[i];
  const int64_t d = x.shape[axis], reach = (a.size - 1) * a.dilation + 1;
  if (d != kUnknown) {
    if (d < reach) return Status::kInvalidArgument;
    out.shape[axis] = (d - reach) / a.step + 1;
  }
  out.stride[axis] = x.stride[axis] * a.step;
  out.shape[x.rank] = a.size;
  out.stride[x.rank] = x.stride[axis] * a.dilation;
  out.rank = static_cast<int8_t>(x.rank + 1);
  out.data = x.data;
  return Status::kOk;
}

// The gradient's attributes are the same.
Status shape_resize_axis(const Call& c) {
  const auto& a = c.attr<ResizeAxisAttrs>();
  const View& x = c.in[0];
  const int axis = normal_axis(a.axis, x.rank);
  if (axis < 0 || a.size < 0 || a.size > INT32_MAX || !(a.scale >= 0) || a.scale > INT32_MAX) {
    return Status::kInvalidArgument;
  }
  View& out = c.out[0];
  copy_shape(x, &out);
  const int64_t d = x.shape[axis];
  if (d == 0 || d > INT32_MAX) return Status::kInvalidArgument;
  if (a.size > 0) {
    out.shape[axis] = a.size;
  } else if (d != kUnknown) {
    out.shape[axis] = static_cast<int64_t>(static_cast<double>(d) * a.scale);
    if (out.shape[axis] < 1) return Status::kInvalidArgument;
  }
  return Status::kOk;
}

// (x, index, weight); the weights may be left out
Status shape_blend_rows(const Call& c) {
  const View &x = c.in[0], &index = c.in[1];
  if (x.rank != 2 || index.rank != 2) return Status::kInvalidArgument;
  if (index.dtype != DType::kI32 && index.dtype != DType::kI64) return Status::kInvalidArgument;
  if (c.n_in > 2 && (!same_shape(index, c.in[2]) || c.in[2].dtype != x.dtype)) {
    return Status::kInvalidArgument;
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
  if (x.rank != 4 || boxes.rank != 2 || image.rank != 1 || a.size.count != 2) {
    return Status::kInvalidArgument;
  }
  if (boxes.dtype != x.dtype || !may_equal(boxes.shape[1], 4) ||
      !may_equal(boxes.shape[0], image.shape[0])) {
    return Status::kInvalidArgument;
  }
  if (image.dtype != DType::kI32 && image.dtype != DType::kI64) return Status::kInvalidArgument;
  View& out = c.out[0];
  out.rank = 4;
  out.shape[0] = known_of(boxes.shape[0], image.shape[0]);
  out.shape[1] = x.shape[1];
  for (int i = 0; i < 2; ++i) {
    if (a.size[i] < 1 || a.size[i] > INT32_MAX) return Status::kInvalidArgument;
    out.shape[2 + i] = a.size[i];
  }
  return Status::kOk;
}

}  // namespace proa
