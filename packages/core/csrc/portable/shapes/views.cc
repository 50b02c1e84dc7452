// Views: the shape, and where the data is known also the strides, over the input's memory.
#include <limits.h>

#include "proa/base/expect.h"
#include "proa/gen/attrs/movement.h"
#include "proa/gen/attrs/norm.h"
#include "proa/gen/shapes.h"
#include "proa/shapes/dims.h"

namespace proa {
namespace {

void set_view_offset(const Call& c, int64_t elements) {
  if (c.view_offset != nullptr) *c.view_offset = elements;
}

/// Strides of the output (shape set, same elements in row-major order) over the memory of x.
Status regroup(const Call& c) {
  const View& x = c.in[0];
  View* out = &c.out[0];
  // What has too many elements to count counts as unknown: infer() refuses it, and shapes without
  // elements whose strides do not fit.
  const int64_t total = x.numel(), stated = product(*out, 0, out->rank);
  if (total == kUnknown || stated == kUnknown || !bytes_fit(*out)) return Status::kOk;
  PROA_EXPECT(c, total == stated, "a shape with as many elements as x", named("shape", *out),
              shape_of(c, 0));
  if (total == 0 || x.contiguous()) {
    out->set_contiguous();
    return Status::kOk;
  }
  // Match groups of dimensions with equal products, from the innermost; each group of x must be
  // evenly spaced in memory.
  int ix = x.rank - 1, io = out->rank - 1;
  while (ix >= 0 || io >= 0) {
    while (ix >= 0 && x.shape[ix] == 1) --ix;
    if (ix < 0) {
      for (; io >= 0; --io) out->stride[io] = 1;
      break;
    }
    const int64_t step = x.stride[ix];
    int64_t have = x.shape[ix], covered = 1;
    int last = ix;
    while (true) {
      if (io >= 0 && covered < have) {
        out->stride[io] = step * covered;
        covered *= out->shape[io--];
      } else if (covered > have) {
        int next = last - 1;
        while (next >= 0 && x.shape[next] == 1) --next;
        PROA_EXPECT(c, next >= 0, "a shape with as many elements as x", named("shape", *out),
                    shape_of(c, 0));
        if (x.stride[next] != x.stride[last] * x.shape[last]) return Status::kNotAView;
        have *= x.shape[next];
        last = next;
      } else {
        break;
      }
    }
    while (io >= 0 && out->shape[io] == 1) out->stride[io--] = step * covered;
    ix = last - 1;
  }
  return Status::kOk;
}

}  // namespace

Status shape_reshape(const Call& c) {
  const Ints& shape = c.attr<ReshapeAttrs>().shape;
  const View& x = c.in[0];
  View& out = c.out[0];
  PROA_EXPECT(c, shape.count >= 0, "a list of sizes", named("shape", shape));
  out.rank = static_cast<int8_t>(shape.count);
  int open = -1;
  for (int i = 0; i < shape.count; ++i) {
    int64_t d = shape[i];
    if (d == 0) {
      PROA_EXPECT(c, i < x.rank, "0 only where x has an axis, whose size it keeps",
                  named("shape", shape), shape_of(c, 0));
      d = x.shape[i];
    } else if (d == -1) {
      PROA_EXPECT(c, open < 0, "at most one size of -1", named("shape", shape));
      open = i;
      d = 1;
    }
    PROA_EXPECT(c, d >= 0 || shape[i] == 0, "sizes of at least -1", named("shape", shape));
    out.shape[i] = d;
  }
  if (open >= 0) {
    // Dimensions kept by 0 cancel, so that an unknown one on both sides does no harm.
    int64_t from = 1, to = 1;
    bool unknown = false;
    for (int i = 0; i < x.rank; ++i) {
      if (i < shape.count && shape[i] == 0) continue;
      if (x.shape[i] == kUnknown) {
        unknown = true;
      } else {
        from *= x.shape[i];
      }
    }
    for (int i = 0; i < shape.count; ++i) {
      PROA_EXPECT(c, shape[i] <= 0 || !__builtin_mul_overflow(to, shape[i], &to),
                  "a shape with as many elements as x", named("shape", shape), shape_of(c, 0));
    }
    PROA_EXPECT(c, unknown || (to > 0 && from % to == 0),
                "a shape with as many elements as x, which the other sizes divide",
                named("shape", shape), shape_of(c, 0));
    out.shape[open] = unknown ? kUnknown : from / to;
  }
  return regroup(c);
}

Status shape_reshape_like(const Call& c) {
  copy_shape(c.in[1], &c.out[0]);
  return regroup(c);
}

/// The dimension that a number axis + kMaxRank * array names; less than kUnknown if there is none.
static int64_t named_size(const Call& c, int64_t name) {
  const int64_t array = name / kMaxRank, axis = name % kMaxRank;
  return array < c.n_in && axis < c.in[array].rank ? c.in[array].shape[axis] : kUnknown - 1;
}

/// What `limits` of `sized` makes of a size; kUnknown or less as for `computed_size`.
static int64_t limited_size(const Call& c, int64_t size, int64_t limit) {
  constexpr int64_t kNone = kUnknown - 1;
  if (limit == -1) return size < 0 ? kNone : size;
  const int64_t end = named_size(c, limit < -1 ? -(limit + 2) : limit);
  if (end <= kUnknown) return end;
  if (limit < -1 && size < 0) size += end;
  return size < 0 ? 0 : size < end ? size : end;
}

static int64_t limit_of(const SizedAttrs& a, int i) {
  return a.limits.count > 0 ? a.limits[i] : -1;
}

/// Dimension i of `sized`: kUnknown if known only at run time, less if there is none.
static int64_t computed_size(const Call& c, int i) {
  const auto& a = c.attr<SizedAttrs>();
  constexpr int64_t kNone = kUnknown - 1;
  const int64_t limit = limit_of(a, i);
  if (a.axes[i] < 0) return limited_size(c, a.sizes[i], limit);
  const bool less = a.plus[i] < -1;
  const int64_t n = named_size(c, a.axes[i]), divisor = a.divisors[i];
  const int64_t more = a.plus[i] == -1 ? 0 : named_size(c, less ? -(a.plus[i] + 2) : a.plus[i]);
  if (divisor < 1 || n < kUnknown || more < kUnknown) return kNone;
  // Limits are checked even where no size is known.
  if (n == kUnknown || more == kUnknown) {
    return limited_size(c, 0, limit) < kUnknown ? kNone : kUnknown;
  }
  int64_t size = 0;
  if (__builtin_mul_overflow(n, a.sizes[i], &size) ||
      __builtin_add_overflow(size / divisor - (size % divisor < 0), a.extras[i], &size) ||
      __builtin_add_overflow(size, less ? -more : more, &size)) {
    return kNone;
  }
  return limited_size(c, size, limit);
}

Status shape_sized(const Call& c) {
  const auto& a = c.attr<SizedAttrs>();
  View& out = c.out[0];
  const int64_t rank = a.sizes.count;
  const bool lists = rank >= 0 && a.axes.count == rank && a.divisors.count == rank &&
                     a.extras.count == rank && a.plus.count == rank &&
                     (a.limits.count == rank || a.limits.count == 0);
  PROA_EXPECT(c, lists, "lists of one length", named("sizes", a.sizes), named("axes", a.axes));
  out.rank = static_cast<int8_t>(rank);
  const int64_t all = c.in[0].numel();
  int rest = -1;
  int64_t others = 1;
  bool unknown = all == kUnknown;
  for (int i = 0; i < rank; ++i) {
    out.stride[i] = 0;
    if (a.axes[i] < 0 && a.sizes[i] == -1 && limit_of(a, i) == -1) {
      PROA_EXPECT(c, rest < 0, "at most one size of -1", named("sizes", a.sizes));
      rest = i;
      continue;
    }
    const int64_t n = out.shape[i] = computed_size(c, i);
    PROA_EXPECT(c, n >= kUnknown, "sizes of at least 0, of axes that the arrays have",
                named("sizes", a.sizes), named("axes", a.axes), shape_of(c, 0));
    unknown |= n == kUnknown;
    PROA_EXPECT(c, n < 0 || !__builtin_mul_overflow(others, n, &others), "fewer than 2^63 elements",
                named("sizes", a.sizes));
  }
  if (rest < 0) return Status::kOk;
  PROA_EXPECT(c, unknown || (others > 0 && all % others == 0),
              "as many elements as the first array, which the other sizes divide",
              named("elements", all), named("others", others));
  out.shape[rest] = unknown ? kUnknown : all / others;
  return Status::kOk;
}

Status shape_flatten(const Call& c) {
  const auto& a = c.attr<FlattenAttrs>();
  const View& x = c.in[0];
  View& out = c.out[0];
  if (x.rank == 0) {
    out.rank = 1;
    out.shape[0] = 1;
    return regroup(c);
  }
  const int start = normal_axis(a.start_axis, x.rank), stop = normal_axis(a.stop_axis, x.rank);
  PROA_EXPECT(c, start >= 0 && stop >= start, "start_axis and stop_axis of x, in this order",
              named("start_axis", a.start_axis), named("stop_axis", a.stop_axis), shape_of(c, 0));
  int rank = 0;
  for (int i = 0; i < start; ++i) out.shape[rank++] = x.shape[i];
  out.shape[rank++] = product(x, start, stop + 1);
  for (int i = stop + 1; i < x.rank; ++i) out.shape[rank++] = x.shape[i];
  out.rank = static_cast<int8_t>(rank);
  return regroup(c);
}

Status shape_squeeze(const Call& c) {
  const Ints& axes = c.attr<SqueezeAttrs>().axis;
  const View& x = c.in[0];
  View& out = c.out[0];
  uint32_t mask;
  PROA_EXPECT(c, axis_mask(axes, x.rank, &mask), "axes of x, each named once", named("axis", axes),
              shape_of(c, 0));
  int rank = 0;
  for (int i = 0; i < x.rank; ++i) {
    if ((mask >> i & 1) && x.shape[i] == 1) continue;
    out.shape[rank] = x.shape[i];
    out.stride[rank++] = x.stride[i];
  }
  out.rank = static_cast<int8_t>(rank);
  return Status::kOk;
}

Status shape_unsqueeze(const Call& c) {
  const Ints& axes = c.attr<UnsqueezeAttrs>().axis;
  const View& x = c.in[0];
  View& out = c.out[0];
  const int rank = x.rank + static_cast<int>(axes.count > 0 ? axes.count : 0);
  PROA_EXPECT(c, rank <= kMaxRank, "a result with at most 8 axes", named("axis", axes),
              shape_of(c, 0));
  uint32_t mask = 0;
  for (int i = 0; i < axes.count; ++i) {
    const int a = normal_axis(axes[i], rank);
    PROA_EXPECT(c, a >= 0 && (mask >> a & 1) == 0, "axes of the result, each named once",
                named("axis", axes), shape_of(c, 0));
    mask |= 1u << a;
  }
  int from = x.rank - 1;
  int64_t stride = 1;
  for (int i = rank - 1; i >= 0; --i) {
    if (mask >> i & 1) {
      out.shape[i] = 1;
      out.stride[i] = stride;
    } else {
      out.shape[i] = x.shape[from];
      out.stride[i] = x.stride[from--];
      stride = out.stride[i] * (out.shape[i] > 0 ? out.shape[i] : 1);
    }
  }
  out.rank = static_cast<int8_t>(rank);
  return Status::kOk;
}

Status shape_transpose(const Call& c) {
  const Ints& perm = c.attr<TransposeAttrs>().perm;
  const View& x = c.in[0];
  View& out = c.out[0];
  uint32_t mask;
  PROA_EXPECT(c, perm.count == x.rank && (x.rank == 0 || axis_mask(perm, x.rank, &mask)),
              "perm that names every axis of x once", named("perm", perm), shape_of(c, 0));
  for (int i = 0; i < x.rank; ++i) {
    const int from = normal_axis(perm[i], x.rank);
    out.shape[i] = x.shape[from];
    out.stride[i] = x.stride[from];
  }
  out.rank = x.rank;
  return Status::kOk;
}

Status shape_swap_last(const Call& c) {
  const View& x = c.in[0];
  View& out = c.out[0];
  PROA_EXPECT(c, x.rank >= 2, "x with at least 2 axes", shape_of(c, 0));
  for (int i = 0; i < x.rank; ++i) {
    const int from = i < x.rank - 2 ? i : 2 * x.rank - 3 - i;
    out.shape[i] = x.shape[from];
    out.stride[i] = x.stride[from];
  }
  out.rank = x.rank;
  return Status::kOk;
}

namespace {

/// Zero strides over the axes along which x is repeated to the shape of the output (set).
Status broadcast_view(const Call& c) {
  const View& x = c.in[0];
  View* out = &c.out[0];
  PROA_EXPECT(c, broadcasts_to(x, *out), "x that broadcasts to the shape", shape_of(c, 0),
              named("shape", *out));
  const int lead = out->rank - x.rank;
  for (int i = 0; i < out->rank; ++i) {
    const int from = i - lead;
    if (from < 0) {
      out->stride[i] = 0;
    } else {
      out->stride[i] = x.shape[from] == 1 && out->shape[i] != 1 ? 0 : x.stride[from];
    }
  }
  return Status::kOk;
}

}  // namespace

Status shape_broadcast_to(const Call& c) {
  const Ints& shape = c.attr<BroadcastToAttrs>().shape;
  const View& x = c.in[0];
  View& out = c.out[0];
  PROA_EXPECT(c, shape.count >= x.rank, "a shape with at least the axes of x",
              named("shape", shape), shape_of(c, 0));
  out.rank = static_cast<int8_t>(shape.count);
  for (int i = 0; i < shape.count; ++i) {
    const int from = i - (out.rank - x.rank);
    PROA_EXPECT(c, shape[i] >= 0 || (shape[i] == -1 && from >= 0),
                "sizes of at least 0, or -1 to keep that of x", named("shape", shape),
                shape_of(c, 0));
    out.shape[i] = shape[i] == -1 ? x.shape[from] : shape[i];
  }
  return broadcast_view(c);
}

Status shape_broadcast_like(const Call& c) {
  copy_shape(c.in[1], &c.out[0]);
  return broadcast_view(c);
}

Status shape_broadcast_channels(const Call& c) {
  const View &x = c.in[0], &like = c.in[1];
  View& out = c.out[0];
  PROA_EXPECT(c, like.rank >= 2, "`like` with at least 2 axes", shape_of(c, 1));
  PROA_EXPECT(c, x.rank == 1 && may_equal(x.shape[0], like.shape[1]),
              "x with an element for each channel of `like`", shape_of(c, 0), shape_of(c, 1));
  copy_shape(like, &out);
  for (int i = 0; i < out.rank; ++i) out.stride[i] = i == 1 ? x.stride[0] : 0;
  return Status::kOk;
}

Status shape_expand_last(const Call& c) {
  const View &x = c.in[0], &like = c.in[1];
  View& out = c.out[0];
  const int64_t axes = c.attr<ExpandLastAttrs>().axes;
  PROA_EXPECT(c, axes >= 0 && axes == like.rank - x.rank, "`like` with `axes` more axes than x",
              named("axes", axes), shape_of(c, 0), shape_of(c, 1));
  copy_shape(like, &out);
  for (int i = 0; i < out.rank; ++i) {
    PROA_EXPECT(c, i >= x.rank || may_equal(x.shape[i], like.shape[i]),
                "x of the shape of the first axes of `like`", shape_of(c, 0), shape_of(c, 1));
    out.stride[i] = i < x.rank ? x.stride[i] : 0;
  }
  return Status::kOk;
}

namespace {

int64_t limited(int64_t v, int64_t low, int64_t high) {
  return v < low ? low : v > high ? high : v;
}

/// First index and number of elements of start:end:step over a dimension of size d.
void slice_range(int64_t d, int64_t start, int64_t end, int64_t step, int64_t* first,
                 int64_t* count) {
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? d : d - 1;
  const auto place = [&](int64_t v) {
    if (v < 0) v = v < -d ? low : v + d;  // INT64_MIN and the like fall below the range
    return limited(v, low, high);
  };
  *first = place(start);
  const int64_t stop = place(end);
  const int64_t span = step > 0 ? stop - *first : *first - stop;
  const int64_t stride = step > 0 ? step : -(step + 1) + int64_t{1};
  *count = span > 0 ? (span - 1) / stride + 1 : 0;
}

}  // namespace

Status shape_slice(const Call& c) {
  const auto& a = c.attr<SliceAttrs>();
  const View& x = c.in[0];
  View& out = c.out[0];
  const bool lists = a.axes.count == a.starts.count && a.axes.count == a.ends.count &&
                     a.axes.count == a.steps.count;
  PROA_EXPECT(c, lists, "a start, an end and a step for each axis", named("axes", a.axes),
              named("starts", a.starts), named("ends", a.ends), named("steps", a.steps));
  copy_shape(x, &out);
  for (int i = 0; i < x.rank; ++i) out.stride[i] = x.stride[i];
  int64_t offset = 0;
  uint32_t seen = 0;
  for (int i = 0; i < a.axes.count; ++i) {
    const int axis = normal_axis(a.axes[i], x.rank);
    PROA_EXPECT(c, axis >= 0 && (seen >> axis & 1) == 0, "axes of x, each named once",
                named("axes", a.axes), shape_of(c, 0));
    PROA_EXPECT(c, a.steps[i] != 0 && a.steps[i] != INT64_MIN, "steps other than 0",
                named("steps", a.steps));
    seen |= 1u << axis;
    if (x.shape[axis] == kUnknown) {
      out.shape[axis] = kUnknown;
      continue;
    }
    int64_t first, count;
    slice_range(x.shape[axis], a.starts[i], a.ends[i], a.steps[i], &first, &count);
    out.shape[axis] = count;
    // A step over less than two elements may be any number.
    if (count > 1) out.stride[axis] = x.stride[axis] * a.steps[i];
    if (count > 0) offset += first * x.stride[axis];
  }
  set_view_offset(c, offset);
  return Status::kOk;
}

Status shape_select(const Call& c) {
  const auto& a = c.attr<SelectAttrs>();
  const View& x = c.in[0];
  View& out = c.out[0];
  const int axis = normal_axis(a.axis, x.rank);
  PROA_EXPECT(c, axis >= 0, "axis within the axes of x", named("axis", a.axis), shape_of(c, 0));
  int64_t index = a.index;
  if (x.shape[axis] != kUnknown) {
    PROA_EXPECT_RANGE(c, index >= -x.shape[axis] && index < x.shape[axis], "index within its axis",
                      named("index", index), named("axis", a.axis), shape_of(c, 0));
    if (index < 0) index += x.shape[axis];
  }
  int rank = 0;
  for (int i = 0; i < x.rank; ++i) {
    if (i == axis) continue;
    out.shape[rank] = x.shape[i];
    out.stride[rank++] = x.stride[i];
  }
  out.rank = static_cast<int8_t>(rank);
  set_view_offset(c, x.shape[axis] == kUnknown ? 0 : index * x.stride[axis]);
  return Status::kOk;
}

Status shape_diagonal(const Call& c) {
  const auto& a = c.attr<DiagonalAttrs>();
  const View& x = c.in[0];
  View& out = c.out[0];
  const int row = normal_axis(a.axis1, x.rank), column = normal_axis(a.axis2, x.rank);
  PROA_EXPECT(c, row >= 0 && column >= 0 && row != column, "axis1 and axis2 of x that differ",
              named("axis1", a.axis1), named("axis2", a.axis2), shape_of(c, 0));
  int rank = 0;
  for (int i = 0; i < x.rank; ++i) {
    if (i == row || i == column) continue;
    out.shape[rank] = x.shape[i];
    out.stride[rank++] = x.stride[i];
  }
  PROA_EXPECT(c, a.offset >= -INT32_MAX && a.offset <= INT32_MAX,
              "offset from -2147483647 to 2147483647", named("offset", a.offset));
  const int64_t down = a.offset < 0 ? -a.offset : 0, right = a.offset > 0 ? a.offset : 0;
  int64_t length = kUnknown;
  if (x.shape[row] != kUnknown && x.shape[column] != kUnknown) {
    const int64_t rows = x.shape[row] - down, columns = x.shape[column] - right;
    length = rows < columns ? rows : columns;
    if (length < 0) length = 0;
  }
  out.shape[rank] = length;
  out.stride[rank++] = x.stride[row] + x.stride[column];
  out.rank = static_cast<int8_t>(rank);
  set_view_offset(c, length <= 0 ? 0 : down * x.stride[row] + right * x.stride[column]);
  return Status::kOk;
}

}  // namespace proa
