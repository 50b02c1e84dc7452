// softmax(scale q k^T + mask) v head by head, over tiles of queries and keys: of the scores only a
// tile exists at a time. The peak and the sum of a row grow with its tiles, and what was summed
// before is scaled to the new peak (Milakov & Gimelshein, 2018; Rabe & Staats, 2021).
#include "proa/gen/attrs/attention.h"
#include "proa/base/arith.h"
#include "proa/kernels/attention/tile_products.h"

namespace proa::PROA_ISA {
namespace {

/// How the heads and, where those are few, their queries are shared out.
struct Cut {
  int64_t tiles, splits, tasks, slots;
  explicit Cut(const AttentionShape& s) {
    tiles = round_up(s.queries, kAttentionTile) / kAttentionTile;
    const int64_t wanted = s.count() == 0 ? 1 : round_up(kAttentionSlots, s.count()) / s.count();
    splits = tiles == 0 ? 0 : min(wanted, tiles);
    tasks = s.count() * splits;
    slots = min(tasks, kAttentionSlots);
  }
};

/// What a slot works on.
template <class T>
struct Buffers {
  using C = typename T::Sum;
  using U = typename T::Unit;
  U *keys, *values, *queries, *weights;
  C *scores, *sums, *peak, *total;
  size_t bytes;
  mutable AmxState amx = {};

