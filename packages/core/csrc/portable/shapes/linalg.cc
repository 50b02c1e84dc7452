// Shape rules of matrix factorisations: the last two axes are the matrix, those before a batch.
#include "proa/gen/shapes.h"
#include "proa/shapes/dims.h"

namespace proa {
namespace {

bool is_square(const View& x) {
  return x.rank >= 2 && may_equal(x.shape[x.rank - 1], x.shape[x.rank - 2]);
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
  return is_square(c.in[0]) ? shape_same(c) : Status::kInvalidArgument;
}

// (.., n, n) and (.., n, k) -> (.., n, k); the batches broadcast.
Status shape_solve(const Call& c) {
  const View &a = c.in[0], &b = c.in[1];
  if (!is_square(a) || b.rank < 2 || a.dtype != b.dtype) return Status::kInvalidArgument;
  if (!may_equal(a.shape[a.rank - 1], b.shape[b.rank - 2])) return Status::kInvalidArgument;
  View& z = c.out[0];
  if (!broadcast_leading(a, a.rank - 2, b, b.rank - 2, &z)) return Status::kInvalidArgument;
  z.shape[z.rank++] = known_of(b.shape[b.rank - 2], a.shape[a.rank - 1]);
  z.shape[z.rank++] = b.shape[b.rank - 1];
  return Status::kOk;
}

// One number, or two, for each matrix.
Status shape_det(const Call& c) {
  if (!is_square(c.in[0])) return Status::kInvalidArgument;
  for (int i = 0; i < c.n_out; ++i) batch_of(c.in[0], &c.out[i]);
  return Status::kOk;
}

Status shape_lu(const Call& c) {
  const View& x = c.in[0];
  if (x.rank < 2) return Status::kInvalidArgument;
  copy_shape(x, &c.out[0]);
  batch_and(x, Sides(x).small, &c.out[1]);
  batch_of(x, &c.out[2]);
  return Status::kOk;
}

// Rows of x (.., m, n) and row numbers (.., k) with the same batch, k <= m.
Status shape_permute_rows(const Call& c) {
  const View &x = c.in[0], &pivots = c.in[1];
  if (x.rank < 2 || pivots.rank != x.rank - 1 || pivots.dtype != DType::kI32) {
    return Status::kInvalidArgument;
  }
  for (int i = 0; i < x.rank - 2; ++i) {
    if (!may_equal(x.shape[i], pivots.shape[i])) return Status::kInvalidArgument;
  }
  const int64_t rows = x.shape[x.rank - 2], count = pivots.shape[pivots.rank - 1];
  if (rows != kUnknown && count > rows) return Status::kInvalidArgument;
  return shape_same(c);
}

Status shape_qr(const Call& c) {
  const View& x = c.in[0];
  if (x.rank < 2) return Status::kInvalidArgument;
  const Sides s(x);
  batch_and(x, s.rows, s.small, &c.out[0]);
  batch_and(x, s.small, s.columns, &c.out[1]);
  return Status::kOk;
}

Status shape_qr_complete(const Call& c) {
  const View& x = c.in[0];
  if (x.rank < 2) return Status::kInvalidArgument;
  batch_and(x, Sides(x).rows, Sides(x).rows, &c.out[0]);
  copy_shape(x, &c.out[1]);
  return Status::kOk;
}

// Eigenvalues (.., n) and vectors (.., n, n).
Status shape_eig(const Call& c) {
  const View& x = c.in[0];
  if (!is_square(x)) return Status::kInvalidArgument;
  batch_and(x, Sides(x).columns, &c.out[0]);
  copy_shape(x, &c.out[1]);
  return Status::kOk;
}

Status shape_svd(const Call& c) {
  const View& x = c.in[0];
  if (x.rank < 2) return Status::kInvalidArgument;
  const Sides s(x);
  batch_and(x, s.rows, s.small, &c.out[0]);
  batch_and(x, s.small, &c.out[1]);
  batch_and(x, s.small, s.columns, &c.out[2]);
  return Status::kOk;
}

Status shape_svd_full(const Call& c) {
  const View& x = c.in[0];
  if (x.rank < 2) return Status::kInvalidArgument;
  const Sides s(x);
  batch_and(x, s.rows, s.rows, &c.out[0]);
  batch_and(x, s.small, &c.out[1]);
  batch_and(x, s.columns, s.columns, &c.out[2]);
  return Status::kOk;
}

}  // namespace proa
