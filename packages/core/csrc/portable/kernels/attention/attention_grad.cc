// The gradient of attention, with the scores computed again tile by tile (Dao et al., 2022). Of a
// row of weights w and its gradient g, after dropout's part: ds = w (g - sum(w g)), and that sum is
// the product of dy and y.
#include "proa/base/arith.h"
#include "proa/gen/attrs/attention.h"
#include "proa/kernels/attention/tile_products.h"

namespace proa::PROA_ISA {
namespace {

/// How the heads and, where those are few, their keys are shared out. Tasks that share a head each
/// have a slot, whose sums for dq are added in the end.
struct Cut {
  int64_t tiles, splits, tasks, slots;
  explicit Cut(const AttentionShape& s) {
    tiles = round_up(s.keys, kAttentionTile) / kAttentionTile;
    const int64_t wanted = s.count() == 0 ? 1 : round_up(kAttentionSlots, s.count()) / s.count();
    splits = tiles == 0 ? 1 : min(wanted, tiles);
    tasks = s.count() * splits;
    slots = splits > 1 ? tasks : min(tasks, kAttentionSlots);
  }
};

template <class T>
struct Buffers {
  using C = typename T::Sum;
  using U = typename T::Unit;
  U *queries, *dy;                      // all rows of a head, as left operands,
  U *query_steps, *dy_steps;            // and as right ones; the same if those are in place
  U *keys, *key_panels, *value_panels;  // of a tile
  U *rows, *columns;                    // of weights or ds, as left operands
  C *dq, *dk, *dv, *weights, *ds;
  C *peak, *inverse, *dot;  // of every query
  C *row, *dy_row;          // buffers
  size_t bytes;
  mutable AmxState amx = {};

  Buffers(const AttentionShape& s, void* memory) {
    const int64_t pitch = pitch_of<C>(s.width), wide = pitch_of<C>(s.value_width);
    Workspace workspace(memory);
    dq = workspace.take<C>(s.queries * pitch);
    queries = workspace.take<U>((s.queries + 1) * T::pitch(s.width));
    dy = workspace.take<U>((s.queries + 1) * T::pitch(s.value_width));
    query_steps = queries;
    dy_steps = dy;
    if (!T::kRowsAreSteps) {
      query_steps = workspace.take<U>(T::steps_size(s.queries, s.width));
      dy_steps = workspace.take<U>(T::steps_size(s.queries, s.value_width));
    }
    keys = workspace.take<U>(T::steps_size(kAttentionTile, s.width));
    key_panels = workspace.take<U>(T::columns_size(kAttentionTile, s.width));
    value_panels = workspace.take<U>(T::columns_size(kAttentionTile, s.value_width));
    rows = workspace.take<U>(T::kSpareSize);
    columns = workspace.take<U>(T::kSpareSize);
    dk = workspace.take<C>(kAttentionTile * pitch);
    dv = workspace.take<C>(kAttentionTile * wide);
    weights = workspace.take<C>((kAttentionTile + 1) * kTilePitch<C>);
    ds = workspace.take<C>((kAttentionTile + 1) * kTilePitch<C>);
    peak = workspace.take<C>(s.queries);
    inverse = workspace.take<C>(s.queries);
    dot = workspace.take<C>(s.queries);
    row = workspace.take<C>(wide);
    dy_row = workspace.take<C>(wide);
    bytes = workspace.bytes();
  }
};

template <class C>
C dot_of_rows(const C* a, const C* b, int64_t n) {
  constexpr int kWidth = kLanesOf<C>;
  Vec<C> sum = {};
  for (int64_t j = 0; j < n; j += kWidth) {
    const int64_t some = min(kWidth, n - j);
    sum += load_n(a + j, some) * load_n(b + j, some);
  }
  return sum_lanes(sum);
}

template <class C>
void clear(C* p, int64_t n) {
  memset(p, 0, static_cast<size_t>(n) * sizeof(C));
}

template <class T>
struct AttentionGrad {
  using C = typename T::Sum;
  const Call& c;  // dy, q, k, v, y, statistics, mask -> dq, dk, dv
  AttentionShape shape;
  Scoring<C> scoring;
  Dropout dropout;
  int64_t pitch, wide;

