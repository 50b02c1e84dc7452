// The greatest element of each window, and its index. A NaN counts as greatest; windows start
// from their first element, so that no sentinel for "none yet" is needed.
#include <math.h>

#include "proa/base/task_size.h"
#include "proa/gen/attrs/pool.h"
#include "proa/kernels/pool/window.h"

namespace proa::PROA_ISA {
namespace {

template <class T>
constexpr bool kIsFloat = false;
template <>
constexpr bool kIsFloat<F16> = true;
template <>
constexpr bool kIsFloat<BF16> = true;
template <>
constexpr bool kIsFloat<float> = true;
template <>
constexpr bool kIsFloat<double> = true;

struct Window {
  Span h, w;
};

/// The first `some` lanes, mostly all, which 16-bit floats take much less time for.
template <class T>
PROA_INLINE Vec<T> load_some(const T* p, int64_t some) {
  if constexpr (sizeof(T) == 2)
    if (some == kLanesOf<T>) return load(p);
  return load_n(p, some);
}

/// Channels are contiguous: a vector of them at a time.
template <class T>
void max_across(const View& x, const View& y, int64_t n, int64_t i, const Axis& down,
                const Axis& along) {
  constexpr int kWidth = kLanesOf<T>;
  const Span h = down.at(i);
  for (int64_t j = 0; j < along.count; ++j) {
    const Span w = along.at(j);
    const T* from = x.as<const T>() + n * x.stride[0];
    T* to = y.as<T>() + n * y.stride[0] + i * y.stride[2] + j * y.stride[3];
    for (int64_t c = 0; c < x.shape[1]; c += kWidth) {
      const int64_t some = x.shape[1] - c < kWidth ? x.shape[1] - c : kWidth;
      Vec<T> best = load_some(from + h.begin * x.stride[2] + w.begin * x.stride[3] + c, some);
      for (int64_t p = h.begin; p < h.end; ++p)
        for (int64_t q = w.begin; q < w.end; ++q) {
          const Vec<T> v = load_some(from + p * x.stride[2] + q * x.stride[3] + c, some);
          best = ((v > best) | (v != v)) ? v : best;
        }
      store_n(to + c, best, some);
    }
  }
}

/// The greatest of a few elements, the first of equals, and its index h * W + w.
template <class T>
struct Greatest {
  Compute<T> value;
  int64_t index;
  void update(Compute<T> v, int64_t at) {
    if (v > value || (v != v && value == value)) {
      value = v;
      index = at;
    }
  }
};

template <class T>
Greatest<T> greatest(const View& x, const T* plane, const Window& s) {
  const int64_t down = x.stride[2], along = x.stride[3];
  const T* row = plane + s.h.begin * down + s.w.begin * along;
  int64_t at = s.h.begin * x.shape[3] + s.w.begin;
  Greatest<T> best = {static_cast<Compute<T>>(*row), at};
  for (int64_t p = s.h.begin; p < s.h.end; ++p, row += down, at += x.shape[3])
    for (int64_t q = 0; q < s.w.end - s.w.begin; ++q)
      best.update(static_cast<Compute<T>>(row[q * along]), at + q);
  return best;
}

/// The greatest of each column of some rows of a plane whose columns are contiguous.
struct Columns {
  static constexpr int64_t kMaxColumns = 512;  // columns of x, at most
  float value[kMaxColumns + kLanes];
  int32_t index[kMaxColumns + kLanes];

