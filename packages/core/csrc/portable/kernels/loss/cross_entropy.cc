// -log(softmax(logits)[label]) and its gradient. Labels index the last axis of the logits.
#include "proa/gen/attrs/loss.h"
#include "proa/kernels/loss/softmax.h"

namespace proa::PROA_ISA {
namespace {

/// Integer labels (..,) and what to do with each.
struct Labels {
  const View& v;
  CoalescedAxes lines;
  int64_t count, ignored;
  Labels(const View& view, int64_t ignore)
      : v(view), lines(coalesce_axes(view, 0, view.rank)), count(view.numel()), ignored(ignore) {}
  int64_t at(int64_t r) const {
    const int64_t i = lines.at(r);
    return v.dtype == DType::kI64 ? v.as<const int64_t>()[i] : v.as<const int32_t>()[i];
  }
  /// False if a label that counts is outside [0, classes).
  bool fit(int64_t classes) const {
    for (int64_t r = 0; r < count; ++r) {
      const int64_t label = at(r);
      if (label != ignored && (label < 0 || label >= classes)) return false;
    }
    return true;
  }
};

Rows last_axis(const View& v) { return Rows(v, v.rank - 1, v.rank); }
Rows elements(const View& v) { return Rows(v, v.rank, v.rank); }

template <class C>
C value_at(const Row& r, int64_t i) {
  C value;
  widen(r.at(i), r.dtype, 1, 1, &value);
  return value;
}

template <class F>
void for_each_label(const Call& c, const Labels& labels, int64_t width, F body) {
  parallel_for(c, labels.count, row_grain(width), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) body(r, labels.at(r));
  });
}

template <class C>
void losses(const Call& c, const Labels& labels) {
  const Rows x = last_axis(c.in[1]), y = elements(c.out[0]);
  for_each_label(c, labels, x.width, [&](int64_t r, int64_t label) {
    C loss = 0;
    if (label != labels.ignored) {
      const Row row = x.row(r);
      const C peak = peak_of<C>(row, x.width);
      const double total = static_cast<double>(sum_of_exp<C>(row, x.width, peak));
      loss = static_cast<C>(::log(total)) + (peak - value_at<C>(row, label));
    }
    write_block(y.row(r), 0, 1, &loss);
  });
}

/// The same numbers of contiguous float rows.
void losses_of_floats(const Call& c, const Labels& labels, const Rows& x, const Rows& y) {
  for_each_label(c, labels, x.width, [&](int64_t r, int64_t label) {
    float loss = 0;
    if (label != labels.ignored) {
      const PeakAndTotal sum = sum_up_floats(x, r);
      loss = static_cast<float>(::log(static_cast<double>(sum.total))) +
             (sum.peak - floats(x, r)[label]);
    }
    write_block(y.row(r), 0, 1, &loss);
  });
}

void gradients_of_floats(const Call& c, const Labels& labels, const Rows& x, const Rows& dx) {
  const Rows dloss = elements(c.in[1]);
  for_each_label(c, labels, x.width, [&](int64_t r, int64_t label) {
    float* const out = floats(dx, r);
    if (label == labels.ignored)
      return each_vector(x.width, [&](int64_t i, int64_t some) { give(out, i, some, VF{}); });
    const float factor = value_at<float>(dloss.row(r), 0);
    const float scale = factor / write_exp(x, dx, r, peak_of_floats(floats(x, r), x.width));
    each_vector(x.width,
                [&](int64_t i, int64_t some) { give(out, i, some, take(out, i, some) * scale); });
    out[label] -= factor;
  });
}

template <class C>
void gradients(const Call& c, const Labels& labels) {
  const Rows x = last_axis(c.in[2]), dloss = elements(c.in[1]), dx = last_axis(c.out[0]);
  for_each_label(c, labels, x.width, [&](int64_t r, int64_t label) {
    const Row row = x.row(r), to = dx.row(r);
    C factor = 0;
    if (label != labels.ignored) factor = value_at<C>(dloss.row(r), 0);
    const C peak = peak_of<C>(row, x.width);
    const C scale = factor / sum_of_exp<C>(row, x.width, peak);
    if (label == labels.ignored)
      return map_row<C>(row, to, x.width, [](Vec<C>, int64_t, int64_t) { return Vec<C>{}; });
    map_row<C>(row, to, x.width, [&](Vec<C> v, int64_t i, int64_t) {
      Vec<C> d = exp_below(v - peak) * scale;
      if (label >= i && label < i + kLanesOf<C>) d[label - i] -= factor;
      return d;
    });
  });
}

}  // namespace

