// Shape rules of matrix factorisations: the last two axes are the matrix, those before a batch.
#include "proa/base/expect.h"
#include "proa/gen/shapes.h"
#include "proa/shapes/dims.h"

namespace proa {
namespace {

Status check_matrix(const Call& c) {
  PROA_EXPECT(c, c.in[0].rank >= 2, "x with at least 2 axes", shape_of(c, 0));
  return Status::kOk;
}

Status check_square(const Call& c) {
  const View& x = c.in[0];
  PROA_TRY(check_matrix(c));
  PROA_EXPECT(c, may_equal(x.shape[x.rank - 1], x.shape[x.rank - 2]),
              "square matrices, the last two axes of x of one size", shape_of(c, 0));
  return Status::kOk;
}

int64_t min_dim(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (a == kUnknown || b == kUnknown) return kUnknown;
  return a < b ? a : b;
}

/// The batch of x, then the given axes.
void batch_of(const View& x, View* out) {
  out->rank = static_cast<int8_t>(x.rank - 2);
  for (int i = 0; i < out->rank; ++i) out->shape[i] = x.shape[i];
}
void batch_and(const View& x, int64_t n, View* out) {
  batch_of(x, out);
  out->shape[out->rank++] = n;
}
void batch_and(const View& x, int64_t m, int64_t n, View* out) {
  batch_and(x, m, out);
  out->shape[out->rank++] = n;
}

struct Sides {
  int64_t rows, columns, small;
  explicit Sides(const View& x)
      : rows(x.shape[x.rank - 2]), columns(x.shape[x.rank - 1]), small(min_dim(rows, columns)) {}
};

}  // namespace

Status shape_square(const Call& c) {
  PROA_TRY(check_square(c));
  return shape_same(c);
}

// (.., n, n) and (.., n, k) -> (.., n, k); the batches broadcast.
Status shape_solve(const Call& c) {
  const View &a = c.in[0], &b = c.in[1];
  PROA_TRY(check_square(c));
  PROA_EXPECT(c, b.rank >= 2, "y with at least 2 axes", shape_of(c, 1));
  PROA_EXPECT(c, a.dtype == b.dtype, "x and y of one dtype", dtype_of(c, 0), dtype_of(c, 1));
  PROA_EXPECT(c, may_equal(a.shape[a.rank - 1], b.shape[b.rank - 2]),
              "y's last axis but one as long as x's last", shape_of(c, 0), shape_of(c, 1));
  View& z = c.out[0];
  PROA_EXPECT(c, broadcast_leading(a, a.rank - 2, b, b.rank - 2, &z),
              "leading axes of x and y that broadcast", shape_of(c, 0), shape_of(c, 1));
  z.shape[z.rank++] = first_known(b.shape[b.rank - 2], a.shape[a.rank - 1]);
  z.shape[z.rank++] = b.shape[b.rank - 1];
  return Status::kOk;
}

// One number, or two, for each matrix.
Status shape_det(const Call& c) {
  PROA_TRY(check_square(c));
  for (int i = 0; i < c.n_out; ++i) batch_of(c.in[0], &c.out[i]);
  return Status::kOk;
}

Status shape_lu(const Call& c) {
  const View& x = c.in[0];
  PROA_TRY(check_matrix(c));
  copy_shape(x, &c.out[0]);
  batch_and(x, Sides(x).small, &c.out[1]);
  batch_of(x, &c.out[2]);
  return Status::kOk;
}

// Rows of x (.., m, n) and row numbers (.., k) with the same batch, k <= m.
Status shape_permute_rows(const Call& c) {
  const View &x = c.in[0], &pivots = c.in[1];
  PROA_TRY(check_matrix(c));
  PROA_EXPECT(c, pivots.dtype == DType::kI32, "pivots of int32", dtype_of(c, 1));
  bool fits = pivots.rank == x.rank - 1;
  for (int i = 0; fits && i < x.rank - 2; ++i) fits = may_equal(x.shape[i], pivots.shape[i]);
  PROA_EXPECT(c, fits, "pivots with the axes of x but the last", shape_of(c, 0), shape_of(c, 1));
  const int64_t rows = x.shape[x.rank - 2], count = pivots.shape[pivots.rank - 1];
  PROA_EXPECT(c, rows == kUnknown || count <= rows, "no more pivots than x has rows",
              named("rows", rows), named("pivots", count));
  return shape_same(c);
}

Status shape_qr(const Call& c) {
  const View& x = c.in[0];
  PROA_TRY(check_matrix(c));
  const Sides s(x);
  batch_and(x, s.rows, s.small, &c.out[0]);
  batch_and(x, s.small, s.columns, &c.out[1]);
  return Status::kOk;
}

Status shape_qr_complete(const Call& c) {
  const View& x = c.in[0];
  PROA_TRY(check_matrix(c));
  batch_and(x, Sides(x).rows, Sides(x).rows, &c.out[0]);
  copy_shape(x, &c.out[1]);
  return Status::kOk;
}

// Eigenvalues (.., n) and vectors (.., n, n).
Status shape_eig(const Call& c) {
  const View& x = c.in[0];
  PROA_TRY(check_square(c));
  batch_and(x, Sides(x).columns, &c.out[0]);
  copy_shape(x, &c.out[1]);
  return Status::kOk;
}

Status shape_svd(const Call& c) {
  const View& x = c.in[0];
  PROA_TRY(check_matrix(c));
  const Sides s(x);
  batch_and(x, s.rows, s.small, &c.out[0]);
  batch_and(x, s.small, &c.out[1]);
  batch_and(x, s.small, s.columns, &c.out[2]);
  return Status::kOk;
}

Status shape_svd_full(const Call& c) {
  const View& x = c.in[0];
  PROA_TRY(check_matrix(c));
  const Sides s(x);
  batch_and(x, s.rows, s.rows, &c.out[0]);
  batch_and(x, s.small, &c.out[1]);
  batch_and(x, s.columns, s.columns, &c.out[2]);
  return Status::kOk;
}

}  // namespace proa
