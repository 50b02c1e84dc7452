// Shape rules of recurrent networks.
#include "proa/gen/attrs/recurrent.h"
#include "proa/gen/shapes.h"
#include "proa/shapes/checks.h"

namespace proa {
namespace {

/// Gates of a cell, and how much of each hidden unit is kept for the gradient, in the order of
/// the attribute's choices.
struct CellSize {
  int64_t gates, reserved;
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

/// Which inputs are w, h0, c0 and length; the last two may be missing.
struct States {
  int w, h0, c0, length;
};

Status check_lengths(const Call& c, int i, int64_t batch) {
  if (i >= c.n_in || !c.in[i].given()) return Status::kOk;
  PROA_EXPECT(c, is_index(c.in[i].dtype), "length of int32 or int64", dtype_of(c, i));
  PROA_EXPECT(c, c.in[i].rank == 1 && may_equal(c.in[i].shape[0], batch),
              "length of shape (batch,)", shape_of(c, i), named("batch", batch));
  return Status::kOk;
}

/// The states fit a batch; `hidden` becomes w's columns.
Status check_states(const Call& c, const States& at, const CellSize& size, bool lstm, int64_t batch,
                    int64_t* hidden) {
  const View &w = c.in[at.w], &h0 = c.in[at.h0];
  const DType dtype = c.in[0].dtype;
  PROA_EXPECT(c, w.rank == 2, "w with 2 axes (gates * hidden, hidden)", shape_of(c, at.w));
  PROA_EXPECT(c, is_matrix(h0, batch, w.shape[1]), "h0 of shape (batch, hidden)",
              shape_of(c, at.h0), named("batch", batch), named("hidden", w.shape[1]));
  PROA_EXPECT(c, h0.dtype == dtype, "states of the dtype of the gates", dtype_of(c, at.h0),
              dtype_of(c, 0));
  *hidden = first_known(w.shape[1], h0.shape[1]);
  PROA_EXPECT(c, *hidden != 0 && may_equal(w.shape[0], times(size.gates, *hidden)),
              "w of shape (gates * hidden, hidden)", shape_of(c, at.w), named("gates", size.gates));
  const bool cell_state = at.c0 < c.n_in && c.in[at.c0].given();
  PROA_EXPECT(c, cell_state == lstm, "c0 for an LSTM, and for no other cell",
              named("lstm", lstm ? 1 : 0), named("c0", cell_state ? 1 : 0));
  if (lstm) {
    PROA_EXPECT(c, is_matrix(c.in[at.c0], batch, *hidden), "c0 of shape (batch, hidden)",
                shape_of(c, at.c0), named("batch", batch), named("hidden", *hidden));
    PROA_EXPECT(c, c.in[at.c0].dtype == dtype, "states of the dtype of the gates",
                dtype_of(c, at.c0), dtype_of(c, 0));
  }
  return check_lengths(c, at.length, batch);
}

/// Input i, a number for each gate, if it is given.
Status check_gates(const Call& c, int i, int64_t gates) {
  if (c.n_in <= i || !c.in[i].given()) return Status::kOk;
  PROA_EXPECT(c, c.in[i].rank == 1 && may_equal(c.in[i].shape[0], gates),
              "bias of shape (gates * hidden,)", shape_of(c, i), named("gates * hidden", gates));
  PROA_EXPECT(c, c.in[i].dtype == c.in[0].dtype, "bias of the dtype of xg", dtype_of(c, i),
              dtype_of(c, 0));
  return Status::kOk;
}

/// The gates of all steps: xg of shape (length, batch, gates).
Status check_steps(const Call& c, int64_t batch, int64_t gates) {
  const View &x = c.in[0], &w = c.in[1];
  PROA_EXPECT(c,
              may_equal(x.shape[1], batch) && may_equal(x.shape[2], gates) &&
                  may_equal(x.shape[2], w.shape[0]),
              "xg of shape (length, batch, gates * hidden)", shape_of(c, 0), named("batch", batch),
              named("gates * hidden", gates));
  return Status::kOk;
}

/// The results of all steps: columns for each step and sample.
void sequence(const Call& c, int i, int64_t batch, int64_t columns) {
  c.out[i].rank = 3;
  c.out[i].shape[0] = c.in[0].shape[0];
  c.out[i].shape[1] = batch;
  c.out[i].shape[2] = columns;
}

}  // namespace

Status shape_recurrent(const Call& c) {
  const View &x = c.in[0], &w = c.in[1], &h0 = c.in[2];
  const int64_t cell = c.attr<RecurrentAttrs>().cell;
  const CellSize size = kCells[cell];
  PROA_EXPECT(c, x.rank == 3, "xg with 3 axes (length, batch, gates * hidden)", shape_of(c, 0));
  PROA_EXPECT(c, w.dtype == x.dtype, "w of the dtype of xg", dtype_of(c, 1), dtype_of(c, 0));
  const int64_t batch = first_known(x.shape[1], h0.rank == 2 ? h0.shape[0] : kUnknown);
  int64_t hidden;
  const States at{1, 2, 3, 5};
  PROA_TRY(check_states(c, at, size, cell == kLstm, batch, &hidden));
  const int64_t gates = times(size.gates, hidden);
  PROA_TRY(check_steps(c, batch, gates));
  PROA_TRY(check_gates(c, 4, gates));
  sequence(c, 0, batch, hidden);
  sequence(c, 3, batch, times(size.reserved, hidden));
  matrix(&c.out[1], batch, hidden);
  matrix(&c.out[2], batch, cell == kLstm ? hidden : 0);
  return Status::kOk;
}

Status shape_recurrent_int8(const Call& c) {
  const auto& a = c.attr<RecurrentInt8Attrs>();
  const View &x = c.in[0], &w = c.in[1], &h0 = c.in[3];
  const CellSize size = kCells[a.cell];
  PROA_EXPECT(c, x.rank == 3, "xg with 3 axes (length, batch, gates * hidden)", shape_of(c, 0));
  PROA_EXPECT(c, w.dtype == DType::kI8, "w of int8", dtype_of(c, 1));
  PROA_EXPECT(c, a.h_scale > 0, "h_scale > 0");
  const int64_t batch = first_known(x.shape[1], h0.rank == 2 ? h0.shape[0] : kUnknown);
  int64_t hidden;
  const States at{1, 3, 4, 6};
  PROA_TRY(check_states(c, at, size, a.cell == kLstm, batch, &hidden));
  PROA_TRY(check_int8_sum(c, hidden, 127, int8_reach(0)));
  const int64_t gates = times(size.gates, hidden);
  PROA_TRY(check_steps(c, batch, gates));
  PROA_TRY(check_gates(c, 2, gates));
  PROA_TRY(check_gates(c, 5, gates));
  sequence(c, 0, batch, hidden);
  matrix(&c.out[1], batch, hidden);
  matrix(&c.out[2], batch, a.cell == kLstm ? hidden : 0);
  return Status::kOk;
}

Status shape_recurrent_grad(const Call& c) {
  const View &dy = c.in[0], &dh = c.in[1], &dc = c.in[2], &y = c.in[3], &reserve = c.in[4];
  const View& w = c.in[5];
  const int64_t cell = c.attr<RecurrentGradAttrs>().cell;
  const CellSize size = kCells[cell];
  PROA_EXPECT(c, dy.rank == 3 && reserve.rank == 3, "dy and reserve with 3 axes", shape_of(c, 0),
              shape_of(c, 4));
  PROA_EXPECT(c, same_shape(dy, y), "dy of y's shape", shape_of(c, 0), shape_of(c, 3));
  const int64_t batch = dy.shape[1];
  int64_t hidden;
  const States at{5, 6, 7, 8};
  PROA_TRY(check_states(c, at, size, cell == kLstm, batch, &hidden));
  const int64_t columns = cell == kLstm ? hidden : 0;
  PROA_EXPECT(c, may_equal(dy.shape[2], hidden), "dy of shape (length, batch, hidden)",
              shape_of(c, 0), named("hidden", hidden));
  PROA_EXPECT(c, is_matrix(dh, batch, hidden) && is_matrix(dc, batch, columns),
              "gradients of the states' shapes", shape_of(c, 1), shape_of(c, 2),
              named("batch", batch), named("hidden", hidden));
  const bool fits = may_equal(reserve.shape[0], dy.shape[0]) &&
                    may_equal(reserve.shape[1], batch) &&
                    may_equal(reserve.shape[2], times(size.reserved, hidden));
  PROA_EXPECT(c, fits, "the reserve of the forward operator", shape_of(c, 4), shape_of(c, 0),
              named("hidden", hidden));
  for (int i = 1; i < 6; ++i) {
    PROA_EXPECT(c, c.in[i].dtype == dy.dtype, "arrays of one dtype", dtype_of(c, 0),
                dtype_of(c, i));
  }
  copy_shape(dy, &c.out[0]);
  c.out[0].shape[2] = first_known(w.shape[0], times(size.gates, hidden));
  copy_shape(w, &c.out[1]);
  c.out[2].rank = 1;
  c.out[2].shape[0] = c.out[0].shape[2];
  matrix(&c.out[3], batch, hidden);
  matrix(&c.out[4], batch, columns);
  return Status::kOk;
}

}  // namespace proa
