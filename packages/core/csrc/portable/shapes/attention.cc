// Shape rules of attention: arrays (batch, length, heads, width), scores (batch, heads, queries,
// keys).
#include "proa/gen/attrs/attention.h"
#include "proa/gen/attrs/quant.h"
#include "proa/gen/shapes.h"
#include "proa/shapes/checks.h"

namespace proa {
namespace {

/// Input `i`, if it is given: bools, or numbers of the scores' dtype, that broadcast to the scores.
Status check_mask(const Call& c, int i, const View& scores, DType dtype) {
  if (i >= c.n_in || !c.in[i].given()) return Status::kOk;
  const View& mask = c.in[i];
  PROA_EXPECT(c, mask.dtype == DType::kBool || mask.dtype == dtype,
              "a mask of bool or of the scores' dtype", dtype_of(c, i),
              named("scores.dtype", dtype));
  PROA_EXPECT(c, broadcasts_to(mask, scores), "a mask that broadcasts to the scores",
              shape_of(c, i), named("scores.shape", scores));
  return Status::kOk;
}

/// q, k, v, inputs from `first` on, agree; `scores` gets their shape.
Status check_heads(const Call& c, int first, View* scores) {
  const View &q = c.in[first], &k = c.in[first + 1], &v = c.in[first + 2];
  for (int i = first; i < first + 3; ++i) {
    PROA_EXPECT(c, c.in[i].rank == 4, "q, k and v with 4 axes (batch, length, heads, width)",
                shape_of(c, i));
    PROA_EXPECT(c, c.in[i].dtype == q.dtype, "q, k and v of one dtype", dtype_of(c, first),
                dtype_of(c, i));
  }
  const auto equal = [](const View& a, const View& b, int axis) {
    return may_equal(a.shape[axis], b.shape[axis]);
  };
  PROA_EXPECT(c, equal(q, k, 0) && equal(q, v, 0) && equal(k, v, 0), "q, k and v of one batch size",
              shape_of(c, first), shape_of(c, first + 1), shape_of(c, first + 2));
  PROA_EXPECT(c, equal(k, v, 1), "k and v of one length", shape_of(c, first + 1),
              shape_of(c, first + 2));
  PROA_EXPECT(c, equal(q, k, 2) && equal(q, v, 2) && equal(k, v, 2),
              "q, k and v with one number of heads", shape_of(c, first), shape_of(c, first + 1),
              shape_of(c, first + 2));
  PROA_EXPECT(c, equal(q, k, 3), "q and k of one width", shape_of(c, first),
              shape_of(c, first + 1));
  scores->rank = 4;
  scores->shape[0] = first_known(q.shape[0], first_known(k.shape[0], v.shape[0]));
  scores->shape[1] = first_known(q.shape[2], first_known(k.shape[2], v.shape[2]));
  scores->shape[2] = q.shape[1];
  scores->shape[3] = first_known(k.shape[1], v.shape[1]);
  return Status::kOk;
}

}  // namespace

Status shape_attention(const Call& c) {
  const View& q = c.in[0];
  View scores;
  PROA_TRY(check_heads(c, 0, &scores));
  PROA_TRY(check_mask(c, 3, scores, q.dtype));
  const int64_t shape[4] = {scores.shape[0], q.shape[1], scores.shape[1], c.in[2].shape[3]};
  c.out[0].rank = 4;
  for (int i = 0; i < 4; ++i) c.out[0].shape[i] = shape[i];
  copy_shape(scores, &c.out[1]);
  c.out[1].shape[3] = 2;
  return Status::kOk;
}

Status shape_attention_int8(const Call& c) {
  const auto& a = c.attr<AttentionInt8Attrs>();
  const int64_t whole[] = {a.q_zero, a.k_zero, a.v_zero, a.out_zero, a.low};
  for (const int64_t w : whole)
    PROA_EXPECT(c, w >= -128 && w <= 127, "zeros and low within int8", named("q_zero", a.q_zero),
                named("k_zero", a.k_zero), named("v_zero", a.v_zero), named("out_zero", a.out_zero),
                named("low", a.low));
  View scores;
  PROA_TRY(check_heads(c, 0, &scores));
  PROA_TRY(check_mask(c, 3, scores, DType::kF32));
  const int64_t width = first_known(c.in[0].shape[3], c.in[1].shape[3]);
  PROA_TRY(check_int8_sum(c, width, int8_reach(a.q_zero), int8_reach(a.k_zero)));
  // Weights are round(p / weight_scale) <= 2 * p / weight_scale and p adds up to 1, so that keys
  // have no limit unless weight_scale is far below the usual 1 / 255. 4 leaves room for the
  // rounding of p.
  const int64_t v_reach = int8_reach(a.v_zero);
  if (!(4.0 * static_cast<double>(v_reach) <= INT32_MAX * a.weight_scale))
    PROA_TRY(check_int8_sum(c, scores.shape[3], int8_reach(-128), v_reach));
  const int64_t shape[4] = {scores.shape[0], c.in[0].shape[1], scores.shape[1], c.in[2].shape[3]};
  c.out[0].rank = 4;
  for (int i = 0; i < 4; ++i) c.out[0].shape[i] = shape[i];
  return Status::kOk;
}

Status shape_attention_grad(const Call& c) {
  const View &dy = c.in[0], &q = c.in[1], &y = c.in[4], &statistics = c.in[5];
  View scores;
  PROA_TRY(check_heads(c, 1, &scores));
  PROA_TRY(check_mask(c, 6, scores, q.dtype));
  View expected[2] = {y, scores};
  expected[0].rank = 4;
  expected[0].shape[0] = scores.shape[0];
  expected[0].shape[1] = q.shape[1];
  expected[0].shape[2] = scores.shape[1];
  expected[0].shape[3] = c.in[3].shape[3];
  expected[1].shape[3] = 2;
  const bool low = q.dtype == DType::kF16 || q.dtype == DType::kBF16;
  PROA_EXPECT(c, y.dtype == q.dtype && dy.dtype == q.dtype, "y and dy of q's dtype", dtype_of(c, 1),
              dtype_of(c, 4), dtype_of(c, 0));
  PROA_EXPECT(c, same_shape(y, expected[0]) && same_shape(dy, y), "y and dy of the result's shape",
              named("result.shape", expected[0]), shape_of(c, 4), shape_of(c, 0));
  PROA_EXPECT(c, same_shape(statistics, expected[1]), "the statistics of the forward operator",
              named("expected.shape", expected[1]), shape_of(c, 5));
  PROA_EXPECT(c, statistics.dtype == (low ? DType::kF32 : q.dtype),
              "the statistics of the forward operator", dtype_of(c, 5));
  for (int i = 0; i < 3; ++i) copy_shape(c.in[1 + i], &c.out[i]);
  return Status::kOk;
}

// x (batch, heads, queries, keys) under a mask.
Status shape_mask_scores(const Call& c) {
  const View& x = c.in[0];
  PROA_EXPECT(c, x.rank == 4, "x with 4 axes (batch, heads, queries, keys)", shape_of(c, 0));
  PROA_TRY(check_mask(c, 1, x, x.dtype));
  copy_shape(x, &c.out[0]);
  return Status::kOk;
}

}  // namespace proa