  explicit AttentionGrad(const Call& call) : c(call), shape(c.in[1], c.in[2], c.in[3]) {
    const auto& a = c.attr<AttentionGradAttrs>();
    scoring = {static_cast<C>(a.scale), a.causal != 0, c.n_in > 6 ? &c.in[6] : nullptr,
               shape.heads};
    dropout = {a.p, a.seed, a.offset};
    pitch = pitch_of<C>(shape.width);
    wide = pitch_of<C>(shape.value_width);
  }

  void load_head(const Buffers<T>& w, int64_t head) const {
    const Head dy(c.in[0], head), q(c.in[1], head), y(c.in[4], head);
    T::copy_rows(q, 0, shape.queries, shape.width, w.queries);
    T::copy_rows(dy, 0, shape.queries, shape.value_width, w.dy);
    if (!T::kRowsAreSteps) {
      T::pack_steps(q, 0, shape.queries, shape.width, w.query_steps);
      T::pack_steps(dy, 0, shape.queries, shape.value_width, w.dy_steps);
    }
    const View& statistics = c.in[5];
    const C* from = statistics.as<C>() + head / shape.heads * statistics.stride[0] +
                    head % shape.heads * statistics.stride[1];
    for (int64_t i = 0; i < shape.queries; ++i, from += statistics.stride[2]) {
      w.peak[i] = from[0];
      w.inverse[i] = 1 / from[statistics.stride[3]];
      widen(y.at(i), y.dtype, y.step, shape.value_width, w.row);
      widen(dy.at(i), dy.dtype, dy.step, shape.value_width, w.dy_row);
      w.dot[i] = dot_of_rows(w.row, w.dy_row, shape.value_width);
    }
    clear(w.dq, shape.queries * pitch);
  }

  /// A row of scores and of products of dy and values becomes weights and gradients of scores.
  void weigh_row(const Buffers<T>& w, int64_t head, int64_t query, int64_t r, int64_t first,
                 int64_t n) const {
    constexpr int kWidth = kLanesOf<C>;
    C* const s = w.weights + r * kTilePitch<C>;
    C* const d = w.ds + r * kTilePitch<C>;
    const int64_t seen = scoring.seen(query, first, n);
    const C peak = w.peak[query], inverse = w.inverse[query], dot = w.dot[query];
    scoring.finish(s, head, query, first, seen);
    C factors[kAttentionTile];
    if (dropout.any())
      dropout.factors((head * shape.queries + query) * shape.keys + first, seen, factors);
    for (int64_t j = 0; j < seen; j += kWidth) {
      const int64_t some = min(kWidth, seen - j);
      const Vec<C> weight = exp_of(load_n(s + j, some) - peak) * inverse;
      Vec<C> g = load_n(d + j, some), used = weight;
      if (dropout.any()) {
        const Vec<C> factor = load_n(factors + j, some);
        g *= factor;
        used *= factor;
      }
      store_n(s + j, used, some);
      store_n(d + j, weight * (g - dot), some);
    }
    for (int64_t j = seen; j < n; ++j) s[j] = d[j] = 0;
    if (!scoring.has_bools()) return;
    C buffer[kAttentionTile];
    const C* const mask = scoring.mask_row(head, query, first, seen, buffer);
    for (int64_t j = 0; j < seen; ++j) d[j] = mask[j] != 0 ? C{0} : d[j];
  }

