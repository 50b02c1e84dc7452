// Shape rules of recurrent networks.
#include "proa/gen/attrs/recurrent.h"
#include "proa/gen/shapes.h"
#include "proa/shapes/dims.h"

namespace proa {
namespace {

/// Gates of a cell, and how much of each hidden unit is kept for the gradient, in the order of
/// the attribute's choices.
struct CellSize {
  int64_t gates, kept;
};
constexpr CellSize kCells[] = {{1, 0}, {1, 0}, {4, 5}, {3, 4}};
constexpr int64_t kLstm = 2;

void matrix(View* v, int64_t rows, int64_t columns) {
  v->rank = 2;
  v->shape[0] = rows;
  v->shape[1] = columns;
}

bool is_matrix(const View& v, int64_t rows, int64_t columns) {
  return v.rank == 2 && may_equal(v.shape[0], rows) && may_equal(v.shape[1], columns);
}

int64_t times(int64_t count, int64_t dim) {
  return count == 0 ? 0 : (dim == kUnknown ? kUnknown : count * dim);
}

/// w, h0, c0 and length (those two may be missing) fit a batch; `hidden` becomes w's columns.
bool states_fit(const CellSize& size, bool lstm, int64_t batch, const View& w, const View& h0,
                const View& c0, const View& length, int64_t* hidden) {
  if (w.rank != 2 || !is_matrix(h0, batch, w.shape[1]) || h0.dtype != w.dtype) return false;
  *hidden = known_of(w.shape[1], h0.shape[1]);
  if (*hidden == 0 || !may_equal(w.shape[0], times(size.gates, *hidden))) return false;
  if (c0.given() != lstm) return false;
  if (lstm && (!is_matrix(c0, batch, *hidden) || c0.dtype != w.dtype)) return false;
  if (!length.given()) return true;
  const bool index = length.dtype == DType::kI32 || length.dtype == DType::kI64;
  return index && length.rank == 1 && may_equal(length.shape[0], batch);
}

}  // namespace

Status shape_recurrent(const Call& c) {
  const View &x = c.in[0], &w = c.in[1], &h0 = c.in[2];
  const View none;
  const auto in = [&](int i) -> const View& { return i < c.n_in ? c.in[i] : none; };
  const int64_t cell = c.attr<RecurrentAttrs>().cell;
  const CellSize size = kCells[cell];
  if (x.rank != 3 || w.dtype != x.dtype) return Status::kInvalidArgument;
  const int64_t batch = known_of(x.shape[1], h0.rank == 2 ? h0.shape[0] : kUnknown);
  int64_t hidden;
  if (!states_fit(size, cell == kLstm, batch, w, h0, in(3), in(5), &hidden)) {
    return Status::kInvalidArgument;
  }
  const int64_t gates = times(size.gates, hidden);
  const View& bias = in(4);
  if (!may_equal(x.shape[1], batch) || !may_equal(x.shape[2], gates) ||
      !may_equal(x.shape[2], w.shape[0])) {
    return Status::kInvalidArgument;
  }
  if (bias.given() &&
      (bias.rank != 1 || !may_equal(bias.shape[0], gates) || bias.dtype != x.dtype)) {
    return Status::kInvalidArgument;
  }
  for (int i = 0; i <= 3; i += 3) {
    c.out[i].rank = 3;
    c.out[i].shape[0] = x.shape[0];
    c.out[i].shape[1] = batch;
    c.out[i].shape[2] = i == 0 ? hidden : times(size.kept, hidden);
  }
  matrix(&c.out[1], batch, hidden);
  matrix(&c.out[2], batch, cell == kLstm ? hidden : 0);
  return Status::kOk;
}

Status shape_recurrent_grad(const Call& c) {
  const View &dy = c.in[0], &dh = c.in[1], &dc = c.in[2], &y = c.in[3], &reserve = c.in[4];
  const View &w = c.in[5], &h0 = c.in[6], none;
  const auto in = [&](int i) -> const View& { return i < c.n_in ? c.in[i] : none; };
  const int64_t cell = c.attr<RecurrentGradAttrs>().cell;
  const CellSize size = kCells[cell];
  if (dy.rank != 3 || !alike(dy, y) || reserve.rank != 3) return Status::kInvalidArgument;
  const int64_t batch = dy.shape[1];
  int64_t hidden;
  if (!states_fit(size, cell == kLstm, batch, w, h0, in(7), in(8), &hidden)) {
    return Status::kInvalidArgument;
  }
  const int64_t columns = cell == kLstm ? hidden : 0;
  if (!may_equal(dy.shape[2], hidden) || !is_matrix(dh, batch, hidden) ||
      !is_matrix(dc, batch, columns) || !may_equal(reserve.shape[0], dy.shape[0]) ||
      !may_equal(reserve.shape[1], batch) ||
      !may_equal(reserve.shape[2], times(size.kept, hidden))) {
    return Status::kInvalidArgument;
  }
  for (int i = 1; i < 6; ++i) {
    if (c.in[i].dtype != dy.dtype) return Status::kInvalidArgument;
  }
  copy_shape(dy, &c.out[0]);
  c.out[0].shape[2] = known_of(w.shape[0], times(size.gates, hidden));
  copy_shape(w, &c.out[1]);
  c.out[2].rank = 1;
  c.out[2].shape[0] = c.out[0].shape[2];
  matrix(&c.out[3], batch, hidden);
  matrix(&c.out[4], batch, columns);
  return Status::kOk;
}

}  // namespace proa