Status softmax_cross_entropy(const Call& c) {
  const Labels labels(c.in[0], c.attr<SoftmaxCrossEntropyAttrs>().ignore_index);
  const View& x = c.in[1];
  if (!labels.fit(x.shape[x.rank - 1])) return Status::kOutOfRange;
  const Rows rows = last_axis(x);
  if (is_double(x.dtype))
    losses<double>(c, labels);
  else if (kHasLarge && plain(rows))
    losses_of_floats(c, labels, rows, elements(c.out[0]));
  else
    losses<float>(c, labels);
  return Status::kOk;
}

Status softmax_cross_entropy_grad(const Call& c) {
  const Labels labels(c.in[0], c.attr<SoftmaxCrossEntropyGradAttrs>().ignore_index);
  const View& x = c.in[2];
  if (!labels.fit(x.shape[x.rank - 1])) return Status::kOutOfRange;
  const Rows rows = last_axis(x), dx = last_axis(c.out[0]);
  if (is_double(x.dtype))
    gradients<double>(c, labels);
  else if (kHasLarge && plain(rows) && plain(dx))
    gradients_of_floats(c, labels, rows, dx);
  else
    gradients<float>(c, labels);
  return Status::kOk;
}

namespace {

// The values below only move: they are read and written as double, or as float.
template <class C>
void mask(const Call& c, const Labels& labels) {
  const Rows y = elements(c.out[0]);
  for_each_label(c, labels, 1, [&](int64_t r, int64_t label) {
    const C keep = label != labels.ignored;
    write_block(y.row(r), 0, 1, &keep);
  });
}

template <class C>
void scatter(const Call& c, const Labels& labels) {
  const Rows dy = elements(c.in[1]), z = last_axis(c.out[0]);
  for_each_label(c, labels, z.width, [&](int64_t r, int64_t label) {
    const Row to = z.row(r);
    const C zero[kRowBlock] = {};
    for (int64_t i = 0; i < z.width; i += kRowBlock)
      write_block(to, i, z.width - i < kRowBlock ? z.width - i : kRowBlock, zero);
    if (label == labels.ignored) return;
    const C value = value_at<C>(dy.row(r), 0);
    narrow(&value, to.dtype, 1, 1, to.at(label));
  });
}

template <class C>
void gather(const Call& c, const Labels& labels) {
  const Rows x = last_axis(c.in[1]), y = elements(c.out[0]);
  for_each_label(c, labels, 1, [&](int64_t r, int64_t label) {
    const C value = label == labels.ignored ? 0 : value_at<C>(x.row(r), label);
    write_block(y.row(r), 0, 1, &value);
  });
}

}  // namespace

Status label_mask(const Call& c) {
  const Labels labels(c.in[0], c.attr<LabelMaskAttrs>().ignore_index);
  if (is_double(c.out[0].dtype))
    mask<double>(c, labels);
  else
    mask<float>(c, labels);
  return Status::kOk;
}

Status label_scatter(const Call& c) {
  const Labels labels(c.in[0], c.attr<LabelScatterAttrs>().ignore_index);
  const View& z = c.out[0];
  if (!labels.fit(z.shape[z.rank - 1])) return Status::kOutOfRange;
  if (is_double(z.dtype))
    scatter<double>(c, labels);
  else
    scatter<float>(c, labels);
  return Status::kOk;
}

Status label_gather(const Call& c) {
  const Labels labels(c.in[0], c.attr<LabelGatherAttrs>().ignore_index);
  const View& x = c.in[1];
  if (!labels.fit(x.shape[x.rank - 1])) return Status::kOutOfRange;
  if (is_double(x.dtype))
    gather<double>(c, labels);
  else
    gather<float>(c, labels);
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
