#include "proa/kernels/norm/channel_map.h"

#include "proa/base/dispatch.h"
#include "proa/base/task_size.h"
#include "proa/simd/vec.h"

namespace proa::PROA_ISA {
namespace {

/// Some contiguous channels of one element; kWhole of them if that is a whole vector.
template <bool kWhole, bool kGated, class T>
PROA_INLINE void map_vector(const T* x, const T* other_row, T* to, const Factors<Compute<T>>& f,
                            const Gate& gate, int64_t j, int64_t some) {
  if constexpr (kWhole) {
    prefetch_ahead(x + j);
    prefetch_ahead(to + j);
  }
  auto take = [&](const auto* p) { return kWhole ? load(p + j) : load_n(p + j, some); };
  const Vec<T> here = take(x), center = take(f.center);
  Vec<T> v = normalised<Vec<T>>(here, center, take(f.a), take(f.k));
  if constexpr (kGated)
    v += passed<Vec<T>>(here, take(other_row), center, take(gate.a), take(gate.k)) * take(f.b);
  else if (other_row != nullptr)
    v += take(other_row) * take(f.b);
  if constexpr (kWhole)
    store(to + j, v);
  else
    store_n(to + j, v, some);
}

/// Channels are contiguous in all arrays.
template <bool kGated, class T>
void map_across(const Columns& x, const Columns* other, const Columns& out,
                const Factors<Compute<T>>& f, const Gate& gate, int64_t begin, int64_t end) {
  constexpr int kWidth = kLanesOf<T>;
  for (int64_t r = begin; r < end; ++r) {
    const T* from = static_cast<const T*>(x.data) + x.rows.at(r);
    const T* other_row = other ? static_cast<const T*>(other->data) + other->rows.at(r) : nullptr;
    T* to = static_cast<T*>(const_cast<void*>(out.data)) + out.rows.at(r);
    int64_t j = 0;
    for (; j + kWidth <= x.n; j += kWidth)
      map_vector<true, kGated>(from, other_row, to, f, gate, j, kWidth);
    if (j < x.n) map_vector<false, kGated>(from, other_row, to, f, gate, j, x.n - j);
  }
}

/// Any strides: channel by channel, in runs of elements at equal distances. The last channel comes
/// first: the sums have just read it, so it is still in cache.
template <class T>
void map_down(const Columns& x, const Columns* other, const Columns& out,
              const Factors<Compute<T>>& f, int64_t begin, int64_t end) {
  using C = Compute<T>;
  constexpr int kWidth = kLanesOf<T>;
  constexpr int64_t kAhead = kAheadBytes / static_cast<int64_t>(sizeof(T));
  const Columns& y = other != nullptr ? *other : x;
  const int64_t xs = x.rows.step(), ys = y.rows.step(), os = out.rows.step();
  for (int64_t j = x.n - 1; j >= 0; --j) {
    const C center = f.center[j], a = f.a[j], b = f.b[j], k = f.k[j];
    for (int64_t r = begin; r < end;) {
      int64_t n = x.rows.evenly_spaced(r, end);
      const int64_t two = y.rows.evenly_spaced(r, end), three = out.rows.evenly_spaced(r, end);
      n = two < n ? two : n;
      n = three < n ? three : n;
      const T* from = static_cast<const T*>(x.data) + j * x.stride + x.rows.at(r);
      const T* other_row = static_cast<const T*>(y.data) + j * y.stride + y.rows.at(r);
      T* to = static_cast<T*>(const_cast<void*>(out.data)) + j * out.stride + out.rows.at(r);
      int64_t i = 0;
      if (xs == 1 && ys == 1 && os == 1)
        for (; i + kWidth <= n; i += kWidth) {
          __builtin_prefetch(from - x.stride + i);  // the next channel
          __builtin_prefetch(other_row - y.stride + i);
          const int64_t t = i + kAhead;
          prefetch(t < n ? to + t : to - out.stride + (t - n));
          store(to + i, (load(from + i) - center) * a +
                            (other == nullptr ? Vec<T>{} + k : load(other_row + i) * b + k));
        }
      for (; i < n; ++i)
        to[i * os] =
            static_cast<T>((static_cast<C>(from[i * xs]) - center) * a +
                           (other == nullptr ? k : static_cast<C>(other_row[i * ys]) * b + k));
      r += n;
    }
  }
}

template <class T>
void map(const Call& call, const Columns& x, const Columns* other, const Columns& out,
         const Factors<Compute<T>>& f) {
  const bool across = x.stride == 1 && out.stride == 1 && (other == nullptr || other->stride == 1);
  parallel_for(call, x.count, 1 + kElementTask / (x.n + 1), [&](int64_t begin, int64_t end) {
    if (across)
      map_across<false, T>(x, other, out, f, {}, begin, end);
    else
      map_down<T>(x, other, out, f, begin, end);
  });
}

}  // namespace

Status map_channels(const Call& call, const Columns& x, const Columns* other, const Columns& out,
                    void* factors, int64_t apart) {
  PROA_FLOATING(x.dtype, T, map<T>(call, x, other, out, {factors, apart}));
  return Status::kOk;
}

void map_gated_channels(const Call& call, const Columns& x, const Columns& other,
                        const Columns& out, void* factors, int64_t apart, const Gate& gate) {
  const Factors<float> f(factors, apart);
  parallel_for(call, x.count, 1 + kElementTask / (x.n + 1), [&](int64_t begin, int64_t end) {
    map_across<true, float>(x, &other, out, f, gate, begin, end);
  });
}

}  // namespace proa::PROA_ISA
