// Running sums and products, and gradients of reductions.
#include "proa/base/task_size.h"
#include "proa/gen/attrs/reduce.h"
#include "proa/gen/shapes.h"
#include "proa/kernels/elementwise/functions.h"
#include "proa/kernels/reduce/reducer.h"
#include "proa/simd/vec_double.h"

namespace proa::PROA_ISA {

namespace {

const uint8_t* element(const View& x, int64_t offset) {
  return x.as<const uint8_t>() + offset * static_cast<int64_t>(size_of(x.dtype));
}

/// x[i] = x[0] op .. op x[i], with what went before in *carry.
template <class T, bool kProduct>
void scan_run(const void* from, void* to, int64_t n, void* carry) {
  const T* x = static_cast<const T*>(from);
  T* y = static_cast<T*>(to);
  T acc = *static_cast<T*>(carry);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (kProduct) {
      acc = acc * x[i];
    } else {
      acc = acc + x[i];
    }
    y[i] = acc;
  }
  *static_cast<T*>(carry) = acc;
}
template <>
void scan_run<double, false>(const void* from, void* to, int64_t n, void* carry) {
  constexpr int kWidth = kLanesOf<double>;
  const double* x = static_cast<const double*>(from);
  double* y = static_cast<double*>(to);
  double acc = *static_cast<double*>(carry);
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    const VD sums = prefix_sums(load(x + i)) + acc;
    store(y + i, sums);
    acc = sums[kWidth - 1];
  }
  for (; i < n; ++i) y[i] = acc = acc + x[i];
  *static_cast<double*>(carry) = acc;
}

/// carry[i] = carry[i] op x[i]: one step of lines side by side.
template <class T, bool kProduct>
void scan_step(const void* x, void*, int64_t n, void* carry) {
  const T* v = static_cast<const T*>(x);
  T* acc = static_cast<T*>(carry);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (kProduct) {
      acc[i] = acc[i] * v[i];
    } else {
      acc[i] = acc[i] + v[i];
    }
  }
}

// -- float, where bandwidth counts: the same numbers without a copy of them in double -------------
/// Running sums of n floats that follow each other.
void sum_line(const float* x, float* y, int64_t n) {
  constexpr int kWidth = kLanesOf<double>;
  VD carry = {};
  int64_t i = 0;
  for (; i + 2 * kWidth <= n; i += 2 * kWidth) {
    prefetch_ahead(x + i);
    prefetch_ahead(y + i);
#pragma GCC unroll 2
    for (int k = 0; k < 2 * kWidth; k += kWidth) {
      const VD sums = prefix_sums(load_wide(x + i + k));
      store_narrow(y + i + k, sums + carry);
      carry += splat_last(sums);
    }
  }
  double acc = carry[0];
  for (; i < n; ++i) y[i] = static_cast<float>(acc = acc + static_cast<double>(x[i]));
}

/// One step of n adjacent float lines; prefetches a later one.
template <bool kProduct>
void step_floats(const float* x, float* y, int64_t n, double* carry, int64_t x_later,
                 int64_t y_later) {
  constexpr int kWidth = kLanesOf<double>;
  int64_t i = 0;
  for (; i + 2 * kWidth <= n; i += 2 * kWidth) {
    prefetch(x + i + x_later);
    prefetch(y + i + y_later);
#pragma GCC unroll 2
    for (int k = 0; k < 2 * kWidth; k += kWidth) {
      const VD v = load_wide(x + i + k), acc = load(carry + i + k);
      const VD next = kProduct ? acc * v : acc + v;
      store(carry + i + k, next);
      store_narrow(y + i + k, next);
    }
  }
  for (; i < n; ++i) {
    const double v = static_cast<double>(x[i]);
    carry[i] = kProduct ? carry[i] * v : carry[i] + v;
    y[i] = static_cast<float>(carry[i]);
  }
}

using ScanRun = void (*)(const void*, void*, int64_t, void*);

/// Lines along an axis: element i of line l is at offset l of `parallel` + i * step. They are
/// scanned as `as`, a dtype.
struct ScanLines {
  const View &x, &y;
  const Nest& parallel;
  int64_t length, x_step, y_step;
  DType as;

  bool floats() const { return x.dtype == DType::kF32 && y.dtype == DType::kF32; }
};
constexpr int64_t kBlock = 256;

template <template <class, bool> class Run>
ScanRun select_scan(DType as, bool product) {
  if (as == DType::kC128) return product ? Run<C128, true>::call : Run<C128, false>::call;
  if (as == DType::kF64) return product ? Run<double, true>::call : Run<double, false>::call;
  return product ? Run<uint64_t, true>::call : Run<uint64_t, false>::call;
}
template <class T, bool kProduct>
struct Along {
  static constexpr ScanRun call = scan_run<T, kProduct>;
};
template <class T, bool kProduct>
struct Across {
  static constexpr ScanRun call = scan_step<T, kProduct>;
};

