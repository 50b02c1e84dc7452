// Weighted sums of rows named by an index, which is what bilinear sampling, pooling of regions and
// bags of embeddings come to; and the two gradients, which are each other's.
#include "proa/base/dispatch.h"
#include "proa/base/task_size.h"
#include "proa/kernels/movement/copy.h"
#include "proa/simd/vec.h"

namespace proa::PROA_ISA {
namespace {

constexpr int64_t kBand = 64;  // columns that one task adds to

/// True if every index is below `rows`; those below 0 are ignored.
template <class I>
bool all_below(const View& index, int64_t rows) {
  bool inside = true;
  for (int64_t r = 0; r < index.shape[0]; ++r)
    for (int64_t k = 0; k < index.shape[1]; ++k)
      inside &= index.as<const I>()[r * index.stride[0] + k * index.stride[1]] < rows;
  return inside;
}

int64_t index_at(const View& index, int64_t r, int64_t k) {
  const int64_t at = r * index.stride[0] + k * index.stride[1];
  return index.dtype == DType::kI64 ? index.as<const int64_t>()[at] : index.as<const int32_t>()[at];
}

template <class T>
Compute<T> number_at(const View& v, int64_t r, int64_t k) {
  return static_cast<Compute<T>>(v.as<const T>()[r * v.stride[0] + k * v.stride[1]]);
}

Status check(const View& index, int64_t rows) {
  const bool inside = index.dtype == DType::kI64 ? all_below<int64_t>(index, rows)
                                                 : all_below<int32_t>(index, rows);
  return inside ? Status::kOk : Status::kOutOfRange;
}

bool adjoin(const View& v) { return v.shape[1] == 1 || v.stride[1] == 1; }

/// y = sum over k of weight[r, k] * x[index[r, k]], a vector of columns at a time.
template <class T>
void blend_row(const Call& c, int64_t r) {
  constexpr int kWidth = kLanesOf<T>;
  const View &x = c.in[0], &index = c.in[1], &y = c.out[0];
  T* to = y.as<T>() + r * y.stride[0];
  for (int64_t at = 0; at < x.shape[1]; at += kWidth) {
    const int64_t some = x.shape[1] - at < kWidth ? x.shape[1] - at : kWidth;
    Vec<T> sum = {};
    for (int64_t k = 0; k < index.shape[1]; ++k) {
      const int64_t i = index_at(index, r, k);
      if (i < 0) continue;
      sum += load_n(x.as<const T>() + i * x.stride[0] + at, some) * number_at<T>(c.in[2], r, k);
    }
    store_n(to + at, sum, some);
  }
}

/// The same for columns that are not contiguous.
template <class T>
void blend_row_apart(const Call& c, int64_t r) {
  const View &x = c.in[0], &index = c.in[1], &y = c.out[0];
  for (int64_t at = 0; at < x.shape[1]; ++at) {
    Compute<T> sum = 0;
    for (int64_t k = 0; k < index.shape[1]; ++k) {
      const int64_t i = index_at(index, r, k);
      if (i >= 0) sum += number_at<T>(x, i, at) * number_at<T>(c.in[2], r, k);
    }
    y.as<T>()[r * y.stride[0] + at * y.stride[1]] = static_cast<T>(sum);
  }
}

template <class T>
void blend(const Call& c) {
  const View &index = c.in[1], &y = c.out[0];
  const bool whole = adjoin(c.in[0]) && adjoin(y);
  const int64_t work = index.shape[1] * y.shape[1];
  parallel_for(c, y.shape[0], 1 + kElementTask / (work + 1), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) whole ? blend_row<T>(c, r) : blend_row_apart<T>(c, r);
  });
}

/// Rows may be named twice, so tasks share out the columns.
template <class T>
void scatter(const Call& c) {
  const View &dy = c.in[0], &index = c.in[1], &dx = c.out[0];
  const int64_t width = dx.shape[1];
  parallel_for(c, (width + kBand - 1) / kBand, 1, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kBand, last = end * kBand < width ? end * kBand : width;
    for (int64_t r = 0; r < index.shape[0]; ++r)
      for (int64_t k = 0; k < index.shape[1]; ++k) {
        const int64_t i = index_at(index, r, k);
        if (i < 0) continue;
        const Compute<T> w = number_at<T>(c.in[2], r, k);
        T* to = dx.as<T>() + i * dx.stride[0];
        for (int64_t at = first; at < last; ++at) {
          T& d = to[at * dx.stride[1]];
          d = static_cast<T>(static_cast<Compute<T>>(d) + w * number_at<T>(dy, r, at));
        }
      }
  });
}

template <class T>
void dot(const Call& c) {
  const View &dy = c.in[0], &x = c.in[1], &index = c.in[2], &dw = c.out[0];
  const int64_t width = x.shape[1];
  parallel_for(c, index.shape[0], 1 + kElementTask / (index.shape[1] * width + 1),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end; ++r)
                   for (int64_t k = 0; k < index.shape[1]; ++k) {
                     const int64_t i = index_at(index, r, k);
                     Compute<T> sum = 0;
                     for (int64_t at = 0; i >= 0 && at < width; ++at)
                       sum += number_at<T>(dy, r, at) * number_at<T>(x, i, at);
                     dw.as<T>()[r * dw.stride[0] + k * dw.stride[1]] = static_cast<T>(sum);
                   }
               });
}

}  // namespace

Status blend_rows(const Call& c) {
  PROA_TRY(check(c.in[1], c.in[0].shape[0]));
  PROA_FLOATING(c.in[0].dtype, T, blend<T>(c));
  return Status::kOk;
}

Status blend_rows_scatter(const Call& c) {
  PROA_TRY(check(c.in[1], c.out[0].shape[0]));
  PROA_TRY(clear(c, c.out[0]));
  PROA_FLOATING(c.in[0].dtype, T, scatter<T>(c));
  return Status::kOk;
}

Status blend_rows_dot(const Call& c) {
  PROA_TRY(check(c.in[2], c.in[1].shape[0]));
  PROA_FLOATING(c.in[0].dtype, T, dot<T>(c));
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
