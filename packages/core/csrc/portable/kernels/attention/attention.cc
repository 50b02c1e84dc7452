// softmax(scale q k^T + mask) v head by head, over tiles of queries and keys: of the scores only a
// tile exists at a time. The peak and the sum of a row grow with its tiles, and what was summed
// before is scaled to the new peak (Milakov & Gimelshein, 2018; Rabe & Staats, 2021).
#include "proa/gen/attrs/attention.h"
#include "proa/base/arith.h"
#include "proa/kernels/attention/tile.h"

namespace proa::PROA_ISA {
namespace {

/// How the heads and, where those are few, their queries are shared out.
struct Cut {
  int64_t tiles, splits, tasks, slots;
  explicit Cut(const AttentionShape& s) {
    tiles = round_up(s.queries, kTileSide) / kTileSide;
    const int64_t wanted = s.count() == 0 ? 1 : round_up(kAttentionSlots, s.count()) / s.count();
    splits = tiles == 0 ? 0 : min(wanted, tiles);
    tasks = s.count() * splits;
    slots = min(tasks, kAttentionSlots);
  }
};

/// What a slot works on.
template <class C>
struct Buffers {
  C *keys, *values, *queries, *scores, *sums, *peak, *total;
  size_t bytes;

  Buffers(const AttentionShape& s, void* memory) {
    Workspace workspace(memory);
    keys = workspace.take<C>(round_up(s.keys, kPanel<C>) * s.width);
    values = workspace.take<C>(s.keys * pitch_of<C>(s.value_width));
    queries = workspace.take<C>((kTileSide + 1) * pitch_of<C>(s.width));
    scores = workspace.take<C>((kTileSide + 1) * kTilePitch<C>);
    sums = workspace.take<C>(kTileSide * pitch_of<C>(s.value_width));
    peak = workspace.take<C>(kTileSide);
    total = workspace.take<C>(kTileSide);
    bytes = workspace.bytes();
  }
};

template <class C>
C peak_of_row(const C* s, int64_t n, C peak) {
  constexpr int kWidth = kLanesOf<C>;
  Vec<C> largest = splat(peak);
  int64_t j = 0;
  for (; j + kWidth <= n; j += kWidth) {
    const Vec<C> v = load(s + j);
    largest = v > largest ? v : largest;
  }
  for (; j < n; ++j) largest[0] = s[j] > largest[0] ? s[j] : largest[0];
  for (int i = 1; i < kWidth; ++i) largest[0] = largest[i] > largest[0] ? largest[i] : largest[0];
  return largest[0];
}

/// s = exp(s - peak); returns the sum.
template <class C>
C exponentials(C* s, int64_t n, C peak) {
  constexpr int kWidth = kLanesOf<C>;
  Vec<C> sum = {};
  int64_t j = 0;
  for (; j + kWidth <= n; j += kWidth) {
    const Vec<C> e = exp_of(load(s + j) - peak);
    store(s + j, e);
    sum += e;
  }
  if (j < n) {
    store_n(s + j, exp_of(load_n(s + j, n - j) - peak), n - j);
    sum += load_n(s + j, n - j);
  }
  return sum_lanes(sum);
}

template <class C>
void scale_row(C* s, int64_t n, C factor) {
  constexpr int kWidth = kLanesOf<C>;
  for (int64_t j = 0; j < n; j += kWidth) {
    const int64_t some = min(kWidth, n - j);
    store_n(s + j, load_n(s + j, some) * factor, some);
  }
}

template <class C>
struct Attention {
  const Call& c;
  AttentionShape shape;
  Scoring<C> scoring;
  Dropout dropout;

  explicit Attention(const Call& call) : c(call), shape(c.in[0], c.in[1], c.in[2]) {
    const auto& a = c.attr<AttentionAttrs>();
    scoring = {static_cast<C>(a.scale), a.causal != 0, c.n_in > 3 ? &c.in[3] : nullptr,
               shape.heads};
    dropout = {a.p, a.seed, a.offset};
  }

  void load_head(const Buffers<C>& w, int64_t head) const {
    pack_rows_of(Head(c.in[1], head), 0, shape.keys, shape.width, w.keys);
    copy_rows_of(Head(c.in[2], head), 0, shape.keys, shape.value_width, w.values,
                 pitch_of<C>(shape.value_width));
  }