/// `n` times what a scan begins with.
void begin_scan(DType as, bool product, void* carry, int64_t n) {
  const int64_t first = product ? 1 : 0;
  alignas(16) uint8_t value[16];
  convert(DType::kI64, &first, as, value, 1);
  fill_row(size_of(as), value, carry, n);
}

/// Line after line, in blocks of the wide type.
void scan_lines(const Call& c, const ScanLines& l, bool product) {
  const ScanRun run = select_scan<Along>(l.as, product);
  const size_t size = size_of(l.x.dtype), out_size = size_of(l.y.dtype);
  parallel_for(c, l.parallel.size(), kElementTask / l.length + 1, [&](int64_t begin, int64_t end) {
    alignas(64) uint8_t raw[kBlock * 16], wide[kBlock * 16];
    Cursor at;
    at.seek(l.parallel, begin);
    for (int64_t line = begin; line < end; ++line, at.advance(l.parallel, 1)) {
      if (!product && l.floats() && l.x_step == 1 && l.y_step == 1) {
        sum_line(l.x.as<float>() + at.offset[0], l.y.as<float>() + at.offset[1], l.length);
        continue;
      }
      C128 carry;
      begin_scan(l.as, product, &carry, 1);
      for (int64_t i = 0; i < l.length; i += kBlock) {
        const int64_t n = l.length - i < kBlock ? l.length - i : kBlock;
        const uint8_t* from = element(l.x, at.offset[0] + i * l.x_step);
        uint8_t* to = const_cast<uint8_t*>(element(l.y, at.offset[1] + i * l.y_step));
        if (l.x_step != 1) {
          gather_row(size, from, l.x_step, raw, n);
          from = raw;
        }
        convert(l.x.dtype, from, l.as, wide, n);
        run(wide, wide, n, &carry);
        convert(l.as, wide, l.y.dtype, l.y_step == 1 ? to : raw, n);
        if (l.y_step != 1) scatter_row(out_size, raw, to, l.y_step, n);
      }
    }
  });
}

/// Lines adjacent in memory: a block of them is scanned a step at a time. Of floats it is a page;
/// for parts of pages the hardware prefetcher would fetch the rest as well.
void scan_columns(const Call& c, const ScanLines& l, bool product) {
  const ScanRun step = select_scan<Across>(l.as, product);
  constexpr int64_t kPage = 1024;
  const int64_t block = l.floats() ? kPage : kBlock;
  const int64_t run = l.parallel.shape[l.parallel.rank - 1], blocks = (run + block - 1) / block;
  const int64_t units = l.parallel.size() / run * blocks;
  parallel_for(c, units, kElementTask / (l.length * block) + 1, [&](int64_t begin, int64_t end) {
    alignas(64) uint8_t carry[kPage * sizeof(double)], wide[kBlock * 16];
    static_assert(sizeof carry >= kBlock * 16);
    for (int64_t u = begin; u < end; ++u) {
      const int64_t first = u % blocks * block, n = run - first < block ? run - first : block;
      Cursor at;
      at.seek(l.parallel, u / blocks * run + first);
      begin_scan(l.as, product, carry, n);
      const int64_t later = kAheadBytes / (4 * n) + 1;
      for (int64_t i = 0; i < l.length; ++i) {
        if (l.floats()) {
          const int64_t ahead = i + later < l.length ? later : 0;
          (product ? step_floats<true>
                   : step_floats<false>)(l.x.as<float>() + at.offset[0] + i * l.x_step,
                                         l.y.as<float>() + at.offset[1] + i * l.y_step, n,
                                         reinterpret_cast<double*>(carry), ahead * l.x_step,
                                         ahead * l.y_step);
          continue;
        }
        convert(l.x.dtype, element(l.x, at.offset[0] + i * l.x_step), l.as, wide, n);
        step(wide, nullptr, n, carry);
        convert(l.as, carry, l.y.dtype,
                const_cast<uint8_t*>(element(l.y, at.offset[1] + i * l.y_step)), n);
      }
    }
  });
}

