// Shape rules of products, convolution, pooling, normalisation and losses.
#include "proa/gen/attrs/conv.h"
#include "proa/gen/attrs/norm.h"
#include "proa/gen/attrs/pool.h"
#include "proa/gen/shapes.h"
#include "proa/shapes/dims.h"

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

/// Arrays from the third on. The int8 rows have multiplier and bias, the others bias and residual:
/// all are vectors over channels but the residual, which has the output's shape.
bool extras_fit(const Call& c, int64_t channels) {
  const bool fused = c.n_in == 4;  // no promotion has made the dtypes equal
  const DType x = c.in[0].dtype, extra = x == DType::kI8 ? DType::kF32 : x;
  if (fused && c.in[1].dtype != x) return false;
  for (int i = 2; i < c.n_in; ++i) {
    const View& v = c.in[i];
    if (!v.given()) continue;
    if (fused && v.dtype != extra) return false;
    const bool residual = i == 3 && x != DType::kI8;
    const bool fits =
        residual ? same_shape(v, c.out[0]) : v.rank == 1 && may_equal(v.shape[0], channels);
    if (!fits) return false;
  }
  return true;
}

}  // namespace

Status shape_matmul(const Call& c) {
  const View &x = c.in[0], &y = c.in[1];
  if (x.rank < 2 || y.rank < 2) return Status::kInvalidArgument;
  if (!may_equal(x.shape[x.rank - 1], y.shape[y.rank - 2])) return Status::kInvalidArgument;
  View& out = c.out[0];
  if (!broadcast_leading(x, x.rank - 2, y, y.rank - 2, &out)) return Status::kInvalidArgument;
  out.shape[out.rank++] = x.shape[x.rank - 2];
  out.shape[out.rank++] = y.shape[y.rank - 1];
  return Status::kOk;
}

// x, w, then any of multiplier, bias (of the output's last dimension) and residual (of its shape).
Status shape_linear(const Call& c) {
  const View &x = c.in[0], &w = c.in[1];
  if (x.rank < 2 || w.rank != 2 || !may_equal(x.shape[x.rank - 1], w.shape[0])) {
    return Status::kInvalidArgument;
  }
  View& out = c.out[0];
  copy_shape(x, &out);
  out.shape[out.rank - 1] = w.shape[1];
  return extras_fit(c, w.shape[1]) ? Status::kOk : Status::kInvalidArgument;
}

Status shape_linear_grad_weight(const Call& c) {
  const View &x = c.in[0], &dy = c.in[1];
  if (x.rank < 2 || x.rank != dy.rank) return Status::kInvalidArgument;
  for (int i = 0; i + 1 < x.rank; ++i) {
    if (!may_equal(x.shape[i], dy.shape[i])) return Status::kInvalidArgument;
  }
  c.out[0].rank = 2;
  c.out[0].shape[0] = x.shape[x.rank - 1];
  c.out[0].shape[1] = dy.shape[dy.rank - 1];
  return Status::kOk;
}

Status shape_sum_leading(const Call& c) {
  if (c.in[0].rank < 1) return Status::kInvalidArgument;
  c.out[0].rank = 1;
  c.out[0].shape[0] = c.in[0].shape[c.in[0].rank - 1];
  return Status::kOk;
}

Status shape_sum_channels(const Call& c) {
  if (c.in[0].rank < 2) return Status::kInvalidArgument;
  c.out[0].rank = 1;
  c.out[0].shape[0] = c.in[0].shape[1];
  return Status::kOk;
}

namespace {

/// True for an array of rank 4 that has elements: there must be something to sum.
bool are_kernels(const View& w) {
  bool full = w.rank == 4;
  for (int i = 0; full && i < 4; ++i) full = w.shape[i] != 0;
  return full;
}

/// Positions of a window of `reach` elements over `size` elements; kUnknown if size is.
bool window_count(int64_t size, int64_t reach, int64_t stride, bool ceil, int64_t* out) {
  if (stride < 1 || reach < 1) return false;
  if (size == kUnknown) {
    *out = kUnknown;
    return true;
  }
  if (size < reach) return false;
  *out = (size - reach + (ceil ? stride - 1 : 0)) / stride + 1;
  return true;
}

}  // namespace