  template <class T>
  void take(const View& x, const T* plane, Span h) {
    for (int64_t q = 0; q < x.shape[3]; q += kLanes) {
      const int64_t some = x.shape[3] - q < kLanes ? x.shape[3] - q : kLanes;
      const T* row = plane + h.begin * x.stride[2] + q;
      VI here = iota() + static_cast<int32_t>(h.begin * x.shape[3] + q), at = here;
      VF best = load_n(row, some);
      for (int64_t p = h.begin + 1; p < h.end; ++p) {
        here += static_cast<int32_t>(x.shape[3]);
        row += x.stride[2];
        const VF v = load_n(row, some);
        const auto better = (v > best) | ((v != v) & (best == best));
        at = better ? here : at;
        best = better ? v : best;
      }
      store(value + q, best);
      store(index + q, at);
    }
  }
  /// Maximum of columns [w.begin, w.end); the first of equals by rows.
  void among(Span w, float* best, int32_t* at) const {
    *best = value[w.begin];
    *at = index[w.begin];
    for (int64_t q = w.begin + 1; q < w.end; ++q) {
      const float v = value[q];
      const bool more = (v > *best) | ((v != v) & (*best == *best));
      const bool same = (v == *best) | ((v != v) & (*best != *best));
      const bool takes = more | (same & (index[q] < *at));
      *best = takes ? v : *best;
      *at = takes ? index[q] : *at;
    }
  }
};

/// Any strides, one plane at a time; each window's greatest goes to take(element of y, greatest).
template <class T, class Y, class F>
void down_planes(const View& x, const View& y, int64_t n, int64_t i, const Axis& down,
                 const Axis& along, F take) {
  const Span h = down.at(i);
  constexpr bool kByColumns = kIsFloat<T> && kLanesOf<T> == kLanes;
  const bool by_columns = kByColumns && x.stride[3] == 1 && x.shape[3] <= Columns::kMaxColumns;
  for (int64_t c = 0; c < x.shape[1]; ++c) {
    const T* plane = x.as<const T>() + n * x.stride[0] + c * x.stride[1];
    Y* to = y.as<Y>() + n * y.stride[0] + c * y.stride[1] + i * y.stride[2];
    if constexpr (kByColumns) {
      Columns columns;
      if (by_columns) columns.take(x, plane, h);
      for (int64_t j = 0; by_columns && j < along.count; ++j, to += y.stride[3]) {
        float value;
        int32_t index;
        columns.among(along.at(j), &value, &index);
        take(to, {value, index});
      }
      if (by_columns) continue;
    }
    for (int64_t j = 0; j < along.count; ++j, to += y.stride[3])
      take(to, greatest(x, plane, {h, along.at(j)}));
  }
}

/// The indices for contiguous channels of types computed in float.
template <class T>
void index_across(const View& x, const View& y, int64_t n, int64_t i, const Axis& down,
                  const Axis& along) {
  const Span h = down.at(i);
  for (int64_t j = 0; j < along.count; ++j) {
    const Span w = along.at(j);
    const T* from = x.as<const T>() + n * x.stride[0];
    int32_t* to = y.as<int32_t>() + n * y.stride[0] + i * y.stride[2] + j * y.stride[3];
    for (int64_t c = 0; c < x.shape[1]; c += kLanes) {
      const int64_t some = x.shape[1] - c < kLanes ? x.shape[1] - c : kLanes;
      VF best = load_some(from + h.begin * x.stride[2] + w.begin * x.stride[3] + c, some);
      VI index = splat(static_cast<int32_t>(h.begin * x.shape[3] + w.begin));
      for (int64_t p = h.begin; p < h.end; ++p)
        for (int64_t q = w.begin; q < w.end; ++q) {
          const VF v = load_some(from + p * x.stride[2] + q * x.stride[3] + c, some);
          const VI here = splat(static_cast<int32_t>(p * x.shape[3] + q));
          const auto better = (v > best) | ((v != v) & (best == best));
          index = better ? here : index;
          best = better ? v : best;
        }
      store_n(to + c, index, some);
    }
  }
}

// -- values alone of planes whose columns are contiguous: windows are vectors, too ---------------
/// Elements of a line with what the padding adds on both sides: there -inf, which beats nothing.
constexpr int64_t kLinePadding = 1024;

template <class V>
PROA_INLINE V greater(V v, V best) {
  return ((v > best) | (v != v)) ? v : best;
}

/// Every second of twice as many elements as a vector has.
PROA_INLINE VF every_second(const float* p) {
  VU even;
  for (int k = 0; k < kLanes; ++k) even[k] = static_cast<uint32_t>(2 * k);
  return bit_cast<VF>(shuffle(bit_cast<VU>(load(p)), bit_cast<VU>(load(p + kLanes)), even));
}

/// Elements of a padded line that windows read, whole vectors of them; more than there is room for
/// where lines are too long.
inline int64_t line_reach(const Axis& along) {
  const int64_t whole = (along.count + kLanes - 1) / kLanes * kLanes;
  const int64_t windows = whole * along.stride + along.kernel + kLanes;
  const int64_t columns = along.padding + along.size + kLanes;
  return windows > columns ? windows : columns;
}
inline bool takes_lines(const View& x, const View& y, const Axis& along) {
  return x.stride[3] == 1 && y.stride[3] == 1 && along.kernel > 0 && along.stride <= 2 &&
         line_reach(along) <= kLinePadding;
}

/// A line of windows over rows h of a plane. `line` holds -inf but for the columns.
template <class T>
void max_line(const View& x, const T* plane, Span h, const Axis& along, float* line, T* to) {
  float* const columns = line + along.padding;
  for (int64_t q = 0; q < along.size; q += kLanes) {
    const int64_t some = along.size - q < kLanes ? along.size - q : kLanes;
    const T* row = plane + h.begin * x.stride[2] + q;
    VF best = load_n(row, some);
    for (int64_t p = h.begin + 1; p < h.end; ++p) {
      row += x.stride[2];
      best = greater(static_cast<VF>(load_n(row, some)), best);
    }
    store_n(columns + q, best, some);
  }
  for (int64_t j = 0; j < along.count; j += kLanes) {
    const int64_t some = along.count - j < kLanes ? along.count - j : kLanes;
    const float* from = line + j * along.stride;
    auto take = [&](int64_t q) {
      return along.stride == 1 ? load(from + q) : every_second(from + q);
    };
    VF best = take(0);
    for (int64_t q = 1; q < along.kernel; ++q) best = greater(take(q), best);
    store_n(to + j, best, some);
  }
}

template <class T>
void max_planes(const Call& call, const View& x, const View& y, const Axis& down,
                const Axis& along) {
  const int64_t work = y.shape[2] * y.shape[3] * down.kernel * along.kernel;
  parallel_for(call, y.shape[0] * y.shape[1], 1 + kCopyTask / (work + 1),
               [&](int64_t b, int64_t e) {
                 alignas(64) float line[kLinePadding];
                 for (float& v : line) v = -INFINITY;
                 for (int64_t k = b; k < e; ++k) {
                   const int64_t n = k / y.shape[1], c = k % y.shape[1];
                   const T* plane = x.as<const T>() + n * x.stride[0] + c * x.stride[1];
                   T* to = y.as<T>() + n * y.stride[0] + c * y.stride[1];
                   for (int64_t i = 0; i < y.shape[2]; ++i)
                     max_line(x, plane, down.at(i), along, line, to + i * y.stride[2]);
                 }
               });
}

template <class T>
void max_pool(const Call& call, const Axis& down, const Axis& along) {
  const View &x = call.in[0], &y = call.out[0];
  // Small libraries do without: results are the same.
  if constexpr (computes(DType::kF64) && kIsFloat<T> && kLanesOf<T> == kLanes) {
    if (takes_lines(x, y, along) && !(channels_adjoin(x) && channels_adjoin(y)))
      return max_planes<T>(call, x, y, down, along);
  }
  for_each_line(call, y, down.kernel * along.kernel, [&](int64_t n, int64_t i) {
    if constexpr (kIsFloat<T>) {
      if (channels_adjoin(x) && channels_adjoin(y)) return max_across<T>(x, y, n, i, down, along);
    }
    down_planes<T, T>(x, y, n, i, down, along,
                      [](T* to, const Greatest<T>& g) { *to = static_cast<T>(g.value); });
  });
}

template <class T>
void max_index(const Call& call, const Axis& down, const Axis& along) {
  const View &x = call.in[0], &y = call.out[0];
  for_each_line(call, y, down.kernel * along.kernel, [&](int64_t n, int64_t i) {
    if constexpr (kIsFloat<T> && kLanesOf<T> == kLanes) {
      if (channels_adjoin(x) && channels_adjoin(y)) return index_across<T>(x, y, n, i, down, along);
    }
    down_planes<T, int32_t>(x, y, n, i, down, along, [](int32_t* to, const Greatest<T>& g) {
      *to = static_cast<int32_t>(g.index);
    });
  });
}

typedef int8_t Bytes __attribute__((vector_size(16)));

PROA_INLINE Bytes bytes_at(const int8_t* p) {
  Bytes v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

/// The greatest of `count` vectors, `step` bytes apart.
PROA_INLINE Bytes greatest_bytes(const int8_t* p, int64_t count, int64_t step) {
  Bytes best = bytes_at(p);
  for (int64_t k = 1; k < count; ++k) {
    const Bytes v = bytes_at(p + k * step);
    best = v > best ? v : best;
  }
  return best;
}

/// Bytes of a line whose columns' greatest are kept.
constexpr int64_t kBytePadding = 16384;

/// int8 channels-last, for quantized networks, `some` channels from c on: of each column first, as
/// few channels fill no vector, and then of the columns of each window.
void max_bytes(const View& x, const View& y, int64_t n, int64_t i, int64_t c, int64_t some,
               const Axis& down, const Axis& along) {
  constexpr int64_t kWide = sizeof(Bytes);
  int8_t line[kBytePadding + kWide];
  const Span h = down.at(i);
  const int64_t rows = h.end - h.begin, step = x.stride[2];
  const int8_t* from = x.as<const int8_t>() + n * x.stride[0] + h.begin * step + c;
  const bool one_run = x.stride[3] == some;
  const int64_t runs = one_run ? 1 : along.size, length = one_run ? along.size * some : some;
  int8_t* maxima = line;
  for (int64_t q = 0; q < runs; ++q, from += x.stride[3], maxima += length) {
    int64_t k = 0;
    for (; k + kWide <= length; k += kWide) {
      const Bytes best = greatest_bytes(from + k, rows, step);
      __builtin_memcpy(maxima + k, &best, sizeof best);
    }
    for (; k < length; ++k) {
      int8_t best = from[k];
      for (int64_t p = 1; p < rows; ++p)
        best = from[k + p * step] > best ? from[k + p * step] : best;
      maxima[k] = best;
    }
  }
  __builtin_memset(line + along.size * some, 0, kWide);
  int8_t* to = y.as<int8_t>() + n * y.stride[0] + i * y.stride[2] + c;
  const bool runs_on = y.stride[3] == some;  // what is written too far is written again
  for (int64_t j = 0; j < along.count; ++j, to += y.stride[3]) {
    const Span w = along.at(j);
    const int64_t left = runs_on ? (along.count - j) * some : some;
    for (int64_t k = 0; k < some; k += kWide) {
      const Bytes best = greatest_bytes(line + w.begin * some + k, w.end - w.begin, some);
      if (left - k >= kWide) {
        __builtin_memcpy(to + k, &best, sizeof best);
      } else {
        for (int64_t b = 0; b < some - k && b < kWide; ++b) to[k + b] = best[b];
      }
    }
  }
}

Status pool(const Call& c, const Axis& down, const Axis& along, int64_t area) {
  const View &x = c.in[0], &y = c.out[0];
  const bool fits = along.size > 0 && along.size <= kBytePadding;
  if (x.dtype == DType::kI8 && fits && channels_adjoin(x) && channels_adjoin(y)) {
    const int64_t block = kBytePadding / along.size;
    for_each_line(c, y, area, [&](int64_t n, int64_t i) {
      for (int64_t k = 0; k < x.shape[1]; k += block) {
        max_bytes(x, y, n, i, k, x.shape[1] - k < block ? x.shape[1] - k : block, down, along);
      }
    });
    return Status::kOk;
  }
  PROA_REAL(x.dtype, T, max_pool<T>(c, down, along));
  return Status::kOk;
}

Status index(const Call& c, const Axis& down, const Axis& along) {
  PROA_REAL(c.in[0].dtype, T, max_index<T>(c, down, along));
  return Status::kOk;
}

}  // namespace

Status max_pool2d(const Call& c) {
  const auto& a = c.attr<MaxPool2dAttrs>();
  const View &x = c.in[0], &y = c.out[0];
  return pool(c, axis_of(a, 0, x.shape[2], y.shape[2]), axis_of(a, 1, x.shape[3], y.shape[3]),
              a.kernel[0] * a.kernel[1]);
}

Status max_pool2d_index(const Call& c) {
  const auto& a = c.attr<MaxPool2dIndexAttrs>();
  const View &x = c.in[0], &y = c.out[0];
  return index(c, axis_of(a, 0, x.shape[2], y.shape[2]), axis_of(a, 1, x.shape[3], y.shape[3]));
}

Status adaptive_max_pool2d(const Call& c) {
  const View &x = c.in[0], &y = c.out[0];
  return pool(c, adaptive_axis(2, x, y), adaptive_axis(3, x, y), 4);
}

Status adaptive_max_pool2d_index(const Call& c) {
  const View &x = c.in[0], &y = c.out[0];
  return index(c, adaptive_axis(2, x, y), adaptive_axis(3, x, y));
}

}  // namespace proa::PROA_ISA
