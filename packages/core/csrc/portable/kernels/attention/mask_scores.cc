// The whole matrix of scores under a mask, and its gradient: attention written out in smaller ops.
#include "proa/base/arith.h"
#include "proa/gen/attrs/attention.h"
#include "proa/kernels/attention/tile.h"

namespace proa::PROA_ISA {
namespace {

/// Runs body(scoring, values, head, query, first, n) over chunks of the rows of x, which it
/// changes.
template <class C, class F>
void map_scores(const Call& c, bool causal, F body) {
  const Rows x(c.in[0], 3, 4), y(c.out[0], 3, 4);
  const int64_t heads = c.in[0].shape[1], queries = c.in[0].shape[2];
  const Scoring<C> scoring = {1, causal, c.n_in > 1 ? &c.in[1] : nullptr, heads};
  parallel_for(c, x.count, row_grain(x.width), [&](int64_t begin, int64_t end) {
    alignas(64) C values[kAttentionTile];
    for (int64_t r = begin; r < end; ++r)
      for (int64_t first = 0; first < x.width; first += kAttentionTile) {
        const int64_t n = min(kAttentionTile, x.width - first);
        const C* from = read_block(x.row(r), first, n, values);
        if (from != values) memcpy(values, from, static_cast<size_t>(n) * sizeof(C));
        body(scoring, values, r / queries, r % queries, first, n);
        write_block(y.row(r), first, n, values);
      }
  });
}

template <class C>
void masked(const Call& c, bool causal) {
  map_scores<C>(c, causal,
                [](const Scoring<C>& scoring, C* values, int64_t head, int64_t query, int64_t first,
                   int64_t n) {
                  const int64_t seen = scoring.seen(query, first, n);
                  scoring.finish(values, head, query, first, seen);
                  for (int64_t j = seen; j < n; ++j) values[j] = -static_cast<C>(INFINITY);
                });
}

template <class C>
void zero_masked(const Call& c, bool causal) {
  map_scores<C>(c, causal,
                [](const Scoring<C>& scoring, C* values, int64_t head, int64_t query, int64_t first,
                   int64_t n) {
                  const int64_t seen = scoring.seen(query, first, n);
                  for (int64_t j = seen; j < n; ++j) values[j] = 0;
                  if (!scoring.has_bools()) return;
                  C buffer[kAttentionTile];
                  const C* const mask = scoring.mask_row(head, query, first, seen, buffer);
                  for (int64_t j = 0; j < seen; ++j) values[j] = mask[j] != 0 ? C{0} : values[j];
                });
}

}  // namespace

Status mask_scores(const Call& c) {
  const bool causal = c.attr<MaskScoresAttrs>().causal != 0;
  if (is_double(c.in[0].dtype))
    masked<double>(c, causal);
  else
    masked<float>(c, causal);
  return Status::kOk;
}

Status keep_scores(const Call& c) {
  const bool causal = c.attr<KeepScoresAttrs>().causal != 0;
  if (is_double(c.in[0].dtype))
    zero_masked<double>(c, causal);
  else
    zero_masked<float>(c, causal);
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
