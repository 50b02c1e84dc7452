// Moving values by the indices of max_pool2d_index: h * W + w within a plane.
#include <string.h>

#include "proa/base/call.h"
#include "proa/base/dispatch.h"
#include "proa/base/inline.h"

namespace proa::PROA_ISA {
namespace {

/// Calls body(index, offset in v) for each window of image n, walking v in its memory order.
template <class F>
void for_each_window(const View& v, const View& index, int64_t n, F body) {
  const int32_t* from = index.as<const int32_t>() + n * index.stride[0];
  // Channels innermost where they are neighbours, else the columns.
  const bool across = v.stride[1] < v.stride[3];
  const int order[3] = {across ? 2 : 1, across ? 3 : 2, across ? 1 : 3};
  int64_t at[4] = {n, 0, 0, 0};
  for (at[order[0]] = 0; at[order[0]] < v.shape[order[0]]; ++at[order[0]])
    for (at[order[1]] = 0; at[order[1]] < v.shape[order[1]]; ++at[order[1]])
      for (at[order[2]] = 0; at[order[2]] < v.shape[order[2]]; ++at[order[2]]) {
        int64_t offset = n * v.stride[0], place = 0;
        for (int d = 1; d < 4; ++d) {
          offset += at[d] * v.stride[d];
          place += at[d] * index.stride[d];
        }
        body(from[place], at[1], offset);
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
      for_each_window(dy, index, n, [&](int32_t i, int64_t c, int64_t offset) {
        T& d = to[offset_at(dx, n, c, i)];
        d = static_cast<T>(static_cast<Compute<T>>(d) +
                           static_cast<Compute<T>>(dy.as<const T>()[offset]));
      });
    }
  });
}

template <class T>
void gather(const Call& call) {
  const View &x = call.in[0], &index = call.in[1], &y = call.out[0];
  parallel_for(call, y.shape[0], 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n)
      for_each_window(y, index, n, [&](int32_t i, int64_t c, int64_t offset) {
        y.as<T>()[offset] = x.as<const T>()[offset_at(x, n, c, i)];
      });
  });
}

// True if every index is one of a plane of x. They may be a user's, of max_unpool2d.
bool indices_fit(const Call& call, const View& index, const View& x) {
  const auto plane = static_cast<uint64_t>(x.shape[2] * x.shape[3]);
  bool inside = true;
  parallel_for(call, index.shape[0], 1, [&](int64_t begin, int64_t end) {
    bool own = true;
    for (int64_t n = begin; n < end; ++n) {
      for_each_window(index, index, n, [&](int32_t i, int64_t, int64_t) {
        own &= static_cast<uint64_t>(static_cast<int64_t>(i)) < plane;
      });
    }
    if (!own) __atomic_store_n(&inside, false, __ATOMIC_RELAXED);
  });
  return inside;
}

}  // namespace

Status pool_scatter(const Call& c) {
  if (c.in[1].dtype != DType::kI32) return Status::kInvalidArgument;
  if (!indices_fit(c, c.in[1], c.out[0])) return Status::kOutOfRange;
  PROA_FLOATING(c.in[0].dtype, T, scatter<T>(c));
  return Status::kOk;
}

Status pool_gather(const Call& c) {
  if (c.in[1].dtype != DType::kI32) return Status::kInvalidArgument;
  if (!indices_fit(c, c.in[1], c.in[0])) return Status::kOutOfRange;
  PROA_FLOATING(c.in[0].dtype, T, gather<T>(c));
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
