// Shape rules of reductions, sorting and selection along axes.
#include "proa/gen/attrs/reduce.h"
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
  if (!axis_mask(a.axis, c.in[0].rank, &mask)) return Status::kInvalidArgument;
  return without(c.in[0], mask, a.keepdim != 0, &c.out[0]);
}

Status shape_reduce_one(const Call& c) {
  const auto& a = c.attr<ArgmaxAttrs>();
  const int axis = normal_axis(a.axis, c.in[0].rank);
  if (c.in[0].rank == 0) return without(c.in[0], 0, false, &c.out[0]);
  if (axis < 0) return Status::kInvalidArgument;
  return without(c.in[0], 1u << axis, a.keepdim != 0, &c.out[0]);
}

Status shape_reduce_keep(const Call& c) {
  const int axis = normal_axis(c.attr<SumAxisAttrs>().axis, c.in[0].rank);
  if (axis < 0) return Status::kInvalidArgument;
  return without(c.in[0], 1u << axis, true, &c.out[0]);
}

Status shape_linear_recurrence(const Call& c) {
  View& out = c.out[0];
  if (!broadcast_leading(c.in[0], c.in[0].rank, c.in[1], c.in[1].rank, &out))
    return Status::kInvalidArgument;
  const bool has_axis = normal_axis(c.attr<LinearRecurrenceAttrs>().axis, out.rank) >= 0;
  return has_axis || out.rank == 0 ? Status::kOk : Status::kInvalidArgument;
}

// dy may be expanded to the shape of `like`: for kind="view" rows with zero strides.
Status shape_expand_reduced(const Call& c) {
  const auto& a = c.attr<ExpandReducedAttrs>();
  const View &dy = c.in[0], &like = c.in[1];
  View& out = c.out[0];
  uint32_t mask;
  if (!axis_mask(a.axis, like.rank, &mask)) return Status::kInvalidArgument;
  copy_shape(like, &out);
  out.data = dy.data;
  int from = 0;
  for (int i = 0; i < like.rank; ++i) {
    const bool reduced = mask >> i & 1;
    if (reduced) {
      out.stride[i] = 0;
      if (a.keepdim) ++from;
      continue;
    }
    if (from >= dy.rank || !may_equal(dy.shape[from], like.shape[i])) {
      return Status::kInvalidArgument;
    }
    out.stride[i] = dy.stride[from++];
  }
  return from == dy.rank ? Status::kOk : Status::kInvalidArgument;
}

Status shape_sort(const Call& c) {
  if (c.in[0].rank > 0 && normal_axis(c.attr<SortAttrs>().axis, c.in[0].rank) < 0) {
    return Status::kInvalidArgument;
  }
  return shape_same(c);
}

Status shape_topk(const Call& c) {
  const auto& a = c.attr<TopkAttrs>();
  shape_same(c);
  if (c.in[0].rank == 0) return a.k == 1 ? Status::kOk : Status::kInvalidArgument;
  const int axis = normal_axis(a.axis, c.in[0].rank);
  if (axis < 0 || a.k < 0) return Status::kInvalidArgument;
  if (c.in[0].shape[axis] != kUnknown && a.k > c.in[0].shape[axis]) return Status::kInvalidArgument;
  c.out[0].shape[axis] = c.out[1].shape[axis] = a.k;
  return Status::kOk;
}

}  // namespace proa
