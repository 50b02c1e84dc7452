// Shape rules of reductions, sorting and selection along axes.
#include "proa/gen/attrs/reduce.h"
#include "proa/base/expect.h"
#include "proa/gen/attrs/loss.h"
#include "proa/gen/attrs/sort.h"
#include "proa/gen/shapes.h"
#include "proa/shapes/dims.h"

namespace proa {
namespace {

Status without(const View& x, uint32_t mask, bool keep, View* out) {
  int rank = 0;
  for (int i = 0; i < x.rank; ++i) {
    const bool reduced = mask >> i & 1;
    if (reduced && !keep) continue;
    out->shape[rank++] = reduced ? 1 : x.shape[i];
  }
  out->rank = static_cast<int8_t>(rank);
  return Status::kOk;
}

}  // namespace

// Every row of this rule begins with `axis: ints, keepdim: bool`.
Status shape_reduce(const Call& c) {
  const auto& a = c.attr<SumAttrs>();
  uint32_t mask;
  PROA_EXPECT(c, axis_mask(a.axis, c.in[0].rank, &mask), "axes of x, each named once",
              named("axis", a.axis), shape_of(c, 0));
  return without(c.in[0], mask, a.keepdim != 0, &c.out[0]);
}

Status shape_reduce_one(const Call& c) {
  const auto& a = c.attr<ArgmaxAttrs>();
  const int axis = normal_axis(a.axis, c.in[0].rank);
  if (c.in[0].rank == 0) return without(c.in[0], 0, false, &c.out[0]);
  PROA_EXPECT(c, axis >= 0, "axis within the axes of x", named("axis", a.axis), shape_of(c, 0));
  return without(c.in[0], 1u << axis, a.keepdim != 0, &c.out[0]);
}

Status shape_reduce_keep(const Call& c) {
  const int64_t given = c.attr<SumAxisAttrs>().axis;
  const int axis = normal_axis(given, c.in[0].rank);
  PROA_EXPECT(c, axis >= 0, "axis within the axes of x", named("axis", given), shape_of(c, 0));
  return without(c.in[0], 1u << axis, true, &c.out[0]);
}

Status shape_linear_recurrence(const Call& c) {
  View& out = c.out[0];
  PROA_EXPECT(c, broadcast_leading(c.in[0], c.in[0].rank, c.in[1], c.in[1].rank, &out),
              "shapes that broadcast", shape_of(c, 0), shape_of(c, 1));
  const int64_t axis = c.attr<LinearRecurrenceAttrs>().axis;
  PROA_EXPECT(c, normal_axis(axis, out.rank) >= 0 || out.rank == 0, "axis within the arrays' axes",
              named("axis", axis), named("shape", out));
  return Status::kOk;
}

// dy may be expanded to the shape of `like`: for kind="view" rows with zero strides.
Status shape_expand_reduced(const Call& c) {
  const auto& a = c.attr<ExpandReducedAttrs>();
  const View &dy = c.in[0], &like = c.in[1];
  View& out = c.out[0];
  uint32_t mask;
  PROA_EXPECT(c, axis_mask(a.axis, like.rank, &mask), "axes of `like`, each named once",
              named("axis", a.axis), shape_of(c, 1));
  copy_shape(like, &out);
  int from = 0;
  for (int i = 0; i < like.rank; ++i) {
    const bool reduced = mask >> i & 1;
    if (reduced) {
      out.stride[i] = 0;
      if (a.keepdim) {
        PROA_EXPECT(c, from < dy.rank && may_equal(dy.shape[from], 1),
                    "dy of the shape of the forward result", shape_of(c, 0), shape_of(c, 1));
        ++from;
      }
      continue;
    }
    PROA_EXPECT(c, from < dy.rank && may_equal(dy.shape[from], like.shape[i]),
                "dy of the shape of the forward result", shape_of(c, 0), shape_of(c, 1));
    out.stride[i] = dy.stride[from++];
  }
  PROA_EXPECT(c, from == dy.rank, "dy of the shape of the forward result", shape_of(c, 0),
              shape_of(c, 1));
  return Status::kOk;
}

Status shape_sort(const Call& c) {
  const int64_t axis = c.attr<SortAttrs>().axis;
  PROA_EXPECT(c, c.in[0].rank == 0 || normal_axis(axis, c.in[0].rank) >= 0,
              "axis within the axes of x", named("axis", axis), shape_of(c, 0));
  return shape_same(c);
}

Status shape_topk(const Call& c) {
  const auto& a = c.attr<TopkAttrs>();
  shape_same(c);
  if (c.in[0].rank == 0) {
    PROA_EXPECT(c, a.k == 1, "k of 1 for a number", named("k", a.k), shape_of(c, 0));
    return Status::kOk;
  }
  const int axis = normal_axis(a.axis, c.in[0].rank);
  PROA_EXPECT(c, axis >= 0, "axis within the axes of x", named("axis", a.axis), shape_of(c, 0));
  const int64_t size = c.in[0].shape[axis];
  PROA_EXPECT(c, a.k >= 0 && (size == kUnknown || a.k <= size),
              "k from 0 to the length of the axis", named("k", a.k), named("axis", a.axis),
              shape_of(c, 0));
  c.out[0].shape[axis] = c.out[1].shape[axis] = a.k;
  return Status::kOk;
}

}  // namespace proa
