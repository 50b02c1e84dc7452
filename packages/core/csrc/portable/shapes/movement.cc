// Shape rules of joins, padding, tiling and indexing.
#include "proa/gen/attrs/movement.h"
#include "proa/gen/attrs/index.h"
#include "proa/gen/shapes.h"
#include "proa/shapes/dims.h"

namespace proa {

Status shape_concat(const Call& c) {
  if (c.n_in == 0) return Status::kInvalidArgument;
  const int rank = c.in[0].rank, axis = normal_axis(c.attr<ConcatAttrs>().axis, rank);
  if (axis < 0) return Status::kInvalidArgument;
  View& out = c.out[0];
  copy_shape(c.in[0], &out);
  for (int k = 1; k < c.n_in; ++k) {
    const View& x = c.in[k];
    if (x.rank != rank) return Status::kInvalidArgument;
    for (int i = 0; i < rank; ++i) {
      if (i == axis) {
        const bool unknown = out.shape[i] == kUnknown || x.shape[i] == kUnknown;
        out.shape[i] = unknown ? kUnknown : out.shape[i] + x.shape[i];
      } else if (!may_equal(out.shape[i], x.shape[i])) {
        return Status::kInvalidArgument;
      } else {
        out.shape[i] = known_of(out.shape[i], x.shape[i]);
      }
    }
  }
  return Status::kOk;
}

Status shape_stack(const Call& c) {
  if (c.n_in == 0 || c.in[0].rank + 1 > kMaxRank) return Status::kInvalidArgument;
  const int rank = c.in[0].rank + 1, axis = normal_axis(c.attr<StackAttrs>().axis, rank);
  if (axis < 0) return Status::kInvalidArgument;
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
      if (c.in[k].rank != rank - 1 || !may_equal(out.shape[i], c.in[k].shape[from])) {
        return Status::kInvalidArgument;
      }
      out.shape[i] = known_of(out.shape[i], c.in[k].shape[from]);
    }
  }
  for (int k = 1; k < c.n_in; ++k) {
    if (c.in[k].rank != rank - 1) return Status::kInvalidArgument;
  }
  return Status::kOk;
}

Status shape_tile(const Call& c) {
  const Ints& repeats = c.attr<TileAttrs>().repeats;
  const View& x = c.in[0];
  View& out = c.out[0];
  if (repeats.count < 0) return Status::kInvalidArgument;
  const int rank = x.rank > repeats.count ? x.rank : static_cast<int>(repeats.count);
  out.rank = static_cast<int8_t>(rank);
  for (int i = 0; i < rank; ++i) {
    const int ix = i - (rank - x.rank), ir = i - (rank - static_cast<int>(repeats.count));
    const int64_t d = ix < 0 ? 1 : x.shape[ix], r = ir < 0 ? 1 : repeats[ir];
    if (r < 0) return Status::kInvalidArgument;
    out.shape[i] = d;
    if (d != kUnknown && __builtin_mul_overflow(d, r, &out.shape[i])) {
      return Status::kInvalidArgument;
    }
  }
  return Status::kOk;
}

Status shape_pad(const Call& c) {
  const auto& a = c.attr<PadAttrs>();
  const View& x = c.in[0];
  if (a.low.count != x.rank || a.high.count != x.rank) return Status::kInvalidArgument;
  View& out = c.out[0];
  out.rank = x.rank;
  for (int i = 0; i < x.rank; ++i) {
    const int64_t d = x.shape[i], low = a.low[i], high = a.high[i];
    if (d == kUnknown) {
      out.shape[i] = kUnknown;
      continue;
    }
    if (a.mode != PadAttrs::kModeConstant) {
      if (low < 0 || high < 0) return Status::kInvalidArgument;
      const bool any = low > 0 || high > 0;
      const int64_t limit = a.mode == PadAttrs::kModeReflect    ? d - 1
                            : a.mode == PadAttrs::kModeCircular ? d
                                                                : INT64_MAX;
      if (any && (d == 0 || low > limit || high > limit)) return Status::kInvalidArgument;
    }
    if (__builtin_add_overflow(d, low, &out.shape[i]) ||
        __builtin_add_overflow(out.shape[i], high, &out.shape[i]) || out.shape[i] < 0) {
      return Status::kInvalidArgument;
    }
  }
  return Status::kOk;
}

Status shape_gather(const Call& c) {
  const View &x = c.in[0], &index = c.in[1];
  const int axis = normal_axis(c.attr<GatherAttrs>().axis, x.rank);
  if (axis < 0 || x.rank - 1 + index.rank > kMaxRank) return Status::kInvalidArgument;
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
  if (index.rank < 1) return Status::kInvalidArgument;
  const int64_t depth = index.shape[index.rank - 1];
  if (depth < 0 || depth > x.rank) return Status::kInvalidArgument;
  const int rest = x.rank - static_cast<int>(depth);
  if (index.rank - 1 + rest > kMaxRank) return Status::kInvalidArgument;
  View& out = c.out[0];
  int rank = 0;
  for (int i = 0; i + 1 < index.rank; ++i) out.shape[rank++] = index.shape[i];
  for (int i = static_cast<int>(depth); i < x.rank; ++i) out.shape[rank++] = x.shape[i];
  out.rank = static_cast<int8_t>(rank);
  return Status::kOk;
}

Status shape_take_along_axis(const Call& c) {
  const View &x = c.in[0], &index = c.in[1];
  const int axis = normal_axis(c.attr<TakeAlongAxisAttrs>().axis, x.rank);
  if (axis < 0 || index.rank != x.rank) return Status::kInvalidArgument;
  View& out = c.out[0];
  out.rank = x.rank;
  for (int i = 0; i < x.rank; ++i) {
    if (i == axis) {
      out.shape[i] = index.shape[i];
    } else if (!broadcast_dim(x.shape[i], index.shape[i], &out.shape[i])) {
      return Status::kInvalidArgument;
    }
  }
  return Status::kOk;
}

Status shape_nonzero(const Call& c) {
  const int64_t count = c.attr<NonzeroAttrs>().count;
  if (count < 0) return Status::kInvalidArgument;
  c.out[0].rank = 2;
  c.out[0].shape[0] = count;
  c.out[0].shape[1] = c.in[0].rank;
  return Status::kOk;
}

Status shape_one_hot(const Call& c) {
  const int64_t depth = c.attr<OneHotAttrs>().depth;
  if (depth < 1 || c.in[0].rank + 1 > kMaxRank) return Status::kInvalidArgument;
  copy_shape(c.in[0], &c.out[0]);
  c.out[0].shape[c.out[0].rank++] = depth;
  return Status::kOk;
}

Status shape_embedding(const Call& c) {
  const View &ids = c.in[0], &weight = c.in[1];
  if (weight.rank != 2 || ids.rank + 1 > kMaxRank) return Status::kInvalidArgument;
  copy_shape(ids, &c.out[0]);
  c.out[0].shape[c.out[0].rank++] = weight.shape[1];
  return Status::kOk;
}

}  // namespace proa
