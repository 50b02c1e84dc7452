#include "proa/kernels/conv/weight_sums.h"

#include "proa/base/arith.h"
#include "proa/base/dispatch.h"
#include "proa/base/task_size.h"
#include "proa/simd/gemm/pack.h"

namespace proa::PROA_ISA {
namespace {

constexpr int64_t kDepth = 64;  // channels at a time, so that the lines written stay in the cache
constexpr int64_t kTaps = 64;   // up to which their kernels are converted before they are written

/// Channels [first, first + count) of a tap of out o.
template <class T>
void add_parts(const Convolution& c, const WeightSums& s, int64_t o, int64_t tap, int64_t first,
               int64_t count, T* to) {
  const T* from =
      static_cast<const T*>(s.sums) + o * s.out + (tap * c.channels.in + first) * s.element;
  for (int64_t d = 0; d < count; ++d) {
    T sum = from[d * s.element];
    for (int64_t p = 1; p < s.parts; ++p) sum += from[p * s.part + d * s.element];
    to[d] = sum;
  }
}

/// The same, as where sums are contiguous and whole they need not be copied.
template <class T>
const T* whole_sums(const Convolution& c, const WeightSums& s, int64_t o, int64_t tap,
                    int64_t first, int64_t count, T* buffer) {
  if (s.parts == 1 && s.element == 1)
    return static_cast<const T*>(s.sums) + o * s.out + tap * c.channels.in + first;
  add_parts(c, s, o, tap, first, count, buffer);
  return buffer;
}

/// Elements of 2 bytes whose taps are innermost are converted by vectors, then written in order.
template <class S>
void write_half(const Convolution& c, const WeightSums& s, int64_t o, const View& dw, S* to) {
  const int64_t taps = c.window.taps();
  float buffer[kDepth];
  S converted[kTaps * kDepth];
  for (int64_t first = 0; first < c.channels.in; first += kDepth) {
    const int64_t count = min(c.channels.in - first, kDepth);
    for (int64_t t = 0; t < taps; ++t)
      narrow(whole_sums(c, s, o, t, first, count, buffer), dw.dtype, 1, count,
             taps == 1 ? to + first : converted + t * kDepth);
    if (taps == 1) continue;
    for (int64_t d = 0; d < count; ++d)
      for (int64_t t = 0; t < taps; ++t) to[(first + d) * taps + t] = converted[t * kDepth + d];
  }
}

template <class S>
void write_any(const Convolution& c, const WeightSums& s, int64_t o, const View& dw, S* to) {
  using T = Compute<S>;
  T buffer[kDepth];
  for (int64_t first = 0; first < c.channels.in; first += kDepth)
    for (int64_t tap = 0; tap < c.window.taps(); ++tap) {
      const int64_t count = min(c.channels.in - first, kDepth);
      const T* from = whole_sums(c, s, o, tap, first, count, buffer);
      S* const y = to + tap / c.window.kernel_w * dw.stride[2] +
                   tap % c.window.kernel_w * dw.stride[3] + first * dw.stride[1];
      for (int64_t d = 0; d < count; ++d) y[d * dw.stride[1]] = static_cast<S>(from[d]);
    }
}

template <class S>
void write(const Call& call, const Convolution& c, const WeightSums& s, int64_t group,
           const View& dw) {
  const int64_t taps = c.window.taps(), window = taps * c.channels.in;
  const bool innermost = dw.stride[1] == taps &&
                         (taps == 1 || (dw.stride[3] == 1 && dw.stride[2] == c.window.kernel_w));
  parallel_for(call, c.channels.out, 1 + kElementTask / (window + 1),
               [&](int64_t begin, int64_t end) {
                 for (int64_t o = begin; o < end; ++o) {
                   S* const to = dw.as<S>() + (group * c.channels.out + o) * dw.stride[0];
                   if constexpr (sizeof(S) == 2 && !kSmallBuild) {
                     if (innermost && taps <= kTaps) {
                       write_half(c, s, o, dw, to);
                       continue;
                     }
                   }
                   write_any(c, s, o, dw, to);
                 }
               });
}

}  // namespace

Status write_weight_sums(const Call& call, const Convolution& c, const WeightSums& s, int64_t group,
                         const View& dw) {
  PROA_FLOATING(dw.dtype, S, write<S>(call, c, s, group, dw));
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