// Every row of this rule begins its attributes with stride, padding, dilation, groups.
Status shape_conv2d(const Call& c) {
  const auto& a = c.attr<Conv2dAttrs>();
  const View &x = c.in[0], &w = c.in[1];
  if (x.rank != 4 || !are_kernels(w)) return Status::kInvalidArgument;
  if (!is_list(a.stride, 2, 1) || !is_list(a.padding, 4, 0) || !is_list(a.dilation, 2, 1) ||
      a.groups < 1 || a.groups > INT32_MAX) {
    return Status::kInvalidArgument;
  }
  if (x.shape[1] != kUnknown && w.shape[1] != kUnknown && x.shape[1] != w.shape[1] * a.groups) {
    return Status::kInvalidArgument;
  }
  if (w.shape[0] != kUnknown && w.shape[0] % a.groups != 0) return Status::kInvalidArgument;
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
    if (!window_count(padded, (k - 1) * a.dilation[i] + 1, a.stride[i], false, &out.shape[2 + i])) {
      return Status::kInvalidArgument;
    }
  }
  return extras_fit(c, w.shape[0]) ? Status::kOk : Status::kInvalidArgument;
}

// x, w, center, factor, shift, then any of bias and residual.
Status shape_conv2d_norm(const Call& c) {
  Call plain = c;
  plain.n_in = 2;
  PROA_TRY(shape_conv2d(plain));
  for (int i = 1; i < c.n_in; ++i) {
    const View& v = c.in[i];
    if (i > 4 && !v.given()) continue;
    if (v.dtype != c.in[0].dtype) return Status::kInvalidArgument;
    if (i == 1) continue;
    const bool fits =
        i == 6 ? same_shape(v, c.out[0]) : v.rank == 1 && may_equal(v.shape[0], c.in[1].shape[0]);
    if (!fits) return Status::kInvalidArgument;
  }
  return Status::kOk;
}

Status shape_conv2d_transpose(const Call& c) {
  const auto& a = c.attr<Conv2dTransposeAttrs>();
  const View &x = c.in[0], &w = c.in[1];
  if (x.rank != 4 || !are_kernels(w)) return Status::kInvalidArgument;
  if (!is_list(a.stride, 2, 1) || !is_list(a.padding, 4, 0) || !is_list(a.dilation, 2, 1) ||
      !is_list(a.output_padding, 2, 0) || a.groups < 1 || a.groups > INT32_MAX) {
    return Status::kInvalidArgument;
  }
  if (!may_equal(x.shape[1], w.shape[0])) return Status::kInvalidArgument;
  const int64_t channels = known_of(x.shape[1], w.shape[0]);
  if (channels != kUnknown && channels % a.groups != 0) return Status::kInvalidArgument;
  View& out = c.out[0];
  out.rank = 4;
  out.shape[0] = x.shape[0];
  out.shape[1] = w.shape[1] == kUnknown ? kUnknown : w.shape[1] * a.groups;
  for (int i = 0; i < 2; ++i) {
    const int64_t d = x.shape[2 + i], k = w.shape[2 + i];
    // More would be positions that conv2d answers.
    if (a.output_padding[i] >= a.stride[i]) return Status::kInvalidArgument;
    int64_t size = kUnknown;
    if (d != kUnknown && k != kUnknown) {
      if (d < 1 || k < 1 || d > INT32_MAX || k > INT32_MAX) return Status::kInvalidArgument;
      size = (d - 1) * a.stride[i] + (k - 1) * a.dilation[i] + 1 + a.output_padding[i];
      size -= a.padding[2 * i] + a.padding[2 * i + 1];
      if (size < 1) return Status::kInvalidArgument;
    }
    out.shape[2 + i] = size;
  }
  return extras_fit(c, out.shape[1]) ? Status::kOk : Status::kInvalidArgument;
}