Status scan_axis(const Call& c, int64_t axis_attr, bool reverse, bool product) {
  View x = c.in[0], y = c.out[0];
  if (x.numel() == 0) return Status::kOk;
  int64_t length = 1, xs = 1, ys = 1;
  Split s;
  if (x.rank > 0) {
    const int axis = normalize_axis(axis_attr, x.rank);
    length = x.shape[axis];
    const int64_t last = reverse ? length - 1 : 0;
    x.data = const_cast<uint8_t*>(element(x, last * x.stride[axis]));
    y.data = const_cast<uint8_t*>(element(y, last * y.stride[axis]));
    xs = reverse ? -x.stride[axis] : x.stride[axis];
    ys = reverse ? -y.stride[axis] : y.stride[axis];
    s = split_axes(x, 1u << axis, y);
  } else {
    s = split_axes(x, 0, y);
  }
  s.parallel.merge();
  const DType as = is_complex(x.dtype)    ? DType::kC128
                   : is_floating(x.dtype) ? DType::kF64
                                          : DType::kI64;
  const int last = s.parallel.rank - 1;
  const bool by_columns = last >= 0 && xs != 1 && s.parallel.shape[last] >= 16 &&
                          s.parallel.stride[0][last] == 1 && s.parallel.stride[1][last] == 1;
  const ScanLines lines = {x, y, s.parallel, length, xs, ys, as};
  if (by_columns) {
    scan_columns(c, lines, product);
  } else {
    scan_lines(c, lines, product);
  }
  return Status::kOk;
}

}  // namespace

Status cumsum(const Call& c) {
  const auto& a = c.attr<CumsumAttrs>();
  return scan_axis(c, a.axis, a.reverse != 0, false);
}
Status cumprod(const Call& c) { return scan_axis(c, c.attr<CumprodAttrs>().axis, false, true); }

// -- gradients -----------------------------------------------------------------------------------

namespace {

struct Factor {
  double value;
};
PROA_FUNCTOR_(times_f, Factor, (V x), x* T(a.value))
PROA_FUNCTOR_(times_c, Factor, (V x), (C128{x.re * a.value, x.im * a.value}))

/// dy, or y, with the shape of the reduction's input.
Status expanded(const Call& c, const View& dy, const View& like, View* out) {
  const View in[] = {dy, like};
  Call call;
  call.in = in;
  call.n_in = 2;
  call.out = out;
  call.n_out = 1;
  call.attrs = c.attrs;
  *out = dy;
  return shape_expand_reduced(call);
}

}  // namespace

Status mean_grad(const Call& c) {
  static constexpr Loops kLoops = {unary_loop<float, times_f>, unary_loop<double, times_f>, nullptr,
                                   nullptr, plain_unary_loop<C128, C128, times_c>};
  View dy;
  PROA_TRY(expanded(c, c.in[0], c.out[0], &dy));
  const int64_t total = c.out[0].numel(), results = c.in[0].numel();
  if (total == 0) return Status::kOk;
  const Factor factor = {static_cast<double>(results) / static_cast<double>(total)};
  return elementwise(c, kLoops, &dy, 1, &factor);
}

Status prod_grad(const Call& c) {
  // Per output: the product of the elements but zeros, and how many zeros there are. With none an
  // element's share is y / x, a lone zero gets the product of the others, all else is 0.
  const View &x = c.in[2], &dx = c.out[0];
  View dy;
  PROA_TRY(expanded(c, c.in[0], x, &dy));
  const uint32_t mask = axes_of(c.attr<ProdGradAttrs>().axis, x.rank);
  const Split to_x = split_axes(x, mask, dx);    // array 0 of parallel is x
  const Split to_dx = split_axes(dx, mask, dy);  // those of parallel: dx and dy, which has x's axes
  const int64_t length = to_x.reduced.size(), outputs = to_x.parallel.size();
  if (length == 0 || outputs == 0) return Status::kOk;
  auto value = [](const View& v, int64_t offset) {
    C128 z;
    convert(v.dtype, element(v, offset), DType::kC128, &z, 1);
    return z;
  };
  parallel_for(c, outputs, kScalarTask / length + 1, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      Cursor from, to;
      from.seek(to_x.parallel, o);
      to.seek(to_dx.parallel, o);
      const C128 g = value(dy, to.offset[1]);
      C128 product = {1, 0};
      int64_t zeros = 0;
      Cursor at;
      for (int64_t i = 0; i < length; ++i) {
        at.seek(to_x.reduced, i);
        const C128 v = value(x, from.offset[0] + at.offset[0]);
        const bool zero = v.re == 0 && v.im == 0;
        zeros += zero;
        if (!zero) product = product * v;
      }
      for (int64_t i = 0; i < length; ++i) {
        at.seek(to_x.reduced, i);
        const C128 v = value(x, from.offset[0] + at.offset[0]);
        const bool zero = v.re == 0 && v.im == 0;
        C128 share = {0, 0};
        if (zeros == 0) share = product / v;
        if (zeros == 1 && zero) share = product;
        share = g * share;
        at.seek(to_dx.reduced, i);
        convert(DType::kC128, &share, dx.dtype,
                const_cast<uint8_t*>(element(dx, to.offset[0] + at.offset[0])), 1);
      }
    }
  });
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
