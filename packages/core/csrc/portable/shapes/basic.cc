// Shape rules that keep, broadcast or state a shape.
#include "proa/gen/attrs/creation.h"
#include "proa/gen/attrs/rand.h"
#include "proa/gen/shapes.h"
#include "proa/shapes/checks.h"

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
    PROA_EXPECT(c, same_shape(c.in[0], c.in[i]), "gradient and states of the parameter's shape",
                shape_of(c, 0), shape_of(c, i));
    PROA_EXPECT(c, mixed || c.in[0].dtype == c.in[i].dtype,
                "gradient and states of the parameter's dtype, or all floating", dtype_of(c, 0),
                dtype_of(c, i));
  }
  return shape_same(c);
}

// An array, numbers of its rows, and an array of as many rows.
Status shape_inplace_rows(const Call& c) {
  const View &table = c.in[0], &rows = c.in[1], &values = c.in[2];
  PROA_EXPECT(c, rows.rank == 1, "a vector of row numbers", shape_of(c, 1));
  PROA_TRY(check_index(c, 1));
  PROA_EXPECT(c, is_floating(values.dtype) || values.dtype == table.dtype,
              "values that are floating or of the table's dtype", dtype_of(c, 2), dtype_of(c, 0));
  bool fits = table.rank > 0 && values.rank == table.rank;
  fits = fits && may_equal(rows.shape[0], values.shape[0]);
  for (int i = 1; fits && i < table.rank; ++i) fits = may_equal(table.shape[i], values.shape[i]);
  PROA_EXPECT(c, fits, "a row of the table's shape for each row number", shape_of(c, 0),
              shape_of(c, 1), shape_of(c, 2));
  return shape_same(c);
}

Status shape_broadcast(const Call& c) {
  View& out = c.out[0];
  copy_shape(c.in[0], &out);
  for (int i = 1; i < c.n_in; ++i) {
    View previous = out;
    const bool fits = broadcast_leading(previous, previous.rank, c.in[i], c.in[i].rank, &out);
    // Of more than two arrays, the shape of those before.
    PROA_EXPECT(c, fits, "shapes that broadcast",
                i == 1 ? shape_of(c, 0) : named("shape", previous), shape_of(c, i));
  }
  // A condition may have another dtype than both branches; what is promoted has one.
  for (int i = 2; i < c.n_in; ++i) PROA_TRY(check_dtypes(c, 1, i));
  if (c.n_in == 4) PROA_TRY(check_dtypes(c, 0, 1));
  return Status::kOk;
}

// One array of any dtype, or several of floats.
Status shape_scalar(const Call& c) {
  for (int i = 1; i < c.n_in; ++i) PROA_TRY(check_floating(c, i));
  c.out[0].rank = 0;
  return Status::kOk;
}

namespace {

Status stated(const Call& c, const Ints& shape, View* out) {
  PROA_EXPECT(c, shape.count >= 0 && shape.count <= kMaxRank, "at most 8 sizes",
              named("shape", shape));
  out->rank = static_cast<int8_t>(shape.count);
  for (int i = 0; i < shape.count; ++i) {
    PROA_EXPECT(c, shape[i] >= kUnknown, "sizes of at least 0", named("shape", shape));
    out->shape[i] = shape[i];
  }
  return Status::kOk;
}

Status vector_of(const Call& c, int64_t count, View* out) {
  PROA_EXPECT(c, count >= 0, "count of at least 0", named("count", count));
  out->rank = 1;
  out->shape[0] = count;
  return Status::kOk;
}

}  // namespace

// The attribute `shape` comes first in every row of this rule, and `count` is where its row has it.
Status shape_attr(const Call& c) {
  return stated(c, *static_cast<const Ints*>(c.attrs), &c.out[0]);
}
Status shape_arange(const Call& c) { return vector_of(c, c.attr<ArangeAttrs>().count, &c.out[0]); }
Status shape_linspace(const Call& c) {
  return vector_of(c, c.attr<LinspaceAttrs>().count, &c.out[0]);
}
Status shape_randperm(const Call& c) {
  return vector_of(c, c.attr<RandpermAttrs>().count, &c.out[0]);
}

Status shape_eye(const Call& c) {
  const auto& a = c.attr<EyeAttrs>();
  PROA_EXPECT(c, a.rows >= 0 && a.columns >= 0, "rows and columns of at least 0",
              named("rows", a.rows), named("columns", a.columns));
  c.out[0].rank = 2;
  c.out[0].shape[0] = a.rows;
  c.out[0].shape[1] = a.columns;
  return Status::kOk;
}

}  // namespace proa
