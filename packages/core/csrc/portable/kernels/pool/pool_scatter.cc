// Moving values by the indices of max_pool2d_index: h * W + w within a plane.
#include <string.h>

#include "proa/base/call.h"
#include "proa/base/dispatch.h"
#include "proa/base/expect.h"
#include "proa/base/inline.h"

namespace proa::PROA_ISA {
namespace {

/// Windows of an image that follow each other in v, along channels or columns.
struct Run {
  int64_t v, index;            // offsets of the first window
  int64_t v_step, index_step;  // between windows
  int64_t channel, channel_step, count;
};
template <class F>
void for_each_run(const View& v, const View& index, int64_t n, F body) {
  // Channels innermost where they are contiguous, else the columns.
  const bool across = v.stride[1] < v.stride[3];
  const int order[3] = {across ? 2 : 1, across ? 3 : 2, across ? 1 : 3};
  const int in = order[2];
  int64_t at[4] = {n, 0, 0, 0};
  for (at[order[0]] = 0; at[order[0]] < v.shape[order[0]]; ++at[order[0]])
    for (at[order[1]] = 0; at[order[1]] < v.shape[order[1]]; ++at[order[1]]) {
      Run r = {0, 0, v.stride[in], index.stride[in], at[1], across ? 1 : 0, v.shape[in]};
      for (int d = 0; d < 4; ++d) {
        r.v += at[d] * v.stride[d];
        r.index += at[d] * index.stride[d];
      }
      body(r);
    }
}

/// Element of plane c of image n by index.
PROA_INLINE int64_t offset_at(const View& x, int64_t n, int64_t c, int32_t index) {
  // Rows that follow each other need no division.
  if (x.stride[2] == x.stride[3] * x.shape[3])
    return n * x.stride[0] + c * x.stride[1] + index * x.stride[3];
  const int32_t width = static_cast<int32_t>(x.shape[3]);
  return n * x.stride[0] + c * x.stride[1] + index / width * x.stride[2] +
         index % width * x.stride[3];
}

template <class T>
void scatter(const Call& call) {
  const View &dy = call.in[0], &index = call.in[1], &dx = call.out[0];
  const int64_t image = dx.shape[1] * dx.shape[2] * dx.shape[3];
  parallel_for(call, dx.shape[0], 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      T* const to = dx.as<T>();
      if (dx.contiguous() || dx.channels_last())
        memset(static_cast<void*>(to + n * image), 0, static_cast<size_t>(image) * sizeof(T));
      else
        for (int64_t c = 0; c < dx.shape[1]; ++c)
          for (int32_t i = 0; i < dx.shape[2] * dx.shape[3]; ++i)
            to[offset_at(dx, n, c, i)] = static_cast<T>(0);
      for_each_run(dy, index, n, [&](const Run& r) {
        const T* from = dy.as<const T>() + r.v;
        const int32_t* argmax = index.as<const int32_t>() + r.index;
        for (int64_t k = 0, c = r.channel; k < r.count; ++k, c += r.channel_step) {
          T& d = to[offset_at(dx, n, c, argmax[k * r.index_step])];
          d = static_cast<T>(static_cast<Compute<T>>(d) +
                             static_cast<Compute<T>>(from[k * r.v_step]));
        }
      });
    }
  });
}

template <class T>
void gather(const Call& call) {
  const View &x = call.in[0], &index = call.in[1], &y = call.out[0];
  parallel_for(call, y.shape[0], 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n)
      for_each_run(y, index, n, [&](const Run& r) {
        T* to = y.as<T>() + r.v;
        const int32_t* argmax = index.as<const int32_t>() + r.index;
        for (int64_t k = 0, c = r.channel; k < r.count; ++k, c += r.channel_step)
          to[k * r.v_step] = x.as<const T>()[offset_at(x, n, c, argmax[k * r.index_step])];
      });
  });
}

// True if every index is one of a plane of x. They may be a user's, of max_unpool2d.
bool indices_fit(const Call& call, const View& index, const View& x) {
  // Places are 32 bits wide: a larger plane holds every one that is not negative.
  const int64_t size = x.shape[2] * x.shape[3];
  const auto plane = static_cast<uint32_t>(size < INT32_MAX ? size : INT32_MAX);
  bool inside = true;
  parallel_for(call, index.shape[0], 1, [&](int64_t begin, int64_t end) {
    bool own = true;
    for (int64_t n = begin; n < end; ++n) {
      for_each_run(index, index, n, [&](const Run& r) {
        const int32_t* argmax = index.as<const int32_t>() + r.index;
        for (int64_t k = 0; k < r.count; ++k)
          own &= static_cast<uint32_t>(argmax[k * r.index_step]) < plane;
      });
    }
    if (!own) __atomic_store_n(&inside, false, __ATOMIC_RELAXED);
  });
  return inside;
}

}  // namespace

Status pool_scatter(const Call& c) {
  PROA_EXPECT(c, c.in[1].dtype == DType::kI32, "index of int32", dtype_of(c, 1));
  if (!indices_fit(c, c.in[1], c.out[0])) return Status::kOutOfRange;
  PROA_FLOATING(c.in[0].dtype, T, scatter<T>(c));
  return Status::kOk;
}

Status pool_gather(const Call& c) {
  PROA_EXPECT(c, c.in[1].dtype == DType::kI32, "index of int32", dtype_of(c, 1));
  if (!indices_fit(c, c.in[1], c.in[0])) return Status::kOutOfRange;
  PROA_FLOATING(c.in[0].dtype, T, gather<T>(c));
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
