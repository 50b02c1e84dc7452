// softmax(scale (q - q_zero) (k - k_zero)^T + mask) (v - v_zero) head by head, over blocks of
// queries: their scores are float32 in the caches, their weights int8 as the second product reads
// them.
#include "proa/base/arith.h"
#include "proa/gen/attrs/quant.h"
#include "proa/kernels/attention/tile.h"
#include "proa/kernels/quant/int8_pair.h"

namespace proa::PROA_ISA {
namespace {

constexpr int32_t kWeightZero = -128;

/// How the heads and, where those are few, their queries are shared out.
struct Cut {
  int64_t block, blocks, splits, tasks, slots;
  explicit Cut(const AttentionShape& s) {
    const int64_t fit = caches().int8_scores / (4 * max(s.keys, 1)) / kMaxTileRows * kMaxTileRows;
    block = min(max(fit, kMaxTileRows), kAttentionTile);
    blocks = ceil_div(s.queries, block);
    splits = s.count() == 0 ? 0 : min(ceil_div(kAttentionSlots, s.count()), blocks);
    tasks = s.count() * splits;
    slots = min(tasks, kAttentionSlots);
  }
};

/// Keys of head 0 as the columns of a right side, and values as its rows.
Int8Kernels keys_of(const View& k) {
  return {k.as<const int8_t>(), k.stride[1], 0,          0, k.stride[3],
          k.shape[1],           1,           k.shape[3], 1, k.shape[3]};
}
Int8Kernels values_of(const View& v) {
  return {v.as<const int8_t>(), v.stride[3], 0,          0, v.stride[1],
          v.shape[3],           1,           v.shape[1], 1, v.shape[1]};
}

int64_t score_pitch(int64_t keys) { return round_up(keys, kTileVecs * kLanes) + kLanes; }

/// What a slot works on.
struct Buffers {
  uint8_t *keys, *values;  // packed
  Int8Step *queries, *weights;
  float* scores;
  int32_t* row_terms;
  size_t bytes;
  Buffers(const Call& c, const AttentionShape& s, int64_t block, void* memory) {
    Workspace workspace(memory);
    const auto take = [&](size_t n) { return workspace.take<uint8_t>(static_cast<int64_t>(n)); };
    keys = take(int8_packed_size(keys_of(c.in[1])));
    values = take(int8_packed_size(values_of(c.in[2])));
    queries = reinterpret_cast<Int8Step*>(take(int8_rows_bytes(block, s.width)));
    weights = reinterpret_cast<Int8Step*>(take(int8_rows_bytes(block, s.keys)));
    scores = workspace.take<float>(block * score_pitch(s.keys));
    row_terms = workspace.take<int32_t>(block);
    bytes = workspace.bytes();
  }
};

struct Attention {
  Call c;
  const AttentionInt8Attrs& a;
  AttentionShape shape;
  Cut cut;
  Scoring<float> scoring;
  Int8Rounding rounding;
  Int8PairEnd shared;

  static Int8Epilogue weight_rounding(float scale) {
    Int8Epilogue end;
    end.quant = {scale, inverse_of(scale), kWeightZero, -128};
    return end;
  }

  explicit Attention(const Call& call)
      : c(call),
        a(call.attr<AttentionInt8Attrs>()),
        shape(call.in[0], call.in[1], call.in[2]),
        cut(shape),
        rounding(weight_rounding(static_cast<float>(a.weight_scale))) {
    scoring = {static_cast<float>(a.scale), a.causal != 0, c.n_in > 3 ? &c.in[3] : nullptr,
               shape.heads};
    const View& y = c.out[0];
    shared.end.out = {y.data, y.dtype, {}, y.stride[3]};
    begin_int8_pair(static_cast<float>(a.weight_scale) * static_cast<float>(a.v_scale),
                    shape.value_width, {0, a.out_scale, 1.0, a.out_zero, a.low}, c.scratch,
                    &shared);
    c.parallel = nullptr;  // heads are tasks
  }

  /// Copies a block of queries; with terms of rows if keys have a zero point.
  void load_queries(const Buffers& w, int64_t head, int64_t query, int64_t rows) const {
    const Head q(c.in[0], head);
    const int64_t pitch = int8_pitch(shape.width);
    for (int64_t r = 0; r < rows; ++r) {
      Int8Step* const to = w.queries + r * pitch;
      copy_int8_row(reinterpret_cast<const int8_t*>(q.at(query + r)), q.step, shape.width, to);
      if (a.k_zero == 0) continue;
      w.row_terms[r] = int8_row_term(to, shape.width, static_cast<int32_t>(a.q_zero),
                                     static_cast<int32_t>(a.k_zero));
    }
  }

  /// Makes scores of the products of a row, n keys that it sees.
  void score_row(float* s, int32_t term, int64_t head, int64_t query, int64_t n) const {
    const VF scale = splat(scoring.scale);
    const VI more = splat(term);
    float buffer[kAttentionTile + kLanes];
    const bool bools = scoring.has_bools();
    for (int64_t first = 0; first < n; first += kAttentionTile) {
      const int64_t some = min(kAttentionTile, n - first);
      const float* const mask =
          scoring.has_mask() ? scoring.mask_row(head, query, first, some, buffer) : nullptr;
      for (int64_t j = 0; j < some; j += kLanes) {
        float* const at = s + first + j;
        VF v = to_float(bit_cast<VI>(load(at)) + more) * scale;
        if (mask != nullptr) {
          const VF extra = load_n(mask + j, min(kLanes, some - j));
          v = bools ? (extra != 0.0f ? extra : v) : v + extra;
        }
        store(at, v);
      }
    }
  }