  Buffers(const AttentionShape& s, void* memory) {
    Workspace workspace(memory);
    keys = workspace.take<U>(T::columns_size(s.keys, s.width));
    values = workspace.take<U>(T::steps_size(s.keys, s.value_width));
    queries = workspace.take<U>((kAttentionTile + 1) * T::pitch(s.width));
    weights = workspace.take<U>(T::kSpareSize);
    scores = workspace.take<C>((kAttentionTile + 1) * kTilePitch<C>);
    sums = workspace.take<C>(kAttentionTile * pitch_of<C>(s.value_width));
    peak = workspace.take<C>(kAttentionTile);
    total = workspace.take<C>(kAttentionTile);
    bytes = workspace.bytes();
  }
};

/// The greatest lane, of a tree: max_lanes() compares one lane after the other.
template <class C>
PROA_INLINE C greatest(Vec<C> v) {
  constexpr int kWidth = kLanesOf<C>;
  C lanes[kWidth];
  store(lanes, v);
  for (int half = kWidth / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i)
      lanes[i] = lanes[i + half] > lanes[i] ? lanes[i + half] : lanes[i];
  return lanes[0];
}

/// s *= scale; returns the greatest of its n elements and of `peak`.
template <class C>
C scale_to_peak(C* s, int64_t n, C scale, C peak) {
  constexpr int kWidth = kLanesOf<C>, kChains = 4;
  Vec<C> largest[kChains];
  for (Vec<C>& v : largest) v = splat(peak);
  const auto step = [&](int64_t j, int chain) {
    const Vec<C> v = load(s + j) * scale;
    store(s + j, v);
    largest[chain] = v > largest[chain] ? v : largest[chain];
  };
  int64_t j = 0;
  for (; j + kChains * kWidth <= n; j += kChains * kWidth)
#pragma GCC unroll 4
    for (int i = 0; i < kChains; ++i) step(j + i * kWidth, i);
  for (; j + kWidth <= n; j += kWidth) step(j, 0);
  for (; j < n; ++j) {
    s[j] *= scale;
    peak = s[j] > peak ? s[j] : peak;
  }
  for (int i = 1; i < kChains; ++i) largest[0] = largest[i] > largest[0] ? largest[i] : largest[0];
  const C best = greatest<C>(largest[0]);
  return best > peak ? best : peak;
}

/// s = exp(s - peak); returns the sum.
template <class C>
C exponentials(C* s, int64_t n, C peak) {
  constexpr int kWidth = kLanesOf<C>;
  Vec<C> sum = {};
  int64_t j = 0;
  for (; j + kWidth <= n; j += kWidth) {
    const Vec<C> e = exp_below(load(s + j) - peak);
    store(s + j, e);
    sum += e;
  }
  if (j < n) {
    store_n(s + j, exp_below(load_n(s + j, n - j) - peak), n - j);
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

template <class T>
struct Attention {
  using C = typename T::Sum;
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

  void load_head(const Buffers<T>& w, int64_t head) const {
    T::pack_columns(Head(c.in[1], head), 0, shape.keys, shape.width, w.keys);
    T::pack_steps(Head(c.in[2], head), 0, shape.keys, shape.value_width, w.values);
  }

  /// Weights of a row over one tile's keys, which are not yet divided by their sum.
  void weigh_row(const Buffers<T>& w, int64_t head, int64_t query, int64_t r, int64_t first,
                 int64_t n) const {
    C* const s = w.scores + r * kTilePitch<C>;
    const int64_t seen = scoring.seen(query, first, n);
    C scale = scoring.scale;
    if (scoring.has_mask()) {
      scoring.finish(s, head, query, first, seen);
      scale = 1;
    }
    const C peak = scale_to_peak(s, seen, scale, w.peak[r]);
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
    C factors[kAttentionTile];
    dropout.factors((head * shape.queries + query) * shape.keys + first, seen, factors);
    for (int64_t j = 0; j < seen; ++j) s[j] *= factors[j];
  }

  void run_tile(const Buffers<T>& w, int64_t head, int64_t query, int64_t rows) const {
    const int64_t wide = pitch_of<C>(shape.value_width);
    T::copy_rows(Head(c.in[0], head), query, rows, shape.width, w.queries);
    for (int64_t r = 0; r < rows; ++r) {
      w.peak[r] = sizeof(C) == 8 ? static_cast<C>(-DBL_MAX) : static_cast<C>(-FLT_MAX);
      w.total[r] = 0;
    }
    for (int64_t first = 0; first < shape.keys; first += kAttentionTile) {
      if (scoring.causal && first > query + rows - 1) break;
      const int64_t n = min(kAttentionTile, shape.keys - first);
      T::multiply(&w.amx, rows, n, shape.width, {w.queries, T::pitch(shape.width)},
                  T::by_columns(w.keys, shape.width, first), w.scores, kTilePitch<C>, false);
      for (int64_t r = 0; r < rows; ++r) weigh_row(w, head, query + r, r, first, n);
      T::multiply(&w.amx, rows, shape.value_width, n, T::rows_of(w.scores, rows, n, w.weights),
                  T::by_steps(w.values, shape.keys, shape.value_width, first), w.sums, wide,
                  first > 0);
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
    const View& statistics = c.out[1];
    C* const to = statistics.as<C>() + head / shape.heads * statistics.stride[0] +
                  head % shape.heads * statistics.stride[1] + query * statistics.stride[2];
    to[0] = peak;
    to[statistics.stride[3]] = total;
  }

  void run() const {
    const Cut cut(shape);
    const size_t bytes = Buffers<T>(shape, nullptr).bytes;
    for_each_task(c, cut.tasks, cut.slots, bytes, [&](int64_t task, void* memory) {
      const Buffers<T> w(shape, memory);
      const int64_t head = task / cut.splits, split = task % cut.splits;
      load_head(w, head);
      const int64_t end = (split + 1) * cut.tiles / cut.splits;
      for (int64_t t = split * cut.tiles / cut.splits; t < end; ++t)
        run_tile(w, head, t * kAttentionTile,
                 min(kAttentionTile, shape.queries - t * kAttentionTile));
    });
  }
};

}  // namespace

Status attention(const Call& c) {
  with_tiles(c.in[0].dtype, [&](auto tiles) { Attention<decltype(tiles)>(c).run(); });
  return Status::kOk;
}

size_t attention_scratch(const Call& c) {
  const AttentionShape s(c.in[0], c.in[1], c.in[2]);
  size_t each = 0;
  with_tiles(c.in[0].dtype, [&](auto tiles) { each = Buffers<decltype(tiles)>(s, nullptr).bytes; });
  return static_cast<size_t>(Cut(s).slots) * each;
}

}  // namespace proa::PROA_ISA
