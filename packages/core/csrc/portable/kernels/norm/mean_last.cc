// Sums and means over the last axes, and the mean's gradient.
#include "proa/gen/attrs/norm.h"
#include "proa/simd/rows.h"

namespace proa::PROA_ISA {
namespace {

template <class C>
void reduce(const Call& c, int64_t axes, bool mean) {
  const View& x = c.in[0];
  const Rows from(x, static_cast<int>(x.rank - axes), x.rank);
  const Rows to(c.out[0], c.out[0].rank, c.out[0].rank);
  const C divisor = mean ? static_cast<C>(from.width) : C{1};
  parallel_for(c, from.count, row_grain(from.width), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const C sum =
          sum_row<C>(from.row(r), from.width, [](Vec<C> v, int64_t, int64_t) { return v; }) /
          divisor;
      write_block(to.row(r), 0, 1, &sum);
    }
  });
}

template <class C>
void spread(const Call& c, int64_t axes) {
  const View &dy = c.in[0], &dx = c.out[0];
  const Rows from(dy, dy.rank, dy.rank), to(dx, static_cast<int>(dx.rank - axes), dx.rank);
  parallel_for(c, to.count, row_grain(to.width), [&](int64_t begin, int64_t end) {
    C block[kRowBlock];
    for (int64_t r = begin; r < end; ++r) {
      C value;
      read_into(from.row(r), &value);
      value /= static_cast<C>(to.width);
      const int64_t count = to.width < kRowBlock ? to.width : kRowBlock;
      for (int64_t i = 0; i < count; ++i) block[i] = value;
      for (int64_t i = 0; i < to.width; i += kRowBlock)
        write_block(to.row(r), i, to.width - i < kRowBlock ? to.width - i : kRowBlock, block);
    }
  });
}

Status reduce_any(const Call& c, int64_t axes, bool mean) {
  if (is_double(c.in[0].dtype))
    reduce<double>(c, axes, mean);
  else
    reduce<float>(c, axes, mean);
  return Status::kOk;
}

}  // namespace

Status mean_last(const Call& c) { return reduce_any(c, c.attr<MeanLastAttrs>().axes, true); }
Status sum_last(const Call& c) { return reduce_any(c, c.attr<SumLastAttrs>().axes, false); }

Status mean_last_grad(const Call& c) {
  const int64_t axes = c.attr<MeanLastGradAttrs>().axes;
  if (is_double(c.in[0].dtype))
    spread<double>(c, axes);
  else
    spread<float>(c, axes);
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
