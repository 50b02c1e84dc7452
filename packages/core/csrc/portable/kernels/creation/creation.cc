// Arrays from nothing but attributes.
#include <math.h>

#include "proa/base/task_size.h"
#include "proa/gen/attrs/creation.h"
#include "proa/kernels/elementwise/convert.h"
#include "proa/kernels/movement/copy.h"

namespace proa::PROA_ISA {

namespace {

Status fill_scalar(const Call& c, const View& out, const Scalar& s) {
  alignas(16) uint8_t value[16];
  write_scalar(s, out.dtype, value);
  return fill(c, out, value);
}

/// out[i] = at(i), computed as numbers of type `as`, for a one-dimensional out.
template <class T, class F>
Status generate(const Call& c, DType as, F&& at) {
  const View& out = c.out[0];
  const int64_t size = static_cast<int64_t>(size_of(out.dtype));
  parallel_for(c, out.numel(), kElementTask, [&](int64_t begin, int64_t end) {
    constexpr int64_t kBlock = 256;
    T block[kBlock];
    alignas(16) uint8_t converted[kBlock * 16];
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t n = end - i < kBlock ? end - i : kBlock;
      for (int64_t k = 0; k < n; ++k) block[k] = at(i + k);
      convert(as, block, out.dtype, converted, n);
      scatter_row(size_of(out.dtype), converted, out.as<uint8_t>() + i * out.stride[0] * size,
                  out.stride[0], n);
    }
  });
  return Status::kOk;
}

}  // namespace

Status full(const Call& c) { return fill_scalar(c, c.out[0], c.attr<FullAttrs>().value); }
Status full_like(const Call& c) { return fill_scalar(c, c.out[0], c.attr<FullLikeAttrs>().value); }

Status arange(const Call& c) {
  const auto& a = c.attr<ArangeAttrs>();
  if (a.start.is_int != 0 && a.step.is_int != 0) {
    const uint64_t start = static_cast<uint64_t>(a.start.i), step = static_cast<uint64_t>(a.step.i);
    return generate<int64_t>(c, DType::kI64, [=](int64_t i) {
      return static_cast<int64_t>(start + static_cast<uint64_t>(i) * step);
    });
  }
  const double start = a.start.to_double(), step = a.step.to_double();
  return generate<double>(c, DType::kF64,
                          [=](int64_t i) { return start + static_cast<double>(i) * step; });
}

Status linspace(const Call& c) {
  const auto& a = c.attr<LinspaceAttrs>();
  const int64_t count = c.out[0].numel();
  const double step = count > 1 ? (a.stop - a.start) / static_cast<double>(count - 1) : 0;
  // From both ends, so that the last is exactly stop.
  return generate<double>(c, DType::kF64, [=, &a](int64_t i) {
    return i < count / 2 || count == 1 ? a.start + static_cast<double>(i) * step
                                       : a.stop - static_cast<double>(count - 1 - i) * step;
  });
}

Status eye(const Call& c) {
  View diagonal = c.out[0];
  PROA_TRY(clear(c, diagonal));
  diagonal.rank = 1;
  diagonal.stride[0] += diagonal.stride[1];
  if (diagonal.shape[1] < diagonal.shape[0]) diagonal.shape[0] = diagonal.shape[1];
  Scalar one;
  one.is_int = 1;
  one.i = 1;
  return fill_scalar(c, diagonal, one);
}

}  // namespace proa::PROA_ISA
