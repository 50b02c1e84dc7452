// Shape rules of products, convolution, pooling, normalisation and losses.
#include "proa/gen/attrs/conv.h"
#include "proa/gen/attrs/norm.h"
#include "proa/gen/attrs/pool.h"
#include "proa/gen/attrs/quant.h"
#include "proa/gen/shapes.h"
#include "proa/shapes/checks.h"

namespace proa {
namespace {

/// A list of `count` numbers from `lower` to what products of them never overflow.
bool is_list(const Ints& v, int count, int64_t lower) {
  if (v.count != count) return false;
  for (int i = 0; i < count; ++i) {
    if (v[i] < lower || v[i] > INT32_MAX) return false;
  }
  return true;
}

/// Arrays from the third on. The int8 rows have a multiplier, all have a bias and a residual:
/// vectors over channels but the residual, which has the output's shape, and of int8 rows any of
/// two dtypes.
Status check_extras(const Call& c, int64_t channels) {
  const DType x = c.in[0].dtype;
  const bool integer = x == DType::kI8;
  const bool fused = integer || c.n_in == 4;  // no promotion has made the dtypes equal
  PROA_EXPECT(c, !fused || c.in[1].dtype == x, "x and w of one dtype", dtype_of(c, 0),
              dtype_of(c, 1));
  for (int i = 2; i < c.n_in; ++i) {
    const View& v = c.in[i];
    if (!v.given()) continue;
    const bool residual = i == (integer ? 4 : 3);
    const bool typed =
        integer ? v.dtype == DType::kF32 || (residual && v.dtype == x) : v.dtype == x;
    PROA_EXPECT(c, !fused || typed, "vectors and residual of x's dtype (float32 of int8)",
                dtype_of(c, 0), dtype_of(c, i));
    const bool fits =
        residual ? same_shape(v, c.out[0]) : v.rank == 1 && may_equal(v.shape[0], channels);
    PROA_EXPECT(c, fits,
                residual ? "residual of the result's shape" : "one element for each output channel",
                shape_of(c, i), named("out_channels", channels), named("result.shape", c.out[0]));
  }
  return Status::kOk;
}

}  // namespace

Status shape_matmul(const Call& c) {
  const View &x = c.in[0], &y = c.in[1];
  PROA_EXPECT(c, x.rank >= 2 && y.rank >= 2, "x and y with at least 2 axes", shape_of(c, 0),
              shape_of(c, 1));
  const int64_t columns = x.shape[x.rank - 1], rows = y.shape[y.rank - 2];
  PROA_EXPECT(c, may_equal(columns, rows), "x's last axis as long as y's last but one",
              named("x.shape[-1]", columns), named("y.shape[-2]", rows));
  View& out = c.out[0];
  PROA_EXPECT(c, broadcast_leading(x, x.rank - 2, y, y.rank - 2, &out),
              "leading axes of x and y that broadcast", shape_of(c, 0), shape_of(c, 1));
  out.shape[out.rank++] = x.shape[x.rank - 2];
  out.shape[out.rank++] = y.shape[y.rank - 1];
  return Status::kOk;
}

// x, w, then any of multiplier, bias (of the output's last dimension) and residual (of its shape).
Status shape_linear(const Call& c) {
  const View &x = c.in[0], &w = c.in[1];
  PROA_EXPECT(c, x.rank >= 2, "x with at least 2 axes", shape_of(c, 0));
  PROA_EXPECT(c, w.rank == 2, "w with 2 axes (in_features, out_features)", shape_of(c, 1));
  PROA_EXPECT(c, may_equal(x.shape[x.rank - 1], w.shape[0]), "in_features equal to w.shape[0]",
              named("in_features", x.shape[x.rank - 1]), named("w.shape[0]", w.shape[0]));
  View& out = c.out[0];
  copy_shape(x, &out);
  out.shape[out.rank - 1] = w.shape[1];
  return check_extras(c, w.shape[1]);
}

/// Input i, if it is given, has an element of that dtype for each output channel.
static Status check_vector(const Call& c, int i, int64_t channels, DType dtype) {
  if (i >= c.n_in || !c.in[i].given()) return Status::kOk;
  PROA_EXPECT(c, c.in[i].dtype == dtype, "vectors of float32, or of x's dtype", dtype_of(c, i));
  PROA_EXPECT(c, c.in[i].rank == 1 && may_equal(c.in[i].shape[0], channels),
              "one element for each output channel", shape_of(c, i),
              named("out_channels", channels));
  return Status::kOk;
}

Status shape_linear_dynamic(const Call& c) {
  const View &x = c.in[0], &w = c.in[1];
  PROA_EXPECT(c, x.rank >= 2, "x with at least 2 axes", shape_of(c, 0));
  PROA_EXPECT(c, w.rank == 2 && w.dtype == DType::kI8,
              "w of int8 with 2 axes (in_features, out_features)", shape_of(c, 1), dtype_of(c, 1));
  PROA_EXPECT(c, may_equal(x.shape[x.rank - 1], w.shape[0]), "in_features equal to w.shape[0]",
              named("in_features", x.shape[x.rank - 1]), named("w.shape[0]", w.shape[0]));
  PROA_TRY(check_vector(c, 2, w.shape[1], DType::kF32));
  PROA_TRY(check_vector(c, 3, w.shape[1], DType::kF32));
  // Rounded rows are within -127 .. 127, or 0 .. 255 less a zero point that is so, too.
  const int64_t reach = c.attr<LinearDynamicAttrs>().symmetric != 0 ? 127 : 255;
  PROA_TRY(check_int8_sum(c, w.shape[0], reach, int8_reach(0)));
  copy_shape(x, &c.out[0]);
  c.out[0].shape[x.rank - 1] = w.shape[1];
  return Status::kOk;
}

/// scale and zero of linear_weight_only: (out, groups).
static Status check_groups(const Call& c, int64_t groups) {
  const View& scale = c.in[2];
  const bool narrow = scale.dtype == DType::kF16 || scale.dtype == DType::kBF16;
  PROA_EXPECT(c, narrow || scale.dtype == DType::kF32, "scale of float32 or 16-bit floats",
              dtype_of(c, 2));
  for (int i = 2; i < 4 && i < c.n_in; ++i) {
    const View& v = c.in[i];
    if (!v.given()) continue;
    PROA_EXPECT(c, i == 2 || v.dtype == DType::kU8, "zero of uint8", dtype_of(c, i));
    const bool fits = v.rank == 2 && may_equal(v.shape[0], c.in[1].shape[0]);
    PROA_EXPECT(c, fits && may_equal(v.shape[1], groups), "one element for each group of a row",
                shape_of(c, i), named("groups", groups));
  }
  return Status::kOk;
}

Status shape_linear_weight_only(const Call& c) {
  const auto& a = c.attr<LinearWeightOnlyAttrs>();
  const View &x = c.in[0], &w = c.in[1];
  PROA_EXPECT(c, a.bits == 4 || a.bits == 8, "bits of 4 or 8", named("bits", a.bits));
  PROA_EXPECT(c, a.group > 0 && a.group <= INT32_MAX && a.group * a.bits % 8 == 0,
              "group of whole bytes", named("group", a.group));
  PROA_EXPECT(c, x.rank >= 2, "x with at least 2 axes", shape_of(c, 0));
  PROA_EXPECT(c, w.rank == 2 && w.dtype == DType::kU8,
              "w of uint8 with 2 axes (out_features, bytes)", shape_of(c, 1), dtype_of(c, 1));
  const int64_t depth = x.shape[x.rank - 1];
  const bool known = depth != kUnknown;
  const int64_t groups = known ? (depth + a.group - 1) / a.group : kUnknown;
  const int64_t bytes = known ? groups * (a.group * a.bits / 8) : kUnknown;
  PROA_EXPECT(c, may_equal(w.shape[1], bytes), "whole groups in each row of w",
              named("in_features", depth), named("group", a.group), shape_of(c, 1));
  PROA_TRY(check_groups(c, groups));
  PROA_TRY(check_vector(c, 4, w.shape[0], x.dtype));
  copy_shape(x, &c.out[0]);
  c.out[0].shape[x.rank - 1] = w.shape[0];
  return Status::kOk;
}

Status shape_linear_grad_weight(const Call& c) {
  const View &x = c.in[0], &dy = c.in[1];
  PROA_EXPECT(c, x.rank >= 2, "x with at least 2 axes", shape_of(c, 0));
  bool fits = x.rank == dy.rank;
  for (int i = 0; fits && i + 1 < x.rank; ++i) fits = may_equal(x.shape[i], dy.shape[i]);
  PROA_EXPECT(c, fits, "x and dy with equal leading axes", shape_of(c, 0), shape_of(c, 1));
  c.out[0].rank = 2;
  c.out[0].shape[0] = x.shape[x.rank - 1];
  c.out[0].shape[1] = dy.shape[dy.rank - 1];
  return Status::kOk;
}

// x (n, c, h, w) and gate (n, c, 1, 1).
Status shape_gate_int8(const Call& c) {
  const View &x = c.in[0], &gate = c.in[1];
  PROA_EXPECT(c, x.rank == 4, "x of 4 axes (n, c, h, w)", shape_of(c, 0));
  const bool fits = gate.rank == 4 && may_equal(gate.shape[0], x.shape[0]) &&
                    may_equal(gate.shape[1], x.shape[1]) && may_equal(gate.shape[2], 1) &&
                    may_equal(gate.shape[3], 1);
  PROA_EXPECT(c, fits && gate.dtype == DType::kF32, "gate of shape (n, c, 1, 1) in float32",
              shape_of(c, 1), dtype_of(c, 1), shape_of(c, 0));
  return shape_same(c);
}

// x (n, c, h, w), not without pixels.
Status shape_mean_int8(const Call& c) {
  const View& x = c.in[0];
  PROA_EXPECT(c, x.rank == 4 && x.shape[2] != 0 && x.shape[3] != 0,
              "x of 4 axes (n, c, h, w) with pixels", shape_of(c, 0));
  int64_t pixels = 1;
  for (int i = 2; i < 4; ++i) {
    if (x.shape[i] == kUnknown) continue;
    pixels *= x.shape[i];
    PROA_TRY(check_int8_sum(c, pixels, int8_reach(0), 1));
  }
  copy_shape(x, &c.out[0]);
  c.out[0].shape[2] = c.out[0].shape[3] = 1;
  return Status::kOk;
}

Status shape_sum_leading(const Call& c) {
  PROA_EXPECT(c, c.in[0].rank >= 1, "x with at least 1 axis", shape_of(c, 0));
  c.out[0].rank = 1;
  c.out[0].shape[0] = c.in[0].shape[c.in[0].rank - 1];
  return Status::kOk;
}

Status shape_sum_channels(const Call& c) {
  PROA_EXPECT(c, c.in[0].rank >= 2, "x with at least 2 axes", shape_of(c, 0));
  c.out[0].rank = 1;
  c.out[0].shape[0] = c.in[0].shape[1];
  return Status::kOk;
}

namespace {

/// x and w have 4 axes, and w has elements: there must be something to sum. Products of its sizes
/// with attributes do not overflow.
Status check_image_and_kernel(const Call& c) {
  PROA_EXPECT(c, c.in[0].rank == 4, "x with 4 axes", shape_of(c, 0));
  const View& w = c.in[1];
  bool full = w.rank == 4, small = true;
  for (int i = 0; full && i < 4; ++i) {
    full = w.shape[i] != 0;
    small &= w.shape[i] <= INT32_MAX;
  }
  PROA_EXPECT(c, full, "w with 4 axes, none of them empty", shape_of(c, 1));
  PROA_EXPECT(c, small, "w with axes of at most 2147483647 elements", shape_of(c, 1));
  return Status::kOk;
}

/// Attributes stride, padding, dilation and groups of convolutions.
Status check_steps(const Call& c) {
  const auto& a = c.attr<Conv2dAttrs>();
  PROA_EXPECT(c, is_list(a.stride, 2, 1), "stride of 2 numbers of at least 1",
              named("stride", a.stride));
  PROA_EXPECT(c, is_list(a.padding, 4, 0), "padding of 4 numbers of at least 0",
              named("padding", a.padding));
  PROA_EXPECT(c, is_list(a.dilation, 2, 1), "dilation of 2 numbers of at least 1",
              named("dilation", a.dilation));
  PROA_EXPECT(c, a.groups >= 1 && a.groups <= INT32_MAX, "groups of at least 1",
              named("groups", a.groups));
  return Status::kOk;
}

/// Positions of a window of `extent` elements over `size` elements along height (side 0) or width;
/// kUnknown if size is.
Status count_windows(const Call& c, int side, int64_t size, int64_t extent, int64_t stride,
                     bool ceil, int64_t* out) {
  if (size == kUnknown) {
    *out = kUnknown;
    return Status::kOk;
  }
  PROA_EXPECT(c, size >= extent, "a kernel no larger than the padded image",
              named(side == 0 ? "kernel_height" : "kernel_width", extent),
              named(side == 0 ? "padded_height" : "padded_width", size));
  *out = (size - extent + (ceil ? stride - 1 : 0)) / stride + 1;
  return Status::kOk;
}

}  // namespace

// Every row of this rule begins its attributes with stride, padding, dilation, groups.
Status shape_conv2d(const Call& c) {
  const auto& a = c.attr<Conv2dAttrs>();
  const View &x = c.in[0], &w = c.in[1];
  PROA_TRY(check_image_and_kernel(c));
  PROA_TRY(check_steps(c));
  const int64_t channels = x.shape[1];
  PROA_EXPECT(
      c, channels == kUnknown || w.shape[1] == kUnknown || channels == w.shape[1] * a.groups,
      channels % a.groups != 0 ? "in_channels divisible by groups"
                               : "in_channels equal to groups * w.shape[1]",
      named("in_channels", channels), named("groups", a.groups), named("w.shape[1]", w.shape[1]));
  PROA_EXPECT(c, divides(a.groups, w.shape[0]), "out_channels divisible by groups",
              named("out_channels", w.shape[0]), named("groups", a.groups));
  View& out = c.out[0];
  out.rank = 4;
  out.shape[0] = x.shape[0];
  out.shape[1] = w.shape[0];
  for (int i = 0; i < 2; ++i) {
    const int64_t d = x.shape[2 + i], k = w.shape[2 + i];
    if (k == kUnknown) {
      out.shape[2 + i] = kUnknown;
      continue;
    }
    const int64_t padded = d == kUnknown ? d : d + a.padding[2 * i] + a.padding[2 * i + 1];
    const int64_t extent = (k - 1) * a.dilation[i] + 1;
    PROA_TRY(count_windows(c, i, padded, extent, a.stride[i], false, &out.shape[2 + i]));
  }
  return check_extras(c, w.shape[0]);
}

// x, w, center, factor, shift, then any of bias and residual.
Status shape_conv2d_norm(const Call& c) {
  Call plain = c;
  plain.n_in = 2;
  PROA_TRY(shape_conv2d(plain));
  for (int i = 1; i < c.n_in; ++i) {
    const View& v = c.in[i];
    if (i > 4 && !v.given()) continue;
    PROA_EXPECT(c, v.dtype == c.in[0].dtype, "arrays of x's dtype", dtype_of(c, 0), dtype_of(c, i));
    if (i == 1) continue;
    const int64_t channels = c.in[1].shape[0];
    const bool fits =
        i == 6 ? same_shape(v, c.out[0]) : v.rank == 1 && may_equal(v.shape[0], channels);
    PROA_EXPECT(c, fits,
                i == 6 ? "residual of the result's shape" : "one element for each output channel",
                shape_of(c, i), named("out_channels", channels), named("result.shape", c.out[0]));
  }
  return Status::kOk;
}

Status shape_conv2d_transpose(const Call& c) {
  const auto& a = c.attr<Conv2dTransposeAttrs>();
  const View &x = c.in[0], &w = c.in[1];
  PROA_TRY(check_image_and_kernel(c));
  PROA_TRY(check_steps(c));
  PROA_EXPECT(c, is_list(a.output_padding, 2, 0), "output_padding of 2 numbers of at least 0",
              named("output_padding", a.output_padding));
  PROA_EXPECT(c, may_equal(x.shape[1], w.shape[0]), "in_channels equal to w.shape[0]",
              named("in_channels", x.shape[1]), named("w.shape[0]", w.shape[0]));
  const int64_t channels = first_known(x.shape[1], w.shape[0]);
  PROA_EXPECT(c, divides(a.groups, channels), "in_channels divisible by groups",
              named("in_channels", channels), named("groups", a.groups));
  View& out = c.out[0];
  out.rank = 4;
  out.shape[0] = x.shape[0];
  out.shape[1] = w.shape[1] == kUnknown ? kUnknown : w.shape[1] * a.groups;
  for (int i = 0; i < 2; ++i) {
    const int64_t d = x.shape[2 + i], k = w.shape[2 + i];
    // More would be positions that conv2d answers.
    PROA_EXPECT(c, a.output_padding[i] < a.stride[i], "output_padding less than stride",
                named("output_padding", a.output_padding[i]), named("stride", a.stride[i]));
    int64_t size = kUnknown;
    if (d != kUnknown && k != kUnknown) {
      PROA_EXPECT(c, d >= 1 && k >= 1 && d <= INT32_MAX && k <= INT32_MAX,
                  "an image and a kernel with pixels", shape_of(c, 0), shape_of(c, 1));
      size = (d - 1) * a.stride[i] + (k - 1) * a.dilation[i] + 1 + a.output_padding[i];
      size -= a.padding[2 * i] + a.padding[2 * i + 1];
      PROA_EXPECT(c, size >= 1, "a result with pixels",
                  named(i == 0 ? "result_height" : "result_width", size), shape_of(c, 0),
                  named("padding", a.padding));
    }
    out.shape[2 + i] = size;
  }
  return check_extras(c, out.shape[1]);
}

// Every row of this rule begins its attributes with kernel, stride, padding, ceil_mode.
Status shape_pool2d(const Call& c) {
  const auto& a = c.attr<MaxPool2dAttrs>();
  const View& x = c.in[0];
  PROA_EXPECT(c, x.rank == 4, "x with 4 axes", shape_of(c, 0));
  PROA_EXPECT(c, is_list(a.kernel, 2, 1), "kernel of 2 numbers of at least 1",
              named("kernel", a.kernel));
  PROA_EXPECT(c, is_list(a.stride, 2, 1), "stride of 2 numbers of at least 1",
              named("stride", a.stride));
  PROA_EXPECT(c, is_list(a.padding, 4, 0), "padding of 4 numbers of at least 0",
              named("padding", a.padding));
  View& out = c.out[0];
  copy_shape(x, &out);
  for (int i = 0; i < 2; ++i) {
    const int64_t d = x.shape[2 + i], low = a.padding[2 * i], high = a.padding[2 * i + 1];
    // A window inside the padding alone would have nothing to pool.
    PROA_EXPECT(c, d != 0, "an image with pixels", shape_of(c, 0));
    PROA_EXPECT(c, low < a.kernel[i] && high < a.kernel[i], "padding less than the kernel",
                named("padding", a.padding), named("kernel", a.kernel));
    const int64_t padded = d == kUnknown ? d : d + low + high;
    PROA_TRY(
        count_windows(c, i, padded, a.kernel[i], a.stride[i], a.ceil_mode != 0, &out.shape[2 + i]));
    if (a.ceil_mode && d != kUnknown && (out.shape[2 + i] - 1) * a.stride[i] >= d + low) {
      --out.shape[2 + i];
    }
  }
  return Status::kOk;
}

Status shape_adaptive_pool2d(const Call& c) {
  const Ints& size = c.attr<AdaptiveAvgPool2dAttrs>().size;
  PROA_EXPECT(c, c.in[0].rank == 4, "x with 4 axes", shape_of(c, 0));
  PROA_EXPECT(c, is_list(size, 2, 1), "size of 2 numbers of at least 1", named("size", size));
  copy_shape(c.in[0], &c.out[0]);
  for (int i = 0; i < 2; ++i) {
    PROA_EXPECT(c, c.in[0].shape[2 + i] != 0, "an image with pixels", shape_of(c, 0));
    c.out[0].shape[2 + i] = size[i];
  }
  return Status::kOk;
}

Status shape_batch_norm(const Call& c) {
  const View& x = c.in[0];
  PROA_EXPECT(c, x.rank >= 2, "x with at least 2 axes", shape_of(c, 0));
  for (int i = 1; i < c.n_in; ++i) {
    PROA_TRY(check_precision(c, i, 0));
    PROA_TRY(check_channels(c, i, 0));
  }
  copy_shape(x, &c.out[0]);
  copy_shape(c.in[1], &c.out[1]);
  copy_shape(c.in[1], &c.out[2]);
  return Status::kOk;
}

Status shape_channel_moments(const Call& c) {
  const View &x = c.in[0], &scale = c.in[1];
  PROA_EXPECT(c, x.rank >= 2, "x with at least 2 axes", shape_of(c, 0));
  PROA_TRY(check_channels(c, 1, 0));
  PROA_EXPECT(c, scale.dtype == x.dtype, "scale of x's dtype", dtype_of(c, 0), dtype_of(c, 1));
  for (int k = 0; k < 3; ++k) copy_shape(scale, &c.out[k]);
  return Status::kOk;
}

Status shape_mean_last(const Call& c) {
  const int64_t axes = c.attr<MeanLastAttrs>().axes;
  PROA_EXPECT(c, axes >= 0 && axes <= c.in[0].rank, "axes from 0 to the number of axes of x",
              named("axes", axes), shape_of(c, 0));
  copy_shape(c.in[0], &c.out[0]);
  c.out[0].rank = static_cast<int8_t>(c.in[0].rank - axes);
  return Status::kOk;
}

Status shape_layer_norm(const Call& c) {
  const View& x = c.in[0];
  const int64_t axes = c.attr<LayerNormAttrs>().axes;
  PROA_EXPECT(c, axes >= 1 && axes <= x.rank, "axes from 1 to the number of axes of x",
              named("axes", axes), shape_of(c, 0));
  for (int i = 1; i < c.n_in; ++i) {
    PROA_TRY(check_precision(c, i, 0));
    bool fits = c.in[i].rank == axes;
    for (int a = 0; fits && a < axes; ++a) {
      fits = may_equal(c.in[i].shape[a], x.shape[x.rank - axes + a]);
    }
    PROA_EXPECT(c, fits, "scale and bias of the shape of the last axes of x", shape_of(c, i),
                named("axes", axes), shape_of(c, 0));
  }
  copy_shape(x, &c.out[0]);
  for (int i = 1; i < 3; ++i) {
    copy_shape(x, &c.out[i]);
    c.out[i].rank = static_cast<int8_t>(x.rank - axes);
  }
  return Status::kOk;
}

Status shape_group_norm(const Call& c) {
  const View& x = c.in[0];
  const int64_t groups = c.attr<GroupNormAttrs>().groups;
  PROA_EXPECT(c, x.rank >= 2, "x with at least 2 axes", shape_of(c, 0));
  PROA_EXPECT(c, groups >= 1, "groups of at least 1", named("groups", groups));
  PROA_EXPECT(c, divides(groups, x.shape[1]), "channels divisible by groups",
              named("channels", x.shape[1]), named("groups", groups));
  for (int i = 1; i < c.n_in; ++i) {
    PROA_TRY(check_precision(c, i, 0));
    PROA_TRY(check_channels(c, i, 0));
  }
  copy_shape(x, &c.out[0]);
  for (int i = 1; i < 3; ++i) {
    c.out[i].rank = 2;
    c.out[i].shape[0] = x.shape[0];
    c.out[i].shape[1] = groups;
  }
  return Status::kOk;
}

Status shape_softmax_cross_entropy(const Call& c) {
  const View &label = c.in[0], &logits = c.in[1];
  PROA_TRY(check_floating(c, 1));
  PROA_EXPECT(c, logits.rank == label.rank + 1, "logits with the axes of label and one of classes",
              shape_of(c, 0), shape_of(c, 1));
  PROA_EXPECT(c, logits.shape[label.rank] != 0, "at least one class", shape_of(c, 1));
  for (int i = 0; i < label.rank; ++i) {
    PROA_EXPECT(c, may_equal(label.shape[i], logits.shape[i]), "logits and label with equal sizes",
                shape_of(c, 0), shape_of(c, 1));
  }
  copy_shape(label, &c.out[0]);
  return Status::kOk;
}

Status shape_label_mask(const Call& c) {
  PROA_TRY(check_floating(c, 1));
  PROA_EXPECT(c, c.in[0].rank < kMaxRank, "label with at most 7 axes", shape_of(c, 0));
  copy_shape(c.in[0], &c.out[0]);
  c.out[0].shape[c.out[0].rank++] = 1;
  return Status::kOk;
}

Status shape_label_gather(const Call& c) { return shape_softmax_cross_entropy(c); }

}  // namespace proa