  /// Softmax of n scores, as the row softmax computes it, to weights as steps; the others are 0.
  void weigh_row(float* s, int64_t n, Int8Step* to) const {
    const float peak = peak_of_floats(s, n);
    const float total = sum_vectors(n, [&](int64_t i, int64_t some) {
      const VF e = exp_below(load(s + i) - peak);
      store(s + i, e);
      return first_lanes(e, some);
    });
    const VF share = splat(1 / total);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) write_weights(to + i, load(s + i) * share, kLanes);
    if (i < n) write_weights(to + i, load(s + i) * share, n - i);
    for (i = n; i < shape.keys; ++i) to[i] = static_cast<Int8Step>(kWeightZero ^ kInt8Offset);
  }
  void write_weights(Int8Step* to, VF p, int64_t n) const {
    const VI q = rounding(p);
    if constexpr (sizeof(Int8Step) == 1) {
      VI8 bytes = to_int8(q) ^ static_cast<int8_t>(kInt8Offset);
      if (n == kLanes)
        memcpy(to, &bytes, sizeof bytes);
      else
        memcpy(to, &bytes, static_cast<size_t>(n));
    } else {
      for (int64_t k = 0; k < n; ++k) to[k] = static_cast<Int8Step>(q[k]);
    }
  }

  void run_block(const Buffers& w, int64_t head, int64_t query, int64_t rows) const {
    load_queries(w, head, query, rows);
    PatchGemm p = int8_rows_product(keys_of(c.in[1]), w.keys, w.queries, rows);
    p.g.out.c = w.scores;
    p.g.out.ldc = score_pitch(shape.keys);
    implicit_gemm(c, p);
    const int64_t pitch = int8_pitch(shape.keys);
    for (int64_t r = 0; r < rows; ++r) {
      float* const s = w.scores + r * p.g.out.ldc;
      const int64_t seen = scoring.seen(query + r, 0, shape.keys);
      score_row(s, a.k_zero != 0 ? w.row_terms[r] : 0, head, query + r, seen);
      Int8Step* const to = w.weights + r * pitch;
      weigh_row(s, seen, to);
      if (a.v_zero != 0)
        w.row_terms[r] = int8_row_term(to, shape.keys, kWeightZero, static_cast<int32_t>(a.v_zero));
    }
    Int8PairEnd pair = shared;
    pair.row_terms = a.v_zero != 0 ? w.row_terms : nullptr;
    const View& y = c.out[0];
    const Head out(y, head);
    pair.end.out = {out.at(query), y.dtype, coalesce_axes(y, 1, 2), out.step};
    p = int8_rows_product(values_of(c.in[2]), w.values, w.weights, rows);
    set_int8_pair_output(&p.g.out, &pair);
    implicit_gemm(c, p);
  }

  void run_task(int64_t task, void* memory) const {
    const Buffers w(c, shape, cut.block, memory);
    const int64_t head = task / cut.splits, split = task % cut.splits;
    Int8Kernels keys = keys_of(c.in[1]), values = values_of(c.in[2]);
    keys.data = reinterpret_cast<const int8_t*>(Head(c.in[1], head).data);
    values.data = reinterpret_cast<const int8_t*>(Head(c.in[2], head).data);
    int8_pack(keys, w.keys, static_cast<int32_t>(a.q_zero));
    int8_pack(values, w.values, kWeightZero);
    const int64_t end = (split + 1) * cut.blocks / cut.splits;
    for (int64_t b = split * cut.blocks / cut.splits; b < end; ++b)
      run_block(w, head, b * cut.block, min(cut.block, shape.queries - b * cut.block));
  }
};

}  // namespace

Status attention_int8(const Call& c) {
  const View& y = c.out[0];
  if (y.dtype != DType::kF32 && y.dtype != DType::kI8) return Status::kUnimplemented;
  const Attention attention(c);
  if (attention.shape.value_width == 0) return Status::kOk;
  Call rest = c;
  rest.scratch =
      static_cast<uint8_t*>(c.scratch) + int8_epilogue_bytes(attention.shape.value_width);
  const size_t bytes = Buffers(c, attention.shape, attention.cut.block, nullptr).bytes;
  for_each_task(rest, attention.cut.tasks, attention.cut.slots, bytes,
                [&](int64_t task, void* memory) { attention.run_task(task, memory); });
  return Status::kOk;
}

size_t attention_int8_scratch(const Call& c) {
  const AttentionShape s(c.in[0], c.in[1], c.in[2]);
  const Cut cut(s);
  const size_t each = Buffers(c, s, cut.block, nullptr).bytes;
  return int8_epilogue_bytes(s.value_width) + static_cast<size_t>(cut.slots) * each;
}

}  // namespace proa::PROA_ISA
