// Shape rules that keep, broadcast or state a shape.
#include "proa/gen/attrs/creation.h"
#include "proa/gen/attrs/rand.h"
#include "proa/gen/shapes.h"
#include "proa/shapes/dims.h"

namespace proa {

Status shape_same(const Call& c) {
  for (int i = 0; i < c.n_out; ++i) copy_shape(c.in[0], &c.out[i]);
  return Status::kOk;
}

// The one shape-only array.
Status shape_like(const Call& c) {
  copy_shape(c.in[c.n_in - 1], &c.out[0]);
  return Status::kOk;
}

// Output i is array i of the row, but the gradient, which is array 1.
Status shape_inplace(const Call& c) {
  for (int i = 0; i < c.n_in; ++i) {
    const bool mixed = is_floating(c.in[0].dtype) && is_floating(c.in[i].dtype);
    if (!same_shape(c.in[0], c.in[i])) return Status::kInvalidArgument;
    if (!mixed && c.in[0].dtype != c.in[i].dtype) return Status::kInvalidArgument;
  }
  return shape_same(c);
}

// An array, numbers of its rows, and an array of as many rows.
Status shape_inplace_rows(const Call& c) {
  const View &table = c.in[0], &rows = c.in[1], &values = c.in[2];
  bool fits = table.rank > 0 && values.rank == table.rank && rows.rank == 1 &&
              (rows.dtype == DType::kI64 || rows.dtype == DType::kI32) &&
              (is_floating(values.dtype) || values.dtype == table.dtype) &&
              may_equal(rows.shape[0], values.shape[0]);
  for (int i = 1; fits && i < table.rank; ++i) fits = may_equal(table.shape[i], values.shape[i]);
  return fits ? shape_same(c) : Status::kInvalidArgument;
}

Status shape_broadcast(const Call& c) {
  View& out = c.out[0];
  copy_shape(c.in[0], &out);
  for (int i = 1; i < c.n_in; ++i) {
    View previous = out;
    if (!broadcast_leading(previous, previous.rank, c.in[i], c.in[i].rank, &out)) {
      return Status::kInvalidArgument;
    }
  }
  // After a condition, both branches have one dtype (others were promoted).
  if (c.n_in == 3 && c.in[1].dtype != c.in[2].dtype) return Status::kInvalidArgument;
  return Status::kOk;
}

Status shape_scalar(const Call& c) {
  c.out[0].rank = 0;
  return Status::kOk;
}

namespace {

Status stated(const Ints& shape, View* out) {
  if (shape.count < 0 || shape.count > kMaxRank) return Status::kInvalidArgument;
  out->rank = static_cast<int8_t>(shape.count);
  for (int i = 0; i < shape.count; ++i) {
    if (shape[i] < kUnknown) return Status::kInvalidArgument;
    out->shape[i] = shape[i];
  }
  return Status::kOk;
}

Status vector_of(int64_t count, View* out) {
  if (count < 0) return Status::kInvalidArgument;
  out->rank = 1;
  out->shape[0] = count;
  return Status::kOk;
}

}  // namespace

// The attribute `shape` comes first in every row of this rule, and `count` is where its row has it.
Status shape_attr(const Call& c) { return stated(*static_cast<const Ints*>(c.attrs), &c.out[0]); }
Status shape_arange(const Call& c) { return vector_of(c.attr<ArangeAttrs>().count, &c.out[0]); }
Status shape_linspace(const Call& c) { return vector_of(c.attr<LinspaceAttrs>().count, &c.out[0]); }
Status shape_randperm(const Call& c) { return vector_of(c.attr<RandpermAttrs>().count, &c.out[0]); }

Status shape_eye(const Call& c) {
  const auto& a = c.attr<EyeAttrs>();
  if (a.rows < 0 || a.columns < 0) return Status::kInvalidArgument;
  c.out[0].rank = 2;
  c.out[0].shape[0] = a.rows;
  c.out[0].shape[1] = a.columns;
  return Status::kOk;
}

}  // namespace proa