  void run_tile(const Buffers<T>& w, int64_t head, int64_t query, int64_t rows, int64_t first,
                int64_t n) const {
    const int64_t q_pitch = T::pitch(shape.width), dy_pitch = T::pitch(shape.value_width);
    T::multiply(&w.amx, rows, n, shape.width, {w.queries + query * q_pitch, q_pitch},
                T::by_columns(w.key_panels, shape.width, 0), w.weights, kTilePitch<C>, false);
    T::multiply(&w.amx, rows, n, shape.value_width, {w.dy + query * dy_pitch, dy_pitch},
                T::by_columns(w.value_panels, shape.value_width, 0), w.ds, kTilePitch<C>, false);
    for (int64_t r = 0; r < rows; ++r) weigh_row(w, head, query + r, r, first, n);
    const auto weights = T::rows_of(w.weights, rows, n, w.rows);
    T::multiply(&w.amx, n, shape.value_width, rows, T::transposed(weights, rows, n, w.columns),
                T::by_steps(w.dy_steps, shape.queries, shape.value_width, query), w.dv, wide, true);
    const auto ds = T::rows_of(w.ds, rows, n, w.rows);
    T::multiply(&w.amx, n, shape.width, rows, T::transposed(ds, rows, n, w.columns),
                T::by_steps(w.query_steps, shape.queries, shape.width, query), w.dk, pitch, true);
    T::multiply(&w.amx, rows, shape.width, n, ds, T::by_steps(w.keys, n, shape.width, 0),
                w.dq + query * pitch, pitch, true);
  }

  void run_keys(const Buffers<T>& w, int64_t head, int64_t first) const {
    const int64_t n = min(kAttentionTile, shape.keys - first);
    const Head k(c.in[2], head), v(c.in[3], head);
    T::pack_steps(k, first, n, shape.width, w.keys);
    T::pack_columns(k, first, n, shape.width, w.key_panels);
    T::pack_columns(v, first, n, shape.value_width, w.value_panels);
    clear(w.dk, kAttentionTile * pitch);
    clear(w.dv, kAttentionTile * wide);
    // Causal queries before the first of these keys see none of them.
    for (int64_t query = scoring.causal ? first / kAttentionTile * kAttentionTile : 0;
         query < shape.queries; query += kAttentionTile)
      run_tile(w, head, query, min(kAttentionTile, shape.queries - query), first, n);
    const Head dk(c.out[1], head), dv(c.out[2], head);
    for (int64_t j = 0; j < n; ++j) {
      give(w.dk + j * pitch, shape.width, scoring.scale, dk, first + j);
      give(w.dv + j * wide, shape.value_width, C{1}, dv, first + j);
    }
  }

  static void give(C* values, int64_t n, C factor, const Head& to, int64_t row) {
    for (int64_t i = 0; i < n; ++i) values[i] *= factor;
    narrow(values, to.dtype, to.step, n, to.at(row));
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
        run_keys(w, head, t * kAttentionTile);
      if (cut.splits == 1) give_queries(w, head);
    });
    if (cut.splits == 1) return;
    parallel_for(c, shape.count(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t head = begin; head < end; ++head) join(head, cut.splits, bytes);
    });
  }

  void give_queries(const Buffers<T>& w, int64_t head) const {
    const Head dq(c.out[0], head);
    for (int64_t i = 0; i < shape.queries; ++i)
      give(w.dq + i * pitch, shape.width, scoring.scale, dq, i);
  }

  /// Adds the sums for dq of the tasks that shared a head, in their order.
  void join(int64_t head, int64_t splits, size_t bytes) const {
    uint8_t* const memory =
        static_cast<uint8_t*>(c.scratch) + static_cast<size_t>(head * splits) * bytes;
    const Buffers<T> first(shape, memory);
    for (int64_t s = 1; s < splits; ++s) {
      const Buffers<T> other(shape, memory + static_cast<size_t>(s) * bytes);
      for (int64_t i = 0; i < shape.queries * pitch; ++i) first.dq[i] += other.dq[i];
    }
    give_queries(first, head);
  }
};

}  // namespace

Status attention_grad(const Call& c) {
  with_tiles(c.in[1].dtype, [&](auto tiles) { AttentionGrad<decltype(tiles)>(c).run(); });
  return Status::kOk;
}

size_t attention_grad_scratch(const Call& c) {
  const AttentionShape s(c.in[1], c.in[2], c.in[3]);
  size_t each = 0;
  with_tiles(c.in[1].dtype, [&](auto tiles) { each = Buffers<decltype(tiles)>(s, nullptr).bytes; });
  return static_cast<size_t>(Cut(s).slots) * each;
}

}  // namespace proa::PROA_ISA