  /// Weights of a row over one tile's keys, which are not yet divided by their sum.
  void weigh_row(const Buffers<C>& w, int64_t head, int64_t query, int64_t r, int64_t first,
                 int64_t n) const {
    C* const s = w.scores + r * kTilePitch<C>;
    const int64_t seen = scoring.seen(query, first, n);
    scoring.finish(s, head, query, first, seen);
    const C peak = peak_of_row(s, seen, w.peak[r]);
    const C sum = exponentials(s, seen, peak);
    for (int64_t j = seen; j < n; ++j) s[j] = 0;
    if (first > 0 && peak != w.peak[r]) {
      const C shrink = exp_of(splat(w.peak[r] - peak))[0];
      w.total[r] *= shrink;
      scale_row(w.sums + r * pitch_of<C>(shape.value_width), shape.value_width, shrink);
    }
    w.peak[r] = peak;
    w.total[r] += sum;
    if (!dropout.any()) return;
    C factors[kTileSide];
    dropout.factors((head * shape.queries + query) * shape.keys + first, seen, factors);
    for (int64_t j = 0; j < seen; ++j) s[j] *= factors[j];
  }

  void run_tile(const Buffers<C>& w, int64_t head, int64_t query, int64_t rows) const {
    const int64_t pitch = pitch_of<C>(shape.width), wide = pitch_of<C>(shape.value_width);
    copy_rows_of(Head(c.in[0], head), query, rows, shape.width, w.queries, pitch);
    for (int64_t r = 0; r < rows; ++r) {
      w.peak[r] = sizeof(C) == 8 ? static_cast<C>(-DBL_MAX) : static_cast<C>(-FLT_MAX);
      w.total[r] = 0;
    }
    for (int64_t first = 0; first < shape.keys; first += kTileSide) {
      if (scoring.causal && first > query + rows - 1) break;
      const int64_t n = min(kTileSide, shape.keys - first);
      multiply_tile(rows, n, shape.width, Left<C>{w.queries, pitch, false},
                    packed_right(w.keys + first * shape.width, shape.width), w.scores,
                    kTilePitch<C>, false);
      for (int64_t r = 0; r < rows; ++r) weigh_row(w, head, query + r, r, first, n);
      multiply_tile(rows, shape.value_width, n, Left<C>{w.scores, kTilePitch<C>, false},
                    rows_right(w.values + first * wide, wide), w.sums, wide, first > 0);
    }
    const Head y(c.out[0], head);
    for (int64_t r = 0; r < rows; ++r) {
      C* const sums = w.sums + r * wide;
      if (shape.keys == 0) memset(sums, 0, static_cast<size_t>(shape.value_width) * sizeof(C));
      scale_row(sums, shape.value_width, shape.keys == 0 ? C{0} : 1 / w.total[r]);
      narrow(sums, y.dtype, y.step, shape.value_width, y.at(query + r));
      keep(head, query + r, w.peak[r], w.total[r]);
    }
  }

  /// Peak and sum of a row, for the gradient.
  void keep(int64_t head, int64_t query, C peak, C total) const {
    const View& kept = c.out[1];
    C* const to = kept.as<C>() + head / shape.heads * kept.stride[0] +
                  head % shape.heads * kept.stride[1] + query * kept.stride[2];
    to[0] = peak;
    to[kept.stride[3]] = total;
  }

  void run() const {
    const Cut cut(shape);
    const size_t bytes = Buffers<C>(shape, nullptr).bytes;
    for_each_task(c, cut.tasks, cut.slots, bytes, [&](int64_t task, void* memory) {
      const Buffers<C> w(shape, memory);
      const int64_t head = task / cut.splits, split = task % cut.splits;
      load_head(w, head);
      const int64_t end = (split + 1) * cut.tiles / cut.splits;
      for (int64_t t = split * cut.tiles / cut.splits; t < end; ++t)
        run_tile(w, head, t * kTileSide, min(kTileSide, shape.queries - t * kTileSide));
    });
  }
};

}  // namespace

Status attention(const Call& c) {
  if (is_double(c.in[0].dtype))
    Attention<double>(c).run();
  else
    Attention<float>(c).run();
  return Status::kOk;
}

size_t attention_scratch(const Call& c) {
  const AttentionShape s(c.in[0], c.in[1], c.in[2]);
  const size_t each = is_double(c.in[0].dtype) ? Buffers<double>(s, nullptr).bytes
                                               : Buffers<float>(s, nullptr).bytes;
  return static_cast<size_t>(Cut(s).slots) * each;
}

}  // namespace proa::PROA_ISA
