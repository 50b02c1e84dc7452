// Ops that copy elements to other places: each is a few calls of copy() on parts of its arrays.
#include "proa/base/arith.h"
#include "proa/base/dispatch.h"
#include "proa/base/expect.h"
#include "proa/base/task_size.h"
#include "proa/gen/attrs/movement.h"
#include "proa/gen/attrs/sampling.h"
#include "proa/gen/shapes.h"
#include "proa/kernels/elementwise/loops.h"
#include "proa/kernels/movement/copy.h"

namespace proa::PROA_ISA {

Status add(const Call&);  // elementwise/binary.cc

namespace {

/// The view that a view op's shape rule makes of x. The struct at `attrs` is the rule's.
Status view_of(ShapeRule rule, const View& x, const void* attrs, View* part) {
  Call call;
  int64_t offset = 0;
  *part = x;
  call.in = &x;
  call.out = part;
  call.n_in = call.n_out = 1;
  call.attrs = attrs;
  call.view_offset = &offset;
  PROA_TRY(rule(call));
  part->data = x.data_at(offset);
  return Status::kOk;
}

/// out = 0, then the part of it that the rule names = dy.
Status put_back(const Call& c, ShapeRule rule) {
  View part;
  PROA_TRY(view_of(rule, c.out[0], c.attrs, &part));
  PROA_TRY(clear(c, c.out[0]));
  return copy(c, c.in[0], part);
}

/// y += x, elementwise, for any numeric dtype.
Status add_to(const Call& c, const View& x, const View& y) {
  const View in[] = {y, x};
  View out = y;
  Call call = c;
  call.in = in;
  call.out = &out;
  call.n_in = 2;
  call.n_out = 1;
  return add(call);
}

}  // namespace

Status assign(const Call& c) { return copy(c, c.in[0], c.out[0]); }
Status slice_grad(const Call& c) { return put_back(c, shape_slice); }
Status select_grad(const Call& c) { return put_back(c, shape_select); }
Status diagonal_grad(const Call& c) { return put_back(c, shape_diagonal); }

Status slice_assign(const Call& c) {
  View part;
  PROA_TRY(view_of(shape_slice, c.out[0], c.attrs, &part));
  PROA_TRY(copy(c, c.in[0], c.out[0]));
  return copy(c, c.in[1], part);
}

Status concat(const Call& c) {
  const int axis = normalize_axis(c.attr<ConcatAttrs>().axis, c.out[0].rank);
  int64_t at = 0;
  for (int i = 0; i < c.n_in; ++i) {
    const int64_t size = c.in[i].shape[axis];
    PROA_TRY(copy(c, c.in[i], narrow(c.out[0], axis, at, size)));
    at += size;
  }
  return Status::kOk;
}

Status stack(const Call& c) {
  const int axis = normalize_axis(c.attr<StackAttrs>().axis, c.out[0].rank);
  for (int i = 0; i < c.n_in; ++i) {
    View part = narrow(c.out[0], axis, i, 1);
    for (int d = axis; d + 1 < part.rank; ++d) {
      part.shape[d] = part.shape[d + 1];
      part.stride[d] = part.stride[d + 1];
    }
    --part.rank;
    PROA_TRY(copy(c, c.in[i], part));
  }
  return Status::kOk;
}

// -- tile ----------------------------------------------------------------------------------------

namespace {

/// Visits the copies of `small` that tile `big`, whose shape is a multiple along each axis (aligned
/// at the last). Several axes may repeat: one visit for each combination but the outermost
/// repetition of an axis of size 1, which broadcasting does.
template <class F>
Status each_tile(const View& small, const View& big, F&& visit) {
  int64_t count[kMaxRank], size[kMaxRank], at[kMaxRank] = {};
  const int lead = big.rank - small.rank;
  for (int d = 0; d < big.rank; ++d) {
    const int64_t unit = d < lead ? 1 : small.shape[d - lead];
    if (big.shape[d] == 0) return Status::kOk;
    size[d] = unit == 1 ? big.shape[d] : unit;
    count[d] = big.shape[d] / size[d];
  }
  while (true) {
    View part = big;
    for (int d = 0; d < big.rank; ++d) part = narrow(part, d, at[d] * size[d], size[d]);
    PROA_TRY(visit(part));
    int d = big.rank - 1;
    while (d >= 0 && ++at[d] == count[d]) at[d--] = 0;
    if (d < 0) return Status::kOk;
  }
}

}  // namespace

Status tile(const Call& c) {
  const View& x = c.in[0];
  return each_tile(x, c.out[0], [&](const View& part) { return copy(c, x, part); });
}

Status tile_grad(const Call& c) {
  // The sums visit every element of dx once for each copy, in a fixed order.
  const View &dy = c.in[0], &dx = c.out[0];
  PROA_TRY(clear(c, dx));
  int64_t count[kMaxRank], at[kMaxRank] = {};
  const int lead = dy.rank - dx.rank;
  for (int d = 0; d < dy.rank; ++d) {
    if (dy.shape[d] == 0) return Status::kOk;
    count[d] = dy.shape[d] / (d < lead ? 1 : dx.shape[d - lead]);
  }
  while (true) {
    View part = dy;
    for (int d = 0; d < dy.rank; ++d) {
      const int64_t size = d < lead ? 1 : dx.shape[d - lead];
      part = narrow(part, d, at[d] * size, size);
    }
    for (int d = 0; d < dx.rank; ++d) {
      part.shape[d] = part.shape[d + lead];
      part.stride[d] = part.stride[d + lead];
    }
    part.rank = dx.rank;
    PROA_TRY(add_to(c, part, dx));
    int d = dy.rank - 1;
    while (d >= 0 && ++at[d] == count[d]) at[d--] = 0;
    if (d < 0) return Status::kOk;
  }
}

// -- windows -------------------------------------------------------------------------------------

Status windows_grad(const Call& c) {
  const auto& a = c.attr<WindowsGradAttrs>();
  const View &dy = c.in[0], &dx = c.out[0];
  const int axis = normalize_axis(a.axis, dx.rank);
  PROA_TRY(clear(c, dx));
  for (int64_t k = 0; k < a.size; ++k) {
    // Element k of every window; no two of them come from one place.
    View from = narrow(dy, dx.rank, k, 1), to = narrow(dx, axis, k * a.dilation, dy.shape[axis]);
    from.rank = dx.rank;
    to.stride[axis] *= a.step;
    PROA_TRY(add_to(c, from, to));
  }
  return Status::kOk;
}

// -- pad -----------------------------------------------------------------------------------------

namespace {

/// A run of the padded axis that is a run of the source: `size` elements from `to` on come
/// from `from` on, going by `step` (1, -1, or 0: the same one again).
struct Run {
  int64_t to, from, size, step;
};

/// Splits a padded axis into its runs: before, middle, after. Returns how many.
int runs_of(int64_t size, int64_t low, int64_t high, int64_t mode, Run* runs) {
  int n = 0;
  const int64_t skip = low < 0 ? -low : 0;
  const int64_t copied = size - skip - (high < 0 ? -high : 0);
  const bool reflect = mode == PadAttrs::kModeReflect;
  const bool circular = mode == PadAttrs::kModeCircular;
  if (copied > 0) runs[n++] = {low > 0 ? low : 0, skip, copied, 1};
  if (mode == PadAttrs::kModeConstant) return n;
  if (low > 0)
    runs[n++] = {0, reflect ? low : circular ? size - low : 0, low, reflect ? -1 : circular};
  if (high > 0) {
    const int64_t from = reflect ? size - 2 : circular ? 0 : size - 1;
    runs[n++] = {low + size, from, high, reflect ? -1 : circular};
  }
  return n;
}

/// The elements of `x` along `axis` that a run reads.
View source_of(const View& x, int axis, const Run& run) {
  View part = narrow(x, axis, run.from, run.size);
  part.stride[axis] *= run.step;
  return part;
}

/// Calls visit(part of small, part of big, copies) for every combination of runs.
template <class F>
Status each_run(const View& small, const View& big, const Ints& low, const Ints& high, int64_t mode,
                F&& visit) {
  Run runs[kMaxRank][3];
  int count[kMaxRank], at[kMaxRank] = {};
  for (int d = 0; d < small.rank; ++d) {
    count[d] = runs_of(small.shape[d], low[d], high[d], mode, runs[d]);
    if (count[d] == 0) return Status::kOk;
  }
  while (true) {
    View from = small, to = big;
    for (int d = 0; d < small.rank; ++d) {
      const Run& run = runs[d][at[d]];
      from = source_of(from, d, run);
      to = narrow(to, d, run.to, run.size);
    }
    PROA_TRY(visit(from, to));
    int d = small.rank - 1;
    while (d >= 0 && ++at[d] == count[d]) at[d--] = 0;
    if (d < 0) return Status::kOk;
  }
}

/// to += from along runs; where a run reads one element again and again, its part of `to` has
/// stride 0 and the sum goes element by element of that axis.
Status add_runs(const Call& c, const View& from, const View& to, int axis) {
  while (axis < to.rank && (to.stride[axis] != 0 || to.shape[axis] <= 1)) ++axis;
  if (axis == to.rank) return add_to(c, from, to);
  for (int64_t i = 0; i < to.shape[axis]; ++i) {
    PROA_TRY(add_runs(c, narrow(from, axis, i, 1), narrow(to, axis, i, 1), axis + 1));
  }
  return Status::kOk;
}

}  // namespace

namespace {

/// Fills the padding: along each axis both ends, within the unpadded range of the axes before.
Status fill_ends(const Call& c, const Ints& low, const Ints& high, const void* value) {
  View middle = c.out[0];
  for (int d = 0; d < middle.rank; ++d) {
    const int64_t size = middle.shape[d];
    const int64_t before = low[d] < 0 ? 0 : low[d], after = high[d] < 0 ? 0 : high[d];
    const int64_t unpadded = size - before - after;
    if (unpadded <= 0) return fill(c, middle, value);
    if (before > 0) PROA_TRY(fill(c, narrow(middle, d, 0, before), value));
    if (after > 0) PROA_TRY(fill(c, narrow(middle, d, size - after, after), value));
    middle = narrow(middle, d, before, unpadded);
  }
  return Status::kOk;
}

}  // namespace

Status pad(const Call& c) {
  const auto& a = c.attr<PadAttrs>();
  if (a.mode == PadAttrs::kModeConstant) {
    alignas(16) uint8_t value[16];
    write_scalar(a.value, c.out[0].dtype, value);
    PROA_TRY(fill_ends(c, a.low, a.high, value));
  }
  return each_run(c.in[0], c.out[0], a.low, a.high, a.mode,
                  [&](const View& from, const View& to) { return copy(c, from, to); });
}

Status pad_grad(const Call& c) {
  const auto& a = c.attr<PadGradAttrs>();
  PROA_TRY(clear(c, c.out[0]));
  return each_run(c.out[0], c.in[0], a.low, a.high, a.mode,
                  [&](const View& dx, const View& dy) { return add_runs(c, dy, dx, 0); });
}

// -- triangles -----------------------------------------------------------------------------------

namespace {

/// y = x where keep_low ? column <= row + diagonal : column >= row + diagonal, else 0. Row by row.
Status triangle(const Call& c, int64_t diagonal, bool keep_low) {
  const View &x = c.in[0], &y = c.out[0];
  PROA_EXPECT(c, x.rank >= 2, "x with at least 2 axes", shape_of(c, 0));
  if (y.numel() == 0) return Status::kOk;
  const int64_t rows = x.shape[x.rank - 2], columns = x.shape[x.rank - 1];
  const int64_t xs = x.stride[x.rank - 1], ys = y.stride[y.rank - 1];
  // Any diagonal is allowed; those beyond the matrix are all alike.
  const int64_t offset = max(-rows - 1, min(diagonal, columns)) + (keep_low ? 1 : 0);
  Nest nest;  // planes, in logical order
  nest.set_shape(y);
  nest.add(y);
  nest.add(x);
  nest.rank -= 1;  // rows of all planes
  PROA_MOVED(size_of(x.dtype), T, {
    parallel_for(c, nest.size(), kElementTask / columns + 1, [&](int64_t begin, int64_t end) {
      Cursor at;
      at.seek(nest, begin);
      for (int64_t r = begin; r < end; ++r, at.advance(nest, 1)) {
        T* to = y.as<T>() + at.offset[0];
        const T* from = x.as<const T>() + at.offset[1];
        const int64_t edge = max(0, min(r % rows + offset, columns));
        for (int64_t j = 0; j < edge; ++j) to[j * ys] = keep_low ? from[j * xs] : T{};
        for (int64_t j = edge; j < columns; ++j) to[j * ys] = keep_low ? T{} : from[j * xs];
      }
    });
  })
  return Status::kOk;
}

}  // namespace

Status tril(const Call& c) { return triangle(c, c.attr<TrilAttrs>().diagonal, true); }
Status triu(const Call& c) { return triangle(c, c.attr<TriuAttrs>().diagonal, false); }

}  // namespace proa::PROA_ISA
