#pragma once
// The strides that a caller chooses for an op's output. One policy, so that eager and
// planned runs agree.
#include "proa/base/op_table.h"

namespace proa {

/// True if the elements of `v` fill one block of memory, in any order of the
/// axes.
inline bool is_dense(const View& v) {
  int64_t reach = 1, count = 1;
  for (int i = 0; i < v.rank; ++i) {
    if (v.shape[i] <= 1) {
      if (v.shape[i] == 0) return false;
      continue;
    }
    if (v.stride[i] <= 0) return false;
    reach += (v.shape[i] - 1) * v.stride[i];
    count *= v.shape[i];
  }
  return reach == count;
}

/// Sets strides of `out` so that its axes have the memory order of those of
/// `like`.
inline void set_order_of(const View& like, View* out) {
  int order[kMaxRank];  // axes from innermost to outermost
  for (int i = 0; i < out->rank; ++i) {
    const int axis = out->rank - 1 - i;
    int at = i;
    while (at > 0 && like.shape[axis] > 1 && like.shape[order[at - 1]] > 1 &&
           like.stride[axis] < like.stride[order[at - 1]]) {
      order[at] = order[at - 1];
      --at;
    }
    order[at] = axis;
  }
  int64_t stride = 1;
  for (int i = 0; i < out->rank; ++i) {
    out->stride[order[i]] = stride;
    stride *= out->shape[order[i]] > 0 ? out->shape[order[i]] : 1;
  }
}

/// Sets the strides of the op's output `out`, whose shape is known: the row's
/// layout, where kFollow takes the first dense input of the output's rank whose
/// shape it keeps (elementwise) or whose first two dimensions it keeps
/// (pooling), and kFollowOrder the first dense one of its rank.
inline void choose_strides(const OpInfo& op, const Call& call, View* out) {
  out->set_contiguous();
  if (op.layout == Layout::kChannelsLast && out->rank == 4) return out->set_channels_last();
  if (op.layout == Layout::kRowMajor || op.layout == Layout::kChannelsLast) return;
  for (int i = 0; i < call.n_in; ++i) {
    const View& x = call.in[i];
    if (x.rank != out->rank || x.rank < 2) continue;
    bool keeps = true;
    for (int a = 0; op.layout == Layout::kFollow && a < (op.elementwise ? x.rank : 2); ++a)
      keeps &= x.shape[a] == out->shape[a];
    if (!keeps || !is_dense(x)) continue;
    if (!x.contiguous()) set_order_of(x, out);
    return;
  }
}

}  // namespace proa
