// Shape rules of attention: arrays (batch, length, heads, width), scores (batch, heads, queries,
// keys).
#include "proa/gen/attrs/attention.h"
#include "proa/gen/shapes.h"
#include "proa/shapes/dims.h"

namespace proa {
namespace {

/// Bools, or numbers of the scores' dtype, that broadcast to the scores.
bool mask_fits(const View& mask, const View& scores, DType dtype) {
  if (!mask.given()) return true;
  return (mask.dtype == DType::kBool || mask.dtype == dtype) && broadcasts_to(mask, scores);
}

/// q, k, v agree; `scores` gets their shape.
bool heads_fit(const View& q, const View& k, const View& v, View* scores) {
  if (q.rank != 4 || k.rank != 4 || v.rank != 4) return false;
  if (k.dtype != q.dtype || v.dtype != q.dtype) return false;
  const auto equal = [](const View& a, const View& b, int axis) {
    return may_equal(a.shape[axis], b.shape[axis]);
  };
  if (!equal(q, k, 0) || !equal(q, v, 0) || !equal(k, v, 0) || !equal(k, v, 1)) return false;
  if (!equal(q, k, 2) || !equal(q, v, 2) || !equal(k, v, 2) || !equal(q, k, 3)) return false;
  scores->rank = 4;
  scores->shape[0] = known_of(q.shape[0], known_of(k.shape[0], v.shape[0]));
  scores->shape[1] = known_of(q.shape[2], known_of(k.shape[2], v.shape[2]));
  scores->shape[2] = q.shape[1];
  scores->shape[3] = known_of(k.shape[1], v.shape[1]);
  return true;
}

}  // namespace

Status shape_attention(const Call& c) {
  const View &q = c.in[0], none, &mask = c.n_in > 3 ? c.in[3] : none;
  View scores;
  if (!heads_fit(q, c.in[1], c.in[2], &scores) || !mask_fits(mask, scores, q.dtype))
    return Status::kInvalidArgument;
  const int64_t shape[4] = {scores.shape[0], q.shape[1], scores.shape[1], c.in[2].shape[3]};
  c.out[0].rank = 4;
  for (int i = 0; i < 4; ++i) c.out[0].shape[i] = shape[i];
  copy_shape(scores, &c.out[1]);
  c.out[1].shape[3] = 2;
  return Status::kOk;
}

Status shape_attention_grad(const Call& c) {
  const View &dy = c.in[0], &q = c.in[1], &y = c.in[4], &kept = c.in[5];
  const View none, &mask = c.n_in > 6 ? c.in[6] : none;
  View scores;
  if (!heads_fit(q, c.in[2], c.in[3], &scores) || !mask_fits(mask, scores, q.dtype))
    return Status::kInvalidArgument;
  View expected[2] = {y, scores};
  expected[0].rank = 4;
  expected[0].shape[0] = scores.shape[0];
  expected[0].shape[1] = q.shape[1];
  expected[0].shape[2] = scores.shape[1];
  expected[0].shape[3] = c.in[3].shape[3];
  expected[1].shape[3] = 2;
  const bool low = q.dtype == DType::kF16 || q.dtype == DType::kBF16;
  if (y.dtype != q.dtype || dy.dtype != q.dtype || !same_shape(y, expected[0]) ||
      !same_shape(dy, y) || !same_shape(kept, expected[1]) ||
      kept.dtype != (low ? DType::kF32 : q.dtype))
    return Status::kInvalidArgument;
  for (int i = 0; i < 3; ++i) copy_shape(c.in[1 + i], &c.out[i]);
  return Status::kOk;
}

// x (batch, heads, queries, keys) under a mask.
Status shape_mask_scores(const Call& c) {
  const View &x = c.in[0], none, &mask = c.n_in > 1 ? c.in[1] : none;
  if (x.rank != 4 || !mask_fits(mask, x, x.dtype)) return Status::kInvalidArgument;
  copy_shape(x, &c.out[0]);
  return Status::kOk;
}

}  // namespace proa
