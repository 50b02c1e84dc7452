// Shape rules of joins, padding, tiling and indexing.
#include "proa/gen/attrs/movement.h"
#include "proa/gen/attrs/index.h"
#include "proa/gen/shapes.h"
#include "proa/shapes/checks.h"

namespace proa {

Status shape_concat(const Call& c) {
  PROA_EXPECT(c, c.n_in > 0, "at least one array", named("arrays", c.n_in));
  const int64_t given = c.attr<ConcatAttrs>().axis;
  const int rank = c.in[0].rank, axis = normal_axis(given, rank);
  PROA_EXPECT(c, axis >= 0, "axis within the arrays' axes", named("axis", given), shape_of(c, 0));
  View& out = c.out[0];
  copy_shape(c.in[0], &out);
  for (int k = 1; k < c.n_in; ++k) {
    const View& x = c.in[k];
    PROA_EXPECT(c, x.rank == rank, "arrays with equal numbers of axes", shape_of(c, 0),
                shape_of(c, k));
    for (int i = 0; i < rank; ++i) {
      if (i == axis) {
        const bool unknown = out.shape[i] == kUnknown || x.shape[i] == kUnknown;
        const bool fits =
            unknown || !__builtin_add_overflow(out.shape[i], x.shape[i], &out.shape[i]);
        PROA_EXPECT(c, fits, "sizes of less than 2^63", named("axis", given), shape_of(c, k));
        if (unknown) out.shape[i] = kUnknown;
        continue;
      }
      PROA_EXPECT(c, may_equal(out.shape[i], x.shape[i]), "equal sizes along all axes but `axis`",
                  named("axis", given), shape_of(c, 0), shape_of(c, k));
      out.shape[i] = first_known(out.shape[i], x.shape[i]);
    }
  }
  return Status::kOk;
}

Status shape_stack(const Call& c) {
  PROA_EXPECT(c, c.n_in > 0, "at least one array", named("arrays", c.n_in));
  PROA_EXPECT(c, c.in[0].rank < kMaxRank, "arrays with at most 7 axes", shape_of(c, 0));
  const int64_t given = c.attr<StackAttrs>().axis;
  const int rank = c.in[0].rank + 1, axis = normal_axis(given, rank);
  PROA_EXPECT(c, axis >= 0, "axis within the result's axes", named("axis", given), shape_of(c, 0));
  for (int k = 1; k < c.n_in; ++k) {
    PROA_EXPECT(c, same_shape(c.in[0], c.in[k]), "arrays of one shape", shape_of(c, 0),
                shape_of(c, k));
  }
  View& out = c.out[0];
  out.rank = static_cast<int8_t>(rank);
  for (int i = 0; i < rank; ++i) {
    if (i == axis) {
      out.shape[i] = c.n_in;
      continue;
    }
    const int from = i < axis ? i : i - 1;
    out.shape[i] = c.in[0].shape[from];
    for (int k = 1; k < c.n_in; ++k) {
      PROA_EXPECT(c, may_equal(out.shape[i], c.in[k].shape[from]), "arrays of one shape",
                  shape_of(c, 0), shape_of(c, k));
      out.shape[i] = first_known(out.shape[i], c.in[k].shape[from]);
    }
  }
  return Status::kOk;
}

Status shape_tile(const Call& c) {
  const Ints& repeats = c.attr<TileAttrs>().repeats;
  const View& x = c.in[0];
  View& out = c.out[0];
  PROA_EXPECT(c, repeats.count >= 0, "a list of repeats", named("repeats", repeats));
  const int rank = x.rank > repeats.count ? x.rank : static_cast<int>(repeats.count);
  out.rank = static_cast<int8_t>(rank);
  for (int i = 0; i < rank; ++i) {
    const int ix = i - (rank - x.rank), ir = i - (rank - static_cast<int>(repeats.count));
    const int64_t d = ix < 0 ? 1 : x.shape[ix], r = ir < 0 ? 1 : repeats[ir];
    PROA_EXPECT(c, r >= 0, "repeats of at least 0", named("repeats", repeats));
    out.shape[i] = d;
    PROA_EXPECT(c, d == kUnknown || !__builtin_mul_overflow(d, r, &out.shape[i]),
                "sizes of less than 2^63", named("repeats", repeats), shape_of(c, 0));
  }
  return Status::kOk;
}

Status shape_pad(const Call& c) {
  const auto& a = c.attr<PadAttrs>();
  const View& x = c.in[0];
  PROA_EXPECT(c, a.low.count == x.rank && a.high.count == x.rank,
              "low and high with a number for each axis of x", named("low", a.low),
              named("high", a.high), shape_of(c, 0));
  View& out = c.out[0];
  out.rank = x.rank;
  for (int i = 0; i < x.rank; ++i) {
    const int64_t d = x.shape[i], low = a.low[i], high = a.high[i];
    if (d == kUnknown) {
      out.shape[i] = kUnknown;
      continue;
    }
    if (a.mode != PadAttrs::kModeConstant) {
      PROA_EXPECT(c, low >= 0 && high >= 0, "padding of at least 0 in this mode",
                  named("low", a.low), named("high", a.high));
      const bool any = low > 0 || high > 0;
      const int64_t limit = a.mode == PadAttrs::kModeReflect    ? d - 1
                            : a.mode == PadAttrs::kModeCircular ? d
                                                                : INT64_MAX;
      PROA_EXPECT(c, !any || (d > 0 && low <= limit && high <= limit),
                  "padding that x has elements for (reflect: less than the axis, circular: no more "
                  "than it)",
                  named("low", a.low), named("high", a.high), shape_of(c, 0));
    }
    const bool fits = !__builtin_add_overflow(d, low, &out.shape[i]) &&
                      !__builtin_add_overflow(out.shape[i], high, &out.shape[i]);
    PROA_EXPECT(c, fits && out.shape[i] >= 0, "padded sizes of at least 0 and less than 2^63",
                named("low", a.low), named("high", a.high), shape_of(c, 0));
  }
  return Status::kOk;
}

Status shape_gather(const Call& c) {
  const View &x = c.in[0], &index = c.in[1];
  PROA_TRY(check_index(c, 1));
  const int64_t given = c.attr<GatherAttrs>().axis;
  const int axis = normal_axis(given, x.rank);
  PROA_EXPECT(c, axis >= 0, "axis within the axes of x", named("axis", given), shape_of(c, 0));
  PROA_EXPECT(c, x.rank - 1 + index.rank <= kMaxRank, "a result with at most 8 axes",
              shape_of(c, 0), shape_of(c, 1));
  View& out = c.out[0];
  int rank = 0;
  for (int i = 0; i < axis; ++i) out.shape[rank++] = x.shape[i];
  for (int i = 0; i < index.rank; ++i) out.shape[rank++] = index.shape[i];
  for (int i = axis + 1; i < x.rank; ++i) out.shape[rank++] = x.shape[i];
  out.rank = static_cast<int8_t>(rank);
  return Status::kOk;
}

Status shape_gather_nd(const Call& c) {
  const View &x = c.in[0], &index = c.in[1];
  PROA_TRY(check_index(c, 1));
  PROA_EXPECT(c, index.rank >= 1, "index with at least 1 axis", shape_of(c, 1));
  const int64_t depth = index.shape[index.rank - 1];
  PROA_EXPECT(c, depth >= 0 && depth <= x.rank,
              "index whose last axis is no longer than x has axes", shape_of(c, 1), shape_of(c, 0));
  const int rest = x.rank - static_cast<int>(depth);
  PROA_EXPECT(c, index.rank - 1 + rest <= kMaxRank, "a result with at most 8 axes", shape_of(c, 0),
              shape_of(c, 1));
  View& out = c.out[0];
  int rank = 0;
  for (int i = 0; i + 1 < index.rank; ++i) out.shape[rank++] = index.shape[i];
  for (int i = static_cast<int>(depth); i < x.rank; ++i) out.shape[rank++] = x.shape[i];
  out.rank = static_cast<int8_t>(rank);
  return Status::kOk;
}

Status shape_take_along_axis(const Call& c) {
  const View &x = c.in[0], &index = c.in[1];
  PROA_TRY(check_index(c, 1));
  const int64_t given = c.attr<TakeAlongAxisAttrs>().axis;
  const int axis = normal_axis(given, x.rank);
  PROA_EXPECT(c, axis >= 0, "axis within the axes of x", named("axis", given), shape_of(c, 0));
  PROA_EXPECT(c, index.rank == x.rank, "index with as many axes as x", shape_of(c, 1),
              shape_of(c, 0));
  View& out = c.out[0];
  out.rank = x.rank;
  for (int i = 0; i < x.rank; ++i) {
    if (i == axis) {
      out.shape[i] = index.shape[i];
      continue;
    }
    PROA_EXPECT(c, broadcast_dim(x.shape[i], index.shape[i], &out.shape[i]),
                "index that broadcasts with x along all axes but `axis`", named("axis", given),
                shape_of(c, 0), shape_of(c, 1));
  }
  return Status::kOk;
}

Status shape_nonzero(const Call& c) {
  const int64_t count = c.attr<NonzeroAttrs>().count;
  PROA_EXPECT(c, count >= 0, "count of at least 0", named("count", count));
  c.out[0].rank = 2;
  c.out[0].shape[0] = count;
  c.out[0].shape[1] = c.in[0].rank;
  return Status::kOk;
}

Status shape_one_hot(const Call& c) {
  const int64_t depth = c.attr<OneHotAttrs>().depth;
  PROA_EXPECT(c, depth >= 1, "depth of at least 1", named("depth", depth));
  PROA_EXPECT(c, c.in[0].rank < kMaxRank, "x with at most 7 axes", shape_of(c, 0));
  copy_shape(c.in[0], &c.out[0]);
  c.out[0].shape[c.out[0].rank++] = depth;
  return Status::kOk;
}

Status shape_embedding(const Call& c) {
  const View &ids = c.in[0], &weight = c.in[1];
  PROA_EXPECT(c, weight.rank == 2, "weight with 2 axes (ids, features)", shape_of(c, 1));
  PROA_EXPECT(c, ids.rank < kMaxRank, "ids with at most 7 axes", shape_of(c, 0));
  copy_shape(ids, &c.out[0]);
  c.out[0].shape[c.out[0].rank++] = weight.shape[1];
  return Status::kOk;
}

}  // namespace proa
