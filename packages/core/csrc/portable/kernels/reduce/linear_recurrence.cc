// First-order linear recurrences along an axis, exclusive of the element itself.
#include "proa/base/task_size.h"
#include "proa/gen/attrs/reduce.h"
#include "proa/kernels/elementwise/convert.h"
#include "proa/kernels/elementwise/functions.h"
#include "proa/kernels/reduce/reducer.h"

namespace proa::PROA_ISA {

namespace {

constexpr int kY = 0, kX = 1, kB = 2;

/// One line of n elements of y, x and b from their offsets, computed in T (double or C128), which
/// is `wide`.
template <class T>
void recur_line(const Call& c, DType wide, const int64_t* offset, const int64_t* step, int64_t n,
                double initial) {
  const View* const arrays[] = {&c.out[0], &c.in[0], &c.in[1]};
  const auto at = [&](int k, int64_t i) {
    const int64_t element = offset[k] + i * step[k];
    return arrays[k]->as<uint8_t>() + element * static_cast<int64_t>(size_of(arrays[k]->dtype));
  };
  T y;
  convert(DType::kF64, &initial, wide, &y, 1);
  for (int64_t i = 0; i < n; ++i) {
    T x, b;
    convert(wide, &y, c.out[0].dtype, at(kY, i), 1);
    convert(c.in[0].dtype, at(kX, i), wide, &x, 1);
    convert(c.in[1].dtype, at(kB, i), wide, &b, 1);
    y = x * y + b;
  }
}

}  // namespace

Status linear_recurrence(const Call& c) {
  const auto& attrs = c.attr<LinearRecurrenceAttrs>();
  const View& y = c.out[0];
  if (y.numel() == 0) return Status::kOk;
  Nest all;  // the axes of y in order
  all.set_shape(y);
  all.add(y);
  all.add(c.in[0]);
  all.add(c.in[1]);
  int64_t n = 1, step[3] = {}, first[3] = {};
  Nest lines;
  lines.arrays = all.arrays;
  const int axis = y.rank > 0 ? normalize_axis(attrs.axis, y.rank) : -1;
  for (int d = 0; d < all.rank; ++d) {
    if (d == axis) {
      n = all.shape[d];
      for (int k = 0; k < 3; ++k) {
        first[k] = attrs.reverse != 0 ? (n - 1) * all.stride[k][d] : 0;
        step[k] = attrs.reverse != 0 ? -all.stride[k][d] : all.stride[k][d];
      }
      continue;
    }
    lines.shape[lines.rank] = all.shape[d];
    for (int k = 0; k < 3; ++k) lines.stride[k][lines.rank] = all.stride[k][d];
    ++lines.rank;
  }
  const bool is_pair = is_complex(y.dtype);
  parallel_for(c, lines.size(), kScalarTask / n + 1, [&](int64_t begin, int64_t end) {
    Cursor at;
    for (int64_t line = begin; line < end; ++line) {
      at.seek(lines, line);
      int64_t offset[3];
      for (int k = 0; k < 3; ++k) offset[k] = first[k] + at.offset[k];
      if (is_pair) {
        recur_line<C128>(c, DType::kC128, offset, step, n, attrs.initial);
      } else {
        recur_line<double>(c, DType::kF64, offset, step, n, attrs.initial);
      }
    }
  });
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