// Every row of this rule begins its attributes with kernel, stride, padding, ceil_mode.
Status shape_pool2d(const Call& c) {
  const auto& a = c.attr<MaxPool2dAttrs>();
  const View& x = c.in[0];
  if (x.rank != 4 || !is_list(a.kernel, 2, 1) || !is_list(a.stride, 2, 1) ||
      !is_list(a.padding, 4, 0)) {
    return Status::kInvalidArgument;
  }
  View& out = c.out[0];
  copy_shape(x, &out);
  for (int i = 0; i < 2; ++i) {
    const int64_t d = x.shape[2 + i], low = a.padding[2 * i], high = a.padding[2 * i + 1];
    // A window inside the padding alone would have nothing to pool.
    if (d == 0 || low >= a.kernel[i] || high >= a.kernel[i]) return Status::kInvalidArgument;
    const int64_t padded = d == kUnknown ? d : d + low + high;
    if (!window_count(padded, a.kernel[i], a.stride[i], a.ceil_mode != 0, &out.shape[2 + i])) {
      return Status::kInvalidArgument;
    }
    if (a.ceil_mode && d != kUnknown && (out.shape[2 + i] - 1) * a.stride[i] >= d + low) {
      --out.shape[2 + i];
    }
  }
  return Status::kOk;
}

Status shape_adaptive_pool2d(const Call& c) {
  const Ints& size = c.attr<AdaptiveAvgPool2dAttrs>().size;
  if (c.in[0].rank != 4 || !is_list(size, 2, 1)) return Status::kInvalidArgument;
  copy_shape(c.in[0], &c.out[0]);
  for (int i = 0; i < 2; ++i) {
    if (c.in[0].shape[2 + i] == 0) return Status::kInvalidArgument;  // windows of nothing
    c.out[0].shape[2 + i] = size[i];
  }
  return Status::kOk;
}

Status shape_batch_norm(const Call& c) {
  const View& x = c.in[0];
  if (x.rank < 2) return Status::kInvalidArgument;
  for (int i = 1; i < c.n_in; ++i) {
    if (c.in[i].rank != 1 || !may_equal(c.in[i].shape[0], x.shape[1])) {
      return Status::kInvalidArgument;
    }
  }
  copy_shape(x, &c.out[0]);
  copy_shape(c.in[1], &c.out[1]);
  copy_shape(c.in[1], &c.out[2]);
  return Status::kOk;
}

Status shape_channel_moments(const Call& c) {
  const View &x = c.in[0], &scale = c.in[1];
  const bool fits = x.rank >= 2 && scale.rank == 1 && may_equal(scale.shape[0], x.shape[1]);
  if (!fits || scale.dtype != x.dtype) return Status::kInvalidArgument;
  for (int k = 0; k < 3; ++k) copy_shape(scale, &c.out[k]);
  return Status::kOk;
}

Status shape_mean_last(const Call& c) {
  const int64_t axes = c.attr<MeanLastAttrs>().axes;
  if (axes < 0 || axes > c.in[0].rank) return Status::kInvalidArgument;
  copy_shape(c.in[0], &c.out[0]);
  c.out[0].rank = static_cast<int8_t>(c.in[0].rank - axes);
  return Status::kOk;
}

Status shape_layer_norm(const Call& c) {
  const View& x = c.in[0];
  const int64_t axes = c.attr<LayerNormAttrs>().axes;
  if (axes < 1 || axes > x.rank) return Status::kInvalidArgument;
  for (int i = 1; i < c.n_in; ++i) {
    if (c.in[i].rank != axes) return Status::kInvalidArgument;
    for (int a = 0; a < axes; ++a) {
      if (!may_equal(c.in[i].shape[a], x.shape[x.rank - axes + a])) return Status::kInvalidArgument;
    }
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
  if (x.rank < 2 || groups < 1) return Status::kInvalidArgument;
  if (x.shape[1] != kUnknown && x.shape[1] % groups != 0) return Status::kInvalidArgument;
  for (int i = 1; i < c.n_in; ++i) {
    if (c.in[i].rank != 1 || !may_equal(c.in[i].shape[0], x.shape[1])) {
      return Status::kInvalidArgument;
    }
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
  if (logits.rank != label.rank + 1 || logits.shape[label.rank] == 0) {
    return Status::kInvalidArgument;
  }
  for (int i = 0; i < label.rank; ++i) {
    if (!may_equal(label.shape[i], logits.shape[i])) return Status::kInvalidArgument;
  }
  copy_shape(label, &c.out[0]);
  return Status::kOk;
}

Status shape_label_mask(const Call& c) {
  if (c.in[0].rank + 1 > kMaxRank) return Status::kInvalidArgument;
  copy_shape(c.in[0], &c.out[0]);
  c.out[0].shape[c.out[0].rank++] = 1;
  return Status::kOk;
}

Status shape_label_gather(const Call& c) { return shape_softmax_cross_entropy(c); }

}  // namespace proa
